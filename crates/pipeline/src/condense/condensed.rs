//! A trace without the accesses that no other thread can interfere with.
//!
//! Most accesses of a real program are to memory that is its thread's own: stacks, buffers, what only one thread ever
//! touches. They cannot race, and what they read is the same in every schedule; so an engine need not look at them, and
//! a trace of which a thousandth is left takes a thousandth of the memory and time.
//!
//! Memory is *private* if of any two accesses of different threads that conflict (two atomics included, if one writes) one comes
//! before the other in every schedule, by thread order, fork, join and notify alone; and so with the free of a block and the accesses
//! to it. The same holds for what a missing method could reach, which counts as written by the caller. In a trace with
//! branches, memory that several threads use and one writes is not private: there it also counts whether what was written is known.
//! An access is left out if all its bytes are private, unless
//!
//! - it is the first or last event of its thread, which fork, join and missing methods refer to;
//! - it lies inside the call of a missing method, whose events are ordered with others;
//! - the order after the alloc of its block follows from nothing but the access.
//!
//! Guarantee: every schedule of what is left, with the accesses that were left out put directly before the next event
//! of their thread, is a schedule of the whole, at levels `writer`, `value` and `control`; and every schedule of the whole, without
//! them, is one of what is left. So both have the same races and the same deadlocks. (A private byte holds the same
//! write wherever a thread comes to read it: no such read can differ, and none is needed to keep others from differing.)
//! Not for level `symbolic`, where expressions refer to what was read.
//!
//! Cost: two passes, in blocks. Memory for each variable and for what is left, none for what is left out.

mod reached;
mod sieve;
mod survey;

pub use sieve::{Changed, Sieve};
pub use survey::{Private, Survey};

use snag_model::Trace;
use snag_model::ids::EventId;

/// What is left of a trace.
#[derive(Debug)]
pub struct Condensed {
    /// The events that are left, numbered anew.
    pub trace: Trace,
    /// The number in the whole trace of each of them; ascending.
    numbers: Vec<u32>,
    /// How many events the whole trace has.
    whole: usize,
}

impl Condensed {
    /// What is left of a trace in memory; `None` if it has expressions.
    pub fn of(trace: &Trace) -> Option<Condensed> {
        let mut survey = Survey::default();
        survey.block(&trace.events, &trace.tables);
        let mut sieve = Sieve::new(survey.finish(&trace.tables)?);
        sieve.block(&trace.events, &trace.tables);
        Some(sieve.finish(trace.tables.clone()).expect("it is the same trace"))
    }

    /// The same of a trace that was itself a part of a longer one, of so many events, where its events have these numbers.
    pub fn within(self, numbers: &[u32], whole: usize) -> Condensed {
        let numbers = self.numbers.iter().map(|&number| numbers[number as usize]).collect();
        Condensed { numbers, whole, ..self }
    }

    /// The number of an event in the whole trace. What is behind the last one is behind the whole trace.
    pub fn original(&self, event: EventId) -> EventId {
        self.numbers.get(event.index()).map_or(EventId::new(self.whole), |&number| EventId(number))
    }

    /// The number here of an event of the whole trace, if it is left.
    pub fn here(&self, original: EventId) -> Option<EventId> {
        self.numbers.binary_search(&original.0).ok().map(EventId::new)
    }

    /// How many of the events that are left come before an event of the whole trace.
    pub fn up_to(&self, original: EventId) -> EventId {
        EventId::new(self.numbers.partition_point(|&number| number < original.0))
    }

    /// How many events the whole trace has.
    pub fn whole(&self) -> usize {
        self.whole
    }
}
