/* Litmus tests of memory orders, one by name. */
#include <pthread.h>
#include <sched.h>
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

/* Dekker's mutual exclusion; the second thread comes while the first one is inside. */
#define DEKKER(order) \
    THREAD(dekker_first_##order, \
        atomic_store_explicit(&flag, 1, order); \
        if (!atomic_load_explicit(&other, order)) data++; \
        atomic_store_explicit(&relay, 1, rlx); \
        sched_yield(); \
        atomic_store_explicit(&flag, 0, order);) \
    THREAD(dekker_second_##order, \
        AWAIT(relay, 1, rlx); \
        for (;;) { \
            atomic_store_explicit(&other, 1, order); \
            if (!atomic_load_explicit(&flag, order)) break; \
            atomic_store_explicit(&other, 0, order); \
            sched_yield(); \
        } \
        data++;)
DEKKER(sc)
DEKKER(rlx)

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

static const struct {
    const char *name;
    void *(*run)(void *);
} all[] = {
#define ROW(name) {#name, name}
    ROW(w_rlx), ROW(w_rel), ROW(w_sc), ROW(w_frel), ROW(w_far), ROW(w_fsc), ROW(w_flate), ROW(w_fwrong),
    ROW(r_rlx), ROW(r_con), ROW(r_acq), ROW(r_sc), ROW(r_facq), ROW(r_far), ROW(r_fsc), ROW(r_fearly), ROW(r_fwrong),
    ROW(s_rmw), ROW(s_rmw2), ROW(s_store), ROW(s_own), ROW(r_two), ROW(r_three),
    ROW(lock_write_atomic), ROW(lock_read_atomic), ROW(lock_write_plain), ROW(lock_read_plain),
    ROW(once_first_right), ROW(once_then_right), ROW(once_first_wrong), ROW(once_then_wrong),
    ROW(dekker_first_sc), ROW(dekker_second_sc), ROW(dekker_first_rlx), ROW(dekker_second_rlx),
    ROW(count_fence), ROW(count_acqrel), ROW(count_no_acquire), ROW(count_rlx),
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
