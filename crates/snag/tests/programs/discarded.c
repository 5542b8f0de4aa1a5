/* Ends things that others use, as the first argument says: a mutex that is held (h), or freed while it is (f), that another thread may
   be about to take (m) or to give back (u); a condition that somebody waits for (w), or may be about to notify (c); a barrier at which
   somebody waits (b); or nothing of the kind (n). */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_rwlock_t both;
    sem_t semaphore;
    int references, ready;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t held;
static int ready;

static void *locks(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *tells_too_soon(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&held);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *waits(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&held);
    while (!ready)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *notifies_too_late(void *unused) {
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_mutex_unlock(&mutex);
    pthread_cond_signal(&condition);
    return unused;
}

static void *meets(void *unused) {
    sem_post(&held);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* The last one out ends it all. */
static void *leaves(void *argument) {
    struct shared *shared = argument;
    pthread_rwlock_rdlock(&shared->both);
    pthread_rwlock_unlock(&shared->both);
    pthread_mutex_lock(&shared->mutex);
    shared->ready++;
    pthread_cond_broadcast(&shared->condition);
    while (shared->ready < 3)
        pthread_cond_wait(&shared->condition, &shared->mutex);
    int last = --shared->references == 0;
    pthread_mutex_unlock(&shared->mutex);
    if (last) {
        pthread_mutex_destroy(&shared->mutex);
        pthread_cond_destroy(&shared->condition);
        pthread_rwlock_destroy(&shared->both);
        sem_destroy(&shared->semaphore);
        free(shared);
    }
    return 0;
}

static void *leaves_barrier(void *unused) {
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        pthread_barrier_destroy(&barrier);
    return unused;
}

static void *posts(void *semaphore) {
    sem_post(semaphore);
    return 0;
}

static void well(void) {
    pthread_t threads[3];
    for (int round = 0; round < 3; round++) {
        struct shared *shared = malloc(sizeof *shared);
        pthread_mutex_init(&shared->mutex, 0);
        pthread_cond_init(&shared->condition, 0);
        pthread_rwlock_init(&shared->both, 0);
        sem_init(&shared->semaphore, 0, 0);
        shared->references = 3;
        shared->ready = 0;
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], 0, leaves, shared);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], 0);
        pthread_barrier_init(&barrier, 0, 3);
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], 0, leaves_barrier, 0);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], 0);
        sem_t own;
        sem_init(&own, 0, 0);
        pthread_create(&threads[0], 0, posts, &own);
        sem_wait(&own);
        sem_destroy(&own);
        pthread_join(threads[0], 0);
        pthread_mutex_t local;
        pthread_mutex_init(&local, 0);
        pthread_mutex_lock(&local);
        pthread_mutex_unlock(&local);
        pthread_mutex_destroy(&local);
    }
    printf("well\n");
}

int main(int count, char **arguments) {
    pthread_t thread;
    struct shared *shared;
    sem_init(&held, 0, 0);
    switch (arguments[1][0]) {
    case 'h':
        pthread_mutex_lock(&mutex);
        pthread_mutex_destroy(&mutex);
        break;
    case 'f':
        shared = malloc(sizeof *shared);
        pthread_mutex_init(&shared->mutex, 0);
        pthread_mutex_lock(&shared->mutex);
        free(shared);
        break;
    case 'm':
        pthread_create(&thread, 0, locks, 0);
        sleep(1);
        pthread_mutex_destroy(&mutex);
        pthread_join(thread, 0);
        break;
    case 'u':
        pthread_create(&thread, 0, tells_too_soon, 0);
        sem_wait(&held);
        sleep(1);
        pthread_mutex_destroy(&mutex);
        pthread_join(thread, 0);
        break;
    case 'w':
        pthread_create(&thread, 0, waits, 0);
        sem_wait(&held);
        pthread_mutex_lock(&mutex);
        pthread_cond_destroy(&condition);
        break;
    case 'c':
        pthread_create(&thread, 0, notifies_too_late, 0);
        pthread_mutex_lock(&mutex);
        while (!ready) {
            pthread_mutex_unlock(&mutex);
            usleep(1000);
            pthread_mutex_lock(&mutex);
        }
        pthread_mutex_unlock(&mutex);
        sleep(1);
        pthread_cond_destroy(&condition);
        pthread_join(thread, 0);
        break;
    case 'b':
        pthread_barrier_init(&barrier, 0, 2);
        pthread_create(&thread, 0, meets, 0);
        sem_wait(&held);
        sleep(1);
        alarm(1);
        pthread_barrier_destroy(&barrier);
        break;
    default:
        well();
    }
    return 0;
}
