// Works until it is ended, with a race, and does not make that easy: `plain`, `ignores`, `stops`, `forks`, `daemon`. Or it ends when asked
// to, and says so: `handles`. After as many rounds as it is told it only waits.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t over, asked;
static long rounds = -1;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long counters[64];

static void react(void (*how)(int))
{
    for (int i = 0; i < 3; i++)
        signal(ending[i], how);
}

static void end(int signal)
{
    over = 1;
    asked++;
}

static void *work(void *argument)
{
    for (long round = 1; !over; round++) {
        if (rounds >= 0 && round > rounds) {
            usleep(1000);
            continue;
        }
        for (int i = 0; i < 64; i++)
            counters[i]++;
        pthread_mutex_lock(&m);
        counters[0]++;
        pthread_mutex_unlock(&m);
        if (round % 100 == 0)
            usleep(1000);
    }
    return argument;
}

int main(int count, char **words)
{
    const char *how = words[1];
    if (count > 2)
        rounds = atol(words[2]);
    if (!strcmp(how, "ignores"))
        react(SIG_IGN);
    if (!strcmp(how, "handles"))
        react(end);
    if (!strcmp(how, "forks") && fork() == 0) {
        react(SIG_IGN);
        for (;;)
            pause();
    }
    if (!strcmp(how, "daemon") && fork() == 0) {
        setsid();
        if (fork() == 0) {
            react(SIG_IGN);
            for (;;)
                pause();
        }
        _exit(0);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    printf("running\n");
    fflush(stdout);
    if (!strcmp(how, "stops"))
        raise(SIGSTOP);
    work(NULL);
    pthread_join(thread, NULL);
    usleep(200000);
    printf("ended, asked %d times\n", (int)asked);
    return 0;
}
