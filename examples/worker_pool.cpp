// std::thread, std::mutex, a function-local static and exceptions. The workers' failures are counted without the lock.
//
// Found: a data race on `failures`.
// With -DFIXED it is counted under the lock, and there is no race.

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex results_lock;
static std::vector<int> results;
static int failures;

static const std::string &prefix()
{
    static const std::string text = "job ";
    return text;
}

static int work(int job)
{
    if (job % 3 == 0)
        throw std::runtime_error(prefix() + std::to_string(job));
    return job * job;
}

static void worker(int from)
{
    int failed = 0;
    for (int job = from; job < from + 4; job++) {
        try {
            int result = work(job);
            std::lock_guard<std::mutex> guard(results_lock);
            results.push_back(result);
        } catch (const std::exception &) {
            failed++;
        }
    }
#ifdef FIXED
    std::lock_guard<std::mutex> guard(results_lock);
#endif
    failures += failed;
}

int main()
{
    std::thread first(worker, 1), second(worker, 5);
    first.join();
    second.join();
    std::printf("%zu results, %d failures\n", results.size(), failures);
    return 0;
}
