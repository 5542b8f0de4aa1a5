"""Small concurrent programs, made from templates: each comes with a race and without one.

A template is a function of its parameters that returns two C programs (or C++ programs, if the name of its class ends in
"++"): the racy one and the race-free one. `programs()` lists all of them.
"""

HEADER = """#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define N {n}
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, m2 = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
#define LOCK pthread_mutex_lock(&m)
#define UNLOCK pthread_mutex_unlock(&m)
"""

JOINED = "for (int i = 0; i < N; i++) pthread_join(t[i], 0);"
WAYS = {
    "joined": JOINED,
    "left": "return 0;",
    "detached": "for (int i = 0; i < N; i++) pthread_detach(t[i]); exit(0);",
}


def c(n, body):
    return HEADER.replace("{n}", str(n)) + body


def spawn(n, data, work, way="joined", after=""):
    """`n` threads that do the same, and main that waits for them or not."""
    return c(n, f"""{data}
static void *run(void *arg) {{ long me = (long)arg; (void)me; {work} return 0; }}
int main(void) {{
    pthread_t t[N];
    for (long i = 0; i < N; i++) pthread_create(&t[i], 0, run, (void *)i);
    {after}
    {WAYS[way]}
    return 0;
}}
""")


def two(data, first, second, main="", way="joined"):
    """Two threads that do different things."""
    return c(2, f"""{data}
static void *one(void *arg) {{ {first} return 0; }}
static void *other(void *arg) {{ {second} return 0; }}
int main(void) {{
    pthread_t t[N];
    pthread_create(&t[0], 0, one, 0);
    pthread_create(&t[1], 0, other, 0);
    {main}
    {WAYS[way]}
    return 0;
}}
""")


def spawn_loop(n, way):
    return (spawn(n, "static int x;", "x++;", way), spawn(n, "static int x;", "LOCK; x++; UNLOCK;", way))


def reset_by_main(n, way):
    data = "static int x;"
    return (spawn(n, data, "LOCK; x++; UNLOCK;", way, "x = 0;"), spawn(n, data, "LOCK; x++; UNLOCK;", way, "LOCK; x = 0; UNLOCK;"))


def worker_pool(n, jobs, way):
    data = f"static int jobs = {jobs}, done, total;"
    take = "for (;;) { LOCK; int j = jobs > 0 ? jobs-- : 0; UNLOCK; if (!j) break; "
    sum_up = "int s = 0; for (int i = 0; i < 20; i++) s += i * j;"
    return (spawn(n, data, take + sum_up + "total += s; }", way),
            spawn(n, data, take + sum_up + "LOCK; total += s; UNLOCK; }", way))


def spin_flag(kind, pause):
    wait = {"none": "", "pause": "__builtin_ia32_pause();", "yield": "sched_yield();", "sleep": "usleep(100);"}[pause]
    racy = {"plain": "static int flag;", "volatile": "static volatile int flag;",
            "relaxed data": "static atomic_int flag; static int more;"}[kind]
    # The compiler must not take the read out of the loop.
    look = '__asm__ volatile("" ::: "memory");' if kind == "plain" else ""
    extra = ("data++;", "data++;") if kind == "relaxed data" else ("", "")
    good = "static atomic_int flag;"
    body = lambda declare, late: two(
        declare + " static int data;",
        f"for (int i = 0; i < 50; i++) data++; flag = 1; {late[0]}",
        f"while (!flag) {{ {wait} {look} }} {late[1] or 'data++;'}")
    return body(racy, extra), body(good, ("", ""))


def ping_pong(rounds, kind):
    body = lambda declare: two(
        declare + " static int data;",
        f'for (int i = 0; i < {rounds}; i++) {{ while (turn != 0) __asm__ volatile("" ::: "memory"); data++; turn = 1; }}',
        f'for (int i = 0; i < {rounds}; i++) {{ while (turn != 1) __asm__ volatile("" ::: "memory"); data++; turn = 0; }}')
    return body(f"static {kind} int turn;"), body("static atomic_int turn;")


