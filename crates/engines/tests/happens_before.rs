//! The fast engines against the definitions, on random traces with all kinds of events.
//!
//! The naive relations and the exhaustive search are those of crate `oracle`,
//! which shares no code with the engines.

use snag_checker::Checker;
use snag_engines::happens_before::{Limits, Order, Racing, Variant, find, pairs, take_schedules, timestamps, warnings};
use snag_model::{Cells, EventId, Trace};
use snag_model::{Level, Schedule};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use snag_testkit::reference::{fhb_races, hb, hb_races, shb, shb_races, warnings as second_events};
use snag_testkit::relation::Relation;
use snag_testkit::search::{races, races_respecting};
use std::collections::{BTreeMap, BTreeSet};

type Pairs = BTreeSet<(EventId, EventId)>;

const ORDERS: [Order; 3] = [Order::Hb, Order::Shb, Order::Fhb];

/// Too long for the exhaustive search, long enough for clocks to be reused.
fn long(rng: &mut Rng) -> Shape {
    let events = rng.between(17, 60);
    Shape { events, ..Shape::any(rng) }
}

/// Many threads that come and go, so that clocks have many components, and some of these serve several threads.
fn short_lived(rng: &mut Rng) -> Shape {
    let events = rng.between(17, 90);
    Shape { events, ..Shape::short_lived(rng) }
}

fn all_pairs(trace: &Trace, cells: &Cells, order: Order) -> Racing {
    let found = warnings(trace, cells, order, Variant::Epochs, None, &mut |_| true);
    let limits = Limits { all_pairs: true, ..Limits::default() };
    let mut found = pairs(trace, cells, order, &found, None, limits, &mut |_| true);
    take_schedules(trace, cells, &mut found, &mut |_| true);
    found
}

fn as_set(found: &Racing) -> Pairs {
    found.pairs.iter().map(|p| (p.first, p.second)).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
}

/// The relation that the clocks of an engine describe, against the definition.
fn same_relation(
    trace: &Trace,
    cells: &Cells,
    order: Order,
    variant: Variant,
    reference: &Relation,
) -> Result<(), String> {
    let times = timestamps(trace, cells, order, variant);
    for b in (0..trace.len()).map(EventId::new) {
        for a in (0..b.0).map(EventId) {
            let ordered = a < times[b.index()][trace.thread_of(a).index()];
            if ordered != reference.has(a, b) {
                return Err(format!("{order:?} {variant:?}: {} before {}: {ordered}", a.0, b.0));
            }
        }
    }
    Ok(())
}

fn relations(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    for variant in [Variant::Epochs, Variant::Vectors] {
        same_relation(trace, &cells, Order::Hb, variant, &hb(trace))?;
        same_relation(trace, &cells, Order::Shb, variant, &shb(trace))?;
    }
    Ok(())
}

fn named_pairs(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let references = [hb_races(trace), shb_races(trace), fhb_races(trace)];
    for (order, reference) in ORDERS.into_iter().zip(&references) {
        for variant in [Variant::Epochs, Variant::Vectors] {
            let found = warnings(trace, &cells, order, variant, None, &mut |_| true);
            let events: BTreeSet<EventId> = found.events.iter().copied().collect();
            equal(&format!("{order:?} {variant:?} warnings"), events, second_events(reference))?;
        }
        equal(&format!("{order:?} pairs"), &as_set(&all_pairs(trace, &cells, order)), reference)?;
        let limits = Limits { all_pairs: true, ..Limits::default() };
        let (once, named) = find(trace, &cells, order, None, limits, &mut |_| true, &mut |_| true);
        equal(&format!("{order:?} warnings at once"), once.events.into_iter().collect(), second_events(reference))?;
        equal(&format!("{order:?} pairs at once"), &as_set(&named), reference)?;
    }
    if !(references[2].is_subset(&references[1]) && references[1].is_subset(&references[0])) {
        return Err("FHB ⊆ SHB ⊆ HB does not hold".to_owned());
    }
    Ok(())
}

/// A pair of locations is named once, with the number of event pairs behind it.
fn counted_locations(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    for order in ORDERS {
        let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for pair in &all_pairs(trace, &cells, order).pairs {
            *expected.entry(pair.key(trace)).or_default() += 1;
        }
        let found = warnings(trace, &cells, order, Variant::Epochs, None, &mut |_| true);
        let found = pairs(trace, &cells, order, &found, None, Limits::default(), &mut |_| true);
        let counts = |found: &Racing| found.pairs.iter().map(|p| (p.key(trace), p.count)).collect();
        equal(&format!("{order:?} locations"), &counts(&found), &expected)?;
        let (_, found) = find(trace, &cells, order, None, Limits::default(), &mut |_| true, &mut |_| true);
        equal(&format!("{order:?} locations at once"), counts(&found), expected)?;
    }
    Ok(())
}

