//! CP and WCP against their definitions, on random traces with all kinds of events.

use snag_engines::causal::{Races, Relation, Settings, preceding, races, reduce};
use snag_engines::happens_before::Limits;
use snag_model::{Cells, EventId, Trace};
use snag_testkit::causal::{cp, cp_in_window, cp_races, must, theorem_applies, unordered, wcp, wcp_races};
use snag_testkit::random::{Rng, Shape, for_random_traces};
use snag_testkit::reference::{Pairs, first_race, hb_races, warnings};
use snag_testkit::{Level, deadlocks};
use std::collections::BTreeSet;

const RELATIONS: [Relation; 2] = [Relation::Cp, Relation::Wcp];

/// Any events, more than the exhaustive search could take.
fn long(rng: &mut Rng) -> Shape {
    let events = rng.between(17, 60);
    Shape { events, ..Shape::any(rng) }
}

/// Critical sections three deep and more, of up to five threads.
fn deep(rng: &mut Rng) -> Shape {
    let (threads, locks, events) = (rng.between(3, 5), rng.between(3, 5), rng.between(20, 70));
    let plain = rng.pick(&[2, 6, 12]);
    let mut shape = Shape { threads, locks, events, variables: rng.between(1, 5), ..Shape::lock_heavy(rng) };
    shape.weights.plain = plain;
    shape
}

fn settings(relation: Relation) -> Settings {
    let limits = Limits { all_pairs: true, ..Limits::default() };
    Settings { relation, window: None, reduce: false, all: true, limits }
}

fn found(trace: &Trace, settings: Settings) -> Races {
    races(trace, &Cells::of(trace), &settings, &mut |_| true)
}

fn as_set(races: &Races) -> Pairs {
    races.found.pairs.iter().map(|p| (p.first, p.second)).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
}

fn reference(trace: &Trace, relation: Relation) -> snag_testkit::Relation {
    match relation {
        Relation::Cp => cp(trace),
        Relation::Wcp => wcp(trace),
    }
}

/// Pair by pair; for every other length with clocks thrown away as soon as they are said to be unused.
fn same_relation(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    for relation in RELATIONS {
        let expected = reference(trace, relation);
        let eager = trace.len().is_multiple_of(2);
        let times = preceding(trace, &cells, relation, None, eager);
        for b in (0..trace.len()).map(EventId::new) {
            for a in (0..b.0).map(EventId) {
                let ordered = a < times[b.index()][trace.thread_of(a).index()];
                if ordered != expected.has(a, b) {
                    return Err(format!("{relation:?}, eager {eager}: {} before {}: {ordered}", a.0, b.0));
                }
            }
        }
    }
    Ok(())
}

fn same_races(trace: &Trace) -> Result<(), String> {
    let expected = [cp_races(trace), wcp_races(trace)];
    for (relation, expected) in RELATIONS.into_iter().zip(&expected) {
        let all = found(trace, settings(relation));
        equal(&format!("{relation:?} races"), &as_set(&all), expected)?;
        let events: BTreeSet<EventId> = all.warnings.events.iter().copied().collect();
        equal(&format!("{relation:?} warnings"), events, warnings(expected))?;
        let forced = found(trace, Settings { all: false, ..settings(relation) });
        if !as_set(&forced).is_subset(expected) {
            return Err(format!("{relation:?}: forcing races into an order makes new ones: {forced:?}"));
        }
        let first = forced.found.pairs.first().map(|p| (p.first, p.second));
        equal(&format!("first {relation:?} race"), first, first_race(expected))?;
    }
    let [cp, wcp] = expected;
    match hb_races(trace).is_subset(&cp) && cp.is_subset(&wcp) {
        true => Ok(()),
        false => Err("HB ⊆ CP ⊆ WCP does not hold of the races".to_owned()),
    }
}

