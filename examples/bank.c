/* A bank account. Two tellers pay in under a lock; a logger prints the balance without it. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long balance;

static void *teller(void *amount) {
    pthread_mutex_lock(&m);
    balance += *(long *)amount;
    pthread_mutex_unlock(&m);
    return NULL;
}

static void *logger(void *unused) {
    (void)unused;
    printf("balance: %ld\n", balance);
    return NULL;
}

int main(void) {
    pthread_t anna, bob, log;
    long ten = 10, five = 5;
    balance = 100;
    pthread_create(&anna, NULL, teller, &ten);
    pthread_create(&bob, NULL, teller, &five);
    pthread_create(&log, NULL, logger, NULL);
    pthread_join(anna, NULL);
    pthread_join(bob, NULL);
    pthread_join(log, NULL);
    printf("in the end: %ld\n", balance);
    return 0;
}
