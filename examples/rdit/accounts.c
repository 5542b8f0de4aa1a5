/* Many accounts, each with a lock that is taken by functions of its own, and statistics that nothing protects.
 * Built with -fsanitize=thread and recorded, it gives a trace in which lock_account and unlock_account can be left out:
 *   snag punch --methods lock_account,unlock_account run.snag holes.snag
 */
#include <pthread.h>
#include <stdlib.h>

enum { ACCOUNTS = 64, THREADS = 4, ROUNDS = 3000, COUNTERS = 40 };

static struct account {
    pthread_mutex_t lock;
    long balance;
    long payments;
} accounts[ACCOUNTS];

static long deposits[COUNTERS]; /* races: nothing protects these */
static long refused[COUNTERS];

static void lock_account(struct account *account) { pthread_mutex_lock(&account->lock); }
static void unlock_account(struct account *account) { pthread_mutex_unlock(&account->lock); }

static void pay(struct account *account, long amount) {
    lock_account(account);
    account->balance += amount;
    account->payments++;
    unlock_account(account);
}

static long look(struct account *account) {
    lock_account(account);
    long balance = account->balance;
    unlock_account(account);
    return balance;
}

static void *teller(void *argument) {
    unsigned seed = (unsigned)(long)argument * 7919u + 1;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245u + 12345u;
        struct account *account = &accounts[(seed >> 16) % ACCOUNTS];
        if (look(account) < 1000000) {
            pay(account, 5);
        }
        if (round % 50 == 0) {
            deposits[(seed >> 8) % COUNTERS]++;
        }
        if (round % 70 == 0) {
            refused[(seed >> 9) % COUNTERS]++;
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_init(&accounts[i].lock, NULL);
    }
    for (long i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, teller, (void *)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
