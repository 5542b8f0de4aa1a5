//! The checker against the reference: the same answer on random witnesses of random
//! traces of every kind of event.

mod support;

use snag_checker::{Checker, ScheduleRule, Violation};
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{BarrierId, Cells, CondId, EventId, LockId, Op, SemId, Space, ThreadId, Trace, Validator, VarId};
use snag_model::{Level, Schedule};
use std::collections::HashMap;
use support::LEVELS;
use support::reference::Reference;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Kinds of events that appear together, so that something happens between them in a short trace.
const MIXES: &[&[Op]] = &[
    &[Op::Acquire, Op::Release],
    &[Op::Acquire, Op::Release, Op::ReadAcquire, Op::ReadRelease],
    &[Op::Acquire, Op::Release, Op::WaitBegin, Op::Wake, Op::WaitEnd, Op::Notify, Op::NotifyAll],
    &[Op::Fork, Op::Join, Op::Begin, Op::End],
    &[Op::SemPost, Op::SemWait],
    &[Op::SemPost, Op::SemWait, Op::SemValue],
    &[Op::Acquire, Op::Release, Op::ReadAcquire, Op::ReadRelease, Op::TryFail, Op::ReadTryFail],
    &[Op::Fork, Op::Begin, Op::End, Op::Join, Op::JoinFail],
    &[Op::BarrierEnter, Op::BarrierLeave],
    &[Op::Alloc, Op::Free],
    &[Op::Alloc, Op::Free, Op::StaleRead, Op::StaleWrite, Op::StaleFree],
    &[Op::Acquire, Op::Release, Op::Want, Op::ReadWant, Op::Unheld],
    &[Op::MethodBegin, Op::MethodEnd, Op::Acquire, Op::Release, Op::Fork, Op::Begin],
    &[Op::MethodBegin, Op::MethodEnd, Op::ReadAcquire, Op::ReadRelease, Op::Join, Op::End, Op::Free],
    &[Op::MethodBegin, Op::MethodEnd, Op::Branch],
    &[Op::AtomicRead, Op::AtomicWrite, Op::Rmw],
    &[Op::Branch, Op::Rmw],
    &[Op::Branch, Op::Branch],
];

struct Builder<'r> {
    random: &'r mut Random,
    trace: Trace,
    validator: Validator,
    variables: Vec<VarId>,
    blocks: Vec<VarId>,
}

/// Names of everything, and declarations.
fn builder(random: &mut Random) -> Builder<'_> {
    let mut trace = Trace::default();
    for thread in 0..2 + random.below(3) {
        trace.tables.thread(&format!("T{thread}"));
    }
    for name in 0..2 {
        trace.tables.intern(Space::Lock, &format!("l{name}"));
        trace.tables.intern(Space::Semaphore, &format!("s{name}"));
        trace.tables.intern(Space::Barrier, &format!("b{name}"));
    }
    for space in [Space::Condition, Space::Method] {
        trace.tables.intern(space, "c");
    }
    let (named, ranges) = (random.one_in(2), random.one_in(2));
    let mut variables: Vec<VarId> = Vec::new();
    if named || !ranges {
        variables.extend(["x", "y"].map(|name| trace.tables.variable_named(name)));
    }
    if ranges {
        variables.extend(
            [(0x10, 4), (0x10, 2), (0x11, 2), (0x12, 4), (0x10, 8), (0xc, 12)]
                .map(|(address, size)| trace.tables.variable_range(address, size)),
        );
    }
    let blocks = match ranges {
        true => vec![trace.tables.variable_range(0x10, 8), trace.tables.variable_range(0x10, 4)],
        false => variables.clone(),
    };
    let tables = &mut trace.tables;
    if random.one_in(2) {
        tables.declarations.semaphores.push((SemId(0), 1));
    }
    if random.one_in(2) {
        tables.declarations.barriers.push((BarrierId(0), 2));
    }
    for _ in 0..random.below(3) {
        let declared = (random.pick(&variables), random.below(3) as i64 * 0x0101_0101);
        tables.declarations.initial.push(declared);
    }
    Builder { random, trace, validator: Validator::new(), variables, blocks }
}

