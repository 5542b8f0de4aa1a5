//! Which place in memory each event touches, event by event.
//!
//! A place is a variable in a region: memory with one identity, which is an allocation or all the rest. Memory that
//! is freed and allocated again is another place.

use crate::ids::*;
use crate::op::Op;
use crate::tables::{Tables, Variable};
use std::collections::{BTreeMap, HashMap};

/// The region of memory that nobody has allocated: globals and stacks.
pub const NO_ALLOCATION: u32 = 0;

/// A place in memory that some event touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// 1 + the event that allocated it, or [`NO_ALLOCATION`].
    pub region: u32,
    /// A free touches whatever was accessed in its region.
    pub whole_region: bool,
    /// Where in the region.
    pub extent: Extent,
}

/// Where in its region a place lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Extent {
    /// The variable that is named.
    Name(u32),
    /// First byte and number of bytes.
    Bytes(u64, u64),
}

/// All places, numbered in the order in which they are touched.
///
/// A variable mostly stays in one region, so its last place is remembered, and how often regions had changed when it was
/// last looked at: most events need neither a look at the heap nor a hash.
#[derive(Default)]
pub struct Places {
    /// Every place, by number.
    pub all: Vec<Place>,
    /// For each variable its last place, or `NO_PLACE`, and when.
    last: Vec<(u32, u32)>,
    /// Places of variables in other regions than their last one: variable, region.
    before: HashMap<(u32, u32), u32>,
    /// How often regions have changed.
    changes: u32,
    /// Allocated blocks by their first byte: their last byte, and their region.
    live_ranges: BTreeMap<u64, (u64, u32)>,
    /// Allocated variables that are named, and their region.
    live_names: HashMap<u32, u32>,
}

const NO_PLACE: u32 = u32::MAX;

impl Places {
    /// To be told whenever there may be new variables.
    pub fn know_variables(&mut self, tables: &Tables) {
        self.last.resize(tables.variable_count(), (NO_PLACE, 0));
    }

    /// The place that the next event of the trace touches; `None` if it touches no memory, or begins a region.
    #[inline]
    pub fn touched(&mut self, number: usize, op: Op, target: u32, tables: &Tables) -> Option<u32> {
        if op.if_it_happens().is_access() {
            let (place, when) = self.last[target as usize];
            if place != NO_PLACE && when == self.changes {
                return Some(place);
            }
            return Some(self.look(target, tables));
        }
        match op {
            Op::Alloc => {
                self.begin(number, target, tables);
                None
            }
            Op::Free => Some(self.end(target, tables)),
            _ => None,
        }
    }

    fn begin(&mut self, number: usize, target: u32, tables: &Tables) {
        self.changes += 1;
        let region = number as u32 + 1;
        match tables.variable(VarId(target)) {
            Variable::Named(_) => _ = self.live_names.insert(target, region),
            Variable::Range { address, size } => {
                self.live_ranges.insert(address, (address + (size - 1), region));
            }
        }
    }

    fn end(&mut self, target: u32, tables: &Tables) -> u32 {
        self.changes += 1;
        let (region, extent) = self.region(target, tables);
        match tables.variable(VarId(target)) {
            Variable::Named(_) => _ = self.live_names.remove(&target),
            Variable::Range { address, .. } => _ = self.live_ranges.remove(&address),
        }
        // A region ends once.
        self.all.push(Place { region, whole_region: true, extent });
        self.all.len() as u32 - 1
    }

    fn region(&self, target: u32, tables: &Tables) -> (u32, Extent) {
        match tables.variable(VarId(target)) {
            Variable::Named(_) => {
                (self.live_names.get(&target).copied().unwrap_or(NO_ALLOCATION), Extent::Name(target))
            }
            Variable::Range { address, size } => {
                let block = self.live_ranges.range(..=address).next_back();
                let block = block.filter(|(_, (last, _))| *last >= address);
                (block.map_or(NO_ALLOCATION, |(_, (_, region))| *region), Extent::Bytes(address, size))
            }
        }
    }

    /// The place of a variable after regions have changed.
    #[cold]
    fn look(&mut self, variable: u32, tables: &Tables) -> u32 {
        let (region, extent) = self.region(variable, tables);
        let new = self.all.len() as u32;
        let (last, _) = self.last[variable as usize];
        let number = match self.all.get(last as usize) {
            None => new,
            Some(known) if known.region == region => last,
            Some(known) => {
                self.before.insert((variable, known.region), last);
                *self.before.get(&(variable, region)).unwrap_or(&new)
            }
        };
        if number == new {
            self.all.push(Place { region, whole_region: false, extent });
        }
        self.last[variable as usize] = (number, self.changes);
        number
    }
}
