/* One race, on x. Before it the program writes into the first page of what it shares with its recorder if there is a file of that name:
   "look", where it is to be looked at; "tool", who records it; "version", what the page is. Else it does all the same. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int x;

#define UNSEEN __attribute__((no_sanitize_thread))

UNSEEN static void put(char *page, long at, uint32_t value) { *(volatile uint32_t *)(page + at) = value; }

UNSEEN static void meddle(void) {
    char line[512], *page = 0;
    int look = access("look", F_OK) == 0, tool = access("tool", F_OK) == 0, version = access("version", F_OK) == 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (!page && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:snag-recording")) sscanf(line, "%p", (void **)&page);
    fclose(maps);
    if (look) put(page, LOOK_BEFORE, 0), put(page, LOOK_BEFORE + 4, 0);
    if (tool) put(page, TOOL, 1);
    if (version) put(page, VERSION, 77);
}

static void *work(void *nothing) {
    x++;
    return 0;
}

int main(void) {
    pthread_t thread;
    meddle();
    pthread_create(&thread, 0, work, 0);
    x++;
    pthread_join(thread, 0);
}
