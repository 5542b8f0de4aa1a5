//! What a thread does in the course of a long turn: whether it waits in a loop, and whether it touches what others do.
//!
//! A long turn is made of stretches. At the end of each, the records of its last steps are looked at, which lie in the
//! shared memory. A thread that does nothing but read the same values again and again, by accesses of whatever kind,
//! waits for another one to change them. It gives its turn away; and if nobody else can run, it rests, as whoever
//! it waits for is in some call: otherwise it would fill the trace.

use crate::base::lock::Mutex;
use crate::base::record::page;
use crate::base::relaxed::Relaxed;
use crate::base::thread::{self, State, Thread};
use crate::scheduler::block::rest;
use crate::scheduler::dispatch::end_turn_early;
use crate::scheduler::policy::policy_spares_sections;
use crate::wire::{self, lock, op};

/// Steps of the first stretch of a turn of which nothing is noted, and then of which the records are looked at. Each
/// stretch is twice as long as the one before.
const UNOBSERVED: i64 = 840;
const OBSERVED: i64 = 160;

/// Steps of this stretch of which nothing is noted.
static UNNOTED: Relaxed<i64> = Relaxed::zero();

/// Steps of the turn that are not granted yet.
static REST: Relaxed<i64> = Relaxed::zero();

/// Whether the turn has ended because its thread waits in a loop.
static WAITS: Relaxed<bool> = Relaxed::zero();

/// Where the records begin that are to be looked at, 0 if there are none, and where their chunk ends.
static FROM: Relaxed<usize> = Relaxed::zero();
static CHUNK_END: Relaxed<usize> = Relaxed::zero();

/// A turn that would end where its thread holds a lock goes on until it gives the lock up, in pieces of so many steps,
/// for so many steps at most. What happens under locks can be reordered afterwards anyway, and threads that are stopped
/// between two locks may deadlock.
const SECTION: i64 = 32;
const MOST_OVERTIME: i64 = 2048;

/// Whether some thread has taken a lock while it held one.
static NESTED: Relaxed<bool> = Relaxed::zero();

/// Whether some thread has tried to take a lock, and would have gone on without it.
static TRIES: Relaxed<bool> = Relaxed::zero();

/// Whether this turn ends where it ends, also in the middle of a section.
static CUTS: Relaxed<bool> = Relaxed::zero();

/// Whether turns should end where a lock is held: where attempts to take one may fail, which no prediction makes them do.
/// As long as no thread takes a second lock, that leads to no deadlock.
pub fn may_cut() -> bool {
    TRIES.get() && !NESTED.get()
}

/// By how much the turn was prolonged so far.
static OVERTIME: Relaxed<i64> = Relaxed::zero();

/// The thread that has the token has taken a lock, perhaps by an attempt, or given one up.
pub fn holds(code: u8, kind: u64) {
    let Some(thread) = thread::current() else { return };
    if kind & lock::TRIED != 0 {
        TRIES.set(true);
    }
    match code {
        op::LOCK | op::READ_LOCK => {
            if thread.held.get() > 0 {
                NESTED.set(true);
            }
            thread.held.add(1);
        }
        op::UNLOCK => thread.held.set(thread.held.get().saturating_sub(1)),
        _ => return,
    }
    if OVERTIME.get() > 0 && thread.held.get() == 0 {
        end_turn_early();
    }
}

/// Grants a turn, which may `cut` a section. Changed with the token.
pub fn begin_turn(steps: i64, whole: bool, cuts: bool) {
    OVERTIME.set(0);
    CUTS.set(cuts);
    WAITS.set(false);
    UNNOTED.set(UNOBSERVED);
    let first = if whole { steps } else { steps.min(UNOBSERVED) };
    REST.set(steps - first);
    FROM.set(0);
    page().granted.set(first);
    page().budget.set(first);
}

/// Makes the rest of the turn shorter, if it is longer than that.
pub fn shorten(steps: i64) {
    let left = page().budget.get();
    if steps < left + REST.get() {
        REST.set((steps - left).max(0));
        let less = (left - steps).max(0);
        page().granted.subtract(less);
        page().budget.set(left - less);
    }
}

/// The thread that has the token waits in a loop of atomic operations.
pub fn waits_in_loop() {
    end_turn_early();
    WAITS.set(page().budget.get() == 0);
}

/// Nothing more is granted.
pub fn forget_rest() {
    REST.set(0);
    FROM.set(0);
}

/// What comes at the end of a stretch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The turn goes on.
    GoOn,
    /// It is over.
    End,
    /// It is over, and the thread waits in a loop.
    Spins,
}