def lazy(n, after, way):
    data = "static int *p; static pthread_once_t once = PTHREAD_ONCE_INIT; static void make(void) { p = calloc(4, 4); }"
    use = "for (int i = 0; i < %d; i++) if (p[0]) break;" % after
    return (spawn(n, data, "if (!p) { LOCK; if (!p) p = calloc(4, 4); UNLOCK; } " + use, way),
            spawn(n, data, "pthread_once(&once, make); " + use, way))


def lazy_once_each(n, work):
    """Only the first thread that comes initialises; others see it done, if they come late."""
    data = "static int ready, value; static atomic_int good;"
    private = f"volatile int l = 0; for (int i = 0; i < {work}; i++) l++;"
    return (spawn(n, data, "if (!ready) { value = 7; ready = 1; } " + private),
            spawn(n, data, "LOCK; if (!ready) { value = 7; ready = 1; } UNLOCK; " + private))


def ring(size, items, how):
    data = f"static int buffer[{size}]; static unsigned in, out; static atomic_uint ain, aout; static sem_t full, empty;"
    start = f"sem_init(&full, 0, 0); sem_init(&empty, 0, {size});"
    # The semaphores are ready before the threads are: a constructor.
    data += " __attribute__((constructor)) static void ready(void) { " + start + " }"
    put = f"for (int i = 0; i < {items}; i++) {{ "
    spin = '__asm__ volatile("" ::: "memory");'
    racy = {
        "indices": (put + f"while (in - out == {size}) {{ {spin} }} buffer[in % {size}] = i; in++; }}",
                    put + f"while (in == out) {{ {spin} }} if (buffer[out % {size}] < 0) break; out++; }}"),
        "count": (put + f"sem_wait(&empty); buffer[i % {size}] = i; in++; sem_post(&full); }}",
                  put + f"sem_wait(&full); if (buffer[i % {size}] < 0) break; sem_post(&empty); in--; }}"),
        "peek": (put + f"sem_wait(&empty); buffer[i % {size}] = i; sem_post(&full); }}",
                 put + f"if (buffer[i % {size}] < 0) break; sem_wait(&full); sem_post(&empty); }}"),
    }[how]
    good = {
        "indices": (put + f"while (ain - aout == {size}) {{ {spin} }} buffer[ain % {size}] = i; ain++; }}",
                    put + f"while (ain == aout) {{ {spin} }} if (buffer[aout % {size}] < 0) break; aout++; }}"),
        "count": (put + f"sem_wait(&empty); buffer[i % {size}] = i; sem_post(&full); }}",
                  put + f"sem_wait(&full); if (buffer[i % {size}] < 0) break; sem_post(&empty); }}"),
    }
    good["peek"] = good["count"]
    return two(data, *racy), two(data, *good[how])


def slices(n, size, rounds):
    data = f"static int a[N * {size} + 1];"
    body = f"for (int r = 0; r < {rounds}; r++) for (int i = %s; i < %s; i++) a[i] += i;"
    low, high = f"me * {size}", f"(me + 1) * {size}"
    return spawn(n, data, body % (low, high + " + (r == " + str(rounds - 1) + ")")), spawn(n, data, body % (low, high))


def ticket(n, rounds):
    data = "static atomic_uint next, serving; static int x;"
    lock = "unsigned me_t = next++; while (serving != me_t) {}"
    each = f"for (int i = 0; i < {rounds}; i++) {{ %s }}"
    return (spawn(n, data, each % (lock + " x++; serving++; x++;")), spawn(n, data, each % (lock + " x++; serving++;")))


def spin_lock(n, rounds):
    data = "static atomic_flag f = ATOMIC_FLAG_INIT; static int x, y;"
    each = f"for (int i = 0; i < {rounds}; i++) {{ while (atomic_flag_test_and_set(&f)) {{}} x++; atomic_flag_clear(&f); %s }}"
    return spawn(n, data, each % "y = x;"), spawn(n, data, each % "")


