/* Memory that comes and goes, always at addresses where there was none before. One thread, no race; ends with status 7. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STRETCH (1l << 16)

static char *next = (char *)0x100000000000;

static char *map(long size, int flags, int file) {
    char *memory = mmap(next, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, file, 0);
    if (memory == MAP_FAILED) exit(3);
    next += size + STRETCH;
    return memory;
}

/* A system call that the recorder does not see. */
static long unseen(long number, long a, long b) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    long rounds = argc > 2 ? atol(argv[2]) : 10000;
    if (!strcmp(how, "file")) {
        int file = open(argv[0], O_RDONLY);
        for (long i = 0; i < rounds; i++) {
            char *memory = map(STRETCH, MAP_FIXED, file);
            memory[i % 4096] = 1;
            munmap(memory, STRETCH);
        }
    } else if (!strcmp(how, "sparse")) {
        /* More than any machine has, which is only looked at here and there. */
        char *memory = map(1l << 40, MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        long sum = 0;
        for (long i = 0; i < rounds; i++) sum += memory[i * STRETCH];
        if (sum) return 1;
    } else {
        for (long i = 0; i < rounds; i++) {
            char *memory = map(STRETCH, MAP_FIXED | MAP_ANONYMOUS, -1);
            memory[i % 4096] = 1;
            if (!strcmp(how, "seen")) munmap(memory, STRETCH);
            if (!strcmp(how, "unseen")) unseen(SYS_munmap, (long)memory, STRETCH);
            if (!strcmp(how, "part")) munmap(memory + 4096, STRETCH - 4096), munmap(memory, 4096);
        }
    }
    return 7;
}
