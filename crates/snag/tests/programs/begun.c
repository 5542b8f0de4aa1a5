/* A mutex (m), reader/writer lock (r), spin lock (s), condition (c), semaphore (e) or barrier (b) is initialised while
   another thread may use it; in capitals, before that. */
#include <ctype.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static char how;
static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock;
static pthread_cond_t condition;
static sem_t semaphore;
static pthread_barrier_t barrier;

static void begin(void) {
    switch (tolower(how)) {
    case 'm': pthread_mutex_init(&mutex, 0); break;
    case 'r': pthread_rwlock_init(&rwlock, 0); break;
    case 'c': pthread_cond_init(&condition, 0); break;
    case 'e': sem_init(&semaphore, 0, 0); break;
    case 'b': pthread_barrier_init(&barrier, 0, 1); break;
    }
}

static void *use(void *unused) {
    usleep(20000);
    switch (tolower(how)) {
    case 'm': pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex); break;
    case 'r': pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock); break;
    case 'c': pthread_cond_signal(&condition); break;
    case 'e': sem_post(&semaphore); break;
    case 'b': pthread_barrier_wait(&barrier); break;
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t user;
    how = arguments[1][0];
    if (isupper(how)) begin();
    pthread_create(&user, 0, use, 0);
    if (islower(how)) begin();
    pthread_join(user, 0);
    printf("well\n");
    return 0;
}
