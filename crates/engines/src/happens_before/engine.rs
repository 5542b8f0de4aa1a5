//! HB, FHB, SHB, races by memory order and locksets as engines.

use crate::engine::{About, Context, Cost, Engine, EngineRef, Found, Guarantee, Needs, Prover};
use crate::happens_before::lockset::lockset;
use crate::happens_before::{
    Limits, LocationPair, Order, Racing, Sections, Variant, Warnings, by_memory_order, find, pairs, take_schedules,
    warnings,
};
use snag_model::{Op, Schedule};
use std::collections::HashSet;
use std::time::Instant;

/// Happens-before, with epochs.
pub const HB: EngineRef = EngineRef::new(&Clocks {
    order: Order::Hb,
    variant: Variant::Epochs,
    about: About {
        name: "hb",
        summary: "happens-before, with epochs",
        paper: "Lamport 1978; epochs: FastTrack, Flanagan, Freund, PLDI 2009",
        guarantee: Guarantee::First,
        bytes: [0, 33, 32],
        ..PASS
    },
});

/// Happens-before, with full vector clocks.
pub const HB_VC: EngineRef = EngineRef::new(&Clocks {
    order: Order::Hb,
    variant: Variant::Vectors,
    about: About {
        name: "hb-vc",
        summary: "happens-before, with full vector clocks",
        paper: "DJIT+, Pozniansky, Schuster, PPoPP 2003",
        guarantee: Guarantee::First,
        bytes: [0, 21, 32],
        ..PASS
    },
});

/// Happens-before that orders every race it has seen.
pub const FHB: EngineRef = EngineRef::new(&Clocks {
    order: Order::Fhb,
    variant: Variant::Epochs,
    about: About {
        name: "fhb",
        summary: "happens-before that orders every race it has seen",
        paper: "Mathur, Kini, Viswanathan, OOPSLA 2018",
        bytes: [0, 57, 32],
        ..PASS
    },
});

/// Schedulable happens-before, with epochs.
pub const SHB: EngineRef = EngineRef::new(&Clocks {
    order: Order::Shb,
    variant: Variant::Epochs,
    about: About {
        name: "shb",
        summary: "schedulable happens-before, with epochs",
        paper: "Mathur, Kini, Viswanathan, OOPSLA 2018",
        bytes: [0, 33, 32],
        ..PASS
    },
});

/// Schedulable happens-before, with full vector clocks.
pub const SHB_VC: EngineRef = EngineRef::new(&Clocks {
    order: Order::Shb,
    variant: Variant::Vectors,
    about: About {
        name: "shb-vc",
        summary: "schedulable happens-before, with full vector clocks",
        paper: "Mathur, Kini, Viswanathan, OOPSLA 2018",
        bytes: [0, 21, 32],
        ..PASS
    },
});

/// Races by memory order, of the recorded run and of schedules in which critical sections come the other way round.
pub const ORDER: EngineRef = EngineRef::new(&ByOrder {
    about: About {
        name: "order",
        summary: "races by memory order: what atomics and fences leave unordered",
        paper: "happens-before of C++20: Boehm, Adve, PLDI 2008; ISO/IEC 14882:2020, 6.9.2.2",
        bytes: [0, 33, 32],
        ..PASS
    },
});

/// Eraser's locksets.
pub const LOCKSET: EngineRef = EngineRef::new(&Lockset {
    about: About {
        name: "lockset",
        summary: "locksets: candidates only",
        paper: "Eraser, Savage et al., TOCS 1997",
        guarantee: Guarantee::None,
        condensable: false,
        bytes: [0, 32, 24],
        ..PASS
    },
});

/// What engines that take one look at each event have in common.
const PASS: About = About {
    name: "",
    summary: "",
    paper: "",
    guarantee: Guarantee::Sound,
    cost: Cost::Pass,
    needs: Needs::Events,
    condensable: true,
    reduces: false,
    bytes: [0; 3],
};

/// An order by vector clocks.
struct Clocks {
    order: Order,
    variant: Variant,
    about: About,
}

impl Engine for Clocks {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let (warnings, racing) = racing(context, self.order, self.variant);
        let prover = match self.order {
            Order::Hb => Prover::Shb,
            Order::Fhb | Order::Shb => Prover::Own(Box::new(|pairs| schedules(context, pairs))),
        };
        Found {
            pairs: racing.pairs,
            provers: vec![prover],
            otherwise: match self.order {
                Order::Hb => "no schedule that keeps happens-before and what each read saw shows it",
                Order::Fhb | Order::Shb => "stopped before a schedule was found",
            },
            warnings: warnings.events.len() as u64,
            looked_at: warnings.done,
            memory: warnings.memory as u64,
            complete: racing.complete,
            ..Found::nothing(context, started.elapsed())
        }
    }
}

