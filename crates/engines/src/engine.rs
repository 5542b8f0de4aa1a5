//! What an engine is, what it is given, and what it hands over.
//!
//! An engine looks for races in a trace and proposes schedules that show them. It decides nothing: the pipeline, its
//! [`Host`], puts every schedule to the checker, watches time and memory, groups and files what was accepted. So a new
//! engine is a folder with an implementation of [`Engine`], and a line in [`ENGINES`](crate::ENGINES); the command line,
//! its help, `compare` and the reports take everything else from its [`About`].

pub use crate::happens_before::LocationPair;
use crate::maximal::Backend;
use crate::watch::Watch;
use snag_model::{Cells, EventId, FaultKind, Level, Op, Ops, Schedule, Space, Trace};
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// A way to find races.
pub trait Engine: Sync {
    /// What it is.
    fn about(&self) -> &About;

    /// Looks for races and deadlocks.
    fn run<'c>(&self, context: &'c Context<'c>) -> Found<'c>;
}

/// What there is to know about an engine without running it.
#[derive(Debug)]
pub struct About {
    /// Its name on the command line and in machine output.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What its own reports are worth before the checker has seen them.
    pub guarantee: Guarantee,
    /// How much it does for each event.
    pub cost: Cost,
    /// What a trace must have for it to do anything that others do not.
    pub needs: Needs,
    /// It finds the same in a trace without accesses to private memory.
    pub condensable: bool,
    /// Its options `--all` and `--no-reduce` mean something.
    pub reduces: bool,
    /// Bytes that it keeps for each event, cell and thread before it has found anything.
    pub bytes: [u64; 3],
}

/// What an engine's own reports are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarantee {
    /// Each pair that it reports is a race, with a schedule.
    Sound,
    /// The first pair that it reports is a race or a sign of a deadlock; later ones may be neither.
    First,
    /// A pair that it reports may be no race.
    None,
}

impl Guarantee {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Guarantee::Sound => "every report is a race",
            Guarantee::First => "the first report is a race or a deadlock",
            Guarantee::None => "none",
        }
    }
}

/// How much an engine does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// One look at each event, nothing prepared.
    Pass,
    /// More than that: preparations, searches, or a solver.
    Search,
}

/// What a trace must have for an engine to do anything that others do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing but events.
    Events,
    /// Missing methods.
    Missing,
    /// Symbolic expressions.
    Expressions,
    /// Events about what went wrong in the recorded run.
    Faults,
}

impl Needs {
    /// Whether a trace has it.
    pub fn are_met_by(self, trace: &Trace) -> bool {
        match self {
            Needs::Events => true,
            Needs::Missing => trace.events.ops().contains(&Op::MethodBegin),
            Needs::Expressions => is_symbolic(trace),
            Needs::Faults => has_faults(trace),
        }
    }
}

/// Whether something went wrong in the recorded run, or a wait never ended.
pub fn has_faults(trace: &Trace) -> bool {
    Ops::of(trace.events.ops()).any(Ops::FAULTS)
}

/// Whether a trace has expressions at all. Without, level `symbolic` is the highest other one.
pub fn is_symbolic(trace: &Trace) -> bool {
    trace.tables.names(Space::Expression).len() + trace.tables.names(Space::Symbol).len() > 0
}

/// The highest level below `symbolic` that a trace supports.
pub fn highest_level(trace: &Trace) -> Level {
    if !trace.events.has_values() {
        Level::Writer
    } else if trace.events.ops().contains(&Op::Branch) {
        Level::Control
    } else {
        Level::Value
    }
}

/// One of the [`ENGINES`](crate::ENGINES), to hand around and to compare.
#[derive(Clone, Copy)]
pub struct EngineRef(&'static dyn Engine);

impl EngineRef {
    /// A handle of an engine.
    pub const fn new(engine: &'static dyn Engine) -> EngineRef {
        EngineRef(engine)
    }

    /// The engine of that name.
    pub fn by_name(name: &str) -> Option<EngineRef> {
        crate::ENGINES.iter().copied().find(|engine| engine.name() == name)
    }

    /// Its name on the command line and in machine output.
    pub fn name(self) -> &'static str {
        self.0.about().name
    }

    /// What it is.
    pub fn about(self) -> &'static About {
        self.0.about()
    }

    /// Whether it takes one look at each event, and prepares nothing for it.
    pub fn is_quick(self) -> bool {
        self.about().cost == Cost::Pass
    }

    /// Whether it is about missing methods, so that it makes no sense to have it ignore them.
    pub fn is_about_missing(self) -> bool {
        self.about().needs == Needs::Missing
    }

    /// Bytes that it needs at the least before it has found anything.
    pub fn least_memory(self, trace: &Trace, cells: &Cells) -> u64 {
        let counts = [trace.len(), cells.count(), trace.tables.thread_count()];
        self.about().bytes.iter().zip(counts).map(|(each, count)| each * count as u64).sum()
    }

    /// Looks for races and deadlocks.
    pub fn run<'c>(self, context: &'c Context<'c>) -> Found<'c> {
        self.0.run(context)
    }
}