/// A well-formed trace: events are proposed until enough of them were.
fn random_trace(random: &mut Random) -> Trace {
    let mut builder = builder(random);
    let mut ops = vec![Op::Read, Op::Write, Op::Read, Op::Write];
    let (kinds, weight) = builder.random.pick(&[(1, 1), (2, 1), (1, 4)]);
    for _ in 0..kinds {
        let mix = builder.random.pick(MIXES);
        (0..weight).for_each(|_| ops.extend(mix));
    }
    let length = 3 + builder.random.below(11);
    for _ in 0..20 * length {
        if builder.trace.len() < length {
            let op = builder.random.pick(&ops);
            let event = builder.event(op);
            builder.propose(event);
        }
    }
    builder.trace
}

/// A well-formed trace of threads that hold more than one lock and wait for each other.
fn random_trace_of_locks(random: &mut Random) -> Trace {
    let mut builder = builder(random);
    let count = builder.trace.tables.thread_count();
    let mut programs: Vec<Vec<Event>> = (0..count).map(|thread| builder.program(ThreadId::new(thread))).collect();
    for _ in 0..40 * count {
        let program = &mut programs[builder.random.below(count)];
        let Some(&event) = program.first() else { continue };
        let event = if event.op == Op::Wake { Event { aux: builder.wake(), ..event } } else { event };
        if builder.propose(event) {
            program.remove(0);
        }
    }
    builder.trace
}

