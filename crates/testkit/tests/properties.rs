//! What the theory says must hold between the oracle, the reference orders and the
//! levels, on many random traces with every kind of event.

use snag_model::{EventId, Trace};
use snag_testkit::reference::{first_race, seen_by};
use snag_testkit::*;
use std::collections::BTreeSet;

const SEEDS: u64 = 6000;

fn within(
    small: &BTreeSet<(EventId, EventId)>,
    large: &BTreeSet<(EventId, EventId)>,
    what: &str,
) -> Result<(), String> {
    let extra: Vec<_> = small.difference(large).collect();
    if extra.is_empty() { Ok(()) } else { Err(format!("{what}: {extra:?}")) }
}

fn for_all(check: impl Fn(&Trace) -> Result<(), String> + Sync) {
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SEEDS);
    for_random_traces(0..seeds, Shape::any, check);
}

#[test]
fn every_shb_race_is_predictable() {
    for_all(|t| within(&shb_races(t), &races(t, Level::Writer), "SHB races that are not predictable"));
}

#[test]
fn fhb_races_are_shb_races_and_those_are_hb_races() {
    for_all(|t| {
        let shb = shb_races(t);
        within(&fhb_races(t), &shb, "FHB races that SHB does not have")?;
        within(&shb, &hb_races(t), "SHB races that HB does not have")
    });
}

#[test]
fn shb_races_are_exactly_those_of_schedules_that_respect_hb() {
    for_all(|t| {
        let respecting = races_respecting(t, Level::Writer, &hb(t));
        let shb = shb_races(t);
        within(&respecting, &shb, "races respecting HB that SHB does not have")?;
        within(&shb, &respecting, "SHB races that do not respect HB")
    });
}

#[test]
fn each_level_allows_what_the_one_before_allows() {
    for_all(|t| {
        let [writer, value, control] = [Level::Writer, Level::Value, Level::Control].map(|l| races(t, l));
        within(&writer, &value, "races of writer that value does not have")?;
        within(&value, &control, "races of value that control does not have")?;
        let [writer, value, control] = [Level::Writer, Level::Value, Level::Control].map(|l| deadlocks(t, l));
        if !writer.is_subset(&value) || !value.is_subset(&control) {
            return Err(format!("deadlocks: {writer:?} {value:?} {control:?}"));
        }
        Ok(())
    });
}

/// HB follows the memory orders of atomics, a schedule follows what they saw. Where a relaxed read saw a write of
/// another thread, HB may lack an order that every schedule has, and the theorem does not hold.
#[test]
fn the_first_hb_race_is_predictable_unless_a_relaxed_atomic_read_came_before() {
    for_all(|t| {
        let Some((first, second)) = first_race(&hb_races(t)) else { return Ok(()) };
        let hb = hb(t);
        let unordered = |read: EventId| seen_by(t, read).any(|write| !hb.has(write, read));
        if (0..second.0).map(EventId).any(unordered) || races(t, Level::Writer).contains(&(first, second)) {
            return Ok(());
        }
        Err(format!("{first:?}, {second:?} is not predictable"))
    });
}
