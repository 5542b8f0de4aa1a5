//! The events that others can interfere with, once more, while a program is recorded.

use super::what;
use crate::snag_format::numbers::put;
use crate::snag_format::recorded::{Batch, Encoder, Noted, RecordedEvent, SpotId, Taken};

/// Collects them, and makes payloads.
pub(in crate::snag_format) struct ContendedEvents {
    encoder: Encoder,
    batch: Batch,
    /// Of which batch the spots are, and their numbers here.
    identity: u64,
    spots: Vec<SpotId>,
    /// Numbers of the events in the encoder, as they are written, and how many of them.
    numbers: Vec<u8>,
    count: u64,
    /// The last number plus one.
    last: u64,
    /// Payloads that are full.
    full: Vec<Vec<u8>>,
}

/// A payload has at most so many events: then there are numbers for all their sites.
const MOST: u64 = 1 << 16;

/// A payload has at least so many events, unless it is the last one.
const ENOUGH: u64 = 1 << 15;

impl ContendedEvents {
    pub(in crate::snag_format) fn new() -> ContendedEvents {
        ContendedEvents {
            encoder: Encoder::new(),
            batch: Batch::default(),
            identity: 0,
            spots: Vec::new(),
            numbers: Vec::new(),
            count: 0,
            last: 0,
            full: Vec::new(),
        }
    }

    /// Looks at the events of a batch from `from` on, before `end`. The first one has this number.
    pub(in crate::snag_format) fn add(&mut self, batch: &Batch, from: Taken, end: usize, first: u64) {
        if self.identity != batch.identity {
            self.identity = batch.identity;
            self.spots.clear();
        }
        let start = from.accesses;
        let mut taken = from;
        while taken.accesses < end {
            let (thread, run_end) = batch.run(&mut taken);
            let run_end = run_end.min(end);
            for (index, access) in batch.accesses[..run_end].iter().enumerate().skip(taken.accesses) {
                if !access.noted.contended() {
                    continue;
                }
                if access.is_other() {
                    // What was seen in the other blocks was not seen here.
                    let event = batch.others[taken.others];
                    taken.others += 1;
                    self.batch.event(RecordedEvent { seen: false, ..event });
                } else {
                    let spot = self.spot(batch, access.spot);
                    self.batch.access(spot, thread, access.address, access.value, Noted::new(true, true));
                }
                let end = first + (index - start) as u64 + 1;
                put(&mut self.numbers, end - self.last);
                self.last = end;
                self.count += 1;
                if self.count == MOST {
                    self.encode();
                    self.close();
                }
            }
            taken.accesses = run_end;
        }
        self.encode();
    }

    /// Here the spot has another number.
    fn spot(&mut self, batch: &Batch, spot: SpotId) -> SpotId {
        let index = spot.index();
        if self.spots.len() <= index {
            self.spots.resize(batch.spots.len(), SpotId::NONE);
        }
        if self.spots[index] == SpotId::NONE {
            self.spots[index] = self.batch.spot(batch.spots[index]);
        }
        self.spots[index]
    }

    fn encode(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut taken = Taken::default();
        let full = self.encoder.push(&self.batch, &mut taken, usize::MAX);
        debug_assert!(!full || taken.accesses == self.batch.len());
        self.batch.clear();
    }

    fn close(&mut self) {
        if self.count == 0 {
            return;
        }
        let mut payload = vec![what::EVENTS];
        put(&mut payload, self.count);
        payload.append(&mut self.numbers);
        self.encoder.finish(&mut payload);
        self.full.push(payload);
        self.count = 0;
    }

    /// The payloads that are to be written after all blocks with the same events, and their names; all there are if it is the last time.
    pub(in crate::snag_format) fn take(&mut self, last: bool) -> Vec<Vec<u8>> {
        if last || self.count >= ENOUGH {
            self.close();
        }
        std::mem::take(&mut self.full)
    }
}
