/* The library of unseen.c, which is built without callbacks. */
struct channel {
    int ready;
};
void channel_set(struct channel *);
void channel_wait(struct channel *);

void push(void *);
void *pop(void);

void sleeping_lock(int *);
void sleeping_unlock(int *);
void spinning_lock(int *);
void spinning_unlock(int *);

struct job {
    int done;
    void (*work)(void *);
    void *argument;
};
void job_run(struct job *);
void job_wait(struct job *);
