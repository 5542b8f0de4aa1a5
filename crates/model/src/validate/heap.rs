//! The heap as the rules see it: which memory is in a block, and whether that is live.

use super::{Check, Rule};
use crate::ids::VarId;
use crate::tables::{Tables, Variable};
use std::collections::{BTreeMap, HashMap};

/// Which memory is heap. Only filled if the trace allocates.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    pub(super) used: bool,
    /// First byte → last byte, live; disjoint.
    blocks: BTreeMap<u64, (u64, bool)>,
    /// Named variables that are heap objects, and whether they are live.
    names: HashMap<u32, bool>,
    /// Stretches of memory in which accesses were found to be right: first and last byte, and when; by page.
    recent: Vec<(u64, u64, u64)>,
    /// How often something was allocated or freed; what was found before that counts no more.
    changes: u64,
}

/// Entries of [`Heap::recent`].
const RECENT: usize = 1 << 10;

/// Where in [`Heap::recent`] an address is looked up.
#[inline(always)]
fn page(address: u64) -> usize {
    (address >> 12) as usize % RECENT
}

impl Heap {
    pub(super) fn alloc(&mut self, id: VarId, tables: &Tables) -> Check {
        self.used = true;
        self.changes += 1;
        match tables.variable(id) {
            Variable::Named(_) => {
                if self.names.insert(id.0, true) == Some(true) {
                    return Err((Rule::BlocksOverlap, format!("{} is live already", tables.variable_text(id))));
                }
            }
            Variable::Range { address, size } => {
                let last = address + (size - 1);
                let overlapping: Vec<u64> = self.overlapping(address, last).map(|(start, _)| start).collect();
                for start in overlapping {
                    let (end, live) = self.blocks[&start];
                    if live {
                        return Err((
                            Rule::BlocksOverlap,
                            format!("{} overlaps the live block at {start:#x}", tables.variable_text(id)),
                        ));
                    }
                    // Freed memory is handed out again: what is left of the old block stays freed.
                    self.blocks.remove(&start);
                    if start < address {
                        self.blocks.insert(start, (address - 1, false));
                    }
                    if end > last {
                        self.blocks.insert(last + 1, (end, false));
                    }
                }
                self.blocks.insert(address, (last, true));
            }
        }
        Ok(())
    }

    pub(super) fn free(&mut self, id: VarId, tables: &Tables) -> Check {
        self.used = true;
        self.changes += 1;
        let live = match tables.variable(id) {
            Variable::Named(_) => self.names.get_mut(&id.0),
            Variable::Range { address, size } => {
                self.blocks.get_mut(&address).filter(|(last, _)| *last == address + (size - 1)).map(|(_, live)| live)
            }
        };
        match live {
            Some(live) if *live => {
                *live = false;
                Ok(())
            }
            _ => Err((Rule::FreeOfNoBlock, format!("{} is not a live heap block", tables.variable_text(id)))),
        }
    }

    /// A use of memory that was freed: it is in no live block. Who freed it, if that was seen, is no matter of form.
    pub(super) fn stale(&self, id: VarId, tables: &Tables) -> Check {
        let lives = match tables.variable(id) {
            Variable::Named(_) => self.names.get(&id.0) != Some(&false),
            Variable::Range { address, size } => {
                self.overlapping(address, address + (size - 1)).any(|(_, (_, live))| live)
            }
        };
        match lives {
            false => Ok(()),
            true => Err((Rule::NotFreed, format!("{} was not freed", tables.variable_text(id)))),
        }
    }

    /// An access to a variable.
    #[inline]
    pub(super) fn access(&mut self, id: VarId, tables: &Tables) -> Check {
        if let Variable::Range { address, size } = tables.variable(id)
            && let Some(&(first, last, when)) = self.recent.get(page(address))
            && when == self.changes
            && first <= address
            && address + (size - 1) <= last
        {
            return Ok(());
        }
        self.look(id, tables)
    }

    #[inline(never)]
    fn look(&mut self, id: VarId, tables: &Tables) -> Check {
        let freed = || (Rule::AccessAfterFree, format!("{} has been freed", tables.variable_text(id)));
        let (address, size) = match tables.variable(id) {
            Variable::Named(_) => match self.names.get(&id.0) {
                Some(false) => return Err(freed()),
                _ => return Ok(()),
            },
            Variable::Range { address, size } => (address, size),
        };
        let last = address + (size - 1);
        let mut inside = None;
        for (start, (end, live)) in self.overlapping(address, last) {
            if !live {
                return Err(freed());
            }
            if address < start || last > end {
                return Err((
                    Rule::AccessAcrossBlocks,
                    format!("{} reaches over the block at {start:#x}", tables.variable_text(id)),
                ));
            }
            inside = Some((start, end));
        }
        let (first, last) = inside.unwrap_or_else(|| self.gap(address));
        self.recent.resize(RECENT, (1, 0, 0));
        self.recent[page(address)] = (first, last, self.changes);
        Ok(())
    }

    /// The memory around an address that is in no block.
    fn gap(&self, address: u64) -> (u64, u64) {
        let before = self.blocks.range(..address).next_back().map_or(0, |(_, &(end, _))| end + 1);
        let after = self.blocks.range(address..).next().map_or(u64::MAX, |(&start, _)| start - 1);
        (before, after)
    }

    /// Blocks, live or freed, that share a byte with `first..=last`.
    fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, (u64, bool))> {
        self.blocks.range(..=last).rev().take_while(move |(_, (end, _))| *end >= first).map(|(s, b)| (*s, *b))
    }
}
