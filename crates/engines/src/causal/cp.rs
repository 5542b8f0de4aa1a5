//! Causally-precedes: Smaragdakis, Evans, Sadowski, Yi, Flanagan, *Sound Predictive Race Detection in
//! Polynomial Time*, POPL 2012.
//!
//! Guarantee: exactly the relation of `docs/causal.md`, over the whole trace. Deviation: the
//! paper computes it in Datalog, pair by pair, in windows. Here the events that causally precede
//! an event are, in every thread, those before some time, because CP is closed under HB; so they are a
//! clock. An edge goes from a release to a later acquire, and of all sections that a section must
//! come after by rule (a) or (b) the latest is enough, because HB orders them: its *source*. Rule (a) gives
//! a first source without clocks. Rule (b) looks from the end of a section back to its beginning, so the
//! clocks are swept over the synchronisation of the trace again until no source changes that somebody
//! has used.
//!
//! Cost: a sweep takes a few operations on clocks for each synchronisation; most traces need two or three.
//! Memory as for WCP.

use super::conflicts::Conflicts;
use super::pass::{Pass, Rules};
use super::sections::{NONE, SectionId, Sections};
use crate::clocks::Slot;
use crate::happens_before::run::Kind;
use snag_model::{Cells, EventId, ThreadId, Trace};
use std::collections::HashMap;

/// The sections that come before each section.
#[derive(Clone)]
pub(crate) struct Sources {
    /// The latest exclusive one, or [`NONE`].
    latest: Vec<SectionId>,
    /// Shared ones, which are not ordered among each other.
    readers: HashMap<SectionId, Vec<SectionId>>,
}

impl Sources {
    /// Those by rule (a).
    pub fn conflicting(trace: &Trace, cells: &Cells, events: &[u32], sections: &Sections) -> Sources {
        let mut sources = Sources { latest: vec![NONE; sections.all.len()], readers: HashMap::new() };
        let mut conflicts = Conflicts::new(sections.locks.len());
        let mut held: Vec<Vec<SectionId>> = vec![Vec::new(); trace.tables.thread_count()];
        let mut next = 0;
        for &number in events {
            let index = number as usize;
            let own = &mut held[trace.events.threads()[index].index()];
            let op = trace.events.ops()[index];
            if let Some(kind) = Kind::of(op) {
                for &section in own.iter() {
                    for cell in cells.touched_by(trace, EventId(number)) {
                        conflicts.access(sections, section, cell, kind, |earlier| {
                            sources.add(sections, section, earlier);
                        });
                    }
                }
            } else if sections.all.get(next as usize).is_some_and(|s| s.acquire == number) {
                own.push(next);
                next += 1;
            } else if let Some(at) = own.iter().position(|&s| sections.get(s).release == number) {
                own.remove(at);
            }
        }
        sources
    }

    /// With a window, those are added that lie too far back to be looked at, as the paper does: sections whose
    /// first and last event are more than `window` events of the reduced trace apart are taken to be ordered.
    pub fn add_distant(&mut self, trace: &Trace, events: &[u32], sections: &Sections, window: usize) {
        let mut last = vec![0; trace.tables.thread_count()];
        for &number in events {
            last[trace.events.threads()[number as usize].index()] = number;
        }
        let mut found = Vec::new();
        for (id, section) in sections.all.iter().enumerate() {
            let end = section.release.min(last[section.thread.index()]);
            let position = events.partition_point(|&e| e < end);
            // What begins before this event is too far back.
            let Some(bound) = position.checked_sub(window).map(|at| events[at]) else { continue };
            sections.latest(section, None, |_| bound, &mut found);
            for &earlier in &found {
                self.add(sections, id as SectionId, earlier);
            }
        }
    }

    /// Says whether that was new.
    fn add(&mut self, sections: &Sections, section: SectionId, earlier: SectionId) -> bool {
        if !sections.get(earlier).shared {
            let latest = &mut self.latest[section as usize];
            let new = *latest == NONE || *latest < earlier;
            if new {
                *latest = earlier;
            }
            return new;
        }
        let readers = self.readers.entry(section).or_default();
        let thread = sections.get(earlier).thread;
        match readers.iter_mut().find(|reader| sections.get(**reader).thread == thread) {
            Some(reader) if *reader >= earlier => return false,
            Some(reader) => *reader = earlier,
            None => readers.push(earlier),
        }
        true
    }
}

/// The rules, with what is known of sources so far.
#[derive(Clone)]
pub(crate) struct Cp {
    pub sources: Sources,
    /// How many sources have changed after somebody had used them.
    pub stale: u64,
    /// Sources are added. Else they are complete, but for what races that were forced into an order bring with them;
    /// that comes before the end of a section only, as in WCP.
    pub sweeping: bool,
}

impl Rules for Cp {
    fn entered(&mut self, pass: &mut Pass, slot: Slot, section: SectionId) {
        let latest = self.sources.latest[section as usize];
        if latest != NONE {
            pass.precede(slot, latest);
        }
        if let Some(readers) = self.sources.readers.get(&section) {
            for &reader in readers {
                pass.precede(slot, reader);
            }
        }
    }

    /// Rule (a) is known from the start.
    fn accessing(&mut self, _: &mut Pass, _: ThreadId, _: Slot, _: usize, _: Kind) {}

    /// Rule (b).
    fn leaving(&mut self, pass: &mut Pass, slot: Slot, section: SectionId) {
        let latest = self.sources.latest[section as usize];
        pass.close(slot, section, Some(latest).filter(|&latest| latest != NONE), |pass, earlier| {
            if self.sweeping && self.sources.add(pass.sections, section, earlier) {
                self.stale += pass.has_published_since(slot, section) as u64;
            }
        });
    }

    fn left_open(&mut self, pass: &mut Pass, slot: Slot, section: SectionId) {
        if self.sweeping {
            self.leaving(pass, slot, section);
        }
    }

    fn needed(&self, pass: &Pass, mark: &mut dyn FnMut(SectionId)) {
        let next = pass.next_section();
        self.sources.latest[next as usize..].iter().filter(|&&s| s != NONE && s < next).for_each(|&s| mark(s));
        let readers = self.sources.readers.iter().filter(|(section, _)| **section >= next);
        readers.flat_map(|(_, readers)| readers).filter(|&&s| s < next).for_each(|&s| mark(s));
    }

    fn memory(&self) -> usize {
        self.sources.latest.capacity() * 4
    }
}
