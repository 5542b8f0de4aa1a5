// One thread waits in a loop for a flag that another one sets; the flag is volatile, which orders nothing.
//
// Found: data races on `ready` and on `message`, which the flag was to protect.
// With -DFIXED the flag is atomic, and there is no race.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#ifdef FIXED
static atomic_int ready;
#else
static volatile int ready;
#endif
static int message;

static void *producer(void *argument)
{
    (void)argument;
    message = 42;
    ready = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, producer, NULL);
    while (!ready)
        sched_yield();
    printf("message %d\n", message);
    pthread_join(thread, NULL);
    return 0;
}
