//! Object trees: what the arguments of missing methods lead to.
//!
//! Huang, Rajagopalan (OOPSLA 2016), section 3.2.1: what a missing method could reach need not be computed and written
//! at every call. It is written once for each object, and changes when a reference is written.
//!
//! An object is a variable, mostly an address range. `reach(o,{…})` says what o leads to from here on, in place of
//! what was said before; members of which something was said in turn lead on. A missing method that was
//! given o could reach o and all that it leads to, directly or by way of others. A *reference write* changes that: an access
//! that writes a known value, which is the address of a described object or of a byte inside it, to memory `f` makes `f`
//! lead to that object and to nothing else, and every described object that shares memory with `f` lead to `f`. If the value is no such
//! address (null, say), `f` leads nowhere. What was said by a `reach(f,{…})` stays, though, until another one. If the
//! value is not known, nothing changes; then a `reach(f,{…})` after the write can say what it leads to.
//!
//! Guarantee: all that described objects lead to by what the trace says. What missing code itself wrote is not seen, as in
//! the paper; it can be said by a further `reach` after the call.
//!
//! Cost: an event that is no `reach`, write or call costs nothing, and neither does a trace without `reach`. A call costs the size of
//! what it could reach, and nothing if its arguments were resolved before and nothing has changed since.

use crate::events::Events;
use crate::ids::*;
use crate::op::Op;
use crate::tables::{Object, Tables, Variable};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What each object leads to at a point of a trace.
#[derive(Default)]
pub struct Trees {
    /// What a variable leads to; described objects and fields that a reference was written to.
    leads_to: HashMap<VarId, Vec<Object>>,
    /// Variables of which a `reach` said what they lead to.
    described: HashSet<VarId>,
    /// Those that are ranges, by their first byte: several if they begin at the same byte.
    at: BTreeMap<u64, Vec<VarId>>,
    /// Size of the largest of them.
    largest: u64,
    /// What lists of arguments lead to, as long as nothing changes.
    resolved: HashMap<ReachId, ReachId>,
    /// The call that a variable was last seen for.
    seen: Vec<u32>,
    /// The call that another object was last seen for.
    others_seen: HashMap<Object, u32>,
    /// Whether a variable may have something in `leads_to`.
    leads: Vec<bool>,
    /// Calls that were not found in `resolved`.
    calls: u32,
    /// Members of all lists in `leads_to`.
    members: usize,
}

/// About how many bytes an object takes here beside its members.
const EACH: usize = 96;

impl Trees {
    /// No objects yet.
    pub fn new() -> Trees {
        Trees::default()
    }

