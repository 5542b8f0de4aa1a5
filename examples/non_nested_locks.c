// A list is walked hand over hand: the lock of the next node is taken before that of the last one is given back, so the
// locks do not nest. The length is counted on the way, and one of the walkers counts too late.
//
// Found: a data race on `length`.
// With -DFIXED it is counted while the head is locked, and there is no race.

#include <pthread.h>
#include <stdio.h>

enum { NODES = 3 };

static struct node {
    pthread_mutex_t lock;
    int value;
} nodes[NODES];
static int length;

static void *walker(void *argument)
{
    int by = *(int *)argument;
    pthread_mutex_lock(&nodes[0].lock);
#ifdef FIXED
    length += by;
#endif
    for (int i = 0; i < NODES; i++) {
        nodes[i].value += by;
        if (i + 1 < NODES)
            pthread_mutex_lock(&nodes[i + 1].lock);
        pthread_mutex_unlock(&nodes[i].lock);
    }
#ifndef FIXED
    length += by;
#endif
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int by[2] = { 1, 2 };
    for (int i = 0; i < NODES; i++)
        pthread_mutex_init(&nodes[i].lock, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, walker, &by[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("length %d\n", length);
    return 0;
}
