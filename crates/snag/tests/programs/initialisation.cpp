// Initialisation that must happen once, some of it after tries that an exception ended. Nothing here races.
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::once_flag flag;
static int tries, value, built;

static void initialise() {
    if (++tries < 3) throw std::runtime_error("not yet");
    value = 42;
}

struct Built {
    int number;
    Built() {
        if (++built < 2) throw std::runtime_error("not yet");
        number = 7;
    }
};

static int number() {
    static Built it;
    return it.number;
}

template <typename Work>
static auto insist(Work work) {
    for (;;) {
        try {
            return work();
        } catch (std::runtime_error &) {
        }
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] {
            insist([] { std::call_once(flag, initialise); return 0; });
            if (value + insist(number) != 49) std::puts("seen too early");
        });
    for (auto &thread : threads) thread.join();
    std::printf("%d %d %d\n", tries, built, value);
}
