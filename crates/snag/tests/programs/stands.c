/* One race in each mode, on what the mode names: the two accesses can both be about to happen. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int atomic;
static _Atomic long wide;
static char bytes[256], text[64] = "some words", other[256];
static uint64_t word;
__int128 huge;
struct { int numbers[40]; } big, copy;
static struct __attribute__((packed)) { char first; uint32_t rest; } packed;
static char *block;
static int pipes[2];
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static const char *mode;

static int is(const char *name) { return !strcmp(mode, name); }

__attribute__((noinline)) static void one(void) {
    if (is("load")) atomic_load(&atomic);
    if (is("store")) atomic_store(&atomic, 1);
    if (is("add")) atomic_fetch_add(&wide, 1);
    if (is("compare")) { int zero = 0; atomic_compare_exchange_strong(&atomic, &zero, 5); }
    if (is("compare-fails")) { int seven = 7; atomic_compare_exchange_strong(&atomic, &seven, 5); }
    if (is("memcpy-from")) memcpy(other, bytes, sizeof bytes);
    if (is("memcpy-to")) memcpy(bytes, other, sizeof bytes);
    if (is("memcpy-short")) memcpy(bytes, other, (size_t)getppid() ? 24 : 8);
    if (is("memset")) memset(bytes, 1, sizeof bytes);
    if (is("strcpy")) strcpy(bytes, text);
    if (is("strcpy-from")) strcpy(bytes, text);
    if (is("strlen")) word = strlen(text);
    if (is("strdup")) free(strdup(text));
    if (is("strtol")) word = strtol(text, 0, 10);
    if (is("word")) word = 0x123456789;
    if (is("huge")) huge = 1;
    if (is("packed")) packed.rest = 7;
    if (is("structure")) copy = big;
    if (is("read")) read(pipes[0], bytes, 8);
    if (is("write")) write(pipes[1], bytes, 8);
    if (is("free")) free(block);
    if (is("realloc")) block = realloc(block, 100000);
    if (is("both")) memset(bytes, 1, 100);
    if (is("deadlock")) {
        pthread_mutex_lock(&left), pthread_mutex_lock(&right);
        pthread_mutex_unlock(&right), pthread_mutex_unlock(&left);
    }
    if (is("rwlock")) {
        pthread_mutex_lock(&left), pthread_rwlock_wrlock(&shared);
        pthread_rwlock_unlock(&shared), pthread_mutex_unlock(&left);
    }
}

__attribute__((noinline)) static void two(char *mine) {
    if (is("load") || is("store") || is("compare") || is("compare-fails")) *(volatile int *)&atomic = 3;
    if (is("add")) *(volatile long *)&wide = 3;
    if (is("memcpy-from")) bytes[100] = 1;
    if (is("memcpy-to") || is("memset")) bytes[200] = 2;
    if (is("memcpy-short")) bytes[17] = 2;
    if (is("strcpy")) bytes[3] = 2;
    if (is("strcpy-from") || is("strlen") || is("strdup")) text[4] = 'X';
    if (is("strtol")) text[0] = '1';
    if (is("word")) word++;
    if (is("huge")) ((uint64_t *)&huge)[1] = 5;
    if (is("packed")) packed.rest++;
    if (is("structure")) big.numbers[30] = 1;
    if (is("read") || is("write")) bytes[2] = 3;
    if (is("free") || is("realloc")) mine[5] = 1;
    if (is("both")) memcpy(bytes + 50, other, 100);
    if (is("deadlock")) {
        pthread_mutex_lock(&right), pthread_mutex_lock(&left);
        pthread_mutex_unlock(&left), pthread_mutex_unlock(&right);
    }
    if (is("rwlock")) {
        pthread_rwlock_rdlock(&shared), pthread_mutex_lock(&left);
        pthread_mutex_unlock(&left), pthread_rwlock_unlock(&shared);
    }
}

static void *first(void *unused) { one(); return unused; }
static void *second(void *mine) { two(mine); return mine; }

int main(int count, char **arguments) {
    pthread_t a, b;
    mode = count > 1 ? arguments[1] : "";
    block = malloc(64);
    pipe(pipes);
    if (is("read")) write(pipes[1], "12345678", 8);
    /* What is freed must have been used before in this run. */
    pthread_create(&b, 0, second, block), pthread_create(&a, 0, first, 0);
    pthread_join(a, 0), pthread_join(b, 0);
    return 0;
}
