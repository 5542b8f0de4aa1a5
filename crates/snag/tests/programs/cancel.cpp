// Threads of C++ that are cancelled: objects are destroyed on the way out, locks given back, and whoever catches everything
// passes it on.
#include <condition_variable>
#include <cstdio>
#include <cxxabi.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <thread>
#include <unistd.h>

static std::mutex lock;
static std::condition_variable never;
static sem_t started;
static int destroyed, caught;

struct Counted {
    ~Counted()
    {
        std::lock_guard<std::mutex> guard(lock);
        destroyed++;
    }
};

static void deeper(int depth)
{
    Counted counted;
    if (depth > 0)
        return deeper(depth - 1);
    sem_post(&started);
    pause();
}

static void waits()
{
    Counted counted;
    std::unique_lock<std::mutex> guard(lock);
    sem_post(&started);
    for (;;)
        never.wait(guard);
}

static void catches()
{
    try {
        Counted counted;
        sem_post(&started);
        for (;;)
            pthread_testcancel();
    } catch (abi::__forced_unwind &) {
        lock.lock();
        caught++;
        lock.unlock();
        throw;
    }
}

int main()
{
    sem_init(&started, 0, 0);
    std::thread threads[] = {std::thread(deeper, 2), std::thread(waits), std::thread(catches)};
    for (auto &thread : threads)
        sem_wait(&started);
    for (auto &thread : threads) {
        pthread_cancel(thread.native_handle());
        thread.join();
    }
    printf("%d destroyed, %d caught\n", destroyed, caught);
}
