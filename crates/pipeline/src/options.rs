//! What to look for, how, and how long.

use snag_engines::{EngineRef, Settings};
use snag_model::Trace;

/// Shorter traces are looked at sooner than they are condensed.
const CONDENSE_FROM: usize = 200_000;

/// Who is to look for races.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Whoever finds most: SHB, then the maximal engine for what that leaves open, then Recipe.
    Auto,
    /// One engine.
    Engine(EngineRef),
}

impl Choice {
    /// Every choice, in the order in which users see them.
    pub fn all() -> impl Iterator<Item = Choice> {
        std::iter::once(Choice::Auto).chain(snag_engines::ENGINES.iter().copied().map(Choice::Engine))
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Engine(engine) => engine.name(),
        }
    }

    /// The choice of that name.
    pub fn by_name(name: &str) -> Option<Choice> {
        Choice::all().find(|choice| choice.name() == name)
    }

    /// Whether it is about missing methods, so that it makes no sense to have it ignore them.
    pub(crate) fn is_about_missing(self) -> bool {
        matches!(self, Choice::Engine(engine) if engine.is_about_missing())
    }

    /// Whether it finds the same in a trace without accesses to private memory.
    pub(crate) fn is_condensable(self) -> bool {
        match self {
            Choice::Auto => true,
            Choice::Engine(engine) => engine.about().condensable,
        }
    }

    /// Whether the options about reduced traces mean something for it.
    pub fn reduces(self) -> bool {
        matches!(self, Choice::Engine(engine) if engine.about().reduces)
    }

    /// Whether it finds something in a trace that no other engine does in the same way.
    pub fn differs_on(self, trace: &Trace) -> bool {
        match self {
            Choice::Auto => true,
            Choice::Engine(engine) => engine.about().needs.are_met_by(trace),
        }
    }
}

impl From<EngineRef> for Choice {
    fn from(engine: EngineRef) -> Choice {
        Choice::Engine(engine)
    }
}

/// What to look for and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines to run, in order.
    pub engines: Vec<Choice>,
    /// What engines are told.
    pub settings: Settings,
    /// Keep what could not be proved.
    pub candidates: bool,
    /// Bytes that the process may take; `None`: what the system lets it have. An engine that would take more leaves its
    /// own answer open.
    pub memory: Option<u64>,
    /// Engines that are not about missing methods take the trace as if none were missing: what they then report, and
    /// what the checker then accepts, may be impossible.
    pub ignore_missing: bool,
    /// Waits on condition variables may end for no reason: `mc`, `rdit` and `sb` predict with that.
    pub spurious: bool,
    /// A trace of at least so many events is looked at without accesses to private memory, if these are most of it.
    pub condense_from: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engines: vec![Choice::Auto],
            settings: Settings::default(),
            candidates: false,
            memory: None,
            ignore_missing: false,
            spurious: false,
            condense_from: CONDENSE_FROM,
        }
    }
}