    /// Follows the events of a block from `from` on, which are the next of the stream, and gives missing methods what
    /// they could reach in place of their arguments. If that takes too much memory, says at which event.
    pub fn resolve(&mut self, events: &mut Events, from: usize, tables: &mut Tables) -> Result<(), (usize, String)> {
        if self.leads_to.is_empty() && !tables.has_arguments() && !events.ops()[from..].contains(&Op::Reach) {
            return Ok(());
        }
        for index in from..events.len() {
            match events.ops()[index] {
                Op::Reach => {
                    let (object, set) = (VarId(events.targets()[index]), ReachId(events.aux(index)));
                    self.describe(object, tables.reach_objects(set), tables);
                    self.check_room(events, index, tables)?;
                }
                Op::Write | Op::AtomicWrite | Op::Rmw if !self.leads_to.is_empty() => {
                    let event = events.get(index);
                    if let Some(value) = event.value_written() {
                        self.write(VarId(event.target), value as u64, tables);
                        self.check_room(events, index, tables)?;
                    }
                }
                Op::MethodBegin if tables.are_arguments(ReachId(events.aux(index))) => {
                    let reached = self.reached(ReachId(events.aux(index)), tables);
                    events.set_aux(index, reached.0);
                    self.check_room(events, index, tables)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets that are small in a file can be large here: each object has its own.
    fn check_room(&self, events: &Events, index: usize, tables: &mut Tables) -> Result<(), (usize, String)> {
        let own = self.members * size_of::<Object>()
            + EACH * (self.leads_to.len() + self.others_seen.len())
            + 5 * self.seen.len();
        tables.check_room((events.first + index) as u64, own as u64).map_err(|message| (index, message))
    }

    fn describe(&mut self, object: VarId, members: &[Object], tables: &Tables) {
        if self.described.insert(object)
            && let Variable::Range { address, size } = tables.variable(object)
        {
            self.at.entry(address).or_default().push(object);
            self.largest = self.largest.max(size);
        }
        self.lead(object, members.to_vec());
    }

    fn lead(&mut self, from: VarId, to: Vec<Object>) {
        if self.leads_to.get(&from) != Some(&to) {
            self.members += to.len();
            self.may_lead(from);
            let before = self.leads_to.insert(from, to);
            self.members -= before.map_or(0, |before| before.len());
            self.resolved.clear();
        }
    }

    fn may_lead(&mut self, from: VarId) {
        if self.leads.len() <= from.index() {
            self.leads.resize(from.index() + 1, false);
        }
        self.leads[from.index()] = true;
    }

    /// A value is written to a variable.
    fn write(&mut self, field: VarId, value: u64, tables: &Tables) {
        let referred = self.around(value, value, tables).filter(|&object| object != field);
        let referred: Vec<Object> = referred.map(Object::Variable).collect();
        if referred.is_empty() {
            if self.leads_to.contains_key(&field) && !self.described.contains(&field) {
                self.lead(field, Vec::new());
            }
            return;
        }
        for owner in self.owners(field, tables) {
            self.add(owner, Object::Variable(field));
        }
        if self.described.contains(&field) {
            referred.into_iter().for_each(|object| self.add(field, object));
        } else {
            self.lead(field, referred);
        }
    }

    /// The described objects that share memory with a variable, other than itself.
    fn owners(&self, field: VarId, tables: &Tables) -> Vec<VarId> {
        let Variable::Range { address, size } = tables.variable(field) else { return Vec::new() };
        self.around(address, address + (size - 1), tables).filter(|&id| id != field).collect()
    }

    /// The described ranges that hold one of the bytes from a first to a last.
    fn around<'a>(&'a self, first: u64, last: u64, tables: &'a Tables) -> impl Iterator<Item = VarId> + 'a {
        let lowest = first.saturating_sub(self.largest.saturating_sub(1));
        let near = self.at.range(lowest..=last).flat_map(|(_, objects)| objects).copied();
        near.filter(move |&id| match tables.variable(id) {
            Variable::Range { address, size } => address + (size - 1) >= first,
            Variable::Named(_) => false,
        })
    }

    fn add(&mut self, to: VarId, member: Object) {
        self.may_lead(to);
        let members = self.leads_to.entry(to).or_default();
        if !members.contains(&member) {
            members.push(member);
            self.members += 1;
            self.resolved.clear();
        }
    }

    /// All that arguments lead to.
    fn reached(&mut self, arguments: ReachId, tables: &mut Tables) -> ReachId {
        if let Some(&set) = self.resolved.get(&arguments) {
            return set;
        }
        self.calls += 1;
        let mut all: Vec<Object> = Vec::new();
        let mut add = |object: Object, all: &mut Vec<Object>| {
            let before = match object {
                Object::Variable(id) => {
                    if self.seen.len() <= id.index() {
                        self.seen.resize(id.index() + 1, 0);
                    }
                    std::mem::replace(&mut self.seen[id.index()], self.calls)
                }
                other => self.others_seen.insert(other, self.calls).unwrap_or(0),
            };
            if before != self.calls {
                all.push(object);
            }
        };
        for &object in tables.reach_objects(arguments) {
            add(object, &mut all);
        }
        let mut next = 0;
        while let Some(&object) = all.get(next) {
            next += 1;
            if let Object::Variable(id) = object
                && self.leads.get(id.index()) == Some(&true)
                && let Some(members) = self.leads_to.get(&id)
            {
                members.iter().for_each(|&member| add(member, &mut all));
            }
        }
        let set = tables.reach(all);
        self.resolved.insert(arguments, set);
        set
    }
}