/// The checker accepts the schedule of every SHB and FHB race.
fn witnesses(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for order in [Order::Shb, Order::Fhb] {
        let found = all_pairs(trace, &cells, order);
        for pair in &found.pairs {
            let schedule = Schedule::Prefixes(found.schedule(trace, pair).expect("every pair has its clocks"));
            let prefix = Checker::up_to(trace, &cells, EventId(pair.second.0 + 1));
            if prefix.check_race(schedule.iter(trace), pair.first, pair.second, Level::Writer).is_err() {
                return Err(format!("{pair:?} is refused by a checker that knows no later event"));
            }
            let too_short = Checker::up_to(trace, &cells, pair.second);
            if too_short.check_race(schedule.iter(trace), pair.first, pair.second, Level::Writer).is_ok() {
                return Err(format!("{pair:?} is accepted by a checker that does not know its second event"));
            }
            for level in [Level::Writer, Level::Value, Level::Control] {
                checker.check_race(schedule.iter(trace), pair.first, pair.second, level).map_err(|violation| {
                    let events: Vec<u32> = schedule.iter(trace).map(|e| e.0).collect();
                    format!("{order:?} {pair:?} {level}: {violation}\n{events:?}")
                })?;
            }
        }
    }
    Ok(())
}

/// In windows, exactly the pairs that lie in one window are found.
fn windows(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let limits = Limits { all_pairs: true, ..Limits::default() };
    for (order, reference) in [(Order::Hb, hb_races(trace)), (Order::Shb, shb_races(trace))] {
        let window = 5 + trace.len() % 7;
        let same = |(a, b): &(EventId, EventId)| a.index() / window == b.index() / window;
        let expected: Pairs = reference.into_iter().filter(same).collect();
        for variant in [Variant::Epochs, Variant::Vectors] {
            let found = warnings(trace, &cells, order, variant, Some(window), &mut |_| true);
            let found = pairs(trace, &cells, order, &found, Some(window), limits, &mut |_| true);
            equal(&format!("{order:?} {variant:?} window {window}"), as_set(&found), expected.clone())?;
        }
    }
    Ok(())
}

#[test]
fn clocks_describe_the_relations_pair_by_pair() {
    for_random_traces(0..20_000, long, relations);
}

#[test]
fn warnings_and_pairs_are_those_of_the_definitions() {
    for_random_traces(0..20_000, long, named_pairs);
}

#[test]
fn clocks_of_many_short_lived_threads_describe_the_relations() {
    for_random_traces(0..1_500, short_lived, relations);
}

#[test]
fn warnings_pairs_and_witnesses_of_many_short_lived_threads_are_right() {
    for_random_traces(10_000..11_000, short_lived, named_pairs);
    for_random_traces(20_000..21_000, short_lived, windows);
    for_random_traces(30_000..31_000, short_lived, witnesses);
}

#[test]
fn location_pairs_are_counted_exactly() {
    for_random_traces(0..5_000, long, counted_locations);
}

#[test]
fn every_witness_is_accepted() {
    for_random_traces(0..20_000, long, witnesses);
}

#[test]
fn windows_keep_exactly_the_pairs_inside() {
    for_random_traces(0..5_000, long, windows);
}

#[test]
fn shb_and_fhb_races_are_predictable_and_shb_has_all_that_respect_hb() {
    for_random_traces(0..20_000, Shape::any, |trace| {
        let cells = Cells::of(trace);
        let predictable = races(trace, Level::Writer);
        let shb = as_set(&all_pairs(trace, &cells, Order::Shb));
        let fhb = as_set(&all_pairs(trace, &cells, Order::Fhb));
        if !shb.is_subset(&predictable) || !fhb.is_subset(&predictable) {
            return Err(format!("SHB {shb:?}, FHB {fhb:?}, predictable {predictable:?}"));
        }
        equal("SHB", shb, races_respecting(trace, Level::Writer, &hb(trace)))
    });
}

#[test]
fn failed_attempts_come_after_what_they_rest_on() {
    let longer = |rng: &mut Rng| Shape { events: rng.between(8, 40), ..Shape::with_attempts(rng) };
    for_random_traces(0..3_000, longer, relations);
    for_random_traces(10_000..13_000, longer, named_pairs);
    for_random_traces(20_000..23_000, longer, witnesses);
}
