//! Accesses to one piece of memory, in groups of what differs only in when it happened.

use crate::lock_history::histories::Place;
use crate::lock_history::sets::SetId;
use snag_model::{EventId, LocId, Op, ThreadId, VarId};

/// What accesses of one group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Who.
    pub thread: ThreadId,
    /// What.
    pub op: Op,
    /// Where in the program.
    pub location: LocId,
    /// With which locks.
    pub set: SetId,
    /// Which variable: several may share a cell.
    pub variable: VarId,
}

impl Kind {
    fn hash(&self) -> usize {
        let a = (self.thread.0 as u64) << 40 ^ (self.location.0 as u64) << 8 ^ self.op as u64;
        let b = (self.set.0 as u64) << 32 ^ self.variable.0 as u64;
        let mixed = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize
    }
}

/// Accesses of one kind.
pub struct Group {
    /// The kind.
    pub kind: Kind,
    /// 1 + the segment of its thread in which the last one happened.
    pub segment: u32,
    /// Event and place; ascending.
    pub accesses: Vec<(EventId, Place)>,
    /// One bit for each group of the cell with which nothing is left to be found.
    closed: Vec<u64>,
    /// Groups of the cell with which nothing was found so far.
    vain: Vec<Vain>,
}

/// A group about which was asked in vain.
struct Vain {
    other: u32,
    /// How often.
    times: u32,
    /// So many accesses are not paired with it.
    rest: u32,
}

/// So often it is asked about at every access; then more and more rarely, but never less than once in so many.
const AT_FIRST: u32 = 4;
const RAREST: u32 = 1 << 10;

impl Group {
    /// Whether nothing is left to be found with another group.
    #[inline]
    pub fn is_closed(&self, other: u32) -> bool {
        self.closed.get(other as usize / 64).is_some_and(|word| word >> (other % 64) & 1 == 1)
    }

    /// Whether this access is not to be paired with a group, as that was in vain so often.
    #[inline]
    pub fn rests(&mut self, other: u32) -> bool {
        if self.vain.is_empty() {
            return false;
        }
        let vain = self.vain.iter_mut().find(|vain| vain.other == other);
        vain.is_some_and(|vain| {
            let rests = vain.rest > 0;
            vain.rest -= rests as u32;
            rests
        })
    }

    /// It was asked about another group in vain.
    pub fn asked_in_vain(&mut self, other: u32) {
        let at = self.vain.iter().position(|vain| vain.other == other).unwrap_or_else(|| {
            self.vain.push(Vain { other, times: 0, rest: 0 });
            self.vain.len() - 1
        });
        let vain = &mut self.vain[at];
        vain.times += 1;
        if vain.times > AT_FIRST {
            vain.rest = (1 << (vain.times - AT_FIRST).min(31)).min(RAREST);
        }
    }

    /// Nothing is left to be found with another group.
    pub fn close(&mut self, other: u32) {
        let word = other as usize / 64;
        if self.closed.len() <= word {
            self.closed.resize(word + 1, 0);
        }
        self.closed[word] |= 1 << (other % 64);
    }
}

/// Groups with the same lockset and operation: what rules out one of them rules out all.
pub struct Profile {
    /// The lockset.
    pub set: SetId,
    /// The operation.
    pub op: Op,
    /// The groups.
    pub groups: Vec<u32>,
}

/// All accesses to a piece of memory.
#[derive(Default)]
pub struct Cell {
    /// In the order of their first accesses.
    pub groups: Vec<Group>,
    /// In the order of their first accesses.
    pub profiles: Vec<Profile>,
    /// Finds groups by their kinds: 1 + the number of a group, or 0. Its size is a power of two, and more than half of it free.
    index: Vec<u32>,
    shared: bool,
}

impl Cell {
    /// Whether several threads have accessed it.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The number of the group of a kind, which is made if there is none.
    pub fn group(&mut self, kind: &Kind) -> usize {
        if !self.index.is_empty() {
            let mut at = kind.hash() & (self.index.len() - 1);
            while self.index[at] != 0 {
                let number = self.index[at] as usize - 1;
                if self.groups[number].kind == *kind {
                    return number;
                }
                at = (at + 1) & (self.index.len() - 1);
            }
        }
        self.shared |= self.groups.first().is_some_and(|group| group.kind.thread != kind.thread);
        let number = self.groups.len();
        self.groups.push(Group { kind: *kind, segment: 0, accesses: Vec::new(), closed: Vec::new(), vain: Vec::new() });
        match self.profiles.iter_mut().find(|profile| (profile.set, profile.op) == (kind.set, kind.op)) {
            Some(profile) => profile.groups.push(number as u32),
            None => self.profiles.push(Profile { set: kind.set, op: kind.op, groups: vec![number as u32] }),
        }
        if 2 * self.groups.len() >= self.index.len() {
            self.reindex();
        } else {
            self.enter(number);
        }
        number
    }

    fn enter(&mut self, number: usize) {
        let mut at = self.groups[number].kind.hash() & (self.index.len() - 1);
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = number as u32 + 1;
    }

    fn reindex(&mut self) {
        self.index = vec![0; (4 * self.groups.len()).next_power_of_two()];
        (0..self.groups.len()).for_each(|number| self.enter(number));
    }

    /// Forgets accesses before an event.
    pub fn forget_before(&mut self, event: EventId) {
        if self.groups.iter().all(|group| group.accesses.first().is_some_and(|first| first.0 >= event)) {
            return;
        }
        let groups = std::mem::take(self).groups;
        for mut group in groups {
            group.accesses.drain(..group.accesses.partition_point(|access| access.0 < event));
            if !group.accesses.is_empty() {
                let number = self.group(&group.kind);
                self.groups[number].segment = group.segment;
                group.accesses.shrink_to(2 * group.accesses.len());
                self.groups[number].accesses = group.accesses;
            }
        }
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        let of_group = |group: &Group| size_of::<Group>() + 8 * (group.accesses.capacity() + group.closed.capacity());
        let of_profile = |profile: &Profile| size_of::<Profile>() + 4 * profile.groups.capacity();
        let groups: usize = self.groups.iter().map(of_group).sum();
        size_of::<Cell>() + groups + self.profiles.iter().map(of_profile).sum::<usize>() + 4 * self.index.capacity()
    }
}
