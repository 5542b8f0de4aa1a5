//! What was found so far, for whoever cannot wait for the rest.

use crate::analysis::Analysis;
use crate::options::{Choice, Options};
use crate::plan::in_order;
use snag_model::Trace;
use std::sync::{Mutex, MutexGuard};

/// Where engines hand on what they have found.
pub(crate) trait Publish: Sync {
    /// An engine is done.
    fn done(&self, part: Analysis);
    /// An engine that may not be done in time has proved this much. When it is done, that takes its place.
    fn early(&self, part: Analysis);
}

/// Filled engine by engine. What is in it is proved, and events have the numbers of the trace that was given.
#[derive(Default)]
pub struct SoFar {
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    /// Of engines that are done.
    analysis: Analysis,
    /// Of the one that is not.
    early: Option<Analysis>,
}

impl SoFar {
    fn lock(&self) -> MutexGuard<'_, Parts> {
        // Whoever panicked while adding something has at worst added a part of it.
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// All of it, engines in the order in which they were asked for.
    pub fn take(&self, asked: &[Choice]) -> Analysis {
        let mut analysis = std::mem::take(&mut *self.lock()).analysis;
        analysis.put_in_order(asked);
        analysis
    }

    /// The same if nobody has waited for the end, with what the last engine had proved by then. Engines that were asked for
    /// and have reported nothing are said not to have looked at any of the `events`, of which `trace` has all that matter.
    pub fn take_early(&self, options: &Options, trace: &Trace, events: usize) -> Analysis {
        let Parts { mut analysis, early } = std::mem::take(&mut *self.lock());
        if let Some(early) = early {
            analysis.add(early);
        }
        for step in in_order(options, trace) {
            if !analysis.engines.iter().any(|report| report.engine == step.engine) {
                analysis.did_not_run(step.engine, step.beyond.last().copied(), events, NOT_FINISHED);
            }
        }
        analysis.put_in_order(&options.engines);
        analysis
    }
}

impl Publish for SoFar {
    fn done(&self, part: Analysis) {
        let mut parts = self.lock();
        parts.early = None;
        parts.analysis.add(part);
    }

    fn early(&self, part: Analysis) {
        let mut parts = self.lock();
        // Who counts what is to be proved does not take back what was.
        let proved = |part: &Analysis| part.races.len() + part.deadlocks.len() + part.faults.len();
        if parts.early.as_ref().is_none_or(|known| proved(known) <= proved(&part)) {
            parts.early = Some(part);
        }
    }
}

/// For engines that look at the same trace as if no method were missing.
pub(crate) struct Ignoring<'a>(pub &'a SoFar);

impl Publish for Ignoring<'_> {
    fn done(&self, part: Analysis) {
        self.0.done(part.ignoring());
    }

    fn early(&self, part: Analysis) {
        self.0.early(part.ignoring());
    }
}

/// What is said of an engine that was given up in the middle, or not begun.
const NOT_FINISHED: &str = "not looked at in time";

#[cfg(test)]
mod tests {
    use super::*;
    use snag_engines::{EngineRef, MC, SHB};

    fn names(analysis: &Analysis) -> Vec<(EngineRef, bool)> {
        analysis.engines.iter().map(|report| (report.engine, report.complete)).collect()
    }

    #[test]
    fn what_an_engine_has_proved_before_it_was_given_up_is_kept() {
        let so_far = SoFar::default();
        let part = |engine: EngineRef| {
            let mut part = Analysis::default();
            part.did_not_run(engine, None, 0, "");
            part
        };
        so_far.early(part(SHB));
        so_far.done(part(SHB));
        so_far.early(part(MC));
        let analysis = so_far.take_early(&Options::default(), &Trace::default(), 7);
        assert_eq!(names(&analysis), [(SHB, false), (MC, false)]);
        // Who was heard of need not be said to have done nothing.
        assert!(analysis.left.is_empty(), "{:?}", analysis.left);
    }
}
