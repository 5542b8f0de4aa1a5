//! Level `symbolic`: witnesses with values, each broken one refused by the rule that it breaks.

use snag_checker::{Checker, ScheduleRule as Rule, Violation};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};

/// The trace of some lines of Snag's text.
fn trace(lines: &str) -> Trace {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = format!("%snag 1\n{}\n", lines.join("\n"));
    let reader = TextReader::new(std::io::Cursor::new(text.into_bytes()));
    TraceReader::new(Box::new(reader), None).read_all().expect("the trace is well formed").0
}

/// A witness to be checked.
struct Witness<'a> {
    schedule: &'a [u32],
    diverging: &'a [u32],
    reads: &'a [(u32, i64)],
    pair: [u32; 2],
}

fn ids(events: &[u32]) -> Vec<EventId> {
    events.iter().map(|&event| EventId(event)).collect()
}

fn check(lines: &str, witness: &Witness) -> Result<(), Violation> {
    let trace = trace(lines);
    let cells = Cells::of(&trace);
    let reads: Vec<_> = witness.reads.iter().map(|&(event, value)| (EventId(event), value)).collect();
    let [first, second] = witness.pair.map(EventId);
    Checker::new(&trace, &cells).check_race_with_values(
        ids(witness.schedule),
        &ids(witness.diverging),
        &reads,
        first,
        second,
    )
}

/// Whether a schedule is feasible, with the values that its reads take.
fn reads(lines: &str, schedule: &[u32], diverging: &[u32]) -> Result<Vec<(u32, i64)>, Violation> {
    let trace = trace(lines);
    let cells = Cells::of(&trace);
    let reads = Checker::new(&trace, &cells).reads_of(ids(schedule), &ids(diverging))?;
    Ok(reads.into_iter().map(|(event, value)| (event.0, value)).collect())
}

fn level(lines: &str, schedule: &[u32], pair: [u32; 2], level: Level) -> Result<(), Violation> {
    let trace = trace(lines);
    let cells = Cells::of(&trace);
    let [first, second] = pair.map(EventId);
    Checker::new(&trace, &cells).check_race(ids(schedule), first, second, level)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Violation>, rule: Rule, event: u32) {
    let violation = result.expect_err("it breaks a rule");
    assert_eq!((violation.rule, violation.event), (rule, Some(EventId(event))), "{violation}");
}

/// Figure 1: events 2 to 4 are lines 1 to 3, events 5 to 7 line 4, 8 and 9 line 7, 10 line 5.
const FIGURE_1: &str = "
    %init x 0
    %init y 0
    %init z 2
    main|fork(T1)|
    main|fork(T2)|
    T1|w(y)=3<-3|1
    T1|w(x)=1<-1|2
    T1|w(y)=5<-5|3
    T2|r(y)=5->a|4
    T2|r(z)=2->b|4
    T2|branch((> a b))=1|4
    T2|else-r(x)->d|7
    T2|else-branch{divisor}((!= d 0))|7
    T2|r(x)=1->c|5
    T2|branch{divisor}((!= c 0))=1|5
    T2|let(e)=(/ 1 c)|5
    T2|branch{output}((= e 1))=1|5";

/// Runs line 1, then line 4, which reads y = 3.
const LINES_2_AND_5: Witness<'static> =
    Witness { schedule: &[0, 1, 2, 5, 6, 7, 8, 9], diverging: &[], reads: &[(5, 3), (6, 2)], pair: [3, 10] };

/// Line 4 first, which reads y = 0; then line 1.
const LINES_2_AND_7: Witness<'static> =
    Witness { schedule: &[0, 1, 5, 6, 7, 2], diverging: &[7], reads: &[(5, 0), (6, 2)], pair: [3, 8] };

#[test]
fn figure_1_lines_2_and_5() {
    check(FIGURE_1, &LINES_2_AND_5).unwrap();
    level(FIGURE_1, LINES_2_AND_5.schedule, LINES_2_AND_5.pair, Level::Symbolic).unwrap();
    for lower in [Level::Writer, Level::Value, Level::Control] {
        assert!(level(FIGURE_1, LINES_2_AND_5.schedule, LINES_2_AND_5.pair, lower).is_err());
    }
}

