// System calls write memory that another thread writes, too.
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2], sockets[2], shared, received[2];

static void *receive(void *nothing) {
    read(ends[0], &shared, sizeof shared);
    recvfrom(sockets[0], &received[0], sizeof received[0], 0, 0, 0);
    struct iovec piece = {&received[1], sizeof received[1]};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    recvmsg(sockets[0], &message, 0);
    return nothing;
}

static void *set(void *nothing) {
    shared = 2;
    received[0] = 2;
    received[1] = 2;
    return nothing;
}

int main(void) {
    int one = 1;
    pthread_t threads[2];
    pipe(ends);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets);
    write(ends[1], &one, sizeof one);
    for (int i = 0; i < 2; i++) sendto(sockets[1], &one, sizeof one, 0, 0, 0);
    pthread_create(&threads[0], 0, receive, 0);
    pthread_create(&threads[1], 0, set, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
