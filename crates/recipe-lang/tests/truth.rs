//! What the checker accepts at level `symbolic` really happens.
//!
//! A random program is run once. Then schedules of its events are made up, event by
//! event, as long as the checker accepts them, sometimes with branches that go the
//! other way. Each is then carried out by the interpreter: it must make the same
//! steps, its reads must take the same values, and where the checker sees a race the
//! threads must stand before the two accesses. The explorer must have seen it, too.

use snag_checker::Checker;
use snag_model::Level;
use snag_model::{Action, Cells, EventId, Op, ThreadId, Trace, Validator};
use snag_recipe_lang::machine::{Observer, State, Visible};
use snag_recipe_lang::{Plan, Program, Run, compile, explore, random, run};
use snag_synthesis::Rng;
use std::collections::BTreeSet;

/// What a thread was seen to do: operation, target, line.
type Seen = (Op, u32, u32);

/// Watches the interpreter.
struct Watch {
    threads: Vec<Vec<Seen>>,
    reads: Vec<Vec<i64>>,
    failed: Vec<bool>,
}

impl Observer for Watch {
    fn visible(&mut self, state: &State, thread: usize, line: u32, action: Visible) {
        let (op, target) = match action {
            Visible::Read { cell, .. } => {
                self.reads[thread].push(state.cells[cell] as i64);
                (Op::Read, cell)
            }
            Visible::Write { cell, .. } => (Op::Write, cell),
            Visible::Lock { lock, .. } => (Op::Acquire, lock),
            Visible::Unlock { lock, .. } => (Op::Release, lock),
            Visible::WaitBegin { condition, .. } => (Op::WaitBegin, condition),
            Visible::WaitEnd { condition, .. } => (Op::WaitEnd, condition),
            Visible::Notify { condition, .. } => (Op::Notify, condition),
            Visible::NotifyAll { condition } => (Op::NotifyAll, condition),
            Visible::Fork { thread } => (Op::Fork, thread),
            Visible::Join { thread } => (Op::Join, thread),
        };
        self.threads[thread].push((op, target as u32, line));
    }

    fn fails(&mut self, thread: usize, _: u32, _: &str) {
        self.failed[thread] = true;
    }
}

fn line_of(trace: &Trace, event: EventId) -> u32 {
    trace.location_of(event).rsplit(':').next().unwrap().parse().unwrap()
}

/// Whether others can see an operation.
fn is_visible(op: Op) -> bool {
    !matches!(op, Op::Let | Op::Branch | Op::Wake)
}

struct Scenario<'a> {
    program: &'a Program,
    trace: &'a Trace,
    checker: Checker<'a>,
    /// The events of each thread.
    threads: Vec<Vec<EventId>>,
}

impl Scenario<'_> {
    /// A schedule that the checker accepts, and the branches that go the other way in it.
    fn make_up(&self, random: &mut Rng) -> (Vec<EventId>, Vec<EventId>) {
        let (mut schedule, mut diverging) = (Vec::new(), Vec::new());
        let mut next = vec![0; self.threads.len()];
        let mut stuck = vec![false; self.threads.len()];
        let wanted = random.below(self.trace.len() + 1);
        while schedule.len() < wanted {
            let able: Vec<usize> = (0..next.len()).filter(|&t| !stuck[t] && next[t] < self.threads[t].len()).collect();
            if able.is_empty() {
                break;
            }
            let thread = random.pick(&able);
            // Some events in a row, so that not every schedule is a fine mixture.
            for _ in 0..1 + random.below(6) {
                let Some(&event) = self.threads[thread].get(next[thread]) else { break };
                schedule.push(event);
                if self.checker.reads_of(schedule.iter().copied(), &diverging).is_ok() {
                    next[thread] += 1;
                    stuck.fill(false);
                    continue;
                }
                if self.trace.events.ops()[event.index()] == Op::Branch {
                    diverging.push(event);
                    if self.checker.reads_of(schedule.iter().copied(), &diverging).is_ok() {
                        next[thread] += 1;
                        stuck.fill(false);
                        continue;
                    }
                    diverging.pop();
                }
                schedule.pop();
                stuck[thread] = true;
                break;
            }
        }
        (schedule, diverging)
    }

    /// A schedule that the checker accepts at level `control`.
    fn make_up_at_control(&self, random: &mut Rng) -> Vec<EventId> {
        let mut schedule = Vec::new();
        let mut next = vec![0; self.threads.len()];
        for _ in 0..2 * self.trace.len() {
            let thread = random.below(next.len());
            let Some(&event) = self.threads[thread].get(next[thread]) else { continue };
            schedule.push(event);
            match self.checker.check_feasible(schedule.iter().copied(), Level::Control) {
                Ok(()) => next[thread] += 1,
                Err(_) => _ = schedule.pop(),
            }
        }
        schedule
    }

    /// What a thread does in a schedule that others can see.
    fn projected(&self, schedule: &[EventId], diverging: &[EventId], thread: usize) -> Vec<Seen> {
        let mut diverged = false;
        let mut all = Vec::new();
        for &event in schedule.iter().filter(|&&event| self.trace.thread_of(event).index() == thread) {
            let op = self.trace.events.ops()[event.index()];
            diverged |= diverging.contains(&event);
            if op.on_other_side() && !diverged || !is_visible(op.if_it_happens()) {
                continue;
            }
            all.push((op.if_it_happens(), self.trace.events.targets()[event.index()], line_of(self.trace, event)));
        }
        all
    }

    /// Has the interpreter carry out a schedule; the state after it.
    fn carry_out(&self, schedule: &[EventId], diverging: &[EventId], watch: &mut Watch) -> State {
        let mut state = State::start(self.program, watch);
        let mut diverged = vec![false; self.threads.len()];
        for &event in schedule {
            let thread = self.trace.thread_of(event).index();
            let op = self.trace.events.ops()[event.index()];
            diverged[thread] |= diverging.contains(&event);
            if op.on_other_side() && !diverged[thread] || !is_visible(op.if_it_happens()) {
                continue;
            }
            assert!(state.can_step(self.program, thread), "thread {thread} cannot make the step of event {}", event.0);
            let waiting: Vec<usize> = match self.trace.action(event) {
                Action::Notify { condition } => state.waiting_for(condition.index()).collect(),
                _ => Vec::new(),
            };
            // A notify wakes whom it woke, if that thread waits.
            let named = |thread: usize| {
                let wakes =
                    |&wake: &EventId| matches!(self.trace.action(wake), Action::Wake { by, .. } if by == Some(event));
                self.threads[thread].iter().any(wakes)
            };
            let choice = waiting.iter().position(|&thread| named(thread)).unwrap_or(0);
            state.step(self.program, thread, choice, watch);
        }
        state
    }
}

