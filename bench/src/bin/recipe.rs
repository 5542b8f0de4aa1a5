//! Measures Recipe: which share of the real races of random programs each level finds from one trace, and how long single
//! questions take on long symbolic traces.
//!
//! `cargo run --release -p snag-bench --bin recipe -- [--programs N] [--pairs N] [--z3-pairs N]`
//!
//! With `--features z3` the same questions are put to Z3 as well: the whole window as one formula.

use snag_checker::Checker;
use snag_engines::maximal::{Answer, Index, Limits, Pairs, Queries, Stage, Stop};
use snag_engines::{MC, RECIPE, SHB};
use snag_model::Level;
use snag_model::symbolic::Sort;
use snag_model::{Cells, EventId, Op, Trace};
use snag_pipeline::{EngineRef, Options, Quiet, Settings, analyse};
use snag_recipe_lang::{Plan, compile, explore, random, run};
use snag_testkit::Rng;
use snag_testkit::dense::{Dense, symbolic_trace};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// So many pairs of two locations are looked at to choose questions from.
const MOST_OF_TASK: usize = 100_000;

/// After this long a question is given up.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() {
    let (mut programs, mut pairs, mut z3_pairs) = (5_000, 300, 20);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        let number = || value.parse().unwrap_or_else(|_| panic!("{word} needs a number"));
        match word.as_str() {
            "--programs" => programs = number(),
            "--pairs" => pairs = number(),
            "--z3-pairs" => z3_pairs = number(),
            other => panic!("unknown option {other}"),
        }
    }
    if programs > 0 {
        shares(programs as u64);
    }
    if pairs > 0 {
        println!(
            "| trace | events | branches | pairs | by control | median ms | mean ms | 99 % ms | max ms | races | bounds | local | search | not decided |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        for events in [1_000, 8_000] {
            measure("program", &program_trace(events), pairs);
        }
        for events in [400, 1_000, 12_000] {
            measure("random", &symbolic_trace(&long_shape(events), &mut Rng::new(7)), pairs);
        }
    }
    if z3_pairs > 0 {
        z3::table(z3_pairs);
    }
}

/// The share of the real races that each level finds from one trace of each program.
fn shares(programs: u64) {
    let levels = [(MC, Level::Writer), (MC, Level::Value), (MC, Level::Control)];
    let levels: Vec<(EngineRef, Option<Level>)> =
        levels.into_iter().map(|(engine, level)| (engine, Some(level))).collect();
    let mut engines: Vec<(EngineRef, Option<Level>)> = vec![(SHB, None)];
    engines.extend(levels);
    engines.push((RECIPE, None));
    let mut found = vec![0; engines.len()];
    let mut false_alarms = vec![0; engines.len()];
    let (mut real, mut explored_all) = (0, 0);
    for seed in 0..programs {
        let text = random::program(seed);
        let Ok(program) = compile("p", &text) else { panic!("random programs compile") };
        let explored = explore(&program, 20_000);
        let Ok(run) = run(&program, &Plan { seed, ..Plan::default() }) else { continue };
        if !explored.complete || run.trace.is_empty() {
            continue;
        }
        explored_all += 1;
        let truth = explored.location_pairs();
        real += truth.len();
        for (at, &(engine, level)) in engines.iter().enumerate() {
            let options = Options {
                engines: vec![engine.into()],
                settings: Settings { level, ..Settings::default() },
                ..Options::default()
            };
            let analysis = analyse(&run.trace, &options, &Quiet);
            let location = |event: EventId| run.trace.location_of(event).to_owned();
            let pairs: BTreeSet<(String, String)> = analysis
                .races
                .iter()
                .map(|race| (location(race.first), location(race.second)))
                .map(|(a, b)| if a < b { (a, b) } else { (b, a) })
                .collect();
            found[at] += pairs.intersection(&truth).count();
            false_alarms[at] += pairs.difference(&truth).count();
        }
    }
    println!("{explored_all} programs with {real} races (pairs of locations)\n");
    println!("| engine | level | races found from one trace | share | false alarms |");
    println!("|---|---|---|---|---|");
    for ((&(engine, level), found), false_alarms) in engines.iter().zip(found).zip(false_alarms) {
        let level = level.map_or(if engine == RECIPE { "symbolic" } else { "writer" }, Level::word);
        let share = 100.0 * found as f64 / real as f64;
        println!("| {} | {level} | {found} | {share:.1} % | {false_alarms} |", engine.name());
    }
    println!();
}

