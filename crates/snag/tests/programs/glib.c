/* Each of GLib's ways to synchronise, used rightly (./program MODE safe: no race) and wrongly (./program MODE racy: a
   race on z, and on nothing else). Nothing of GLib is instrumented. */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gboolean racy;
static int x, z;

static void join(GThread *a, GThread *b) {
    if (a) g_thread_join(a);
    if (b) g_thread_join(b);
}

#define TWO(f, g) join(g_thread_new("a", f, NULL), g_thread_new("b", g, NULL))

/* Where a racy program accesses z, a right one accesses x. */
#define TOUCH(is_racy) do { if (is_racy) z++; else x++; } while (0)

/* Mutexes. The racy program uses another one in each thread. */
static GMutex m, m2;
static gpointer mutex_1(gpointer p) { g_mutex_lock(&m); TOUCH(racy); g_mutex_unlock(&m); return p; }
static gpointer mutex_2(gpointer p) {
    GMutex *mine = racy ? &m2 : &m;
    g_mutex_lock(mine); TOUCH(racy); g_mutex_unlock(mine);
    return p;
}
static void mutex(void) { TWO(mutex_1, mutex_2); }

/* Often, so that threads wait for each other. */
static gpointer many(gpointer p) {
    for (int i = 0; i < 200; i++) { g_mutex_lock(&m); x++; g_mutex_unlock(&m); }
    if (racy) z++;
    return p;
}
static void contended(void) { TWO(many, many); }

static gpointer locker(gpointer p) {
    if (!racy) {
        g_autoptr(GMutexLocker) held = g_mutex_locker_new(&m);
        x++;
    } else {
        { g_autoptr(GMutexLocker) held = g_mutex_locker_new(&m); x++; }
        z++;
    }
    return p;
}
static void lockers(void) { TWO(locker, locker); }

/* The sections can come in another order, and then nothing is between the accesses of z. */
static gpointer swapped_1(gpointer p) {
    if (racy) z = 1;
    g_mutex_lock(&m); x = 1; g_mutex_unlock(&m);
    return p;
}
static gpointer swapped_2(gpointer p) {
    g_mutex_lock(&m); x = 2; g_mutex_unlock(&m);
    if (racy) z = 2;
    return p;
}
static void swapped(void) { TWO(swapped_1, swapped_2); }

static GRWLock swapped_rw;
static gpointer swapped_rw_1(gpointer p) {
    if (racy) z = 1;
    g_rw_lock_writer_lock(&swapped_rw); x = 1; g_rw_lock_writer_unlock(&swapped_rw);
    return p;
}
static gpointer swapped_rw_2(gpointer p) {
    g_rw_lock_writer_lock(&swapped_rw); x = 2; g_rw_lock_writer_unlock(&swapped_rw);
    if (racy) z = 2;
    return p;
}
static void swapped_writers(void) { TWO(swapped_rw_1, swapped_rw_2); }

static int swapped_word;
static gpointer swapped_bit_1(gpointer p) {
    if (racy) z = 1;
    g_bit_lock(&swapped_word, 3); x = 1; g_bit_unlock(&swapped_word, 3);
    return p;
}
static gpointer swapped_bit_2(gpointer p) {
    g_bit_lock(&swapped_word, 3); x = 2; g_bit_unlock(&swapped_word, 3);
    if (racy) z = 2;
    return p;
}
static void swapped_bits(void) { TWO(swapped_bit_1, swapped_bit_2); }

/* Whoever fails must not write; the racy one writes when it has given the lock back. */
static gpointer try_lock(gpointer p) {
    if (g_mutex_trylock(&m)) {
        x++;
        g_thread_yield();
        g_mutex_unlock(&m);
        if (racy) z++;
    } else if (racy) {
        z++;
    }
    return p;
}
static void tries(void) { TWO(try_lock, try_lock); }

