//! Orders forced by missing methods (docs/model.md, rule 3), as clocks.
//!
//! An event takes over what its predecessors knew. A clock is kept for as long as there are events that come after it.

use crate::clocks::{Clocks, Slot, Stamp, Time};
use crate::missing::objects::Missing;
use crate::missing::order::MissingOrder;
use snag_model::Trace;
use std::collections::HashMap;

pub(crate) struct Methods {
    order: MissingOrder,
    /// How many events have an edge from each event.
    uses: Vec<u32>,
    /// What such events knew, and how many more will ask.
    stamps: HashMap<u32, (Stamp, u32)>,
}

impl Methods {
    /// Before the first event; nothing if no method is missing.
    pub fn new(trace: &Trace) -> Option<Methods> {
        let order = MissingOrder::of(trace, Missing::Reach)?;
        let mut uses = vec![0; trace.len()];
        for source in order.sources() {
            uses[source.index()] += 1;
        }
        Some(Methods { order, uses, stamps: HashMap::new() })
    }

    /// The event learns what it may not be moved over.
    pub fn before(&mut self, clocks: &mut Clocks, slot: Slot, number: usize) {
        for source in self.order.before(number) {
            // A window may begin after it.
            let Some((stamp, uses)) = self.stamps.get_mut(&source.0) else { continue };
            clocks.join(slot, *stamp);
            *uses -= 1;
            if *uses == 0 {
                self.stamps.remove(&source.0);
            }
        }
    }

    /// What the event knows is kept for those that may not be moved over it.
    pub fn after(&mut self, clocks: &mut Clocks, slot: Slot, time: Time) {
        let number = time - 1;
        let uses = self.uses[number as usize];
        if uses > 0 {
            self.stamps.insert(number, (clocks.stamp(slot, time), uses));
        }
    }

    /// Every row referred to from here.
    pub fn roots(&self, mark: &mut dyn FnMut(u32)) {
        self.stamps.values().for_each(|(stamp, _)| mark(stamp.row));
    }
}
