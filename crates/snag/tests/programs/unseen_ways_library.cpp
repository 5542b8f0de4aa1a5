// Built without callbacks. A lock that is waited for in a loop, and functions that are left in other ways.
#include "unseen_ways.h"
#include <csignal>
#include <cstdarg>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

struct large {
    long words[20];
};

extern "C" {
void way_lock(int *m) {
    while (__atomic_exchange_n(m, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
void way_unlock(int *m) { __atomic_store_n(m, 0, __ATOMIC_RELEASE); }
void way_raise(int signal) { raise(signal); }
void way_sleep() {
    for (;;) usleep(1000);
}
double way_sum(int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = 0;
    while (count--) sum += va_arg(list, double);
    va_end(list);
    return sum;
}
}
void way_call(void (*function)(void *), void *argument) { function(argument); }
void way_throw(int what) { throw what; }
long way_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, large l, double x, float y, long j) {
    long sum = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
    for (long word : l.words) sum += word;
    return sum + static_cast<long>(x + y);
}
long double way_real(long double x, int n) { return x * n; }
way_pair way_two(long n, double x) { return {n + 1, x + 1}; }
way_large way_big(long n) {
    way_large l{};
    for (int i = 0; i < 10; i++) l.words[i] = n * i;
    return l;
}

struct call {
    void (*function)(void *);
    void *argument;
};

static void *start(void *of) {
    auto call = static_cast<struct call *>(of);
    call->function(call->argument);
    return nullptr;
}

void way_in_thread(void (*function)(void *), void *argument) {
    struct call call = {function, argument};
    pthread_t thread;
    pthread_create(&thread, nullptr, start, &call);
    pthread_join(thread, nullptr);
}

namespace {
struct plain_guard : way_guard {
    void enter(int *m) override { way_lock(m); }
    void leave(int *m) override { way_unlock(m); }
};
struct strict_guard final : plain_guard {
    void leave(int *m) override {
        if (*m != 1) throw 1;
        plain_guard::leave(m);
    }
};
} // namespace
way_guard *way_find_guard(bool strict) {
    static plain_guard plain;
    static strict_guard checks;
    return strict ? &checks : &plain;
}