/* A thread that could not get the lock while the other one held it, which was after that one's write. */
static gpointer holds(gpointer p) {
    x = 1;
    g_mutex_lock(&m);
    for (int i = 0; i < 50; i++) g_thread_yield();
    g_mutex_unlock(&m);
    if (racy) z = 1;
    return p;
}
static gpointer fails(gpointer p) {
    for (int i = 0; i < 40; i++) {
        if (!g_mutex_trylock(&m)) {
            g_mutex_lock(&m);
            x = 2;
            g_mutex_unlock(&m);
            break;
        }
        g_mutex_unlock(&m);
        g_thread_yield();
    }
    if (racy) z = 2;
    return p;
}
static void failed(void) { TWO(holds, fails); }

static GRecMutex rec, rec2;
static gpointer rec_1(gpointer p) {
    g_rec_mutex_lock(&rec); g_rec_mutex_lock(&rec); g_rec_mutex_unlock(&rec);
    TOUCH(racy);
    g_rec_mutex_unlock(&rec);
    return p;
}
static gpointer rec_2(gpointer p) {
    GRecMutex *mine = racy ? &rec2 : &rec;
    g_rec_mutex_lock(mine); TOUCH(racy); g_rec_mutex_unlock(mine);
    return p;
}
static void recursive(void) { TWO(rec_1, rec_2); }

/* The racy one writes while it only reads. */
static GRWLock rw;
static gpointer rw_reader(gpointer p) {
    g_rw_lock_reader_lock(&rw);
    if (racy) z++; else g_assert(x < 10);
    g_rw_lock_reader_unlock(&rw);
    return p;
}
static gpointer rw_writer(gpointer p) {
    g_rw_lock_writer_lock(&rw); x++; g_rw_lock_writer_unlock(&rw);
    return p;
}
static void readers(void) {
    GThread *w = g_thread_new("w", rw_writer, NULL);
    TWO(rw_reader, rw_reader);
    g_thread_join(w);
}

/* Bits of one word are locks of their own. */
static int word;
static gpointer bit_1(gpointer p) { g_bit_lock(&word, 1); TOUCH(racy); g_bit_unlock(&word, 1); return p; }
static gpointer bit_2(gpointer p) {
    int bit = racy ? 2 : 1;
    g_bit_lock(&word, bit); TOUCH(racy); g_bit_unlock(&word, bit);
    return p;
}
static void bits(void) { TWO(bit_1, bit_2); }

static gsize pointer_word;
static gpointer pointer_bit_1(gpointer p) {
    g_pointer_bit_lock(&pointer_word, 0); TOUCH(racy); g_pointer_bit_unlock(&pointer_word, 0);
    return p;
}
static gpointer pointer_bit_2(gpointer p) {
    int bit = racy ? 1 : 0;
    g_pointer_bit_lock(&pointer_word, bit); TOUCH(racy); g_pointer_bit_unlock(&pointer_word, bit);
    return p;
}
static void pointer_bits(void) { TWO(pointer_bit_1, pointer_bit_2); }

/* Conditions. The racy one writes after it has said that all is there. */
static GCond cond;
static gboolean ready;
static gpointer producer(gpointer p) {
    if (!racy) x = 1;
    g_mutex_lock(&m);
    ready = TRUE;
    g_cond_signal(&cond);
    g_mutex_unlock(&m);
    if (racy) z = 1;
    return p;
}
static gpointer consumer(gpointer p) {
    g_mutex_lock(&m);
    while (!ready) g_cond_wait(&cond, &m);
    g_mutex_unlock(&m);
    TOUCH(racy);
    return p;
}
static void condition(void) { TWO(consumer, producer); }

static gpointer everyone(gpointer p) {
    if (!racy) x = 1;
    g_mutex_lock(&m);
    ready = TRUE;
    g_cond_broadcast(&cond);
    g_mutex_unlock(&m);
    if (racy) z = 1;
    return p;
}
static int seen[2];
static gpointer listener(gpointer p) {
    g_mutex_lock(&m);
    while (!ready) g_cond_wait(&cond, &m);
    g_mutex_unlock(&m);
    int i = GPOINTER_TO_INT(p);
    seen[i] = racy ? z : x;
    return p;
}
static void broadcast(void) {
    GThread *a = g_thread_new("a", listener, GINT_TO_POINTER(0)), *b = g_thread_new("b", listener, GINT_TO_POINTER(1));
    g_thread_join(g_thread_new("c", everyone, NULL));
    join(a, b);
}

