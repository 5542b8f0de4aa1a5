/* One race, on x. Then the program does something to what it shares with its recorder, which depends on the seed, and ends with
   status 7 if it lives that long. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int x;

static uint64_t state;

#define UNSEEN __attribute__((no_sanitize_thread))

UNSEEN static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

/* A number as programs have them, or one at the edge of something. */
UNSEEN static uint64_t wild(void) {
    switch (any() % 6) {
    case 0: return any();
    case 1: return 1ull << any() % 64;
    case 2: return (1ull << any() % 64) - 1;
    case 3: return 0x555555550000 + any() % 0x10000;
    case 4: return any() >> 17;
    default: return any() % 8;
    }
}

static void *work(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) x++;
    return 0;
}

static uint8_t *low, *high;

static int find(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (!low && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:snag-recording")) sscanf(line, "%p-%p", (void **)&low, (void **)&high);
    fclose(maps);
    return low != 0;
}

/* A descriptor of the shared memory, by the way the runtime has taken. */
static int open_shared(int flags) {
    const char *path = getenv("SNAG_RECORDING");
    return path ? open(path, flags) : -1;
}

UNSEEN static void put(volatile uint64_t *at, uint64_t word) { *at = word; }

UNSEEN static void random_words(uint64_t *from, long words, long count) {
    while (count-- > 0) put(from + any() % words, any() % 2 ? any() : wild());
}

/* Records that look like the runtime's, from the start of a chunk on or over those that are there. */
UNSEEN static void forge(uint64_t *at, long words) {
    for (long i = 0; i + 16 < words;) {
        uint64_t kind = 1 + any() % 47, pc = any() % 2 ? 0x555555555000 + any() % 0x1000 : wild();
        put(at + i, pc << 16 | any() % 5 << 8 | kind);
        for (int k = 1; k < 4; k++) put(at + i + k, wild());
        i += kind == 5 ? 4 : 3;
    }
}

UNSEEN static void harm(unsigned seed) {
    uint64_t *header = (uint64_t *)low, *ring = (uint64_t *)(low + 4096);
    long words = (high - low) / 8, in_ring = words - 512;
    int file;
    switch (seed % 20) {
    case 0: random_words(ring, 4000, 1 + any() % 400); break;
    case 1: random_words(ring, in_ring, 1 + any() % 100000); break;
    case 2: random_words(header, 16, 1 + any() % 16); break;
    case 3: random_words(header, 512, 512); break;
    case 4: forge(ring, 300 + any() % 3000); break;
    case 5: forge(ring, in_ring); break;
    case 6: memset(low, any() % 2 ? 0 : (int)any(), high - low); break;
    case 7: memset(low + 4096, any() % 2 ? 0 : (int)any(), high - low - 4096); break;
    case 8:
        for (int k = 0; k < 4000; k++)
            if (ring[k] && any() % (20 + seed * 7 % 400) == 0) ring[k] ^= 1ull << any() % 64;
        break;
    case 9: munmap(low, high - low); break;
    case 10: syscall(SYS_munmap, low + 4096, 4096); break;
    case 11: mprotect(low, high - low, any() % 2 ? PROT_READ : PROT_NONE); break;
    case 12: mmap(low, high - low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
    case 13:
        if ((file = open_shared(O_RDWR)) >= 0 && ftruncate(file, any() % 3 * 4096) == 0) x++;
        if (file >= 0 && fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, high - low) == 0) x++;
        break;
    case 14:
        if ((file = open_shared(O_RDWR | O_TRUNC)) >= 0) write(file, "no", 2);
        break;
    case 15:
        for (int k = 3; k < 64; k++) any() % 2 ? close(k) : dup2(1, k);
        break;
    case 16:
        if (fork() == 0) {
            random_words(header, words, 10000);
            _exit(0);
        }
        if (any() % 2) wait(0);
        break;
    case 17: { /* A thread that is gone without a word, as if it had been killed alone. */
        pthread_t thread;
        pthread_create(&thread, 0, (void *(*)(void *))(void *)syscall, (void *)SYS_exit);
        break;
    }
    case 18: /* One after the other, while another thread works. */
        for (int k = 0; k < 200; k++) {
            random_words(header, any() % 2 ? 16 : 4096, 1);
            work((void *)100);
        }
        break;
    case 19: { /* Reads of memory all over the place, as many as there is room for. */
        for (long i = 0; i + 4 < in_ring; i += 3) {
            put(ring + i, 0x555555555000ull << 16 | 3 << 8 | 1);
            put(ring + i + 1, any() >> 17 & ~7ull);
            put(ring + i + 2, 0);
        }
        break;
    }
    }
}

int main(int argc, char **argv) {
    unsigned seed = argc > 1 ? atoi(argv[1]) : 1;
    state = 0x9e3779b97f4a7c15 * (seed + 1);
    pthread_t thread;
    pthread_create(&thread, 0, work, (void *)(long)(any() % 3000));
    x++;
    if (any() % 2) pthread_join(thread, 0);
    if (!find()) return 3; /* not recorded */
    harm(seed);
    /* Sometimes enough to fill what there is. */
    work((void *)(any() % 4 ? 1000l : 200000l));
    _exit(7);
}
