//! A second opinion: the same queries, put to Z3 as a formula of integer differences.
//!
//! This is how RVPredict asks. Each event of a window has an integer, its place in the schedule; `now` is the place
//! of the target, and what does not happen comes after it. The formula says:
//!
//! - thread order, fork, join, notify, barriers, allocation and missing methods: a difference for each;
//! - locks: of two sections that exclude each other one ends before the other begins, unless one does not happen;
//! - reads that must be kept: one of the writes that the level allows comes before the read, and every other write of the
//!   cell comes before that or after the read; at `control`, reads that a branch follows must be kept, and so must those before a
//!   write that a kept read sees;
//! - a wake-up that names a notify: the wait began before it; a semaphore: each wait has a unit or an earlier post to itself;
//!   an access comes before its block is freed;
//! - the target: all its events are now, and blocks that it accesses are not freed.
//!
//! Everything is said at once, before the solver is asked. Nothing of what makes the own engine quick is used: not the must
//! order, not the bounds, not the replay, not its solver. That makes it slow, and a check of all these.
//!
//! [`Z3::window`] encodes a window once for all its queries, as RVPredict does; [`Z3::ask`] encodes for each query only what
//! its events can need.

mod cone;
mod encoding;
mod library;
mod rules;

use crate::maximal::index::Index;
use crate::maximal::query::{Answer, Undecided};
use crate::maximal::solver::Outcome;
use cone::Cone;
use encoding::Encoding;
use library::{Context, Solver};
use snag_model::EventId;
use snag_model::Schedule;
use std::ffi::CString;
use std::time::{Duration, Instant};

pub use encoding::Options;
pub use library::Arithmetic;

/// The library. Each thread has its own; once a query was stopped by [`Options::stop`], all others are as well.
pub struct Z3 {
    context: Context,
}

impl Default for Z3 {
    fn default() -> Z3 {
        Z3::new()
    }
}

impl Z3 {
    /// Takes some milliseconds.
    pub fn new() -> Z3 {
        Z3 { context: Context::new() }
    }

    /// The version of the library.
    pub fn version() -> String {
        library::version()
    }

    /// Whether a formula in SMT-LIB's language can be satisfied; `None` if it takes longer to tell.
    pub fn decide(&self, formula: &str, timeout: Duration) -> Result<Option<bool>, String> {
        let text = CString::new(formula).map_err(|why| why.to_string())?;
        let solver = Solver::new(&self.context, Arithmetic::General);
        solver.read(&text)?;
        Ok(match solver.check(Some(timeout), None) {
            Outcome::Satisfiable => Some(true),
            Outcome::Unsatisfiable => Some(false),
            Outcome::Stopped => None,
        })
    }

    /// Whether all these events, of different threads, can come next after a feasible schedule that begins like the
    /// trace up to `base` and contains nothing from `end` on. Encodes what these events can need.
    pub fn ask(&self, index: &Index, events: &[EventId], base: EventId, end: EventId, options: &Options) -> Answer {
        let started = Instant::now();
        let Some(cut) = Cone::of(index, events, base, end) else { return Answer::Impossible };
        let encoding = self.encode(index, base, cut, options);
        let timeout = options.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let left = Options { timeout, ..options.clone() };
        answer(base, encoding.and_then(|mut encoding| encoding.aim(events, &left)))
    }

    /// A window for the same queries with the same `base` and `end`. Encodes all of it.
    pub fn window<'z, 'i, 't>(
        &'z self,
        index: &'i Index<'t>,
        base: EventId,
        end: EventId,
        options: &Options,
    ) -> Window<'z, 'i, 't> {
        let cut = (0..index.threads.count()).map(|thread| index.threads.count_before(thread, end)).collect();
        Window { z3: self, base, encoding: self.encode(index, base, cut, options) }
    }

    fn encode<'z, 'i, 't>(
        &'z self,
        index: &'i Index<'t>,
        base: EventId,
        cut: Vec<u32>,
        options: &Options,
    ) -> Result<Encoding<'z, 'i, 't>, Undecided> {
        match self.context.was_interrupted() {
            true => Err(Undecided::Stopped),
            false => Encoding::new(&self.context, index, base, cut, options),
        }
    }
}

/// A window of a trace, encoded as a whole, once for all queries.
pub struct Window<'z, 'i, 't> {
    z3: &'z Z3,
    base: EventId,
    encoding: Result<Encoding<'z, 'i, 't>, Undecided>,
}

impl Window<'_, '_, '_> {
    /// Whether all these events, of different threads, can come next.
    pub fn ask(&mut self, events: &[EventId], options: &Options) -> Answer {
        let found = match &mut self.encoding {
            Ok(_) if self.z3.context.was_interrupted() => Err(Undecided::Stopped),
            Ok(encoding) => encoding.aim(events, options),
            Err(why) => Err(*why),
        };
        answer(self.base, found)
    }
}

fn answer(base: EventId, found: Result<Option<Vec<EventId>>, Undecided>) -> Answer {
    match found {
        Ok(Some(order)) if base == EventId(0) => Answer::Possible(Schedule::List(order)),
        Ok(Some(order)) => Answer::Possible(Schedule::Continued { as_observed: base, then: order }),
        Ok(None) => Answer::Impossible,
        Err(why) => Answer::Unknown(why),
    }
}
