//! Mutual exclusion by other means than locks: no pair is left to ask about, and no race is lost.

use snag_engines::maximal::{Index, Lowered, Pairs};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};
use snag_testkit::random::{Rng, Shape, for_random_traces, seeds};
use snag_testkit::search;

fn trace(text: &str) -> Trace {
    let text = format!("%snag 1\n{}", text.trim_start());
    let reader = TextReader::new(std::io::Cursor::new(text));
    TraceReader::new(Box::new(reader), None).read_all().expect("well formed").0
}

fn pairs(text: &str, level: Level) -> usize {
    let trace = trace(text);
    let cells = Cells::of(&trace);
    let index = Index::new(&trace, &cells, level);
    let pairs = Pairs::of(&index, None);
    pairs.tasks.iter().map(|task| pairs.of_task(task, &|| false).count()).sum()
}

/// The pairs that are left to ask about.
fn asked(trace: &Trace, level: Level) -> Vec<(EventId, EventId)> {
    let cells = Cells::of(trace);
    let lowered = Lowered::of(trace, &cells, level);
    let index = Index::new(lowered.trace(), lowered.cells(), level);
    let pairs = Pairs::of(&index, None);
    let originals = |(a, b)| Some((lowered.original(a)?, lowered.original(b)?));
    pairs.tasks.iter().flat_map(|task| pairs.of_task(task, &|| false)).filter_map(originals).collect()
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

/// Two readers, of which the first one in is the first one out, and a writer.
const COUNTER: &str = "
%init l 0
T1|rmw(l,acquire)=0:4|
T1|r(x)=0|
T2|rmw(l,acquire)=4:8|
T2|r(x)=0|
T1|rmw(l,release)=8:4|
T2|rmw(l,release)=4:0|
T3|rmw(l,acquire)=0:1|
T3|w(x)=1|
T3|rmw(l,release)=1:0|
";

#[test]
fn a_counter_is_a_lock_for_reading_and_writing() {
    assert_eq!(pairs(COUNTER, Level::Value), 0);
    // Readers are inside together, so what they write may be a race.
    let both_write = COUNTER.replace("T1|r(x)=0", "T1|w(x)=0").replace("T2|r(x)=0", "T2|w(x)=0");
    assert_eq!(pairs(&both_write, Level::Value), 1);
    // A thread has come in from the value that the writer leaves.
    let beside = format!("{COUNTER}T4|rmw(l,acquire)=0:1|\nT1|rmw(l,acquire)=1:5|\nT1|r(x)=1|\n");
    assert!(pairs(&beside, Level::Value) > 0);
    // What one thread adds another one takes away: that says nothing about who is inside.
    let by_another = COUNTER.replace("T1|rmw(l,release)=8:4", "T5|rmw(l,release)=8:4");
    assert!(pairs(&by_another, Level::Value) > 0);
}

#[test]
fn what_a_lock_was_made_with_is_known_by_who_saw_it() {
    // A copy of many bytes, which has no value.
    let lock = |text: &str| text.replace("(l,", "(0x1008:8,").replace("%init l 0\n", "");
    let made = |text: &str| {
        let first = "T0|w(0x1000:64)|\nT0|fork(T1)|\nT0|fork(T2)|\nT0|fork(T3)|\n";
        format!("{first}{}", lock(text).trim_start())
    };
    assert_eq!(pairs(&made(COUNTER), Level::Value), 0);
    assert_eq!(pairs(&made(SPIN), Level::Value), 0);
}

#[test]
fn a_lock_may_be_made_late_and_found_by_what_says_where_it_is() {
    let found =
        |first: &str, by: &str| format!("%init p 0\n{first}{by}{}", SPIN.replace("%init l 0\n", "").trim_start());
    let made = "T1|w(l)=0|\nT1|atomic-w(p,release)=4096|\n";
    assert_eq!(pairs(&found(made, "T2|atomic-r(p,acquire)=4096|\n"), Level::Value), 0);
    // Nothing says that the second thread has found it.
    assert!(pairs(&found(made, "T2|atomic-r(q,acquire)=4096|\n"), Level::Value) > 0);
    // What it saw may have come from elsewhere.
    let elsewhere = format!("T3|atomic-w(p,release)=4096|\n{made}");
    assert!(pairs(&found(&elsewhere, "T2|atomic-r(p,acquire)=4096|\n"), Level::Value) > 0);
}

/// The same as [`counting`], with a lock that is made by a write, and threads that mostly find out where it is first.
fn made_late(rng: &mut Rng) -> String {
    let mut text = String::from("%init p 0\n");
    let mut place = 0;
    if rng.chance(20) {
        text += "T1|atomic-w(p,release)=1|\n";
        place = 1;
    }
    text += "T0|w(l)=0|\n";
    if rng.chance(90) {
        text += "T0|atomic-w(p,release)=1|\n";
        place = 1;
    }
    for thread in 1..3 {
        if rng.chance(80) {
            text += &format!("T{thread}|atomic-r(p,acquire)={place}|\n");
        }
    }
    text + &counting(rng).replace("%init l 0\n", "")
}

#[test]
fn no_race_is_lost_to_a_lock_that_is_made_late() {
    let mut excluded = 0;
    for seed in seeds(0..6_000) {
        let text = made_late(&mut Rng::new(seed));
        let (declarations, events): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('%'));
        let text = [declarations, events].concat().join("\n") + "\n";
        let trace = trace(&text);
        let asked = asked(&trace, Level::Value);
        let lost = search::races(&trace, Level::Value).into_iter().find(|race| !asked.contains(race));
        assert_eq!(lost, None, "seed {seed}:\n{text}");
        excluded += asked.is_empty() as usize;
    }
    assert!(excluded > 100, "the lock excludes all pairs in {excluded} traces only");
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

/// Threads that come in and go out by a counter as readers and writers do, and now and then as nobody should. A bit beside
/// the counter notes something.
fn counting(rng: &mut Rng) -> String {
    let mut text = String::from("%init l 0\n%init x 0\n");
    let (mut value, mut x) = (0i64, 0);
    let noted = rng.chance(60);
    // What each thread has added.
    let mut shares = [0i64; 3];
    for _ in 0..14 {
        let thread = rng.below(3);
        let share = &mut shares[thread];
        let count = value % 32;
        let change = match (rng.below(9), *share) {
            (0..=2, 0) if count % 4 == 0 => 4,
            (3 | 4, 0) if count == 0 => 1,
            (0..=3, share) if share > 0 => -share,
            (4, _) => rng.pick(&[0, 1, 3, 4]),
            (8, _) if noted => {
                let other = value ^ 32;
                text += &format!("T{thread}|rmw(l,acq_rel)={value}:{other}|\n");
                value = other;
                continue;
            }
            (5, _) => {
                x += 1;
                text += &format!("T{thread}|w(x)={x}|\n");
                continue;
            }
            _ => {
                text += &format!("T{thread}|r(x)={x}|\n");
                continue;
            }
        };
        *share += change;
        text += &format!("T{thread}|rmw(l,acq_rel)={value}:{}|\n", value + change);
        value += change;
    }
    text
}

#[test]
fn no_race_is_lost_to_a_counter() {
    let mut excluded = 0;
    for seed in seeds(0..6_000) {
        let text = counting(&mut Rng::new(seed));
        let trace = trace(&text);
        let asked = asked(&trace, Level::Value);
        let lost = search::races(&trace, Level::Value).into_iter().find(|race| !asked.contains(race));
        assert_eq!(lost, None, "seed {seed}:\n{text}");
        excluded += asked.is_empty() as usize;
    }
    assert!(excluded > 600, "the counter excludes all pairs in {excluded} traces only");
}

#[test]
fn no_race_is_lost_to_a_guard() {
    for_random_traces(400_000..415_000, guarded, |trace| {
        for level in [Level::Writer, Level::Value, Level::Control] {
            let asked = asked(trace, level);
            if let Some(race) = search::races(trace, level).iter().find(|race| !asked.contains(race)) {
                return Err(format!("{level}: {race:?} is not asked about"));
            }
        }
        Ok(())
    });
}

/// Threads that all live at once and write the same variable one after the other, and one that does so at any time.
fn crowd(threads: usize) -> Trace {
    let mut text = String::new();
    for thread in 0..=threads {
        text += &format!("M|fork(T{thread})|a\nT{thread}|w(own{thread})|b\n");
    }
    for thread in 0..threads {
        if let Some(before) = thread.checked_sub(1) {
            text += &format!("T{thread}|join(T{before})|c\n");
        }
        text += &format!("T{thread}|w(x)|d\n");
    }
    trace(&format!("{text}T{threads}|w(x)|d\n"))
}

#[test]
fn where_very_many_threads_are_ordered_the_search_for_a_pair_can_be_stopped() {
    let trace = crowd(100);
    let cells = Cells::of(&trace);
    let index = Index::new(&trace, &cells, Level::Writer);
    let pairs = Pairs::of(&index, None);
    let task = pairs.tasks.first().expect("one thread is not ordered");
    let asked = std::cell::Cell::new(0);
    let first = |most: usize| {
        asked.set(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > most
        };
        pairs.of_task(task, &stop).next()
    };
    assert!(first(usize::MAX).is_some());
    let whole = asked.get();
    assert!(whole > 1000, "asked {whole} times");
    assert_eq!((first(10), asked.get()), (None, 11));
}
