// One race, after an exception has left functions that are not built for exceptions: no stack may name deep.
#include <thread>

long g;

extern "C" void deep(int depth, void (*then)());

static void throws() { throw 1; }

int main() {
    try {
        deep(3, throws);
    } catch (int) {
        std::thread other([] { g++; });
        g++;
        other.join();
    }
    return 0;
}