/* A wait that times out says nothing. */
static gpointer timed_consumer(gpointer p) {
    g_mutex_lock(&m);
    gint64 end = g_get_monotonic_time() + (racy ? G_TIME_SPAN_MILLISECOND : 100 * G_TIME_SPAN_SECOND);
    gboolean came = TRUE;
    while (!ready && came) came = g_cond_wait_until(&cond, &m, end);
    g_mutex_unlock(&m);
    if (came || racy) TOUCH(racy);
    return p;
}
static void timed_condition(void) { TWO(timed_consumer, producer); }

/* Once. The racy one leaves it before it is done. */
static GOnce once = G_ONCE_INIT;
static gpointer make(gpointer p) { TOUCH(racy); return p; }
static gpointer uses_once(gpointer p) {
    g_once(&once, make, NULL);
    if (racy) z++; else g_assert(x == 1);
    return p;
}
static void onces(void) { TWO(uses_once, uses_once); }

static gsize initialised;
static gpointer initialises(gpointer p) {
    if (g_once_init_enter(&initialised)) {
        if (!racy) x = 1;
        g_once_init_leave(&initialised, 1);
        if (racy) z = 1;
    }
    if (racy) z++; else g_assert(x == 1);
    return p;
}
static void once_init(void) { TWO(initialises, initialises); }

/* Atomics as functions, as a program gets them that takes their address. */
static int flag;
static gint (*volatile get)(const volatile gint *) = (g_atomic_int_get);
static void (*volatile set)(volatile gint *, gint) = (g_atomic_int_set);
static gpointer atomic_writer(gpointer p) {
    if (!racy) x = 1;
    (g_atomic_int_set)(&flag, 1);
    if (racy) z = 1;
    return p;
}
static gpointer atomic_reader(gpointer p) {
    while (!(g_atomic_int_get)(&flag)) g_thread_yield();
    TOUCH(racy);
    return p;
}
static void atomics(void) { TWO(atomic_writer, atomic_reader); }

static int count = 2;
static gpointer counts(gpointer p) {
    int *mine = p;
    *mine = 1;
    if ((g_atomic_int_dec_and_test)(&count)) {
        g_assert(seen[0] + seen[1] == 2);
        x = 1;
        if (racy) z++;
    } else if (racy) {
        z++;
    }
    return p;
}
static void counting(void) {
    join(g_thread_new("a", counts, &seen[0]), g_thread_new("b", counts, &seen[1]));
}

static gpointer lock_word;
static gpointer spins(gpointer p) {
    while (!(g_atomic_pointer_compare_and_exchange)(&lock_word, NULL, &lock_word)) g_thread_yield();
    x++;
    (g_atomic_pointer_set)(&lock_word, NULL);
    if (racy) z++;
    return p;
}
static void compare(void) { TWO(spins, spins); }

/* Queues. What is put in belongs to whoever takes it out; the racy one goes on to write. */
typedef struct { int value; } Item;
static GAsyncQueue *queue;
static const char *how;
static int compare_items(gconstpointer a, gconstpointer b, gpointer unused) {
    (void)unused;
    return ((const Item *)a)->value - ((const Item *)b)->value;
}
static gpointer pushes(gpointer p) {
    for (int i = 0; i < 5; i++) {
        Item *item = g_new0(Item, 1);
        item->value = i + 1;
        if (!strcmp(how, "queue-front")) g_async_queue_push_front(queue, item);
        else if (!strcmp(how, "queue-sorted")) g_async_queue_push_sorted(queue, item, compare_items, NULL);
        else if (!strcmp(how, "queue-locked")) {
            g_async_queue_lock(queue);
            g_async_queue_push_unlocked(queue, item);
            g_async_queue_unlock(queue);
        } else g_async_queue_push(queue, item);
        if (racy) z++;
    }
    return p;
}
static gpointer pops(gpointer p) {
    for (int i = 0; i < 5; i++) {
        Item *item = NULL;
        if (!strcmp(how, "queue-try")) while (!(item = g_async_queue_try_pop(queue))) g_thread_yield();
        else if (!strcmp(how, "queue-timed")) while (!(item = g_async_queue_timeout_pop(queue, 1000))) g_thread_yield();
        else if (!strcmp(how, "queue-locked")) {
            g_async_queue_lock(queue);
            item = g_async_queue_pop_unlocked(queue);
            g_async_queue_unlock(queue);
        } else item = g_async_queue_pop(queue);
        item->value++;
        g_free(item);
        if (racy) z++;
    }
    return p;
}
static void queues(void) {
    queue = g_async_queue_new();
    TWO(pops, pushes);
    g_async_queue_unref(queue);
}

