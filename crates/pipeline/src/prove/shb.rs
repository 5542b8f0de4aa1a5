//! Schedules out of the clocks of SHB.

use super::{Claim, State};
use snag_engines::happens_before::{Order, Variant, racing, schedules};
use snag_engines::{Context, LocationPair};
use std::collections::{HashMap, HashSet};

/// A race is schedulable under HB iff SHB has it too; a pair of locations may have it in other events than those that
/// were seen first.
pub(super) fn propose(context: &Context, claims: &mut [&mut Claim]) {
    let key = |pair: &LocationPair| context.key(pair.first, pair.second);
    let (_, racing) = racing(context, Order::Shb, Variant::Epochs);
    let wanted: HashSet<_> = claims.iter().map(|claim| key(&claim.pair)).collect();
    let pairs: Vec<LocationPair> = racing.pairs.into_iter().filter(|pair| wanted.contains(&key(pair))).collect();
    let schedules = schedules(context, &pairs);
    let mut by_key: HashMap<_, _> =
        pairs.iter().zip(schedules).map(|(pair, schedule)| (key(pair), (pair, schedule))).collect();
    for claim in claims {
        match by_key.remove(&key(&claim.pair)) {
            Some((pair, Some(schedule))) => {
                claim.pair = LocationPair { count: claim.pair.count, ..pair.clone() };
                claim.proposal = Some(schedule);
            }
            Some((_, None)) => claim.state = State::TooLate,
            None if !racing.complete => claim.state = State::TooLate,
            None => {}
        }
    }
}
