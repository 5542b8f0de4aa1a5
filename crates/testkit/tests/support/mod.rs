//! Traces in a few words, for tests.

use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{MemoryOrder, Op, Space, ThreadId, Trace, Validator, VarId};

/// A trace, one event a line: thread, operation, operands. Variables are names or `address:size` in hexadecimal;
/// values follow `=`, for an rmw `read>written`. Lines of the form `name := number` declare (`x := 3` initial memory,
/// `sem s := 1` and `barrier b := 2` the rest). Panics unless the trace is well formed.
pub fn trace(text: &str) -> Trace {
    let mut trace = Trace::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once(" := ") {
            Some((what, number)) => declare(&mut trace, what, number.parse().unwrap()),
            None => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let event = event(&mut trace, &words);
                trace.events.push(event);
            }
        }
    }
    Validator::new().check(&trace.events, 0, &trace.tables).unwrap();
    trace
}

fn declare(trace: &mut Trace, what: &str, number: i64) {
    match what.split_once(' ') {
        Some(("sem", name)) => {
            let id = trace.tables.intern(Space::Semaphore, name);
            trace.tables.declarations.semaphores.push((snag_model::SemId(id), number as u32));
        }
        Some(("barrier", name)) => {
            let id = trace.tables.intern(Space::Barrier, name);
            trace.tables.declarations.barriers.push((snag_model::BarrierId(id), number as u32));
        }
        _ => {
            let variable = variable(trace, what);
            trace.tables.declarations.initial.push((variable, number));
        }
    }
}

fn variable(trace: &mut Trace, text: &str) -> VarId {
    match text.split_once(':') {
        Some((address, size)) => {
            trace.tables.variable_range(u64::from_str_radix(address, 16).unwrap(), size.parse().unwrap())
        }
        None => trace.tables.variable_named(text),
    }
}

fn event(trace: &mut Trace, words: &[&str]) -> Event {
    let thread = trace.tables.thread(words[0]);
    let op = Op::ALL.into_iter().find(|op| op.word() == words[1]).unwrap_or_else(|| panic!("{}", words[1]));
    let mut event = Event::new(thread, op, 0);
    let operand = words.get(2).copied().unwrap_or("");
    let tables = &mut trace.tables;
    match op {
        _ if op.is_access() => {
            let (name, value) = operand.split_once('=').map_or((operand, None), |(n, v)| (n, Some(v)));
            if let Some((value, written)) = value.map(|v| v.split_once('>').unwrap_or((v, ""))) {
                event.value = value.parse().ok();
                event.written = written.parse().ok();
            }
            event.target = variable(trace, name).0;
            let order = |word: &&str| MemoryOrder::ALL.into_iter().find(|o| o.word() == *word);
            if op.is_atomic() {
                event.aux = words.get(3).and_then(order).unwrap_or_default() as u32;
            }
        }
        Op::Alloc | Op::Free | Op::StaleRead | Op::StaleWrite | Op::StaleFree => {
            event.target = variable(trace, operand).0
        }
        Op::Acquire
        | Op::Release
        | Op::ReadAcquire
        | Op::ReadRelease
        | Op::TryFail
        | Op::ReadTryFail
        | Op::Want
        | Op::ReadWant
        | Op::Unheld => {
            event.target = tables.intern(Space::Lock, operand);
        }
        Op::Fork | Op::Join | Op::JoinFail => event.target = tables.thread(operand).0,
        Op::WaitBegin | Op::WaitEnd => {
            event.target = tables.intern(Space::Condition, operand);
            event.aux = tables.intern(Space::Lock, words[3]);
        }
        Op::Wake => {
            event.target = tables.intern(Space::Condition, operand);
            event.aux = words.get(3).map_or(0, |number| number.parse::<u32>().unwrap() + 1);
        }
        Op::Notify | Op::NotifyAll => event.target = tables.intern(Space::Condition, operand),
        Op::SemPost | Op::SemWait => event.target = tables.intern(Space::Semaphore, operand),
        Op::SemValue => {
            event.target = tables.intern(Space::Semaphore, operand);
            event.aux = words[3].parse().unwrap();
        }
        Op::BarrierEnter | Op::BarrierLeave => event.target = tables.intern(Space::Barrier, operand),
        Op::MethodBegin => {
            event.target = tables.intern(Space::Method, operand);
            let objects = words[3..]
                .iter()
                .map(|word| match word.split_once('/') {
                    Some(("lock", name)) => Object::Lock(snag_model::LockId(trace.tables.intern(Space::Lock, name))),
                    Some((_, name)) => Object::Thread(ThreadId(trace.tables.intern(Space::Thread, name))),
                    None => Object::Variable(variable(trace, word)),
                })
                .collect();
            event.aux = trace.tables.reach(objects).0;
        }
        Op::MethodEnd => event.target = tables.intern(Space::Method, operand),
        Op::Branch | Op::Begin | Op::End => {}
        _ => panic!("{op:?} is not for this"),
    }
    event
}
