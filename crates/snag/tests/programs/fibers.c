// Fibers that go from one thread to another, and a race between two threads in a function that a fiber calls.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_set_fiber_name(void *, const char *);
void __tsan_testonly_barrier_init(unsigned *, unsigned);
void __tsan_testonly_barrier_wait(unsigned *);

enum { STACK = 1 << 16 };

struct fiber {
    ucontext_t here, caller;
    void *self, *of_caller;
    int done;
};

static unsigned barrier;
static struct fiber traveller;
static int carried;
int racy;

__attribute__((noinline)) static void leave(struct fiber *fiber) {
    __tsan_switch_to_fiber(fiber->of_caller, 0);
    swapcontext(&fiber->here, &fiber->caller);
}

__attribute__((noinline)) static void step(struct fiber *fiber) {
    carried++;
    leave(fiber);
    carried++;
}

static void travel(void) {
    step(&traveller);
    step(&traveller);
    traveller.done = 1;
    leave(&traveller);
}

__attribute__((noinline)) static void enter(struct fiber *fiber) {
    void *self = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->self, 0);
    fiber->of_caller = self;
    swapcontext(&fiber->caller, &fiber->here);
}

__attribute__((noinline)) static void conflict(int value) { racy = value; }

static void *first(void *unused) {
    enter(&traveller);
#ifdef RACE
    conflict(1);
#endif
    __tsan_testonly_barrier_wait(&barrier);
    return NULL;
}

static void *second(void *unused) {
    __tsan_testonly_barrier_wait(&barrier);
    enter(&traveller);
    enter(&traveller);
#ifdef RACE
    conflict(2);
#endif
    return NULL;
}

int main(void) {
    __tsan_testonly_barrier_init(&barrier, 2);
    getcontext(&traveller.here);
    traveller.here.uc_stack.ss_sp = malloc(STACK);
    traveller.here.uc_stack.ss_size = STACK;
    traveller.self = __tsan_create_fiber(0);
    __tsan_set_fiber_name(traveller.self, "traveller");
    makecontext(&traveller.here, travel, 0);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    __tsan_destroy_fiber(traveller.self);
    free(traveller.here.uc_stack.ss_sp);
    printf("%d %d\n", carried, traveller.done);
    return 0;
}
