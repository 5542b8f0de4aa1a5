//! Recipe in the pipeline: what the maximal engine could not prove is asked again at level `symbolic`, and pairs with accesses on
//! the other sides of branches for the first time.

use crate::analyse::{Claim, TOO_MANY, Work};
use crate::analysis::{Engine, EngineReport, Options, Race, Subject};
use crate::held::held_locks;
use crate::maximal::{NOT_ASKED, NOT_DECIDED, highest_level, key};
use crate::memory::peak_memory;
use crate::watch::{Watch, on_all_cores};
use snag_checker::Checker;
use snag_engines::happens_before::LocationPair;
use snag_engines::maximal::{Answer, Asker, Index, Pairs, Recipe, Stage, Undecided, Windows};
use snag_model::{EventId, Space, Trace};
use snag_model::{Level, Schedule};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Within a budget, so many pairs of events at the same two locations are refuted by the search before the others are left.
const MOST_REFUTED: usize = 500;

/// Within a budget, one question takes no more than this part of it, so that others get their share, too.
const SHARE: u32 = 100;
/// But it may take this long in any case.
const LEAST: Duration = Duration::from_millis(100);
/// `auto` without a budget gives each question this long, so that it ends; who asks for `recipe` by name gets every answer.
const BY_DEFAULT: Duration = Duration::from_secs(10);
const OUT_OF_PATIENCE: &str = "not decided within its share of the time";

/// Whether a trace has expressions at all. Without, level `symbolic` is the highest other one.
pub fn is_symbolic(trace: &Trace) -> bool {
    trace.tables.names(Space::Expression).len() + trace.tables.names(Space::Symbol).len() > 0
}

/// Whether there is anything to ask at level `symbolic`.
pub(crate) fn goes_beyond_maximal(trace: &Trace, options: &Options) -> bool {
    let level = options.level.is_none_or(|level| level == Level::Symbolic);
    level && is_symbolic(trace) && highest_level(trace) > Level::Writer
}

/// A race with the values that its witness needs.
#[derive(Clone)]
struct Relaxed {
    first: EventId,
    second: EventId,
    witness: Schedule,
    diverging: Vec<EventId>,
    reads: Vec<(EventId, i64)>,
}

#[derive(Clone, Default)]
struct Answers {
    races: Vec<Relaxed>,
    undecided: Vec<(EventId, EventId, String)>,
    /// Pairs of locations that were not asked about, and why.
    left: Vec<&'static str>,
}

