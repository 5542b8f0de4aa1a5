/* The program cuts its library off after it has called it, while the recorder may still look for names there; but not if there is a
   file "whole". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#ifdef LIBRARY
int x;
void one(void) { x++; }
void other(void) { x += 2; }
#else
int main(void) {
    void *library = dlopen("./cut.so", RTLD_NOW);
    void (*one)(void) = (void (*)(void))dlsym(library, "one");
    void (*other)(void) = (void (*)(void))dlsym(library, "other");
    /* Enough for the recorder to look for the name. */
    for (int i = 0; i < 60000; i++) one();
    /* Time for the recorder to look. */
    sleep(1);
    other();
    if (access("whole", F_OK) != 0) truncate("./cut.so", 0);
    sleep(1);
    _exit(7);
}
#endif
