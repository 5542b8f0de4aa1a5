/* What a program has built in for ThreadSanitizer: options, suppressions, and a function that hears of the start. */
#include <pthread.h>
#include <stdio.h>

int wanted, unwanted, started;

#ifdef OPTIONS
const char *__tsan_default_options(void) {
    return OPTIONS;
}
#endif

#ifdef SUPPRESSIONS
const char *__tsan_default_suppressions(void) {
    return SUPPRESSIONS;
}
#endif

/* `__tsan::OnInitialize` */
void _ZN6__tsan12OnInitializeEv(void) {
    started = 1;
}

static void touch_unwanted(void) {
    unwanted = 1;
}

static void *worker(void *unused) {
    wanted = 1;
    touch_unwanted();
    return unused;
}

int main(void) {
    pthread_t thread;
    printf("started %d\n", started);
    pthread_create(&thread, 0, worker, 0);
    wanted = 2;
    touch_unwanted();
    return pthread_join(thread, 0);
}
