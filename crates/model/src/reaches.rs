//! What missing methods could reach, or were given: interned sets of objects.
//!
//! There may be a hundred thousand sets of a thousand objects each, so they lie one after the other in one list, and
//! the table by which they are found again holds numbers only.

use crate::ids::ReachId;
use crate::tables::Object;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// About how many bytes a set takes beside its objects.
const EACH: usize = 64;

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
    /// Lists of arguments, ascending; all others are what a call could reach or an object leads to.
    arguments: Vec<ReachId>,
}

impl Reaches {
    /// The set of these objects, added if new; a list of arguments is never the same as another set.
    pub fn intern(&mut self, objects: &[Object], are_arguments: bool) -> ReachId {
        let mut hasher = DefaultHasher::new();
        (are_arguments, objects).hash(&mut hasher);
        let hash = hasher.finish();
        let mut candidate = self.last.get(&hash).copied();
        while let Some(id) = candidate {
            if self.get(id) == objects && self.are_arguments(id) == are_arguments {
                return id;
            }
            candidate = self.before[id.index()];
        }
        let id = ReachId::new(self.ends.len());
        if are_arguments {
            self.arguments.push(id);
        }
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

    /// Whether a set is a list of arguments.
    pub fn are_arguments(&self, id: ReachId) -> bool {
        !self.arguments.is_empty() && self.arguments.binary_search(&id).is_ok()
    }

    /// Whether any set is a list of arguments.
    pub fn has_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.objects.capacity() * size_of::<Object>() + EACH * self.ends.len()
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

impl PartialEq for Reaches {
    fn eq(&self, other: &Reaches) -> bool {
        self.objects == other.objects && self.ends == other.ends && self.arguments == other.arguments
    }
}