impl PartialEq for EngineRef {
    fn eq(&self, other: &EngineRef) -> bool {
        self.name() == other.name()
    }
}

impl Eq for EngineRef {}

impl Hash for EngineRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for EngineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to look.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Level at which witnesses are checked; `None`: the highest that the engine and the trace support.
    pub level: Option<Level>,
    /// Look for pairs inside windows of so many events; `None`: the whole trace.
    pub window: Option<usize>,
    /// Stop looking for more after this long.
    pub budget: Option<Duration>,
    /// One finding per pair of events instead of per pair of locations.
    pub all_pairs: bool,
    /// CP and WCP: look at all unordered pairs, instead of treating every race as ordered once it is found.
    pub all: bool,
    /// CP and WCP: leave out what does not matter before anything else.
    pub reduce: bool,
    /// Lock histories: count the calls of searches for all questions, and of searches that remember nothing.
    pub anew: bool,
    /// At most so many races of each engine are proved; the others are counted.
    pub max_races: usize,
    /// Who answers the questions of the maximal engine.
    pub solver: Backend,
    /// Threads to use.
    pub jobs: usize,
    /// Prove what was found; without, only the engines' own counts are produced.
    pub prove: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            level: None,
            window: None,
            budget: None,
            all_pairs: false,
            all: false,
            reduce: true,
            anew: false,
            max_races: 10_000,
            solver: Backend::Own,
            jobs: 1,
            prove: true,
        }
    }
}

/// What an engine is given.
pub struct Context<'a> {
    /// Which engine it is.
    pub engine: EngineRef,
    /// What to look at.
    pub trace: &'a Trace,
    /// Its memory.
    pub cells: &'a Cells,
    /// How to look.
    pub settings: &'a Settings,
    /// Look only for what this engine has not proved.
    pub beyond: Option<EngineRef>,
    /// Findings that need no other proof, by their keys ([`Context::key`]).
    pub known: &'a HashSet<(u64, u64)>,
    /// The user asked for this engine by name and has set no limit: he wants every answer, however long it takes.
    pub exhaustive: bool,
    /// Who runs it.
    pub host: &'a dyn Host,
}

/// The pipeline, as an engine sees it.
pub trait Host: Sync {
    /// A phase begins; `total` in its own units.
    fn phase(&self, name: &str, total: u64);
    /// So much of the phase is done.
    fn advance(&self, done: u64);
    /// Called now and then while workers work: whether they are to stop.
    fn glance(&self, watch: &Watch) -> bool;
    /// Nothing more is to be looked for.
    fn is_up(&self) -> bool;
    /// Nothing more is to be proved, either.
    fn is_over(&self) -> bool;
    /// Until when something may be looked for, and until when what was found may be named, if there is a budget and
    /// something is to be proved as well.
    fn shares(&self) -> Option<[Instant; 2]>;
    /// Puts a race to the checker. It is filed if that accepts it, and otherwise this says why not.
    fn race(&self, race: RaceClaim) -> Result<(), String>;
    /// The same for a deadlock: acquires that wait for each other.
    fn deadlock(&self, claim: DeadlockClaim) -> Result<(), String>;
    /// The same for a fault of the recorded run.
    fn fault(&self, claim: FaultClaim) -> Result<(), String>;
    /// The races of this engine that were filed so far, each by its two events.
    fn filed(&self) -> Vec<(EventId, EventId)>;
    /// Whether a deadlock at the same locations was filed before.
    fn knows_deadlock(&self, pending: &[EventId]) -> bool;
    /// There is another set of acquires that may be a deadlock. Whether one at the same locations was filed before.
    fn meets_cycle(&self, pending: &[EventId]) -> bool;
    /// Something is left open; the engine's answer is not complete.
    fn leave(&self, what: Subject, reason: &str, count: usize);
    /// A pair about which nothing was decided, and why.
    fn undecided(&self, first: EventId, second: EventId, reason: &str);
}

/// A race and how it comes about.
#[derive(Clone, Debug)]
pub struct RaceClaim {
    /// The earlier event of the trace.
    pub first: EventId,
    /// The later one.
    pub second: EventId,
    /// What happens before both.
    pub schedule: Schedule,
    /// The level at which reads see what they must.
    pub level: Level,
    /// At level `symbolic`: the branches that go the other way.
    pub diverging: Vec<EventId>,
}

/// A deadlock and how it comes about.
#[derive(Clone, Debug)]
pub struct DeadlockClaim {
    /// The acquires that wait for each other.
    pub pending: Vec<EventId>,
    /// What happens before.
    pub schedule: Schedule,
    /// The level at which reads see what they must.
    pub level: Level,
}

/// Something that went wrong in the recorded run, or may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultClaim {
    /// What.
    pub kind: FaultKind,
    /// What made it wrong: the free of the memory, the last event that took or gave back the lock, if there is one, or
    /// the use of what is destroyed.
    pub first: Option<EventId>,
    /// The event that was wrong.
    pub second: EventId,
    /// How many pairs of events share their locations.
    pub count: u64,
    /// What happens before both, if it only may happen (at level `writer`).
    pub schedule: Option<Schedule>,
}

