// Atomics of sixteen bytes as locks and flags. No races.
#include <stdio.h>
#include <pthread.h>
typedef unsigned __int128 u; static _Alignas(16) u x; static int data;
static void *w(void*p){ for(int i=0;i<100;i++){ u o=__atomic_load_n(&x,__ATOMIC_RELAXED); while(!__atomic_compare_exchange_n(&x,&o,o+(((u)1<<64)|1),0,__ATOMIC_ACQ_REL,__ATOMIC_RELAXED)); } if(!p){ data=5; __atomic_store_n(&x, ((u)7<<64), __ATOMIC_RELEASE);} return p; }
int main(void){ pthread_t t[2]; pthread_create(&t[0],0,w,(void*)1); pthread_create(&t[1],0,w,(void*)1); pthread_join(t[0],0); pthread_join(t[1],0); printf("%d %d\n",(int)x,(int)(x>>64));
 pthread_create(&t[0],0,w,0); while((unsigned long)(__atomic_load_n(&x,__ATOMIC_ACQUIRE)>>64)!=7 || (unsigned long)x != 0); printf("%d\n", data); pthread_join(t[0],0); return 0; }
