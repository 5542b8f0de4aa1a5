// A destructor waits until the other thread has made its last virtual call. It has stored the table of its own class before, which was
// there already: that races with nothing.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

struct Worker {
    std::mutex mutex;
    std::condition_variable condition;
    bool done = false;
    std::thread thread;

    virtual ~Worker() {
        std::unique_lock<std::mutex> lock(mutex);
        condition.wait(lock, [this] { return done; });
        lock.unlock();
        thread.join();
    }

    virtual int work() { return 1; }
};

int main() {
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        Worker worker;
        worker.thread = std::thread([&] {
            sum += worker.work();
            std::lock_guard<std::mutex> guard(worker.mutex);
            worker.done = true;
            worker.condition.notify_one();
        });
    }
    std::printf("%d\n", sum);
}
