// std::async, future, promise, packaged_task, shared_future, exception_ptr, shared_ptr, weak_ptr, call_once, thread_local with destructors, shared_mutex, condition_variable_any, recursive and timed mutexes. No races.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <map>
#include <chrono>
using namespace std::chrono_literals;
struct Node { int value = 1; std::shared_ptr<Node> next; ~Node() { value = 0; } };
static std::mutex m; static int destroyed;
struct Local { int x = 3; ~Local() { std::lock_guard g(m); destroyed += x; } };
static thread_local Local local;
static std::shared_mutex sm; static std::map<int,std::string> table;
static std::once_flag once; static int inited;
struct Static { std::vector<int> v{1,2,3}; ~Static() { v.clear(); } };
static Static& instance() { static Static s; return s; }
int main() {
  int sum = 0;
  auto f = std::async(std::launch::async, [] { return std::string("hello"); });
  auto g = std::async(std::launch::async, []() -> int { throw std::runtime_error("bad"); });
  std::promise<std::vector<int>> p; auto pf = p.get_future();
  std::thread t1([&p] { p.set_value({1, 2, 3}); });
  for (int v : pf.get()) sum += v;
  t1.join();
  sum += f.get().size();
  try { g.get(); } catch (std::runtime_error& e) { sum += std::string(e.what()).size(); }
  std::packaged_task<int(int)> task([](int x) { return x * 2; }); auto tf = task.get_future();
  std::thread t2(std::move(task), 21); sum += tf.get(); t2.join();
  std::promise<int> sp; std::shared_future<int> sf = sp.get_future().share();
  std::vector<std::thread> ts; std::atomic<int> got{0};
  for (int i = 0; i < 3; i++) ts.emplace_back([sf, &got] { got += sf.get(); });
  sp.set_value(5); for (auto& t : ts) t.join(); ts.clear(); sum += got;
  auto head = std::make_shared<Node>(); head->next = std::make_shared<Node>();
  std::weak_ptr<Node> weak = head;
  for (int i = 0; i < 3; i++) ts.emplace_back([copy = head, weak] { local.x++; if (auto s = weak.lock()) if (s->next) (void)s->next->value; });
  head.reset(); for (auto& t : ts) t.join(); ts.clear();
  std::exception_ptr ep; std::thread t3([&ep] { try { throw std::string("x"); } catch (...) { ep = std::current_exception(); } }); t3.join();
  try { std::rethrow_exception(ep); } catch (std::string& s) { sum += s.size(); }
  for (int i = 0; i < 3; i++) ts.emplace_back([i] {
    std::call_once(once, [] { inited = 9; });
    for (int j = 0; j < 5; j++) {
      { std::unique_lock w(sm); table[i * 10 + j] = std::to_string(j); }
      { std::shared_lock r(sm); (void)table.size(); }
      if (sm.try_lock()) { table.erase(i * 10 + j); sm.unlock(); }
      if (sm.try_lock_shared()) { (void)table.size(); sm.unlock_shared(); }
      (void)instance().v.size();
    }
    (void)inited; });
  for (auto& t : ts) t.join(); ts.clear();
  std::condition_variable_any cva; std::shared_mutex cm; bool ready = false; std::recursive_timed_mutex rtm; int rec = 0;
  std::thread t4([&] { std::shared_lock l(cm); cva.wait(l, [&] { return ready; }); std::lock_guard a(rtm); std::lock_guard b(rtm); rec++; });
  { std::unique_lock l(cm); ready = true; } cva.notify_all();
  if (rtm.try_lock_for(600s)) { rec++; rtm.unlock(); }
  std::condition_variable cv; std::mutex cvm; bool done = false;
  std::thread t5([&] { std::unique_lock l(cvm); cv.wait_for(l, 1ms, [&] { return done; }); });
  { std::lock_guard l(cvm); done = true; } cv.notify_one(); t5.join(); t4.join();
  { std::mutex a, b; int both = 0; std::thread x([&] { std::scoped_lock l(a, b); both++; }), y([&] { std::scoped_lock l(b, a); both++; }); x.join(); y.join(); sum += both; }
  auto af = std::async(std::launch::async, [] { return 1; }); while (af.wait_for(0ms) != std::future_status::ready) std::this_thread::yield(); sum += af.get();
  std::printf("%d %d %d\n", sum, rec, destroyed);
}
