/* Threads that take a lock again and again until they find what they want: somebody has to let the others have it. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { PAIRS = 3, MOST = 4, EACH = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static int in_use;

static void lock(int kind) {
    switch (kind) {
    case 0: pthread_mutex_lock(&mutex); break;
    case 1: pthread_rwlock_wrlock(&rwlock); break;
    case 2: pthread_spin_lock(&spin); break;
    default: sem_wait(&semaphore);
    }
}

static void unlock(int kind) {
    switch (kind) {
    case 0: pthread_mutex_unlock(&mutex); break;
    case 1: pthread_rwlock_unlock(&rwlock); break;
    case 2: pthread_spin_unlock(&spin); break;
    default: sem_post(&semaphore);
    }
}

static int kind;

static void *put(void *argument) {
    for (int left = EACH; left > 0;) {
        lock(kind);
        if (in_use < MOST) {
            in_use++;
            left--;
        }
        unlock(kind);
    }
    return argument;
}

static void *take(void *argument) {
    for (int left = EACH; left > 0;) {
        lock(kind);
        if (in_use > 0) {
            in_use--;
            left--;
        }
        unlock(kind);
    }
    return argument;
}

int main(void) {
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 1);
    for (kind = 0; kind < 4; kind++) {
        pthread_t threads[2 * PAIRS];
        for (int i = 0; i < 2 * PAIRS; i++)
            pthread_create(&threads[i], NULL, i % 2 ? take : put, NULL);
        for (int i = 0; i < 2 * PAIRS; i++)
            pthread_join(threads[i], NULL);
    }
    printf("%d\n", in_use);
    return 0;
}