def phases(n, rounds):
    data = "static int a[N + 1]; static pthread_barrier_t b; __attribute__((constructor)) static void ready(void) { pthread_barrier_init(&b, 0, N); }"
    each = f"for (int r = 0; r < {rounds}; r++) {{ a[me] = r; pthread_barrier_wait(&b); int l = a[(me + 1) %% N]; (void)l; %s }}"
    return spawn(n, data, each % ""), spawn(n, data, each % "pthread_barrier_wait(&b);")


def readers(n, rounds):
    data = "static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER; static int x, hits;"
    each = f"for (int i = 0; i < {rounds}; i++) {{ if (me == 0) {{ pthread_rwlock_wrlock(&l); x++; pthread_rwlock_unlock(&l); }} else {{ pthread_rwlock_rdlock(&l); int v = x; (void)v; %s pthread_rwlock_unlock(&l); }} }}"
    return spawn(n, data, each % "hits++;"), spawn(n, data, each % "")


def condition(way, peek):
    data = "static int ready, data;"
    set_it = "LOCK; data = 1; ready = 1; pthread_cond_signal(&c); UNLOCK;"
    wait = "LOCK; while (!ready) pthread_cond_wait(&c, &m); UNLOCK;"
    racy = {"peek": (set_it, "if (!ready) { " + wait + " } data++;"),
            "after": (set_it + " data = 2;", wait + " data++;"),
            "outside": ("data = 1; " + set_it + "data = 3;", wait + "int l = data; (void)l;")}[peek]
    return two(data, *racy, way=way), two(data, set_it, wait + " data++;", way=way)


def stop_flag(kind, way, pause):
    wait = {"none": "", "sleep": "usleep(50);", "yield": "sched_yield();"}[pause]
    work = f'static long n; while (!stop) {{ n++; {wait} __asm__ volatile("" ::: "memory"); }}'
    body = lambda declare: c(1, f"""static {declare} stop;
static void *run(void *arg) {{ {work} return 0; }}
int main(void) {{
    pthread_t t[N];
    pthread_create(&t[0], 0, run, 0);
    usleep(500);
    stop = 1;
    {WAYS[way]}
    return 0;
}}
""")
    return body(kind + " int"), body("atomic_int")


def stack(n, pushes):
    data = "struct node { struct node *next; int v; }; static struct node *top; static _Atomic(struct node *) atop;"
    each = f"for (int i = 0; i < {pushes}; i++) {{ struct node *k = malloc(sizeof *k); k->v = i; %s }}"
    return (spawn(n, data, each % "k->next = top; top = k;"),
            spawn(n, data, each % "struct node *o = atop; do k->next = o; while (!atomic_compare_exchange_weak(&atop, &o, k));"))


def late_write(busy):
    """Hands an object over under a lock, and writes to it after that."""
    data = "static int *box; static int *mine;"
    private = f"volatile int l = 0; for (int i = 0; i < {busy}; i++) l++;"
    take = "int *p = 0; while (!p) { LOCK; p = box; UNLOCK; if (!p) sched_yield(); } %s"
    give = "int *p = calloc(1, 4); *p = 1; %s LOCK; box = p; UNLOCK;"
    return (two(data, give % "" + private + " *p = 2;", take % "*p += 1;"),
            two(data, "int *p = calloc(1, 4); *p = 1; *p = 2; LOCK; box = p; UNLOCK;" + private, take % "*p += 1;"))


def early_and_late(work, way):
    data = "static int x;"
    private = f"int a[16] = {{0}}; for (int i = 0; i < {work}; i++) a[i % 16] += i; volatile int s = a[3]; (void)s;"
    return two(data, "x = 1;", private + " x = 2;", way=way), two(data, "LOCK; x = 1; UNLOCK;", private + " LOCK; x = 2; UNLOCK;", way=way)


