//! Measures single queries of the maximal engine: how long, and which stage decides.
//!
//! The pairs are drawn at random from those that conflict and that neither locks nor the hard order rule out. Traces are
//! generated, of two shapes: many locks, and many values and branches.
//!
//! `cargo run --release -p snag-bench --bin queries -- [--pairs N] [--most EVENTS] [--level LEVEL] [--only SHAPE]`
//!
//! With `--features z3` a second table follows: the first `--z3-pairs N` of these queries, put to Z3, for windows of 1 000
//! and 10 000 events.

use snag_checker::Checker;
use snag_engines::maximal::{Answer, Index, Limits, Queries, Stage};
use snag_formats::reader::TraceReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};
use snag_synthesis::generate::{Generator, Shape};
use std::time::Instant;

/// A shape by its name, for so many events.
fn shape(name: &str, events: usize) -> Shape {
    let locks = Shape { events, threads: 8, locks: 12, nesting: 3, section: 4, racy: 0.05, ..Shape::default() };
    match name {
        "locks" => Shape { values: true, ..locks },
        "values" => Shape { values: true, branches: 0.3, nesting: 1, locks: 4, racy: 0.2, section: 12, ..locks },
        "threads" => Shape { values: true, threads: 16, ..locks },
        other => panic!("unknown shape {other}"),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

fn main() {
    let (mut pairs, mut most, mut level, mut only) = (500, 1_000_000, None, None);
    let mut z3_pairs = 60;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--pairs" => pairs = value.parse().expect("--pairs needs a number"),
            "--most" => most = value.parse().expect("--most needs a number"),
            "--z3-pairs" => z3_pairs = value.parse().expect("--z3-pairs needs a number"),
            "--level" => level = Some(value.parse().expect("--level needs a level")),
            "--only" => only = Some(value),
            other => panic!("unknown option {other}"),
        }
    }
    println!(
        "| shape | events | level | set-up s | median µs | mean µs | 99 % µs | max µs | races | bounds | nogood | ideal | local | search | search, of the time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let chosen = |name: &&str| only.as_ref().is_none_or(|only| only == name);
    let level_of = |name: &str| level.unwrap_or(if name == "values" { Level::Control } else { Level::Value });
    for name in ["locks", "values", "threads"].into_iter().filter(chosen) {
        for events in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&events| events <= most) {
            measure(name, events, level_of(name), pairs);
        }
    }
    if cfg!(feature = "z3") {
        println!(
            "\n| shape | events | who | pairs | median µs | mean µs | max µs | not decided | mean, ours better by |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for name in ["locks", "values"].into_iter().filter(chosen) {
            for events in [1_000, 10_000].into_iter().filter(|&events| events <= most) {
                z3::measure(name, events, level_of(name), z3_pairs);
            }
        }
    }
}

/// The same queries by Z3.
#[cfg(not(feature = "z3"))]
mod z3 {
    pub fn measure(_: &str, _: usize, _: snag_model::Level, _: usize) {}
}

#[cfg(feature = "z3")]
mod z3 {
    use super::{draw, generate};
    use snag_engines::maximal::z3::{Arithmetic, Options, Z3};
    use snag_engines::maximal::{Answer, Index, Limits, Queries};
    use snag_model::Level;
    use snag_model::{Cells, EventId};
    use std::time::{Duration, Instant};

    /// For one query.
    const LIMIT: Duration = Duration::from_secs(20);
    /// For all of one kind.
    const PATIENCE: Duration = Duration::from_secs(90);

    pub fn measure(name: &str, events: usize, level: Level, pairs: usize) {
        let trace = generate(name, events);
        let cells = Cells::of(&trace);
        let index = Index::new(&trace, &cells, level);
        let pairs = draw(&trace, &index, pairs);
        let (base, end) = (EventId(0), EventId::new(trace.len()));
        let mut queries = Queries::new(&index, Limits::default());
        let (ours, answers) = time(&pairs, |pair| queries.ask(pair).0);
        print(name, events, "ours", &ours, 0, mean(&ours));
        for arithmetic in [Arithmetic::General, Arithmetic::Difference] {
            let options = Options { arithmetic, timeout: Some(LIMIT), ..Options::default() };
            let z3 = Z3::new();
            let mut window = z3.window(&index, base, end, &options);
            let (times, found) = time(&pairs, |pair| window.ask(pair, &options));
            print(
                name,
                events,
                &format!("Z3, whole window, {arithmetic:?}"),
                &times,
                compare(&answers, &found),
                mean(&ours[..times.len()]),
            );
            let (times, found) = time(&pairs, |pair| z3.ask(&index, pair, base, end, &options));
            print(
                name,
                events,
                &format!("Z3, cone, {arithmetic:?}"),
                &times,
                compare(&answers, &found),
                mean(&ours[..times.len()]),
            );
        }
    }

