// Every synchronisation primitive and blocking call that the runtime stands before, none of them racy.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
#include <errno.h>
#include <signal.h>
#include <poll.h>
#include <sys/wait.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <threads.h>
#include <stdatomic.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, rec;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t sp; static sem_t s; static pthread_barrier_t b; static pthread_once_t once = PTHREAD_ONCE_INIT;
static mtx_t cm; static cnd_t cc; static once_flag of = ONCE_FLAG_INIT;
static int turn, total, inited, c11done; static int pp[2]; static atomic_int flag, sigs; static int nested, spun;
static void init(void){ inited = 42; }
static void on(int x){ sigs++; }
static struct timespec soon(long ms){ struct timespec t; clock_gettime(CLOCK_REALTIME,&t); t.tv_nsec += ms*1000000; t.tv_sec += t.tv_nsec/1000000000; t.tv_nsec%=1000000000; return t; }
static int c11(void*p){ mtx_lock(&cm); c11done++; cnd_broadcast(&cc); mtx_unlock(&cm); thrd_yield(); return 7; }
static void *w(void *p){ long id=(long)p;
  pthread_setname_np(pthread_self(), "worker");
  pthread_once(&once, init); call_once(&of, init);
  pthread_barrier_wait(&b);
  for(int i=0;i<20;i++){ 
    pthread_mutex_lock(&m); total++; pthread_mutex_unlock(&m);
    pthread_mutex_lock(&rec); pthread_mutex_lock(&rec); nested++; pthread_mutex_unlock(&rec); pthread_mutex_unlock(&rec);
    pthread_rwlock_rdlock(&rw); int x = turn; pthread_rwlock_unlock(&rw);
    pthread_rwlock_wrlock(&rw); turn = x+1; pthread_rwlock_unlock(&rw);
    pthread_spin_lock(&sp); spun++; pthread_spin_unlock(&sp);
    sem_wait(&s); char *q = malloc(100+i); memset(q,i,100); q = realloc(q, 300); char *d = strdup("hello"); strcpy(q,d); free(d); free(q); sem_post(&s);
    if(pthread_mutex_trylock(&m)==0) pthread_mutex_unlock(&m);
    struct timespec t = soon(1); if(pthread_mutex_timedlock(&m,&t)==0) pthread_mutex_unlock(&m);
    atomic_fetch_add(&flag, 1); atomic_thread_fence(memory_order_seq_cst);
    if(i==5){ usleep(100); sched_yield(); char ch=1; write(pp[1],&ch,1); read(pp[0],&ch,1); struct pollfd f={pp[0],POLLIN,0}; poll(&f,1,1); }
    if(i==7){ pthread_mutex_lock(&m); struct timespec t=soon(2); while(pthread_cond_timedwait(&c,&m,&t)==0); pthread_mutex_unlock(&m); }
    if(i==9) raise(SIGUSR1);
  }
  pthread_barrier_wait(&b);
  pthread_mutex_lock(&m); total+=1000; pthread_cond_broadcast(&c); pthread_mutex_unlock(&m);
  return p; }
int main(){ pthread_t t[4]; pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_settype(&a,PTHREAD_MUTEX_RECURSIVE); pthread_mutex_init(&rec,&a);
 pthread_spin_init(&sp,0); sem_init(&s,0,2); pthread_barrier_init(&b,0,4); pipe(pp); mtx_init(&cm,mtx_plain); cnd_init(&cc); signal(SIGUSR1,on);
 thrd_t ct; thrd_create(&ct,c11,0); 
 for(long i=0;i<4;i++) pthread_create(&t[i],0,w,(void*)i);
 mtx_lock(&cm); while(!c11done) cnd_wait(&cc,&cm); mtx_unlock(&cm); int r; thrd_join(ct,&r);
 pthread_mutex_lock(&m); while(total<4000) pthread_cond_wait(&c,&m); pthread_mutex_unlock(&m);
 for(int i=0;i<4;i++) pthread_join(t[i],0);
 pid_t p = fork(); if(!p){ total++; _exit(3);} int st; waitpid(p,&st,0); system("true");
 printf("%d %d %d %d %d\n", total, r, WEXITSTATUS(st), (int)sigs, inited); return 0; }
