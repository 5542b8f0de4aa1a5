//! CP and WCP as engines.
//!
//! A pair that these relations leave unordered is a race, or a deadlock is near, or, after the first one, nothing. What
//! SHB has at the same two locations is proved by its clocks; the rest is for the search to decide.

use crate::causal::{Relation, Settings, races};
use crate::engine::{About, Context, Cost, Engine, EngineRef, Found, Guarantee, Needs, Prover, Reduction};
use crate::happens_before::Limits;
use std::time::Instant;

/// Weak-causally-precedes.
pub const WCP: EngineRef = EngineRef::new(&Causal {
    relation: Relation::Wcp,
    about: About {
        name: "wcp",
        summary: "weak-causally-precedes",
        paper: "Kini, Mathur, Viswanathan, PLDI 2017",
        ..CAUSAL
    },
});

/// Causally-precedes.
pub const CP: EngineRef = EngineRef::new(&Causal {
    relation: Relation::Cp,
    about: About {
        name: "cp",
        summary: "causally-precedes",
        paper: "Smaragdakis, Evans, Sadowski, Yi, Flanagan, POPL 2012",
        ..CAUSAL
    },
});

const CAUSAL: About = About {
    name: "",
    summary: "",
    paper: "",
    guarantee: Guarantee::First,
    cost: Cost::Search,
    needs: Needs::Events,
    condensable: false,
    reduces: true,
    bytes: [4, 40, 64],
};

struct Causal {
    relation: Relation,
    about: About,
}

impl Engine for Causal {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let Context { trace, cells, settings, .. } = *context;
        let wanted = Settings {
            relation: self.relation,
            window: settings.window,
            reduce: settings.reduce,
            all: settings.all,
            limits: Limits { all_pairs: settings.all_pairs, ..Limits::default() },
        };
        context.phase("looking for races", trace.len());
        let mut stopped = false;
        let races = races(trace, cells, &wanted, &mut |done| {
            stopped |= !context.goes_on(done);
            !stopped
        });
        Found {
            pairs: races.found.pairs,
            provers: vec![Prover::Shb, Prover::Search],
            otherwise: "no schedule was found that shows it",
            warnings: races.warnings.events.len() as u64,
            // A complete pass over the reduced trace has dealt with every event.
            looked_at: if races.found.complete { trace.len() } else { races.warnings.done },
            memory: races.warnings.memory as u64,
            complete: races.found.complete,
            reduction: Some(Reduction {
                events: races.reduced as u64,
                sweeps: (self.relation == Relation::Cp).then_some(races.sweeps),
            }),
            ..Found::nothing(context, started.elapsed())
        }
    }
}
