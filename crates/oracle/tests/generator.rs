//! What the random traces are worth.

use snag_oracle::*;
use snag_trace::{Op, Trace, Validator};
use std::collections::BTreeMap;

fn traces(count: u64, shape: impl Fn(&mut Rng) -> Shape) -> impl Iterator<Item = Trace> {
    (0..count).map(move |seed| {
        let mut rng = Rng::new(seed);
        let shape = shape(&mut rng);
        random_trace(&shape, &mut rng)
    })
}

#[test]
fn random_traces_are_well_formed() {
    for_random_traces(0..20_000, Shape::any, |trace| {
        Validator::new().check(&trace.events, 0, &trace.tables).map_err(|broken| format!("{broken:?}"))
    });
}

#[test]
fn every_operation_appears() {
    let mut counts: BTreeMap<Op, usize> = BTreeMap::new();
    for trace in traces(2000, Shape::any) {
        for &op in trace.events.ops() {
            *counts.entry(op).or_default() += 1;
        }
    }
    println!("{counts:?}");
    for op in Op::ALL {
        let count = counts.get(&op).copied().unwrap_or(0);
        assert!(count >= 20, "{} appears {count} times", op.word());
    }
}

/// How many of the traces of a shape show what.
fn census(count: u64, shape: impl Fn(&mut Rng) -> Shape) -> BTreeMap<&'static str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for trace in traces(count, shape) {
        let mut note = |what: &'static str, there: bool| *counts.entry(what).or_default() += there as usize;
        let [writer, value, control] = [Level::Writer, Level::Value, Level::Control].map(|l| races(&trace, l));
        let (hb, shb, fhb) = (hb_races(&trace), shb_races(&trace), fhb_races(&trace));
        note("predictable race", !writer.is_empty());
        note("no race", control.is_empty());
        note("hb, not shb", !hb.is_subset(&shb));
        note("shb, not fhb", !shb.is_subset(&fhb));
        note("writer, not hb", !writer.is_subset(&hb));
        note("value, not writer", !value.is_subset(&writer));
        note("control, not value", !control.is_subset(&value));
        note("deadlock", !deadlocks(&trace, Level::Writer).is_empty());
        note("one thread", trace.events.threads().iter().all(|t| *t == trace.events.threads()[0]));
        note("15 events", trace.len() >= 15);
    }
    counts
}

#[test]
fn random_traces_are_interesting() {
    println!("classic {:?}", census(1000, Shape::classic));
    println!("locks {:?}", census(1000, Shape::lock_heavy));
    println!("values {:?}", census(1000, Shape::with_values));
    println!("everything {:?}", census(1000, Shape::everything));
    println!("any {:?}", census(1000, Shape::any));
}
