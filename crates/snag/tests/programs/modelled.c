/* The sections of own_lock can come in another order: then nothing is between the accesses of z. x is protected, and
   so is y, by what is put into the box and taken out. */
#include <pthread.h>
#include <stddef.h>

typedef struct { int held; } own_lock;
void own_take(own_lock *lock);
void own_give(own_lock *lock);
int own_try(own_lock *lock);
void own_put(void *item);
void *own_get(void);

static own_lock lock;
int x, y, z;

static void *first(void *p) {
    z = 1;
    own_take(&lock); x = 1; own_give(&lock);
    y = 1;
    own_put(&y);
    return p;
}

static void *second(void *p) {
    own_take(&lock); x = 2; own_give(&lock);
    z = 2;
    int *taken = own_get();
    (*taken)++;
    return p;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, first, NULL);
    pthread_create(&b, NULL, second, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
