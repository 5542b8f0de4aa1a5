/* Litmus tests of memory orders, one by name. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define rlx memory_order_relaxed
#define con memory_order_consume
#define acq memory_order_acquire
#define rel memory_order_release
#define ar memory_order_acq_rel
#define sc memory_order_seq_cst

static int data;

/* A read that stays. */
#define USE(value) __asm__ volatile("" : : "r"(value))

static atomic_int flag, other, relay;

#define AWAIT(variable, value, order) \
    while (atomic_load_explicit(&variable, order) != (value)) sched_yield()

#define THREAD(name, ...) \
    static void *name(void *unused) { \
        __VA_ARGS__ \
        return unused; \
    }

/* Handing data over. */
#define SET(order) atomic_store_explicit(&flag, 1, order);
THREAD(w_rlx, data = 1; SET(rlx))
THREAD(w_rel, data = 1; SET(rel))
THREAD(w_sc, data = 1; SET(sc))
THREAD(w_frel, data = 1; atomic_thread_fence(rel); SET(rlx))
THREAD(w_far, data = 1; atomic_thread_fence(ar); SET(rlx))
THREAD(w_fsc, data = 1; atomic_thread_fence(sc); SET(rlx))
THREAD(w_flate, data = 1; SET(rlx) atomic_thread_fence(rel);)
THREAD(w_fwrong, data = 1; atomic_thread_fence(acq); SET(rlx))
THREAD(r_rlx, AWAIT(flag, 1, rlx); USE(data);)
THREAD(r_con, AWAIT(flag, 1, con); USE(data);)
THREAD(r_acq, AWAIT(flag, 1, acq); USE(data);)
THREAD(r_sc, AWAIT(flag, 1, sc); USE(data);)
THREAD(r_facq, AWAIT(flag, 1, rlx); atomic_thread_fence(acq); USE(data);)
THREAD(r_far, AWAIT(flag, 1, rlx); atomic_thread_fence(ar); USE(data);)
THREAD(r_fsc, AWAIT(flag, 1, rlx); atomic_thread_fence(sc); USE(data);)
THREAD(r_fearly, atomic_thread_fence(acq); AWAIT(flag, 1, rlx); USE(data);)
THREAD(r_fwrong, AWAIT(flag, 1, rlx); atomic_thread_fence(rel); USE(data);)

/* Release sequences. */
THREAD(s_rmw, AWAIT(flag, 1, rlx); atomic_fetch_add_explicit(&flag, 1, rlx);)
THREAD(s_rmw2, AWAIT(flag, 2, rlx); atomic_fetch_add_explicit(&flag, 1, rlx);)
THREAD(s_store, AWAIT(flag, 1, rlx); atomic_store_explicit(&flag, 2, rel);)
THREAD(s_own, data = 1; SET(rel) atomic_store_explicit(&flag, 2, rlx);)
/* Waiting acquires nothing: the last read alone does, whatever was seen on the way. */
THREAD(r_two, AWAIT(flag, 2, rlx); AWAIT(flag, 2, acq); USE(data);)
THREAD(r_three, AWAIT(flag, 3, rlx); AWAIT(flag, 3, acq); USE(data);)

/* Compare-exchange: what it reads if it succeeds has one order, what it reads if it fails another one. */
#define EXCHANGE_UNTIL(condition, expect, success, failure) \
    for (;;) { \
        int seen = expect; \
        _Bool done = atomic_compare_exchange_strong_explicit(&flag, &seen, 1, success, failure); \
        if (condition) break; \
        sched_yield(); \
    }
THREAD(x_write_rel, data = 1; EXCHANGE_UNTIL(done, 0, rel, rlx))
THREAD(x_write_rlx, data = 1; EXCHANGE_UNTIL(done, 0, rlx, rlx))
THREAD(x_done_acq, EXCHANGE_UNTIL(done, 1, acq, rlx) USE(data);)
THREAD(x_done_rlx, EXCHANGE_UNTIL(done, 1, rlx, rlx) USE(data);)
THREAD(x_failed_acq, EXCHANGE_UNTIL(!done && seen == 1, 7, acq, acq) USE(data);)
THREAD(x_failed_rlx, EXCHANGE_UNTIL(!done && seen == 1, 7, ar, rlx) USE(data);)
THREAD(x_failed_facq, EXCHANGE_UNTIL(!done && seen == 1, 7, rlx, rlx) atomic_thread_fence(acq); USE(data);)

