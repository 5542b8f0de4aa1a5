/* Reads that a write to the same place follows at once, which clang does not tell, and writes that follow none. What is read shows in
   what the program prints. One thread does all of it; the other makes it a program with threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    int count;
    short flags;
};

static struct node *list;
static int number, table[8];
static long total;
static struct node fixed;
static unsigned parts = 0x12345678;
static __int128 wide = 1000000;

__attribute__((noinline)) static struct node *take(void) {
    struct node *first = list;
    list = NULL;
    return first;
}

__attribute__((noinline)) static void put(struct node *node) {
    node->next = list;
    list = node;
}

__attribute__((noinline)) static int exchange(int *one, int *other) {
    int before = *one;
    *one = *other;
    *other = before;
    return before;
}

__attribute__((noinline)) static void count(struct node *node, int index) {
    node->count++;
    node->flags |= 4;
    table[index] += node->count;
    fixed.count -= 3;
}

__attribute__((noinline)) static void blind(struct node *node, int index, int value) {
    node->count = value;
    table[index] = value;
    number = value;
    fixed.flags = 1;
}

/* Of the first only the upper half is loaded; for the second the compiler calls a function of its own. */
__attribute__((noinline)) static void halve(void) { parts >>= 16; }
__attribute__((noinline)) static void divide(__int128 by) { wide /= by; }

__attribute__((noinline)) static int seen_by(int *local) { return *local; }

__attribute__((noinline)) static int own(int value) {
    int local = value;
    int before = seen_by(&local);
    local += before;
    return seen_by(&local);
}

static void *idle(void *argument) { return argument; }

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, idle, NULL);
    struct node *nodes = calloc(4, sizeof *nodes);
    for (int i = 0; i < 12; i++) {
        put(&nodes[i % 4]);
        blind(&nodes[i % 4], i % 8, i);
        count(&nodes[i % 4], (i + 3) % 8);
        total += exchange(&table[i % 8], &table[(i + 1) % 8]) + own(i);
        halve();
        divide(i + 2);
        if (i % 3 == 2)
            for (struct node *node = take(); node; node = node->next)
                total += node->count;
    }
    pthread_join(thread, NULL);
    printf("%ld %d\n", total, fixed.count);
    free(nodes);
    return 0;
}
