//! The runtime's protocols, in every order in which the steps of their threads can come, and with every value that the
//! memory model lets a thread see: what `loom` tries. It also finds deadlocks, so a wake-up that is lost.
//!
//! Nobody's time is ever up here: a thread that is not woken sleeps for ever.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use protocol::Word;
use protocol::go::{Go, Sleepers};
use protocol::lock::Lock;
use protocol::seal::Words;

#[path = "../src/protocol/mod.rs"]
#[expect(dead_code, reason = "the runtime uses more of it")]
mod protocol;

/// Tries all orders in which threads are interrupted at most three times where they need not wait: mistakes show with
/// fewer, and more would take minutes.
fn model(work: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(work);
}

/// A word of memory, and the kernel's list of threads that sleep on it.
#[derive(Clone, Default)]
struct Futex(Arc<Inner>);

#[derive(Default)]
struct Inner {
    word: AtomicU32,
    kernel: Mutex<()>,
    sleepers: Condvar,
}

impl Word for Futex {
    fn load(&self, order: Ordering) -> u32 {
        self.0.word.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.word.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.word.swap(value, order)
    }

    fn change(&self, old: u32, new: u32, order: Ordering) -> bool {
        self.0.word.compare_exchange(old, new, order, Ordering::Relaxed).is_ok()
    }

    /// The kernel looks at the word and puts the thread onto the list in one step.
    fn sleep(&self, value: u32, _nanoseconds: Option<u64>) -> bool {
        let kernel = self.0.kernel.lock().unwrap();
        if self.0.word.load(Ordering::Relaxed) == value {
            drop(self.0.sleepers.wait(kernel).unwrap());
        }
        false
    }

    fn wake(&self) {
        // Whoever has looked before is on the list now; whoever looks after this sees what was stored.
        drop(self.0.kernel.lock().unwrap());
        self.0.sleepers.notify_one();
    }
}

/// What a token or a lock guards. Loom reports two threads that are there at the same time, or one after the other
/// without an order that the processor knows of.
#[derive(Clone)]
struct Guarded(Arc<UnsafeCell<u32>>);

impl Guarded {
    fn new() -> Guarded {
        Guarded(Arc::new(UnsafeCell::new(0)))
    }

    fn increase(&self) -> u32 {
        self.0.with_mut(|value| {
            // SAFETY: loom checks that no other thread is here.
            unsafe {
                *value += 1;
                *value
            }
        })
    }
}

/// As a thread waits in the scheduler.
fn wait(go: &Go<Futex>, sleepers: Sleepers) {
    while !go.take() {
        go.sleep(sleepers, u64::MAX);
    }
}

/// One thread gives the token to another, and gets it back.
fn there_and_back(sleepers: Sleepers) {
    model(move || {
        let guarded = Guarded::new();
        let [mine, other] = [Arc::new(Go::from(Futex::default())), Arc::new(Go::from(Futex::default()))];
        let thread = thread::spawn({
            let (guarded, mine, other) = (guarded.clone(), mine.clone(), other.clone());
            move || {
                wait(&other, sleepers);
                guarded.increase();
                mine.give(sleepers);
            }
        });
        guarded.increase();
        other.give(sleepers);
        wait(&mine, sleepers);
        assert_eq!(guarded.increase(), 3);
        thread.join().unwrap();
    });
}

#[test]
fn the_token_and_what_it_guards_change_hands() {
    there_and_back(Sleepers::Silent);
}

#[test]
fn a_thread_that_says_that_it_sleeps_is_woken() {
    there_and_back(Sleepers::SaySo);
}

/// A thread that waits gets a signal. Whenever that comes, the thread looks what it is, though nobody gives it the
/// token; and gets the token all the same when it comes.
fn signalled_while_it_waits(sleepers: Sleepers) {
    model(move || {
        let guarded = Guarded::new();
        let word = Futex::default();
        let [go, looked] = [Arc::new(Go::from(word.clone())), Arc::new(Go::from(Futex::default()))];
        let pending = Arc::new(AtomicU32::new(0));
        let thread = thread::spawn({
            let (guarded, go, looked, pending) = (guarded.clone(), go.clone(), looked.clone(), pending.clone());
            move || {
                while !go.take() {
                    if pending.swap(0, Ordering::Relaxed) == 1 {
                        looked.give(sleepers);
                    }
                    go.sleep(sleepers, u64::MAX);
                }
                guarded.increase()
            }
        });
        guarded.increase();
        // The handler, which the kernel runs in the thread itself: there it interrupts the sleep.
        pending.swap(1, Ordering::Relaxed);
        go.signal();
        word.wake();
        wait(&looked, sleepers);
        go.give(sleepers);
        assert_eq!(thread.join().unwrap(), 2);
    });
}

#[test]
fn a_thread_that_waits_looks_at_a_signal_and_still_gets_the_token() {
    signalled_while_it_waits(Sleepers::Silent);
    signalled_while_it_waits(Sleepers::SaySo);
}

