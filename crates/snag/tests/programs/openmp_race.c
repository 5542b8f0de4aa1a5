/* A loop whose iterations depend on each other, and a sum that nobody guards. */
#include <stdio.h>

static int values[60], sum;

int main(void) {
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < 59; i++)
        values[i] = values[i + 1] + 1;
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < 60; i++)
        sum += values[i];
    printf("%d\n", sum > 0);
    return 0;
}
