//! What was found so far, for whoever cannot wait for the rest.

use crate::analysis::{Analysis, Engine};
use std::sync::{Mutex, MutexGuard};

/// Filled engine by engine. What is in it is proved, and events have the numbers of the trace that was given.
#[derive(Default)]
pub struct SoFar {
    analysis: Mutex<Analysis>,
}

impl SoFar {
    fn lock(&self) -> MutexGuard<'_, Analysis> {
        // Whoever panicked while adding something has at worst added a part of it.
        self.analysis.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds what an engine has found.
    pub(crate) fn add(&self, part: Analysis) {
        self.lock().add(part);
    }

    /// Adds what an engine has found in the same trace as if no method were missing.
    pub(crate) fn add_ignoring(&self, part: Analysis) {
        self.lock().add_ignoring(part);
    }

    /// All of it, engines in the order in which they were asked for.
    pub fn take(&self, asked: &[Engine]) -> Analysis {
        let mut analysis = std::mem::take(&mut *self.lock());
        analysis.put_in_order(asked);
        analysis
    }

    /// The same if nobody has waited for the end: engines that were asked for and have reported nothing are said not to have
    /// looked at any of the events.
    pub fn take_early(&self, asked: &[Engine], events: usize) -> Analysis {
        let mut analysis = std::mem::take(&mut *self.lock());
        for &engine in asked {
            let reported = |engine: Engine| analysis.engines.iter().any(|report| report.engine == engine);
            let missing: Vec<(Engine, Option<Engine>)> = match engine {
                Engine::Auto if reported(Engine::Recipe) => [(Engine::Shb, None)].to_vec(),
                Engine::Auto => [(Engine::Shb, None), (Engine::Mc, Some(Engine::Shb))].to_vec(),
                engine => vec![(engine, None)],
            };
            let missing: Vec<_> = missing.into_iter().filter(|(engine, _)| !reported(*engine)).collect();
            for (engine, beyond) in missing {
                analysis.did_not_run(engine, beyond, events, NOT_FINISHED);
            }
        }
        analysis.put_in_order(asked);
        analysis
    }
}

/// What is said of an engine that was given up in the middle, or not begun.
const NOT_FINISHED: &str = "not looked at in time";
