/* Calls with addresses that lead nowhere, which are errors or faults that the program handles; formats of all kinds. What is
   printed is the same without Snag. In the end two threads race, and both are still seen. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf before;
static int raced;

static void caught(int signal) { siglongjmp(before, signal); }

static void *other(void *unused) {
    raced++;
    return unused;
}

static void say(const char *name, long result) {
    int error = errno;
    printf("%s %ld %d\n", name, result, result < 0 ? error : 0);
    errno = 0;
}

int main(void) {
    char *nowhere = (char *)16, *page, text[9], *allocated;
    struct stat status;
    int number, count;
    double real;
    pthread_t thread;
    say("stat", stat(nowhere, &status));
    say("stat", stat("/", (void *)nowhere));
    say("write", write(1, nowhere, 5));
    say("open", open(nowhere, O_RDONLY));
    say("unlink", unlink(nowhere));
    say("rename", rename(nowhere, nowhere));
    say("connect", connect(0, (void *)nowhere, 16));
    say("writev", writev(1, (void *)nowhere, 1));
    say("sendmsg", sendmsg(0, (void *)nowhere, 0));
    say("getcwd", getcwd(nowhere, 4096) ? 0 : -1);
    // A text that ends where its page ends, and one that goes on.
    page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    memcpy(page + 4093, "abc", 3);
    printf("%.3s\n", page + 4093);
    say("access", access(page + 4093, 0));
    page[4095] = 0;
    say("access", access(page + 4093, 0));
    signal(SIGSEGV, caught);
    if (!sigsetjmp(before, 1)) snprintf(text, sizeof text, "%s", nowhere);
    else puts("caught");
    if (!sigsetjmp(before, 1)) strftime(text, sizeof text, "%Y", (void *)nowhere);
    else puts("caught again");
    printf("%s|%.3s|%5s|%*d|%Lf|%g|%ls\n", (char *)0, "abcdef", "x", 4, 7, 1.25L, 2.5, L"wide");
    printf("%2$s %1$d %3$*4$d\n", 1, "two", 3, 5);
    printf("%d %d %d %d %d %d %f %f %f %f %f %f %f %f %f %s\n", 1, 2, 3, 4, 5, 6, 1., 2., 3., 4., 5., 6., 7., 8., 9., "end");
    errno = 5;
    printf("%m\n");
    printf("abc%n\n", &count);
    printf("%d %zu %hhd %c %%\n", count, (size_t)5, (char)300, 'x');
    printf("%d", sscanf("12 3.5 abc rest", "%d %lf %8s %ms", &number, &real, text, &allocated));
    printf(" %d %g %s %s\n", number, real, text, allocated);
    free(allocated);
    printf("%d\n", asprintf(&allocated, "%s-%d", text, number));
    free(allocated);
    pthread_create(&thread, 0, other, 0);
    raced++;
    pthread_join(thread, 0);
    return 0;
}