#[test]
fn every_waiting_thread_goes_on_when_recording_ends() {
    for sleepers in [Sleepers::Silent, Sleepers::SaySo] {
        model(move || {
            let all: Vec<_> = (0..2).map(|_| Arc::new(Go::from(Futex::default()))).collect();
            let threads: Vec<_> = all.iter().cloned().map(|go| thread::spawn(move || wait(&go, sleepers))).collect();
            all.iter().for_each(|go| go.let_go());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// Several threads take a lock by turns.
fn take_turns(patience: u32, threads: u32) {
    model(move || {
        let guarded = Guarded::new();
        let lock = Arc::new(Lock::new(Futex::default()));
        let work = {
            let (guarded, lock) = (guarded.clone(), lock.clone());
            move || {
                lock.lock(patience);
                guarded.increase();
                lock.unlock();
            }
        };
        let others: Vec<_> = (1..threads).map(|_| thread::spawn(work.clone())).collect();
        work();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        lock.lock(patience);
        assert_eq!(guarded.increase(), threads + 1);
        assert!(lock.is_held());
    });
}

#[test]
fn a_lock_lets_one_thread_in_at_a_time_and_wakes_the_next() {
    take_turns(1, 2);
    take_turns(0, 3);
}

/// The ring: the program fills chunks and waits for empty ones, while the tool empties them. The tool's side is that of
/// the recorder, which wakes the program only when half of the chunks are empty.
fn through_the_ring(chunks: u32, hand_overs: u32) {
    model(move || {
        let ring: Arc<Vec<_>> = Arc::new((0..chunks).map(|_| Guarded::new()).collect());
        let [filled, emptied] = [Futex::default(), Futex::default()];
        let tool = thread::spawn({
            let (ring, filled, emptied) = (ring.clone(), filled.clone(), emptied.clone());
            move || {
                let mut done = 0;
                while done < hand_overs {
                    let seen = filled.load(Ordering::Acquire);
                    if seen == done {
                        filled.sleep(seen, None);
                        continue;
                    }
                    // The program has written it; the tool makes it empty.
                    assert_eq!(ring[(done % chunks) as usize].increase(), 2 * (done / chunks) + 2);
                    let full = seen - done;
                    done += 1;
                    emptied.store(done, Ordering::Release);
                    if full - 1 <= chunks / 2 {
                        emptied.wake();
                    }
                }
            }
        });
        for number in 0..hand_overs {
            assert_eq!(ring[(number % chunks) as usize].increase(), 2 * (number / chunks) + 1);
            protocol::ring::hand_over(number + 1, &filled);
            assert!(protocol::ring::await_empty(number + 1, chunks, &emptied, 0, || false));
        }
        tool.join().unwrap();
    });
}

#[test]
fn no_chunk_is_filled_before_it_was_emptied_and_nobody_waits_for_ever() {
    through_the_ring(1, 2);
    through_the_ring(2, 3);
}

#[test]
fn the_program_goes_on_without_a_tool_that_is_gone() {
    assert!(!protocol::ring::await_empty(4, 4, &Always(0), 0, || true));
    assert!(protocol::ring::await_empty(3, 4, &Always(0), 0, || true));
    assert!(protocol::ring::await_empty(1, 4, &Always(u32::MAX - 1), 0, || true), "the counts wrap");
}

/// A word that never changes.
struct Always(u32);
impl Word for Always {
    fn load(&self, _: Ordering) -> u32 {
        self.0
    }
    fn store(&self, _: u32, _: Ordering) {}
    fn swap(&self, _: u32, _: Ordering) -> u32 {
        self.0
    }
    fn change(&self, _: u32, _: u32, _: Ordering) -> bool {
        false
    }
    fn sleep(&self, _: u32, _: Option<u64>) -> bool {
        true
    }
    fn wake(&self) {}
}

/// Words of a chunk, with what is left there from an earlier use.
struct Chunk(Vec<AtomicU64>);

/// What an earlier use of the memory has left.
const STALE: u64 = 99;

/// A place in it.
struct At<'chunk>(&'chunk Chunk, usize);

impl Words for At<'_> {
    fn set(&self, index: usize, word: u64) {
        self.0.0[self.1 + index].store(word, Ordering::Relaxed);
    }

    fn publish(&self, word: u64) {
        self.0.0[self.1].store(word, Ordering::Release);
    }
}

#[test]
fn whoever_sees_a_record_begin_sees_all_of_it_and_nothing_stale_behind() {
    model(|| {
        // The tool makes the first word zero before it gives a chunk back.
        let chunk = Arc::new(Chunk((0..6).map(|i| AtomicU64::new(if i == 0 { 0 } else { STALE })).collect()));
        let program = thread::spawn({
            let chunk = chunk.clone();
            move || {
                protocol::seal::write(&At(&chunk, 0), [1, 10]);
                protocol::seal::write(&At(&chunk, 2), [2, 20]);
            }
        });
        let word = |index: usize| chunk.0[index].load(Ordering::Acquire);
        let mut at = 0;
        while at < 4 {
            match word(at) {
                0 => break,
                first => assert_eq!((first, word(at + 1)), ((at as u64) / 2 + 1, (at as u64) * 5 + 10)),
            }
            at += 2;
        }
        program.join().unwrap();
    });
}
