/* No two accesses of these can both be about to happen: what the second thread does depends on what the first has done before, in
   assembly that is not seen. In each mode it does something else instead, at the same step. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int x;
long number;
static _Atomic int atomics[2];
static char bytes[256], other[256], text[8] = "0";
static char *blocks[2];
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER, third = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static const char *mode;
static volatile int hidden;

/* A part of instrumented functions: calls of code that is not instrumented would be. */
__attribute__((always_inline)) static inline int is_set(void) {
    int value;
    __asm__ volatile("movl (%1), %0" : "=r"(value) : "r"(&hidden) : "memory");
    return value;
}
__attribute__((always_inline)) static inline void set(void) {
    __asm__ volatile("movl %0, (%1)" : : "r"(1), "r"(&hidden) : "memory");
}
__attribute__((always_inline)) static inline int number_in(const char *text) {
    int value;
    __asm__ volatile("movzbl (%1), %0" : "=r"(value) : "r"(text) : "memory");
    return value - '0';
}

static int is(const char *name) { return !strcmp(mode, name); }

__attribute__((noinline)) static void one(char *mine) {
    if (is("line") || is("direction") || is("call") || is("lock")) x = 3;
    if (is("size")) number = 3;
    if (is("atomic")) *(volatile int *)&atomics[1] = 3;
    if (is("copy")) bytes[10] = 1;
    if (is("free")) mine[3] = 1;
    if (is("deadlock")) {
        pthread_mutex_lock(&left), pthread_mutex_lock(&right);
        pthread_mutex_unlock(&right), pthread_mutex_unlock(&left);
    }
    set();
    if (is("semaphore")) {
        x = 3;
        sem_wait(&semaphore);
    }
    if (is("library")) {
        x = 3;
        pthread_mutex_lock(&lock);
        strcpy(text, "1");
        pthread_mutex_unlock(&lock);
    }
}

__attribute__((noinline)) static void two(void) {
    if (is("line")) {
        if (is_set())
            x = 1;
        else
            x = 2;
    }
    if (is("direction")) {
        if (is_set())
            x = 1;
        else
            number = x;
    }
    if (is("size")) {
        if (is_set())
            number = 1;
        else
            *(volatile short *)&number = 2;
    }
    if (is("call")) {
        if (is_set())
            x = 1;
        else
            free(malloc(10));
    }
    if (is("lock")) {
        if (is_set())
            x = 1;
        else
            pthread_mutex_lock(&lock);
    }
    if (is("atomic")) atomic_fetch_add(&atomics[is_set()], 1);
    if (is("copy")) memcpy(bytes + (is_set() ? 0 : 100), other, 80);
    if (is("free")) free(blocks[is_set()]);
    if (is("deadlock")) {
        pthread_mutex_t *mine = is_set() ? &left : &third;
        pthread_mutex_lock(&right), pthread_mutex_lock(mine);
        pthread_mutex_unlock(mine), pthread_mutex_unlock(&right);
    }
    if (is("semaphore")) {
        if (sem_trywait(&semaphore))
            x = 1;
        else
            sem_post(&semaphore);
    }
    if (is("library")) {
        for (int ready = 0; !ready;) {
            pthread_mutex_lock(&lock);
            ready = number_in(text);
            pthread_mutex_unlock(&lock);
        }
        x = 1;
    }
}

static void *first(void *mine) { one(mine); return mine; }
static void *second(void *unused) { two(); return unused; }

int main(int count, char **arguments) {
    pthread_t a, b;
    mode = count > 1 ? arguments[1] : "";
    blocks[0] = malloc(40), blocks[1] = malloc(40);
    sem_init(&semaphore, 0, 1);
    pthread_create(&a, 0, first, blocks[1]), pthread_create(&b, 0, second, 0);
    pthread_join(a, 0), pthread_join(b, 0);
    return 0;
}
