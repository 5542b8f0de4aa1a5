// One thread measures a text while another one makes it longer and shorter.
#include <pthread.h>
#include <string.h>

static char text[24];

static void *measure(void *unused) {
    unsigned long sum = 0;
    for (int i = 0; i < 200; i++) {
        sum += strlen(text);
    }
    return (void *)sum;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, measure, 0);
    for (int i = 0; i < 200; i++) {
        memcpy(text, i % 2 ? "a long text that is" : "short\0and no more  ", 20);
    }
    pthread_join(thread, 0);
    return 0;
}
