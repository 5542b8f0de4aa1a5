//! Object trees: what the arguments of missing methods lead to.
//!
//! Huang, Rajagopalan (OOPSLA 2016), section 3.2.1: what a missing method could reach need not be computed and written
//! at every call. It is written once for each object, and changes when a reference is written.
//!
//! An object is a variable, mostly an address range. `reach(o,{…})` says what o leads to from here on, in place of
//! what was said before; members of which something was said in turn lead on. A missing method that was
//! given o could reach o and all that it leads to, directly or by way of others. A *reference write* changes that: an access
//! that writes a known value, which is the address of a described object, to memory `f` makes `f` lead to that
//! object and to nothing else, and every described object that shares memory with `f` lead to `f`. If the value is no such
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
pub(crate) struct Trees {
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
    /// The call that a variable or another object was last seen for.
    seen: HashMap<Object, u32>,
    /// Calls that were not found in `resolved`.
    calls: u32,
    /// Members of all lists in `leads_to`.
    members: usize,
}

/// About how many bytes an object takes here beside its members.
const EACH: usize = 96;

impl Trees {
    pub(crate) fn new() -> Trees {
        Trees::default()
    }

    /// Follows the events of a block from `from` on, which are the next of the stream, and gives missing methods what
    /// they could reach in place of their arguments. If that takes too much memory, says at which event.
    pub(crate) fn resolve(
        &mut self,
        events: &mut Events,
        from: usize,
        tables: &mut Tables,
    ) -> Result<(), (usize, String)> {
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
        let own = self.members * size_of::<Object>() + EACH * (self.leads_to.len() + self.seen.len());
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
            let before = self.leads_to.insert(from, to);
            self.members -= before.map_or(0, |before| before.len());
            self.resolved.clear();
        }
    }

    /// A value is written to a variable.
    fn write(&mut self, field: VarId, value: u64, tables: &Tables) {
        let referred: Vec<Object> = match self.at.get(&value) {
            Some(objects) => objects.iter().filter(|&&object| object != field).map(|&o| Object::Variable(o)).collect(),
            None => Vec::new(),
        };
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
        let lowest = address.saturating_sub(self.largest.saturating_sub(1));
        let around = self.at.range(lowest..=address + (size - 1)).flat_map(|(_, objects)| objects).copied();
        let shares = |&id: &VarId| match tables.variable(id) {
            Variable::Range { address: first, size } => id != field && first + (size - 1) >= address,
            Variable::Named(_) => false,
        };
        around.filter(shares).collect()
    }

    fn add(&mut self, to: VarId, member: Object) {
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
            if self.seen.insert(object, self.calls) != Some(self.calls) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::TraceReader;
    use crate::text_format::TextReader;
    use crate::trace::Trace;
    use std::collections::BTreeSet;
    use std::io::Cursor;

    fn read(text: &str) -> Trace {
        let text = format!("%snag 1\n{text}");
        TraceReader::new(Box::new(TextReader::new(Cursor::new(text))), None).read_all().expect("well formed").0
    }

    /// What each missing method of a trace could reach, spelled and sorted.
    fn reached(text: &str) -> Vec<Vec<String>> {
        let trace = read(text);
        let begins = trace.events.iter().filter(|event| event.op == Op::MethodBegin);
        let spelled = |&object: &Object| match object {
            Object::Variable(id) => trace.tables.variable_text(id),
            Object::Lock(id) => format!("lock:{}", trace.tables.lock_name(id)),
            other => format!("{other:?}"),
        };
        let sets = begins.map(|begin| {
            assert!(!trace.tables.are_arguments(ReachId(begin.aux)));
            let mut set: Vec<String> = trace.tables.reach_objects(ReachId(begin.aux)).iter().map(spelled).collect();
            set.sort();
            set
        });
        sets.collect()
    }

    #[test]
    fn arguments_lead_to_themselves_and_on_through_described_members() {
        let sets = reached(
            "T|reach(o,{o.f,p,lock:l})|\nT|reach(p,{q,o})|\nT|method-begin(m,o)|\nT|method-end(m)|\n\
             T|method-begin(m,p,lock:k)|\nT|method-end(m)|\nT|method-begin(m,{o})|\n",
        );
        let both = ["lock:l", "o", "o.f", "p", "q"];
        assert_eq!(sets, [both.to_vec(), ["lock:k"].iter().chain(&both).copied().collect(), vec!["o"]]);
    }

    #[test]
    fn a_second_reach_takes_the_place_of_the_first_from_there_on() {
        let sets = reached(
            "T|reach(o,{x})|\nT|method-begin(m,o)|\nT|reach(o,{y})|\nU|method-begin(m,o)|\nU|reach(y,{z})|\n\
             U|method-begin(m,o)|\n",
        );
        assert_eq!(sets, [vec!["o", "x"], vec!["o", "y"], vec!["o", "y", "z"]]);
    }

    #[test]
    fn a_reference_that_is_written_changes_the_tree_below_it() {
        // o is 0x1000, with a field at 0x1008; p is 0x2000 and q is 0x3000.
        let sets = reached(
            "T|reach(0x1000:16,{})|\nT|reach(0x2000:8,{lock:p})|\nT|reach(0x3000:8,{lock:q})|\n\
             T|method-begin(m,0x1000:16)|\n\
             U|w(0x1008:8)=8192|\nT|method-begin(m,0x1000:16)|\n\
             U|atomic-w(0x1008:8,seq_cst)=12288|\nT|method-begin(m,0x1000:16)|\n\
             U|w(0x1008:8)|\nT|method-begin(m,0x1000:16)|\n\
             U|rmw(0x1008:8,seq_cst)=12288:0|\nT|method-begin(m,0x1000:16)|\n",
        );
        let with = |more: &[&str]| -> Vec<String> {
            ["0x1000:16"].iter().chain(more).map(|text| (*text).to_owned()).collect()
        };
        let q = with(&["0x1008:8", "0x3000:8", "lock:q"]);
        assert_eq!(sets, [with(&[]), with(&["0x1008:8", "0x2000:8", "lock:p"]), q.clone(), q, with(&["0x1008:8"])]);
    }

    #[test]
    fn what_was_said_about_a_field_stays_beside_what_is_written_to_it() {
        let sets = reached(
            "T|reach(0x1000:8,{lock:l})|\nT|reach(0x2000:8,{lock:p})|\nT|reach(f,{lock:f})|\n\
             T|w(0x1000:8)=8192|\nT|w(f)=8192|\nT|method-begin(m,0x1000:8)|\nT|method-begin(m,f)|\n\
             T|w(0x1000:8)=1|\nT|w(f)=0|\nT|method-begin(m,0x1000:8)|\nT|method-begin(m,f)|\n",
        );
        let o = vec!["0x1000:8", "0x2000:8", "lock:l", "lock:p"];
        let f = vec!["0x2000:8", "f", "lock:f", "lock:p"];
        assert_eq!(sets, [o.clone(), f.clone(), o, f]);
    }

    /// Resolved sets against a closure that is computed anew for each call, on random graphs of named objects.
    #[test]
    fn random_trees_are_followed_as_a_naive_closure_follows_them() {
        let mut state = 7u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        for _ in 0..300 {
            let mut text = String::new();
            let mut graph: Vec<Option<BTreeSet<u64>>> = vec![None; 8];
            let mut expected: Vec<Vec<String>> = Vec::new();
            for _ in 0..40 {
                let from = random(8);
                if random(2) == 0 {
                    let to: BTreeSet<u64> = (0..random(3)).map(|_| random(8)).collect();
                    let members: Vec<String> = to.iter().map(|object| format!("o{object}")).collect();
                    text += &format!("T|reach(o{from},{{{}}})|\n", members.join(","));
                    graph[from as usize] = Some(to);
                } else if graph[from as usize].is_some() {
                    text += &format!("T|method-begin(m,o{from})|\n");
                    let mut all = BTreeSet::from([from]);
                    for _ in 0..8 {
                        let more: Vec<u64> =
                            all.iter().flat_map(|&o| graph[o as usize].clone().unwrap_or_default()).collect();
                        all.extend(more);
                    }
                    expected.push(all.iter().map(|object| format!("o{object}")).collect());
                }
            }
            if !text.is_empty() {
                assert_eq!(reached(&text), expected, "{text}");
            }
        }
    }
}
