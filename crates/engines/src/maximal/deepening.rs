//! In which order cycles of acquires are asked about, and how many: short ones first.
//!
//! Two threads that wait for each other are what programs suffer from; with many threads that meet at many locks there
//! are cycles of any length, more with each length. So first all cycles of two are asked about, then those of three,
//! and so on. Unless every answer is wanted, all of them share a number of steps that grows with the trace.

use crate::maximal::cycles::{Cycles, End, Length, Visit};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Unless every answer is wanted, so many steps are taken for each acquire and length.
const MOST_STEPS: u64 = 20_000;

/// All together take so many steps for each event of the trace, and at least so many. A step takes some 50 ns.
const STEPS_PER_EVENT: u64 = 64;
const LEAST_STEPS: u64 = 80_000_000;

/// Bounds of a question and the proof of a deadlock take as long as so many steps for each thread.
const STEPS_OF_QUESTION: u64 = 500;

/// The tasks of all lengths.
pub(super) struct Deepening<'c, 'i, 't> {
    cycles: &'c Cycles<'i, 't>,
    /// Acquires of which all lengths were visited that will be.
    done: Vec<AtomicBool>,
    /// How many acquires there are that are not done.
    open: AtomicUsize,
    /// How many of each task are not done.
    open_of: Vec<AtomicUsize>,
    exhaustive: bool,
    /// What all may take.
    most: u64,
    taken: AtomicU64,
}

/// What a task came to.
#[derive(Default)]
pub(super) struct Outcome {
    /// Acquires of which not all cycles were visited.
    pub cut_short: usize,
    /// Nothing is left of its acquires at any length.
    pub is_done: bool,
}

impl<'c, 'i, 't> Deepening<'c, 'i, 't> {
    /// All cycles of a trace of so many events, or as many as there is time for.
    pub fn of(cycles: &'c Cycles<'i, 't>, events: usize, exhaustive: bool) -> Deepening<'c, 'i, 't> {
        let sizes: Vec<usize> = (0..cycles.tasks()).map(|task| cycles.size(task)).collect();
        let all = sizes.iter().sum();
        Deepening {
            cycles,
            done: (0..all).map(|_| AtomicBool::new(false)).collect(),
            open: AtomicUsize::new(all),
            open_of: sizes.into_iter().map(AtomicUsize::new).collect(),
            exhaustive,
            most: if exhaustive { u64::MAX } else { LEAST_STEPS.max(STEPS_PER_EVENT * events as u64) },
            taken: AtomicU64::new(0),
        }
    }

    /// The cycles.
    pub fn cycles(&self) -> &'c Cycles<'i, 't> {
        self.cycles
    }

    /// The task and the length of its cycles that a number stands for; `None` if nothing is left from there on.
    pub fn task(&self, number: usize) -> Option<(usize, usize)> {
        let tasks = self.open_of.len();
        (self.open.load(Ordering::Relaxed) > 0).then(|| (number % tasks, 2 + number / tasks))
    }

    /// How many acquires of a task are not done.
    pub fn open_of(&self, task: usize) -> usize {
        self.open_of[task].load(Ordering::Relaxed)
    }

    /// A question was asked, and searches for an answer took so many steps.
    pub fn asked(&self, steps: u64) {
        self.take(STEPS_OF_QUESTION * (1 + self.cycles.threads()) + steps);
    }

    fn take(&self, steps: u64) {
        self.taken.fetch_add(steps, Ordering::Relaxed);
    }

    /// Visits the cycles of one length of a task.
    pub fn visit(&self, (task, length): (usize, usize), stop: &dyn Fn() -> bool, visit: &mut Visit) -> Outcome {
        let mut outcome = Outcome::default();
        for earliest in self.cycles.earliest(task) {
            if self.done[earliest].load(Ordering::Relaxed) {
                continue;
            }
            let most = match self.exhaustive {
                true => usize::MAX,
                false => self.most.saturating_sub(self.taken.load(Ordering::Relaxed)).min(MOST_STEPS) as usize,
            };
            let visited = self.cycles.visit_from(earliest, Length::Exactly(length), most, stop, visit);
            self.take(visited.steps as u64);
            let goes_on = visited.end == End::All && visited.longer;
            if !goes_on && !self.done[earliest].swap(true, Ordering::Relaxed) {
                outcome.cut_short += (visited.end != End::All) as usize;
                self.open.fetch_sub(1, Ordering::Relaxed);
                outcome.is_done |= self.open_of[task].fetch_sub(1, Ordering::Relaxed) == 1;
            }
        }
        outcome
    }

    /// Nothing more of a task is visited. How many of its acquires were not done.
    pub fn give_up(&self, task: usize) -> Outcome {
        let mut outcome = Outcome::default();
        for earliest in self.cycles.earliest(task) {
            if !self.done[earliest].swap(true, Ordering::Relaxed) {
                outcome.cut_short += 1;
                self.open.fetch_sub(1, Ordering::Relaxed);
                outcome.is_done |= self.open_of[task].fetch_sub(1, Ordering::Relaxed) == 1;
            }
        }
        outcome
    }
}
