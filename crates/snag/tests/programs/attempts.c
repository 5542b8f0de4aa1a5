/* The holder writes x and takes something. The other one writes x only where its attempt to get that has failed, so no
   schedule leads to both writes at once. Nothing keeps the writes of z apart. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

int x, z;
static _Atomic int tried;
static const char *mode;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static mtx_t c11;
static sem_t semaphore;
static pthread_t holder_thread;

static int is(const char *name) { return !strcmp(mode, name); }

/* Long past: an attempt that is busy gives up at once. */
static const struct timespec at = {1, 0};

static void take(void) {
    if (is("mutex") || is("timed")) pthread_mutex_lock(&mutex);
    if (is("writing") || is("reading") || is("timed-reading")) pthread_rwlock_wrlock(&rwlock);
    if (is("readers")) pthread_rwlock_rdlock(&rwlock);
    if (is("spin")) pthread_spin_lock(&spin);
    if (is("c11")) mtx_lock(&c11);
    if (is("semaphore") || is("timed-semaphore")) sem_wait(&semaphore);
    if (is("value")) sem_post(&semaphore);
}

static void give(void) {
    if (is("mutex") || is("timed")) pthread_mutex_unlock(&mutex);
    if (is("writing") || is("reading") || is("timed-reading") || is("readers")) pthread_rwlock_unlock(&rwlock);
    if (is("spin")) pthread_spin_unlock(&spin);
    if (is("c11")) mtx_unlock(&c11);
    if (is("semaphore") || is("timed-semaphore")) sem_post(&semaphore);
}

/* Whether an attempt shows that the holder has what it took. What was got is given back. */
static int is_taken(void) {
    int failed = 0, value = 0;
    if (is("mutex")) failed = pthread_mutex_trylock(&mutex) == EBUSY;
    if (is("timed")) failed = pthread_mutex_timedlock(&mutex, &at) == ETIMEDOUT;
    if (is("writing") || is("readers")) failed = pthread_rwlock_trywrlock(&rwlock) == EBUSY;
    if (is("reading")) failed = pthread_rwlock_tryrdlock(&rwlock) == EBUSY;
    if (is("timed-reading")) failed = pthread_rwlock_timedrdlock(&rwlock, &at) == ETIMEDOUT;
    if (is("spin")) failed = pthread_spin_trylock(&spin) == EBUSY;
    if (is("c11")) failed = mtx_trylock(&c11) == thrd_busy;
    if (is("semaphore")) failed = sem_trywait(&semaphore) != 0;
    if (is("timed-semaphore")) failed = sem_timedwait(&semaphore, &at) != 0;
    if (is("value")) {
        sem_getvalue(&semaphore, &value);
        return value == 2;
    }
    if (!failed) give();
    return failed;
}

static void *holder(void *unused) {
    x = 1;
    take();
    while (!atomic_load(&tried)) sched_yield();
    give();
    return unused;
}

static void *other(void *unused) {
    while (!is_taken()) sched_yield();
    x = 2;
    z = 2;
    atomic_store(&tried, 1);
    return unused;
}

/* Joins whoever has not ended: as long as that fails, the thread writes. */
static void *writer(void *unused) {
    x = 1;
    while (!atomic_load(&tried)) sched_yield();
    z = 1;
    return unused;
}

int main(int argc, char **argv) {
    pthread_t one, two;
    mode = argv[argc - 1];
    pthread_spin_init(&spin, 0);
    mtx_init(&c11, mtx_timed);
    sem_init(&semaphore, 0, 1);
    if (is("join")) {
        pthread_create(&holder_thread, 0, writer, 0);
        int failed = pthread_tryjoin_np(holder_thread, 0) == EBUSY;
        atomic_store(&tried, 1);
        if (failed) z = 2;
        if (failed) pthread_join(holder_thread, 0);
        x = 2;
        printf("%d %d\n", x, z);
        return 0;
    }
    pthread_create(&one, 0, holder, 0);
    pthread_create(&two, 0, other, 0);
    z = 1;
    pthread_join(one, 0);
    pthread_join(two, 0);
    printf("%d %d\n", x, z);
    return 0;
}
