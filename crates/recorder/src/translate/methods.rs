//! Calls of code that nobody sees, as missing methods.
//!
//! The runtime says what a call can reach by the number of a set, which it has announced before; the variables of the
//! libraries belong to every set. What a set is in the trace depends on which addresses blocks have there, so it is found
//! again when that has changed.

use super::Translator;
use crate::wire::{EVERYTHING, NEW_SET, OF_LIBRARIES, WITHOUT_LIBRARIES};
use snag_model::tables::Object;
use snag_model::{Op, ReachId, Space};

/// Most ranges of all sets together: the runtime stops at fewer.
const MOST: usize = 1 << 23;

/// All memory that a trace can speak of.
const ALL: (u64, u64) = (0, i64::MAX as u64);

/// What is known about missing methods.
#[derive(Default)]
pub struct Methods {
    /// The method of the trace that each number of the runtime's stands for.
    names: Vec<u32>,
    /// Memory that was reached and belongs to no set yet: first byte and size.
    reached: Vec<(u64, u64)>,
    sets: Vec<Set>,
    /// Ranges of all sets.
    ranges: usize,
    /// Variables of libraries.
    libraries: Vec<(u64, u64)>,
    /// Calls that are open, by thread, innermost last: which method, and the set of what it can reach.
    open: Vec<Vec<(u32, Option<usize>)>>,
    /// How often each method of the runtime's was called.
    counts: Vec<u64>,
    /// Those of them that a model says to touch what their arguments lead to alone.
    by_arguments: Vec<bool>,
}

/// A function without callbacks that the program has called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Whether a model says that it touches nothing but what its arguments lead to; else nothing is known about it.
    pub by_arguments: bool,
}

/// Memory that calls can reach.
struct Set {
    ranges: Vec<(u64, u64)>,
    /// The set in the trace, without and with the variables of libraries, and the state of the memory for which it is
    /// that.
    found: [Option<(u64, ReachId)>; 2],
}

impl Translator {
    /// The next method has this name.
    pub(super) fn method_named(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let method = self.tables.intern(Space::Method, &name);
        self.methods.names.push(method);
    }

    pub(super) fn reached(&mut self, address: u64, size: u64, detail: u8) {
        if size == 0 || !super::extent::is_possible(address, size) {
            return self.damage(format!("a call reaches {size} bytes at {address:#x}"));
        }
        if self.methods.ranges >= MOST {
            return self.limit("calls of code that is not instrumented reach too much".to_owned());
        }
        self.methods.ranges += 1;
        match detail {
            OF_LIBRARIES => {
                self.methods.libraries.push((address, size));
                self.methods.sets.iter_mut().for_each(|set| set.found[1] = None);
            }
            _ => self.methods.reached.push((address, size)),
        }
    }

    pub(super) fn method_begin(&mut self, method: u64, set: u64, detail: u8, pc: u64) {
        let Some(&name) = self.methods.names.get(method as usize) else {
            return self.damage(format!("a call of method {method}, which has no name"));
        };
        let method = method as usize;
        if self.methods.counts.len() <= method {
            self.methods.counts.resize(method + 1, 0);
            self.methods.by_arguments.resize(method + 1, false);
        }
        self.methods.counts[method] += 1;
        // What it touches counts as touched in all schedules.
        self.shadow.contention.give_up();
        self.methods.by_arguments[method] = detail & WITHOUT_LIBRARIES != 0;
        if detail & NEW_SET != 0 {
            let ranges = std::mem::take(&mut self.methods.reached);
            self.methods.sets.push(Set { ranges, found: [None; 2] });
        }
        let reach = match detail & EVERYTHING {
            0 => match self.set(set as usize, detail & WITHOUT_LIBRARIES == 0) {
                Some(reach) => reach,
                None => return self.damage(format!("a call reaches set {set}, which there is not")),
            },
            _ => {
                let everything = Object::Variable(self.tables.variable_range(ALL.0, ALL.1));
                self.tables.reach(vec![everything])
            }
        };
        if self.methods.open.len() <= self.current {
            self.methods.open.resize(self.current + 1, Vec::new());
        }
        let known = (detail & EVERYTHING == 0).then_some(set as usize);
        self.methods.open[self.current].push((name, known));
        self.plain(Op::MethodBegin, name, reach.0, pc);
    }

    pub(super) fn method_end(&mut self, pc: u64) {
        let open = self.methods.open.get_mut(self.current).and_then(Vec::pop);
        match open {
            Some((name, set)) => {
                self.plain(Op::MethodEnd, name, 0, pc);
                if let Some(set) = set {
                    self.may_have_written(set);
                }
            }
            None => self.damage("a call ends that has not begun".to_owned()),
        }
    }

    /// A call may have written what it could reach: what a read finds there comes from that, and needs no other
    /// explanation. Sets of much are left alone: where a read shows that something else is there, the trace says so then.
    fn may_have_written(&mut self, set: usize) {
        const MOST_RANGES: usize = 64;
        const MOST_BYTES: u64 = 1 << 12;
        let Some(Set { ranges, .. }) = self.methods.sets.get(set) else { return };
        let bytes: u64 = ranges.iter().map(|(_, size)| size).sum();
        if ranges.len() > MOST_RANGES || bytes > MOST_BYTES {
            return;
        }
        for (address, size) in ranges.clone() {
            let mut at = address;
            while at < address + size {
                let (_, end, offset) = self.heap.window(at);
                let to = end.min(address + size);
                self.shadow.forget(at + offset, to - at);
                at = to;
            }
        }
    }

    /// The functions that were called, most often first; those of one name are one.
    pub fn unseen(&self) -> Vec<Unseen> {
        let Methods { names, counts, by_arguments, .. } = &self.methods;
        let mut all: Vec<Unseen> = Vec::new();
        for ((&name, &calls), &by_arguments) in names.iter().zip(counts).zip(by_arguments) {
            let name = self.tables.names(Space::Method).get(name as usize);
            match all.iter_mut().find(|known| known.name == name && known.by_arguments == by_arguments) {
                Some(known) => known.calls += calls,
                None => all.push(Unseen { name: name.to_owned(), calls, by_arguments }),
            }
        }
        all.retain(|function| function.calls > 0);
        all.sort_by_key(|function| std::cmp::Reverse(function.calls));
        all
    }

    /// A set as it is in the trace now.
    fn set(&mut self, number: usize, with_libraries: bool) -> Option<ReachId> {
        let state = self.heap.changes();
        let set = self.methods.sets.get(number)?;
        if let Some((found, reach)) = set.found[with_libraries as usize]
            && found == state
        {
            return Some(reach);
        }
        let libraries = if with_libraries { &*self.methods.libraries } else { &[] };
        let ranges: Vec<_> = libraries.iter().chain(&set.ranges).copied().collect();
        let mut objects = Vec::new();
        for (address, size) in ranges {
            let mut at = address;
            while at < address + size {
                let (_, end, offset) = self.heap.window(at);
                // Windows end with regions; what goes on behind them is one range.
                let mut to = end.min(address + size);
                while to < address + size {
                    let (_, end, next) = self.heap.window(to);
                    if next != offset {
                        break;
                    }
                    to = end.min(address + size);
                }
                objects.push(Object::Variable(self.tables.variable_range(at + offset, to - at)));
                at = to;
            }
        }
        objects.sort_unstable();
        objects.dedup();
        let reach = self.tables.reach(objects);
        self.methods.sets[number].found[with_libraries as usize] = Some((state, reach));
        Some(reach)
    }
}
