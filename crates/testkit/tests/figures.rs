//! The figures of the SHB paper (Mathur, Kini, Viswanathan, OOPSLA 2018), with the
//! answers the paper gives. Events are numbered from 1, as there.

use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::{EventId, Trace};
use snag_testkit::*;
use std::collections::BTreeSet;

/// `t1 w(x)`, one event after the other, separated by `;`.
fn trace(text: &str) -> Trace {
    let line = |event: &str| event.trim().replacen(' ', "|", 1) + "|\n";
    let text: String = text.split(';').map(line).collect();
    let reader = StdReader::new(std::io::Cursor::new(text.into_bytes()));
    TraceReader::new(Box::new(reader), None).read_all().unwrap().0
}

fn numbered(races: BTreeSet<(EventId, EventId)>) -> Vec<(usize, usize)> {
    races.into_iter().map(|(a, b)| (a.index() + 1, b.index() + 1)).collect()
}

#[test]
fn figure_1_an_hb_race_that_cannot_happen() {
    let t = trace("t1 r(x); t1 w(y); t2 r(y); t2 w(x)");
    assert_eq!(numbered(hb_races(&t)), [(1, 4), (2, 3)]);
    assert_eq!(numbered(shb_races(&t)), [(2, 3)]);
    assert_eq!(numbered(fhb_races(&t)), [(2, 3)]);
    assert_eq!(numbered(races(&t, Level::Writer)), [(2, 3)]);
}

#[test]
fn figure_2_a_race_that_fhb_misses() {
    let t = trace("t1 r(x); t1 w(y); t2 w(y); t2 w(x)");
    assert_eq!(numbered(hb_races(&t)), [(1, 4), (2, 3)]);
    assert_eq!(numbered(shb_races(&t)), [(1, 4), (2, 3)]);
    assert_eq!(numbered(fhb_races(&t)), [(2, 3)]);
    assert_eq!(numbered(races(&t, Level::Writer)), [(1, 4), (2, 3)]);
    assert_eq!(warnings(&shb_races(&t)), BTreeSet::from([EventId(2), EventId(3)]));
}

#[test]
fn figure_3_fork_and_join() {
    let t = trace(
        "t1 acq(l); t1 w(x); t1 rel(l); t2 acq(l); t2 w(x); t2 rel(l); t3 r(x); t3 fork(t4); t4 w(x); t4 w(x); \
         t3 join(t4); t3 r(x)",
    );
    let hb = [(2, 7), (2, 9), (2, 10), (2, 12), (5, 7), (5, 9), (5, 10), (5, 12)];
    assert_eq!(numbered(hb_races(&t)), hb);
    assert_eq!(numbered(shb_races(&t)), [(2, 7), (5, 7)]);
}

#[test]
fn figure_4_only_schedulable_races_are_reported() {
    let t = trace(
        "t1 acq(l); t1 w(x); t2 r(x); t2 w(y); t2 w(x); t1 r(x); t1 rel(l); t4 acq(l); t4 w(z); t3 r(z); t3 w(y); \
         t3 w(z); t4 r(z); t4 rel(l)",
    );
    assert_eq!(numbered(shb_races(&t)), [(2, 3), (5, 6), (9, 10), (12, 13)]);
    assert!(hb_races(&t).is_superset(&shb_races(&t)));
    assert!(races(&t, Level::Writer).is_superset(&shb_races(&t)));
}

#[test]
fn locks_taken_in_two_orders_deadlock() {
    let t = trace("t1 acq(l); t1 acq(m); t1 rel(m); t1 rel(l); t2 acq(m); t2 acq(l); t2 rel(l); t2 rel(m)");
    assert_eq!(deadlocks(&t, Level::Writer), BTreeSet::from([BTreeSet::from([EventId(1), EventId(5)])]));
    let guarded = trace(
        "t1 acq(g); t1 acq(l); t1 acq(m); t1 rel(m); t1 rel(l); t1 rel(g); t2 acq(g); t2 acq(m); t2 acq(l); \
         t2 rel(l); t2 rel(m); t2 rel(g)",
    );
    assert!(deadlocks(&guarded, Level::Control).is_empty());
    let ring = trace(
        "t1 acq(l); t1 acq(m); t1 rel(m); t1 rel(l); t2 acq(m); t2 acq(n); t2 rel(n); t2 rel(m); t3 acq(n); \
         t3 acq(l); t3 rel(l); t3 rel(n)",
    );
    let all = BTreeSet::from([EventId(1), EventId(5), EventId(9)]);
    assert_eq!(deadlocks(&ring, Level::Writer), BTreeSet::from([all]));
}