#[test]
fn figure_1_lines_2_and_5_with_another_z() {
    let four = FIGURE_1.replace("%init z 2", "%init z 4").replace("r(z)=2", "r(z)=4");
    let witness = Witness { reads: &[(5, 3), (6, 4)], ..LINES_2_AND_5 };
    refused(check(&four, &witness), Rule::OtherOutcome, 7);
}

#[test]
fn figure_1_lines_2_and_7() {
    check(FIGURE_1, &LINES_2_AND_7).unwrap();
}

#[test]
fn a_branch_that_goes_the_other_way_unasked() {
    refused(check(FIGURE_1, &Witness { diverging: &[], ..LINES_2_AND_7 }), Rule::OtherOutcome, 7);
}

#[test]
fn a_branch_that_does_not_diverge() {
    refused(check(FIGURE_1, &Witness { diverging: &[7], ..LINES_2_AND_5 }), Rule::DoesNotDiverge, 7);
    // It is not part of the schedule.
    let early = Witness { schedule: &[0, 1, 5, 6, 2], ..LINES_2_AND_7 };
    refused(check(FIGURE_1, &early), Rule::DoesNotDiverge, 7);
    // It is no branch, or no event.
    refused(check(FIGURE_1, &Witness { diverging: &[5], ..LINES_2_AND_7 }), Rule::DoesNotDiverge, 5);
    refused(check(FIGURE_1, &Witness { diverging: &[99], ..LINES_2_AND_7 }), Rule::UnknownEvent, 99);
}

#[test]
fn a_branch_without_condition_does_not_diverge() {
    let lines = "T|r(x)=1->v|\nT|branch|\nU|w(x)=2<-2|";
    refused(reads(lines, &[2, 0, 1], &[1]), Rule::DoesNotDiverge, 1);
}

#[test]
fn other_reads_than_the_witness_says() {
    for (reads, event) in [
        (&[(5, 5), (6, 2)][..], 5),
        (&[(5, 3)], 6),
        (&[], 5),
        (&[(5, 3), (6, 2), (10, 0)], 10),
        (&[(6, 2), (5, 3)], 6),
        (&[(5, 3), (6, 2), (1000, 0)], 1000),
    ] {
        refused(check(FIGURE_1, &Witness { reads, ..LINES_2_AND_5 }), Rule::OtherReads, event);
    }
}

#[test]
fn the_trace_goes_on_after_a_divergence() {
    let lines = "
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-w(y)<-1|
        T|w(z)=1<-1|
        U|w(x)=2<-2|
        U|w(z)=2<-2|
        U|w(y)=2<-2|";
    assert_eq!(reads(lines, &[4, 0, 1, 2, 5], &[1]).unwrap(), [(0, 2)]);
    refused(reads(lines, &[4, 0, 1, 2, 3], &[1]), Rule::BeyondOtherSide, 3);
    let race = |schedule, pair| check(lines, &Witness { schedule, diverging: &[1], reads: &[(0, 2)], pair });
    race(&[4, 0, 1, 5], [2, 6]).unwrap();
    refused(race(&[4, 0, 1, 2], [3, 5]), Rule::BeyondOtherSide, 3);
}

#[test]
fn the_other_side_of_a_branch_that_went_as_it_did() {
    let lines = "
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-w(y)<-1|
        U|w(y)=2<-2|";
    let witness = Witness { schedule: &[0, 1], diverging: &[], reads: &[(0, 1)], pair: [2, 3] };
    refused(check(lines, &witness), Rule::DoesNotHappen, 2);
    for lower in Level::ALL {
        refused(level(lines, &[0, 1], [2, 3], lower), Rule::DoesNotHappen, 2);
    }
}

#[test]
fn a_condition_of_the_other_side() {
    let lines = "
        %init i 0
        T|r(x)=1->v|
        T|r(i)=0->i|
        T|branch((= v 1))=1|
        T|else-branch{index}((= i 0))|
        T|else-w(a0)<-1|
        U|w(x)=2<-2|
        U|w(i)=1<-1|
        U|w(a0)=2<-2|";
    let race = |schedule, reads| check(lines, &Witness { schedule, diverging: &[2], reads, pair: [4, 7] });
    race(&[5, 0, 1, 2, 3, 6], &[(0, 2), (1, 0)]).unwrap();
    refused(race(&[5, 6, 0, 1, 2, 3], &[(0, 2), (1, 1)]), Rule::OtherSideUnknown, 3);
    // Not even executed: the access is not the next event.
    refused(race(&[5, 0, 1, 2, 6], &[(0, 2), (1, 0)]), Rule::NotNextEvent, 4);
}