/// The paper's window: what it says is ordered, and the pairs near enough.
fn windows(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    let window = 3 + trace.len() % 11;
    let expected = cp_in_window(trace, window, &|event| event);
    let times = preceding(trace, &cells, Relation::Cp, Some(window), false);
    for b in (0..trace.len()).map(EventId::new) {
        for a in (0..b.0).map(EventId) {
            let ordered = a < times[b.index()][trace.thread_of(a).index()];
            if ordered != expected.has(a, b) {
                return Err(format!("window {window}: {} before {}: {ordered}", a.0, b.0));
            }
        }
    }
    let near = |&(a, b): &(EventId, EventId)| b.index() - a.index() <= window;
    let expected: Pairs = unordered(trace, &expected).into_iter().filter(near).collect();
    let in_window = as_set(&found(trace, Settings { window: Some(window), ..settings(Relation::Cp) }));
    equal("races in a window", &in_window, &expected)?;
    if !in_window.is_subset(&cp_races(trace)) {
        return Err("a window adds races".to_owned());
    }
    let reduced = found(trace, Settings { window: Some(window), reduce: true, ..settings(Relation::Cp) });
    match as_set(&reduced).is_subset(&cp_races(trace)) {
        true => Ok(()),
        false => Err("a window over the reduced trace adds races".to_owned()),
    }
}

/// What is left out changes no pair of locations.
fn reduction(trace: &Trace) -> Result<(), String> {
    let cells = Cells::of(trace);
    for relation in RELATIONS {
        let limits = Limits::default();
        let keys = |reduce: bool| {
            let races = found(trace, Settings { reduce, limits, ..settings(relation) });
            races.found.pairs.iter().map(|pair| pair.key(trace)).collect::<BTreeSet<_>>()
        };
        equal(&format!("{relation:?} locations of the reduced trace"), keys(true), keys(false))?;
        // With every pair of events asked for, none is lost.
        let all = as_set(&found(trace, Settings { reduce: true, ..settings(relation) }));
        equal("reduced without repeats", all, as_set(&found(trace, settings(relation))))?;
    }
    let (all, some) = (reduce(trace, &cells, true, false), reduce(trace, &cells, false, false));
    match all.events.len() == trace.len() && some.events.len() <= trace.len() {
        true => Ok(()),
        false => Err("the reduced trace is longer".to_owned()),
    }
}

#[test]
fn the_relations_are_those_of_the_definitions_pair_by_pair() {
    for_random_traces(0..20_000, long, same_relation);
}

#[test]
fn the_relations_of_deeply_nested_sections_are_those_of_the_definitions() {
    for_random_traces(0..20_000, deep, same_relation);
}

#[test]
fn races_are_those_of_the_definitions() {
    for_random_traces(0..20_000, long, same_races);
}

#[test]
fn races_of_deeply_nested_sections_are_those_of_the_definitions() {
    for_random_traces(0..20_000, deep, same_races);
}

#[test]
fn windows_are_those_of_the_paper_and_add_no_race() {
    for_random_traces(0..10_000, deep, windows);
    for_random_traces(0..10_000, long, windows);
}

#[test]
fn what_is_left_out_changes_no_pair_of_locations() {
    for_random_traces(0..10_000, long, reduction);
    for_random_traces(0..10_000, deep, reduction);
}

#[test]
fn nothing_of_the_must_order_is_a_race() {
    for_random_traces(0..5_000, long, |trace| {
        let must = must(trace);
        for relation in RELATIONS {
            if as_set(&found(trace, settings(relation))).iter().any(|&(a, b)| must.has(a, b)) {
                return Err(format!("{relation:?} has a race that hard orders exclude"));
            }
        }
        Ok(())
    });
}

/// Small enough for the exhaustive search, and such that the theorem speaks of it up to every race found.
fn guarantee(trace: &Trace) -> Result<(), String> {
    for relation in RELATIONS {
        let forced = found(trace, Settings { all: false, ..settings(relation) });
        if forced.found.pairs.is_empty() {
            continue;
        }
        let end = EventId::new(trace.len());
        if !theorem_applies(trace, &reference(trace, relation), end) || !deadlocks(trace, Level::Writer).is_empty() {
            continue;
        }
        let predictable = snag_testkit::races(trace, Level::Writer);
        if let Some(pair) = as_set(&forced).iter().find(|pair| !predictable.contains(pair)) {
            return Err(format!("{relation:?}: {pair:?} was found after others were put in order, and is none"));
        }
    }
    Ok(())
}

#[test]
fn races_after_the_first_keep_its_guarantee() {
    for_random_traces(0..20_000, Shape::any, guarantee);
    for_random_traces(0..20_000, Shape::lock_heavy, guarantee);
}

#[test]
fn failed_attempts_order_what_they_rest_on() {
    let longer = |rng: &mut Rng| Shape { events: rng.between(8, 40), ..Shape::with_attempts(rng) };
    for_random_traces(0..3_000, longer, same_relation);
    for_random_traces(10_000..12_000, longer, same_races);
    for_random_traces(20_000..22_000, longer, reduction);
}
