/* Two threads need the same two locks and take them in different orders; each gives back the first if it cannot have the second. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int count;

static void *work(void *argument) {
    int first = argument != NULL;
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&locks[first]);
        while (pthread_mutex_trylock(&locks[!first]) != 0) {
            pthread_mutex_unlock(&locks[first]);
            pthread_mutex_lock(&locks[first]);
        }
        count++;
        pthread_mutex_unlock(&locks[0]);
        pthread_mutex_unlock(&locks[1]);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, i ? &count : NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", count);
    return 0;
}