/// The warnings and pairs of an order.
pub fn racing(context: &Context, order: Order, variant: Variant) -> (Warnings, Racing) {
    let Context { trace, cells, host, settings, .. } = *context;
    let limits = Limits { all_pairs: settings.all_pairs, ..Limits::default() };
    let shares = host.shares();
    let used_up = |share: usize| shares.is_some_and(|shares| Instant::now() >= shares[share]);
    let mut stopped = false;
    let mut tick = |done: usize| {
        stopped |= !context.goes_on(done) || used_up(0);
        !stopped
    };
    // In what is left of the time after an interrupt, what was found is named, too.
    let mut name = |_: usize| !host.is_over() && !used_up(1);
    context.phase("looking for races", trace.len());
    match variant {
        Variant::Epochs => find(trace, cells, order, settings.window, limits, &mut tick, &mut name),
        Variant::Vectors => {
            let warnings = warnings(trace, cells, order, variant, settings.window, &mut tick);
            let racing = pairs(trace, cells, order, &warnings, settings.window, limits, &mut name);
            (warnings, racing)
        }
    }
}

/// The clocks of both events of a pair make its schedule. It is feasible if SHB leaves the pair unordered.
pub fn schedules(context: &Context, pairs: &[LocationPair]) -> Vec<Option<Schedule>> {
    let Context { trace, cells, host, .. } = *context;
    context.phase("finding schedules", trace.len());
    let mut racing = Racing { pairs: pairs.to_vec(), ..Racing::default() };
    take_schedules(trace, cells, &mut racing, &mut |done| {
        host.advance(done as u64);
        !host.is_over()
    });
    pairs.iter().map(|pair| racing.schedule(trace, pair).map(Schedule::Prefixes)).collect()
}

/// In longer traces only the recorded run is looked at.
const MOST_PREDICTED: usize = 1_000_000;

struct ByOrder {
    about: About,
}

impl Engine for ByOrder {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let Context { trace, cells, host, settings, known, .. } = *context;
        let limits = Limits { all_pairs: settings.all_pairs, ..Limits::default() };
        // It comes last, so it may use the time that is left for proofs.
        let mut tick = |done: usize| {
            host.advance(done as u64);
            !host.is_over()
        };
        let mut name = |_: usize| !host.is_over();
        context.phase("looking for races", trace.len());
        let mut look =
            |sections| by_memory_order(trace, cells, sections, settings.window, limits, &mut tick, &mut name);
        let (found, mut racing) = look(Sections::AsObserved);
        // In other schedules critical sections come the other way round, and do not order what they did here. Alone, this
        // engine looks at the recorded run.
        let predicts = context.beyond.is_some()
            && (trace.len() <= MOST_PREDICTED || context.exhaustive)
            && cells.ops().any(&[Op::Acquire, Op::ReadAcquire]);
        let mut maybe = if predicts { look(Sections::InAnyOrder).1.pairs } else { Vec::new() };
        // What is a predictable race is reported as that.
        let key = |pair: &LocationPair| context.key(pair.first, pair.second);
        racing.pairs.retain(|pair| !known.contains(&key(pair)));
        let shown: HashSet<_> = racing.pairs.iter().map(key).collect();
        maybe.retain(|pair| !known.contains(&key(pair)) && !shown.contains(&key(pair)));
        Found {
            location_pairs: Some(shown.len() as u64),
            pairs: racing.pairs,
            maybe_by_order: maybe,
            provers: vec![Prover::Shb, Prover::Observed],
            otherwise: "stopped before it was checked",
            warnings: racing.later,
            looked_at: found.done,
            memory: found.memory as u64,
            complete: racing.complete,
            ..Found::nothing(context, started.elapsed())
        }
    }
}

struct Lockset {
    about: About,
}

impl Engine for Lockset {
    fn about(&self) -> &About {
        &self.about
    }

    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c> {
        let started = Instant::now();
        let Context { trace, cells, settings, .. } = *context;
        let limits = Limits { all_pairs: settings.all_pairs, ..Limits::default() };
        context.phase("looking for races", trace.len());
        let (warnings, racing) = lockset(trace, cells, settings.window, limits, &mut |done| context.goes_on(done));
        Found {
            pairs: racing.pairs,
            otherwise: "no lock protects all accesses; locksets prove nothing",
            warnings: warnings.len() as u64,
            complete: racing.complete,
            ..Found::nothing(context, started.elapsed())
        }
    }
}
