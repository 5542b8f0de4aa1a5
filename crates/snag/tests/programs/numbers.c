// Two threads keep things by the numbers of descriptors. Nobody has a number before it was closed by whoever had it last.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static long uses[1024];

static void *worker(void *argument)
{
    for (int i = 0; i < 20; i++) {
        int ends[2], copy = dup(0);
        uses[copy]++;
        if (pipe(ends) == 0) {
            uses[ends[0]]++;
            uses[ends[1]]++;
            close(ends[1]);
            close(ends[0]);
        }
        close(copy);
    }
    return argument;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    long all = 0;
    for (int i = 0; i < 1024; i++)
        all += uses[i];
    printf("%ld\n", all);
    return 0;
}
