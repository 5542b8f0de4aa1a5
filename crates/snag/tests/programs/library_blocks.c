// Blocks that calls of the C library make while other threads run, where others were freed before.
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
    // The allocator gives these out again.
    void *blocks[64];
    for (int size = 16; size < 512; size += 16) {
        for (int i = 0; i < 64; i++)
            memset(blocks[i] = malloc(size), 1, size);
        for (int i = 0; i < 64; i++)
            free(blocks[i]);
    }
    int sum = 0;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    for (int i = 0; i < 8; i++) {
        getaddrinfo("127.0.0.1", "80", &hints, &found);
        for (struct addrinfo *one = found; one; one = one->ai_next)
            sum += one->ai_family == AF_INET && one->ai_addr->sa_family == AF_INET;
        freeaddrinfo(found);
    }
    FILE *file = tmpfile();
    for (int length = 10; length < 2000; length *= 2)
        fprintf(file, "%0*d\n", length, 1);
    rewind(file);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0)
        sum += line[0] == '0';
    free(line);
    fclose(file);
    printf("%d\n", sum);
    return 0;
}
