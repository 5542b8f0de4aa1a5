/* A race on shared, between what main does last and a thread that has not run by then. The first argument says how the
   program ends, always with status 5 unless it is killed, the second what the thread does after its access. */
#define _GNU_SOURCE
#include <assert.h>
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int shared;
volatile int other, *nowhere;
static const char *end, *meanwhile;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is(const char *text, const char *word) {
    return !strcmp(text, word);
}

static void end_it(int code) {
    if (is(end, "exit")) exit(code);
    if (is(end, "quick_exit")) quick_exit(code);
    if (is(end, "_exit")) _exit(code);
    if (is(end, "_Exit")) _Exit(code);
    if (is(end, "exit_group")) syscall(SYS_exit_group, code);
    if (is(end, "err")) errx(code, "the end");
    if (is(end, "abort")) abort();
    if (is(end, "assert")) assert(code == 0);
    if (is(end, "execl")) execl("/bin/sh", "sh", "-c", "exit 5", (char *)0);
    if (is(end, "execve")) execve("/bin/sh", (char *[]){"sh", "-c", "exit 5", 0}, environ);
    if (is(end, "failing_exec")) {
        execlp("/nowhere/at/all", "all", "1", "2", "3", "4", "5", "6", "7", (char *)0);
        exit(code);
    }
}

static void *work(void *unused) {
    shared++;
    if (is(meanwhile, "spin")) for (;;) other++;
    if (is(meanwhile, "spin_unseen")) for (;;) __asm__ volatile("pause");
    if (is(meanwhile, "sleep")) sleep(1000);
    if (is(meanwhile, "nap")) for (;;) usleep(1000);
    if (is(meanwhile, "block")) pthread_mutex_lock(&lock);
    if (is(meanwhile, "crash")) *nowhere = 1;
    if (is(meanwhile, "abort")) abort();
    if (is(meanwhile, "assert")) assert(shared == 1000);
    if (is(meanwhile, "exit")) exit(9);
    if (is(meanwhile, "_exit")) _exit(9);
    if (is(meanwhile, "raise")) raise(SIGTERM);
    if (is(meanwhile, "kill")) kill(getpid(), SIGTERM);
    if (is(meanwhile, "exec")) execl("/bin/sh", "sh", "-c", "exit 9", (char *)0);
    return unused;
}

static void *ends(void *unused) {
    shared++;
    end_it(5);
    exit(5);
    return unused;
}

int main(int argc, char **argv) {
    end = argc > 1 ? argv[1] : "return";
    meanwhile = argc > 2 ? argv[2] : "run";
    pthread_t thread;
    pthread_mutex_lock(&lock);
    pthread_create(&thread, 0, work, 0);
    pthread_detach(thread);
    if (is(end, "thread")) {
        end = "return";
        pthread_create(&thread, 0, ends, 0);
        for (;;) pause();
    }
    shared++;
    end_it(5);
    return 5;
}
