// Without races: two threads hand a value to each other, again and again, and wait in loops that do nothing else.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ROUNDS = 1000 };

static atomic_int full;
static atomic_flag locked = ATOMIC_FLAG_INIT;
static int value, sum, turns;

static void *give(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load_explicit(&full, memory_order_acquire)) {
        }
        value = i;
        atomic_store_explicit(&full, 1, memory_order_release);
    }
    return NULL;
}

static void *take(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        int expected = 1;
        while (!atomic_compare_exchange_weak(&full, &expected, 1))
            expected = 1;
        sum += value;
        atomic_store_explicit(&full, 0, memory_order_release);
    }
    return NULL;
}

static void *lock(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_flag_test_and_set(&locked)) {
        }
        turns++;
        atomic_flag_clear(&locked);
    }
    return NULL;
}

int main(void) {
    void *(*work[])(void *) = {give, take, lock, lock};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", sum, turns);
    return 0;
}
