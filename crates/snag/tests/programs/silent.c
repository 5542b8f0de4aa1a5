/* Functions with callbacks, without them, and with none to make. */
#include <pthread.h>
#include <stdio.h>

#define UNSEEN __attribute__((no_sanitize_thread, noinline))
#define SEEN __attribute__((noinline))

static const char *const words[] = {"none", "one", "two", "three"};
static int flag, hidden;
long x, racy, hot[64];

/* Without callbacks, and they touch what others see. */
UNSEEN static void store(int *p) { *(volatile int *)p = 1; }
UNSEEN static int load(int *p) { return *(volatile int *)p; }
UNSEEN static void hide(void) { hidden++; }
UNSEEN static void through(int *p) { hide(), store(p); }
UNSEEN static void by_pointer(int *p) { *(volatile int *)p = 2; }

/* With nothing to call back for. */
SEEN static int twice(int a) { return 2 * a; }
SEEN static const char *word(unsigned i) { return words[i & 3]; }
SEEN static int chosen(int a, int b) {
    switch (a) {
    case 0: return b + 1;
    case 1: return b * 3;
    case 2: return b - 7;
    case 3: return b ^ 9;
    case 4: return b / 3;
    case 5: return -b;
    default: return 0;
    }
}
SEEN static int digits(unsigned n) {
    volatile char text[16];
    int count = 0;
    do text[count++ & 15] = '0' + n % 10; while (n /= 10);
    return count + text[0];
}

/* With callbacks. */
SEEN static void work(long by) {
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 64; i++) hot[i] += by;
}
SEEN static void seen(long by) { racy += by; }

void (*pointers[])(int *) = {store, by_pointer};

static void *first(void *unused) {
    x = 1;
    work(1);
    seen(1);
    through(&flag);
    pointers[1](&flag);
    return unused;
}

static void *second(void *unused) {
    while (load(&flag) != 2) __builtin_ia32_pause();
    x += twice(2) + chosen(3, (int)x) + digits(12);
    printf("%ld %s\n", x, word((unsigned)x));
    return unused;
}

static void *third(void *unused) {
    work(2);
    seen(2);
    return unused;
}

int main(void) {
    pthread_t threads[3];
    void *(*functions[])(void *) = {first, second, third};
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, functions[i], 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
