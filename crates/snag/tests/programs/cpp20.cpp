// jthread, stop_token, latch, barrier, semaphore, atomic wait and notify, atomic_flag, atomic<shared_ptr>, atomic_ref, osyncstream. No races.
// Contended semaphores are acquired with a timeout: in libstdc++ 12 `acquire` can sleep for ever (GCC bug 104928): it asks the kernel to
// wait while the counter has the value that a release has just given it.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>
static void take(auto& semaphore) { while (!semaphore.try_acquire_for(std::chrono::milliseconds(20))) {} }
int main() {
  int data[4] = {}; int sum = 0;
  { std::latch l(3); std::vector<std::jthread> ts; for (int i = 0; i < 3; i++) ts.emplace_back([&, i] { data[i] = i + 1; l.count_down(); }); l.wait(); for (int d : data) sum += d; }
  { int phase = 0; std::barrier b(3, [&]() noexcept { phase++; for (int& d : data) d *= 2; }); std::vector<std::jthread> ts;
    for (int i = 0; i < 3; i++) ts.emplace_back([&, i] { for (int r = 0; r < 3; r++) { data[i]++; b.arrive_and_wait(); } }); ts.clear(); sum += phase; for (int d : data) sum += d; }
  { std::counting_semaphore<2> s(0); std::binary_semaphore one(1); int x = 0, y = 0; std::jthread t([&] { x = 5; s.release(2); }), u([&] { for (int i = 0; i < 3; i++) { take(one); y++; one.release(); } });
    for (int i = 0; i < 3; i++) { take(one); y++; one.release(); } take(s); sum += x; t.join(); s.acquire(); u.join(); sum += y; }
  { std::atomic<int> a{0}; int x = 0; std::jthread t([&] { x = 7; a.store(1, std::memory_order_release); a.notify_all(); }); a.wait(0, std::memory_order_acquire); sum += x; }
  { std::atomic_flag f; int x = 0; std::jthread t([&] { x = 8; f.test_and_set(std::memory_order_release); f.notify_one(); }); f.wait(false, std::memory_order_acquire); sum += x; }
  { std::atomic<long> a{0}; int x = 0; std::jthread t([&] { x = 9; a.store(1); a.notify_one(); }); a.wait(0); sum += x; }
  // Not std::atomic<std::shared_ptr>: in libstdc++ 12 its load gives its lock bit back relaxed, which is a race by memory order.
  { std::shared_ptr<int> p; std::jthread t([&] { std::atomic_store(&p, std::make_shared<int>(3)); }); std::shared_ptr<int> q; while (!(q = std::atomic_load(&p))) std::this_thread::yield(); sum += *q; }
  { std::jthread t([&](std::stop_token st) { std::mutex m; std::condition_variable_any cv; std::unique_lock l(m); cv.wait(l, st, [] { return false; }); }); std::stop_callback cb(t.get_stop_token(), [&] { sum++; }); t.request_stop(); t.join(); }
  { long v = 0; { std::jthread a([&] { std::atomic_ref<long> r(v); r += 2; }), b([&] { std::atomic_ref<long> r(v); r += 3; }); } sum += v; }
  { int x = 0; std::atomic<bool> flag{false}; std::jthread t([&] { x = 1; std::atomic_thread_fence(std::memory_order_release); flag.store(true, std::memory_order_relaxed); });
    while (!flag.load(std::memory_order_relaxed)) std::this_thread::yield(); std::atomic_thread_fence(std::memory_order_acquire); sum += x; }
  std::printf("%d\n", sum);
}
