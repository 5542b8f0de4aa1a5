/* Uses memory after its end, as the first argument says: another thread (f), realloc (r), after the memory was handed out again by
   another thread (a), twice (d), in one thread (o); or not at all (n). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int unused;
static pthread_barrier_t barrier;

static void *writes(void *p) {
    pthread_barrier_wait(&barrier);
    *(int *)p = 1;
    return 0;
}

static void *frees(void *p) {
    free(p);
    return 0;
}

int main(int count, char **arguments) {
    pthread_t thread;
    char how = arguments[1][0];
    int *p = malloc(100);
    memset(p, 0, 100);
    pthread_barrier_init(&barrier, 0, 2);
    switch (how) {
    case 'f':
        pthread_create(&thread, 0, writes, p);
        free(p);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, 0);
        break;
    case 'r':
        pthread_create(&thread, 0, writes, p);
        p = realloc(p, 100000);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, 0);
        free(p);
        break;
    case 'd':
        pthread_create(&thread, 0, frees, p);
        pthread_join(thread, 0);
        free(p);
        break;
    case 'o':
        free(p);
        unused = p[3];
        break;
    default:
        pthread_create(&thread, 0, writes, p);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, 0);
        printf("%d\n", *p);
        free(p);
        for (int round = 0; round < 100; round++) {
            char *block = malloc(16 + round);
            strcpy(block, "abc");
            block = realloc(block, 500 + 3 * round);
            printf("%s", block[0] == 'a' ? "" : "?");
            free(block);
        }
    }
    return 0;
}
