// Four threads note, out of sight of the recorder, every value they read: from memory of their own, from memory under a lock,
// and, if the second argument says so, from memory that they share without any order. The notes are written to the file that
// the first argument names: the values of each thread, zeros after the last.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 20000, NOTES = 3 * ROUNDS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long under_lock, unordered[3];
static int own[THREADS];
static int racy;
static long *notes[THREADS];

__attribute__((no_sanitize_thread, noinline)) static void note(int thread, int index, long value)
{
    notes[thread][index] = value;
}

static void *worker(void *argument)
{
    int me = (int)(long)argument, next = 0;
    int unordered_too = racy;
    note(me, next++, unordered_too);
    for (int i = 0; i < ROUNDS; i++) {
        int mine = own[me];
        note(me, next++, mine);
        own[me] = mine + me + 1;
        if (i % 20 == me) {
            pthread_mutex_lock(&lock);
            long value = under_lock;
            note(me, next++, value);
            under_lock = value + 1;
            pthread_mutex_unlock(&lock);
        }
        if (unordered_too && i % 1000 == 999) {
            long value = unordered[i % 3];
            note(me, next++, value);
            unordered[i % 3] = value + 1;
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    racy = count > 2;
    for (int i = 0; i < THREADS; i++)
        notes[i] = calloc(NOTES, sizeof(long));
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    FILE *out = fopen(arguments[1], "wb");
    for (int i = 0; i < THREADS; i++)
        fwrite(notes[i], sizeof(long), NOTES, out);
    fclose(out);
    return 0;
}