/* Attempts that fail. The second thread comes while the first one holds the lock, or after it has posted. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static sem_t posted;
THREAD(a_hold, data = 1; pthread_mutex_lock(&held); AWAIT(other, 1, rlx); pthread_mutex_unlock(&held);)
THREAD(a_try,
    while (!pthread_mutex_trylock(&held)) {
        pthread_mutex_unlock(&held);
        sched_yield();
    }
    USE(data);
    atomic_store_explicit(&other, 1, rlx);)
THREAD(a_wait,
    while (!pthread_mutex_trylock(&held)) {
        pthread_mutex_unlock(&held);
        sched_yield();
    }
    atomic_store_explicit(&other, 1, rlx);
    pthread_mutex_lock(&held);
    USE(data);
    pthread_mutex_unlock(&held);)
THREAD(a_post, data = 1; sem_post(&posted);)
THREAD(a_look, int count = 0; while (!count) { sched_yield(); sem_getvalue(&posted, &count); } USE(data);)
THREAD(a_pass, while (sem_trywait(&posted)) sched_yield(); USE(data);)

/* Sequence locks. */
static atomic_int part;
THREAD(lock_write_atomic,
    atomic_store_explicit(&flag, 1, rlx); atomic_thread_fence(rel);
    atomic_store_explicit(&part, 7, rlx);
    atomic_store_explicit(&flag, 2, rel);)
THREAD(lock_read_atomic, for (;;) {
    int before = atomic_load_explicit(&flag, acq);
    USE(atomic_load_explicit(&part, rlx));
    atomic_thread_fence(acq);
    if (before == 2 && atomic_load_explicit(&flag, rlx) == before) break;
    sched_yield();
})
THREAD(lock_write_plain,
    atomic_store_explicit(&flag, 1, rlx); atomic_thread_fence(rel);
    data = 7;
    atomic_store_explicit(&flag, 2, rel);)
THREAD(lock_read_plain, for (;;) {
    int before = atomic_load_explicit(&flag, acq);
    USE(data);
    atomic_thread_fence(acq);
    if (before == 2 && atomic_load_explicit(&flag, rlx) == before) break;
    sched_yield();
})

/* Double-checked locking. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int *) instance;
static int made;
#define GET(load, store) \
    int *p = atomic_load_explicit(&instance, load); \
    if (!p) { \
        pthread_mutex_lock(&mutex); \
        p = atomic_load_explicit(&instance, rlx); \
        if (!p) { \
            made = 42; \
            p = &made; \
            atomic_store_explicit(&instance, p, store); \
        } \
        pthread_mutex_unlock(&mutex); \
    } \
    USE(*p);
THREAD(once_first_right, { GET(acq, rel) } atomic_store_explicit(&other, 1, rlx);)
THREAD(once_then_right, AWAIT(other, 1, rlx); { GET(acq, rel) })
THREAD(once_first_wrong, { GET(rlx, rlx) } atomic_store_explicit(&other, 1, rlx);)
THREAD(once_then_wrong, AWAIT(other, 1, rlx); { GET(rlx, rlx) })
THREAD(once_first_unreleased, { GET(acq, rlx) } atomic_store_explicit(&other, 1, rlx);)
THREAD(once_then_unacquired, AWAIT(other, 1, rlx); { GET(rlx, rel) })

/* Dekker's mutual exclusion; the second thread comes while the first one is inside. */
#define DEKKER(name, order, load, leave, fence) \
    THREAD(dekker_first_##name, \
        atomic_store_explicit(&flag, 1, order); \
        fence; \
        if (!atomic_load_explicit(&other, load)) data++; \
        atomic_store_explicit(&relay, 1, rlx); \
        sched_yield(); \
        atomic_store_explicit(&flag, 0, leave);) \
    THREAD(dekker_second_##name, \
        AWAIT(relay, 1, rlx); \
        for (;;) { \
            atomic_store_explicit(&other, 1, order); \
            fence; \
            if (!atomic_load_explicit(&flag, load)) break; \
            atomic_store_explicit(&other, 0, leave); \
            sched_yield(); \
        } \
        data++;)
