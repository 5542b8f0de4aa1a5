//! Random traces for tests.
//!
//! Guarantee: [`random_trace`] yields well-formed traces only. Every kind of event can
//! appear, also side by side. The same shape and state of the generator give the
//! same trace on every machine.

pub use crate::shape::{Shape, Weights};
use crate::shrink::{show, shrink};
use crate::simulation::Simulation;
use snag_model::Trace;
pub use snag_synthesis::Rng;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A random well-formed trace.
pub fn random_trace(shape: &Shape, rng: &mut Rng) -> Trace {
    Simulation::new(shape, rng).run()
}

/// The seeds of a comparison, as many times more of them as the variable `SEEDS_TIMES` says: for a campaign by hand.
pub fn seeds(usual: Range<u64>) -> Range<u64> {
    let times = std::env::var("SEEDS_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    usual.start..usual.start + times * (usual.end - usual.start)
}

/// Checks a random trace for each seed ([`seeds`]), on all cores. Panics at the smallest seed found whose trace the check
/// refuses (or panics on), with that trace made as small as possible, and the message.
pub fn for_random_traces(
    usual: Range<u64>,
    shape: impl Fn(&mut Rng) -> Shape + Sync,
    check: impl Fn(&Trace) -> Result<(), String> + Sync,
) {
    let seeds = seeds(usual);
    let trace_of = |seed: u64| {
        let mut rng = Rng::new(seed);
        let shape = shape(&mut rng);
        random_trace(&shape, &mut rng)
    };
    let verdict = |trace: &Trace| match catch_unwind(AssertUnwindSafe(|| check(trace))) {
        Ok(verdict) => verdict,
        Err(panic) => Err(panic_message(panic.as_ref())),
    };
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if let Err(message) = verdict(&trace_of(seed)) {
                next.store(seeds.end, Ordering::Relaxed);
                let mut failed = failed.lock().unwrap();
                if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *failed = Some((seed, message));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        for _ in 1..cores.min((seeds.end - seeds.start) as usize) {
            scope.spawn(work);
        }
        work();
    });
    if let Some((seed, message)) = failed.into_inner().unwrap() {
        let small = shrink(&trace_of(seed), |trace| verdict(trace).is_err());
        let why = verdict(&small).err().unwrap_or_else(|| message.clone());
        panic!("seed {seed}: {why}\n{}(before shrinking: {message})", show(&small));
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message"))
}
