//! Memory as cells: the units that no access of the trace splits.
//!
//! Engines and checkers index dense arrays by cell. Where all locations are
//! plain names and nothing is allocated, a cell is a variable and this costs
//! nothing. Otherwise address ranges are cut at every place where some access
//! begins or ends, so that two accesses overlap exactly if they share a cell;
//! and each allocation has cells of its own, so that reused memory is new memory.

use crate::Trace;
use crate::ids::*;
use crate::op::{Op, Ops};
use crate::places::{Extent, NO_ALLOCATION, Place, Places};
use crate::tables::{Object, Tables, Variable};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Which cells each event of a trace touches.
#[derive(Clone, Debug)]
pub struct Cells {
    count: usize,
    /// The operations of the trace.
    ops: Ops,
    /// `None` if cells are variables.
    map: Option<Map>,
}

/// First cell and number of cells of a place.
pub type Span = (u32, u32);

#[derive(Clone, Debug)]
struct Map {
    /// Span of each event that touches memory; 0 elsewhere.
    span: Vec<u32>,
    /// First cell and number of cells of each span.
    spans: Vec<Span>,
    /// First byte and number of bytes of each cell; (0, 0) for a named variable.
    extent: Vec<(u64, u64)>,
    /// Per cell 1 + the event that allocated it, or 0.
    allocation: Vec<u32>,
    /// The same per span; a block that nothing accesses has no cell.
    allocation_of_span: Vec<u32>,
}

impl Cells {
    /// Cuts the memory of a well-formed trace into cells.
    pub fn of(trace: &Trace) -> Cells {
        let ops = Ops::of(trace.events.ops());
        if !ops.any(&[Op::Alloc, Op::Free]) && !trace.tables.has_ranges() {
            return Cells { count: trace.tables.variable_count(), ops, map: None };
        }
        Cells { ops, ..Cells::cut(trace) }
    }

    /// The operations that occur in the trace: whoever needs the cells mostly needs to know these, too.
    pub fn ops(&self) -> Ops {
        self.ops
    }

    /// Number of cells; cell ids are below it.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether cells are simply variables: then cell *n* is variable *n*.
    pub fn are_variables(&self) -> bool {
        self.map.is_none()
    }

    /// The cells that an event of the trace touches. Only for events that touch memory.
    #[inline]
    pub fn touched_by(&self, trace: &Trace, event: EventId) -> Range<usize> {
        self.of_event(event.index(), trace.events.targets()[event.index()])
    }

    /// The same for loops that read columns: `target` is the event's target.
    #[inline]
    pub fn of_event(&self, event: usize, target: u32) -> Range<usize> {
        match &self.map {
            None => target as usize..target as usize + 1,
            Some(map) => {
                let (first, count) = map.spans[map.span[event] as usize];
                first as usize..(first + count) as usize
            }
        }
    }

    /// The event that allocated a cell, if it is heap memory.
    #[inline]
    pub fn allocated_by(&self, cell: usize) -> Option<EventId> {
        let code = self.map.as_ref()?.allocation[cell];
        (code != NO_ALLOCATION).then(|| EventId(code - 1))
    }

    /// First byte and number of bytes of a cell; `None` for a named variable.
    pub fn bytes(&self, cell: usize) -> Option<(u64, u64)> {
        self.map.as_ref().map(|map| map.extent[cell]).filter(|extent| extent.1 > 0)
    }

    /// The event that allocated the block which an event accesses or frees, if it is heap memory.
    #[inline]
    pub fn block_of_event(&self, event: usize) -> Option<EventId> {
        let map = self.map.as_ref()?;
        let code = map.allocation_of_span[map.span[event] as usize];
        (code != NO_ALLOCATION).then(|| EventId(code - 1))
    }

    /// What a cell holds if `variable` holds `value` (little endian). `None` if
    /// the value does not say: a range of more than eight bytes.
    pub fn slice(&self, variable: Variable, value: i64, cell: usize) -> Option<u64> {
        let (Variable::Range { address, size }, Some(map)) = (variable, &self.map) else {
            return Some(value as u64);
        };
        if size > 8 {
            return None;
        }
        let (start, bytes) = map.extent[cell];
        let shifted = (value as u64) >> (8 * (start - address));
        Some(if bytes == 8 { shifted } else { shifted & ((1 << (8 * bytes)) - 1) })
    }

