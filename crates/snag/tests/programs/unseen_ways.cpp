// Ways out of code that nobody sees (unseen_ways_library.cpp) other than returning from it, and arguments of all kinds.
// The first argument says which. Prints what came of it; `racy` alone is a race.
#include "unseen_ways.h"
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

int racy;
static int mutex;
static long x;
static std::jmp_buf out;

static void in_turn() {
    way_lock(&mutex);
    x++;
    way_unlock(&mutex);
}

static void throws(void *) { throw std::runtime_error("thrown"); }
static void jumps(void *) { std::longjmp(out, 1); }
static void leaves(void *) { pthread_exit(nullptr); }

static void *with_exceptions(void *) {
    for (int i = 0; i < 3; i++) {
        try {
            way_call(throws, nullptr);
        } catch (const std::runtime_error &) {
            in_turn();
        }
        try {
            way_throw(i);
        } catch (int) {
            in_turn();
        }
    }
    return nullptr;
}

static void *with_jumps(void *) {
    // One buffer: one thread at a time.
    static int jumping;
    for (int i = 0; i < 3; i++) {
        way_lock(&jumping);
        if (!setjmp(out)) way_call(jumps, nullptr);
        way_unlock(&jumping);
        in_turn();
    }
    return nullptr;
}

static void *with_exits(void *) {
    in_turn();
    way_call(leaves, nullptr);
    return nullptr;
}

static void *with_cancellation(void *) {
    in_turn();
    way_sleep();
    return nullptr;
}

static thread_local volatile sig_atomic_t handled;
static void handler(int) { handled = handled + 1; }

static void *with_signals(void *) {
    for (int i = 0; i < 3; i++) {
        way_call([](void *) { pthread_kill(pthread_self(), SIGUSR1); }, nullptr);
        way_raise(SIGUSR1);
        in_turn();
    }
    return nullptr;
}

struct large {
    long words[20];
};

static void *with_arguments(void *) {
    for (int i = 0; i < 3; i++) {
        large l{};
        for (int j = 0; j < 20; j++) l.words[j] = j + i;
        long many = way_many(1, 2, 3, 4, 5, 6, 7, 8, 9, l, 1.5, 2.5f, 10);
        long double real = way_real(1.25L, 3);
        double sum = way_sum(3, 1.0, 2.0, 3.5);
        way_pair pair = way_two(7, 0.5);
        way_large big = way_big(4);
        way_lock(&mutex);
        x += many;
        printf("%ld %.2Lf %.1f %ld %.1f %ld\n", many, real, sum, pair.number, pair.real, big.words[9]);
        way_unlock(&mutex);
    }
    return nullptr;
}

static void *with_looked_up(void *) {
    auto lock = reinterpret_cast<void (*)(int *)>(dlsym(RTLD_DEFAULT, "way_lock"));
    void *library = dlopen("libunseen_ways.so", RTLD_NOW);
    auto unlock = reinterpret_cast<void (*)(int *)>(dlsym(library ? library : RTLD_DEFAULT, "way_unlock"));
    for (int i = 0; i < 5; i++) {
        lock(&mutex);
        x++;
        unlock(&mutex);
    }
    return nullptr;
}

static void *with_virtual(void *) {
    for (int i = 0; i < 5; i++) {
        way_guard *guard = way_find_guard(i & 1);
        guard->enter(&mutex);
        x++;
        guard->leave(&mutex);
    }
    return nullptr;
}

static void counts(void *) { in_turn(); }

static void *with_threads(void *) {
    way_in_thread(counts, nullptr);
    return nullptr;
}

int main(int count, char **arguments) {
    const struct {
        const char *name;
        void *(*function)(void *);
    } modes[] = {{"exceptions", with_exceptions}, {"jumps", with_jumps},         {"exits", with_exits},
                 {"cancellation", with_cancellation}, {"signals", with_signals}, {"arguments", with_arguments},
                 {"looked-up", with_looked_up},   {"virtual", with_virtual},
                 {"threads", with_threads}};
    std::signal(SIGUSR1, handler);
    for (const auto &mode : modes) {
        if (count < 2 || std::strcmp(arguments[1], mode.name)) continue;
        pthread_t threads[2];
        for (auto &thread : threads)
            pthread_create(
                &thread, nullptr,
                [](void *function) -> void * {
                    racy = 1;
                    return reinterpret_cast<void *(*)(void *)>(function)(nullptr);
                },
                reinterpret_cast<void *>(mode.function));
        if (!std::strcmp(mode.name, "cancellation"))
            for (auto thread : threads) pthread_cancel(thread);
        for (auto thread : threads) pthread_join(thread, nullptr);
        printf("%ld\n", x);
        return 0;
    }
    return 1;
}
