// The library of unseen_ways.cpp, which is built without callbacks.
struct way_pair {
    long number;
    double real;
};
struct way_large {
    long words[10];
};
struct large;
struct way_guard {
    virtual void enter(int *) = 0;
    virtual void leave(int *) = 0;
    virtual ~way_guard() {}
};
way_guard *way_find_guard(bool strict);

extern "C" {
void way_lock(int *);
void way_unlock(int *);
void way_raise(int);
void way_sleep();
double way_sum(int count, ...);
}
void way_call(void (*)(void *), void *);
void way_throw(int);
void way_in_thread(void (*)(void *), void *);
long way_many(long, long, long, long, long, long, long, long, long, large, double, float, long);
long double way_real(long double, int);
way_pair way_two(long, double);
way_large way_big(long);
