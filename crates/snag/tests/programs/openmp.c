/* What OpenMP orders: regions, barriers, loops, sections, critical parts, locks, tasks, copies. Nothing races. */
#include <omp.h>
#include <stdio.h>

enum { SIZE = 64, THREADS = 3 };

static int values[SIZE], sums[THREADS], shared_count, named_count, locked_count, handed_on, steps[SIZE];
static omp_lock_t lock;
static omp_nest_lock_t nested;

static int fibonacci(int n) {
    int a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void) {
    int total = 0, result = 0, order = 0, x = 0, y = 0;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nested);
#pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++)
        values[i] = i;
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, 3) reduction(+ : total)
    for (int i = 0; i < SIZE; i++)
        total += values[SIZE - 1 - i];
#pragma omp parallel num_threads(THREADS)
    {
        int me = omp_get_thread_num();
        sums[me] = me;
#pragma omp barrier
        int next = sums[(me + 1) % THREADS];
#pragma omp barrier
        sums[me] = next;
#pragma omp critical
        shared_count++;
#pragma omp critical(name)
        named_count++;
        omp_set_lock(&lock);
        locked_count++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nested);
        omp_set_nest_lock(&nested);
        locked_count += 0 * handed_on;
        omp_unset_nest_lock(&nested);
        omp_unset_nest_lock(&nested);
        int mine;
#pragma omp single copyprivate(mine)
        mine = ++handed_on;
        sums[me] += mine;
#pragma omp for ordered schedule(dynamic)
        for (int i = 0; i < 12; i++) {
#pragma omp ordered
            steps[order++] = i;
        }
#pragma omp sections
        {
#pragma omp section
            values[0] = 1;
#pragma omp section
            values[1] = 2;
        }
        sums[me] += values[0] + values[1];
    }
#pragma omp parallel num_threads(THREADS)
#pragma omp single
    {
        result = fibonacci(6);
#pragma omp task depend(out : x) shared(x)
        x = 5;
#pragma omp task depend(in : x) depend(out : y) shared(x, y)
        y = x + 1;
#pragma omp taskgroup
        {
#pragma omp task shared(values)
            values[2] = 7;
        }
        values[2]++;
    }
    printf("%d %d %d %d %d %d %d %d\n", total, shared_count, named_count, locked_count, handed_on, result, y, steps[11]);
    return 0;
}
