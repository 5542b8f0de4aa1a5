// A shared object that the last user frees. The count is atomic, as it should be, but one user looks at the object once
// more after it has given its reference back.
//
// Found: a data race between that look and the free by the other user.
// With -DFIXED the look comes first, and there is no race.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct document {
    atomic_int users;
    int length;
    char text[16];
};

static void release(struct document *document)
{
    if (atomic_fetch_sub_explicit(&document->users, 1, memory_order_acq_rel) == 1)
        free(document);
}

static void *editor(void *argument)
{
    struct document *document = argument;
    document->text[0] = 'a';
#ifdef FIXED
    int length = document->length;
    release(document);
#else
    release(document);
    int length = document->length;
#endif
    return (void *)(long)length;
}

static void *reader(void *argument)
{
    struct document *document = argument;
    int length = document->length;
    release(document);
    return (void *)(long)length;
}

int main(void)
{
    struct document *document = calloc(1, sizeof *document);
    document->users = 2;
    document->length = 7;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, editor, document);
    pthread_create(&threads[1], NULL, reader, document);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("done\n");
    return 0;
}
