// The litmus tests of litmus.c with the atomics of C++.
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using order = std::memory_order;
constexpr order rlx = order::relaxed, con = order::consume, acq = order::acquire, rel = order::release,
                ar = order::acq_rel, sc = order::seq_cst;
// Stands for no fence.
constexpr order none = order::relaxed;

static int data;
static std::atomic<int> flag, other, relay;

template <class T> static void use(T value) { asm volatile("" : : "r"(value)); }

template <order o> static void await(std::atomic<int> &variable, int value) {
    while (variable.load(o) != value) std::this_thread::yield();
}

template <order before, order store, order after> static void set() {
    data = 1;
    if constexpr (before != none) std::atomic_thread_fence(before);
    flag.store(1, store);
    if constexpr (after != none) std::atomic_thread_fence(after);
}

template <order before, order load, order after> static void get() {
    if constexpr (before != none) std::atomic_thread_fence(before);
    await<load>(flag, 1);
    if constexpr (after != none) std::atomic_thread_fence(after);
    use(data);
}

static void add(int at) {
    await<rlx>(flag, at);
    flag.fetch_add(1, rlx);
}

// Compare-exchange until it succeeds, or fails because of a value.
template <order success, order failure> static void exchange(int expected) {
    for (int seen = expected; !flag.compare_exchange_strong(seen, 1, success, failure); seen = expected)
        std::this_thread::yield();
}

template <order success, order failure> static void fail(int value) {
    for (int seen = 7; flag.compare_exchange_strong(seen, 1, success, failure) || seen != value; seen = 7)
        std::this_thread::yield();
}

// Attempts that fail.
static std::mutex held;

static void hold() {
    data = 1;
    std::lock_guard<std::mutex> guard(held);
    await<rlx>(other, 1);
}

static void until_held() {
    while (held.try_lock()) {
        held.unlock();
        std::this_thread::yield();
    }
}

static std::atomic<int> part;

template <class Write> static void lock_write(Write write) {
    flag.store(1, rlx);
    std::atomic_thread_fence(rel);
    write();
    flag.store(2, rel);
}

template <class Read> static void lock_read(Read read) {
    for (;;) {
        int before = flag.load(acq);
        read();
        std::atomic_thread_fence(acq);
        if (before == 2 && flag.load(rlx) == before) return;
        std::this_thread::yield();
    }
}

static std::mutex mutex;
static std::atomic<int *> instance;
static int made;

template <order load, order store> static void once() {
    int *p = instance.load(load);
    if (!p) {
        std::lock_guard<std::mutex> guard(mutex);
        p = instance.load(rlx);
        if (!p) {
            made = 42;
            p = &made;
            instance.store(p, store);
        }
    }
    use(*p);
}

template <order o, order load, order leave, order fence> static void dekker_first() {
    flag.store(1, o);
    if constexpr (fence != none) std::atomic_thread_fence(fence);
    if (!other.load(load)) data++;
    relay.store(1, rlx);
    std::this_thread::yield();
    flag.store(0, leave);
}

template <order o, order load, order leave, order fence> static void dekker_second() {
    await<rlx>(relay, 1);
    for (;;) {
        other.store(1, o);
        if constexpr (fence != none) std::atomic_thread_fence(fence);
        if (!flag.load(load)) break;
        other.store(0, leave);
        std::this_thread::yield();
    }
    data++;
}

struct Object {
    std::atomic<int> count{2};
    int parts[2] = {};
};
static Object *object = new Object;
static std::atomic<int> users;

template <order o, order fence> static void drop() {
    object->parts[users.fetch_add(1, rlx)] = 1;
    if (object->count.fetch_sub(1, o) == 1) {
        if constexpr (fence != none) std::atomic_thread_fence(fence);
        delete object;
    }
}

template <order o, order fence> static void share() {
    object->count.fetch_add(1, rlx);
    object->parts[users.fetch_add(1, rlx)] = 1;
    object->count.fetch_sub(1, o);
    std::this_thread::yield();
    if (object->count.fetch_sub(1, o) == 1) {
        if constexpr (fence != none) std::atomic_thread_fence(fence);
        delete object;
    }
}