/* Several on both sides. */
static void crowd(void) {
    queue = g_async_queue_new();
    GThread *a = g_thread_new("a", pushes, NULL), *b = g_thread_new("b", pops, NULL);
    TWO(pops, pushes);
    join(a, b);
    g_async_queue_unref(queue);
}

/* Messages there and back. */
static GAsyncQueue *back;
static int box;
static gpointer echoes(gpointer p) {
    for (int i = 0; i < 5; i++) {
        int *there = g_async_queue_pop(queue);
        (*there)++;
        g_async_queue_push(back, there);
    }
    if (racy) z++;
    return p;
}
static void echo(void) {
    queue = g_async_queue_new();
    back = g_async_queue_new();
    GThread *a = g_thread_new("a", echoes, NULL);
    for (int i = 0; i < 5; i++) {
        box++;
        g_async_queue_push(queue, &box);
        g_assert(g_async_queue_pop(back) == &box);
    }
    if (racy) z++;
    g_thread_join(a);
    g_async_queue_unref(queue);
    g_async_queue_unref(back);
}

/* Thread pools. */
static void task(gpointer data, gpointer user) {
    Item *item = data;
    item->value += *(int *)user;
    if (racy) z++;
}
static void pool(void) {
    static Item items[8];
    static int step;
    step = 3;
    GThreadPool *workers = g_thread_pool_new(task, &step, 3, TRUE, NULL);
    for (int i = 0; i < 8; i++) {
        items[i].value = i;
        g_thread_pool_push(workers, &items[i], NULL);
        if (racy) z++;
    }
    g_thread_pool_free(workers, FALSE, TRUE);
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += items[i].value;
    g_assert(sum == 28 + 24);
}

/* Main loops: callbacks by other threads, in the loop's. */
static GMainLoop *loop;
static int calls;
static gboolean in_loop(gpointer data) {
    Item *item = data;
    item->value++;
    if (racy) z++;
    g_free(item);
    if (++calls == 4) g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}
static gpointer runs(gpointer p) {
    GMainContext *context = p;
    g_main_context_push_thread_default(context);
    g_main_loop_run(loop);
    g_main_context_pop_thread_default(context);
    return NULL;
}
static Item *new_item(void) {
    Item *item = g_new0(Item, 1);
    item->value = 1;
    return item;
}
static void main_loop(void) {
    GMainContext *context = g_main_context_new();
    loop = g_main_loop_new(context, FALSE);
    GThread *a = g_thread_new("loop", runs, context);
    for (int i = 0; i < 4; i++) {
        if (!strcmp(how, "invoke")) {
            g_main_context_invoke_full(context, G_PRIORITY_DEFAULT, in_loop, new_item(), NULL);
        } else {
            GSource *source = !strcmp(how, "idle") ? g_idle_source_new() : g_timeout_source_new(1);
            g_source_set_callback(source, in_loop, new_item(), NULL);
            g_source_attach(source, context);
            g_source_unref(source);
        }
        if (racy) z++;
    }
    g_thread_join(a);
    g_assert(calls == 4);
    g_main_loop_unref(loop);
    g_main_context_unref(context);
}

