//! The figures of the CP paper, with the answers it states. Events from 1.

mod support;

use snag_engines::{CP, WCP};
use snag_model::{EventId, Trace};
use snag_pipeline::{Analysis, EngineRef, Options, Quiet, Settings, analyse};
use snag_testkit::{Level, causal, deadlocks, hb_races, races};
use support::proved;

fn figure(name: &str) -> Trace {
    support::figure(&format!("cp/{name}"))
}

fn run(trace: &Trace, engine: EngineRef) -> Analysis {
    let options = Options {
        engines: vec![engine.into()],
        candidates: true,
        settings: Settings { all: true, ..Settings::default() },
        ..Options::default()
    };
    analyse(trace, &options, &Quiet)
}

/// All pairs an engine reports, proved or not, in the order of their first events.
fn reported(trace: &Trace, engine: EngineRef) -> Vec<(u32, u32)> {
    let mut all = support::reported(&run(trace, engine));
    all.sort_unstable();
    all
}

fn in_truth(trace: &Trace) -> Vec<(u32, u32)> {
    races(trace, Level::Writer).into_iter().map(|(a, b)| (a.0 + 1, b.0 + 1)).collect()
}

/// What HB misses and CP and WCP report; and what an exhaustive search finds.
fn check(name: &str, expected: &[(u32, u32)], truth: &[(u32, u32)], deadlock: bool) -> Trace {
    let trace = figure(name);
    assert!(hb_races(&trace).is_empty(), "{name}");
    for engine in [CP, WCP] {
        assert_eq!(reported(&trace, engine), expected, "{name} {engine:?}");
    }
    assert_eq!(in_truth(&trace), truth, "{name}");
    assert_eq!(!deadlocks(&trace, Level::Writer).is_empty(), deadlock, "{name}");
    for engine in [CP, WCP] {
        let found = run(&trace, engine);
        assert_eq!(proved(&found), truth, "{name} {engine:?}: what is a race is proved");
        assert_eq!(!found.deadlocks.is_empty(), deadlock, "{name} {engine:?}: and a deadlock is");
    }
    trace
}

/// The trace without some events.
fn without(trace: &Trace, events: &[u32]) -> Trace {
    let mut less = Trace { tables: trace.tables.clone(), ..Trace::default() };
    for (event, number) in trace.events.iter().zip(1..) {
        if !events.contains(&number) {
            less.events.push(event);
        }
    }
    less
}

#[test]
fn figure_1_an_order_that_somebody_has_seen_is_kept() {
    check("fig1", &[], &[], false);
}

#[test]
fn figure_3_the_counter_races_though_a_lock_lies_between() {
    check("fig3", &[(1, 10), (2, 9), (2, 10)], &[(2, 9)], false);
}

#[test]
fn figure_4_empty_sections_order_nothing() {
    check("fig4", &[(1, 6)], &[(1, 6)], false);
}

#[test]
fn figure_5_rule_b_and_an_empty_section() {
    let trace = check("fig5", &[], &[], false);
    assert_eq!(in_truth(&without(&trace, &[27, 28])).len(), 1, "without the empty section on l");
}

#[test]
fn figure_6_sections_that_may_be_swapped_still_order_others() {
    let trace = check("fig6", &[], &[], false);
    let cp = causal::cp(&trace);
    let sections = causal::sections(&trace);
    let ordered = |lock: &str| {
        let names = trace.tables.names(snag_model::Space::Lock);
        let id = (0..names.len()).find(|&id| names.get(id) == lock);
        let of: Vec<_> = sections.iter().filter(|s| Some(s.lock.index()) == id).collect();
        cp.has(EventId::new(of[0].release.unwrap()), EventId::new(of[1].acquire))
    };
    assert!(ordered("m") && !ordered("n"));
}

#[test]
fn figure_7_one_edge_holds_it_together() {
    let trace = check("fig7", &[], &[], false);
    let z: Vec<u32> = (12..=19).collect();
    assert!(in_truth(&without(&trace, &z)).contains(&(6, 22)), "without sync(z)");
}

#[test]
fn figure_8_the_outer_sections_overlap_in_the_witness() {
    check("fig8", &[(2, 9)], &[(2, 9)], false);
}

#[test]
fn figure_9_a_cp_race_that_is_a_deadlock() {
    check("fig9", &[(4, 9)], &[], true);
}

#[test]
fn wcp_is_weaker_than_cp() {
    let trace = figure("weaker");
    assert_eq!(reported(&trace, CP), []);
    assert_eq!(reported(&trace, WCP), [(1, 6)]);
    assert_eq!(in_truth(&trace), [(1, 6)]);
}
