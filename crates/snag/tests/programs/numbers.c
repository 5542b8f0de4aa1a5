// Two threads keep things by the numbers of descriptors. Nobody has a number before it was closed by whoever had it last.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static long uses[1024];

static void use(int number)
{
    if (number < 0)
        abort();
    uses[number]++;
}

static void use_and_close(int number)
{
    use(number);
    close(number);
}

static void pairs(void)
{
    int ends[2];
    pipe(ends);
    use_and_close(ends[0]);
    use_and_close(ends[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    use_and_close(ends[1]);
    use_and_close(ends[0]);
}

static void files(void)
{
    // In memory, where no call has to wait for a disk.
    char name[] = "/dev/shm/numbers-XXXXXX", elsewhere[] = "numbers-XXXXXX";
    use_and_close(open("/dev/null", O_RDONLY));
    use_and_close(openat(AT_FDCWD, "/dev/null", O_WRONLY));
    int made = mkstemp(name);
    if (made < 0)
        made = mkstemp(strcpy(name, elsewhere));
    use(made);
    write(made, "x", 1);
    close(made);
    use_and_close(open(name, O_CREAT | O_RDWR, 0600));
    use_and_close(creat(name, 0600));
    unlink(name);
    use_and_close(memfd_create("numbers", 0));
}

static void events(void)
{
    sigset_t none;
    sigemptyset(&none);
    use_and_close(eventfd(0, 0));
    use_and_close(epoll_create1(0));
    use_and_close(epoll_create(1));
    use_and_close(timerfd_create(CLOCK_MONOTONIC, 0));
    use_and_close(signalfd(-1, &none, 0));
    use_and_close(inotify_init1(0));
}

static void copies(void)
{
    int copy = dup(0), other = open("/dev/null", O_RDWR);
    use(copy);
    use(other);
    dup2(copy, other);
    use(other);
    use_and_close(fcntl(copy, F_DUPFD, 10));
    use_and_close(fcntl(copy, F_DUPFD_CLOEXEC, 20));
    close(other);
    close(copy);
}

static void streams(void)
{
    FILE *file = fopen("/dev/null", "r");
    use(fileno(file));
    file = freopen("/dev/zero", "r", file);
    use(fileno(file));
    fclose(file);
    DIR *folder = opendir("/");
    use(dirfd(folder));
    closedir(folder);
    int number = open("/dev/null", O_WRONLY);
    file = fdopen(number, "w");
    use(number);
    fclose(file);
}

// A descriptor goes through a socket and gets another number.
static void messages(void)
{
    FILE *file = tmpfile();
    use(fileno(file));
    fclose(file);
    int ends[2], sent = eventfd(0, 0);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    char byte = 1;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes};
    message.msg_controllen = sizeof control.bytes;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    memset(&control, 0, sizeof control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &sent, sizeof sent);
    sendmsg(ends[0], &message, 0);
    use_and_close(sent);
    int got;
    memset(&control, 0, sizeof control);
    message.msg_controllen = sizeof control.bytes;
    recvmsg(ends[1], &message, 0);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    use_and_close(got);
    use_and_close(ends[0]);
    use_and_close(ends[1]);
}

// With an argument, all but the last: the kernel gives out the number in a message while other threads run, and disks are slow.
static void (*const all[])(void) = {pairs, files, events, copies, streams, messages};
static int kinds = 6;

static void *worker(void *argument)
{
    for (int i = 0; i < 12; i++)
        all[(i + (long)argument) % kinds]();
    return argument;
}

int main(int count, char **arguments)
{
    kinds -= count > 1;
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(3 * i));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    long sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += uses[i];
    printf("%ld\n", sum);
    return 0;
}
