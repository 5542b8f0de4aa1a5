/* One race, on shared. Then the program waits to be killed. */
#include <pthread.h>
#include <unistd.h>

int shared;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused) {
    shared++;
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    for (;;) pause();
}