/// Long traces in which everything is symbolic: so many events, a tenth of them branches.
fn long_shape(events: usize) -> Dense {
    Dense {
        threads: 6,
        variables: 24,
        locks: 4,
        steps: events * 7 / 10,
        sort: Sort::from_word("i64").expect("a type"),
        branches: 14,
        sides: 50,
        stay: 75,
        join: true,
    }
}

/// A run of a program with so many events or a few more: accounts under a lock, counters without one, flags that end loops.
fn program_trace(events: usize) -> Trace {
    let mut text = String::from(
        "shared int balance = 100;\nshared int total = 0;\nshared int limit = 40;\nshared int work = 0;\n\
         shared int phase = 0;\nlock m;\nlock k;\n",
    );
    let rounds = events / 96;
    for thread in 0..4 {
        text += &format!(
            "thread T{thread} {{
                for (int i = 0; i < {rounds}; i++) {{
                    lock(m);
                    int b = balance;
                    if (b > 20)
                        balance = b - 7;
                    else
                        balance = b + 60;
                    unlock(m);
                    if (limit > i) {{
                        int t = total;
                        if (t < 100000)
                            total = t + 1;
                    }}
                    lock(k);
                    int w = work;
                    if (phase % 4 == {thread})
                        phase = phase + 1;
                    unlock(k);
                    work = w + i;
                }}
                limit = limit + {thread};
            }}\n"
        );
    }
    let program = compile("p", &text).unwrap_or_else(|mistake| panic!("{}", mistake.show("p", &text)));
    run(&program, &Plan { seed: 3, ..Plan::default() }).unwrap_or_else(|_| panic!("the program runs")).trace
}

/// Pairs that conflict and that neither locks nor the hard order rule out, from all pairs of locations in turn: of each the
/// nearest ones, and some from everywhere.
fn candidates(index: &Index, count: usize) -> Vec<[EventId; 2]> {
    let pairs = Pairs::of(index, None);
    let each = (2 * count / pairs.tasks.len().max(1)).max(2);
    let mut all: Vec<[EventId; 2]> = Vec::new();
    for task in &pairs.tasks {
        let of_task: Vec<(EventId, EventId)> = pairs.of_task(task, &|| false).take(MOST_OF_TASK).collect();
        let everywhere = (2 * of_task.len() / each).max(1);
        let (near, far) = (of_task.iter().take(each / 2), of_task.iter().skip(each / 2).step_by(everywhere));
        all.extend(near.chain(far).map(|&(a, b)| [a, b]));
    }
    let step = (all.len() / count).max(1);
    all.into_iter().step_by(step).take(count).collect()
}

fn measure(what: &str, trace: &Trace, count: usize) {
    let cells = Cells::of(trace);
    let branches = trace.events.ops().iter().filter(|&&op| op == Op::Branch).count();
    let (control, symbolic) = (Index::new(trace, &cells, Level::Control), Index::symbolic(trace, &cells));
    let checker = Checker::new(trace, &cells);
    let mut queries = Queries::new(&control, Limits::default());
    let (mut by_control, mut races, mut undecided) = (0, 0, 0);
    let mut stages: HashMap<Stage, usize> = HashMap::new();
    let mut times: Vec<Duration> = Vec::new();
    let pairs = candidates(&symbolic, count);
    for pair in &pairs {
        let on_other_side = pair.iter().any(|event| trace.events.ops()[event.index()].on_other_side());
        if !on_other_side && matches!(queries.ask(pair).0, Answer::Possible(_)) {
            by_control += 1;
            continue;
        }
        let started = Instant::now();
        let stop: Stop = std::sync::Arc::new(move || started.elapsed() > PATIENCE);
        let mut asker = Queries::new(&symbolic, Limits { stop: Some(stop), ..Limits::default() });
        let (answer, stage) = asker.ask(pair);
        times.push(started.elapsed());
        *stages.entry(stage).or_default() += 1;
        match answer {
            Answer::Impossible => {}
            Answer::Unknown(_) => undecided += 1,
            Answer::Possible(schedule) => {
                let reads = checker.reads_of(schedule.iter(trace), &asker.diverging).expect("it is feasible");
                checker
                    .check_race_with_values(schedule.iter(trace), &asker.diverging, &reads, pair[0], pair[1])
                    .expect("the witness is right");
                races += 1;
            }
        }
    }
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let at = |share: f64| ms(times[((times.len() - 1) as f64 * share) as usize]);
    let mean = ms(times.iter().sum::<Duration>()) / times.len() as f64;
    let by = |stage: Stage| stages.get(&stage).copied().unwrap_or(0);
    println!(
        "| {what} | {} | {branches} | {} | {by_control} | {:.2} | {mean:.2} | {:.1} | {:.1} | {races} | {} | {} | {} | {undecided} |",
        trace.len(),
        pairs.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        by(Stage::Bounds),
        by(Stage::Local),
        by(Stage::Search),
    );
}

