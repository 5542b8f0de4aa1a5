//! The figures of the SHB paper, with the answers it states. Events from 1.

mod support;

use snag_engines::{FHB, HB, HB_VC, SHB, SHB_VC};
use snag_model::Trace;
use snag_pipeline::{Choice, Options, Quiet, analyse};

fn run(trace: &Trace, engine: impl Into<Choice>) -> snag_pipeline::Analysis {
    let options = Options { engines: vec![engine.into()], candidates: true, ..Options::default() };
    analyse(trace, &options, &Quiet)
}

fn reported(trace: &Trace, engine: impl Into<Choice>) -> Vec<(u32, u32)> {
    support::reported(&run(trace, engine))
}

fn proved(trace: &Trace, engine: impl Into<Choice>) -> Vec<(u32, u32)> {
    support::proved(&run(trace, engine))
}

fn check(name: &str, hb: &[(u32, u32)], shb: &[(u32, u32)], fhb: &[(u32, u32)]) {
    let trace = support::figure(&format!("shb/{name}"));
    for engine in [HB, HB_VC] {
        assert_eq!(reported(&trace, engine), hb, "{name} {engine:?}");
        assert_eq!(proved(&trace, engine), shb, "{name}: what HB reports and SHB does not is never proved");
    }
    let auto = proved(&trace, Choice::Auto);
    assert!(shb.iter().all(|race| auto.contains(race)), "{name}: auto has all that SHB has, not {auto:?}");
    for engine in [SHB, SHB_VC] {
        assert_eq!(reported(&trace, engine), shb, "{name} {engine:?}");
        assert_eq!(proved(&trace, engine), shb, "{name} {engine:?}");
    }
    assert_eq!(reported(&trace, FHB), fhb, "{name}");
    assert_eq!(proved(&trace, FHB), fhb, "{name}");
}

#[test]
fn figure_1_the_second_hb_race_is_false() {
    check("fig1", &[(2, 3), (1, 4)], &[(2, 3)], &[(2, 3)]);
}

#[test]
fn figure_2_forcing_an_order_misses_a_race() {
    check("fig2", &[(2, 3), (1, 4)], &[(2, 3), (1, 4)], &[(2, 3)]);
}

#[test]
fn figure_3_six_of_eight_hb_races_are_false() {
    let hb = [(2, 7), (5, 7), (2, 9), (5, 9), (2, 10), (5, 10), (2, 12), (5, 12)];
    check("fig3", &hb, &[(2, 7), (5, 7)], &[(2, 7), (5, 7)]);
}

#[test]
fn figure_4_all_conflicts_are_hb_races_and_four_are_schedulable() {
    let hb = [(2, 3), (2, 5), (5, 6), (9, 10), (4, 11), (9, 12), (12, 13)];
    let shb = [(2, 3), (5, 6), (9, 10), (12, 13)];
    check("fig4", &hb, &shb, &shb);
}

#[test]
fn figure_5a_a_second_read_of_the_same_value_is_no_race() {
    check("fig5a", &[(1, 2), (1, 4)], &[(1, 2)], &[(1, 2)]);
}

#[test]
fn figure_5b_a_read_after_an_unordered_write_still_races() {
    check("fig5b", &[(1, 2), (1, 3)], &[(1, 2), (1, 3)], &[(1, 2)]);
}
