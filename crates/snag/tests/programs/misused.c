/* Locks, as the first argument says: two threads deadlock (d), and main sleeps meanwhile (s); a lock is given back by another thread
   (o), or by nobody's (n); its holder takes it again (t), to write what it reads (w); or all is well (g). */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_mutex_t recursive, checking;

static void take(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void *one(void *unused) {
    take(&left, &right);
    return unused;
}

static void *other(void *unused) {
    take(&right, &left);
    return unused;
}

static void *gives(void *unused) {
    pthread_mutex_unlock(&left);
    return unused;
}

/* What the library refuses is no misuse: the program is told, and nothing happens. */
static void *tries(void *unused) {
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += soon.tv_nsec > 900000000;
    soon.tv_nsec = (soon.tv_nsec + 50000000) % 1000000000;
    assert(pthread_mutex_unlock(&checking) == EPERM);
    assert(pthread_mutex_unlock(&recursive) == EPERM);
    assert(pthread_mutex_trylock(&checking) == EBUSY);
    assert(pthread_mutex_timedlock(&checking, &soon) == ETIMEDOUT);
    return unused;
}

static void well(void) {
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &kind);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&checking);
    assert(pthread_mutex_lock(&checking) == EDEADLK);
    pthread_create(&thread, 0, tries, 0);
    pthread_join(thread, 0);
    pthread_mutex_unlock(&checking);
    assert(pthread_mutex_unlock(&checking) == EPERM);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_destroy(&recursive);
    pthread_mutex_destroy(&checking);
    for (int round = 0; round < 3; round++) {
        pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&own);
        pthread_mutex_unlock(&own);
        pthread_mutex_destroy(&own);
    }
    pthread_rwlock_rdlock(&both);
    pthread_rwlock_rdlock(&both);
    pthread_rwlock_unlock(&both);
    pthread_rwlock_unlock(&both);
    printf("well\n");
}

int main(int count, char **arguments) {
    pthread_t first, second;
    char how = arguments[1][0];
    pthread_barrier_init(&barrier, 0, 2);
    switch (how) {
    case 'd':
    case 's':
        pthread_create(&first, 0, one, 0);
        pthread_create(&second, 0, other, 0);
        if (how == 's') {
            alarm(1);
            for (;;)
                sleep(10);
        }
        pthread_join(first, 0);
        pthread_join(second, 0);
        break;
    case 'o':
        pthread_mutex_lock(&left);
        pthread_create(&first, 0, gives, 0);
        pthread_join(first, 0);
        break;
    case 'n':
        gives(0);
        break;
    case 't':
        pthread_mutex_lock(&left);
        pthread_mutex_lock(&left);
        break;
    case 'w':
        pthread_rwlock_rdlock(&both);
        pthread_rwlock_wrlock(&both);
        break;
    default:
        well();
    }
    return 0;
}
