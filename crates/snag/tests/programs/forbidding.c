/* No race. The program forbids itself system calls, in the way that the argument says, and ends with status 7 at once. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile int x;

static void *work(void *unused) {
    x++;
    return unused;
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter few[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_exit),
    ALLOW(SYS_exit_group),
    ALLOW(SYS_write),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_filter nearly_all[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_reboot, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "none";
    struct sock_fprog filter = {sizeof few / sizeof *few, few};
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!strcmp(how, "strict")) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "filter")) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (!strcmp(how, "call")) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    if (!strcmp(how, "harmless")) {
        filter.len = sizeof nearly_all / sizeof *nearly_all;
        filter.filter = nearly_all;
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    }
    for (int i = 0; i < 100; i++) x++;
    syscall(SYS_exit, 7);
}
