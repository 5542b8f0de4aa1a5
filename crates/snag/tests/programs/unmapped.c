/* Memory that goes back to the system is written (w), and the program dies of it; a small block is read through (p), too.
   What munmap refuses (n) is still there, and what it gives back in pieces (t), or twice, is no double free; nor is what
   is freed while accesses are ignored (i) an access. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);

static char how;
static char *volatile block;

struct node {
    struct node *next;
    int value;
};

static void *work(void *unused) {
    switch (how) {
    case 'w': block[5000] = 1; break;
    case 'p': ((struct node *)block)->next->next->value = 1; break;
    case 'i': block[0] = 2; break;
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    how = arguments[1][0];
    switch (how) {
    case 'w':
        block = malloc(1 << 20);
        break;
    case 'p':
        block = malloc(sizeof(struct node));
        ((struct node *)block)->next = (struct node *)block;
        break;
    case 'n':
        block = malloc(100);
        free(block);
        printf("%d\n", munmap(block + 1, 4096));
        return 0;
    case 't': {
        char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pages[0] = pages[4096] = 1;
        munmap(pages, 4096);
        munmap(pages + 4096, 4096);
        munmap(pages, 8192);
        printf("-1\n");
        return 0;
    }
    case 'i':
        block = malloc(100);
        break;
    }
    pthread_create(&thread, 0, work, 0);
    if (how == 'i') {
        usleep(20000);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        free(block);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    } else {
        free(block);
    }
    pthread_join(thread, 0);
    printf("-1\n");
    return 0;
}
