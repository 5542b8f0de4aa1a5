//! What missing methods could reach: interned sets of objects.
//!
//! There may be a hundred thousand sets of a thousand objects each, so they lie one after the other in one list, and
//! the table by which they are found again holds numbers only.

use crate::ids::ReachId;
use crate::tables::Object;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Sets of objects, each kept once, in the order in which it was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaches {
    /// All sets, one after the other.
    objects: Vec<Object>,
    /// Where each set ends in `objects`; it starts where the one before ends.
    ends: Vec<usize>,
    /// The last set with this hash.
    last: HashMap<u64, ReachId>,
    /// For each set, the one before it with the same hash.
    before: Vec<Option<ReachId>>,
}

impl Reaches {
    /// The set of these objects, added if new.
    pub fn intern(&mut self, objects: &[Object]) -> ReachId {
        let mut hasher = DefaultHasher::new();
        objects.hash(&mut hasher);
        let hash = hasher.finish();
        let mut candidate = self.last.get(&hash).copied();
        while let Some(id) = candidate {
            if self.get(id) == objects {
                return id;
            }
            candidate = self.before[id.index()];
        }
        let id = ReachId::new(self.ends.len());
        self.objects.extend_from_slice(objects);
        self.ends.push(self.objects.len());
        self.before.push(match self.last.entry(hash) {
            Entry::Occupied(mut other) => Some(other.insert(id)),
            Entry::Vacant(free) => {
                free.insert(id);
                None
            }
        });
        id
    }

    /// The objects of a set.
    pub fn get(&self, id: ReachId) -> &[Object] {
        let start = if id.index() == 0 { 0 } else { self.ends[id.index() - 1] };
        &self.objects[start..self.ends[id.index()]]
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

impl PartialEq for Reaches {
    fn eq(&self, other: &Reaches) -> bool {
        self.objects == other.objects && self.ends == other.ends
    }
}
