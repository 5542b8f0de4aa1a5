//! Weak-causally-precedes: Kini, Mathur, Viswanathan, *Dynamic Race Prediction in Linear Time*, PLDI 2017.
//!
//! Guarantee: exactly the relation of `docs/causal.md`, in one pass. Deviations from
//! the paper's algorithm: it keeps for each lock and each thread a queue of the clocks of
//! acquires and releases; here a section is known to be ordered by one look at one
//! component (times are event numbers), so the sections of a lock are one list for all
//! threads, searched from its end, and of each section only the clock of its release is kept, as long
//! as some thread may still need it. Hard orders count for rule (b).
//!
//! Cost: for an access inside sections one look per lock held; for a release one look in the
//! common case. Memory: 20 to 40 bytes for each pair of lock and cell, and one clock for each section that
//! some other user of its lock has not passed.

use super::conflicts::Conflicts;
use super::pass::{Pass, Rules};
use super::sections::SectionId;
use crate::clocks::Slot;
use crate::happens_before::run::Kind;
use snag_model::ThreadId;

pub(crate) struct Wcp {
    conflicts: Conflicts,
}

impl Wcp {
    pub fn new(locks: usize) -> Wcp {
        Wcp { conflicts: Conflicts::new(locks) }
    }
}

impl Rules for Wcp {
    fn entered(&mut self, _pass: &mut Pass, _slot: Slot, _section: SectionId) {}

    /// Rule (a): the release of a section with a conflicting access comes before this access.
    fn accessing(&mut self, pass: &mut Pass, thread: ThreadId, slot: Slot, cell: usize, kind: Kind) {
        for index in 0..pass.held[thread.index()].len() {
            let section = pass.held[thread.index()][index];
            let sections = pass.sections;
            self.conflicts.access(sections, section, cell, kind, |earlier| {
                pass.precede(slot, earlier);
            });
        }
    }

    /// Rule (b): the release of a section that contains something ordered before something in this one comes before
    /// this section's release.
    fn leaving(&mut self, pass: &mut Pass, slot: Slot, section: SectionId) {
        pass.close(slot, section, None, |_, _| {});
    }

    /// No release, nothing to come before.
    fn left_open(&mut self, _pass: &mut Pass, _slot: Slot, _section: SectionId) {}

    fn needed(&self, pass: &Pass, mark: &mut dyn FnMut(SectionId)) {
        self.conflicts.needed(pass.sections, mark);
    }

    fn memory(&self) -> usize {
        self.conflicts.memory()
    }
}
