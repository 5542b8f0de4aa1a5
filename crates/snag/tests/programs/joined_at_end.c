/* What runs at the end waits for a thread that ends the program in another way, after main has returned. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *how;
static pthread_t worker;
static volatile int returned;

static void *work(void *unused) {
    while (!returned) usleep(1000);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "_exit")) _exit(7);
    if (!strcmp(how, "crash")) *(volatile int *)8 = 1;
    if (!strcmp(how, "kill")) kill(getpid(), SIGTERM);
    while (!strcmp(how, "kill")) usleep(1000);
    return unused;
}

static void await(void) {
    returned = 1;
    pthread_join(worker, 0);
}

int main(int argc, char **argv) {
    how = argv[argc - 1];
    atexit(await);
    pthread_create(&worker, 0, work, 0);
    if (strcmp(how, "late")) returned = 1;
    return 5;
}
