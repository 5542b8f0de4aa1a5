//! The figures of the RDIT paper: caveats 0 to 5 and the Account benchmark, with the paper's answers.

use snag_engines::{CP, HB, MC, RDIT, SB, SHB, WCP};
use snag_formats::text_format::TextReader;
use snag_formats::{TraceReader, globals};
use snag_model::{EventId, Trace};
use snag_pipeline::{Analysis, EngineRef, Options, Quiet, Settings, analyse};
use std::collections::BTreeSet;

/// Engines that know nothing of missing methods, if told so.
const OTHERS: [EngineRef; 5] = [HB, SHB, WCP, CP, MC];

fn trace(text: &str) -> Trace {
    let lines: String = text.split(';').map(|line| format!("{}|\n", line.trim())).collect();
    read(&format!("%snag 1\n{lines}"))
}

fn read(text: &str) -> Trace {
    let reader = TextReader::new(std::io::Cursor::new(text.to_owned()));
    TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0
}

fn found(trace: &Trace, engine: EngineRef, ignore_missing: bool) -> Analysis {
    analyse(trace, &Options { engines: vec![engine.into()], ignore_missing, ..Options::default() }, &Quiet)
}

fn races(trace: &Trace, engine: EngineRef, ignore_missing: bool) -> BTreeSet<(u32, u32)> {
    found(trace, engine, ignore_missing).races.iter().map(|race| (race.first.0, race.second.0)).collect()
}

/// A race on x that missing methods rule out, and that all others report if they ignore them.
fn ruled_out(text: &str) {
    let trace = trace(text);
    for engine in OTHERS {
        assert_eq!(races(&trace, engine, true).len(), 1, "{engine:?} ignores missing methods");
        assert!(found(&trace, engine, true).ignores_missing(engine));
        assert_eq!(races(&trace, engine, false).len(), 0, "{engine:?} respects missing methods");
    }
    for engine in [RDIT, SB] {
        assert_eq!(races(&trace, engine, true).len(), 0, "{engine:?}");
        assert!(!found(&trace, engine, true).ignores_missing(engine));
    }
}

/// The same with sets that do not overlap: RDIT reports the race, SB does not.
fn true_race(text: &str) {
    let trace = trace(text);
    for engine in OTHERS.into_iter().chain([RDIT]) {
        assert_eq!(races(&trace, engine, false).len(), 1, "{engine:?}");
    }
}

#[test]
fn caveat_0_ad_hoc_synchronisation_in_missing_methods() {
    let text = "T1|w(x); T1|method-begin(a,{y}); T1|method-end(a); T2|method-begin(b,{y}); T2|method-end(b); T2|r(x)";
    ruled_out(text);
    let apart = text.replace("b,{y}", "b,{z}");
    true_race(&apart);
    // A simple barrier does not look at what methods could reach.
    assert_eq!(races(&trace(&apart), SB, false).len(), 0);
}

#[test]
fn caveat_1_calls_that_overlap_in_time_have_several_edges() {
    let text = "T1|method-begin(a,{y}); T3|w(x); T3|method-begin(d,{y}); T1|method-end(a); T1|r(x); T3|method-end(d)";
    ruled_out(text);
    true_race(&text.replace("d,{y}", "d,{z}"));
}

#[test]
fn caveat_2_events_observed_inside_of_calls() {
    let text = "T1|method-begin(a,{y}); T3|method-begin(d,{y}); T1|r(x); T3|w(x); T1|method-end(a); T3|method-end(d)";
    ruled_out(text);
    true_race(&text.replace("d,{y}", "d,{z}"));
}

#[test]
fn caveat_3_ordinary_events_that_a_call_could_have_met() {
    let text = "T1|method-begin(a,{y}); T1|r(x); T3|r(y); T3|w(x); T1|method-end(a)";
    ruled_out(text);
    true_race(&text.replace("a,{y}", "a,{z}"));
}

#[test]
fn caveat_4_orders_over_several_calls() {
    let text = "T2|w(x); T2|method-begin(c,{y}); T2|method-end(c); T4|method-begin(f,{y,z}); T4|method-end(f); \
                T3|method-begin(e,{z}); T3|method-end(e); T3|r(x)";
    ruled_out(text);
    true_race(&text.replace("f,{y,z}", "f,{z}"));
}

#[test]
fn caveat_5_globals_have_to_be_declared() {
    let text = "T1|r(g); T1|w(x); T1|method-begin(a,{}); T1|method-end(a); T2|method-begin(b,{}); T2|method-end(b); \
                T2|r(x)";
    true_race(text);
    let mut trace = trace(text);
    let declared = globals::parse(&["a=g".to_owned(), "b=g".to_owned()]).unwrap();
    globals::declare(&mut trace, &declared).unwrap();
    assert_eq!(races(&trace, RDIT, false).len(), 0);
    for wrong in ["a", "=g", "a="] {
        assert!(globals::parse(&[wrong.to_owned()]).is_err());
    }
    let unknown = globals::parse(&["c=g".to_owned()]).unwrap();
    assert!(globals::declare(&mut trace, &unknown).is_err());
}