#[test]
fn the_other_side_has_effects() {
    let lines = "
        %init x 1
        %init y 0
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-r(y)->o|
        T|else-let(p)=(+ o v 10)|
        T|else-w(y)<-(* p 2)|
        U|w(x)=2<-2|
        U|r(y)=0->u|";
    let run = reads(lines, &[5, 0, 1, 2, 3, 4, 6], &[1]).unwrap();
    assert_eq!(run, [(0, 2), (2, 0), (6, 24)]);
}

#[test]
fn a_lock_of_the_other_side() {
    let lines = "
        %init x 1
        %lock p plain
        T|acq(p)|
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-rel(p)|
        T|else-acq(l)|
        T|else-acq(l)|
        T|else-rel(l)|
        T|else-rel(l)|
        T|else-acq(p)|
        T|else-acq(p)|
        T|rel(p)|
        U|acq(l)|
        U|w(x)=2<-2|
        U|rel(l)|";
    let first = [11, 12, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    reads(lines, &first, &[2]).unwrap();
    // A plain lock again.
    refused(reads(lines, &[&first[..], &[9]].concat(), &[2]), Rule::LockHeld, 9);
    // Another thread holds it.
    refused(reads(lines, &[11, 12, 0, 1, 2, 3, 4], &[2]), Rule::LockHeld, 4);
}

#[test]
fn a_lock_that_the_other_side_does_not_hold() {
    let lines = "
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-rel(l)|
        U|w(x)=2<-2|";
    refused(reads(lines, &[3, 0, 1, 2], &[1]), Rule::NotHeld, 2);
}

#[test]
fn a_join_of_a_thread_that_diverged() {
    let lines = "
        M|fork(T)|
        M|w(x)=1<-1|
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-w(y)<-1|
        M|join(T)|";
    refused(reads(&format!("%init x 0\n{lines}"), &[0, 2, 3, 4, 1, 5], &[3]), Rule::EarlyJoin, 5);
}

#[test]
fn a_branch_that_depends_on_something_unknown() {
    // U strays, and what it writes then is not said by an expression.
    let lines = "
        %init x 0
        U|r(x)=0->u|
        U|w(y)=1|
        T|r(y)=1->v|
        T|branch((= v 1))=1|
        V|w(x)=5<-5|";
    assert_eq!(reads(lines, &[0, 1, 2, 3], &[]).unwrap(), [(0, 0), (2, 1)]);
    refused(reads(lines, &[4, 0, 1, 2, 3], &[]), Rule::UnknownOutcome, 3);
    // With an expression it is known.
    let said = lines.replace("w(y)=1|", "w(y)=1<-(+ u 1)|");
    assert_eq!(reads(&said, &[0, 1, 2, 3], &[]).unwrap(), [(0, 0), (2, 1)]);
    refused(reads(&said, &[4, 0, 1, 2, 3], &[]), Rule::OtherOutcome, 3);
    let constant = lines.replace("w(y)=1|", "w(y)=1<-1|");
    assert_eq!(reads(&constant, &[4, 0, 1, 2, 3], &[]).unwrap(), [(0, 5), (2, 1)]);
}

#[test]
fn a_branch_without_condition_depends_on_all_reads() {
    let lines = "
        %init x 0
        T|r(x)=0->v|
        T|branch|
        T|w(y)=1<-1|
        U|w(x)=5<-5|
        U|w(y)=1<-1|";
    refused(reads(lines, &[3, 0, 1], &[]), Rule::OtherValue, 0);
    reads(lines, &[0, 1, 3], &[]).unwrap();
    let method = lines.replace("T|branch|", "T|method-begin(m,{})|");
    refused(reads(&method, &[3, 0, 1], &[]), Rule::OtherValue, 0);
}

#[test]
fn what_has_no_value_is_not_computed() {
    let lines = "
        %init x 2
        T|r(x)=2->v|
        T|let(u)=(/ 8 v)|
        T|w(y)=4<-u|
        U|w(x)=0<-0|
        U|w(y)=1<-1|";
    refused(reads(lines, &[3, 0, 1], &[]), Rule::UndefinedValue, 1);
    // Nor by a racing write.
    let inside = lines.replace("T|let(u)=(/ 8 v)|", "T|let(u)=v|").replace("w(y)=4<-u", "w(y)=4<-(/ 8 u)");
    let witness = Witness { schedule: &[3, 0, 1], diverging: &[], reads: &[(0, 0)], pair: [2, 4] };
    refused(check(&inside, &witness), Rule::UndefinedValue, 2);
    // Nor where it is not known.
    let unknown = lines.replace("w(x)=0<-0", "w(x)");
    refused(reads(&unknown, &[3, 0, 1], &[]), Rule::UndefinedValue, 1);
    reads(&unknown.replace("(/ 8 v)", "(/ v 2)").replace("w(y)=4", "w(y)=1"), &[3, 0, 1, 2], &[]).unwrap();
}

#[test]
fn overflow_wraps_around_as_the_type_says() {
    let lines = "
        %init x 200
        T|r(x)=200->v:u8|
        T|let(u)=(+ v 50)|
        T|branch((> u 100))=1|
        U|w(x)=220<-220|
        U|w(x)=40<-40|";
    reads(lines, &[0, 1, 2], &[]).unwrap();
    // 220 + 50 is 14.
    refused(reads(lines, &[3, 0, 1, 2], &[]), Rule::OtherOutcome, 2);
    refused(reads(lines, &[3, 4, 0, 1, 2], &[]), Rule::OtherOutcome, 2);
    let wide = lines.replace(":u8", ":int");
    reads(&wide, &[3, 0, 1, 2], &[]).unwrap();
}

#[test]
fn an_integer_that_does_not_fit_into_memory() {
    let lines = "
        %init x 1
        T|r(x)=1->v:int|
        T|w(y)=4611686018427387904<-(* v 4611686018427387904)|
        U|w(x)=2<-2|";
    reads(lines, &[0, 1], &[]).unwrap();
    refused(reads(lines, &[2, 0, 1], &[]), Rule::UndefinedValue, 1);
}

#[test]
fn bytes_are_put_together() {
    let lines = "
        T|w(0x10:2)=258<-(u16 258)|
        T|r(0x10:4)=258->v:u32|
        T|branch((= v 258))=1|
        U|w(0x13:1)=-128<-(i8 -128)|
        U|w(0x10:1)=7<-(u8 7)|";
    // Bytes 0x12 and 0x13 are zero before the first event: the read says so.
    reads(lines, &[0, 1, 2], &[]).unwrap();
    assert_eq!(reads(lines, &[3, 0, 1], &[]).unwrap(), [(1, 0x8000_0102)]);
    refused(reads(lines, &[3, 0, 1, 2], &[]), Rule::OtherOutcome, 2);
    assert_eq!(reads(lines, &[0, 3, 4, 1], &[]).unwrap(), [(1, 0x8000_0107)]);
}

#[test]
fn a_diverging_branch_and_missing_methods() {
    let lines = "
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-w(y)<-1|
        U|w(x)=2<-2|
        U|method-begin(m,{y})|
        U|method-end(m)|";
    refused(reads(lines, &[3, 0, 1], &[1]), Rule::DoesNotDiverge, 1);
}

#[test]
fn both_threads_may_diverge() {
    let lines = "
        %init x 1
        T|r(x)=1->v|
        T|branch((= v 1))=1|
        T|else-w(y)<-1|
        U|r(x)=1->v|
        U|branch((= v 1))=1|
        U|else-w(y)<-2|
        V|w(x)=2<-2|";
    let witness = Witness { schedule: &[6, 0, 1, 3, 4], diverging: &[4, 1], reads: &[(0, 2), (3, 2)], pair: [2, 5] };
    check(lines, &witness).unwrap();
}

#[test]
fn a_trace_without_branches_and_symbols_makes_every_read_count() {
    let lines = "
        %init x 0
        T|r(x)=0|
        T|w(y)=1|
        U|w(x)=1|
        U|w(y)=1|";
    refused(level(lines, &[2, 0], [1, 3], Level::Symbolic), Rule::OtherValue, 0);
    level(&lines.replace("T|r(x)=0|", "T|r(x)=0->v|"), &[2, 0], [1, 3], Level::Symbolic).unwrap();
}
