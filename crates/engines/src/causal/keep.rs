//! Which clocks of a pass are still needed.
//!
//! Of a section only the clock of its release is kept, and a section is asked for by rule (a), which the
//! [`Rules`] know of, or by rule (b). The latter asks for the latest section of a user that it knows
//! the beginning of; and who has come to know one never asks for an earlier one again.

use super::pass::{Pass, Rules};
use super::sections::SectionId;
use crate::clocks::Time;

impl Pass<'_> {
    /// Frees clocks that nobody can ask for any more, if that pays. `now` is the next event; `causes` and `order` call
    /// their arguments for rows in use elsewhere.
    pub fn collect(
        &mut self,
        rules: &impl Rules,
        now: usize,
        causes: impl FnOnce(&mut dyn FnMut(u32)),
        order: impl FnOnce(&mut dyn FnMut(u32)),
    ) {
        if self.eager || self.order.wants_collection() {
            let sync = &self.must_sync;
            self.order.collect(sync.root_count(), |mark| {
                sync.roots(mark);
                order(mark);
            });
        }
        if self.eager || self.causes.wants_collection() {
            let mut needed = Vec::new();
            self.needed_by_sections(now, &mut |section| needed.push(section));
            rules.needed(self, &mut |section| needed.push(section));
            let (sync, released) = (&self.cause_sync, &self.released);
            // What it takes to find out what is needed, but not so much that unused rows take more than a quarter of a
            // gigabyte until then.
            let most = (1 << 29) / self.causes.slots().max(1);
            let cost = (needed.len() + self.sections.users.len() * self.order.slots()).min(most);
            self.causes.collect(sync.root_count() + cost, |mark| {
                sync.roots(mark);
                needed.iter().for_each(|&section| mark(released[section as usize].row));
                causes(mark);
            });
        }
        if self.eager {
            self.order.spoil_free_rows();
            self.causes.spoil_free_rows();
        }
    }

    /// The sections that rule (b) may still ask for: of each user of a lock, those from the latest one that all others
    /// with sections to come already know the beginning of.
    fn needed_by_sections(&self, now: usize, mark: &mut dyn FnMut(SectionId)) {
        let ended = |section: SectionId| (self.sections.get(section).release as usize) < now;
        let mut least: Vec<Time> = Vec::new();
        for lock in self.sections.locks.iter().filter(|lock| lock.users.len() > 1) {
            let users = || lock.users.iter().map(|&user| &self.sections.users[user as usize]);
            let goes_on = |list: &[SectionId]| list.last().is_some_and(|&last| !ended(last));
            least.clear();
            for user in users().filter(|user| goes_on(&user.exclusive) || goes_on(&user.shared)) {
                let Some(slot) = self.order.slot_if_seen(user.thread) else {
                    least.clear();
                    least.resize(self.order.slots(), 0);
                    break;
                };
                let known = self.order.of(slot);
                if least.is_empty() {
                    least.extend_from_slice(known);
                } else {
                    least.iter_mut().zip(known).for_each(|(least, &known)| *least = known.min(*least));
                }
            }
            if least.is_empty() {
                continue; // Nobody enters it any more.
            }
            for user in users() {
                let Some(slot) = self.order.slot_if_seen(user.thread) else { continue };
                let bound = least.get(slot as usize).copied().unwrap_or(0);
                for list in [&user.exclusive, &user.shared] {
                    let from = list.partition_point(|&s| self.sections.get(s).acquire < bound).saturating_sub(1);
                    list[from..].iter().take_while(|&&s| ended(s)).for_each(|&s| mark(s));
                }
            }
        }
    }
}
