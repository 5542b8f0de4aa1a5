// Blocks in ways that the runtime does not see: system calls made by hand, and a loop without a single callback.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <linux/futex.h>

static int word, spun;
static int shared;

static long futex(int *at, int operation, int value)
{
    long result;
    register void *timeout __asm__("r10") = NULL;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_futex), "D"(at), "S"(operation), "d"(value), "r"(timeout) : "rcx", "r11", "memory");
    return result;
}

__attribute__((no_sanitize_thread)) static void sleep_until_set(int *at)
{
    while (__builtin_expect(*(volatile int *)at == 0, 1))
        futex(at, FUTEX_WAIT_PRIVATE, 0);
}

__attribute__((no_sanitize_thread)) static void spin_until_set(int *at)
{
    while (*(volatile int *)at == 0)
        ;
}

__attribute__((no_sanitize_thread)) static void set(int *at)
{
    *(volatile int *)at = 1;
    futex(at, FUTEX_WAKE_PRIVATE, 100);
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *argument)
{
    sleep_until_set(&word);
    pthread_mutex_lock(&m);
    shared++;
    pthread_mutex_unlock(&m);
    return argument;
}

static void *spinner(void *argument)
{
    spin_until_set(&spun);
    pthread_mutex_lock(&m);
    shared++;
    pthread_mutex_unlock(&m);
    set(&word);
    return argument;
}

static void *setter(void *argument)
{
    pthread_mutex_lock(&m);
    shared++;
    pthread_mutex_unlock(&m);
    set(&spun);
    return argument;
}

int main(void)
{
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, sleeper, NULL);
    pthread_create(&threads[1], NULL, spinner, NULL);
    pthread_create(&threads[2], NULL, setter, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("shared %d\n", shared);
    return shared != 3;
}