static const std::map<std::string, void (*)()> all = {
    {"w_rlx", set<none, rlx, none>},
    {"w_rel", set<none, rel, none>},
    {"w_sc", set<none, sc, none>},
    {"w_frel", set<rel, rlx, none>},
    {"w_far", set<ar, rlx, none>},
    {"w_fsc", set<sc, rlx, none>},
    {"w_flate", set<none, rlx, rel>},
    {"w_fwrong", set<acq, rlx, none>},
    {"r_rlx", get<none, rlx, none>},
    {"r_con", get<none, con, none>},
    {"r_acq", get<none, acq, none>},
    {"r_sc", get<none, sc, none>},
    {"r_facq", get<none, rlx, acq>},
    {"r_far", get<none, rlx, ar>},
    {"r_fsc", get<none, rlx, sc>},
    {"r_fearly", get<acq, rlx, none>},
    {"r_fwrong", get<none, rlx, rel>},
    {"s_rmw", [] { add(1); }},
    {"s_rmw2", [] { add(2); }},
    {"s_store", [] { await<rlx>(flag, 1); flag.store(2, rel); }},
    {"s_own", [] { set<none, rel, none>(); flag.store(2, rlx); }},
    // Waiting acquires nothing: the last read alone does, whatever was seen on the way.
    {"r_two", [] { await<rlx>(flag, 2); await<acq>(flag, 2); use(data); }},
    {"r_three", [] { await<rlx>(flag, 3); await<acq>(flag, 3); use(data); }},
    {"x_write_rel", [] { data = 1; exchange<rel, rlx>(0); }},
    {"x_write_rlx", [] { data = 1; exchange<rlx, rlx>(0); }},
    {"x_done_acq", [] { exchange<acq, rlx>(1); use(data); }},
    {"x_done_rlx", [] { exchange<rlx, rlx>(1); use(data); }},
    {"x_failed_acq", [] { fail<acq, acq>(1); use(data); }},
    {"x_failed_rlx", [] { fail<ar, rlx>(1); use(data); }},
    {"x_failed_facq", [] { fail<rlx, rlx>(1); std::atomic_thread_fence(acq); use(data); }},
    {"a_hold", hold},
    {"a_try", [] { until_held(); use(data); other.store(1, rlx); }},
    {"a_wait", [] { until_held(); other.store(1, rlx); std::lock_guard<std::mutex> guard(held); use(data); }},
    {"lock_write_atomic", [] { lock_write([] { part.store(7, rlx); }); }},
    {"lock_read_atomic", [] { lock_read([] { use(part.load(rlx)); }); }},
    {"lock_write_plain", [] { lock_write([] { data = 7; }); }},
    {"lock_read_plain", [] { lock_read([] { use(data); }); }},
    {"once_first_right", [] { once<acq, rel>(); other.store(1, rlx); }},
    {"once_then_right", [] { await<rlx>(other, 1); once<acq, rel>(); }},
    {"once_first_wrong", [] { once<rlx, rlx>(); other.store(1, rlx); }},
    {"once_then_wrong", [] { await<rlx>(other, 1); once<rlx, rlx>(); }},
    {"once_first_unreleased", [] { once<acq, rlx>(); other.store(1, rlx); }},
    {"once_then_unacquired", [] { await<rlx>(other, 1); once<rlx, rel>(); }},
    {"dekker_first_sc", dekker_first<sc, sc, sc, none>},
    {"dekker_second_sc", dekker_second<sc, sc, sc, none>},
    {"dekker_first_rlx", dekker_first<rlx, rlx, rlx, none>},
    {"dekker_second_rlx", dekker_second<rlx, rlx, rlx, none>},
    {"dekker_first_ra", dekker_first<rel, acq, rel, none>},
    {"dekker_second_ra", dekker_second<rel, acq, rel, none>},
    {"dekker_first_fence", dekker_first<rlx, acq, rel, sc>},
    {"dekker_second_fence", dekker_second<rlx, acq, rel, sc>},
    {"dekker_first_fence_rlx", dekker_first<rlx, rlx, rlx, sc>},
    {"dekker_second_fence_rlx", dekker_second<rlx, rlx, rlx, sc>},
    {"count_fence", drop<rel, acq>},
    {"count_acqrel", drop<ar, none>},
    {"count_no_acquire", drop<rel, none>},
    {"count_rlx", drop<rlx, none>},
    {"share_fence", share<rel, acq>},
    {"share_no_acquire", share<rel, none>},
};

int main(int argc, char **argv) {
    std::vector<std::thread> threads;
    for (int i = 1; i < argc; i++) threads.emplace_back(all.at(argv[i]));
    for (auto &thread : threads) thread.join();
}
