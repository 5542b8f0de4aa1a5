//! MC, SB and RDIT as engines: every pair and every cycle of locks that may be a finding is asked about.

use crate::engine::{About, Context, Cost, Engine, EngineRef, Found, Guarantee, Needs, highest_level};
use crate::maximal::asking::{Asking, Oracle, Patience};
use crate::maximal::{Answer, Cycles, Index, Limits, Lowered, Missing, Pairs, Queries, Stage, Windows};
use snag_model::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Everything that a trace proves.
pub const MC: EngineRef = EngineRef::new(&Maximal {
    missing: Missing::Reach,
    about: About { name: "mc", summary: "maximal causality: everything that the trace proves", ..MAXIMAL },
});

/// The same with every missing method taken to touch everything.
pub const SB: EngineRef = EngineRef::new(&Maximal {
    missing: Missing::All,
    about: About {
        name: "sb",
        summary: "the same, where a missing method may touch everything",
        needs: Needs::Missing,
        condensable: false,
        ..MAXIMAL
    },
});

/// The same with missing methods that touch what they can reach.
pub const RDIT: EngineRef = EngineRef::new(&Maximal {
    missing: Missing::Reach,
    about: About {
        name: "rdit",
        summary: "the same, where a missing method may touch what it can reach",
        needs: Needs::Missing,
        condensable: false,
        ..MAXIMAL
    },
});

/// What the engines of this folder have in common.
pub(super) const MAXIMAL: About = About {
    name: "",
    summary: "",
    paper: "Huang, Luo, Rosu: GPredict, ICSE 2015; incomplete traces: RDIT, OOPSLA 2016",
    guarantee: Guarantee::Sound,
    cost: Cost::Search,
    needs: Needs::Events,
    condensable: true,
    reduces: false,
    // Where each event stands, who wrote what it saw, its sections, its rows in three clocks and the checker's facts.
    bytes: [60, 48, 160],
};

/// Unless every answer is wanted, so many pairs of events at the same two locations are refuted by a search before the
/// others are left: where threads keep out of each other's way by means of their own, all are refuted, there may be
/// millions of them, and other locations deserve their share of the time.
const MOST_REFUTED: usize = 5_000;

/// In the same case, the searches for one pair of locations, or for the cycles of one task, take at most so many steps;
/// and less once all together have taken very many. A step takes some 50 ns.
const MOST_SEARCH_STEPS: u64 = 200_000_000;
const MANY_SEARCH_STEPS: u64 = 2_000_000_000;
const FEWER_SEARCH_STEPS: u64 = 20_000_000;

struct Maximal {
    missing: Missing,
    about: About,
}

impl Engine for Maximal {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        decide(context, self.missing)
    }
}

/// Asks about everything except what is known, at the highest level that knows no expressions.
pub(super) fn decide<'c>(context: &'c Context<'c>, missing: Missing) -> Found<'c> {
    let started = Instant::now();
    let Context { trace, cells, settings, host, .. } = *context;
    let level = context.level(highest_level(trace));
    let not_begun = || Found { looked_at: 0, complete: false, ..Found::nothing(context, started.elapsed()) };
    if host.is_up() {
        return not_begun();
    }
    context.phase("what must come before what", 0);
    let lowered = Lowered::of(trace, cells, level);
    let index = Index::until(lowered.trace(), lowered.cells(), level, missing, &|| host.is_up());
    if host.is_up() {
        return not_begun();
    }
    let windows = settings.window.map(|size| Windows::of_original(&lowered, size));
    let pairs = Pairs::of(&index, windows);
    if host.is_up() {
        return not_begun();
    }
    let cycles = Cycles::of(&index);
    let first_pass = started.elapsed();
    let stop = Arc::new(AtomicBool::new(false));
    let limits = Limits {
        stop: Some(Arc::new({
            let stop = stop.clone();
            move || stop.load(Ordering::Relaxed)
        })),
        backend: settings.solver,
        ..Limits::default()
    };
    let all_steps = AtomicU64::new(0);
    let asking = Asking::new(context, level, &pairs, Some(&cycles), &stop)
        .lowered(&lowered)
        .patience(if context.exhaustive { Patience::Endless } else { Patience::Refuted(MOST_REFUTED) });
    asking.run(|| Steps {
        queries: Queries::new(&index, limits.clone()),
        left: u64::MAX,
        all: &all_steps,
        exhaustive: context.exhaustive,
    });
    let memory = index.memory() as u64;
    Found { memory, ..asking.found(first_pass) }
}

/// Asks until the steps of a task are used up.
struct Steps<'a, 'i, 't> {
    queries: Queries<'i, 't>,
    left: u64,
    /// What all searches have taken.
    all: &'a AtomicU64,
    exhaustive: bool,
}

impl Oracle for Steps<'_, '_, '_> {
    fn begin_task(&mut self) {
        self.left = match self.all.load(Ordering::Relaxed) {
            _ if self.exhaustive => u64::MAX,
            steps if steps < MANY_SEARCH_STEPS => MOST_SEARCH_STEPS,
            _ => FEWER_SEARCH_STEPS,
        };
    }

    fn set_window(&mut self, base: EventId, end: EventId) {
        self.queries.set_window(base, end);
    }

    fn ask(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.queries.set_steps(self.left);
        let answer = self.queries.ask(events);
        self.left = self.left.saturating_sub(self.queries.effort.steps);
        self.all.fetch_add(self.queries.effort.steps, Ordering::Relaxed);
        answer
    }

    fn steps(&self) -> u64 {
        self.queries.effort.steps
    }

    fn diverging(&self) -> &[EventId] {
        &[]
    }
}
