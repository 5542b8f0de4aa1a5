/* Boxes go through a slot, one after the other, and each lies where the one before was. Nothing races: whoever takes a box has
   it for himself. But who takes the address of one for that of another, as it is the same number, thinks that a box can be
   used up while it is still being filled. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAIRS = 4, MAPPED = 8192 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long *slot;
static long sum;

static long *of_heap(void) { return malloc(24); }
static void to_heap(long *box) { free(box); }

static long *of_mapping(void) { return malloc(1 << 20); }

static long *of_system(void) {
    return mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void to_system(long *box) { munmap(box, MAPPED); }

static const struct kind {
    long *(*get)(void);
    void (*give_back)(long *);
} kinds[] = {{of_heap, to_heap}, {of_mapping, to_heap}, {of_system, to_system}};

static void *put(void *argument) {
    const struct kind *kind = argument;
    long *box = kind->get();
    *box = 1;
    pthread_mutex_lock(&lock);
    long *other = slot;
    slot = box;
    pthread_mutex_unlock(&lock);
    if (other)
        kind->give_back(other);
    return NULL;
}

static void *take(void *argument) {
    const struct kind *kind = argument;
    pthread_mutex_lock(&lock);
    long *box = slot;
    slot = NULL;
    if (box)
        sum += *box;
    pthread_mutex_unlock(&lock);
    if (box)
        kind->give_back(box);
    return NULL;
}

int main(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t threads[2 * PAIRS];
        for (int j = 0; j < 2 * PAIRS; j++)
            pthread_create(&threads[j], NULL, j % 2 ? take : put, (void *)&kinds[i]);
        for (int j = 0; j < 2 * PAIRS; j++)
            pthread_join(threads[j], NULL);
        take((void *)&kinds[i]);
    }
    puts(sum > 0 ? "taken" : "nothing");
    return 0;
}
