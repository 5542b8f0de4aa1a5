//! What went wrong in a recorded run: found, accepted by the checker, and nothing else.

use snag_checker::Checker;
use snag_formats::reader::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::{Cells, EventId, FaultKind, Op, Trace};
use snag_pipeline::engines::OBSERVED;
use snag_pipeline::{Analysis, Options, Quiet, analyse};
use snag_testkit::random::{Rng, Shape, Weights, for_random_traces};

fn trace(lines: &[&str]) -> Trace {
    let text = format!("%snag 1\n\n{}\n", lines.join("\n"));
    TraceReader::new(Box::new(TextReader::new(std::io::Cursor::new(text))), None).read_all().expect("well formed").0
}

fn found(trace: &Trace, options: Options) -> Analysis {
    analyse(trace, &options, &Quiet)
}

/// Kind, first and second event, and how often, of each fault.
type Told = (FaultKind, Option<u32>, u32, u64);

fn faults(lines: &[&str]) -> Vec<Told> {
    let analysis = found(&trace(lines), Options::default());
    analysis.faults.iter().map(|fault| (fault.kind, fault.first.map(|id| id.0), fault.second.0, fault.count)).collect()
}

fn deadlocks(lines: &[&str]) -> Vec<Vec<u32>> {
    let analysis = found(&trace(lines), Options::default());
    analysis.deadlocks.iter().map(|deadlock| deadlock.pending.iter().map(|id| id.0).collect()).collect()
}

#[test]
fn uses_of_freed_memory_name_the_last_free() {
    use FaultKind::*;
    let ranges = ["T|alloc(0x10:16)|a", "T|free(0x10:16)|b", "U|stale-write(0x18:4)|c", "T|stale-free(0x10:1)|d"];
    assert_eq!(faults(&ranges), [(UseAfterFree, Some(1), 2, 1), (DoubleFree, Some(1), 3, 1)]);
    assert_eq!(faults(&["T|alloc(x)|", "T|free(x)|", "T|stale-read(x)|"]), [(UseAfterFree, Some(1), 2, 1)]);
    // What is left of a block whose other half lives again was freed by its own free.
    let halves = ["T|alloc(0x10:16)|", "T|free(0x10:16)|", "T|alloc(0x10:8)|", "T|free(0x10:8)|"];
    let uses = ["U|stale-read(0x18:8)|", "U|stale-read(0x10:8)|"];
    let told = [(UseAfterFree, Some(1), 4, 1), (UseAfterFree, Some(3), 5, 1)];
    assert_eq!(faults(&[&halves[..], &uses[..]].concat()), told);
}

#[test]
fn faults_at_the_same_places_are_one_finding() {
    let mut lines = vec!["T|alloc(0x10:16)|a", "T|free(0x10:16)|b"];
    lines.extend(["U|stale-read(0x10:4)|c"; 5]);
    assert_eq!(faults(&lines), [(FaultKind::UseAfterFree, Some(1), 2, 5)]);
    let mut options = Options::default();
    options.settings.all_pairs = true;
    assert_eq!(found(&trace(&lines), options).faults.len(), 5);
}

#[test]
fn nobody_is_accused_of_a_free_that_nobody_saw() {
    assert_eq!(faults(&["T|alloc(0x100:8)|", "U|stale-read(0x10:4)|"]), []);
}

