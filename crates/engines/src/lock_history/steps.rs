//! The steps of a history, in pieces of one size: pushing one moves no other, and the oldest can be dropped.

use crate::lock_history::histories::Place;
use crate::lock_history::sets::ChangeId;
use snag_model::EventId;
use std::collections::VecDeque;

/// A step as it is kept: few are ever looked at, so it is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The event.
    pub event: EventId,
    /// What it changed.
    pub change: ChangeId,
}

/// Steps of a piece.
const PIECE: usize = 256;

/// Steps by their places.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Full pieces, the oldest first.
    full: VecDeque<Vec<Taken>>,
    /// The piece that is filled.
    last: Vec<Taken>,
    /// The place of the first step of the first piece.
    origin: Place,
    /// The first place that was not dropped.
    base: Place,
}

impl Steps {
    /// Adds a step at the end.
    #[inline]
    pub fn push(&mut self, step: Taken) {
        if self.last.len().is_multiple_of(PIECE) {
            self.next_piece();
        }
        self.last.push(step);
    }

    /// At the end of a piece, and before the first one.
    #[cold]
    fn next_piece(&mut self) {
        let piece = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE));
        if !piece.is_empty() {
            self.full.push_back(piece);
        }
    }

    /// The place behind the last step.
    #[inline]
    pub fn end(&self) -> Place {
        self.origin + (self.full.len() * PIECE + self.last.len()) as Place
    }

    /// The first place that is still here.
    #[inline]
    pub fn base(&self) -> Place {
        self.base
    }

    /// The step at a place.
    #[inline]
    pub fn get(&self, place: Place) -> &Taken {
        debug_assert!(place >= self.base);
        let at = (place - self.origin) as usize;
        match at.checked_sub(self.full.len() * PIECE) {
            Some(at) => &self.last[at],
            None => &self.full[at / PIECE][at % PIECE],
        }
    }

    /// The first place from which on no step has some property, which all those before it have.
    pub fn partition_point(&self, holds: impl Fn(&Taken) -> bool) -> Place {
        let (mut from, mut to) = (self.base, self.end());
        while from < to {
            let middle = from + (to - from) / 2;
            if holds(self.get(middle)) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// Drops the first step.
    pub fn pop(&mut self) -> Option<Taken> {
        let step = (self.base < self.end()).then(|| *self.get(self.base))?;
        self.base += 1;
        while (self.base - self.origin) as usize >= PIECE && self.full.pop_front().is_some() {
            self.origin += PIECE as Place;
        }
        Some(step)
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        (self.full.len() * PIECE + self.last.capacity()) * size_of::<Taken>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_their_places_while_others_come_and_go() {
        let mut steps = Steps::default();
        let (mut pushed, mut dropped) = (0, 0);
        for round in 0..3_000 {
            if round % 7 < 4 || pushed < 300 {
                steps.push(Taken { event: EventId(10 * pushed), change: ChangeId::default() });
                pushed += 1;
            } else {
                assert_eq!(steps.pop().map(|step| step.event), Some(EventId(10 * dropped)));
                dropped += 1;
            }
            assert_eq!((steps.base(), steps.end()), (dropped, pushed));
            for place in [dropped, (dropped + pushed) / 2, pushed - 1] {
                assert_eq!(steps.get(place).event, EventId(10 * place));
                assert_eq!(steps.partition_point(|step| step.event.0 < 10 * place), place);
            }
        }
        while steps.pop().is_some() {
            dropped += 1;
        }
        assert_eq!((dropped, steps.base(), steps.end()), (pushed, pushed, pushed));
    }
}