impl Builder<'_> {
    /// Adds an event, if a well-formed trace may go on with it.
    fn propose(&mut self, mut event: Event) -> bool {
        let count = self.trace.len();
        if event.op.reads() && !self.random.one_in(8) {
            event.value = self.value_there(event);
        }
        self.trace.events.push(event);
        let mut validator = self.validator.clone();
        let well_formed = validator.check(&self.trace.events, count, &self.trace.tables).is_ok();
        match well_formed {
            true => self.validator = validator,
            false => self.trace.events.truncate(count),
        }
        well_formed
    }

    /// What one thread does: sections inside each other, waits, notifies, accesses.
    fn program(&mut self, thread: ThreadId) -> Vec<Event> {
        let (outer, inner) = (self.random.below(2) as u32, self.random.below(2) as u32);
        let of = |op: Op, target: u32| Event::new(thread, op, target);
        let mut pair = |lock: u32| match self.random.one_in(4) {
            true => (of(Op::ReadAcquire, lock), of(Op::ReadRelease, lock)),
            false => (of(Op::Acquire, lock), of(Op::Release, lock)),
        };
        let ((enter, leave), (enter_inner, leave_inner)) = (pair(outer), pair(inner));
        let wait = |op: Op| Event { aux: outer, ..of(op, 0) };
        let mut program = match self.random.below(5) {
            0 => vec![enter, of(Op::Notify, 0), leave],
            1 => {
                let (acquire, release) = (of(Op::Acquire, outer), of(Op::Release, outer));
                vec![
                    enter_inner,
                    acquire,
                    wait(Op::WaitBegin),
                    of(Op::Wake, 0),
                    wait(Op::WaitEnd),
                    release,
                    leave_inner,
                ]
            }
            _ => vec![enter, enter_inner, leave_inner, leave],
        };
        for _ in 0..self.random.below(3) {
            let op = self.random.pick(&[Op::Read, Op::Write, Op::Notify, Op::Branch]);
            let at = self.random.below(program.len() + 1);
            let event = Event { thread, ..self.event(op) };
            program.insert(at, event);
        }
        program
    }

    /// What a wake-up names.
    fn wake(&mut self) -> u32 {
        let ops = self.trace.events.ops().iter();
        let notifies = ops.enumerate().filter(|(_, op)| matches!(op, Op::Notify | Op::NotifyAll));
        let named = notifies.map(|(e, _)| e as u32 + 1).chain([0]).collect::<Vec<_>>();
        self.random.pick(&named)
    }

    /// What a read finds, or sometimes something that nobody wrote.
    fn value_there(&mut self, event: Event) -> Option<i64> {
        if self.random.one_in(8) {
            return None;
        }
        let mut with_read = self.trace.clone();
        with_read.events.push(event);
        Reference::memory_before(&with_read, with_read.len() - 1)
    }

    fn event(&mut self, op: Op) -> Event {
        let thread = ThreadId::new(self.random.below(self.trace.tables.thread_count()));
        let target = match op {
            Op::Alloc | Op::Free | Op::StaleRead | Op::StaleWrite | Op::StaleFree => self.random.pick(&self.blocks).0,
            _ if op.is_access() => self.random.pick(&self.variables).0,
            Op::Fork | Op::Join | Op::JoinFail => self.random.below(self.trace.tables.thread_count()) as u32,
            Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => 0,
            Op::MethodBegin | Op::MethodEnd | Op::Branch | Op::Begin | Op::End => 0,
            _ => self.random.below(2) as u32,
        };
        let mut event = Event::new(thread, op, target);
        let values = [0, 1, 0x0101_0101, 0x0202_0202];
        match op {
            Op::WaitBegin | Op::WaitEnd => event.aux = self.random.below(2) as u32,
            Op::Wake => event.aux = self.wake(),
            Op::SemValue => event.aux = self.random.below(3) as u32,
            Op::MethodBegin => {
                let objects = (0..self.random.below(3)).map(|_| self.object()).collect();
                event.aux = self.trace.tables.reach(objects).0;
            }
            _ if op.is_access() && !self.random.one_in(8) => {
                event.value = Some(self.random.pick(&values));
                event.written = (op == Op::Rmw).then(|| self.random.pick(&values));
            }
            _ => {}
        }
        event
    }

    fn object(&mut self) -> Object {
        match self.random.below(8) {
            2 => Object::Condition(CondId(0)),
            3 => Object::Semaphore(SemId::new(self.random.below(2))),
            4 => Object::Barrier(BarrierId::new(self.random.below(2))),
            0 => Object::Lock(LockId::new(self.random.below(2))),
            1 => Object::Thread(ThreadId::new(self.random.below(self.trace.tables.thread_count()))),
            _ => Object::Variable(self.random.pick(&self.variables)),
        }
    }
}

/// The first event of a thread that is not in the schedule.
fn next_of(trace: &Trace, schedule: &[usize], thread: usize) -> Option<usize> {
    (0..trace.len()).find(|e| trace.events.threads()[*e].index() == thread && !schedule.contains(e))
}

/// A schedule that follows the rules as far as it goes, but may have been spoilt at the end.
fn random_schedule(random: &mut Random, trace: &Trace, level: Level) -> Vec<usize> {
    let mut schedule = Vec::new();
    let length = random.below(trace.len() + 1);
    for _ in 0..3 * length {
        let Some(next) = next_of(trace, &schedule, random.below(trace.tables.thread_count())) else { continue };
        schedule.push(next);
        let feasible = Reference::new(trace, &schedule, &[], level).is_some_and(|r| r.is_feasible());
        if !feasible && !random.one_in(12) {
            schedule.pop();
        }
        if schedule.len() == length {
            break;
        }
    }
    if !schedule.is_empty() {
        let (a, b) = (random.below(schedule.len()), random.below(schedule.len()));
        match random.below(12) {
            0 => schedule.swap(a, b),
            1 => schedule.push(random.below(trace.len())),
            2 => {
                schedule.remove(a);
            }
            _ => {}
        }
    }
    schedule
}

fn ids(events: &[usize]) -> Vec<EventId> {
    events.iter().map(|&event| EventId::new(event)).collect()
}

