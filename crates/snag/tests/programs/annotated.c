// Without races, says the program itself: hand-overs that nobody can see are annotated, and what is not to be looked at is
// ignored. What synchronises counts all the same where accesses are ignored.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

void AnnotateHappensBefore(const char *, int, const volatile void *);
void AnnotateHappensAfter(const char *, int, const volatile void *);
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
void __tsan_testonly_barrier_init(unsigned *, unsigned);
void __tsan_testonly_barrier_wait(unsigned *);
int RunningOnValgrind(void);

enum { THREADS = 300, ROUNDS = 5 };

static unsigned barrier;
static char next_to_it = 7;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long handed_over, statistics, counted, again;

static void *give(void *unused) {
    handed_over = 42;
    AnnotateHappensBefore(__FILE__, __LINE__, &barrier);
    __tsan_testonly_barrier_wait(&barrier);
    return NULL;
}

static void *take(void *unused) {
    __tsan_testonly_barrier_wait(&barrier);
    AnnotateHappensAfter(__FILE__, __LINE__, &barrier);
    handed_over++;
    return NULL;
}

// Found that nobody let go of a lock that was taken here, and that others waited for it for good.
static void *count(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        statistics++;
        pthread_mutex_lock(&lock);
        usleep(100);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        counted++;
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        pthread_mutex_unlock(&lock);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        pthread_mutex_lock(&lock);
        again++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *meet(void *unused) {
    __tsan_testonly_barrier_wait(&barrier);
    return NULL;
}

static void run(void *(*one)(void *), void *(*other)(void *), int threads) {
    pthread_t all[THREADS];
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, i % 2 ? other : one, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}

int main(void) {
    __tsan_testonly_barrier_init(&barrier, 2);
    run(give, take, 2);
    run(count, count, 3);
    __tsan_testonly_barrier_init(&barrier, THREADS);
    run(meet, meet, THREADS);
    printf("%ld %ld %ld %d %d\n", handed_over, counted, again, next_to_it, RunningOnValgrind());
    return 0;
}
