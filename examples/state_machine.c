// A device goes from IDLE to READY to BUSY. Its state is changed under a lock. Its buffer is used outside, as 'whoever
// sees READY owns the buffer' -- but the reset does not look at the state.
//
// In an ordinary run the reset comes long after the work, and the lock, which both take, seems to order them: a detector
// that looks at what happened finds nothing, however often the program is run. Nothing keeps the reset from coming
// earlier.
//
// Found: a data race on `buffer`, between the work and the reset.
// With -DFIXED the reset waits for the state to be IDLE again, and there is no race.

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum state { IDLE, READY, BUSY };

static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum state state = READY;
static int resets;
static int buffer;

static void *worker(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&state_lock);
    state = BUSY;
    pthread_mutex_unlock(&state_lock);
    buffer = 1;
    pthread_mutex_lock(&state_lock);
    state = IDLE;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&state_lock);
    return NULL;
}

static void *resetter(void *argument)
{
    (void)argument;
    usleep(50000);
    pthread_mutex_lock(&state_lock);
#ifdef FIXED
    while (state != IDLE)
        pthread_cond_wait(&changed, &state_lock);
#endif
    resets++;
    pthread_mutex_unlock(&state_lock);
    buffer = 0;
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, worker, NULL);
    pthread_create(&threads[1], NULL, resetter, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("buffer %d, resets %d\n", buffer, resets);
    return 0;
}
