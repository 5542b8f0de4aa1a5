/* What two threads do is put in order by a library that is built without callbacks (unseen_library.c); `racy` alone is not.
   The first argument says how. */
#include "unseen_library.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct channel channel;
static long x;
int racy;
static int mutex;
static int rounds = 40;

static void *sends(void *unused) {
    racy = 1;
    x = 1;
    channel_set(&channel);
    return unused;
}

static void *receives(void *unused) {
    racy = 2;
    channel_wait(&channel);
    printf("%ld\n", x);
    return unused;
}

static void *produces(void *unused) {
    racy = 1;
    for (int i = 0; i < 5; i++) {
        long *message = malloc(sizeof *message);
        *message = i;
        push(message);
    }
    return unused;
}

static void *consumes(void *unused) {
    long sum = 0;
    racy = 2;
    for (int i = 0; i < 5; i++) {
        long *message = pop();
        sum += *message;
        free(message);
    }
    printf("%ld\n", sum);
    return unused;
}

static void *with_futex(void *number) {
    racy = (long)number;
    for (int i = 0; i < rounds; i++) {
        sleeping_lock(&mutex);
        x += 1;
        sleeping_unlock(&mutex);
    }
    return 0;
}

static void *with_loop(void *number) {
    racy = (long)number;
    for (int i = 0; i < rounds; i++) {
        spinning_lock(&mutex);
        x += 1;
        x *= 1;
        spinning_unlock(&mutex);
    }
    return 0;
}

/* What instrumented code calls by a pointer that the dynamic linker has filled in. */
void (*take)(int *) = sleeping_lock;

static void *with_pointer(void *number) {
    racy = (long)number;
    for (int i = 0; i < 5; i++) {
        take(&mutex);
        x += 1;
        sleeping_unlock(&mutex);
    }
    return 0;
}

static void add_seven(void *p) { *(long *)p += 7; }

static struct job job = {0, add_seven, &x};
static long beside;

static void *runs_job(void *unused) {
    racy = 1;
    beside = 1;
    job_run(&job);
    return unused;
}

static void *awaits_job(void *unused) {
    racy = 2;
    job_wait(&job);
    printf("%ld %ld\n", x, beside);
    x = 8;
    return unused;
}

static const struct {
    const char *name;
    void *(*first)(void *), *(*second)(void *);
} modes[] = {{"flag", sends, receives},        {"queue", produces, consumes},          {"futex", with_futex, with_futex},
             {"loop", with_loop, with_loop},   {"callback", runs_job, awaits_job},     {"pointer", with_pointer, with_pointer}};

int main(int count, char **arguments) {
    for (size_t i = 0; count > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(arguments[1], modes[i].name)) continue;
        pthread_t a, b;
        pthread_create(&a, 0, modes[i].first, (void *)1);
        pthread_create(&b, 0, modes[i].second, (void *)2);
        pthread_join(a, 0);
        pthread_join(b, 0);
        printf("%ld\n", x);
        return 0;
    }
    return 1;
}
