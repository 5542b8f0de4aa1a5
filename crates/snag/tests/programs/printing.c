/* One race, on x. What happens behind it depends on files that are there when it is replayed and were not when it was recorded. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int x;

static void *work(void *nothing) {
    x++;
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    x++;
    pthread_join(thread, 0);
    if (access("long", F_OK) == 0) ftruncate(1, 1l << 50);
    if (access("much", F_OK) == 0) {
        static char text[1 << 16];
        memset(text, 'y', sizeof text);
        for (;;) write(1, text, sizeof text);
    }
    puts("done");
    fflush(stdout);
}
