//! From CP and WCP to findings.
//!
//! A pair that these relations leave unordered is a race, or a deadlock is near, or, after the
//! first one, nothing. What SHB has at the same two locations is proved by its clocks; the rest is
//! for the maximal engine to decide.

use crate::analyse::{TOO_MANY, Work};
use crate::analysis::{Engine, EngineReport, Reduction, Subject};
use crate::memory::peak_memory;
use snag_engines::causal::{self, Relation, Settings};
use snag_engines::happens_before::Limits;
use std::time::Instant;

impl Work<'_> {
    pub(crate) fn causal(&mut self, engine: Engine, started: Instant) {
        let relation = if engine == Engine::Cp { Relation::Cp } else { Relation::Wcp };
        let options = self.options;
        let settings = Settings {
            relation,
            window: options.window,
            reduce: options.reduce,
            all: options.all,
            limits: Limits { all_pairs: options.all_pairs, ..Limits::default() },
        };
        self.progress.phase(&format!("{}: looking for races", engine.name()), self.trace.len() as u64);
        let mut stopped = false;
        let mut races = causal::races(self.trace, self.cells, &settings, &mut |done| {
            self.progress.advance(done as u64);
            stopped |= self.out_of_time();
            !stopped
        });
        let first_pass = started.elapsed();
        let location_pairs = self.location_pairs(&races.found);
        let mut complete = races.found.complete;
        let unread = self.trace.len().saturating_sub(races.warnings.done);
        if !complete {
            self.analysis.leave(engine, Subject::Event, "not looked at in time", unread);
        }
        if options.prove && !races.found.pairs.is_empty() {
            let pairs = &mut races.found.pairs;
            complete &= pairs.len() <= options.max_races;
            let more = pairs.len().saturating_sub(options.max_races);
            self.analysis.leave(engine, Subject::LocationPair, TOO_MANY, more);
            pairs.sort_by_key(|pair| (pair.second, pair.first));
            pairs.truncate(options.max_races);
            let mut claims = self.claims_by_shb(engine, races.found, "no schedule was found that shows it");
            let level = self.level_of(engine);
            complete &= self.settle(engine, level, &mut claims);
            complete &= self.prove(engine, claims);
        }
        self.analysis.engines.push(EngineReport {
            engine,
            beyond: None,
            seconds: started.elapsed().as_secs_f64(),
            events_per_second: races.warnings.done as f64 / first_pass.as_secs_f64().max(1e-9),
            peak_memory_bytes: peak_memory().max(races.warnings.memory as u64),
            warnings: races.warnings.events.len() as u64,
            location_pairs,
            complete,
            reduction: Some(Reduction {
                events: races.reduced as u64,
                sweeps: (relation == Relation::Cp).then_some(races.sweeps),
            }),
            searches: None,
        });
    }
}