#[test]
fn locks_are_misused_by_who_does_not_hold_them_or_has_them_already() {
    let misuse = |first: Option<u32>, second: u32| vec![(FaultKind::LockMisuse, first, second, 1)];
    assert_eq!(faults(&["T|acq(l)|", "U|release-unheld(l)|", "T|rel(l)|"]), misuse(Some(0), 1));
    assert_eq!(faults(&["T|acq(l)|", "T|rel(l)|", "T|release-unheld(l)|"]), misuse(Some(1), 2));
    assert_eq!(faults(&["T|release-unheld(l)|"]), misuse(None, 0));
    assert_eq!(faults(&["T|acq(l)|", "T|want(l)|"]), misuse(Some(0), 1));
    assert_eq!(faults(&["T|racq(l)|", "T|want(l)|"]), misuse(Some(0), 1));
    assert_eq!(faults(&["T|discard(lock:l)|", "U|acquire-destroyed(l)|"]), misuse(Some(0), 1));
    assert_eq!(faults(&["T|acquire-destroyed(l)|"]), []);
    // A wait gives the lock up.
    assert_eq!(faults(&["T|acq(l)|", "T|wait-begin(c,l)|", "U|release-unheld(l)|"]), misuse(Some(1), 2));
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock_that_happened() {
    assert_eq!(deadlocks(&["T|acq(l)|", "U|acq(m)|", "T|want(m)|", "U|want(l)|"]), [[2, 3]]);
    let three = ["T|acq(l)|", "U|acq(m)|", "V|acq(n)|", "V|want(l)|", "T|want(m)|", "W|w(x)|", "U|want(n)|"];
    assert_eq!(deadlocks(&three), [[3, 4, 6]]);
    let waits = ["T|acq(l)|", "T|wait-begin(c,l)|", "U|acq(l)|", "U|notify(c)|", "T|wake(c,3)|"];
    let readers = ["V|racq(n)|", "T|want(l)|", "U|want(n)|", "V|want(l)|"];
    let all = [&waits[..], &readers[..]].concat();
    assert_eq!(deadlocks(&all), [[7, 8]]);
}

#[test]
fn who_only_waits_is_no_part_of_a_deadlock() {
    // The holder may still give it back; it was killed first.
    assert_eq!(deadlocks(&["T|acq(l)|", "U|want(l)|", "T|w(x)|"]), Vec::<Vec<u32>>::new());
    // W waits for who is dead.
    let lines = ["T|acq(l)|", "U|acq(m)|", "T|want(m)|", "U|want(l)|", "W|want(l)|"];
    assert_eq!(deadlocks(&lines), [[2, 3]]);
    assert_eq!(faults(&lines), []);
}

#[test]
fn what_is_held_or_waited_for_is_not_to_be_destroyed() {
    let destroyed = |first: u32, second: u32| vec![(FaultKind::DestroyedInUse, Some(first), second, 1)];
    assert_eq!(faults(&["T|acq(l)|", "U|discard(lock:l)|"]), destroyed(0, 1));
    assert_eq!(faults(&["T|acq(l)|", "T|discard(lock:l)|"]), destroyed(0, 1));
    assert_eq!(faults(&["T|acq(l)|", "T|wait-begin(c,l)|", "U|discard(condition:c)|"]), destroyed(1, 2));
    let begun = ["T|acq(l)|", "T|wait-begin(c,l)|", "U|acq(l)|", "U|notify(c)|", "U|rel(l)|", "T|wake(c,3)|"];
    assert_eq!(faults(&[&begun[..], &["U|discard(condition:c)|"]].concat()), []);
    assert_eq!(faults(&["%barrier b 2", "T|barrier-enter(b)|", "U|discard(barrier:b)|"]), destroyed(0, 1));
    let all = ["%barrier b 2", "T|barrier-enter(b)|", "U|barrier-enter(b)|", "U|barrier-leave(b)|"];
    assert_eq!(faults(&[&all[..], &["U|discard(barrier:b)|"]].concat()), []);
}

/// The last use by another thread, and its schedule.
#[test]
fn what_others_may_still_use_is_not_to_be_destroyed() {
    let predicted = |lines: &[&str]| {
        let trace = trace(lines);
        let analysis = found(&trace, Options::default());
        let told = |fault: &snag_pipeline::Fault| {
            let witness = fault.witness.as_ref().expect("it did not happen");
            let events: Vec<u32> = witness.iter(&trace).map(|id| id.0).collect();
            (fault.first.unwrap().0, fault.second.0, events)
        };
        analysis.faults.iter().map(told).collect::<Vec<_>>()
    };
    let lock = ["T|acq(l)|", "T|rel(l)|", "U|w(x)|", "U|discard(lock:l)|"];
    assert_eq!(predicted(&lock), [(1, 3, vec![0, 2])]);
    let condition = ["T|acq(l)|", "T|rel(l)|", "T|notify(c)|", "U|acq(l)|", "U|rel(l)|", "U|discard(condition:c)|"];
    assert_eq!(predicted(&condition), [(2, 5, vec![0, 1, 3, 4])]);
    assert_eq!(predicted(&["%semaphore s 1", "T|sem-wait(s)|", "U|discard(semaphore:s)|"]), [(0, 1, vec![])]);
    // Who has had the lock since knows that the other one has given it back.
    assert_eq!(predicted(&["T|acq(l)|", "T|rel(l)|", "U|acq(l)|", "U|rel(l)|", "U|discard(lock:l)|"]), []);
    assert_eq!(predicted(&["U|fork(T)|", "T|acq(l)|", "T|rel(l)|", "U|join(T)|", "U|discard(lock:l)|"]), []);
    assert_eq!(predicted(&["T|sem-post(s)|", "U|sem-wait(s)|", "U|discard(semaphore:s)|"]), []);
}

#[test]
fn the_checker_refuses_what_did_not_happen() {
    let trace = trace(&[
        "T|alloc(0x10:8)|",
        "T|free(0x10:8)|",
        "T|alloc(0x20:8)|",
        "T|free(0x20:8)|",
        "U|stale-write(0x10:4)|",
        "T|acq(l)|",
        "T|rel(l)|",
        "U|release-unheld(l)|",
    ]);
    let cells = Cells::of(&trace);
    let checker = Checker::new(&trace, &cells);
    let check = |kind: FaultKind, first: Option<u32>, second: u32| {
        checker.check_fault(kind, first.map(EventId), EventId(second)).map_err(|why| why.to_string())
    };
    assert_eq!(check(FaultKind::UseAfterFree, Some(1), 4), Ok(()));
    assert_eq!(check(FaultKind::LockMisuse, Some(6), 7), Ok(()));
    let wrong = [
        (FaultKind::DoubleFree, Some(1), 4),
        (FaultKind::UseAfterFree, Some(3), 4),
        (FaultKind::UseAfterFree, Some(0), 4),
        (FaultKind::UseAfterFree, None, 4),
        (FaultKind::UseAfterFree, Some(1), 3),
        (FaultKind::UseAfterFree, Some(1), 90),
        (FaultKind::UseAfterFree, Some(90), 4),
        (FaultKind::LockMisuse, Some(5), 7),
        (FaultKind::LockMisuse, None, 7),
        (FaultKind::LockMisuse, Some(6), 4),
    ];
    for (kind, first, second) in wrong {
        assert!(check(kind, first, second).is_err(), "{kind:?} {first:?} {second}");
    }
}

#[test]
fn the_checker_refuses_ends_that_are_not_near_a_use() {
    let trace = trace(&["T|acq(l)|", "T|rel(l)|", "U|acq(m)|", "U|rel(m)|", "U|discard(lock:l)|"]);
    let cells = Cells::of(&trace);
    let checker = Checker::new(&trace, &cells);
    let check = |schedule: &[u32], first: u32, second: u32| {
        let schedule = schedule.iter().map(|&event| EventId(event));
        checker.check_end_in_use(schedule, EventId(first), EventId(second), snag_model::Level::Writer).is_ok()
    };
    assert!(check(&[0, 2, 3], 1, 4) && check(&[2, 3], 0, 4));
    let wrong: [(&[u32], u32, u32); 5] =
        [(&[0, 1, 2, 3], 1, 4), (&[0, 2], 1, 4), (&[0], 1, 2), (&[0, 2, 3], 4, 1), (&[0, 1, 2], 3, 4)];
    for (schedule, first, second) in wrong {
        assert!(!check(schedule, first, second), "{schedule:?} {first} {second}");
    }
}

/// Every fault of a random trace is found and accepted, except for uses of memory that nobody was seen to free; and
/// what engines prove in a trace with faults the checker accepts in the trace without them, with the numbers that
/// events have there.
#[test]
fn every_fault_of_a_random_trace_is_a_finding() {
    let shape = |rng: &mut Rng| {
        let shape = Shape::everything(rng);
        let weights = Weights { faults: 4, heap: 4, locks: 8, symbols: 0, ..shape.weights.clone() };
        Shape { events: rng.between(10, 40), weights, locations: 0, ..shape }
    };
    for_random_traces(0..2000, shape, |trace| {
        let mut options = Options { engines: vec![OBSERVED.into()], ..Options::default() };
        options.settings.all_pairs = true;
        let analysis = found(trace, options);
        let count = |ops: &[Op]| trace.events_of(ops).count();
        let (stale, unheld) = (count(&[Op::StaleRead, Op::StaleWrite, Op::StaleFree]), count(&[Op::Unheld]));
        let of = |kinds: &[FaultKind]| analysis.faults.iter().filter(|fault| kinds.contains(&fault.kind)).count();
        if of(&[FaultKind::UseAfterFree, FaultKind::DoubleFree]) != stale {
            return Err(format!("{stale} uses of freed memory: {:?}", analysis.faults));
        }
        if of(&[FaultKind::LockMisuse]) < unheld || !analysis.left.is_empty() {
            return Err(format!("{unheld} locks given back: {:?}, {:?}", analysis.faults, analysis.left));
        }
        Ok(())
    });
}
