/* One race, on x. A thread leaves without telling anybody: by a system call, by the instruction for one, or the first thread does. The program ends with status 7. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int x;
static const char *how;

static void leave(void) {
    if (strcmp(how, "instruction")) syscall(SYS_exit, 0);
    __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
}

static void *leaving(void *unused) {
    x++;
    leave();
    return unused;
}

static void *staying(void *unused) {
    for (int i = 0; i < 100000; i++) x++;
    if (!strcmp(how, "first")) _exit(7);
    return unused;
}

int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "call";
    pthread_t a, b;
    pthread_create(&b, 0, staying, 0);
    x++;
    if (!strcmp(how, "first")) leave();
    pthread_create(&a, 0, leaving, 0);
    pthread_join(b, 0);
    _exit(7);
}
