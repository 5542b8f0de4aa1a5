//! Searches in sorted lists that begin where the last one ended.
//!
//! A pass over a trace asks about places that hardly move from one question to the next; binary search would go through
//! all of a long list again and again.

use snag_model::EventId;

/// How many events of a sorted list come before `bound`; `hint` is the last answer, and becomes this one.
pub(crate) fn count_before(list: &[EventId], bound: EventId, hint: &mut u32) -> usize {
    let from = (*hint as usize).min(list.len());
    let (mut low, mut high, mut step) = (from, from, 1);
    if list.get(from).is_some_and(|&event| event < bound) {
        // It is in (low, high], as soon as what comes at `high` is not before the bound.
        while high < list.len() && list[high] < bound {
            low = high + 1;
            high = (low + step).min(list.len());
            step *= 2;
        }
    } else {
        while low > 0 && list[low - 1] >= bound {
            high = low - 1;
            low = high.saturating_sub(step);
            step *= 2;
        }
    }
    let count = low + list[low..high].partition_point(|&event| event < bound);
    *hint = count as u32;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_like_a_binary_search_wherever_it_begins() {
        for length in 0..20 {
            let list: Vec<EventId> = (0..length).map(|at| EventId(3 * at + 1)).collect();
            for bound in 0..3 * length + 3 {
                for hint in 0..length + 3 {
                    let (bound, mut hint) = (EventId(bound), hint);
                    let expected = list.partition_point(|&event| event < bound);
                    assert_eq!(count_before(&list, bound, &mut hint), expected);
                    assert_eq!(hint as usize, expected);
                }
            }
        }
    }
}