    /// The cells of a trace that was made from this one's by adding accesses to single cells, wherever these lie and
    /// whether they are allocated or not: of each event of the other trace its number here, or the cell it accesses.
    pub fn with_accesses(&self, events: &[Result<usize, usize>], ops: Ops) -> Cells {
        // Without a map cell n is variable n, and the added accesses have that as their target.
        let Some(map) = &self.map else { return Cells { count: self.count, ops, map: None } };
        let old = &map.span;
        let mut number = vec![0; old.len()];
        for (new, event) in events.iter().enumerate() {
            if let Ok(index) = *event {
                number[index] = new as u32;
            }
        }
        // An allocation is 1 + the number of its event.
        let renumbered = |code: &u32| if *code == NO_ALLOCATION { 0 } else { number[*code as usize - 1] + 1 };
        let mut map = Map {
            span: Vec::with_capacity(events.len()),
            spans: map.spans.clone(),
            extent: map.extent.clone(),
            allocation: map.allocation.iter().map(renumbered).collect(),
            allocation_of_span: map.allocation_of_span.iter().map(renumbered).collect(),
        };
        let mut single: HashMap<usize, u32> = HashMap::new();
        for event in events {
            map.span.push(match *event {
                Ok(index) => old[index],
                Err(cell) => *single.entry(cell).or_insert_with(|| {
                    map.spans.push((cell as u32, 1));
                    map.allocation_of_span.push(NO_ALLOCATION);
                    map.spans.len() as u32 - 1
                }),
            });
        }
        Cells { count: self.count, ops, map: Some(map) }
    }

    fn cut(trace: &Trace) -> Cells {
        let mut places = Places::default();
        places.know_variables(&trace.tables);
        let mut span = vec![0; trace.len()];
        let columns = trace.events.ops().iter().zip(trace.events.targets());
        for (number, (span, (&op, &target))) in span.iter_mut().zip(columns).enumerate() {
            if let Some(place) = places.touched(number, op, target, &trace.tables) {
                *span = place;
            }
        }
        Map::number(places.all, span, &reach_cuts(&trace.tables))
    }

    /// The cells that each of some places consists of, and the first byte and number of bytes of each cell; (0, 0) for a named
    /// variable.
    pub fn of_places(places: Vec<Place>, tables: &Tables) -> (Vec<Span>, Vec<(u64, u64)>) {
        let cells = Map::number(places, Vec::new(), &reach_cuts(tables));
        cells.map.map_or_else(Default::default, |map| (map.spans, map.extent))
    }
}

impl Map {
    /// Numbers the cells region by region, so that every place is a run of cells.
    fn number(places: Vec<Place>, span: Vec<u32>, cuts: &[u64]) -> Cells {
        let mut by_region: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, place) in places.iter().enumerate() {
            by_region.entry(place.region).or_default().push(i);
        }
        let mut extent: Vec<(u64, u64)> = Vec::new();
        let mut allocation: Vec<u32> = Vec::new();
        let mut spans = vec![(0, 0); places.len()];
        for (region, members) in by_region {
            let region_start = extent.len();
            let mut bytes: Vec<(u64, u64)> = Vec::new();
            for &i in &members {
                match places[i].extent {
                    _ if places[i].whole_region => {}
                    Extent::Name(_) => {
                        spans[i] = (extent.len() as u32, 1);
                        extent.push((0, 0));
                    }
                    // Inclusive ends, so that the last byte of the address space is no special case.
                    Extent::Bytes(address, size) => bytes.push((address, address + (size - 1))),
                }
            }
            let bytes_start = extent.len();
            cut_ranges(&mut bytes, cuts, &mut extent);
            for &i in &members {
                let Extent::Bytes(address, size) = places[i].extent else { continue };
                if !places[i].whole_region {
                    let last = address + (size - 1);
                    let cells = &extent[bytes_start..];
                    let from = cells.partition_point(|c| c.0 < address);
                    let to = cells.partition_point(|c| c.0 <= last);
                    spans[i] = ((bytes_start + from) as u32, (to - from) as u32);
                }
            }
            let all = (region_start as u32, (extent.len() - region_start) as u32);
            for &i in members.iter().filter(|&&i| places[i].whole_region) {
                spans[i] = all;
            }
            allocation.resize(extent.len(), region);
        }
        let mut allocation_of_span: Vec<u32> = places.iter().map(|p| p.region).collect();
        if spans.is_empty() {
            spans.push((0, 0));
            allocation_of_span.push(NO_ALLOCATION);
        }
        Cells {
            count: extent.len(),
            ops: Ops::default(),
            map: Some(Map { span, spans, extent, allocation, allocation_of_span }),
        }
    }
}

