/* A descriptor is closed while another thread uses it (u), or when it has been joined (j), or told so (t); its number is used again. It is made
   another one by dup2 (d) while another thread closes it. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int descriptor;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *reads(void *unused) {
    char text[4];
    pthread_mutex_lock(&mutex);
    read(descriptor, text, sizeof text);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *reads_alone(void *unused) {
    char text[4];
    read(descriptor, text, sizeof text);
    return unused;
}

static void *closes(void *unused) {
    close(descriptor);
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    char how = arguments[1][0];
    if (how == 'd') {
        descriptor = open("/dev/zero", O_RDONLY);
        int other = open("/dev/zero", O_RDONLY);
        pthread_create(&thread, 0, closes, 0);
        dup2(other, descriptor);
        pthread_join(thread, 0);
        printf("closed\n");
        return 0;
    }
    for (int round = 0; round < 3; round++) {
        descriptor = open("/dev/zero", O_RDONLY);
        pthread_create(&thread, 0, how == 'u' ? reads_alone : reads, 0);
        if (how == 'j')
            pthread_join(thread, 0);
        if (how == 't') {
            pthread_join(thread, 0);
            pthread_mutex_lock(&mutex);
            close(descriptor);
            descriptor = -1;
            pthread_mutex_unlock(&mutex);
            continue;
        }
        close(descriptor);
        if (how == 'u')
            pthread_join(thread, 0);
    }
    printf("closed\n");
    return 0;
}