def window(length):
    """The second thread touches the data only while the first is at work."""
    data = "static atomic_int at_work; static int data;"
    first = lambda inside: f"for (int r = 0; r < 3; r++) {{ at_work = 1; for (int i = 0; i < {length}; i++) {{ {inside} }} at_work = 0; }}"
    second = lambda touch: f"for (int i = 0; i < 200; i++) if (at_work) {{ {touch} }}"
    return (two(data, first("data++;"), second("data--;")),
            two(data, first("LOCK; data++; UNLOCK;"), second("LOCK; data--; UNLOCK;")))


def try_lock(length):
    """The second thread touches the data where it does not get the lock."""
    data = "static int data, spare;"
    first = f"for (int r = 0; r < 5; r++) {{ LOCK; for (int i = 0; i < {length}; i++) data++; UNLOCK; }}"
    second = lambda other: f"for (int i = 0; i < 100; i++) if (pthread_mutex_trylock(&m)) {{ {other}; }} else UNLOCK;"
    return two(data, first, second("data++")), two(data, first, second("spare++"))


def sleeping_order(pause, way):
    data = "static int x;"
    return (two(data, "x = 1;", f"usleep({pause}); x = 2;", way=way),
            two(data, "LOCK; x = 1; UNLOCK;", f"usleep({pause}); LOCK; x = 2; UNLOCK;", way=way))


def monitor(samples, work):
    data = "struct { long hits, misses; } s;"
    first = lambda add: f"for (int i = 0; i < {work}; i++) {{ {add} }}"
    second = lambda look: f"for (int i = 0; i < {samples}; i++) {{ {look} sched_yield(); }}"
    return (two(data, first("LOCK; s.hits++; UNLOCK;"), second("long l = s.hits; (void)l;")),
            two(data, first("LOCK; s.hits++; UNLOCK;"), second("LOCK; long l = s.hits; (void)l; UNLOCK;")))


def two_locks(n, rounds):
    data = "static int x;"
    each = f"for (int i = 0; i < {rounds}; i++) {{ %s }}"
    return (spawn(n, data, each % "pthread_mutex_t *l = me % 2 ? &m : &m2; pthread_mutex_lock(l); x++; pthread_mutex_unlock(l);"),
            spawn(n, data, each % "LOCK; x++; UNLOCK;"))


def refcount(n, work):
    data = "struct o { atomic_int refs; int v; }; static struct o *o; __attribute__((constructor)) static void ready(void) { o = calloc(1, sizeof *o); o->refs = N; }"
    private = f"volatile int l = 0; for (int i = 0; i < {work}; i++) l++;"
    return (spawn(n, data, private + " int last = --o->refs == 0; o->v++; if (last) o->v = 0;"),
            spawn(n, data, private + " if (--o->refs == 0) o->v++;"))


CPP = """#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
std::mutex m;
"""


def cpp_vector(n, pushes):
    body = lambda push: CPP + f"""
std::vector<int> v;
int main() {{
    std::vector<std::thread> all;
    for (int t = 0; t < {n}; t++) all.emplace_back([] {{ for (int i = 0; i < {pushes}; i++) {{ {push} }} }});
    for (auto &t : all) t.join();
}}
"""
    return body("v.push_back(i);"), body("std::lock_guard<std::mutex> g(m); v.push_back(i);")


def cpp_shared(n, way):
    end = {"joined": "for (auto &t : all) t.join();", "detached": "for (auto &t : all) t.detach();"}[way]
    body = lambda use: CPP + f"""
int main() {{
    auto p = std::make_shared<int>(1);
    std::vector<std::thread> all;
    for (int t = 0; t < {n}; t++) all.emplace_back([p] {{ {use} }});
    {end}
}}
"""
    return body("++*p;"), body("std::lock_guard<std::mutex> g(m); ++*p;")


