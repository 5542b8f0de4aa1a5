// Four threads read and write a few shared variables without any order, and note, out of sight of the recorder, every value
// they read. The notes are written to the file that the argument names: for each thread how many, then the values.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, NOTES = 500000 };

static struct { char c; short s; int i; long l; } shared[3];
static long *notes[THREADS];

__attribute__((no_sanitize_thread, noinline)) static void note(int thread, int index, long value)
{
    notes[thread][index] = value;
}

static void *worker(void *argument)
{
    int me = (int)(long)argument;
    unsigned random = 12345 + me;
    for (int i = 0; i < NOTES; i++) {
        random = random * 1103515245 + 12345;
        int which = (random >> 16) % 3;
        long value;
        switch ((random >> 20) % 4) {
        case 0: value = shared[which].c; shared[which].c = (char)(value + me); break;
        case 1: value = shared[which].s; shared[which].s = (short)(value * 3 + i); break;
        case 2: value = shared[which].i; shared[which].i = (int)(value + i * me); break;
        default: value = shared[which].l; shared[which].l = value * 31 + i; break;
        }
        note(me, i, value);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        notes[i] = malloc(NOTES * sizeof(long));
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    FILE *out = fopen(count > 1 ? arguments[1] : "/dev/null", "wb");
    for (int i = 0; i < THREADS; i++)
        fwrite(notes[i], sizeof(long), NOTES, out);
    fclose(out);
    return 0;
}
