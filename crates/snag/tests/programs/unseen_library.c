/* Built without callbacks: a flag, a queue of one message, a lock of a futex, a lock that is waited for in a loop, a job. */
#include "unseen_library.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void channel_set(struct channel *c) { __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE); }

void channel_wait(struct channel *c) {
    while (!__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}

static void *slot;

static void nap(void) {
    struct timespec t = {0, 100000};
    nanosleep(&t, 0);
}

void push(void *p) {
    while (__atomic_load_n(&slot, __ATOMIC_ACQUIRE)) nap();
    __atomic_store_n(&slot, p, __ATOMIC_RELEASE);
}

void *pop(void) {
    void *p;
    while (!(p = __atomic_exchange_n(&slot, (void *)0, __ATOMIC_ACQ_REL))) nap();
    return p;
}

void sleeping_lock(int *m) {
    int free = 0;
    if (__atomic_compare_exchange_n(m, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    while (__atomic_exchange_n(m, 2, __ATOMIC_ACQUIRE)) syscall(SYS_futex, m, FUTEX_WAIT, 2, 0, 0, 0);
}

void sleeping_unlock(int *m) {
    if (__atomic_exchange_n(m, 0, __ATOMIC_RELEASE) == 2) syscall(SYS_futex, m, FUTEX_WAKE, 1, 0, 0, 0);
}

void spinning_lock(int *m) {
    while (__atomic_exchange_n(m, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}

void spinning_unlock(int *m) { __atomic_store_n(m, 0, __ATOMIC_RELEASE); }

void job_run(struct job *j) {
    j->work(j->argument);
    __atomic_store_n(&j->done, 1, __ATOMIC_RELEASE);
}

void job_wait(struct job *j) {
    while (!__atomic_load_n(&j->done, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}