def cpp_string(flag):
    body = lambda kind: CPP + f"""
std::string text;
{kind} ready;
int main() {{
    std::thread a([] {{ text = "some text that does not fit into the object itself"; ready = true; }});
    std::thread b([] {{ while (!ready) {{ std::this_thread::yield(); }} volatile char c = text[3]; (void)c; }});
    a.join();
    b.join();
}}
"""
    return body(flag + " bool"), body("std::atomic<bool>")


def programs():
    """Class, number in it, source that races, source that does not."""
    table = [
        ("spawn loop", spawn_loop, [(2, "joined"), (4, "left"), (4, "detached"), (16, "joined"), (64, "left"), (200, "joined")]),
        ("reset by main", reset_by_main, [(2, "joined"), (1, "left"), (8, "detached"), (32, "joined")]),
        ("worker pool", worker_pool, [(2, 4, "joined"), (4, 50, "joined"), (4, 200, "left"), (8, 20, "joined"), (3, 1000, "joined")]),
        ("spin flag", spin_flag, [("plain", "none"), ("volatile", "none"), ("volatile", "pause"), ("volatile", "yield"), ("plain", "sleep"), ("relaxed data", "none")]),
        ("ping-pong", ping_pong, [(1, "volatile"), (20, "volatile"), (200, "")]),
        ("lazy initialisation", lazy, [(2, 1, "joined"), (4, 100, "joined"), (4, 20, "left"), (8, 2000, "joined")]),
        ("first one initialises", lazy_once_each, [(2, 10), (3, 1000), (4, 50000)]),
        ("ring buffer", ring, [(1, 5, "indices"), (8, 100, "indices"), (4, 20, "count"), (4, 300, "count"), (4, 20, "peek")]),
        ("slices of an array", slices, [(2, 10, 1), (4, 100, 3), (4, 1000, 2), (8, 50, 20), (2, 5000, 4)]),
        ("ticket lock", ticket, [(2, 1), (2, 20), (4, 10), (8, 5)]),
        ("spin lock", spin_lock, [(2, 1), (2, 50), (4, 10), (8, 20)]),
        ("phases", phases, [(2, 3), (4, 2), (4, 20), (8, 5)]),
        ("readers that write", readers, [(3, 1), (3, 20), (6, 100)]),
        ("condition", condition, [("joined", "peek"), ("joined", "after"), ("left", "after"), ("detached", "outside")]),
        ("stop flag", stop_flag, [("", "joined", "none"), ("volatile", "joined", "none"), ("", "left", "none"), ("volatile", "joined", "sleep"), ("", "detached", "yield")]),
        ("stack", stack, [(2, 1), (2, 20), (4, 10), (4, 200)]),
        ("write after hand-over", late_write, [(0,), (10,), (1000,), (30000,)]),
        ("early and late", early_and_late, [(10, "joined"), (1000, "left"), (20000, "joined"), (200000, "joined"), (50, "detached")]),
        ("window", window, [(1,), (5,), (50,), (1000,), (20000,)]),
        ("failed attempt", try_lock, [(1,), (10,), (200,), (4000,)]),
        ("order by sleeping", sleeping_order, [(100, "joined"), (2000, "joined"), (20000, "left"), (1000, "detached")]),
        ("monitor", monitor, [(1, 10), (5, 1000), (50, 100), (2, 20000)]),
        ("two locks", two_locks, [(2, 1), (2, 50), (4, 5), (6, 100)]),
        ("reference count", refcount, [(2, 0), (3, 100), (4, 5000)]),
        ("vector, C++", cpp_vector, [(2, 1), (2, 50), (4, 10)]),
        ("shared object, C++", cpp_shared, [(2, "joined"), (4, "detached"), (8, "joined")]),
        ("string and flag, C++", cpp_string, [("",), ("volatile",)]),
    ]
    for name, template, all_parameters in table:
        for number, parameters in enumerate(all_parameters, 1):
            racy, free = template(*parameters)
            yield name, number, racy, free
