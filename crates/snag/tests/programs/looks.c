/* A flag that functions of the C library look at, under a lock; data that is written before it is set and read after it was seen. And
   objects that processes share, a lock whose owner ends, and functions of which the C library has an older version. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAYS = 12 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char flags[WAYS][32];
static int data[WAYS];
static volatile int one = 1;

static int is_set(int way) {
    const char *flag = flags[way];
    char *end;
    switch (way) {
    case 0: return strtol(flag, &end, 10) == one;
    case 1: return atoi(flag) == one;
    case 2: return strtod(flag, NULL) == one;
    case 3: return strchr(flag, '0' + one) != NULL;
    case 4: return strrchr(flag, '0' + one) != NULL;
    case 5: return memchr(flag, '0' + one, 8) != NULL;
    case 6: return strstr(flag, "1") != NULL;
    case 7: return strspn(flag, "123") > 0;
    case 8: return strpbrk(flag, "123") != NULL;
    case 9: return strcasecmp(flag, "1\0" + (one - 1)) == 0;
    case 10: return strtoull(flag, NULL, 0) == (unsigned)one;
    default: return strcspn(flag, "1") == 0;
    }
}

static void *writer(void *argument) {
    for (int way = 0; way < WAYS; way++) {
        data[way] = way + 1;
        pthread_mutex_lock(&mutex);
        flags[way][0] = '0' + one;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

static void *reader(void *argument) {
    int *sum = argument;
    for (int way = 0; way < WAYS; way++) {
        int seen = 0;
        while (!seen) {
            pthread_mutex_lock(&mutex);
            seen = is_set(way);
            pthread_mutex_unlock(&mutex);
            if (!seen)
                sched_yield();
        }
        *sum += data[way];
    }
    return NULL;
}

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_barrier_t barrier;
    int state;
};

static int with_a_child(void) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    pthread_barrierattr_t of_barrier;
    pthread_mutexattr_init(&of_mutex);
    pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &of_mutex);
    pthread_condattr_init(&of_condition);
    pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->condition, &of_condition);
    pthread_barrierattr_init(&of_barrier);
    pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &of_barrier, 2);
    pid_t child = fork();
    if (child == 0) {
        pthread_barrier_wait(&shared->barrier);
        pthread_mutex_lock(&shared->mutex);
        shared->state = 1;
        pthread_cond_signal(&shared->condition);
        while (shared->state != 2)
            pthread_cond_wait(&shared->condition, &shared->mutex);
        pthread_mutex_unlock(&shared->mutex);
        pthread_cond_destroy(&shared->condition);
        _exit(0);
    }
    pthread_barrier_wait(&shared->barrier);
    pthread_mutex_lock(&shared->mutex);
    while (shared->state != 1)
        pthread_cond_wait(&shared->condition, &shared->mutex);
    shared->state = 2;
    pthread_cond_signal(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static pthread_mutex_t robust;
static int inherited;

static void *dies(void *argument) {
    pthread_mutex_lock(&robust);
    inherited = 7;
    return argument;
}

static void *inherits(void *argument) {
    while (pthread_mutex_lock(&robust) != EOWNERDEAD) {
        pthread_mutex_unlock(&robust);
        sched_yield();
    }
    pthread_mutex_consistent(&robust);
    inherited++;
    pthread_mutex_unlock(&robust);
    return argument;
}

int main(void) {
    int sum = 0;
    pthread_t threads[2];
    for (int way = 0; way < WAYS; way++)
        strcpy(flags[way], "0");
    pthread_create(&threads[0], NULL, reader, &sum);
    pthread_create(&threads[1], NULL, writer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_create(&threads[0], NULL, dies, NULL);
    pthread_create(&threads[1], NULL, inherits, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    char *path = realpath("/", NULL);
    int child = with_a_child();
    printf("%d %d %d %s\n", sum, inherited, child, path ? path : "nothing");
    free(path);
    return 0;
}