/// What was answered how often.
#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: HashMap<ScheduleRule, usize>,
}

impl Tally {
    fn compare(&mut self, answer: Result<(), Violation>, expected: bool, witness: impl FnOnce() -> String) {
        assert_eq!(answer.is_ok(), expected, "{answer:?}\n{}", witness());
        match answer {
            Ok(()) => self.accepted += 1,
            Err(violation) => *self.refused.entry(violation.rule).or_default() += 1,
        }
    }
}

fn describe(trace: &Trace, schedule: &[usize], to_come: &[usize], level: Level) -> String {
    let mut text = format!("{level}: {schedule:?} leads to {to_come:?}\n{:?}\n", trace.tables.declarations);
    for (index, event) in trace.events.iter().enumerate() {
        let target = trace.target_text(&event);
        text += &format!("{index} {event:?} {target}");
        if event.op == Op::MethodBegin {
            text += &format!(" {:?}", trace.tables.reach_objects(snag_model::ReachId(event.aux)));
        }
        text.push('\n');
    }
    text
}

/// What was answered about feasibility, races and deadlocks.
#[derive(Default)]
struct Tallies {
    feasible: Tally,
    races: Tally,
    deadlocks: Tally,
}

impl Tallies {
    /// Asks about some schedules of a trace, and about whatever could come after them.
    fn compare(&mut self, random: &mut Random, trace: &Trace) {
        let cells = Cells::of(trace);
        let checker = Checker::new(trace, &cells);
        for level in LEVELS {
            let all: Vec<usize> = (0..random.below(trace.len() + 1)).collect();
            let itself = checker.check_feasible(ids(&all), level);
            assert_eq!(itself, Ok(()), "{}", describe(trace, &all, &[], level));

            let schedule = random_schedule(random, trace, level);
            let reference = |to_come: &[usize]| Reference::new(trace, &schedule, to_come, level);
            let expected = reference(&[]).is_some_and(|r| r.is_feasible());
            let answer = checker.check_feasible(ids(&schedule), level);
            self.feasible.compare(answer, expected, || describe(trace, &schedule, &[], level));

            let threads = 0..trace.tables.thread_count();
            let mut next: Vec<usize> = threads.filter_map(|thread| next_of(trace, &schedule, thread)).collect();
            if random.one_in(10) {
                next.push(random.below(trace.len()));
            }
            for pair in next.iter().flat_map(|&first| next.iter().map(move |&second| [first, second])) {
                let [a, b] = pair.map(EventId::new);
                let expected = reference(&pair).is_some_and(|r| r.is_race());
                let answer = checker.check_race(ids(&schedule), a, b, level);
                self.races.compare(answer, expected, || describe(trace, &schedule, &pair, level));
                let expected = reference(&pair).is_some_and(|r| r.is_deadlock());
                let answer = checker.check_deadlock(ids(&schedule), &[a, b], level);
                self.deadlocks.compare(answer, expected, || describe(trace, &schedule, &pair, level));
            }
            let expected = reference(&next).is_some_and(|r| r.is_deadlock());
            let answer = checker.check_deadlock(ids(&schedule), &ids(&next), level);
            self.deadlocks.compare(answer, expected, || describe(trace, &schedule, &next, level));
        }
    }
}