/// Where the ranges that missing methods could reach begin and end, ascending: no cell is reached in part.
fn reach_cuts(tables: &Tables) -> Vec<u64> {
    let mut known = vec![false; tables.variable_count()];
    let mut cuts = Vec::new();
    for reach in 0..tables.reach_count() {
        for &object in tables.reach_objects(ReachId::new(reach)) {
            if let Object::Variable(id) = object
                && !std::mem::replace(&mut known[id.index()], true)
                && let Variable::Range { address, size } = tables.variable(id)
            {
                cuts.push(address);
                cuts.extend((address + (size - 1)).checked_add(1));
            }
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Appends the pieces into which ranges (first and last byte) cut one another, in order of address.
fn cut_ranges(ranges: &mut Vec<(u64, u64)>, cuts: &[u64], pieces: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup();
    // Starting points of pieces, and where covered stretches end.
    let mut starts: Vec<u64> = ranges.iter().map(|r| r.0).collect();
    starts.extend(ranges.iter().filter_map(|r| r.1.checked_add(1)));
    let first = ranges.first().map_or(0, |r| r.0);
    let last = ranges.iter().map(|r| r.1).max().unwrap_or(0);
    let from = cuts.partition_point(|&cut| cut < first);
    starts.extend(cuts[from..].iter().take_while(|&&cut| cut <= last));
    starts.sort_unstable();
    starts.dedup();
    let mut next = 0;
    let mut covered: Option<u64> = None;
    for (i, &start) in starts.iter().enumerate() {
        while next < ranges.len() && ranges[next].0 <= start {
            covered = covered.max(Some(ranges[next].1));
            next += 1;
        }
        if covered.is_some_and(|last| last >= start) {
            let last = starts.get(i + 1).map_or(u64::MAX, |s| s - 1);
            pieces.push((start, last - start + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;

    fn trace(build: impl Fn(&mut Trace)) -> Trace {
        let mut trace = Trace::default();
        trace.tables.thread("T");
        build(&mut trace);
        trace
    }

    fn push(trace: &mut Trace, op: Op, target: VarId) -> usize {
        trace.events.push(Event::new(ThreadId(0), op, target.0));
        trace.len() - 1
    }

    #[test]
    fn names_are_their_own_cells() {
        let t = trace(|t| {
            let x = t.tables.variable_named("x");
            push(t, Op::Write, x);
        });
        let cells = Cells::of(&t);
        assert!(cells.are_variables());
        assert_eq!(cells.of_event(0, 0), 0..1);
    }

    #[test]
    fn ranges_share_a_cell_exactly_if_they_overlap() {
        let ranges = [(0x10u64, 8u64), (0x14, 4), (0x18, 1), (0x0, 64), (u64::MAX - 7, 8), (u64::MAX, 1), (0x100, 2)];
        let t = trace(|t| {
            for (address, size) in ranges {
                let v = t.tables.variable_range(address, size);
                push(t, Op::Write, v);
            }
        });
        let cells = Cells::of(&t);
        for (i, a) in ranges.iter().enumerate() {
            for (j, b) in ranges.iter().enumerate() {
                let overlap = a.0 <= b.0 + (b.1 - 1) && b.0 <= a.0 + (a.1 - 1);
                let (p, q) = (cells.of_event(i, 0), cells.of_event(j, 0));
                assert_eq!(overlap, p.start < q.end && q.start < p.end, "{a:x?} {b:x?}");
            }
        }
    }

    #[test]
    fn memory_allocated_again_is_other_memory_and_free_touches_what_was_accessed() {
        let t = trace(|t| {
            let block = t.tables.variable_range(0x1000, 32);
            let word = t.tables.variable_range(0x1008, 8);
            for op in [Op::Alloc, Op::Free, Op::Alloc, Op::Free] {
                push(t, op, block);
                if op == Op::Alloc {
                    push(t, Op::Write, word);
                }
            }
        });
        let cells = Cells::of(&t);
        let at = |i: usize| cells.of_event(i, t.events.targets()[i]);
        assert_eq!(at(1), at(2));
        assert_eq!(at(4), at(5));
        assert_ne!(at(1), at(4));
        assert_eq!(cells.allocated_by(at(1).start), Some(EventId(0)));
        assert_eq!(cells.allocated_by(at(4).start), Some(EventId(3)));
    }

    #[test]
    fn values_are_sliced_little_endian() {
        let t = trace(|t| {
            let long = t.tables.variable_range(0x10, 8);
            let half = t.tables.variable_range(0x14, 4);
            push(t, Op::Write, long);
            push(t, Op::Read, half);
        });
        let cells = Cells::of(&t);
        let long = t.tables.variable(VarId(0));
        let both: Vec<_> = cells.of_event(0, 0).collect();
        assert_eq!(cells.slice(long, 0x1122_3344_5566_7788, both[0]), Some(0x5566_7788));
        assert_eq!(cells.slice(long, 0x1122_3344_5566_7788, both[1]), Some(0x1122_3344));
    }
}
