//! Orders forced by missing methods (docs/model.md, rule 3).
//!
//! Per object that some missing method could reach, two rows gather what the
//! events inside such methods knew, and what the ordinary events that touch the
//! object knew. An event inside takes over both, an ordinary one only the first:
//! ordinary events are not ordered among themselves.

use crate::clocks::{Clocks, Slot, Time};
use crate::objects::Objects;
use snag_trace::events::Event;
use snag_trace::{Op, ReachId, Trace};

pub(crate) struct Methods {
    objects: Objects,
    /// Per object the rows that gather what was known inside and outside; 0 before the first.
    inside: Vec<u32>,
    outside: Vec<u32>,
    /// Open methods of each thread.
    open: Vec<Vec<ReachId>>,
}

impl Methods {
    /// Before the first event.
    pub fn new(trace: &Trace) -> Methods {
        let objects = Objects::of(trace);
        Methods {
            inside: vec![0; objects.count()],
            outside: vec![0; objects.count()],
            open: vec![Vec::new(); trace.tables.thread_count()],
            objects,
        }
    }

    /// The event learns what it may not be moved over.
    pub fn before(&mut self, clocks: &mut Clocks, slot: Slot, event: &Event) {
        if event.op == Op::MethodBegin {
            self.open[event.thread.index()].push(ReachId(event.aux));
        }
        for reach in &self.open[event.thread.index()] {
            for &object in self.objects.reached(*reach) {
                clocks.join_row(slot, self.inside[object as usize]);
                clocks.join_row(slot, self.outside[object as usize]);
            }
        }
        for &object in self.objects.touched(event) {
            clocks.join_row(slot, self.inside[object as usize]);
        }
    }

    /// What the event knows is kept for those that may not be moved over it.
    pub fn after(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, event: &Event) {
        let add = |clocks: &mut Clocks, row: &mut u32| {
            if *row == 0 {
                *row = clocks.new_row();
            }
            clocks.gather(*row, slot, time);
        };
        for reach in &self.open[event.thread.index()] {
            for &object in self.objects.reached(*reach) {
                add(clocks, &mut self.inside[object as usize]);
            }
        }
        for &object in self.objects.touched(event) {
            add(clocks, &mut self.outside[object as usize]);
        }
        if event.op == Op::MethodEnd {
            self.open[event.thread.index()].pop();
        }
    }

    /// Every row referred to from here.
    pub fn roots(&self, mark: &mut dyn FnMut(u32)) {
        self.inside.iter().chain(&self.outside).for_each(|&row| mark(row));
    }
}
