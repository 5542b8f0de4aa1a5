/* The worker takes the end of its wait for the news that main has written. Without FIXED it does not look whether main
   has: a race, for waits may end for no reason. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waits = PTHREAD_COND_INITIALIZER, written = PTHREAD_COND_INITIALIZER;
int waiting, is_written, data;

static void *worker(void *unused) {
    pthread_mutex_lock(&mutex);
    waiting = 1;
    pthread_cond_signal(&waits);
#ifdef FIXED
    while (!is_written)
#endif
        pthread_cond_wait(&written, &mutex);
    pthread_mutex_unlock(&mutex);
    data = 2;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&mutex);
    while (!waiting)
        pthread_cond_wait(&waits, &mutex);
    pthread_mutex_unlock(&mutex);
    data = 1;
    pthread_mutex_lock(&mutex);
    is_written = 1;
    pthread_cond_signal(&written);
    pthread_mutex_unlock(&mutex);
    return pthread_join(thread, 0);
}
