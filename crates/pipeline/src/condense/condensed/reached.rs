//! Which threads have called missing methods that could reach a piece of memory.

use super::survey::User;
use snag_model::ids::*;
use snag_model::tables::{Object, Tables, Variable};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Who could reach what by missing methods.
pub(super) struct Reached {
    /// Where a stretch of bytes begins that the same threads reach, ascending; the last one has no end and no user.
    stretches: Vec<(u128, User)>,
    /// Users of variables that are named.
    names: HashMap<u32, User>,
}

impl Reached {
    /// `calls` are the sets that threads have called missing methods with.
    pub fn by(calls: &HashSet<(ReachId, ThreadId)>, tables: &Tables) -> Reached {
        let mut variables: HashSet<(VarId, ThreadId)> = HashSet::new();
        for &(reach, thread) in calls {
            for &object in tables.reach_objects(reach) {
                if let Object::Variable(variable) = object {
                    variables.insert((variable, thread));
                }
            }
        }
        let mut names: HashMap<u32, User> = HashMap::new();
        let mut borders: Vec<(u128, bool, ThreadId)> = Vec::new();
        for (variable, thread) in variables {
            match tables.variable(variable) {
                Variable::Named(_) => {
                    let user = names.entry(variable.0).or_insert(User::NOBODY);
                    *user = user.and(User::of(thread));
                }
                Variable::Range { address, size } => {
                    borders.push((address.into(), true, thread));
                    borders.push((u128::from(address) + u128::from(size), false, thread));
                }
            }
        }
        borders.sort_unstable();
        let mut stretches: Vec<(u128, User)> = Vec::new();
        let mut inside: BTreeMap<ThreadId, usize> = BTreeMap::new();
        for border in borders.chunk_by(|a, b| a.0 == b.0) {
            for &(_, begins, thread) in border {
                let count = inside.entry(thread).or_default();
                // Ends come before begins at the same byte: what is zero in between is so for no byte.
                *count = if begins { *count + 1 } else { *count - 1 };
            }
            inside.retain(|_, count| *count > 0);
            let user = inside.keys().fold(User::NOBODY, |user, &thread| user.and(User::of(thread)));
            stretches.push((border[0].0, user));
        }
        Reached { stretches, names }
    }

    /// Who could reach a byte. All bytes of a cell are reached by the same calls.
    pub fn byte(&self, address: u64) -> User {
        let after = self.stretches.partition_point(|stretch| stretch.0 <= address.into());
        after.checked_sub(1).map_or(User::NOBODY, |at| self.stretches[at].1)
    }

    /// Who could reach a variable that is named.
    pub fn name(&self, variable: u32) -> User {
        self.names.get(&variable).copied().unwrap_or(User::NOBODY)
    }
}