DEKKER(sc, sc, sc, sc, (void)0)
DEKKER(rlx, rlx, rlx, rlx, (void)0)
DEKKER(ra, rel, acq, rel, (void)0)
DEKKER(fence, rlx, acq, rel, atomic_thread_fence(sc))
DEKKER(fence_rlx, rlx, rlx, rlx, atomic_thread_fence(sc))

/* Counting references. */
struct object {
    atomic_int count;
    int parts[2];
};
static struct object *object;
static atomic_int users;
#define DROP(order, fence) \
    int part = atomic_fetch_add_explicit(&users, 1, rlx); \
    object->parts[part] = 1; \
    if (atomic_fetch_sub_explicit(&object->count, 1, order) == 1) { \
        fence; \
        free(object); \
    }
THREAD(count_fence, DROP(rel, atomic_thread_fence(acq)))
THREAD(count_acqrel, DROP(ar, (void)0))
THREAD(count_no_acquire, DROP(rel, (void)0))
THREAD(count_rlx, DROP(rlx, (void)0))
/* The same with a reference more for a while. */
#define SHARE(order, fence) \
    atomic_fetch_add_explicit(&object->count, 1, rlx); \
    { \
        int part = atomic_fetch_add_explicit(&users, 1, rlx); \
        object->parts[part] = 1; \
        atomic_fetch_sub_explicit(&object->count, 1, order); \
        sched_yield(); \
    } \
    if (atomic_fetch_sub_explicit(&object->count, 1, order) == 1) { \
        fence; \
        free(object); \
    }
THREAD(share_fence, SHARE(rel, atomic_thread_fence(acq)))
THREAD(share_no_acquire, SHARE(rel, (void)0))

static const struct {
    const char *name;
    void *(*run)(void *);
} all[] = {
#define ROW(name) {#name, name}
    ROW(w_rlx), ROW(w_rel), ROW(w_sc), ROW(w_frel), ROW(w_far), ROW(w_fsc), ROW(w_flate), ROW(w_fwrong),
    ROW(r_rlx), ROW(r_con), ROW(r_acq), ROW(r_sc), ROW(r_facq), ROW(r_far), ROW(r_fsc), ROW(r_fearly), ROW(r_fwrong),
    ROW(s_rmw), ROW(s_rmw2), ROW(s_store), ROW(s_own), ROW(r_two), ROW(r_three),
    ROW(x_write_rel), ROW(x_write_rlx), ROW(x_done_acq), ROW(x_done_rlx), ROW(x_failed_acq), ROW(x_failed_rlx),
    ROW(x_failed_facq), ROW(a_hold), ROW(a_try), ROW(a_wait), ROW(a_post), ROW(a_look), ROW(a_pass),
    ROW(lock_write_atomic), ROW(lock_read_atomic), ROW(lock_write_plain), ROW(lock_read_plain),
    ROW(once_first_right), ROW(once_then_right), ROW(once_first_wrong), ROW(once_then_wrong),
    ROW(once_first_unreleased), ROW(once_then_unacquired),
    ROW(dekker_first_sc), ROW(dekker_second_sc), ROW(dekker_first_rlx), ROW(dekker_second_rlx),
    ROW(dekker_first_ra), ROW(dekker_second_ra), ROW(dekker_first_fence), ROW(dekker_second_fence),
    ROW(dekker_first_fence_rlx), ROW(dekker_second_fence_rlx),
    ROW(count_fence), ROW(count_acqrel), ROW(count_no_acquire), ROW(count_rlx),
    ROW(share_fence), ROW(share_no_acquire),
};

int main(int argc, char **argv) {
    pthread_t threads[4];
    object = calloc(1, sizeof *object);
    atomic_init(&object->count, 2);
    for (int i = 1; i < argc; i++) {
        int found = 0;
        for (unsigned row = 0; row < sizeof all / sizeof *all; row++)
            if (!strcmp(all[row].name, argv[i])) found = !pthread_create(&threads[i - 1], 0, all[row].run, 0);
        if (!found) {
            printf("no %s\n", argv[i]);
            return 3;
        }
    }
    for (int i = 1; i < argc; i++) pthread_join(threads[i - 1], 0);
    return 0;
}