/* A source of the program's own. */
typedef struct { GSource source; int value; } Own;
static gboolean own_prepare(GSource *source, gint *timeout) { *timeout = -1; return ((Own *)source)->value > 0; }
static gboolean own_check(GSource *source) { return ((Own *)source)->value > 0; }
static gboolean own_dispatch(GSource *source, GSourceFunc unused, gpointer data) {
    (void)unused, (void)data;
    ((Own *)source)->value--;
    if (racy) z++;
    if (++calls == 2) g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}
static GSourceFuncs own = { own_prepare, own_check, own_dispatch, NULL, NULL, NULL };
static void own_source(void) {
    GMainContext *context = g_main_context_new();
    loop = g_main_loop_new(context, FALSE);
    GThread *a = g_thread_new("loop", runs, context);
    for (int i = 0; i < 2; i++) {
        GSource *source = g_source_new(&own, sizeof(Own));
        ((Own *)source)->value = 1;
        g_source_attach(source, context);
        g_source_unref(source);
        if (racy) z++;
    }
    g_thread_join(a);
    g_main_loop_unref(loop);
    g_main_context_unref(context);
}

/* In the default context, with the program's first thread as its loop. */
static gboolean quits(gpointer data) {
    x += *(int *)data;
    if (racy) z++;
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}
static gpointer adds(gpointer p) {
    x = 1;
    g_idle_add(quits, p);
    if (racy) z++;
    return NULL;
}
static void default_loop(void) {
    static int step;
    loop = g_main_loop_new(NULL, FALSE);
    step = 2;
    GThread *a = g_thread_new("adds", adds, &step);
    g_main_loop_run(loop);
    g_assert(x == 3);
    g_thread_join(a);
    g_main_loop_unref(loop);
}

/* The last one to let go gives the memory back. */
static gpointer box_user(gpointer p) {
    Item *item = p;
    (void)g_atomic_int_get(&item->value);
    if (racy) z++;
    g_atomic_rc_box_release(item);
    return NULL;
}
static void boxes(void) {
    Item *item = g_atomic_rc_box_new0(Item);
    item->value = 1;
    GThread *a = g_thread_new("a", box_user, g_atomic_rc_box_acquire(item));
    GThread *b = g_thread_new("b", box_user, item);
    join(a, b);
}

/* Tables and lists of the library under a lock of the program's. */
static GHashTable *table;
static GList *list;
static gpointer fills(gpointer p) {
    for (int i = 0; i < 5; i++) {
        g_mutex_lock(&m);
        g_hash_table_insert(table, GINT_TO_POINTER(1 + i), g_strdup_printf("%d", i));
        list = g_list_prepend(list, p);
        if (list->next) list = g_list_delete_link(list, list->next);
        x++;
        g_mutex_unlock(&m);
        if (racy) z++;
    }
    return p;
}
static void tables(void) {
    table = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free);
    TWO(fills, fills);
    g_list_free(list);
    g_hash_table_unref(table);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } modes[] = {
        { "mutex", mutex }, { "contended", contended }, { "lockers", lockers }, { "swapped", swapped },
        { "swapped-writers", swapped_writers }, { "swapped-bits", swapped_bits }, { "tries", tries },
        { "failed", failed }, { "recursive", recursive }, { "readers", readers }, { "bits", bits },
        { "pointer-bits", pointer_bits }, { "condition", condition }, { "broadcast", broadcast },
        { "timed-condition", timed_condition }, { "onces", onces }, { "once-init", once_init },
        { "atomics", atomics }, { "counting", counting }, { "compare", compare }, { "queue", queues },
        { "queue-try", queues }, { "queue-timed", queues }, { "queue-front", queues }, { "queue-sorted", queues },
        { "queue-locked", queues }, { "crowd", crowd }, { "echo", echo }, { "pool", pool }, { "invoke", main_loop },
        { "idle", main_loop }, { "timeout", main_loop }, { "own-source", own_source },
        { "default-loop", default_loop }, { "boxes", boxes }, { "tables", tables },
    };
    if (argc != 3) {
        for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) puts(modes[i].name);
        return 0;
    }
    (void)get, (void)set;
    how = argv[1];
    racy = !strcmp(argv[2], "racy");
    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++)
        if (!strcmp(modes[i].name, how)) {
            modes[i].run();
            return 0;
        }
    return 2;
}