/// The steps that were granted are used up. Begins the next stretch of the turn, if there is one.
pub fn next_stretch(thread: &Thread) -> Then {
    let from = FROM.replace(0);
    let spins = WAITS.get() || from != 0 && look(thread, from);
    let left = REST.get();
    let spares = policy_spares_sections() && !(CUTS.get() && may_cut());
    if !spins && left == 0 && spares && thread.held.get() > 0 && OVERTIME.get() < MOST_OVERTIME {
        OVERTIME.add(SECTION);
        page().granted.add(SECTION);
        page().budget.set(SECTION);
        return Then::GoOn;
    }
    if spins || left == 0 {
        if !spins {
            thread.rested.set(0);
        }
        REST.set(0);
        return if spins { Then::Spins } else { Then::End };
    }
    let steps = if from != 0 {
        UNNOTED.set(2 * UNNOTED.get());
        UNNOTED.get()
    } else {
        FROM.set(page().next.get() as usize);
        CHUNK_END.set(page().limit.get() as usize);
        OBSERVED
    };
    let steps = steps.min(left);
    REST.set(left - steps);
    page().granted.add(steps);
    page().budget.set(steps);
    Then::GoOn
}

/// Who has touched which piece of memory last, as far as that was seen: the number of the piece and that of the thread.
static TOUCHED: Mutex<[(u32, u32); PIECES]> = Mutex::new([(0, 0); PIECES]);
const PIECES: usize = 1 << 10;

/// Bytes of a piece, as a power of two.
const PIECE: u32 = 6;

/// The longest round of a loop that waits, in records.
const ROUND: usize = 24;

/// Looks at the records since `from`. Raises the thread's alert if others have touched the same memory. Returns whether
/// it does nothing but read the same again and again.
fn look(thread: &Thread, from: usize) -> bool {
    let to = page().next.get() as usize;
    if CHUNK_END.get() != page().limit.get() as usize || to < from {
        // The tool may have emptied the chunk.
        return false;
    }
    let mut rounds = Rounds::default();
    let mut only_reads = true;
    let mut shares = false;
    let mut at = from;
    let mut touched = TOUCHED.lock();
    while at < to {
        // SAFETY: the token's holder has written these records, in this chunk, and nobody changes them.
        let words = unsafe { core::slice::from_raw_parts(at as *const u64, (to - at) / 8) };
        let &[first, address, value, ..] = words else { break };
        let record = [first, address, value];
        let code = first as u8;
        at += 8 * wire::words(words);
        match code {
            // An exchange that leaves what was there is a read, too.
            op::RMW if words.get(3) != Some(&value) => only_reads = false,
            op::READ | op::ATOMIC_READ | op::RMW => rounds.add(record),
            op::ENTER | op::LEAVE | op::STEP | op::LOCK | op::READ_LOCK | op::UNLOCK => {}
            _ => only_reads = false,
        }
        if matches!(code, op::READ | op::WRITE | op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW) {
            let piece = (address >> PIECE) as u32;
            let (known, by) = &mut touched[piece as usize % PIECES];
            shares |= *known == piece && *by != thread.number.get();
            (*known, *by) = (piece, thread.number.get());
        }
    }
    if shares {
        thread.alert.raise();
    }
    only_reads && rounds.repeat()
}

/// Reads, compared with those of a first round: it ends where its first read comes again.
#[derive(Default)]
struct Rounds {
    first: [[u64; 3]; ROUND],
    /// Reads of a round; 0 as long as that is not known.
    length: usize,
    count: usize,
    /// Some read was not that of the first round.
    differ: bool,
}

impl Rounds {
    fn add(&mut self, read: [u64; 3]) {
        if self.differ {
            return;
        }
        if self.length == 0 && self.count > 0 && read == self.first[0] {
            self.length = self.count;
        }
        match self.length {
            0 if self.count < ROUND => self.first[self.count] = read,
            0 => self.differ = true,
            length => self.differ = read != self.first[self.count % length],
        }
        self.count += 1;
    }

    /// Whether there were several, all the same.
    fn repeat(&self) -> bool {
        !self.differ && self.length > 0 && self.count >= 4 * self.length
    }
}

/// The thread waits in a loop, and nobody else can run. Whoever it waits for is in a call, or waits for some time to
/// pass; if there is nobody like that, it waits in vain, or not at all, and goes on.
pub fn rests(thread: &'static Thread) -> bool {
    let may_come = |other: &Thread| {
        *other != *thread && (other.is(State::External) || other.is(State::Blocked) && other.timed.get())
    };
    if !thread::all().iter().any(may_come) {
        return false;
    }
    const FIRST: u64 = 50_000;
    const LONGEST: u64 = 500_000;
    let time = (2 * thread.rested.get()).clamp(FIRST, LONGEST);
    thread.rested.set(time);
    rest(thread, time);
    true
}
