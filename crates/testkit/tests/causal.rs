//! What the papers prove of CP and WCP, on many random traces.

use snag_model::Trace;
use snag_testkit::causal::theorem_applies;
use snag_testkit::reference::{Pairs, first_race};
use snag_testkit::*;

const SEEDS: u64 = 20_000;

fn for_all(shape: impl Fn(&mut Rng) -> Shape + Sync, check: impl Fn(&Trace) -> Result<(), String> + Sync) {
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SEEDS);
    for_random_traces(0..seeds, shape, check);
}

#[test]
fn hb_contains_cp_and_cp_contains_wcp() {
    for_all(Shape::any, |t| {
        let (hb, cp, wcp) = (hb(t), cp(t), wcp(t));
        if !cp.is_within(&hb) {
            return Err("CP orders what HB does not".to_owned());
        }
        if !wcp.is_within(&cp) { Err("WCP orders what CP does not".to_owned()) } else { Ok(()) }
    });
}

fn first_race_is_real(trace: &Trace, relation: Relation, found: &Pairs) -> Result<(), String> {
    let Some((first, second)) = first_race(found) else { return Ok(()) };
    if !theorem_applies(trace, &relation, second)
        || races(trace, Level::Writer).contains(&(first, second))
        || !deadlocks(trace, Level::Writer).is_empty()
    {
        return Ok(());
    }
    Err(format!("the first race, {first:?}, {second:?}, is none, and no deadlock is predictable"))
}

#[test]
fn the_first_cp_race_is_a_race_or_a_deadlock() {
    for_all(Shape::any, |t| first_race_is_real(t, cp(t), &cp_races(t)));
}

#[test]
fn the_first_wcp_race_is_a_race_or_a_deadlock() {
    for_all(Shape::any, |t| first_race_is_real(t, wcp(t), &wcp_races(t)));
}

#[test]
fn the_first_wcp_race_of_many_locks_is_a_race_or_a_deadlock() {
    for_all(Shape::lock_heavy, |t| first_race_is_real(t, wcp(t), &wcp_races(t)));
}

#[test]
fn the_first_cp_race_of_many_locks_is_a_race_or_a_deadlock() {
    for_all(Shape::lock_heavy, |t| first_race_is_real(t, cp(t), &cp_races(t)));
}
