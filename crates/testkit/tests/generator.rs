//! What the random traces are worth.

use snag_model::events::Event;
use snag_model::{Cells, EventId, Events, Op, Trace, Validator, VarId, Variable};
use snag_testkit::*;
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
fn random_traces_with_faults_are_well_formed() {
    for_random_traces(0..20_000, Shape::with_faults, |trace| {
        Validator::new().check(&trace.events, 0, &trace.tables).map_err(|broken| format!("{broken:?}"))
    });
}

#[test]
fn every_operation_appears() {
    let mut counts: BTreeMap<Op, usize> = BTreeMap::new();
    // In most traces nothing goes wrong.
    for trace in traces(3000, Shape::any).chain(traces(1000, Shape::with_faults)) {
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

/// So many of a thousand traces must show each of these.
fn expect(name: &str, shape: impl Fn(&mut Rng) -> Shape, expected: &[(&str, usize)]) {
    let counts = census(1000, shape);
    for (what, least) in expected {
        assert!(counts[what] >= *least, "{name}: {what}: {} of 1000, expected {least}: {counts:?}", counts[what]);
    }
}

#[test]
fn random_traces_are_interesting() {
    let common = [("predictable race", 500), ("no race", 100), ("hb, not shb", 100), ("shb, not fhb", 150)];
    expect("classic", Shape::classic, &[&common[..], &[("writer, not hb", 10)]].concat());
    expect("lock heavy", Shape::lock_heavy, &[&common[..], &[("deadlock", 15), ("writer, not hb", 20)]].concat());
    let levels = [("value, not writer", 20), ("control, not value", 20)];
    expect("values", Shape::with_values, &[&common[..], &levels[..]].concat());
    expect("everything", Shape::everything, &[&common[..], &levels[..]].concat());
    expect("any", Shape::any, &[&common[..], &levels[..], &[("writer, not hb", 10)]].concat());
}

/// The same trace with its memory, and with that its blocks, somewhere else: then no value is an address of a block.
fn elsewhere(trace: &Trace) -> Trace {
    let mut moved = trace.clone();
    let mut at = |variable: u32| match trace.tables.variable(VarId(variable)) {
        Variable::Named(_) => variable,
        Variable::Range { address, size } => moved.tables.variable_range(address + 0x10_0000, size).0,
    };
    let touches_memory = |op: Op| op.is_access() || matches!(op, Op::Alloc | Op::Free);
    let targets = trace.events.iter().map(|event| match touches_memory(event.op) {
        true => Event { target: at(event.target), ..event },
        false => event,
    });
    let mut events = Events::new();
    targets.for_each(|event| events.push(event));
    let initial = trace.tables.declarations.initial.iter().map(|(variable, value)| (VarId(at(variable.0)), *value));
    let initial = initial.collect();
    moved.tables.declarations.initial = initial;
    moved.events = events;
    moved
}

#[test]
fn addresses_in_memory_that_is_allocated_again_matter() {
    // Without missing calls, whose reach is not moved.
    let calls = |trace: &Trace| trace.events.ops().contains(&Op::MethodBegin);
    let mut fewer = 0;
    for trace in traces(4000, Shape::with_pointers).filter(|trace| !calls(trace)) {
        let (here, there) = (races(&trace, Level::Value), races(&elsewhere(&trace), Level::Value));
        assert!(here.is_subset(&there));
        fewer += (here != there) as usize;
    }
    assert!(fewer >= 10, "in {fewer} traces");
}

#[test]
fn classic_traces_can_be_written_as_std() {
    use Op::*;
    for trace in traces(500, Shape::classic) {
        assert!(trace.events.ops().iter().all(|op| matches!(op, Read | Write | Acquire | Release | Fork | Join)));
        assert!(!trace.events.has_values());
    }
}

#[test]
fn long_traces_get_as_long_as_asked_for() {
    let long = |rng: &mut Rng| Shape { events: 300, ..Shape::any(rng) };
    let lengths: Vec<usize> = traces(200, long).map(|trace| trace.len()).collect();
    let full = lengths.iter().filter(|&&length| length == 300).count();
    assert!(full >= 150, "{full} of 200 are as long as asked for: {lengths:?}");
    for_random_traces(0..200, long, |trace| {
        Validator::new().check(&trace.events, 0, &trace.tables).map_err(|broken| format!("{broken:?}"))
    });
}

/// The oracle's bytes against the trace crate's cells.
#[test]
fn events_conflict_exactly_if_they_share_a_cell() {
    for_random_traces(0..4000, Shape::any, |trace| {
        let cells = Cells::of(trace);
        for b in (0..trace.len()).map(EventId::new) {
            for a in (0..b.index()).map(EventId::new) {
                let (first, second) = (trace.event(a), trace.event(b));
                let by_cells = first.thread != second.thread && first.op.conflicts(second.op) && {
                    let (p, q) = (cells.of_event(a.index(), first.target), cells.of_event(b.index(), second.target));
                    p.start < q.end && q.start < p.end
                };
                if by_cells != conflicting(trace, a, b) {
                    return Err(format!("{a:?} and {b:?}: cells say {by_cells}"));
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_failing_trace_is_shown_small() {
    // "No trace has a write by T2 while T1 holds a lock" is refuted by an acquire and a write.
    let check = |trace: &Trace| {
        let mut held = 0;
        for event in trace.events.iter() {
            match (event.op, event.thread.0) {
                (Op::Acquire, 0) => held += 1,
                (Op::Release, 0) => held -= 1,
                (Op::Write, 1) if held > 0 => return Err("a write while a lock is held".to_owned()),
                _ => {}
            }
        }
        Ok(())
    };
    let panic = std::panic::catch_unwind(|| for_random_traces(0..500, Shape::classic, check)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    let shown: Vec<&str> = text.lines().filter(|line| line.starts_with(' ') && line.contains(':')).collect();
    assert_eq!(shown.len(), 2, "{text}");
    assert!(text.contains("seed") && shown[0].contains("T1: acquire") && shown[1].contains("T2: write"), "{text}");
}

#[test]
fn shrinking_keeps_wake_ups_and_their_notifies_together() {
    let waits = |trace: &Trace| trace.events.iter().any(|event| event.op == Op::Wake && event.aux != 0);
    let mut seen = 0;
    for trace in traces(3000, Shape::everything).filter(waits).take(20) {
        let small = shrink(&trace, waits);
        let ops: Vec<Op> = small.events.ops().to_vec();
        let notify = ops.iter().position(|op| matches!(op, Op::Notify | Op::NotifyAll)).unwrap();
        assert_eq!(ops.len(), 4, "{}", show(&small));
        assert_eq!(small.events.get(3).aux as usize, notify + 1, "{}", show(&small));
        seen += 1;
    }
    assert_eq!(seen, 20);
}

#[test]
fn a_check_that_panics_counts_as_failed() {
    let check = |trace: &Trace| {
        assert!(trace.events.ops().iter().all(|&op| op != Op::Fork), "there is a fork");
        Ok(())
    };
    let panic = std::panic::catch_unwind(|| for_random_traces(0..100, Shape::classic, check)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("there is a fork") && text.contains("fork T"), "{text}");
}
