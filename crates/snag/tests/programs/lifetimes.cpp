// Memory and objects that pass from one thread to another by ways that only the C library and the system know. None of it
// is a race:
// - an object that a detached thread makes and the exit of the program destroys;
// - addresses that threads map, use and unmap one after the other.
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

struct Log {
    int lines;
    Log() { lines = 1; }
    ~Log() { lines = 0; }
};

static void make_log() {
    static Log log;
    log.lines++;
}

static void use_mapping() {
    const size_t size = 1 << 20;
    char *memory = static_cast<char *>(
        mmap(reinterpret_cast<void *>(0x100000000000), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < 100; i++) memory[i * 64] = i;
    munmap(memory, size);
}

int main() {
    std::thread(make_log).detach();
    // No synchronisation: only time passes.
    usleep(50000);
    std::thread first(use_mapping);
    usleep(50000);
    std::thread second(use_mapping);
    first.join();
    second.join();
    puts("done");
    return 0;
}