    fn mean(times: &[f64]) -> f64 {
        times.iter().sum::<f64>() / times.len() as f64
    }

    /// Microseconds and answers, as far as there is time.
    fn time(pairs: &[(EventId, EventId)], mut ask: impl FnMut(&[EventId]) -> Answer) -> (Vec<f64>, Vec<Answer>) {
        let began = Instant::now();
        let (mut times, mut answers) = (Vec::new(), Vec::new());
        for &(a, b) in pairs {
            let started = Instant::now();
            answers.push(ask(&[a, b]));
            times.push(started.elapsed().as_secs_f64() * 1e6);
            if began.elapsed() > PATIENCE {
                break;
            }
        }
        (times, answers)
    }

    /// How many were not decided. The others must agree.
    fn compare(ours: &[Answer], theirs: &[Answer]) -> usize {
        let possible = |answer: &Answer| matches!(answer, Answer::Possible(_));
        let decided = |answer: &Answer| !matches!(answer, Answer::Unknown(_));
        for (one, other) in ours.iter().zip(theirs).filter(|(_, other)| decided(other)) {
            assert_eq!(possible(one), possible(other), "Z3 disagrees");
        }
        theirs.iter().filter(|answer| !decided(answer)).count()
    }

    fn print(name: &str, events: usize, who: &str, times: &[f64], undecided: usize, ours: f64) {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = mean(times);
        let (count, median, most) = (times.len(), sorted[times.len() / 2], sorted[times.len() - 1]);
        let ratio = mean / ours;
        println!(
            "| {name} | {events} | {who} | {count} | {median:.1} | {mean:.0} | {most:.0} | {undecided} | {ratio:.0} |"
        );
    }
}

fn generate(name: &str, events: usize) -> Trace {
    let generator = Generator::new(shape(name, events));
    TraceReader::new(Box::new(generator), None).read_all().expect("generated traces are well formed").0
}

fn measure(name: &str, events: usize, level: Level, pairs: usize) {
    let trace = generate(name, events);
    let cells = Cells::of(&trace);
    let started = Instant::now();
    let index = Index::new(&trace, &cells, level);
    let set_up = started.elapsed().as_secs_f64();
    let checker = Checker::new(&trace, &cells);
    let mut queries = Queries::new(&index, Limits::default());
    let mut times = Vec::new();
    let mut stages = [0usize; Stage::ALL.len()];
    let (mut races, mut searching) = (0, 0.0);
    for (a, b) in draw(&trace, &index, pairs) {
        let started = Instant::now();
        let (answer, stage) = queries.ask(&[a, b]);
        times.push(started.elapsed().as_secs_f64() * 1e6);
        if stage == Stage::Search {
            searching += times[times.len() - 1];
        }
        stages[Stage::ALL.iter().position(|&s| s == stage).expect("a stage")] += 1;
        match answer {
            Answer::Possible(schedule) => {
                races += 1;
                if let Err(why) = checker.check_race(schedule.iter(&trace), a, b, level) {
                    panic!("({a:?}, {b:?}) by {stage:?}: {why}");
                }
            }
            Answer::Impossible => {}
            Answer::Unknown(why) => panic!("({a:?}, {b:?}): {why:?}"),
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let in_search = 100.0 * searching / times.iter().sum::<f64>();
    let shares = stages.map(|count| format!("{:.1} %", 100.0 * count as f64 / times.len() as f64)).join(" | ");
    println!(
        "| {name} | {events} | {level} | {set_up:.2} | {:.1} | {mean:.1} | {:.0} | {:.0} | {races} | {shares} | {in_search:.0} % |",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Pairs at random, from those that conflict and that locks and hard order leave open.
fn draw(trace: &Trace, index: &Index, count: usize) -> Vec<(EventId, EventId)> {
    let mut by_variable: Vec<Vec<usize>> = vec![Vec::new(); trace.tables.variable_count()];
    let variable = |event: usize| trace.action(EventId::new(event)).variable().expect("an access");
    for (event, _) in trace.events.ops().iter().enumerate().filter(|(_, op)| op.is_access()) {
        by_variable[variable(event).index()].push(event);
    }
    let accesses: Vec<usize> = by_variable.iter().flatten().copied().collect();
    let mut random = Random(7);
    let mut pairs = Vec::new();
    for _ in 0..1000 * count {
        if pairs.len() == count {
            break;
        }
        let a = accesses[random.below(accesses.len())];
        let others = &by_variable[variable(a).index()];
        let b = others[random.below(others.len())];
        let (a, b) = (a.min(b), a.max(b));
        let conflict = trace.events.threads()[a] != trace.events.threads()[b]
            && trace.events.ops()[a].conflicts(trace.events.ops()[b]);
        if conflict && index.is_open(EventId::new(a), EventId::new(b)) {
            pairs.push((EventId::new(a), EventId::new(b)));
        }
    }
    pairs
}
