//! What events do in a witness of level `symbolic`: there reads may take other values than in the trace, and what is computed
//! from them is different, too.

use snag_model::Level;
use snag_model::symbolic::{Role, Symbolic};
use snag_model::{EventId, Op, Trace};
use snag_pipeline::Race;
use std::collections::HashMap;

/// The values of events in a witness.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// What is read or written, and what an `rmw` writes, where it is not what it was in the trace.
    changed: HashMap<EventId, (Option<i64>, Option<i64>)>,
}

impl Values {
    /// Those of a race's witness, and of the racing accesses after it.
    pub fn of(trace: &Trace, race: &Race) -> Values {
        let goal = [race.first, race.second];
        let on_other_side = |event: EventId| trace.events.ops()[event.index()].on_other_side();
        let changes = |&(read, value): &(EventId, i64)| trace.event(read).value != Some(value);
        let as_observed = race.diverging.is_empty() && !race.reads.iter().any(changes);
        if race.level != Level::Symbolic || as_observed && !goal.into_iter().any(on_other_side) {
            return Values::default();
        }
        let mut walk = Walk {
            trace,
            symbolic: Symbolic::of(trace),
            taken: race.reads.iter().copied().collect(),
            symbols: Vec::new(),
            strayed: vec![false; trace.tables.thread_count()],
            diverged: vec![false; trace.tables.thread_count()],
            values: Values::default(),
        };
        walk.symbols = walk.symbolic.definitions().iter().map(|definition| definition.value).collect();
        for event in race.witness.iter(trace) {
            walk.event(event, race.diverging.contains(&event));
        }
        for event in goal {
            // What they read is open: it does not matter.
            walk.event(event, false);
        }
        walk.values
    }

    /// What an event reads or writes, and what it writes if it is an `rmw`, as far as known.
    pub fn of_event(&self, trace: &Trace, event: EventId) -> (Option<i64>, Option<i64>) {
        let observed = trace.event(event);
        self.changed.get(&event).copied().unwrap_or((observed.value, observed.written))
    }
}

/// Goes along a witness.
struct Walk<'a> {
    trace: &'a Trace,
    symbolic: Symbolic,
    taken: HashMap<EventId, i64>,
    /// What each symbol stands for, as far as known.
    symbols: Vec<Option<i128>>,
    /// Threads that have read something else than in the trace: what they write without an expression is unknown.
    strayed: Vec<bool>,
    /// Threads that have gone to the other side of a branch. Elsewhere the events of such a side do nothing.
    diverged: Vec<bool>,
    values: Values,
}

impl Walk<'_> {
    fn event(&mut self, id: EventId, diverges: bool) {
        let event = self.trace.event(id);
        let role = self.symbolic.role(id);
        let thread = event.thread.index();
        self.diverged[thread] |= diverges;
        if event.op.on_other_side() && !self.diverged[thread] {
            return;
        }
        let (mut value, mut written) = (event.value, event.written);
        if event.op.if_it_happens().reads() {
            value = self.taken.get(&id).copied();
            self.strayed[thread] |= !event.op.on_other_side() && value != event.value;
            if self.strayed[thread] {
                written = None;
            }
        }
        match role {
            Role::Read(symbol) => {
                let sort = self.symbolic.definition(symbol).sort;
                self.symbols[symbol.index()] = value.map(|value| sort.from_memory(value));
            }
            Role::Let(symbol) => {
                let definition = self.symbolic.definition(symbol);
                let now = definition.term.and_then(|term| self.evaluate(term));
                self.symbols[symbol.index()] = now;
                value = value.and(now.and_then(|now| definition.sort.to_memory(now)));
            }
            Role::Write(term) => {
                let sort = self.symbolic.term(term).sort;
                value = self.evaluate(term).and_then(|value| sort.to_memory(value));
            }
            Role::Branch { .. } if diverges => value = value.map(|outcome| (outcome == 0) as i64),
            Role::None if event.op == Op::Write || event.op == Op::AtomicWrite => {
                value = value.filter(|_| !self.strayed[thread]);
            }
            Role::None | Role::Branch { .. } => {}
        }
        if (value, written) != (event.value, event.written) {
            self.values.changed.insert(id, (value, written));
        }
    }

    fn evaluate(&self, term: snag_model::TermId) -> Option<i128> {
        self.symbolic.evaluate(term, |symbol| self.symbols[symbol.index()]).ok().flatten()
    }
}
