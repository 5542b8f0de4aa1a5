// Without races: handlers around forks that take locks, and barriers that are destroyed by the first thread that leaves.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 4, ROUNDS = 40, BARRIERS = 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int value, before, after;

static void prepare(void) {
    pthread_mutex_lock(&lock);
    before++;
}

static void parent(void) {
    after++;
    pthread_mutex_unlock(&lock);
}

static void child(void) {
    value = 1000;
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        value++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

struct meeting {
    pthread_barrier_t barrier;
    int seen;
};

static void *meet(void *of) {
    struct meeting *meeting = of;
    if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        meeting->seen++;
        pthread_barrier_destroy(&meeting->barrier);
        free(meeting);
    }
    return NULL;
}

int main(void) {
    pthread_atfork(prepare, parent, child);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    int ended_well = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(value == 1000 ? 0 : 1);
        int status = 1;
        waitpid(pid, &status, 0);
        ended_well += status == 0;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < BARRIERS; i++) {
        struct meeting *meeting = calloc(1, sizeof *meeting);
        pthread_barrier_init(&meeting->barrier, NULL, 3);
        for (int t = 0; t < 3; t++)
            pthread_create(&threads[t], NULL, meet, meeting);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
    }
    printf("%d %d %d %d\n", value, before, after, ended_well);
    return 0;
}
