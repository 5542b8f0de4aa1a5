// Two tellers book on one account. The deposits take the lock; the audit at the end of each teller's day does not.
//
// Found: a data race on `balance`, between the deposit of one teller and the unlocked audit of the other.
// With -DFIXED the audit takes the lock, too, and there is no race.
//
//     gcc -g -fsanitize=thread examples/bank_account.c -o bank_account && snag run -- ./bank_account

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;
static long audited[2];

static void deposit(long amount)
{
    pthread_mutex_lock(&account_lock);
    balance += amount;
    pthread_mutex_unlock(&account_lock);
}

static void audit(long teller)
{
#ifdef FIXED
    pthread_mutex_lock(&account_lock);
#endif
    audited[teller] = balance;
#ifdef FIXED
    pthread_mutex_unlock(&account_lock);
#endif
}

static void *teller(void *argument)
{
    long number = (long)argument;
    for (int i = 0; i < 10; i++)
        deposit(10);
    audit(number);
    return NULL;
}

int main(void)
{
    pthread_t tellers[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&tellers[i], NULL, teller, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(tellers[i], NULL);
    printf("balance %ld, audited %ld and %ld\n", balance, audited[0], audited[1]);
    return 0;
}