/// The same questions as one formula, as the paper puts them.
#[cfg(not(feature = "z3"))]
mod z3 {
    pub fn table(_: usize) {}
}

#[cfg(feature = "z3")]
mod z3 {
    //! Each event has an integer, its place; each read a bit-vector; everything is said at once, about the whole trace.
    //! All numbers have 64 bits with a sign, and every branch goes where it went.

    use super::*;
    use snag_engines::maximal::z3::Z3;
    use snag_model::events::Event;
    use snag_model::symbolic::{Binary, Node, Role, Symbolic, Unary};
    use snag_model::{Action, LockId, Mode, TermId, ThreadId, VarId};
    use std::fmt::Write;

    /// A formula that is longer than this is not tried.
    const LONGEST: usize = 300_000_000;

    pub fn table(count: usize) {
        println!(
            "\n| trace | events | branches | who | pairs | median ms | mean ms | max ms | not decided | same answer |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        let mut traces: Vec<(&str, Trace)> = Vec::new();
        for events in [100, 300, 1_000, 8_000] {
            traces.push(("program", program_trace(events)));
        }
        for events in [100, 300, 1_000] {
            let shape = Dense { sides: 0, ..super::long_shape(events) };
            traces.push(("random", super::symbolic_trace(&shape, &mut Rng::new(7))));
        }
        for (what, trace) in traces {
            let branches = trace.events.ops().iter().filter(|&&op| op == Op::Branch).count();
            let cells = Cells::of(&trace);
            let index = Index::symbolic(&trace, &cells);
            let on_other_side = |event: &EventId| trace.events.ops()[event.index()].on_other_side();
            let mut pairs = candidates(&index, 4 * count);
            pairs.retain(|pair| !pair.iter().any(on_other_side));
            pairs.truncate(count);
            let mut ours: Vec<(Duration, Option<bool>)> = Vec::new();
            for pair in &pairs {
                let started = Instant::now();
                let stop: Stop = std::sync::Arc::new(move || started.elapsed() > PATIENCE);
                let limits = Limits { stop: Some(stop), may_diverge: false, ..Limits::default() };
                let answer = Queries::new(&index, limits).ask(pair).0;
                let decided = match answer {
                    Answer::Possible(_) => Some(true),
                    Answer::Impossible => Some(false),
                    Answer::Unknown(_) => None,
                };
                ours.push((started.elapsed(), decided));
            }
            let mut theirs = Vec::new();
            let formula = Formula::of(&trace).text;
            for pair in &pairs {
                if formula.len() > LONGEST {
                    break;
                }
                let started = Instant::now();
                let text = format!("{formula}{}", goal(&trace, pair));
                theirs
                    .push((started.elapsed(), Z3::new().decide(&text, PATIENCE).expect("the formula is well formed")));
                theirs.last_mut().expect("was just pushed").0 = started.elapsed();
            }
            let agree = ours.iter().zip(&theirs).filter(|(a, b)| a.1.is_some() && a.1 == b.1).count();
            let differ = ours.iter().zip(&theirs).any(|(a, b)| a.1.is_some() && b.1.is_some() && a.1 != b.1);
            assert!(!differ, "Z3 answers differently");
            for (who, answers) in [("recipe", &ours), ("Z3, whole window", &theirs)] {
                if answers.is_empty() {
                    println!(
                        "| {what} | {} | {branches} | {who} | – | formula of {} MB | | | | |",
                        trace.len(),
                        formula.len() / 1_000_000
                    );
                    continue;
                }
                let mut times: Vec<f64> = answers.iter().map(|answer| answer.0.as_secs_f64() * 1e3).collect();
                times.sort_by(f64::total_cmp);
                let undecided = answers.iter().filter(|answer| answer.1.is_none()).count();
                println!(
                    "| {what} | {} | {branches} | {who} | {} | {:.1} | {:.1} | {:.1} | {undecided} | {agree} |",
                    trace.len(),
                    answers.len(),
                    times[times.len() / 2],
                    times.iter().sum::<f64>() / times.len() as f64,
                    times[times.len() - 1],
                );
            }
        }
    }

    fn goal(trace: &Trace, pair: &[EventId; 2]) -> String {
        let mut text = String::new();
        for event in pair {
            let thread = trace.thread_of(*event);
            let before = (0..event.0).rev().map(EventId).find(|&other| trace.thread_of(other) == thread);
            if let Some(before) = before {
                let _ = writeln!(text, "(assert (< o{} now))", before.0);
            }
            let _ = writeln!(text, "(assert (> o{} now))", event.0);
        }
        text
    }

    struct Formula {
        symbolic: Symbolic,
        text: String,
    }

    impl Formula {
        fn of(trace: &Trace) -> Formula {
            let mut formula =
                Formula { symbolic: Symbolic::of(trace), text: String::from("(declare-const now Int)\n") };
            formula.order(trace);
            formula.values(trace);
            formula
        }

        fn say(&mut self, text: &str) {
            self.text.push_str(text);
            self.text.push('\n');
        }

        fn order(&mut self, trace: &Trace) {
            let mut last: HashMap<ThreadId, u32> = HashMap::new();
            let mut forks: HashMap<ThreadId, u32> = HashMap::new();
            let mut open: HashMap<(ThreadId, LockId), u32> = HashMap::new();
            let mut sections: HashMap<LockId, Vec<(ThreadId, u32, Option<u32>)>> = HashMap::new();
            for (at, event) in trace.events.iter().enumerate() {
                let (at, thread) = (at as u32, event.thread);
                self.say(&format!("(declare-const o{at} Int)"));
                let before = last.insert(thread, at).or_else(|| forks.get(&thread).copied());
                if let Some(before) = before {
                    self.say(&format!("(assert (< o{before} o{at}))"));
                }
                match event.action() {
                    Action::Fork { thread: child, .. } => drop(forks.insert(child, at)),
                    Action::Join { thread: child, .. } => {
                        if let Some(end) = last.get(&child).copied() {
                            self.say(&format!("(assert (< o{end} o{at}))"));
                        }
                    }
                    Action::Acquire { lock, mode: Mode::Exclusive, .. } => {
                        open.insert((thread, lock), at);
                        sections.entry(lock).or_default().push((thread, at, None));
                    }
                    Action::Release { lock, mode: Mode::Exclusive } => {
                        let start = open.remove(&(thread, lock));
                        let list = sections.entry(lock).or_default();
                        if let Some(section) = list.iter_mut().find(|section| Some(section.1) == start) {
                            section.2 = Some(at);
                        }
                    }
                    _ => {}
                }
            }
            for list in sections.into_values() {
                for (i, a) in list.iter().enumerate() {
                    for b in list[..i].iter().filter(|b| b.0 != a.0) {
                        let mut text = format!("(assert (or (> o{} now) (> o{} now)", a.1, b.1);
                        for (first, second) in [(a, b), (b, a)] {
                            if let Some(end) = first.2 {
                                let _ = write!(text, " (< o{end} o{})", second.1);
                            }
                        }
                        self.say(&(text + "))"));
                    }
                }
            }
        }

        fn values(&mut self, trace: &Trace) {
            let mut writes: HashMap<Option<VarId>, Vec<u32>> = HashMap::new();
            let initial: HashMap<Option<VarId>, i64> =
                trace.tables.declarations.initial.iter().map(|&(variable, value)| (Some(variable), value)).collect();
            // Symbols first: reads are constants, definitions are macros.
            for number in 0..self.symbolic.definitions().len() {
                let definition = self.symbolic.definitions()[number];
                match definition.term {
                    None => self.say(&format!("(declare-const s{number} (_ BitVec 64))")),
                    Some(term) => {
                        let mut guards = Vec::new();
                        let text = self.term(term, &mut guards);
                        self.say(&format!("(define-fun s{number} () (_ BitVec 64) {text})"));
                        if !trace.events.ops()[definition.event.index()].on_other_side() {
                            self.guard(definition.event.0, &guards);
                        }
                    }
                }
            }
            // What is on the other side of a branch does not happen.
            let happens = |event: &Event| !event.op.on_other_side();
            for (at, event) in trace.events.iter().enumerate().filter(|(_, event)| happens(event)) {
                match self.symbolic.role(EventId::new(at)) {
                    Role::Write(term) => {
                        let mut guards = Vec::new();
                        let text = self.term(term, &mut guards);
                        self.say(&format!("(define-fun w{at} () (_ BitVec 64) {text})"));
                        self.guard(at as u32, &guards);
                        writes.entry(event.action().variable()).or_default().push(at as u32);
                    }
                    Role::Branch { condition, outcome } => {
                        let mut guards = Vec::new();
                        let text = self.term(condition, &mut guards);
                        self.guard(at as u32, &guards);
                        let text = if outcome == Some(true) { text } else { format!("(not {text})") };
                        self.say(&format!("(assert (=> (< o{at} now) {text}))"));
                    }
                    _ => {}
                }
            }
            for (at, event) in trace.events.iter().enumerate().filter(|(_, event)| happens(event)) {
                let Role::Read(symbol) = self.symbolic.role(EventId::new(at)) else { continue };
                let none = Vec::new();
                let variable = event.action().variable();
                let writes = writes.get(&variable).unwrap_or(&none);
                let mut text =
                    format!("(assert (=> (< o{at} now) (or (and (= s{} {})", symbol.0, literal(initial[&variable]));
                for other in writes {
                    let _ = write!(text, " (< o{at} o{other})");
                }
                text.push(')');
                for write in writes {
                    let _ = write!(text, " (and (= s{} w{write}) (< o{write} o{at})", symbol.0);
                    for other in writes.iter().filter(|&other| other != write) {
                        let _ = write!(text, " (or (< o{other} o{write}) (< o{at} o{other}))");
                    }
                    text.push(')');
                }
                self.say(&(text + ")))"));
                if self.text.len() > LONGEST {
                    return;
                }
            }
        }

        fn guard(&mut self, event: u32, guards: &[String]) {
            for guard in guards {
                self.say(&format!("(assert (=> (< o{event} now) {guard}))"));
            }
        }

        /// A term; what must hold for it to have a value goes to `guards`.
        fn term(&self, term: TermId, guards: &mut Vec<String>) -> String {
            let shown = self.symbolic.term(term);
            match shown.node {
                Node::Constant(value) if shown.sort == Sort::Bool => (value != 0).to_string(),
                Node::Constant(value) => literal(value as i64),
                Node::Symbol(symbol) => format!("s{}", symbol.0),
                Node::Convert(part) => match (shown.sort, self.symbolic.term(part).sort) {
                    (Sort::Bool, _) => format!("(distinct {} {})", self.term(part, guards), literal(0)),
                    (_, Sort::Bool) => format!("(ite {} {} {})", self.term(part, guards), literal(1), literal(0)),
                    _ => self.term(part, guards),
                },
                Node::Unary(operator, part) => {
                    let word = match operator {
                        Unary::Negate => "bvneg",
                        Unary::Complement => "bvnot",
                        Unary::Not => "not",
                    };
                    format!("({word} {})", self.term(part, guards))
                }
                Node::Choose(condition, yes, no) => {
                    let condition = self.term(condition, guards);
                    let mut parts = Vec::new();
                    for (part, word) in [(yes, "=>"), (no, "or")] {
                        let mut inner = Vec::new();
                        parts.push(self.term(part, &mut inner));
                        guards.extend(inner.into_iter().map(|guard| format!("({word} {condition} {guard})")));
                    }
                    format!("(ite {condition} {} {})", parts[0], parts[1])
                }
                Node::Binary(operator, a, b) => {
                    let (a, b) = (self.term(a, guards), self.term(b, guards));
                    let word = match operator {
                        Binary::Add => "bvadd",
                        Binary::Subtract => "bvsub",
                        Binary::Multiply => "bvmul",
                        Binary::Divide => "bvsdiv",
                        Binary::Remainder => "bvsrem",
                        Binary::BitAnd => "bvand",
                        Binary::BitOr => "bvor",
                        Binary::BitXor => "bvxor",
                        Binary::ShiftLeft => "bvshl",
                        Binary::ShiftRight => "bvashr",
                        Binary::Equal => "=",
                        Binary::Less => "bvslt",
                        Binary::LessEqual => "bvsle",
                        Binary::And => "and",
                        Binary::Or => "or",
                    };
                    match operator {
                        Binary::Divide | Binary::Remainder => {
                            guards.push(format!("(distinct {b} {})", literal(0)));
                            let overflow = format!("(and (= {a} {}) (= {b} {}))", literal(i64::MIN), literal(-1));
                            guards.push(format!("(not {overflow})"));
                        }
                        Binary::ShiftLeft | Binary::ShiftRight => guards.push(format!("(bvult {b} {})", literal(64))),
                        _ => {}
                    }
                    format!("({word} {a} {b})")
                }
            }
        }
    }

    fn literal(value: i64) -> String {
        format!("#x{:016x}", value as u64)
    }
}
