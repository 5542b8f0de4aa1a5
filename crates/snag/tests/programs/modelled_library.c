/* A lock and a box that threads hand a pointer over in, of atomics and nothing else. Built without instrumentation. */
#include <sched.h>
#include <stddef.h>

typedef struct { int held; } own_lock;
static void *box;

int own_try(own_lock *lock) {
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

void own_take(own_lock *lock) {
    while (!own_try(lock)) sched_yield();
}

void own_give(own_lock *lock) {
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

void own_put(void *item) {
    __atomic_store_n(&box, item, __ATOMIC_RELEASE);
}

void *own_get(void) {
    void *item;
    while (!(item = __atomic_load_n(&box, __ATOMIC_ACQUIRE))) sched_yield();
    return item;
}
