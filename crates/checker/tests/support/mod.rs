//! Small traces as text, and short ways to ask the checker about them.
//!
//! A line is an event: its number, its thread, the word of its operation, and what
//! the operation needs:
//!
//! ```text
//! 0 A write x =1            a value; of an rmw: =1>2
//! 1 B read 0x10:4           an address range
//! 2 A wait-begin c l        condition and lock, like wait-end
//! 3 A wake c 2              condition, and the notify if there is one
//! 4 A method-begin m x,lock:l,thread:B
//! declare semaphore s 1     also: barrier b 2, initial x 5
//! ```

#![allow(dead_code)] // Each test file uses its part.

use snag_checker::{Checker, ScheduleRule, Violation};
use snag_model::Level;
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{BarrierId, Cells, EventId, LockId, MemoryOrder, Op, SemId, Space, ThreadId, Trace, Validator, VarId};

pub mod reference;

pub use snag_model::Level::{Control, Value, Writer};

/// Every level, the strictest first.
pub const LEVELS: [Level; 3] = [Writer, Value, Control];

/// The trace of a text; it is well formed or the test fails.
pub fn trace(text: &str) -> Trace {
    let mut trace = Trace::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["declare", kind, name, number] => declare(&mut trace, kind, name, number),
            [number, thread, op, ref rest @ ..] => {
                assert_eq!(number, trace.len().to_string(), "number of '{line}'");
                event(&mut trace, thread, op, rest);
            }
            _ => panic!("what is '{line}'?"),
        }
    }
    Validator::new().check(&trace.events, 0, &trace.tables).expect("the trace is well formed");
    trace
}

/// Lines with their numbers.
pub fn numbered<'l>(lines: impl IntoIterator<Item = &'l &'l str>) -> String {
    lines.into_iter().enumerate().map(|(number, line)| format!("{number} {line}\n")).collect()
}

fn declare(trace: &mut Trace, kind: &str, name: &str, number: &str) {
    let tables = &mut trace.tables;
    match kind {
        "semaphore" => {
            let id = SemId(tables.intern(Space::Semaphore, name));
            tables.declarations.semaphores.push((id, number.parse().unwrap()));
        }
        "barrier" => {
            let id = BarrierId(tables.intern(Space::Barrier, name));
            tables.declarations.barriers.push((id, number.parse().unwrap()));
        }
        "initial" => {
            let id = variable(trace, name);
            trace.tables.declarations.initial.push((id, integer(number)));
        }
        _ => panic!("cannot declare '{kind}'"),
    }
}

