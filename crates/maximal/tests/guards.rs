//! Mutual exclusion by other means than locks: no pair is left to ask about, and no race is lost.

use snag_maximal::{Index, Lowered, Pairs};
use snag_oracle::random::{Rng, Shape, for_random_traces};
use snag_oracle::search;
use snag_schedule::Level;
use snag_trace::text_format::TextReader;
use snag_trace::{Cells, Trace, TraceReader};

fn pairs(text: &str, level: Level) -> usize {
    let text = format!("%snag 1\n{}", text.trim_start());
    let reader = TextReader::new(std::io::Cursor::new(text));
    let trace: Trace = TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0;
    let cells = Cells::of(&trace);
    let index = Index::new(&trace, &cells, level);
    let pairs = Pairs::of(&index, None);
    pairs.tasks.iter().map(|task| pairs.of_task(task).count()).sum()
}

#[test]
fn a_semaphore_that_starts_at_one_is_a_lock_if_all_take_turns() {
    let protected = "T1|sem-wait(s)|\nT1|w(x)|\nT1|sem-post(s)|\nT2|sem-wait(s)|\nT2|w(x)|\nT2|sem-post(s)|\n";
    assert_eq!(pairs(&format!("%semaphore s 1\n{protected}"), Level::Writer), 0);
    assert_eq!(pairs(&format!("%semaphore s 2\n{protected}"), Level::Writer), 1);
    // A third thread posts without having waited.
    assert_eq!(pairs(&format!("%semaphore s 1\n{protected}T3|sem-post(s)|\n"), Level::Writer), 1);
}

const SPIN: &str = "
%init l 0
T1|rmw(l,acquire)=0:1|
T1|w(x)=1|
T2|rmw(l,acquire)=1:1|
T1|atomic-w(l,release)=0|
T2|rmw(l,acquire)=0:1|
T2|w(x)=2|
T2|rmw(l,release)=1:0|
";

#[test]
fn a_spin_lock_is_a_lock_where_its_reads_must_be_kept() {
    assert_eq!(pairs(SPIN, Level::Value), 0);
    // Nobody looks at what was read.
    assert!(pairs(&format!("{SPIN}T1|branch|\n"), Level::Control) > 0);
    let looked_at = SPIN.replace("=0:1|\n", "=0:1|\n@|branch|\n");
    let mut last = String::new();
    let looked_at: String = looked_at
        .lines()
        .map(|line| {
            let line = line.replace('@', &last);
            last = line.split('|').next().unwrap_or_default().to_owned();
            line + "\n"
        })
        .collect();
    assert_eq!(pairs(&looked_at, Level::Control), 0);
}

#[test]
fn a_cell_that_somebody_outside_frees_is_no_lock() {
    assert_eq!(pairs(&format!("{SPIN}T3|atomic-w(l,release)=0|\n"), Level::Value), 1);
}

#[test]
fn a_lock_may_be_made_by_a_write_that_comes_before_all_else() {
    let made = |first: &str| format!("{first}{}", SPIN.replace("%init l 0\n", ""));
    assert_eq!(pairs(&made("T0|w(l)=0|\nT0|fork(T1)|\nT0|fork(T2)|"), Level::Value), 0);
    assert_eq!(pairs(&made("T0|w(l)=7|\nT0|w(l)=0|\nT0|fork(T1)|\nT0|fork(T2)|"), Level::Value), 0);
    // Nothing says that the second thread comes after it.
    assert!(pairs(&made("T0|w(l)=0|\nT0|fork(T1)|"), Level::Value) > 0);
    // It is made again, after all of the first use.
    let again = "T0|join(T1)|\nT0|join(T2)|\nT0|w(l)=5|\nT0|fork(T3)|\nT0|fork(T4)|\nT3|rmw(l,acquire)=5:6|\nT3|w(y)=1|\n\
                 T3|rmw(l,release)=6:5|\nT4|rmw(l,acquire)=5:6|\nT4|w(y)=2|\nT4|rmw(l,release)=6:5|\n";
    let twice = made("T0|w(l)=0|\nT0|fork(T1)|\nT0|fork(T2)|") + again;
    assert_eq!(pairs(&twice, Level::Value), 0);
}

/// Few cells, many read-modify-writes with small values, semaphores that start at one.
fn guarded(rng: &mut Rng) -> Shape {
    let mut shape = Shape::with_values(rng);
    shape.weights.atomics = 10;
    shape.weights.plain = 5;
    shape.weights.locks = 0;
    shape.weights.semaphores = rng.pick(&[0, 4]);
    shape.unexplained = 0;
    shape.values = 100;
    shape.ranges = 0;
    shape
}

#[test]
fn no_race_is_lost_to_a_guard() {
    for_random_traces(400_000..415_000, guarded, |trace| {
        let cells = Cells::of(trace);
        for level in [Level::Writer, Level::Value, Level::Control] {
            let lowered = Lowered::of(trace, &cells, level);
            let index = Index::new(lowered.trace(), lowered.cells(), level);
            let pairs = Pairs::of(&index, None);
            let originals = |(a, b)| Some((lowered.original(a)?, lowered.original(b)?));
            let asked: Vec<_> = pairs.tasks.iter().flat_map(|task| pairs.of_task(task)).filter_map(originals).collect();
            if let Some(race) = search::races(trace, level).iter().find(|race| !asked.contains(race)) {
                return Err(format!("{level}: {race:?} is not asked about"));
            }
        }
        Ok(())
    });
}
