// Races on parts of variables, under locks that are parts of variables. What the report calls them is tested.
#include <pthread.h>

struct job { int state; char name[12]; long when; };
static struct { int n; struct job jobs[8]; union { int number; float fraction; } last; } pool;
struct account { long id; long balance; pthread_mutex_t lock; } accounts[3];

static void deposit(int i) {
    pthread_mutex_lock(&accounts[i].lock);
    pool.jobs[3].state = 5;
    accounts[i].balance += 3;
    pthread_mutex_unlock(&accounts[i].lock);
}

static void *worker(void *nothing) {
    static int calls;
    deposit(1);
    calls++;
    return nothing;
}

static pthread_t start(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    return thread;
}

int main(void) {
    for (int i = 0; i < 3; i++) pthread_mutex_init(&accounts[i].lock, 0);
    pthread_t thread = start();
    accounts[1].balance = 7;
    pool.jobs[3].state = 1;
    worker(0);
    pthread_join(thread, 0);
    return 0;
}
