// Threads that write down what they do, where nobody in the program reads it: that orders nothing, so their race is there
// whatever came first. The argument says how: a stream, a file, what the program was given when it began, a copy of that.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *stream;
static int file, written_down;
static char how;

static void note(const char *text) {
    switch (how) {
    case 's':
        fprintf(stream, "%s\n", text);
        fflush(stream);
        break;
    case 'p':
        dprintf(file, "%s\n", text);
        break;
    default:
        if (write(file, text, strlen(text)) < 0)
            abort();
    }
}

static void *first(void *unused) {
    written_down = 1;
    note("first");
    return unused;
}

static void *second(void *unused) {
    usleep(20000);
    note("second");
    written_down = 2;
    return unused;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    how = arguments[1][0];
    const char *path = arguments[2];
    switch (how) {
    case 's':
        stream = fopen(path, "w");
        break;
    case 'o':
        file = STDERR_FILENO;
        break;
    case 'c':
        file = dup(STDERR_FILENO);
        break;
    default:
        file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return written_down > 2;
}
