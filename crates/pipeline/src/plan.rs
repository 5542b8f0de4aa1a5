//! Which engines run, in which order, and what each need not prove again.

use crate::options::{Choice, Options};
use snag_engines::happens_before::may_race_by_order;
use snag_engines::{
    CP, EngineRef, FHB, HB, MC, OBSERVED, ORDER, RDIT, RECIPE, SB, SHB, TLH1, TLH2, WCP, has_faults, highest_level,
    is_symbolic,
};
use snag_model::{Level, Trace};

/// One engine's turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub engine: EngineRef,
    /// What these have proved need not be proved again; the last of them is named in the report.
    pub beyond: &'static [EngineRef],
    /// The user asked for it by name and has set no limit.
    pub exhaustive: bool,
}

impl Step {
    /// Whether it is quick and does not depend on what others prove.
    pub fn is_first(&self) -> bool {
        self.engine.is_quick() && self.beyond.is_empty()
    }
}

/// Only what none of these has proved is a race by memory order.
const PREDICTING: &[EngineRef] = &[HB, FHB, SHB, WCP, CP, TLH1, TLH2, SB, RDIT, MC, RECIPE];

/// What `auto` consists of, each with those that come before it.
const AUTO: [(EngineRef, &[EngineRef]); 5] =
    [(OBSERVED, &[]), (SHB, &[]), (MC, &[SHB]), (RECIPE, &[SHB, MC]), (ORDER, PREDICTING)];

/// The steps for a trace, quick ones first: what they find is safe before anything dear is prepared.
pub(crate) fn steps(options: &Options, trace: &Trace) -> Vec<Step> {
    let mut steps = in_order(options, trace);
    let may_race_by_order = may_race_by_order(trace);
    for step in &mut steps {
        // It has nothing to do, so it need not wait for anybody.
        if step.engine == ORDER && !may_race_by_order {
            step.beyond = &[];
        }
    }
    steps.sort_by_key(|step| !step.is_first());
    steps
}

/// The same in the order in which they were asked for, each engine once.
pub(crate) fn in_order(options: &Options, trace: &Trace) -> Vec<Step> {
    let by_name = |engine: EngineRef| options.engines.contains(&Choice::Engine(engine));
    let exhaustive = options.settings.budget.is_none();
    let mut steps: Vec<Step> = Vec::new();
    for choice in &options.engines {
        let parts: Vec<Step> = match *choice {
            Choice::Engine(engine) => vec![Step { engine, beyond: &[], exhaustive }],
            // Recipe on its own does all that the maximal engine does.
            Choice::Auto => AUTO
                .iter()
                .filter(|(engine, _)| !(by_name(*engine) || *engine == MC && by_name(RECIPE)))
                .filter(|(engine, _)| *engine != RECIPE || goes_beyond_maximal(options, trace))
                .filter(|(engine, _)| *engine != ORDER || may_race_by_order(trace))
                .filter(|(engine, _)| *engine != OBSERVED || has_faults(trace))
                .map(|&(engine, beyond)| Step { engine, beyond, exhaustive: false })
                .collect(),
        };
        for step in parts {
            if !steps.iter().any(|known| known.engine == step.engine) {
                steps.push(step);
            }
        }
    }
    if steps.len() > 1
        && let Some(at) = steps.iter().position(|step| step.engine == ORDER)
    {
        let last = Step { beyond: PREDICTING, ..steps.remove(at) };
        steps.push(last);
    }
    steps
}

/// Whether there is anything to ask at level `symbolic`.
fn goes_beyond_maximal(options: &Options, trace: &Trace) -> bool {
    let level = options.settings.level.is_none_or(|level| level == Level::Symbolic);
    level && is_symbolic(trace) && highest_level(trace) > Level::Writer
}

/// Where engines stand in a report.
pub(crate) fn place_in_report(asked: &[Choice]) -> impl Fn(EngineRef) -> usize {
    let mut order: Vec<EngineRef> = Vec::new();
    for choice in asked {
        match choice {
            Choice::Auto => order.extend(AUTO.iter().map(|part| part.0)),
            Choice::Engine(engine) => order.push(*engine),
        }
    }
    move |engine| order.iter().position(|&other| other == engine).unwrap_or(order.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_engines::LOCKSET;
    use snag_model::Op;
    use snag_model::events::Event;

    fn names(engines: &[Choice]) -> Vec<(&'static str, usize)> {
        names_for(engines, &Trace::default())
    }

    fn names_for(engines: &[Choice], trace: &Trace) -> Vec<(&'static str, usize)> {
        let options = Options { engines: engines.to_vec(), ..Options::default() };
        steps(&options, trace).iter().map(|step| (step.engine.name(), step.beyond.len())).collect()
    }

    /// A trace with a relaxed access.
    fn weak() -> Trace {
        let mut trace = Trace::default();
        let (thread, variable) = (trace.tables.thread("T"), trace.tables.variable_named("x"));
        trace.events.push(Event::new(thread, Op::AtomicRead, variable.0));
        trace
    }

    #[test]
    fn auto_is_shb_and_the_rest_for_the_maximal_engine() {
        assert_eq!(names(&[Choice::Auto]), [("shb", 0), ("mc", 1)]);
    }

    #[test]
    fn an_engine_that_is_asked_for_by_name_looks_at_everything_and_runs_once() {
        assert_eq!(names(&[Choice::Auto, MC.into()]), [("shb", 0), ("mc", 0)]);
        assert_eq!(names(&[Choice::Auto, RECIPE.into()]), [("shb", 0), ("recipe", 0)]);
    }

    #[test]
    fn races_by_memory_order_are_looked_for_when_all_else_is_done() {
        let (others, weak) = (PREDICTING.len(), weak());
        assert_eq!(names_for(&[ORDER.into()], &weak), [("order", 0)]);
        assert_eq!(names_for(&[ORDER.into(), MC.into()], &weak), [("mc", 0), ("order", others)]);
        assert_eq!(names_for(&[ORDER.into(), Choice::Auto], &weak), [("shb", 0), ("mc", 1), ("order", others)]);
        assert_eq!(names_for(&[Choice::Auto], &weak), [("shb", 0), ("mc", 1), ("order", others)]);
        // Where all atomics are strong there is nothing to wait for.
        assert_eq!(names(&[MC.into(), ORDER.into()]), [("order", 0), ("mc", 0)]);
    }

    #[test]
    fn what_is_quick_comes_first() {
        assert_eq!(names(&[WCP.into(), LOCKSET.into()]), [("lockset", 0), ("wcp", 0)]);
    }
}
