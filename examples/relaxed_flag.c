/* One thread fills a buffer and says so; the other one waits for that and reads it. The flag is atomic, and the right
   values come out here, run after run. But relaxed orders nothing: to C11 this is a data race, and another compiler or
   processor may show the flag before the buffer. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static int buffer;
static atomic_int ready;

#ifdef FIXED
#define STORE memory_order_release
#define LOAD memory_order_acquire
#else
#define STORE memory_order_relaxed
#define LOAD memory_order_relaxed
#endif

static void *produce(void *unused) {
    buffer = 42;
    atomic_store_explicit(&ready, 1, STORE);
    return unused;
}

int main(void) {
    pthread_t producer;
    pthread_create(&producer, 0, produce, 0);
    while (!atomic_load_explicit(&ready, LOAD)) sched_yield();
    printf("%d\n", buffer);
    pthread_join(producer, 0);
    return 0;
}
