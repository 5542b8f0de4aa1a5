//! What missing calls could have reached by their arguments, where a complete trace says what they touched.
//!
//! A recorder of incomplete traces does not know what a call touches: it takes everything that its arguments lead to
//! (Huang and Rajagopalan, OOPSLA 2016, section 3.2). Which arguments a call had a trace does not say. Here they are what
//! it touched and the objects that these things are parts of: the heap block that memory or a lock lies in, and whatever
//! a `reach` of the trace says leads there directly. References are those that [`Trees`] finds in the trace, in the
//! events that will be missing as well: a recorder reads them from the memory itself.

use snag_model::events::Event;
use snag_model::ids::*;
use snag_model::op::Op;
use snag_model::tables::{Object, Tables, Variable};
use snag_model::trees::Trees;
use snag_model::{Action, Events, Trace};
use std::collections::{BTreeMap, HashMap};

/// What a recording says besides its trace.
#[derive(Debug, Default)]
pub struct Places {
    /// The address of each lock that is known.
    pub locks: HashMap<LockId, u64>,
}

/// A call that is to be missing: the event before which it begins, and what it touches.
pub struct Missing {
    /// Its number in the trace.
    pub before: usize,
    /// Each once.
    pub touched: Vec<Object>,
}

/// What each call could reach, in the order of `calls`, which are in that of the trace.
pub fn reach(trace: &Trace, places: &Places, calls: &[Missing]) -> Vec<Vec<Object>> {
    let mut tables = trace.tables.clone();
    let mut blocks = Blocks::default();
    let mut events = Events::new();
    let mut begins = Vec::new();
    let mut calls = calls.iter().peekable();
    let end = EventId::new(trace.len());
    for (index, event) in trace.events.iter().map(Some).chain([None]).enumerate() {
        while let Some(call) = calls.next_if(|call| call.before <= index || index == end.index()) {
            let arguments = blocks.arguments(&call.touched, places, &tables);
            let reach = tables.arguments(arguments);
            begins.push(events.len());
            let at = event.unwrap_or_else(|| Event::new(ThreadId(0), Op::Mark, 0));
            events.push(at.doing(Action::MethodBegin { method: MethodId(0), reach }));
        }
        let Some(event) = event else { break };
        match event.action() {
            Action::Alloc { variable } => {
                blocks.begin(variable, &tables);
                let members = places.locks_in(variable, &tables);
                let reach = tables.reach(members);
                events.push(event.doing(Action::Reach { object: variable, leads_to: reach }));
            }
            Action::Free { variable } => blocks.end(variable, &tables),
            Action::Reach { object, leads_to } => {
                blocks.describe(object, trace.tables.reach_objects(leads_to));
                events.push(event);
            }
            _ if event.op.writes() => events.push(event),
            _ => {}
        }
    }
    // The trace itself was followed when it was read; here there is always enough memory for what it has.
    if Trees::new().resolve(&mut events, 0, &mut tables).is_err() {
        return Vec::new();
    }
    begins.iter().map(|&begin| tables.reach_objects(ReachId(events.aux(begin))).to_vec()).collect()
}

impl Places {
    fn locks_in(&self, block: VarId, tables: &Tables) -> Vec<Object> {
        let Variable::Range { address, size } = tables.variable(block) else { return Vec::new() };
        let is_inside = |at: u64| (address..address + size).contains(&at);
        let mut locks: Vec<LockId> =
            self.locks.iter().filter(|&(_, &at)| is_inside(at)).map(|(&lock, _)| lock).collect();
        locks.sort_unstable();
        locks.into_iter().map(Object::Lock).collect()
    }
}

/// The objects that there are at a point of the trace.
#[derive(Default)]
struct Blocks {
    /// Heap blocks by their first byte, with their last.
    live: BTreeMap<u64, (u64, VarId)>,
    /// Objects that lead to something directly, as the trace says.
    owners: HashMap<Object, Vec<VarId>>,
}

impl Blocks {
    fn begin(&mut self, block: VarId, tables: &Tables) {
        if let Variable::Range { address, size } = tables.variable(block) {
            self.live.insert(address, (address + (size - 1), block));
        }
    }

    fn end(&mut self, block: VarId, tables: &Tables) {
        if let Variable::Range { address, .. } = tables.variable(block) {
            self.live.remove(&address);
        }
    }

    fn describe(&mut self, object: VarId, members: &[Object]) {
        for &member in members {
            let owners = self.owners.entry(member).or_default();
            if !owners.contains(&object) {
                owners.push(object);
            }
        }
    }

    fn block_at(&self, address: u64) -> Option<VarId> {
        let (_, &(last, block)) = self.live.range(..=address).next_back()?;
        (address <= last).then_some(block)
    }

    /// What was touched, and what that is part of.
    fn arguments(&self, touched: &[Object], places: &Places, tables: &Tables) -> Vec<Object> {
        let mut all = touched.to_vec();
        for &object in touched {
            let address = match object {
                Object::Variable(variable) => match tables.variable(variable) {
                    Variable::Range { address, .. } => Some(address),
                    Variable::Named(_) => None,
                },
                Object::Lock(lock) => places.locks.get(&lock).copied(),
                _ => None,
            };
            let block = address.and_then(|address| self.block_at(address));
            let owners = self.owners.get(&object).into_iter().flatten().copied();
            all.extend(block.into_iter().chain(owners).map(Object::Variable));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