impl Context<'_> {
    /// What makes two races the same finding: their events, or the locations of these.
    pub fn key(&self, first: EventId, second: EventId) -> (u64, u64) {
        key(self.trace, first, second, self.settings.all_pairs)
    }

    /// The level to prove at, for an engine that knows no expressions.
    pub fn level(&self, highest: Level) -> Level {
        self.settings.level.filter(|&level| level != Level::Symbolic).unwrap_or(highest)
    }

    /// A phase of this engine begins.
    pub fn phase(&self, what: &str, total: usize) {
        self.host.phase(&format!("{}: {what}", self.engine.name()), total as u64);
    }

    /// How far a pass over the trace is; whether it is to go on.
    pub fn goes_on(&self, done: usize) -> bool {
        self.host.advance(done as u64);
        !self.host.is_up()
    }
}

/// What makes two races the same finding: their events, or the locations of these.
pub fn key(trace: &Trace, first: EventId, second: EventId, all_pairs: bool) -> (u64, u64) {
    match all_pairs {
        true => (first.0 as u64, second.0 as u64),
        false => LocationPair { first, second, count: 1 }.key(trace),
    }
}

/// What an engine hands over beside what it has put to its host.
pub struct Found<'c> {
    /// Pairs that it believes in.
    pub pairs: Vec<LocationPair>,
    /// Who proposes schedules for them, one after the other until the checker accepts one.
    pub provers: Vec<Prover<'c>>,
    /// Pairs that it does not believe in, but that another schedule may show as races by memory order.
    pub maybe_by_order: Vec<LocationPair>,
    /// What to say of a pair if none does.
    pub otherwise: &'static str,
    /// Acquires that it believes wait for each other, and for which it has no schedule.
    pub standoffs: Vec<Vec<EventId>>,
    /// Events that race with an earlier one.
    pub warnings: u64,
    /// Distinct pairs of locations, where these are not those of `pairs`.
    pub location_pairs: Option<u64>,
    /// How many events it looked at in its first pass.
    pub looked_at: usize,
    /// How long that took.
    pub first_pass: Duration,
    /// Bytes that its state took at its largest.
    pub memory: u64,
    /// False if a limit or the user cut it short.
    pub complete: bool,
    /// CP and WCP: how they went about the trace.
    pub reduction: Option<Reduction>,
    /// Lock histories: what their searches did.
    pub searches: Option<Searches>,
}

impl Found<'_> {
    /// Nothing was found in a first pass that took so long.
    pub fn nothing(context: &Context, first_pass: Duration) -> Found<'static> {
        Found {
            pairs: Vec::new(),
            provers: Vec::new(),
            maybe_by_order: Vec::new(),
            otherwise: "",
            standoffs: Vec::new(),
            warnings: 0,
            location_pairs: None,
            looked_at: context.trace.len(),
            first_pass,
            memory: 0,
            complete: true,
            reduction: None,
            searches: None,
        }
    }
}

/// Proposes schedules.
pub type Proposer<'c> = Box<dyn FnMut(&[LocationPair]) -> Vec<Option<Schedule>> + 'c>;

/// Who proposes schedules for the pairs that an engine believes in.
pub enum Prover<'c> {
    /// The engine itself: one for each pair, if it has one.
    Own(Proposer<'c>),
    /// The clocks of SHB, for its own races at the same two locations.
    Shb,
    /// Nobody has to: the recorded run itself, up to the later event, shows a race by memory order.
    Observed,
    /// The search of the maximal engine. If it finds that there is none, it looks for a deadlock instead.
    Search,
}

/// What a question is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// Events that were not looked at.
    Event,
    /// Bytes of the file that were not read.
    Byte,
    /// Two locations that may race.
    LocationPair,
    /// Acquires that may wait for each other.
    Cycle,
    /// An acquire that may be part of cycles, not all of which were looked at.
    Acquire,
}

impl Subject {
    /// One of them, in words.
    pub fn noun(self) -> &'static str {
        match self {
            Subject::Event => "event",
            Subject::Byte => "byte",
            Subject::LocationPair => "pair of locations",
            Subject::Cycle => "cycle of locks",
            Subject::Acquire => "nested acquire",
        }
    }

    /// Several of them.
    pub fn nouns(self) -> &'static str {
        match self {
            Subject::Event => "events",
            Subject::Byte => "bytes",
            Subject::LocationPair => "pairs of locations",
            Subject::Cycle => "cycles of locks",
            Subject::Acquire => "nested acquires",
        }
    }
}

/// How CP and WCP went about a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// Events that were left of the trace.
    pub events: u64,
    /// How often the fixpoint of CP was swept.
    pub sweeps: Option<u32>,
}

/// What the searches of lock histories did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Searches {
    /// Their counts.
    pub done: crate::lock_history::Statistics,
    /// Calls without incrementality, where that was counted.
    pub anew: Option<u64>,
}

/// What is said of events that an engine did not come to.
pub const NOT_LOOKED_AT: &str = "not looked at in time";

/// What is said of questions that there was no time to decide.
pub const NOT_DECIDED: &str = "not decided in time";

/// What is said of findings beyond the limit.
pub const TOO_MANY: &str = "beyond the limit on races";
