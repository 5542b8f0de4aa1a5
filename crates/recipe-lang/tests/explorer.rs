//! The explorer against an obvious one: all schedules one after the other, nothing left out, nothing summed up.

use snag_recipe_lang::machine::{Nobody, Observer, State, Status};
use snag_recipe_lang::{Program, compile, explore, random};
use std::collections::{BTreeSet, HashSet};

/// Line, and whether it writes.
type Place = (u32, bool);

#[derive(Default, PartialEq, Eq, Debug)]
struct Found {
    /// Cell and both accesses.
    races: BTreeSet<(usize, Place, Place)>,
    failures: BTreeSet<(u32, String)>,
    stuck: bool,
}

struct Watch<'f>(&'f mut Found);

impl Observer for Watch<'_> {
    fn fails(&mut self, _: usize, line: u32, message: &str) {
        self.0.failures.insert((line, message.to_owned()));
    }
}

/// Follows every schedule from a state; `seen` only keeps it from doing so twice. False if that takes too long.
fn follow(program: &Program, state: &State, seen: &mut HashSet<State>, found: &mut Found) -> bool {
    if !seen.insert(state.clone()) {
        return true;
    }
    if seen.len() > 40_000 {
        return false;
    }
    let threads = 0..program.threads.len();
    for a in threads.clone() {
        for b in 0..a {
            if let (Some(a), Some(b)) = (state.next_access(program, a), state.next_access(program, b))
                && a.0 == b.0
                && (a.1 || b.1)
            {
                let (a, b) = ((a.0, (a.2, a.1)), (b.2, b.1));
                found.races.insert((a.0, a.1.min(b), a.1.max(b)));
            }
        }
    }
    let mut moved = false;
    for thread in threads.filter(|&thread| state.can_step(program, thread)) {
        moved = true;
        for choice in 0..state.choices(program, thread) {
            let mut after = state.clone();
            after.step(program, thread, choice, &mut Watch(found));
            if !follow(program, &after, seen, found) {
                return false;
            }
        }
    }
    let waits = |thread: &snag_recipe_lang::machine::Thread| !matches!(thread.status, Status::Done | Status::NotForked);
    let failed = state.threads.iter().any(|thread| thread.status == Status::Failed);
    found.stuck |= !moved && !failed && state.threads.iter().any(waits);
    true
}

#[test]
fn nothing_is_missed_by_forgetting_values_that_are_not_used_again() {
    let (mut compared, mut races, mut smaller) = (0, 0, 0);
    for seed in 0..250u64 {
        let text = if seed.is_multiple_of(2) { random::program(seed) } else { random::program_of_all_types(seed) };
        let program = compile("p", &text).unwrap();
        let mut found = Found::default();
        let mut seen = HashSet::new();
        let start = State::start(&program, &mut Watch(&mut found));
        if !follow(&program, &start, &mut seen, &mut found) {
            continue;
        }
        let explored = explore(&program, usize::MAX);
        let line = |location: &str| -> u32 { location.rsplit(':').next().unwrap().parse().unwrap() };
        let mut same = Found { stuck: !explored.deadlocks.is_empty(), ..Found::default() };
        for race in &explored.races {
            let cell = program.cells.iter().position(|cell| cell.name == race.variable).unwrap();
            let access = |access: &snag_recipe_lang::Access| (line(&access.location), access.writes);
            let (a, b) = (access(&race.first), access(&race.second));
            same.races.insert((cell, a.min(b), a.max(b)));
        }
        same.failures = explored.failures.iter().map(|(at, message)| (line(at), message.clone())).collect();
        assert_eq!(found, same, "{seed}\n{text}");
        compared += 1;
        races += same.races.len();
        smaller += (explored.states < seen.len()) as usize;
    }
    println!("{compared} programs, {races} races, {smaller} with fewer states");
    assert!(compared > 200 && races > 250 && smaller > 50);
}

#[test]
fn the_way_to_a_race_leads_there() {
    for seed in 0..100 {
        let program = compile("p", &random::program(seed)).unwrap();
        // A notify may wake one of several; the way does not say which.
        if !program.conditions.is_empty() {
            continue;
        }
        let explored = explore(&program, 50_000);
        for (race, steps) in &explored.ways {
            let mut state = State::start(&program, &mut Nobody);
            for &thread in steps {
                assert!(state.can_step(&program, thread));
                state.step(&program, thread, 0, &mut Nobody);
            }
            let next: Vec<_> =
                (0..program.threads.len()).filter_map(|thread| state.next_access(&program, thread)).collect();
            let stands = |access: &snag_recipe_lang::Access| {
                next.iter().any(|(cell, writes, line)| {
                    program.cells[*cell].name == race.variable
                        && *writes == access.writes
                        && access.location == format!("p:{line}")
                })
            };
            assert!(stands(&race.first) && stands(&race.second), "{seed} {race:?}");
        }
    }
}
