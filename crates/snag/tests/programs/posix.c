// Robust, error-checking, priority-inheriting and process-shared mutexes, writers preferred, CLOCK_MONOTONIC, tss, keys, signals, timers, pipes, eventfd, sockets, fork, atexit, mmap, detached threads. No races.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <setjmp.h>
static int sum, robust_value, checked, inherited, shared_v, rwv, mono, byread, byevent, bysock, bypoll, byepoll, mapped, tsd;
static pthread_mutex_t robust, check, pi, shm, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw;
static pthread_cond_t mc;
static int pipes[2], socks[2], evfd, pipes2[2], pipes3[2];
static pthread_key_t key; static tss_t tkey; static sem_t sem; static volatile sig_atomic_t handled; static atomic_int ready;
static void *dies(void *p) { pthread_mutex_lock(&robust); robust_value = 5; return p; }
static void *w_check(void *p) { for (int i = 0; i < 5; i++) { pthread_mutex_lock(&check); if (pthread_mutex_lock(&check) != EDEADLK) abort(); checked++; pthread_mutex_unlock(&check); pthread_mutex_lock(&pi); inherited++; pthread_mutex_unlock(&pi); pthread_mutex_lock(&shm); shared_v++; pthread_mutex_unlock(&shm); } return p; }
static void *w_rw(void *p) { for (int i = 0; i < 5; i++) { pthread_rwlock_rdlock(&rw); (void)rwv; pthread_rwlock_unlock(&rw); pthread_rwlock_wrlock(&rw); rwv++; pthread_rwlock_unlock(&rw); } return p; }
static void *w_mono(void *p) { pthread_mutex_lock(&plain); mono = 1; pthread_cond_signal(&mc); pthread_mutex_unlock(&plain); return p; }
static void *w_pipe(void *p) { byread = 4; char c = 1; write(pipes[1], &c, 1); byevent = 5; uint64_t one = 1; write(evfd, &one, 8); bysock = 6; send(socks[1], &c, 1, 0); bypoll = 7; write(pipes2[1], &c, 1); byepoll = 8; write(pipes3[1], &c, 1); return p; }
static void free_tsd(void *p) { pthread_mutex_lock(&plain); tsd += *(int *)p; pthread_mutex_unlock(&plain); free(p); }
static void *w_tsd(void *p) { int *a = malloc(4), *b = malloc(4); *a = 1; *b = 2; pthread_setspecific(key, a); tss_set(tkey, b); return p; }
static void handler(int s) { handled++; }
static void *w_sigwait(void *p) { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); int got; sigwait(&s, &got); return p; }
static void *w_map(void *p) { for (int i = 0; i < 3; i++) { char *m = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(m, 1, 100); m[4096] = 2; munmap(m, 1 << 16); } return p; }
static void *w_detached(void *p) { int local[64]; memset(local, 1, sizeof local); volatile int *q = local; q[3] = 5; sem_post(&sem); return p; }
static void *w_big(void *p) { for (int i = 0; i < 3; i++) { char *b = malloc(1 << 20); b[0] = 1; b[5000] = 2; b = realloc(b, 2 << 20); b[1 << 20] = 4; free(b); } return p; }
static jmp_buf env; static int jumped;
static void deep(int n) { if (n == 0) longjmp(env, 1); deep(n - 1); }
static void at_exit(void) { pthread_mutex_lock(&plain); sum++; pthread_mutex_unlock(&plain); }
int main(void) {
  pthread_t t[4]; pthread_mutexattr_t a;
  pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST); pthread_mutex_init(&robust, &a);
  pthread_mutexattr_init(&a); pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK); pthread_mutex_init(&check, &a);
  pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT); pthread_mutex_init(&pi, &a);
  pthread_mutexattr_init(&a); pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED); pthread_mutex_init(&shm, &a);
  pthread_rwlockattr_t ra; pthread_rwlockattr_init(&ra); pthread_rwlockattr_setkind_np(&ra, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP); pthread_rwlock_init(&rw, &ra);
  pthread_condattr_t ca; pthread_condattr_init(&ca); pthread_condattr_setclock(&ca, CLOCK_MONOTONIC); pthread_cond_init(&mc, &ca);
  atexit(at_exit); sem_init(&sem, 0, 0);
  pthread_create(&t[0], 0, dies, 0); pthread_create(&t[1], 0, w_check, 0); pthread_create(&t[2], 0, w_check, 0);
  pthread_join(t[0], 0); int r = pthread_mutex_lock(&robust); if (r == EOWNERDEAD) { pthread_mutex_consistent(&robust); sum += robust_value; } pthread_mutex_unlock(&robust);
  pthread_join(t[1], 0); pthread_join(t[2], 0); sum += checked + inherited + shared_v;
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, w_rw, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); sum += rwv;
  struct timespec ts; clock_gettime(CLOCK_MONOTONIC, &ts); ts.tv_sec += 60;
  pthread_create(&t[0], 0, w_mono, 0); pthread_mutex_lock(&plain); while (!mono) pthread_cond_timedwait(&mc, &plain, &ts); pthread_mutex_unlock(&plain); pthread_join(t[0], 0); sum += mono;
  pipe(pipes); pipe2(pipes2, 0); pipe(pipes3); socketpair(AF_UNIX, SOCK_STREAM, 0, socks); evfd = eventfd(0, 0);
  pthread_create(&t[0], 0, w_pipe, 0); char c; uint64_t n; read(pipes[0], &c, 1); sum += byread; read(evfd, &n, 8); sum += byevent; recv(socks[0], &c, 1, 0); sum += bysock;
  struct pollfd pf = {pipes2[0], POLLIN, 0}; poll(&pf, 1, -1); read(pipes2[0], &c, 1); sum += bypoll;
  int ep = epoll_create1(0); struct epoll_event ev = {EPOLLIN, {0}}; epoll_ctl(ep, EPOLL_CTL_ADD, pipes3[0], &ev); epoll_wait(ep, &ev, 1, -1); read(pipes3[0], &c, 1); sum += byepoll; pthread_join(t[0], 0);
  pthread_key_create(&key, free_tsd); tss_create(&tkey, free_tsd); for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, w_tsd, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); sum += tsd;
  struct sigaction sa = {0}; sa.sa_handler = handler; sigaction(SIGALRM, &sa, 0); sigaction(SIGUSR1, &sa, 0);
  sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); pthread_sigmask(SIG_BLOCK, &s, 0); pthread_create(&t[0], 0, w_sigwait, 0); pthread_kill(t[0], SIGUSR2); pthread_join(t[0], 0);
  raise(SIGUSR1); while (!handled) usleep(100);
  struct itimerval it = {{0, 0}, {0, 1000}}; setitimer(ITIMER_REAL, &it, 0); while (handled < 2) usleep(200); sum += handled;
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, w_map, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, w_big, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED); pthread_attr_setstacksize(&at, 1 << 17);
  for (int i = 0; i < 4; i++) { pthread_create(&t[0], &at, w_detached, 0); if (i % 2) sem_wait(&sem); } sem_wait(&sem); sem_wait(&sem);
  if (setjmp(env) == 0) deep(5); else jumped = 1; sum += jumped;
  pid_t p = fork(); if (p == 0) { pthread_mutex_lock(&plain); sum = 0; pthread_mutex_unlock(&plain); _exit(sum); } int st; waitpid(p, &st, 0); sum += WEXITSTATUS(st);
  FILE *f = popen("echo hi", "r"); char line[10]; if (fgets(line, 10, f)) sum += strlen(line); pclose(f);
  printf("%d\n", sum); return 0; }
