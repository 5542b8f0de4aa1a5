// A bounded queue with a mutex and two condition variables. Everything is protected, but for the statistics.
//
// Found: a data race on `longest`, which each consumer updates at its end, without the lock.
// With -DFIXED it is updated under the lock, and there is no race.

#include <pthread.h>
#include <stdio.h>

enum { ROOM = 4, ITEMS = 20, CONSUMERS = 2 };

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], first, count, closed;
static int longest;
static long sums[CONSUMERS];

static void put(int item)
{
    pthread_mutex_lock(&queue_lock);
    while (count == ROOM)
        pthread_cond_wait(&not_full, &queue_lock);
    queue[(first + count++) % ROOM] = item;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&queue_lock);
}

static int take(int *item)
{
    pthread_mutex_lock(&queue_lock);
    while (count == 0 && !closed)
        pthread_cond_wait(&not_empty, &queue_lock);
    int length = count;
    if (count > 0) {
        *item = queue[first];
        first = (first + 1) % ROOM;
        count--;
        pthread_cond_signal(&not_full);
    }
    pthread_mutex_unlock(&queue_lock);
    return length;
}

static void *consumer(void *argument)
{
    long number = (long)argument;
    int item, length, mine = 0;
    while ((length = take(&item)) > 0) {
        sums[number] += item;
        if (length > mine)
            mine = length;
    }
#ifdef FIXED
    pthread_mutex_lock(&queue_lock);
#endif
    if (mine >= longest)
        longest = mine;
#ifdef FIXED
    pthread_mutex_unlock(&queue_lock);
#endif
    return NULL;
}

int main(void)
{
    pthread_t threads[CONSUMERS];
    for (long i = 0; i < CONSUMERS; i++)
        pthread_create(&threads[i], NULL, consumer, (void *)i);
    for (int i = 1; i <= ITEMS; i++)
        put(i);
    pthread_mutex_lock(&queue_lock);
    closed = 1;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&queue_lock);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    printf("sum %ld\n", sums[0] + sums[1]);
    return 0;
}
