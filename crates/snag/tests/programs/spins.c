/* A thread waits in a loop of the kind that the argument says, while main sleeps for 300 ms; or two threads work on
   memory of their own. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static int plain;
static volatile int fickle, other;
static atomic_int atomic;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *kind;
static long own[2][64];

static int locked(void) {
    pthread_mutex_lock(&lock);
    int value = plain;
    pthread_mutex_unlock(&lock);
    return value;
}

static void *spin(void *unused) {
    if (!strcmp(kind, "plain")) while (!plain) __asm__ volatile("" ::: "memory");
    if (!strcmp(kind, "volatile")) while (!fickle) {}
    if (!strcmp(kind, "two")) while (!fickle && !other) {}
    if (!strcmp(kind, "atomic")) while (!atomic) {}
    if (!strcmp(kind, "exchange")) while (!atomic_exchange(&atomic, atomic)) {}
    if (!strcmp(kind, "locked")) while (!locked()) {}
    return unused;
}

static void *work(void *mine) {
    volatile long *memory = mine;
    for (int i = 0; i < 500000; i++) memory[i % 64]++;
    return mine;
}

int main(int argc, char **argv) {
    kind = argv[1];
    pthread_t threads[2];
    if (!strcmp(kind, "work")) {
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, own[i]);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        return 0;
    }
    pthread_create(&threads[0], 0, spin, 0);
    usleep(300000);
    pthread_mutex_lock(&lock);
    plain = 1;
    pthread_mutex_unlock(&lock);
    fickle = 1;
    atomic = 1;
    pthread_join(threads[0], 0);
    return 0;
}
