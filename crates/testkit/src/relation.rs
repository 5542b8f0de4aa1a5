//! A strict partial order on the events of a trace, as a matrix of bits.
//!
//! Row *b* holds the events before *b*. Nothing here knows what the order means;
//! it is as plain as it can be so that what is built on it can be trusted.

use snag_model::EventId;

/// Which events come before which.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation {
    size: usize,
    /// Words of a row.
    width: usize,
    /// Row by row: bit *a* of row *b* says that *a* comes before *b*.
    bits: Vec<u64>,
}

impl Relation {
    /// No two of `size` events are related.
    pub fn new(size: usize) -> Relation {
        let width = size.div_ceil(64);
        Relation { size, width, bits: vec![0; size * width] }
    }

    /// How many events there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Puts `a` before `b`. The relation is not transitive again until [`Relation::close`].
    pub fn add(&mut self, a: EventId, b: EventId) {
        self.bits[b.index() * self.width + a.index() / 64] |= 1 << (a.index() % 64);
    }

    /// Whether `a` comes before `b`.
    pub fn has(&self, a: EventId, b: EventId) -> bool {
        self.bits[b.index() * self.width + a.index() / 64] >> (a.index() % 64) & 1 == 1
    }

    /// Whether `a` is `b` or comes before it.
    pub fn has_or_is(&self, a: EventId, b: EventId) -> bool {
        a == b || self.has(a, b)
    }

    /// The events before `b`, in the order of the trace.
    pub fn before(&self, b: EventId) -> impl Iterator<Item = EventId> {
        (0..self.size).map(EventId::new).filter(move |&a| self.has(a, b))
    }

    /// Puts everything before `a`, and `a` itself, before `b`.
    pub fn add_with_predecessors(&mut self, a: EventId, b: EventId) {
        for word in 0..self.width {
            self.bits[b.index() * self.width + word] |= self.bits[a.index() * self.width + word];
        }
        self.add(a, b);
    }

    /// Puts before `b` what another relation puts before `a`, and `a` itself.
    pub fn add_predecessors_in(&mut self, other: &Relation, a: EventId, b: EventId) {
        for word in 0..self.width {
            self.bits[b.index() * self.width + word] |= other.bits[a.index() * other.width + word];
        }
        self.add(a, b);
    }

    /// Makes the relation transitive (Warshall).
    pub fn close(&mut self) {
        for middle in (0..self.size).map(EventId::new) {
            for last in (0..self.size).map(EventId::new) {
                if self.has(middle, last) {
                    self.add_with_predecessors(middle, last);
                }
            }
        }
    }

    /// Whether every pair of this relation is a pair of the other.
    pub fn is_within(&self, other: &Relation) -> bool {
        self.size == other.size && self.bits.iter().zip(&other.bits).all(|(a, b)| a & !b == 0)
    }

    /// All pairs, by their second events and then their first ones.
    pub fn pairs(&self) -> impl Iterator<Item = (EventId, EventId)> {
        (0..self.size).map(EventId::new).flat_map(move |b| self.before(b).map(move |a| (a, b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_follows_chains_in_any_direction() {
        let e = EventId::new;
        let mut relation = Relation::new(130);
        for (a, b) in [(129, 3), (3, 70), (70, 5), (8, 9)] {
            relation.add(e(a), e(b));
        }
        let open = relation.clone();
        relation.close();
        assert!(relation.has(e(129), e(5)) && relation.has(e(3), e(5)) && !relation.has(e(5), e(3)));
        assert!(!relation.has(e(129), e(9)) && relation.has_or_is(e(9), e(9)));
        assert_eq!(relation.before(e(5)).collect::<Vec<_>>(), [e(3), e(70), e(129)]);
        assert_eq!(relation.pairs().count(), 7);
        assert!(open.is_within(&relation) && !relation.is_within(&open));
    }
}
