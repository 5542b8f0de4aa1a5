// A flag that is set, and numbers that are counted, by assembly in instrumented functions, which nobody sees. The lock
// orders all of it: the second thread looks at `data` only once it has seen the flag. With an argument the first thread
// looks at the flag itself.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int flag = 1, data;

#define set(place, value) __asm__ volatile("movl %1, (%0)" : : "r"(place), "r"(value) : "memory")

static void *first(void *looks) {
    data = 1;
    pthread_mutex_lock(&lock);
    set(&flag, 2);
    if (looks && flag != 2) data = 7;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *second(void *nothing) {
    int own = 0;
    set(&own, 5);
    pthread_mutex_lock(&lock);
    int seen = flag;
    pthread_mutex_unlock(&lock);
    if (seen == 2) data += own;
    return nothing;
}

int main(int count, char **arguments) {
    flag = 1;
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, count > 1 ? arguments[1] : 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%d\n", data);
    return 0;
}