#[test]
fn checker_and_reference_agree() {
    let mut random = Random(1);
    let mut tallies = Tallies::default();
    for round in 0..20_000 {
        let trace = if round % 3 == 0 { random_trace_of_locks(&mut random) } else { random_trace(&mut random) };
        if !trace.is_empty() {
            tallies.compare(&mut random, &trace);
        }
    }
    // Both answers, and every rule, must have been at stake often enough to mean something.
    let Tallies { feasible, races, deadlocks } = tallies;
    let accepted = [feasible.accepted, races.accepted, deadlocks.accepted];
    let mut refused = feasible.refused;
    for (rule, count) in races.refused.into_iter().chain(deadlocks.refused) {
        *refused.entry(rule).or_default() += count;
    }
    println!("accepted {accepted:?}, refused {refused:?}");
    assert!(accepted.iter().zip([5000, 1000, 50]).all(|(count, least)| *count >= least));
    // Event numbers here are never out of range; the rules of level `symbolic`, of races by memory order, of faults and of
    // waits that end for no reason have tests of their own.
    use ScheduleRule::{NoWakeUp, NotFreed, NotInOrder, NotInUse, NotMisused, OtherFault, Synchronised};
    let of_others = [NotInOrder, Synchronised, NoWakeUp, NotFreed, NotMisused, NotInUse, OtherFault];
    let elsewhere = ScheduleRule::ALL.iter().filter(|rule| rule.is_symbolic() || of_others.contains(rule)).count();
    assert_eq!(refused.len(), ScheduleRule::ALL.len() - 1 - elsewhere);
    assert!(refused.values().all(|&count| count >= 5));
}

/// A schedule that begins as the trace does and leaves its order somewhere.
fn schedule_near_the_trace(random: &mut Random, trace: &Trace, level: Level) -> Schedule {
    let cut = random.below(trace.len() + 1);
    if random.one_in(4) {
        let then = random_schedule(random, trace, level).into_iter().filter(|&event| event >= cut);
        return Schedule::Continued { as_observed: EventId::new(cut), then: then.map(EventId::new).collect() };
    }
    let threads = 0..trace.tables.thread_count();
    let end = |_| EventId::new(if random.one_in(2) { cut } else { random.below(trace.len() + 1).max(cut / 2) });
    Schedule::Prefixes(threads.map(end).collect())
}

#[test]
fn witnesses_in_turn_are_judged_as_each_alone() {
    let mut random = Random(2);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let trace = random_trace(&mut random);
        if trace.is_empty() {
            continue;
        }
        let cells = Cells::of(&trace);
        let checker = Checker::new(&trace, &cells);
        for level in LEVELS {
            let mut schedules: Vec<Schedule> =
                (0..6).map(|_| schedule_near_the_trace(&mut random, &trace, level)).collect();
            // In any order at times; it must make no difference to the answers.
            if !random.one_in(3) {
                schedules.sort_by_key(|schedule| checker.as_observed(schedule));
            }
            let mut series = checker.series(level);
            if random.one_in(2) {
                series = series.keeping_every(1 + random.below(4));
            }
            for schedule in &schedules {
                assert!(schedule.clone().compact(&trace).iter(&trace).eq(schedule.iter(&trace)), "{schedule:?}");
                let as_turns = &schedule.clone().compact(&trace);
                let events: Vec<usize> = schedule.iter(&trace).map(|event| event.index()).collect();
                let shared = checker.as_observed(schedule).index();
                assert!(events.iter().copied().take(shared).eq(0..shared), "{schedule:?}");
                let threads = 0..trace.tables.thread_count();
                let next: Vec<usize> = threads.filter_map(|thread| next_of(&trace, &events, thread)).collect();
                for pair in next.iter().flat_map(|&first| next.iter().map(move |&second| [first, second])) {
                    let [a, b] = pair.map(EventId::new);
                    let alone = checker.check_race(schedule.iter(&trace), a, b, level);
                    *(if alone.is_ok() { &mut accepted } else { &mut refused }) += 1;
                    for schedule in [schedule, as_turns] {
                        let what = || describe(&trace, &events, &pair, level);
                        assert_eq!(series.check_race(schedule, a, b), alone, "{}", what());
                        let alone = checker.check_deadlock(schedule.iter(&trace), &[a, b], level);
                        assert_eq!(series.check_deadlock(schedule, &[a, b]), alone, "{}", what());
                    }
                }
            }
        }
    }
    println!("accepted {accepted}, refused {refused}");
    assert!(accepted > 5_000 && refused > 5_000);
}
