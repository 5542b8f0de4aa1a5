// A system call writes memory that another thread writes, too.
#include <pthread.h>
#include <unistd.h>

static int ends[2], shared;

static void *receive(void *nothing) {
    read(ends[0], &shared, sizeof shared);
    return nothing;
}

static void *set(void *nothing) {
    shared = 2;
    return nothing;
}

int main(void) {
    int one = 1;
    pthread_t threads[2];
    pipe(ends);
    write(ends[1], &one, sizeof one);
    pthread_create(&threads[0], 0, receive, 0);
    pthread_create(&threads[1], 0, set, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
