// Threads that are cancelled wherever they can be: in waits, in system calls, at tests, with handlers that clean up, with
// cancellation turned off for a while, in the middle of a computation, detached, by themselves. All of it is ordered: by
// locks, by the cancellation itself, by joins. The first thread ends before the program.
#include <pthread.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t nothing, started;
static int ends[2], sockets[2], cleaned, destroyed, done, initialised, detached_ended;
static pthread_t sleeper;

static void count(void *place)
{
    pthread_mutex_lock(&lock);
    ++*(int *)place;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void unlock_and_count(void *place)
{
    // The mutex is held again when a wait is cancelled.
    ++*(int *)place;
    pthread_mutex_unlock(&lock);
}

static void destroy(void *place) { count(place); }

#define CLEANING(...)                                                                                                  \
    {                                                                                                                  \
        pthread_cleanup_push(count, &cleaned);                                                                         \
        sem_post(&started);                                                                                            \
        __VA_ARGS__;                                                                                                   \
        pthread_cleanup_pop(0);                                                                                        \
        return argument;                                                                                               \
    }

static void *waits(void *argument)
{
    pthread_setspecific(key, &destroyed);
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock_and_count, &cleaned);
    sem_post(&started);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(0);
    return argument;
}

static void *waits_with_deadline(void *argument)
{
    // Much later.
    struct timespec later = {4000000000, 0};
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock_and_count, &cleaned);
    sem_post(&started);
    pthread_cond_timedwait(&never, &lock, &later);
    pthread_cleanup_pop(0);
    return argument;
}

static char byte;
static const struct timespec long_time = {1000, 0};

static void *sleeps(void *argument)
{
    sem_post(&started);
    for (;;)
        sleep(1000);
    return argument;
}

static void *sleeps_otherwise(void *argument) CLEANING(clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL))
static void *reads(void *argument) CLEANING(read(ends[0], &byte, 1))
static void *receives(void *argument) CLEANING(recvfrom(sockets[0], &byte, 1, 0, NULL, NULL))
static void *polls(void *argument) CLEANING(struct pollfd fd = {ends[0], POLLIN, 0}; poll(&fd, 1, -1))
static void *takes(void *argument) CLEANING(sem_wait(&nothing))
static void *joins(void *argument) CLEANING(pthread_join(sleeper, NULL))
static void *tests(void *argument) CLEANING(for (;;) pthread_testcancel())
static void *awaits_signal(void *argument) CLEANING(sigset_t all; int signal; sigfillset(&all); sigwait(&all, &signal))

static void initialise(void)
{
    sleep(1000);
    initialised = 1;
}

static void *initialises(void *argument) CLEANING(pthread_once(&once, initialise))

static void *computes(void *argument)
{
    volatile int number = 0;
    pthread_cleanup_push(count, &cleaned);
    sem_post(&started);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        number++;
    pthread_cleanup_pop(0);
    return argument;
}

static volatile int never_set;

__attribute__((no_sanitize_thread)) static void compute(void)
{
    while (!never_set)
        ;
}

static void *computes_unseen(void *argument)
{
    pthread_cleanup_push(count, &cleaned);
    sem_post(&started);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    compute();
    pthread_cleanup_pop(0);
    return argument;
}

static void *refuses(void *argument)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    sem_post(&started);
    usleep(1000);
    pthread_testcancel();
    count(&done);
    pthread_setcancelstate(before, NULL);
    for (;;)
        pthread_testcancel();
    return argument;
}

static void *returns(void *argument)
{
    sem_post(&started);
    return argument;
}

static void *itself(void *argument) CLEANING(pthread_cancel(pthread_self()); pthread_testcancel())

static void *detached(void *argument)
{
    pthread_cleanup_push(count, &detached_ended);
    sem_post(&started);
    pause();
    pthread_cleanup_pop(0);
    return argument;
}

static void *last(void *argument)
{
    pthread_mutex_lock(&lock);
    printf("%d cleaned up, %d destroyed, %d done\n", cleaned, destroyed, done);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void)
{
    // Those that keep busy come last and are cancelled first.
    void *(*functions[])(void *) = {sleeps,        waits,       waits_with_deadline, sleeps_otherwise, reads,  receives,
                                    polls,         takes,       joins,               itself,           returns,
                                    awaits_signal, initialises, computes_unseen,     computes,         refuses, tests};
    enum { N = sizeof functions / sizeof *functions };
    pthread_t threads[N], other;
    int cancelled = 0;
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets))
        return 2;
    sem_init(&nothing, 0, 0);
    sem_init(&started, 0, 0);
    pthread_key_create(&key, destroy);
    pthread_create(&other, NULL, detached, NULL);
    pthread_detach(other);
    sem_wait(&started);
    pthread_cancel(other);
    pthread_mutex_lock(&lock);
    while (!detached_ended)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < N; i++) {
        pthread_create(&threads[i], NULL, functions[i], &done);
        sem_wait(&started);
        if (i == 0)
            sleeper = threads[0];
    }
    // The one that is joined by another goes last.
    for (int i = N - 1; i >= 0; i--) {
        void *result;
        pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    // One has returned, unless it was cancelled before it could.
    if (cancelled < N - 1 || initialised)
        abort();
    pthread_create(&other, NULL, last, NULL);
    pthread_exit(NULL);
}
