// Without races: signals that come while threads wait, signals that carry values, faults that are mended or jumped over, and
// processes that are made by hand.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUEUED = 6, PAGE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, waiting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t handled, blocking;
static int configured, told, go;
static _Atomic int sum, handlers, interrupted;

// Comes after whoever has installed it, and whoever has sent its signal.
static void answer(int signal) {
    if (configured == 5 && told > 0)
        handlers++;
    sem_post(&handled);
}

static void add(int signal, siginfo_t *information, void *context) {
    sum += information->si_value.sival_int;
    sem_post(&handled);
}

static void *on_condition(void *unused) {
    pthread_mutex_lock(&lock);
    while (!go)
        pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *on_mutex(void *unused) {
    pthread_mutex_lock(&waiting);
    pthread_mutex_unlock(&waiting);
    return NULL;
}

static void *on_semaphore(void *unused) {
    while (sem_wait(&blocking) != 0)
        interrupted += errno == EINTR;
    return NULL;
}

static void *on_barrier(void *unused) {
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *on_join(void *of) {
    pthread_join(*(pthread_t *)of, NULL);
    return NULL;
}

// Found handlers that ran when the wait was over, which they were to end.
static void interrupt_waits(void) {
    pthread_mutex_lock(&waiting);
    pthread_t threads[5];
    pthread_create(&threads[0], NULL, on_condition, NULL);
    pthread_create(&threads[1], NULL, on_mutex, NULL);
    pthread_create(&threads[2], NULL, on_semaphore, NULL);
    pthread_create(&threads[3], NULL, on_barrier, NULL);
    pthread_create(&threads[4], NULL, on_join, &threads[1]);
    for (int i = 0; i < 5; i++) {
        // That one is to be found waiting.
        do {
            told++;
            pthread_kill(threads[i], SIGUSR1);
            while (sem_wait(&handled) != 0) {
            }
            usleep(1000);
        } while (i == 2 && !interrupted);
    }
    for (int i = 0; i < QUEUED; i++) {
        union sigval value = {.sival_int = 1 << i};
        pthread_sigqueue(threads[3], SIGRTMAX, value);
    }
    for (int i = 0; i < QUEUED; i++)
        while (sem_wait(&handled) != 0) {
        }
    pthread_mutex_unlock(&waiting);
    pthread_mutex_lock(&lock);
    go = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&lock);
    sem_post(&blocking);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 5; i++)
        if (i != 1)
            pthread_join(threads[i], NULL);
}

static sigjmp_buf jump;
static volatile int *closed;
static int mends, jumped, mended;

static void on_fault(int signal) {
    if (!mends)
        siglongjmp(jump, 1);
    mended++;
    mprotect((void *)closed, PAGE, PROT_READ | PROT_WRITE);
}

// Found a fault in the handler of a fault.
static void fault(void) {
    closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 4; i++) {
        if (sigsetjmp(jump, 1) != 0)
            jumped++;
        else if (i % 2)
            closed[i] = 1;
        else
            mended += closed[i];
    }
    mends = 1;
    closed[0] = 40;
    mprotect((void *)closed, PAGE, PROT_NONE);
    mended += closed[0];
}

static int child(void *unused) {
    configured = 7;
    _exit(configured);
}

// Found two processes to be recorded as one.
static int ended(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
    sem_init(&handled, 0, 0);
    sem_init(&blocking, 0, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    configured = 5;
    struct sigaction action = {.sa_handler = answer};
    sigaction(SIGUSR1, &action, NULL);
    struct sigaction adding = {.sa_sigaction = add, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMAX, &adding, NULL);
    action.sa_handler = on_fault;
    sigaction(SIGSEGV, &action, NULL);
    interrupt_waits();
    fault();
    char *stack = malloc(1 << 16);
    int first = ended(clone(child, stack + (1 << 16), SIGCHLD, NULL));
    pid_t process = syscall(SYS_fork);
    if (process == 0)
        child(NULL);
    free(stack);
    printf("%d %d, %d jumped, %d mended, %d %d\n", handlers >= 5, sum, jumped, mended, first, ended(process));
    return 0;
}
