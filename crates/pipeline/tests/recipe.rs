//! Recipe in the pipeline: the figures of its paper, and random programs whose races are known.

use snag_checker::Checker;
use snag_engines::{MC, RECIPE, SHB};
use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::Level;
use snag_model::{Cells, EventId, Trace};
use snag_pipeline::{Analysis, Choice, Options, Quiet, Race, Settings, SoFar, analyse};
use snag_recipe_lang::{Plan, compile, explore, random, run};
use snag_testkit::Rng;
use snag_testkit::dense::{Dense, symbolic_trace};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FIGURE_1: &str = include_str!("../../../examples/recipe/figure1.rcp");
const FIGURE_2: &str = include_str!("../../../examples/recipe/figure2.rcp");
const FIGURE_4: &str = include_str!("../../../examples/recipe/figure4.rcp");

/// The trace of a program under a schedule.
fn traced(text: &str, schedule: &str) -> Trace {
    let program = compile("p", text).unwrap_or_else(|mistake| panic!("{}", mistake.show("p", text)));
    let turns = Plan::parse_turns(&program, schedule).expect("the threads exist");
    run(&program, &Plan { turns, ..Plan::default() }).expect("the program runs").trace
}

/// The trace of some lines of Snag's text.
fn read(text: &str) -> Trace {
    let text = format!("%snag 1\n{}\n", text.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
    let reader = TextReader::new(std::io::Cursor::new(text.into_bytes()));
    TraceReader::new(Box::new(reader), None).read_all().expect("the trace is well formed").0
}

fn with(trace: &Trace, engine: impl Into<Choice>, level: Option<Level>) -> Analysis {
    let engine = engine.into();
    let options =
        Options { engines: vec![engine], settings: Settings { level, ..Settings::default() }, ..Options::default() };
    let analysis = analyse(trace, &options, &Quiet);
    assert!(analysis.engines.iter().all(|report| report.complete), "{engine:?} {level:?}: {:?}", analysis.engines);
    analysis
}

type Pairs = BTreeSet<(String, String)>;

/// The findings as pairs of locations.
fn pairs(trace: &Trace, analysis: &Analysis) -> Pairs {
    let location = |event: EventId| trace.location_of(event).to_owned();
    let pair = |race: &Race| {
        (location(race.first).min(location(race.second)), location(race.first).max(location(race.second)))
    };
    analysis.races.iter().map(pair).collect()
}

/// The same as lines.
fn lines(trace: &Trace, analysis: &Analysis) -> Vec<(u32, u32)> {
    let line = |text: &str| text.rsplit(':').next().expect("a location has a line").parse().expect("lines are numbers");
    let mut all: Vec<(u32, u32)> = pairs(trace, analysis)
        .into_iter()
        .map(|(a, b)| (line(&a), line(&b)))
        .map(|(a, b): (u32, u32)| (a.min(b), a.max(b)))
        .collect();
    all.sort_unstable();
    all
}

/// Every race of level `symbolic` carries the values that the checker wants to see.
fn verified(trace: &Trace, analysis: &Analysis) {
    let cells = Cells::of(trace);
    let checker = Checker::new(trace, &cells);
    for race in analysis.races.iter().filter(|race| race.level == Level::Symbolic) {
        let schedule = race.witness.iter(trace);
        checker.check_race_with_values(schedule, &race.diverging, &race.reads, race.first, race.second).unwrap();
    }
}

/// The lines of the races that an engine finds at a level.
fn found(trace: &Trace, engine: impl Into<Choice>, level: Option<Level>) -> Vec<(u32, u32)> {
    let analysis = with(trace, engine, level);
    verified(trace, &analysis);
    lines(trace, &analysis)
}

#[test]
fn figure_1_needs_values_for_one_race_and_the_other_way_of_a_branch_for_another() {
    let trace = traced(FIGURE_1, "T1,T2");
    for level in [Level::Writer, Level::Value, Level::Control] {
        let races = found(&trace, MC, Some(level));
        assert!(!races.contains(&(8, 13)) && !races.contains(&(8, 15)), "{level}: {races:?}");
    }
    let analysis = with(&trace, RECIPE, None);
    verified(&trace, &analysis);
    assert_eq!(lines(&trace, &analysis), [(7, 12), (8, 13), (8, 15), (9, 12)]);
    let race = |a: u32, b: u32| {
        let same =
            |race: &&Race| lines(&trace, &Analysis { races: vec![(*race).clone()], ..Analysis::default() }) == [(a, b)];
        analysis.races.iter().find(same).expect("it was found")
    };
    // Line 12 reads y = 3 in the one, and in the other y = 0: then it goes the other way.
    assert_eq!(race(8, 13).reads[0].1, 3);
    assert!(race(8, 13).diverging.is_empty());
    assert_eq!(race(8, 15).reads[0].1, 0);
    assert_eq!(race(8, 15).diverging.len(), 1);
    assert_eq!(found(&trace, Choice::Auto, None), [(7, 12), (8, 13), (8, 15), (9, 12)]);
}

#[test]
fn figure_1_with_another_z_refutes_the_first_race() {
    let trace = traced(&FIGURE_1.replace("z = 2", "z = 4"), "T1,T2");
    assert_eq!(found(&trace, RECIPE, None), [(7, 12), (8, 15), (9, 12)]);
}

#[test]
fn figure_2_has_the_races_of_the_running_example() {
    let trace = traced(FIGURE_2, "main,T1,T2");
    let races = found(&trace, RECIPE, None);
    let program = compile("p", FIGURE_2).expect("it compiles");
    let real = explore(&program, 100_000);
    assert!(real.complete);
    for pair in pairs(&trace, &with(&trace, RECIPE, None)) {
        assert!(real.location_pairs().contains(&pair), "{pair:?} is no race");
    }
    // x = 1 against x + 1 with y = 3, and against x + 2 on the other side.
    assert!(races.contains(&(16, 21)) && races.contains(&(16, 24)), "{races:?}");
}

#[test]
fn figure_4_follows_values_through_whichever_method_is_called() {
    for schedule in ["caller,other", "other,caller"] {
        let trace = traced(FIGURE_4, schedule);
        let real = explore(&compile("p", FIGURE_4).expect("it compiles"), 100_000).location_pairs();
        let races = pairs(&trace, &with(&trace, RECIPE, None));
        assert!(!races.is_empty() && races.is_subset(&real), "{schedule}: {races:?}, {real:?}");
    }
}

/// T1 writes d in line 2 and x in line 3; T2 reads x as `a`, does something with it, and writes d in line 5. Only if that
/// something is also possible with what x holds at first, lines 2 and 5 race; and then at level `symbolic` alone.
fn race_if_read_early(sort: &str, first: i64, then: i64, something: &[&str]) -> bool {
    let mut text = format!(
        "%init x {first}
        main|fork(T1)|
        main|fork(T2)|
        T1|w(d)=1<-1|f:2
        T1|w(x)={then}<-({sort} {then})|f:3
        T2|r(x)={then}->a:{sort}|f:4\n"
    );
    something.iter().for_each(|what| text += &format!("T2|{what}|f:4\n"));
    text += "T2|w(d)=2<-2|f:5";
    let trace = read(&text);
    let by_branch = something.iter().any(|what| what.starts_with("branch"));
    let control = found(&trace, MC, Some(Level::Control)).contains(&(2, 5));
    assert!(!(by_branch && control), "level control has it");
    found(&trace, RECIPE, None).contains(&(2, 5))
}

#[test]
fn overflow_wraps_around_in_its_type() {
    let more = ["branch((> (+ a 1) 0))=1"];
    assert!(race_if_read_early("i8", 126, 1, &more));
    assert!(!race_if_read_early("i8", 127, 1, &more));
    assert!(race_if_read_early("u8", 127, 1, &more));
    assert!(!race_if_read_early("u8", 255, 1, &more));
    assert!(race_if_read_early("i32", 127, 1, &more));
    assert!(!race_if_read_early("i64", i64::MAX, 1, &more));
    assert!(race_if_read_early("int", i64::MAX, 1, &more));
    let product = ["let(b)=(* a a)", "branch((= b 0))=1"];
    assert!(race_if_read_early("i8", 16, 0, &product));
    assert!(!race_if_read_early("i16", 16, 0, &product));
    assert!(race_if_read_early("u64", 1 << 32, 0, &product));
    assert!(race_if_read_early("u64", i64::MIN, 0, &product));
    assert!(!race_if_read_early("int", 1 << 32, 0, &product));
}

#[test]
fn signed_division_rounds_towards_zero() {
    let half = ["branch((= (/ a 2) -1))=1"];
    assert!(race_if_read_early("i64", -3, -2, &half));
    assert!(!race_if_read_early("i64", -1, -2, &half));
    assert!(race_if_read_early("int", -3, -2, &half));
    let odd = ["branch((= (% a 2) -1))=1"];
    assert!(race_if_read_early("i8", -3, -5, &odd));
    assert!(!race_if_read_early("i8", 3, -5, &odd));
    // The smallest number has no opposite.
    let opposite = ["branch((!= (/ a (i8 -1)) 5))=1"];
    assert!(race_if_read_early("i8", -127, 1, &opposite));
    assert!(!race_if_read_early("i8", -128, 1, &opposite));
}

#[test]
fn division_by_what_may_become_zero() {
    let quotient = ["branch((< (/ 10 a) 9))=1"];
    assert!(race_if_read_early("i64", 5, 2, &quotient));
    assert!(!race_if_read_early("i64", 0, 2, &quotient));
    // No branch, but the program would crash.
    let computed = ["let(q)=(/ 10 a)"];
    assert!(race_if_read_early("i64", 5, 2, &computed));
    assert!(!race_if_read_early("i64", 0, 2, &computed));
    assert!(!race_if_read_early("int", 0, 2, &["let(q)=(% 10 a)"]));
    // Only what is chosen is computed.
    assert!(race_if_read_early("i64", 0, 2, &["let(q)=(ite (= a 0) 7 (/ 10 a))"]));
    assert!(!race_if_read_early("i32", 32, 2, &["let(q)=(shl 1 a)"]));
    assert!(race_if_read_early("i32", 31, 2, &["let(q)=(shl 1 a)"]));
}

#[test]
fn an_array_index_from_a_shared_read_is_kept() {
    let element = ["branch{index}((= (+ a 1) 3))=1", "w(array[3])=9<-9"];
    assert!(!race_if_read_early("i64", 1, 2, &element));
    // Another value that gives the same index.
    let element = ["branch{index}((= (% a 4) 2))=1", "w(array[2])=9<-9"];
    assert!(race_if_read_early("i64", 6, 2, &element));
    assert!(!race_if_read_early("i64", 5, 2, &element));
}

#[test]
fn a_lock_chosen_by_a_shared_read_is_kept() {
    let other = ["branch{lock}((= (bitand a 1) 1))=1", "acq(locks[1])"];
    assert!(race_if_read_early("i64", 3, 1, &other));
    assert!(!race_if_read_early("i64", 2, 1, &other));
    // The same lock on both sides.
    let trace = read(
        "%init x 3
        main|fork(T1)|
        main|fork(T2)|
        T1|acq(locks[1])|f:1
        T1|w(d)=1<-1|f:2
        T1|rel(locks[1])|f:2
        T1|w(x)=1<-1|f:3
        T2|r(x)=1->a|f:4
        T2|branch{lock}((= (bitand a 1) 1))=1|f:4
        T2|acq(locks[1])|f:4
        T2|w(d)=2<-2|f:5",
    );
    assert!(!found(&trace, RECIPE, None).contains(&(2, 5)));
}

#[test]
fn a_pointer_read_from_shared_memory_is_kept() {
    let through = ["branch{address}((= a 4096))=1", "w(0x1000:8)=1<-1"];
    assert!(!race_if_read_early("u64", 8192, 4096, &through));
    // What is not followed may change.
    assert!(race_if_read_early("u64", 8192, 4096, &["branch((!= a 0))=1"]));
    assert!(!race_if_read_early("u64", 0, 4096, &["branch((!= a 0))=1"]));
}

/// Whatever the size of the windows, what is found in them is real, and found without them, too.
#[test]
fn windows_find_only_what_the_whole_trace_has() {
    let (mut whole, mut in_windows) = (0, 0);
    for seed in 0..150 {
        let text = random::program(seed);
        let program = compile("p", &text).unwrap_or_else(|mistake| panic!("{seed}: {}", mistake.show("p", &text)));
        let trace = run(&program, &Plan { seed, ..Plan::default() }).expect("the program runs").trace;
        if trace.is_empty() {
            continue;
        }
        let all = pairs(&trace, &with(&trace, RECIPE, None));
        for size in [5, 12, 40] {
            let options = Options {
                engines: vec![RECIPE.into()],
                settings: Settings { window: Some(size), ..Settings::default() },
                ..Options::default()
            };
            let analysis = analyse(&trace, &options, &Quiet);
            verified(&trace, &analysis);
            for race in &analysis.races {
                let (first, second) = (race.first.index(), race.second.index());
                assert_eq!(first / size, second / size, "seed {seed}: a pair of two windows\n{text}");
                let prefix = race.witness.iter(&trace).take(first / size * size);
                assert!(prefix.eq((0..first / size * size).map(EventId::new)), "seed {seed}: a changed past\n{text}");
            }
            let found = pairs(&trace, &analysis);
            assert!(found.is_subset(&all), "seed {seed}, {size}: {found:?}, without windows {all:?}\n{text}");
            in_windows += found.len();
            if size >= trace.len() {
                assert_eq!(found, all, "seed {seed}: one window is the whole trace\n{text}");
            }
        }
        whole += all.len();
    }
    assert!(in_windows > whole / 2 && in_windows < 3 * whole, "{in_windows} {whole}");
}

/// Everything is symbolic, no two events share a location, and there are more pairs than anybody could decide in the time.
#[test]
fn a_budget_ends_the_engine_and_what_is_left_is_counted() {
    let shape = Dense {
        threads: 6,
        variables: 12,
        locks: 3,
        steps: 2000,
        sort: snag_model::symbolic::Sort::from_word("i64").expect("a type"),
        branches: 14,
        sides: 50,
        stay: 75,
        join: true,
    };
    let trace = symbolic_trace(&shape, &mut Rng::new(7));
    for budget in [Duration::ZERO, Duration::from_millis(300)] {
        let options = Options {
            engines: vec![RECIPE.into()],
            settings: Settings { budget: Some(budget), ..Settings::default() },
            ..Options::default()
        };
        let started = Instant::now();
        let analysis = analyse(&trace, &options, &Quiet);
        // All questions together would take hours.
        assert!(started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
        verified(&trace, &analysis);
        assert!(!analysis.engines[0].complete);
        let left: u64 = analysis.left.iter().filter(|left| left.engine == RECIPE).map(|left| left.count).sum();
        assert!(left > 1000, "{left}");
    }
}

/// On random programs: what is found is real, and each level finds what the ones before find. `SEEDS=5000` looks at as many
/// as `bench/README.md` has figures of.
#[test]
fn every_race_of_a_random_program_is_real() {
    let (mut real, mut by_value, mut by_control, mut by_recipe, mut programs) = (0, 0, 0, 0, 0);
    let most = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1500);
    for seed in 0..most {
        let text = random::program(seed);
        let program = compile("p", &text).unwrap_or_else(|mistake| panic!("{seed}: {}", mistake.show("p", &text)));
        let explored = explore(&program, 20_000);
        if !explored.complete {
            continue;
        }
        let trace = run(&program, &Plan { seed, ..Plan::default() }).expect("the program runs").trace;
        if trace.is_empty() {
            continue;
        }
        programs += 1;
        let truth = explored.location_pairs();
        let value = pairs(&trace, &with(&trace, MC, Some(Level::Value)));
        let control = pairs(&trace, &with(&trace, MC, Some(Level::Control)));
        let analysis = with(&trace, RECIPE, None);
        verified(&trace, &analysis);
        let recipe = pairs(&trace, &analysis);
        for (level, less, more) in
            [("value", &value, &control), ("control", &control, &recipe), ("symbolic", &recipe, &truth)]
        {
            assert!(less.is_subset(more), "seed {seed}: {level} has {less:?}, and beyond that only {more:?}\n{text}");
        }
        real += truth.len();
        by_value += value.len();
        by_control += control.len();
        by_recipe += recipe.len();
    }
    println!(
        "{programs} programs, {real} real races; found: {by_value} value, {by_control} control, {by_recipe} recipe"
    );
    assert!(by_recipe > by_control && by_control >= by_value);
}

#[test]
fn an_engine_for_expressions_that_was_given_up_is_said_to_be_incomplete() {
    let trace = traced(FIGURE_1, "T1,T2");
    let given_up = |engines: Vec<Choice>| {
        let analysis = SoFar::default().take_early(&Options { engines, ..Options::default() }, &trace, trace.len());
        assert!(analysis.engines.iter().all(|report| !report.complete));
        assert_eq!(analysis.left.len(), analysis.engines.len());
        analysis.engines.iter().map(|report| report.engine).collect::<Vec<_>>()
    };
    assert_eq!(given_up(vec![Choice::Auto]), [SHB, MC, RECIPE]);
    assert_eq!(given_up(vec![RECIPE.into()]), [RECIPE]);
    assert_eq!(given_up(vec![Choice::Auto, RECIPE.into()]), [SHB, RECIPE]);
}
