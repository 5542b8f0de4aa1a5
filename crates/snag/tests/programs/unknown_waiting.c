// Waits in ways that the runtime does not see: for a pipe, by looking from time to time, by yielding, all by system calls made
// by hand in code without callbacks.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_sanitize_thread, noinline))

static int ends[2];
static int looked, yielded;
static int shared;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

UNSEEN static long call(long number, long a, void *b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

UNSEEN static void wait_for_pipe(void)
{
    char byte;
    while (call(SYS_read, ends[0], &byte, 1) != 1)
        ;
}

UNSEEN static void fill_pipe(void)
{
    char byte = 1;
    call(SYS_write, ends[1], &byte, 1);
}

UNSEEN static void look_from_time_to_time(void)
{
    struct timespec pause = {0, 2000000};
    while (!*(volatile int *)&looked)
        call(SYS_nanosleep, (long)&pause, 0, 0);
}

UNSEEN static void yield_until_set(void)
{
    while (!*(volatile int *)&yielded)
        call(SYS_sched_yield, 0, 0, 0);
}

UNSEEN static void set(int *at) { *(volatile int *)at = 1; }

static void count(void)
{
    pthread_mutex_lock(&m);
    shared++;
    pthread_mutex_unlock(&m);
}

static void *first(void *argument)
{
    wait_for_pipe();
    count();
    return argument;
}

static void *second(void *argument)
{
    look_from_time_to_time();
    count();
    fill_pipe();
    return argument;
}

static void *third(void *argument)
{
    yield_until_set();
    count();
    set(&looked);
    return argument;
}

static void *fourth(void *argument)
{
    count();
    set(&yielded);
    return argument;
}

int main(void)
{
    void *(*functions[])(void *) = {first, second, third, fourth};
    pthread_t threads[4];
    if (pipe(ends))
        return 2;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, functions[i], NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("shared %d\n", shared);
    return shared != 4;
}
