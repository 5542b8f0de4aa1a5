// Works until it is ended, with a race, and does not make that easy: `plain`, `ignores`, `stops`, `forks`, `daemon`. Or it ends when asked to,
// and says so: `handles`.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t over;
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
}

static void *work(void *argument)
{
    for (int round = 1; !over; round++) {
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
    printf("ended\n");
    return 0;
}