struct Totals {
    schedules: usize,
    astray: usize,
    diverging: usize,
    races: usize,
}

fn check(seed: u64, totals: &mut Totals) {
    let text = if seed.is_multiple_of(3) { random::program_of_all_types(seed) } else { random::program(seed) };
    let program = compile("r", &text).unwrap_or_else(|mistake| panic!("{seed}: {}\n{text}", mistake.show("r", &text)));
    let mut random = Rng::new(seed);
    let Run { trace, .. } = run(&program, &Plan { seed, ..Plan::default() }).unwrap();
    if trace.is_empty() {
        return;
    }
    if let Err(broken) = Validator::new().check(&trace.events, 0, &trace.tables) {
        panic!("{seed}: event {} {broken}\n{text}", broken.event);
    }
    let cells = Cells::of(&trace);
    let checker = Checker::new(&trace, &cells);
    for level in Level::ALL {
        checker.check_feasible((0..trace.len()).map(EventId::new), level).unwrap();
    }
    let mut threads = vec![Vec::new(); program.threads.len()];
    for event in (0..trace.len()).map(EventId::new) {
        threads[trace.thread_of(event).index()].push(event);
    }
    let scenario = Scenario { program: &program, trace: &trace, checker, threads };
    for _ in 0..2 {
        let schedule = scenario.make_up_at_control(&mut random);
        let verdict = scenario.checker.check_feasible(schedule.iter().copied(), Level::Symbolic);
        assert_eq!(verdict, Ok(()), "level control allows what symbolic does not: seed {seed} {schedule:?}\n{text}");
    }
    let explored = explore(&program, 200_000);
    let real: BTreeSet<(String, String)> = explored.location_pairs();
    for _ in 0..6 {
        let (schedule, diverging) = scenario.make_up(&mut random);
        let reads = scenario.checker.reads_of(schedule.iter().copied(), &diverging).unwrap();
        totals.schedules += 1;
        totals.diverging += !diverging.is_empty() as usize;
        totals.astray += reads.iter().any(|&(read, value)| trace.events.value(read.index()) != Some(value)) as usize;
        let count = program.threads.len();
        let mut watch =
            Watch { threads: vec![Vec::new(); count], reads: vec![Vec::new(); count], failed: vec![false; count] };
        let context = || format!("seed {seed}, schedule {schedule:?}, diverging {diverging:?}\n{text}");
        let state = scenario.carry_out(&schedule, &diverging, &mut watch);
        for thread in 0..count {
            let expected = scenario.projected(&schedule, &diverging, thread);
            assert_eq!(watch.threads[thread], expected, "thread {thread}, {}", context());
            let of_thread = reads.iter().filter(|(read, _)| trace.thread_of(*read) == ThreadId::new(thread));
            let values: Vec<i64> = of_thread.map(|&(_, value)| value).collect();
            assert_eq!(watch.reads[thread], values, "reads of thread {thread}, {}", context());
        }
        // Pairs of next events.
        let next: Vec<EventId> = (0..count)
            .filter_map(|thread| {
                let done = schedule.iter().filter(|&&event| trace.thread_of(event).index() == thread).count();
                scenario.threads[thread].get(done).copied()
            })
            .collect();
        for (i, &first) in next.iter().enumerate() {
            for &second in &next[..i] {
                let claimed = scenario.checker.check_race_with_values(
                    schedule.iter().copied(),
                    &diverging,
                    &reads,
                    first,
                    second,
                );
                if claimed.is_err() {
                    continue;
                }
                totals.races += 1;
                for event in [first, second] {
                    let thread = trace.thread_of(event).index();
                    let found = state.next_access(&program, thread);
                    let op = trace.events.ops()[event.index()].if_it_happens();
                    let cell = trace.action(event).variable().expect("an access").index();
                    let expected = Some((cell, op == Op::Write, line_of(&trace, event)));
                    assert_eq!(found, expected, "event {}, {}", event.0, context());
                }
                let mut pair = [first, second].map(|event| trace.location_of(event).to_owned());
                pair.sort();
                let [a, b] = pair;
                assert!(real.contains(&(a, b)) || !explored.complete, "{first:?} {second:?} {}", context());
            }
        }
    }
}

#[test]
fn what_the_checker_accepts_really_happens() {
    let mut totals = Totals { schedules: 0, astray: 0, diverging: 0, races: 0 };
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        check(seed, &mut totals);
    }
    let Totals { schedules, astray, diverging, races } = totals;
    println!("{schedules} schedules, {astray} with other values, {diverging} diverging, {races} races");
    let enough = [(astray, 20), (diverging, 50), (races, 50)];
    assert!(enough.iter().all(|(count, share)| count * share > schedules), "too few");
}
