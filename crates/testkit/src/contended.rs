//! Whether what a recording lists as open to other threads is all that is: judged by the definition, event by event.
//!
//! An access may be left out if of it and any conflicting access of another thread in the life of its memory one comes before the
//! other by thread order, fork, join and notify; allocs and frees count as writes.

use snag_formats::TraceReader;
use snag_formats::snag_format::{Contended, RecordedEvent, SnagReader};
use snag_model::events::Events;
use snag_model::{Action, EventId, Op, Trace, VarId, Variable};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Cursor;

/// How much of a recording is listed.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its events.
    pub whole: usize,
    /// Those that are read if only what others can interfere with is.
    pub read: usize,
}

/// Reads a recording in both ways and compares. `None` if it does not say what others can interfere with.
pub fn judge(bytes: &[u8]) -> Result<Option<Listed>, String> {
    let whole = TraceReader::new(Box::new(SnagReader::new(Cursor::new(bytes.to_vec()))), None);
    let (whole, _) = whole.read_all().map_err(|error| error.to_string())?;
    let Some(contended) = Contended::open(Cursor::new(bytes.to_vec())).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if contended.whole() != whole.len() as u64 {
        return Err(format!("{} events instead of {}", contended.whole(), whole.len()));
    }
    let numbers = contended.numbers();
    let (part, _) = TraceReader::new(Box::new(contended), None).read_all().map_err(|error| error.to_string())?;
    let numbers = numbers.take();
    same_events(&whole, &part, &numbers)?;
    private(&whole, &numbers)?;
    Ok(Some(Listed { whole: whole.len(), read: part.len() }))
}

/// The events are those with these numbers.
fn same_events(whole: &Trace, part: &Trace, numbers: &[u32]) -> Result<(), String> {
    if numbers.len() != part.len() || !numbers.is_sorted_by(|a, b| a < b) {
        return Err(format!("{} numbers, maybe in no order, for {} events", numbers.len(), part.len()));
    }
    for (index, &number) in numbers.iter().enumerate() {
        let (here, there) = (part.event(EventId::new(index)), whole.event(EventId(number)));
        let mut same = RecordedEvent::of(&here, &part.tables);
        let other = RecordedEvent::of(&there, &whole.tables);
        match there.op {
            Op::Wake if here.aux > 0 => same.aux = numbers[here.aux as usize - 1] + 1,
            // Sets have other numbers.
            Op::MethodBegin => same.aux = other.aux,
            _ => {}
        }
        let [place, other_place] = [(part, here), (whole, there)]
            .map(|(trace, event)| (trace.tables.location_name(event.location), trace.tables.thread_name(event.thread)));
        if same != other || place != other_place {
            return Err(format!("event {number} is {same:?} at {place:?} instead of {other:?} at {other_place:?}"));
        }
    }
    Ok(())
}

/// What a thread has done to a byte last, in one way: number of the event in its thread, and in the trace.
type Last = HashMap<(usize, bool, bool), (u32, usize)>;

/// A block: its end, and who has allocated it when.
type Block = (u64, usize, u32, usize);

fn private(whole: &Trace, numbers: &[u32]) -> Result<(), String> {
    let listed: BTreeSet<usize> = numbers.iter().map(|&number| number as usize).collect();
    let threads = whole.tables.thread_count();
    // How many events of each thread come before the next one of each.
    let mut clocks = vec![vec![0u32; threads]; threads];
    let mut done = vec![0u32; threads];
    let mut notifies: HashMap<usize, Vec<u32>> = HashMap::new();
    let mut bytes: BTreeMap<u64, Last> = BTreeMap::new();
    let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
    let mut last = vec![None; threads];
    let events: &Events = &whole.events;
    for number in 0..events.len() {
        let event = events.get(number);
        let thread = event.thread.index();
        last[thread] = Some(number);
        let is_listed = listed.contains(&number);
        let is_access = matches!(event.op, Op::Read | Op::Write | Op::AtomicRead | Op::AtomicWrite);
        if !is_listed && !is_access {
            return Err(format!("event {number}, '{}', is not listed", event.op.word()));
        }
        done[thread] += 1;
        let own = done[thread];
        clocks[thread][thread] = own;
        let join = |clocks: &mut Vec<Vec<u32>>, to: usize, from: &[u32]| {
            clocks[to].iter_mut().zip(from).for_each(|(to, from)| *to = *from.max(to));
        };
        match event.action() {
            Action::Fork { thread: child, .. } => {
                let clock = clocks[thread].clone();
                join(&mut clocks, child.index(), &clock);
            }
            Action::Join { thread: child, .. } => {
                let clock = clocks[child.index()].clone();
                join(&mut clocks, thread, &clock);
            }
            Action::Notify { .. } | Action::NotifyAll { .. } => _ = notifies.insert(number, clocks[thread].clone()),
            Action::Wake { by: Some(notify), .. } => {
                let clock = notifies.get(&notify.index()).cloned().unwrap_or_default();
                join(&mut clocks, thread, &clock);
            }
            _ => {}
        }
        let clock = &clocks[thread];
        let range = event.op.has_variable().then(|| whole.tables.variable(VarId(event.target)));
        let Some(Variable::Range { address, size }) = range else { continue };
        let end = address + size;
        let conflict = |byte: u64, writes: bool, last: &Last| {
            for (&(other, wrote, was_listed), &(index, before)) in last {
                let is_ordered = other == thread || index <= clock[other];
                if (writes || wrote) && !(is_listed && was_listed) && !is_ordered {
                    return Err(format!(
                        "byte {byte:#x}: events {before} and {number} are in no order, and not both listed"
                    ));
                }
            }
            Ok(())
        };
        match event.op {
            Op::Alloc => {
                bytes.range(address..end).map(|(&byte, _)| byte).collect::<Vec<_>>().iter().for_each(|byte| {
                    bytes.remove(byte);
                });
                blocks.insert(address, (end, thread, own, number));
            }
            Op::Free => {
                for (&byte, last) in bytes.range(address..end) {
                    conflict(byte, true, last)?;
                }
                bytes.range(address..end).map(|(&byte, _)| byte).collect::<Vec<_>>().iter().for_each(|byte| {
                    bytes.remove(byte);
                });
                blocks.remove(&address);
            }
            op if op.is_fault() => {}
            op if op.reads() || op.writes() => {
                let block =
                    blocks.range(..=address).next_back().map(|(_, block)| *block).filter(|block| block.0 > address);
                for byte in address..end {
                    let known = bytes.entry(byte).or_insert_with(|| {
                        let allocated = block.map(|(_, by, index, at)| ((by, true, true), (index, at)));
                        allocated.into_iter().collect()
                    });
                    conflict(byte, op.writes(), known)?;
                    known.insert((thread, op.writes(), is_listed), (own, number));
                }
            }
            _ => {}
        }
    }
    match last.iter().flatten().find(|last| !listed.contains(last)) {
        Some(last) => Err(format!("event {last} is the last one of its thread, and not listed")),
        None => Ok(()),
    }
}
