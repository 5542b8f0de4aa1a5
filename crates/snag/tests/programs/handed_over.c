// What the kernel hands over from one thread to another, each time with nothing else between the two. No races.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANDED = 24 };

static int values[HANDED], sum, guarded;
static int polled, selected, waited, added, watch, pair[2], ended[2], streamed[2], counter, timer, channel[2], sockets[2];
static int sent_file, signals, queue, set, lock_a, lock_b, from_file[2], timed_signals;
static pthread_t receiver;
static volatile sig_atomic_t handled;

// At a place of its own each time, so that each is reported by itself.
#define give(i) values[i] = 1
#define take(i) sum += values[i]

static void on_signal(int signal)
{
    take(0);
    handled = 1;
}

static void plus_one(int descriptor)
{
    uint64_t one = 1;
    write(descriptor, &one, sizeof one);
}

struct message {
    long kind;
    char text[8];
};

static void *send_all(void *argument)
{
    give(0);
    pthread_kill(receiver, SIGUSR1);
    give(1);
    plus_one(polled);
    give(2);
    plus_one(selected);
    give(3);
    plus_one(waited);
    // The event is there already; whoever waits learns of it by the address that is given here.
    static int *address = &values[4];
    *address = 1;
    struct epoll_event event = {EPOLLIN, {.ptr = address}};
    epoll_ctl(watch, EPOLL_CTL_ADD, added, &event);
    give(5);
    close(ended[1]);
    give(6);
    shutdown(pair[1], SHUT_WR);
    FILE *stream = fdopen(streamed[1], "w");
    give(7);
    fprintf(stream, "%d %s\n", 7, "lines");
    fflush(stream);
    give(8);
    eventfd_write(counter, 1);
    give(9);
    struct itimerspec soon = {{0, 0}, {0, 1}};
    timerfd_settime(timer, 0, &soon, NULL);
    int fifo = open("fifo", O_WRONLY);
    give(10);
    write(fifo, "x", 1);
    close(fifo);
    give(11);
    kill(getpid(), SIGUSR2);
    give(12);
    kill(getpid(), SIGTERM);
    give(13);
    sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 3});
    struct message message = {1, "queue"};
    give(14);
    msgsnd(queue, &message, sizeof message.text, 0);
    struct sembuf plus = {0, 1, 0};
    give(15);
    semop(set, &plus, 1);
    give(16);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    give(17);
    flock(lock_a, LOCK_UN);
    int file = open("file", O_WRONLY);
    give(18);
    write(file, "x", 1);
    close(file);
    give(19);
    sendfile(channel[1], sent_file, NULL, 1);
    char bytes[2] = "xy";
    struct iovec pieces[2] = {{bytes, 1}, {bytes + 1, 1}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = pieces, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = pieces + 1, .msg_iovlen = 1}}};
    give(20);
    sendmmsg(sockets[1], messages, 2, 0);
    give(21);
    fputs("more\n", stream);
    fclose(stream);
    give(22);
    timer_t alarm_clock;
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    timer_create(CLOCK_MONOTONIC, &how, &alarm_clock);
    timer_settime(alarm_clock, 0, &soon, NULL);
    give(23);
    dup2(0, from_file[1]);
    return argument;
}

static void *receive_all(void *argument)
{
    char byte, line[32];
    uint64_t count;
    while (!handled)
        usleep(100);
    struct pollfd poll_one = {polled, POLLIN, 0};
    poll(&poll_one, 1, -1);
    take(1);
    fd_set chosen;
    FD_ZERO(&chosen);
    FD_SET(selected, &chosen);
    select(selected + 1, &chosen, NULL, NULL, NULL);
    take(2);
    struct epoll_event event;
    for (int i = 0; i < 2; i++) {
        epoll_wait(watch, &event, 1, -1);
        sum += *(int *)event.data.ptr;
    }
    read(ended[0], &byte, 1);
    take(5);
    recv(pair[0], &byte, 1, 0);
    take(6);
    FILE *stream = fdopen(streamed[0], "r");
    fgets(line, sizeof line, stream);
    take(7);
    eventfd_read(counter, &count);
    take(8);
    read(timer, &count, sizeof count);
    take(9);
    int fifo = open("fifo", O_RDONLY);
    read(fifo, &byte, 1);
    take(10);
    close(fifo);
    sigset_t one;
    int got;
    siginfo_t information;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    sigwait(&one, &got);
    take(11);
    struct signalfd_siginfo facts;
    read(signals, &facts, sizeof facts);
    take(12);
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 2);
    sigwaitinfo(&one, &information);
    take(13);
    struct message message;
    msgrcv(queue, &message, sizeof message.text, 0, 0);
    take(14);
    struct sembuf minus = {0, -1, 0};
    semop(set, &minus, 1);
    take(15);
    while (wait(NULL) < 0)
        usleep(100);
    take(16);
    flock(lock_b, LOCK_EX);
    take(17);
    int file = open("file", O_RDONLY);
    while (read(file, &byte, 1) != 1)
        usleep(100);
    take(18);
    read(channel[0], &byte, 1);
    take(19);
    char bytes[2];
    struct iovec pieces[2] = {{bytes, 1}, {bytes + 1, 1}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = pieces, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = pieces + 1, .msg_iovlen = 1}}};
    recvmmsg(sockets[0], messages, 1, 0, NULL);
    take(20);
    getc(stream);
    take(21);
    fclose(stream);
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 3);
    struct timespec long_enough = {60, 0};
    sigtimedwait(&one, &information, &long_enough);
    take(22);
    read(from_file[0], &byte, 1);
    take(23);
    return argument;
}

static void *lock_stream(void *argument)
{
    for (int i = 0; i < 5; i++) {
        flockfile(stderr);
        guarded++;
        funlockfile(stderr);
    }
    return argument;
}

int main(void)
{
    polled = eventfd(0, 0);
    selected = eventfd(0, 0);
    waited = eventfd(0, 0);
    added = eventfd(1, 0);
    counter = eventfd(0, 0);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    watch = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.ptr = &values[3]}};
    epoll_ctl(watch, EPOLL_CTL_ADD, waited, &event);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets);
    pipe(ended);
    pipe(streamed);
    pipe(channel);
    pipe(from_file);
    unlink("fifo");
    mkfifo("fifo", 0600);
    unlink("file");
    close(creat("file", 0600));
    sent_file = open("/dev/zero", O_RDONLY);
    lock_a = open("file", O_RDONLY);
    lock_b = open("file", O_RDONLY);
    flock(lock_a, LOCK_EX);
    queue = msgget(IPC_PRIVATE, 0600);
    set = semget(IPC_PRIVATE, 1, 0600);
    sigset_t all;
    sigemptyset(&all);
    sigaddset(&all, SIGTERM);
    signals = signalfd(-1, &all, 0);
    sigaddset(&all, SIGUSR2);
    sigaddset(&all, SIGRTMIN + 2);
    sigaddset(&all, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t sender, lockers[2];
    pthread_create(&receiver, NULL, receive_all, NULL);
    pthread_create(&sender, NULL, send_all, NULL);
    pthread_join(sender, NULL);
    pthread_join(receiver, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&lockers[i], NULL, lock_stream, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(lockers[i], NULL);
    msgctl(queue, IPC_RMID, NULL);
    semctl(set, 0, IPC_RMID);
    printf("%d %d\n", sum, guarded);
    return 0;
}