impl Work<'_> {
    /// Recipe on its own: first all that level `control` proves, then the rest.
    pub(crate) fn recipe(&mut self) {
        self.maximal(Engine::Recipe, None, &HashSet::new());
        if !self.is_for_recipe() {
            return;
        }
        let first_half = self.analysis.engines.pop().expect("an engine leaves a report");
        self.hand_on_early(Engine::Recipe, None, |_| {});
        let proved = self.proved_by(&[Engine::Recipe]);
        self.relaxed(None, &proved);
        let report = self.analysis.engines.last_mut().expect("an engine leaves a report");
        report.seconds += first_half.seconds;
        report.warnings += first_half.warnings;
        report.location_pairs += first_half.location_pairs;
        report.complete &= first_half.complete;
        report.events_per_second = first_half.events_per_second.min(report.events_per_second);
        report.peak_memory_bytes = report.peak_memory_bytes.max(first_half.peak_memory_bytes);
        self.analysis.races.sort_by_key(|race| (race.engine == Engine::Recipe).then_some((race.second, race.first)));
    }

    /// Whether there is anything to ask at level `symbolic`.
    pub(crate) fn is_for_recipe(&self) -> bool {
        goes_beyond_maximal(self.trace, self.options)
    }

    /// The findings of some engines, by what makes two of them the same.
    pub(crate) fn proved_by(&self, engines: &[Engine]) -> HashSet<(u64, u64)> {
        let before = self.done.proved.iter().copied();
        let now = self.analysis.races.iter().map(|race| (race.engine, race.first, race.second));
        let pairs = before.chain(now).filter(|(engine, ..)| engines.contains(engine));
        pairs.map(|(_, first, second)| key(self.trace, first, second, self.options.all_pairs)).collect()
    }

    /// Asks about all pairs at level `symbolic` whose findings nobody has proved.
    pub(crate) fn relaxed(&mut self, beyond: Option<Engine>, proved: &HashSet<(u64, u64)>) {
        let (engine, started) = (Engine::Recipe, Instant::now());
        if self.out_of_time() {
            return self.not_begun(engine, beyond);
        }
        self.progress.phase("recipe: reading expressions", 0);
        let index = Index::symbolic(self.trace, self.cells);
        let windows = self.options.window.map(|size| Windows::every(size, self.trace.len()));
        let pairs = Pairs::of(&index, windows);
        let recipe = Recipe::of(&index);
        let set_up = started.elapsed();
        let answers = self.ask_recipe(&recipe, beyond, &pairs, proved);
        let races = &answers.races;
        let complete = answers.undecided.is_empty() && answers.left.is_empty();
        let seconds: HashSet<EventId> = races.iter().map(|race| race.second).collect();
        let keys: HashSet<_> = races.iter().map(|race| key(self.trace, race.first, race.second, false)).collect();
        self.file_relaxed_answers(answers);
        self.analysis.engines.push(EngineReport {
            engine,
            beyond,
            seconds: started.elapsed().as_secs_f64(),
            events_per_second: self.trace.len() as f64 / set_up.as_secs_f64().max(1e-9),
            peak_memory_bytes: peak_memory().max(index.memory() as u64),
            warnings: seconds.len() as u64,
            location_pairs: keys.len() as u64,
            complete,
            reduction: None,
            searches: None,
        });
    }

    fn file_relaxed_answers(&mut self, Answers { races, undecided, left }: Answers) {
        let engine = Engine::Recipe;
        for reason in left {
            self.analysis.leave(engine, Subject::LocationPair, reason, 1);
        }
        self.file_relaxed(races);
        let (mut claims, mut verdicts) = (Vec::new(), Vec::new());
        for (first, second, reason) in undecided {
            self.analysis.leave(engine, Subject::LocationPair, &reason, 1);
            claims.push(Claim { pair: LocationPair { first, second, count: 1 }, proposal: Err(reason.clone()) });
            verdicts.push(Some(Err(reason)));
        }
        self.file(engine, Level::Symbolic, claims, verdicts);
    }

    fn file_relaxed(&mut self, mut races: Vec<Relaxed>) {
        races.sort_by_key(|race| (race.second, race.first));
        let held = held_locks(self.trace, races.iter().flat_map(|race| [race.first, race.second]).collect());
        let locks = |event: EventId| held.get(&event).cloned().unwrap_or_default();
        for Relaxed { first, second, witness, diverging, reads } in races {
            self.analysis.races.push(Race {
                engine: Engine::Recipe,
                level: Level::Symbolic,
                first,
                second,
                locks_first: locks(first),
                locks_second: locks(second),
                witness,
                diverging,
                reads,
                count: 1,
            });
        }
    }

    fn ask_recipe(
        &self,
        recipe: &Recipe,
        beyond: Option<Engine>,
        pairs: &Pairs,
        proved: &HashSet<(u64, u64)>,
    ) -> Answers {
        let (progress, options) = (self.progress, self.options);
        progress.phase("recipe: deciding", pairs.tasks.len() as u64);
        let patience = match options.budget {
            Some(budget) => Some((budget / SHARE).max(LEAST)),
            None => (!options.engines.contains(&Engine::Recipe)).then_some(BY_DEFAULT),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let checker = Checker::new(self.trace, self.cells);
        let work = Asking {
            trace: self.trace,
            pairs,
            checker: &checker,
            proved,
            all_pairs: options.all_pairs,
            most: options.max_races,
            within_budget: options.budget.is_some(),
            found: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            stop: &stop,
            answers: Mutex::new(Answers::default()),
        };
        let done = AtomicUsize::new(0);
        let worker = || {
            let (told, clock) = (stop.clone(), Clock::new(patience));
            let mut asker = recipe.asker(Some(Arc::new({
                let clock = clock.clone();
                move || told.load(Ordering::Relaxed) || clock.is_over()
            })));
            while let Some(number) = work.next_task() {
                work.task(&mut asker, &clock, number);
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let rescue = || {
            let answers = work.answers.lock().expect("no worker panics").clone();
            let open = pairs.tasks.len().saturating_sub(done.load(Ordering::Relaxed));
            self.hand_on_early(Engine::Recipe, beyond, |early| {
                early.file_relaxed_answers(answers);
                early.analysis.leave(Engine::Recipe, Subject::LocationPair, NOT_ASKED, open);
            });
        };
        let watch = Watch { stop: &stop, done: &done, grace: Duration::ZERO, rescue: Some(&rescue) };
        self.watched(&watch, || on_all_cores(self.options.jobs, pairs.tasks.len(), worker));
        work.answers.into_inner().expect("no worker panics")
    }
}

/// How long the current question may take.
#[derive(Clone)]
struct Clock {
    started: Instant,
    /// When the question was put, in nanoseconds from the start.
    since: Arc<AtomicU64>,
    patience: Option<Duration>,
}

impl Clock {
    fn new(patience: Option<Duration>) -> Clock {
        Clock { started: Instant::now(), since: Arc::default(), patience }
    }

    fn restart(&self) {
        self.since.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let since = Duration::from_nanos(self.since.load(Ordering::Relaxed));
        self.patience.is_some_and(|patience| self.started.elapsed() > since + patience)
    }
}

/// What the workers share.
struct Asking<'a, 'i, 't> {
    trace: &'a Trace,
    pairs: &'a Pairs<'i, 't>,
    checker: &'a Checker<'a>,
    proved: &'a HashSet<(u64, u64)>,
    all_pairs: bool,
    /// At most so many races.
    most: usize,
    /// The time has to be shared out.
    within_budget: bool,
    found: AtomicUsize,
    next: AtomicUsize,
    stop: &'a AtomicBool,
    answers: Mutex<Answers>,
}

impl Asking<'_, '_, '_> {
    fn next_task(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.pairs.tasks.len()).then_some(number)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.found.load(Ordering::Relaxed) >= self.most
    }

    fn file(&self, add: impl FnOnce(&mut Answers)) {
        add(&mut self.answers.lock().expect("no worker panics"));
    }

    /// Asks about the pairs of two locations until one is proved.
    fn task(&self, asker: &mut Asker, clock: &Clock, number: usize) {
        let task = &self.pairs.tasks[number];
        let every = self.all_pairs || task.is_about_events();
        if self.is_over() {
            if every || task.key().is_none_or(|key| !self.proved.contains(&key)) {
                let reason = if self.stop.load(Ordering::Relaxed) { NOT_ASKED } else { TOO_MANY };
                self.file(|answers| answers.left.push(reason));
            }
            return;
        }
        let mut open: Option<(EventId, EventId, String)> = None;
        let mut refuted = 0;
        let stopped = Cell::new(false);
        let stop = || {
            stopped.set(self.is_over());
            stopped.get()
        };
        for (first, second) in self.pairs.of_task(task, &stop) {
            if self.is_over() {
                open.get_or_insert((first, second, NOT_ASKED.to_owned()));
                break;
            }
            if refuted == MOST_REFUTED && self.within_budget && !every {
                open.get_or_insert((first, second, format!("{refuted} pairs of events before it were refuted")));
                break;
            }
            if self.proved.contains(&key(self.trace, first, second, self.all_pairs)) {
                match every {
                    true => continue,
                    false => return,
                }
            }
            if let Some((base, end)) = self.pairs.window_of(first) {
                asker.set_window(base, end);
            }
            clock.restart();
            let (answer, stage) = asker.ask(&[first, second]);
            match answer {
                Answer::Possible(witness) => match self.check(first, second, witness, &asker.diverging) {
                    Ok(race) => {
                        self.found.fetch_add(1, Ordering::Relaxed);
                        self.file(|answers| answers.races.push(race));
                        if !every {
                            return;
                        }
                    }
                    Err(why) => {
                        open.get_or_insert((first, second, why));
                    }
                },
                Answer::Impossible => refuted += (stage >= Stage::Local) as usize,
                Answer::Unknown(Undecided::Stopped) => {
                    let reason = if self.stop.load(Ordering::Relaxed) { NOT_DECIDED } else { OUT_OF_PATIENCE };
                    open.get_or_insert((first, second, reason.to_owned()));
                }
                Answer::Unknown(why) => {
                    open.get_or_insert((first, second, format!("not decided: {why:?}")));
                }
            }
        }
        if stopped.get() && open.is_none() {
            self.file(|answers| answers.left.push(NOT_ASKED));
        }
        if let Some(open) = open {
            self.file(|answers| answers.undecided.push(open));
        }
    }

    /// The checker has the last word, and says which values the reads take.
    fn check(
        &self,
        first: EventId,
        second: EventId,
        witness: Schedule,
        diverging: &[EventId],
    ) -> Result<Relaxed, String> {
        let refused = |why| format!("the schedule found was refused: {why}");
        let reads = self.checker.reads_of(witness.iter(self.trace), diverging).map_err(refused)?;
        self.checker
            .check_race_with_values(witness.iter(self.trace), diverging, &reads, first, second)
            .map_err(refused)?;
        Ok(Relaxed { first, second, witness, diverging: diverging.to_vec(), reads })
    }
}