fn integer(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn variable(trace: &mut Trace, name: &str) -> VarId {
    match name.strip_prefix("0x").and_then(|range| range.split_once(':')) {
        Some((address, size)) => {
            trace.tables.variable_range(u64::from_str_radix(address, 16).unwrap(), size.parse().unwrap())
        }
        None => trace.tables.variable_named(name),
    }
}

fn event(trace: &mut Trace, thread: &str, word: &str, rest: &[&str]) {
    let op = *Op::ALL.iter().find(|op| op.word() == word).unwrap_or_else(|| panic!("no operation '{word}'"));
    let name = rest.first().copied().unwrap_or_default();
    let thread = trace.tables.thread(thread);
    let target = match op {
        _ if op.touches_memory() || op == Op::Alloc || op.is_stale() => variable(trace, name).0,
        Op::Acquire
        | Op::Release
        | Op::ReadAcquire
        | Op::ReadRelease
        | Op::TryFail
        | Op::ReadTryFail
        | Op::Want
        | Op::ReadWant
        | Op::Unheld => trace.tables.intern(Space::Lock, name),
        Op::Fork | Op::Join | Op::JoinFail => trace.tables.thread(name).0,
        Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => {
            trace.tables.intern(Space::Condition, name)
        }
        Op::SemPost | Op::SemWait | Op::SemValue => trace.tables.intern(Space::Semaphore, name),
        Op::BarrierEnter | Op::BarrierLeave => trace.tables.intern(Space::Barrier, name),
        Op::MethodBegin | Op::MethodEnd => trace.tables.intern(Space::Method, name),
        Op::Begin | Op::End | Op::Branch | Op::Fence => 0,
        _ => panic!("'{word}' is not needed here"),
    };
    let mut event = Event::new(thread, op, target);
    let order = |word: &str| MemoryOrder::ALL.into_iter().find(|order| order.word() == word).expect("a memory order");
    match (op, rest.get(1)) {
        (Op::Fence, _) => event.aux = order(name) as u32,
        (Op::AtomicRead | Op::AtomicWrite | Op::Rmw, Some(word)) if !word.starts_with('=') => {
            event.aux = order(word) as u32
        }
        (Op::WaitBegin | Op::WaitEnd, Some(lock)) => event.aux = trace.tables.intern(Space::Lock, lock),
        (Op::SemValue, Some(count)) => event.aux = count.parse().unwrap(),
        (Op::Wake, Some(notify)) => event.aux = 1 + notify.parse::<u32>().unwrap(),
        (Op::MethodBegin, objects) => {
            let objects = objects.into_iter().flat_map(|text| text.split(',')).map(|text| object(trace, text));
            let objects = objects.collect();
            event.aux = trace.tables.reach(objects).0;
        }
        (_, Some(value)) => {
            let value = value.strip_prefix('=').expect("a value");
            let (read, written) = match value.split_once('>') {
                Some((read, written)) => (read, Some(written)),
                None => (value, None),
            };
            event.value = Some(integer(read));
            event.written = written.map(integer);
        }
        _ => {}
    }
    trace.events.push(event);
}

fn object(trace: &mut Trace, text: &str) -> Object {
    match text.split_once(':') {
        Some(("lock", name)) => Object::Lock(LockId(trace.tables.intern(Space::Lock, name))),
        Some(("thread", name)) => Object::Thread(ThreadId(trace.tables.intern(Space::Thread, name))),
        _ => Object::Variable(variable(trace, text)),
    }
}

/// Event ids from numbers.
pub fn ids(numbers: &[u32]) -> Vec<EventId> {
    numbers.iter().copied().map(EventId).collect()
}

/// What the checker says about a schedule alone.
pub fn feasible(text: &str, schedule: &[u32], level: Level) -> Result<(), Violation> {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    Checker::new(&trace, &cells).check_feasible(ids(schedule), level)
}

/// What the checker says about a race. The two events are given in both orders;
/// the answer must be the same.
pub fn race(text: &str, schedule: &[u32], pair: [u32; 2], level: Level) -> Result<(), Violation> {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    let checker = Checker::new(&trace, &cells);
    let [first, second] = pair.map(EventId);
    let answer = checker.check_race(ids(schedule), first, second, level);
    let other_way = checker.check_race(ids(schedule), second, first, level);
    assert_eq!(answer.is_ok(), other_way.is_ok(), "the order of the pair does not matter");
    answer
}

/// What the checker says about a race in whose schedule some wake-ups come for no reason.
pub fn race_with_spurious(text: &str, schedule: &[u32], pair: [u32; 2], spurious: &[u32]) -> Result<(), Violation> {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    let ([first, second], spurious) = (pair.map(EventId), ids(spurious));
    Checker::new(&trace, &cells).check_race_with_spurious(ids(schedule), first, second, Level::Writer, &spurious)
}

/// What the checker says about a race by memory order.
pub fn order_race(text: &str, schedule: &[u32], [first, second]: [u32; 2], level: Level) -> Result<(), Violation> {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    Checker::new(&trace, &cells).check_order(ids(schedule), EventId(first), EventId(second), level)
}

/// What the checker says about a deadlock.
pub fn deadlock(text: &str, schedule: &[u32], pending: &[u32], level: Level) -> Result<(), Violation> {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    Checker::new(&trace, &cells).check_deadlock(ids(schedule), &ids(pending), level)
}

/// The answer refuses because of this rule, at this event.
#[track_caller]
pub fn refused(answer: Result<(), Violation>, rule: ScheduleRule, event: u32) {
    let violation = answer.expect_err("the witness is broken");
    assert_eq!((violation.rule, violation.event), (rule, Some(EventId(event))), "{violation}");
}

/// The answer accepts.
#[track_caller]
pub fn accepted(answer: Result<(), Violation>) {
    if let Err(violation) = answer {
        panic!("{violation}");
    }
}
