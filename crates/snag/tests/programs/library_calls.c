/* Makes the calls of library_calls.txt, one after the other, while another thread touches what they read or write; with
 * an argument, both hold a mutex. The test puts one function for either side in front of what follows the line with ROWS. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <math.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int locks;
static volatile long sink;
#define use(x) (sink = (long)(x))
static void *nothing(void *p) { return p; }
static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int list_of(int (*f)(char *, size_t, const char *, va_list), char *to, size_t n, const char *format, ...) {
    va_list l; va_start(l, format); int r = f(to, n, format, l); va_end(l); return r;
}
static int list2_of(int (*f)(const char *, const char *, va_list), const char *from, const char *format, ...) {
    va_list l; va_start(l, format); int r = f(from, format, l); va_end(l); return r;
}
#define list(f, ...) list_of(f, __VA_ARGS__)
#define list2(f, ...) list2_of(f, __VA_ARGS__)
/* ROWS */
static void *toucher(void *r) {
    struct row *row = r;
    if (locks) pthread_mutex_lock(&mutex);
    row->touch();
    if (locks) pthread_mutex_unlock(&mutex);
    return 0;
}
int main(int argc, char **argv) {
    locks = argc > 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pthread_t t;
        pthread_create(&t, 0, toucher, &rows[i]);
        if (locks) pthread_mutex_lock(&mutex);
        rows[i].call();
        if (locks) pthread_mutex_unlock(&mutex);
        pthread_join(t, 0);
    }
    return 0;
}
