//! How long a turn is, unless the user has said so.
//!
//! Races hide between any two steps, so turns should be short; a switch costs as much as hundreds of steps, so they
//! should be long. A program is short, or it does the same again and again. So turns are short in the beginning, and
//! later where something happens: after forks, after waits, and while threads touch the same memory. As long as a thread
//! works on memory of its own, its turns are long. How many short turns there are in all is bounded by a number, and
//! beyond that by a part of the steps.
//!
//! A short turn is of any order of magnitude with the same probability: some races need one thread to do a single step
//! between two of another, and others that it does a hundred.

use crate::base::relaxed::Relaxed;
use crate::base::shared::wanted;
use crate::base::thread::Thread;

/// So many short turns are free: some ten milliseconds.
const FREE: u64 = 4000;

/// Beyond that, a short turn for so many steps.
const STEPS_EACH: u64 = 20_000;

/// The longest short turn has so many binary digits, unless a seed says otherwise.
const DIGITS: u32 = 9;

/// Between these is a long turn.
const LONG: core::ops::Range<u64> = 5_000..15_000;

/// Whether turns should not end where a thread holds a lock. With every other seed they may.
static SPARES_SECTIONS: Relaxed<bool> = Relaxed::zero();

pub fn policy_spares_sections() -> bool {
    SPARES_SECTIONS.get()
}

pub struct Policy {
    random: u64,
    digits: u32,
    /// Short turns so far.
    short: u64,
    /// Steps of all threads so far.
    steps: u64,
}

impl Policy {
    pub const fn new() -> Policy {
        Policy { random: 0, digits: DIGITS, short: 0, steps: 0 }
    }

    /// Another seed gives other lengths, also of another order: what one misses, another may find.
    pub fn prepare(&mut self, seed: u64) {
        self.random = seed.wrapping_add(16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        SPARES_SECTIONS.set(wanted().quantum == 0 && seed.is_multiple_of(2));
        if seed != 0 {
            self.digits = [DIGITS, 3, 6, 12][seed as usize % 4];
        }
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Steps of the next turn of a thread; `others` says whether somebody waits for it to end.
    pub fn turn(&mut self, thread: &Thread, others: bool) -> u64 {
        let short = if others { self.short_turn(thread) } else { None };
        short.unwrap_or_else(|| LONG.start + self.random() % (LONG.end - LONG.start))
    }

    /// Steps of a short turn, if it is time for one.
    pub fn short_turn(&mut self, thread: &Thread) -> Option<u64> {
        let alert = &thread.alert;
        let is_short = self.short < FREE || alert.turns.get() > 0 && self.short < FREE + self.steps / STEPS_EACH;
        if !is_short {
            return None;
        }
        self.short += 1;
        alert.turns.set(alert.turns.get().saturating_sub(1));
        // Shorter ones come more often: of two numbers the lesser.
        let [one, other] = [self.random(), self.random()].map(|random| random % self.digits as u64);
        let digits = one.min(other);
        Some((1 << digits) + (self.random() & ((1 << digits) - 1)))
    }

    /// Whether the next turn may end in the middle of a section: every other one.
    pub fn cuts(&mut self) -> bool {
        self.random().is_multiple_of(2)
    }

    /// A turn has ended.
    pub fn took(&mut self, steps: u64) {
        self.steps += steps;
    }
}

/// How many more of a thread's turns should be short. Zero at first.
pub struct Alert {
    turns: Relaxed<u32>,
}

impl Alert {
    /// Something has happened by which the thread may have to do with others.
    #[inline]
    pub fn raise(&self) {
        const TURNS: u32 = 16;
        self.turns.set(TURNS);
    }
}
