// A table that the first user fills. Nobody made sure that there is only one first user.
//
// Found: data races on `filled` and on `squares`.
// With -DFIXED it is filled by pthread_once, and there is no race.

#include <pthread.h>
#include <stdio.h>

static int squares[8];
static int filled;
#ifdef FIXED
static pthread_once_t once = PTHREAD_ONCE_INIT;
#endif

static void fill(void)
{
    for (int i = 0; i < 8; i++)
        squares[i] = i * i;
    filled = 1;
}

static int square(int number)
{
#ifdef FIXED
    pthread_once(&once, fill);
#else
    if (!filled)
        fill();
#endif
    return squares[number];
}

static void *user(void *argument)
{
    int *number = argument;
    *number = square(*number);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = { 3, 5 };
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, user, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", numbers[0], numbers[1]);
    return 0;
}
