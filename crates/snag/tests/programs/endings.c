// Ends as it is told: `exit N`, `signal N`, `exec PROGRAM`, `daemon`; with a race before if `race` comes first.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int shared;

static void *write_shared(void *argument)
{
    shared++;
    return argument;
}

int main(int count, char **words)
{
    words++;
    if (*words && !strcmp(*words, "race")) {
        pthread_t thread;
        pthread_create(&thread, NULL, write_shared, NULL);
        shared++;
        pthread_join(thread, NULL);
        words++;
    }
    if (!*words)
        return 0;
    int number = words[1] ? atoi(words[1]) : 0;
    if (!strcmp(*words, "exit"))
        return number;
    if (!strcmp(*words, "signal"))
        raise(number);
    if (!strcmp(*words, "exec"))
        execvp(words[1], words + 1);
    if (!strcmp(*words, "daemon")) {
        if (fork())
            return 0;
        setsid();
        if (fork())
            return 0;
        // Nobody who reads what we print is to wait for the daemon.
        close(0);
        close(1);
        close(2);
        sleep(60);
    }
    return 99;
}
