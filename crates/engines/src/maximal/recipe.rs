//! Recipe as an engine: what the maximal engine could not prove is asked again at level `symbolic`, and pairs with
//! accesses on the other sides of branches for the first time.

use crate::engine::{About, Context, Engine, EngineRef, Found, Needs, highest_level, is_symbolic};
use crate::maximal::asking::{Asking, Oracle, Patience};
use crate::maximal::engine::{MAXIMAL, decide};
use crate::maximal::{Answer, Index, Limits, Missing, Pairs, Queries, Stage, Stop, Windows};
use snag_model::{EventId, Level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Value-based symbolic prediction.
pub const RECIPE: EngineRef = EngineRef::new(&Symbolic {
    about: About {
        name: "recipe",
        summary: "maximal causality with symbolic values: other branches, too",
        paper: "Recipe: Relaxed Sound Predictive Analysis, a draft",
        needs: Needs::Expressions,
        condensable: false,
        ..MAXIMAL
    },
});

/// Within a budget, so many pairs of events at the same two locations are refuted by the search before the others are
/// left.
const MOST_REFUTED: usize = 500;

/// Within a budget, one question takes no more than this part of it, so that others get their share, too.
const SHARE: u32 = 100;
/// But it may take this long in any case.
const LEAST: Duration = Duration::from_millis(100);
/// Without a budget, each question has this long unless every answer is wanted.
const BY_DEFAULT: Duration = Duration::from_secs(10);

struct Symbolic {
    about: About,
}

impl Engine for Symbolic {
    fn about(&self) -> &About {
        &self.about
    }

    /// First all that level `control` proves, unless another engine has done that; then the rest.
    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let first_half = context.beyond.is_none().then(|| decide(context, Missing::Reach));
        let level = context.settings.level.is_none_or(|level| level == Level::Symbolic);
        let worth_while = level && is_symbolic(context.trace) && highest_level(context.trace) > Level::Writer;
        match first_half {
            Some(first_half) if !worth_while => first_half,
            Some(first_half) => {
                // What level `control` has proved needs no other proof.
                let filed = context.host.filed().into_iter().map(|(first, second)| context.key(first, second));
                let known = context.known.iter().copied().chain(filed).collect();
                together(first_half, relaxed(&Context { known: &known, ..*context }))
            }
            None => relaxed(context),
        }
    }
}

/// One answer out of two halves.
fn together<'c>(first: Found<'c>, second: Found<'c>) -> Found<'c> {
    let sum = |count: fn(&Found<'c>) -> u64| count(&first) + count(&second);
    Found {
        warnings: sum(|found| found.warnings),
        location_pairs: Some(sum(|found| found.location_pairs.unwrap_or(0))),
        first_pass: first.first_pass.max(second.first_pass),
        memory: first.memory.max(second.memory),
        complete: first.complete && second.complete,
        looked_at: first.looked_at.min(second.looked_at),
        ..second
    }
}

/// Asks about all pairs at level `symbolic` whose findings nobody has proved.
fn relaxed(context: &Context) -> Found<'static> {
    let started = Instant::now();
    let Context { trace, cells, settings, host, .. } = *context;
    if host.is_up() {
        return Found { looked_at: 0, complete: false, ..Found::nothing(context, started.elapsed()) };
    }
    context.phase("reading expressions", 0);
    let index = Index::symbolic(trace, cells);
    let windows = settings.window.map(|size| Windows::every(size, trace.len()));
    let pairs = Pairs::of(&index, windows);
    let first_pass = started.elapsed();
    let patience = match settings.budget {
        Some(budget) => Some((budget / SHARE).max(LEAST)),
        None => (!context.exhaustive).then_some(BY_DEFAULT),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let asking = Asking::new(context, Level::Symbolic, &pairs, None, &stop).patience(match settings.budget {
        Some(_) => Patience::Refuted(MOST_REFUTED),
        None => Patience::Endless,
    });
    asking.run(|| {
        let (told, clock) = (stop.clone(), Clock::new(patience));
        let is_over = clock.clone();
        let stop: Stop = Arc::new(move || told.load(Ordering::Relaxed) || is_over.is_over());
        let queries = Queries::new(&index, Limits { stop: Some(stop), ..Limits::default() });
        Timed { queries, clock }
    });
    let memory = index.memory() as u64;
    Found { memory, ..asking.found(first_pass) }
}

/// Asks each question for a limited time.
struct Timed<'i, 't> {
    queries: Queries<'i, 't>,
    clock: Clock,
}

impl Oracle for Timed<'_, '_> {
    fn begin_task(&mut self) {}

    fn set_window(&mut self, base: EventId, end: EventId) {
        self.queries.set_window(base, end);
    }

    fn ask(&mut self, events: &[EventId]) -> (Answer, Stage) {
        self.clock.restart();
        self.queries.ask(events)
    }

    fn steps(&self) -> u64 {
        self.queries.effort.steps
    }

    fn diverging(&self) -> &[EventId] {
        &self.queries.diverging
    }
}

/// How long the current question may take.
#[derive(Clone)]
struct Clock {
    started: Instant,
    /// When the question was put, in nanoseconds from the start.
    since: Arc<AtomicU64>,
    patience: Option<Duration>,
}

impl Clock {
    fn new(patience: Option<Duration>) -> Clock {
        Clock { started: Instant::now(), since: Arc::default(), patience }
    }

    fn restart(&self) {
        self.since.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let since = Duration::from_nanos(self.since.load(Ordering::Relaxed));
        self.patience.is_some_and(|patience| self.started.elapsed() > since + patience)
    }
}