/// What two methods share may be something that nothing else in the trace uses.
#[test]
fn caveat_5_globals_need_not_occur_in_the_trace() {
    let text = "T1|w(x); T1|method-begin(a,{}); T1|method-end(a); T2|method-begin(b,{}); T2|method-end(b); T2|r(x)";
    true_race(text);
    for object in ["hidden", "lock:hidden", "0x7000:4", "thread:hidden", "condition:c", "semaphore:s", "barrier:b"] {
        let mut trace = trace(text);
        let declared = globals::parse(&[format!("a={object}"), format!("b={object}")]).unwrap();
        globals::declare(&mut trace, &declared).unwrap();
        assert_eq!(races(&trace, RDIT, false).len(), 0, "{object}");
    }
}

#[test]
fn account() {
    let trace = read(include_str!("../../../examples/rdit/account.stx"));
    let lines = |engine: EngineRef| -> BTreeSet<(String, String)> {
        let line = |event: EventId| trace.location_of(event).to_owned();
        let found = found(&trace, engine, true);
        found.races.iter().map(|race| (line(race.first), line(race.second))).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|pair| (pair.0.to_owned(), pair.1.to_owned())).collect();
    let true_race = ("5", "8");
    let all: BTreeSet<_> = pairs(&[true_race, ("4", "16"), ("7", "17"), ("5", "19"), ("8", "19")]);
    for engine in OTHERS {
        assert_eq!(lines(engine), all, "{engine:?}");
    }
    assert_eq!(lines(RDIT), pairs(&[true_race]));
    assert_eq!(lines(SB), pairs(&[true_race]));
    for engine in OTHERS {
        assert_eq!(races(&trace, engine, false).len(), 1, "{engine:?} respects missing methods");
    }
}

/// The paper's constraints let the two writes change places, and report the pair on y; m may then find 1 in x and not come back.
#[test]
fn missing_code_finds_what_it_found() {
    let text = "T1|w(x)=1; T2|r(y)=0; T2|w(x)=2; T3|method-begin(m,{x}); T3|method-end(m); T3|w(y)=1; T1|r(z)=0";
    let trace = trace(text);
    let all = races(&trace, RDIT, false);
    // Neither may be left out before m, so the read of y comes first.
    assert!(!all.contains(&(1, 5)), "{all:?}");
    assert!(all.contains(&(0, 2)), "the writes race all the same: {all:?}");
}

/// Missing methods between accesses to memory that they could reach, which takes many accesses to spell out, and then races.
fn spelled_out() -> Trace {
    let mut text = String::from("%snag 1\n");
    text += "T3|w(z)|first\n";
    for _ in 0..20 {
        text += "T1|method-begin(a,{y})|call\nT1|method-end(a)|call\nT1|w(y)|one\nT2|r(y)|other\n";
    }
    for x in 0..5 {
        text += &format!("T1|w(x{x})|p{x}\nT2|w(x{x})|q{x}\n");
    }
    text += "T2|w(z)|last\n";
    read(&text)
}

#[test]
fn what_is_left_is_counted_where_missing_methods_are_spelled_out() {
    let trace = spelled_out();
    let all = analyse(&trace, &Options { engines: vec![MC.into()], ..Options::default() }, &Quiet);
    let some = analyse(
        &trace,
        &Options {
            engines: vec![MC.into()],
            settings: Settings { max_races: 1, ..Settings::default() },
            ..Options::default()
        },
        &Quiet,
    );
    assert!(all.races.len() >= 6, "{:?}", all.races);
    assert_eq!(some.races.len(), 1);
    assert!(!some.engines[0].complete);
    let left: u64 = some.left.iter().map(|left| left.count).sum();
    assert!(left >= all.races.len() as u64 - 1, "{:?}", some.left);
    // What shb has proved is not left open by the engine after it.
    let auto = analyse(
        &trace,
        &Options { settings: Settings { max_races: 1, ..Settings::default() }, ..Options::default() },
        &Quiet,
    );
    let by_shb = auto.races.iter().filter(|race| race.engine == SHB).count();
    assert_eq!(by_shb, 1);
}

#[test]
fn a_window_is_one_of_the_trace_as_it_was_given_where_missing_methods_are_spelled_out() {
    let trace = spelled_out();
    let found = |window: Option<usize>| {
        let options = Options {
            engines: vec![MC.into()],
            settings: Settings { window, ..Settings::default() },
            ..Options::default()
        };
        let races = analyse(&trace, &options, &Quiet).races;
        races.iter().map(|race| (race.first.0, race.second.0)).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(Some(trace.len())), found(None));
    let apart = found(Some(trace.len() - 1));
    assert!(
        apart.iter().all(|&(_, second)| (second as usize) < trace.len() - 1) && apart.len() + 1 == found(None).len()
    );
}
