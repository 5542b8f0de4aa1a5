//! Engines that do not look at the time: nobody waits for them, and what they have proved is not lost.

use snag_engines::{MC, SHB};
use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::Trace;
use snag_pipeline::condense::Condensed;
use snag_pipeline::{
    Again, Analysis, Choice, Options, Progress, Quiet, Settings, SoFar, analyse, analyse_condensed_into,
};
use snag_pipeline::{analyse_into, wait_for};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads with memory of their own that race `races` times.
fn trace(races: usize) -> Arc<Trace> {
    let mut text = String::new();
    for race in 0..races {
        text += &format!("A|w(a)|1\nA|r(a)|2\nA|w(x{race})|A:{race}\nB|w(b)|3\nB|r(b)|4\nB|w(x{race})|B:{race}\n");
    }
    let reader = StdReader::new(std::io::Cursor::new(text));
    Arc::new(TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0)
}

/// Lets the engine stand still in a phase, once a part of it is done.
#[derive(Default)]
struct Stuck {
    phase: Mutex<String>,
    stands: AtomicBool,
}

impl Progress for Stuck {
    fn phase(&self, name: &str, _: u64) {
        *self.phase.lock().unwrap() = name.to_owned();
    }
    fn advance(&self, done: u64) {
        let is_engine = std::thread::current().name() == Some("analysis");
        let proves = self.phase.lock().unwrap().ends_with("proving");
        if is_engine && proves && done == 3 && !self.stands.swap(true, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(3));
        }
    }
    fn cancelled(&self) -> bool {
        false
    }
}

#[test]
fn what_an_engine_has_proved_before_it_was_given_up_is_reported() {
    let (trace, so_far, stuck) = (trace(10), Arc::new(SoFar::default()), Arc::new(Stuck::default()));
    let options = Options {
        engines: vec![SHB.into()],
        settings: Settings { budget: Some(Duration::from_millis(500)), ..Settings::default() },
        ..Options::default()
    };
    let deadline = Some(Instant::now() + Duration::from_millis(500));
    let done = wait_for(&*stuck.clone(), deadline, {
        let (trace, so_far, options) = (trace.clone(), so_far.clone(), options.clone());
        move || analyse_into(&trace, &options, &stuck, &so_far)
    });
    assert_eq!(done, None, "it did not stand still");
    let analysis = so_far.take_early(&options, &trace, trace.len());
    assert_eq!(analysis.races.len(), 3);
    let left: Vec<(&str, u64)> = analysis.left.iter().map(|left| (left.reason.as_str(), left.count)).collect();
    assert_eq!(left, [("not checked in time", 7)]);
    assert!(analysis.engines.iter().all(|report| !report.complete) && analysis.engines.len() == 1);
}

fn beginning(trace: &Trace, events: usize) -> Trace {
    let mut beginning = Trace { tables: trace.tables.clone(), ..Trace::default() };
    (0..events).for_each(|event| beginning.events.push(trace.events.get(event)));
    beginning
}

/// What is found in what is left of a trace, of which so many events are there when it is read again.
fn condensed(trace: &Arc<Trace>, read: Option<usize>, options: &Options) -> Analysis {
    let (condensed, so_far) = (Condensed::of(trace).expect("no expressions"), SoFar::default());
    assert!(condensed.trace.len() < trace.len());
    let read = |_: &Analysis| read.map(|events| Arc::new(beginning(trace, events)));
    let again = Again { read: &read, takes: Duration::ZERO };
    analyse_condensed_into(&condensed, options, &Quiet, None, &so_far, &again);
    so_far.take(&options.engines)
}

#[test]
fn of_a_trace_that_was_read_again_in_part_what_lies_in_that_part_is_proved() {
    let trace = trace(10);
    for engine in [Choice::Auto, SHB.into(), MC.into()] {
        let options = Options { engines: vec![engine], ..Options::default() };
        let all = analyse(&trace, &Options { condense_from: usize::MAX, ..options.clone() }, &Quiet);
        assert_eq!(all.races.len(), 10);
        assert_eq!(condensed(&trace, Some(trace.len()), &options).races.len(), 10);
        for (events, proved) in [(59, 9), (30, 5), (5, 0), (0, 0)] {
            let part = condensed(&trace, Some(events), &options);
            let found =
                |analysis: &Analysis| analysis.races.iter().map(|race| (race.first, race.second)).collect::<Vec<_>>();
            assert_eq!(found(&part), found(&all)[..proved], "{engine:?} {events}");
            let open: u64 = part.left.iter().map(|left| left.count).sum();
            assert_eq!(open, 10 - proved as u64, "{engine:?} {events}");
            assert!(!part.engines[0].complete);
        }
        let none = condensed(&trace, None, &options);
        assert!(none.races.is_empty() && none.left.iter().map(|left| left.count).sum::<u64>() == 10);
    }
}
