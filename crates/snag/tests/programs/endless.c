// Works until it is killed, with a rest now and then; without a race if it is told so.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long counters[64];

static void *worker(void *argument)
{
    for (int round = 1;; round++) {
        if (round % 50 == 0)
            usleep(10000);
        char *block = malloc(64);
        memset(block, 1, 64);
#ifdef ORDERED
        pthread_mutex_lock(&m);
#endif
        for (int i = 0; i < 64; i++)
            counters[i] += block[i];
#ifndef ORDERED
        pthread_mutex_lock(&m);
#endif
        counters[0]++;
        pthread_mutex_unlock(&m);
        free(block);
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    worker(NULL);
}
