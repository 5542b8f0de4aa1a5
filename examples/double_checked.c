// Double-checked locking as it was once recommended: the first look at the pointer takes no lock.
//
// Found: data races on `instance` (the unlocked look against the assignment) and on what it points to.
// With -DFIXED the pointer is atomic, and there is no race.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    int width;
    int height;
};

static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;
#ifdef FIXED
static struct settings *_Atomic instance;
#define LOAD() atomic_load_explicit(&instance, memory_order_acquire)
#define STORE(pointer) atomic_store_explicit(&instance, pointer, memory_order_release)
#else
static struct settings *instance;
#define LOAD() instance
#define STORE(pointer) instance = pointer
#endif

static struct settings *settings(void)
{
    struct settings *found = LOAD();
    if (found == NULL) {
        pthread_mutex_lock(&settings_lock);
        found = LOAD();
        if (found == NULL) {
            found = malloc(sizeof *found);
            found->width = 80;
            found->height = 25;
            STORE(found);
        }
        pthread_mutex_unlock(&settings_lock);
    }
    return found;
}

static void *reader(void *argument)
{
    struct settings *s = settings();
    *(int *)argument = s->width * s->height;
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int area[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, &area[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", area[0], area[1]);
    return 0;
}
