/* One race in each mode, after functions were left without returning: no stack may name deep or jumper. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int g;
static jmp_buf place;
static sigjmp_buf other_place;
static const char *mode;

static int is(const char *name) { return !strcmp(mode, name); }

__attribute__((noinline)) static void deep(int n) {
    if (n) deep(n - 1);
    else if (is("siglongjmp")) siglongjmp(other_place, 1);
    else if (is("_longjmp")) _longjmp(place, 1);
    else longjmp(place, 1);
}

__attribute__((noinline)) static void handler_deep(int n) {
    if (n) handler_deep(n - 1);
    else siglongjmp(other_place, 1);
}

static void deep_handler(int signal) { handler_deep(signal > 0); }

__attribute__((noinline)) static void jumper(void) {
    if (is("siglongjmp")) {
        if (!sigsetjmp(other_place, 1)) deep(5);
    } else if (!setjmp(place)) {
        deep(5);
    }
}

static void *thread(void *unused) {
    g++;
    return unused;
}

int main(int count, char **arguments) {
    pthread_t other;
    mode = count > 1 ? arguments[1] : "";
    if (is("here")) {
        /* Nothing is called between the jump and what is looked at. */
        if (!setjmp(place)) deep(5);
    } else if (is("handler")) {
        stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        struct sigaction action = {.sa_handler = deep_handler, .sa_flags = SA_ONSTACK};
        sigaltstack(&stack, 0);
        sigaction(SIGUSR1, &action, 0);
        if (!sigsetjmp(other_place, 1)) raise(SIGUSR1);
    } else {
        jumper();
    }
    pthread_create(&other, 0, thread, 0);
    g++;
    pthread_join(other, 0);
    return 0;
}
