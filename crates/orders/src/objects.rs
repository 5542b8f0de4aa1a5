//! What missing methods could reach, as numbered objects (docs/model.md, rule 3).
//!
//! Two things share memory, or are the same lock or thread, iff they share an object here: address ranges are cut
//! at every place where some range of the trace begins or ends.

use snag_trace::events::Event;
use snag_trace::tables::Object;
use snag_trace::{LockId, Op, ReachId, ThreadId, Trace, VarId, Variable};
use std::collections::HashMap;

/// The objects that the missing methods of a trace could reach, numbered from 0.
pub struct Objects {
    count: usize,
    /// Objects of each reach set.
    reaches: Vec<Vec<u32>>,
    /// Objects that a touch of each variable, lock and thread touches.
    of_variable: Vec<Vec<u32>>,
    of_lock: HashMap<LockId, u32>,
    of_thread: HashMap<ThreadId, u32>,
}

impl Objects {
    /// Those of a trace.
    pub fn of(trace: &Trace) -> Objects {
        let pieces = Pieces::of(trace);
        let mut numbers: HashMap<Piece, u32> = HashMap::new();
        let mut reaches = Vec::new();
        for reach in 0..trace.tables.reach_count() {
            let mut indices = Vec::new();
            for &object in trace.tables.reach_objects(ReachId::new(reach)) {
                let mut add = |piece: Piece| {
                    let next = numbers.len() as u32;
                    indices.push(*numbers.entry(piece).or_insert(next));
                };
                match object {
                    Object::Variable(v) => pieces.of_variable(trace.tables.variable(v)).for_each(add),
                    Object::Lock(lock) => add(Piece::Lock(lock)),
                    Object::Thread(thread) => add(Piece::Thread(thread)),
                }
            }
            indices.sort_unstable();
            indices.dedup();
            reaches.push(indices);
        }
        let mut objects = Objects {
            count: numbers.len(),
            reaches,
            of_variable: Vec::new(),
            of_lock: HashMap::new(),
            of_thread: HashMap::new(),
        };
        for v in 0..trace.tables.variable_count() {
            let touched = pieces.of_variable(trace.tables.variable(VarId::new(v)));
            objects.of_variable.push(touched.filter_map(|piece| numbers.get(&piece).copied()).collect());
        }
        for (piece, &number) in &numbers {
            match piece {
                Piece::Lock(lock) => objects.of_lock.insert(*lock, number),
                Piece::Thread(thread) => objects.of_thread.insert(*thread, number),
                _ => None,
            };
        }
        objects
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those of a reach set.
    pub fn reached(&self, reach: ReachId) -> &[u32] {
        &self.reaches[reach.index()]
    }

    /// Those that an event touches by itself.
    pub fn touched(&self, event: &Event) -> &[u32] {
        match event.op {
            op if op.touches_memory() => &self.of_variable[event.target as usize],
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => {
                slice(self.of_lock.get(&LockId(event.target)))
            }
            Op::WaitBegin | Op::WaitEnd => slice(self.of_lock.get(&LockId(event.aux))),
            Op::Fork | Op::Join => slice(self.of_thread.get(&ThreadId(event.target))),
            Op::Begin | Op::End => slice(self.of_thread.get(&event.thread)),
            _ => &[],
        }
    }
}

fn slice(number: Option<&u32>) -> &[u32] {
    number.map_or(&[], std::slice::from_ref)
}

/// Something that a missing method either reaches or not, as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    Name(u32),
    /// The bytes from here to the next cut.
    Bytes(u64),
    Lock(LockId),
    Thread(ThreadId),
}

/// Where address ranges begin and end: two ranges overlap iff they share a piece between cuts.
struct Pieces {
    cuts: Vec<u64>,
}

impl Pieces {
    fn of(trace: &Trace) -> Pieces {
        let mut cuts = Vec::new();
        for v in 0..trace.tables.variable_count() {
            if let Variable::Range { address, size } = trace.tables.variable(VarId::new(v)) {
                cuts.push(address);
                cuts.extend((address + (size - 1)).checked_add(1));
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        Pieces { cuts }
    }

    fn of_variable(&self, variable: Variable) -> impl Iterator<Item = Piece> {
        let (name, cuts) = match variable {
            Variable::Named(name) => (Some(Piece::Name(name)), &self.cuts[..0]),
            Variable::Range { address, size } => {
                let from = self.cuts.partition_point(|&c| c < address);
                let to = self.cuts.partition_point(|&c| c <= address + (size - 1));
                (None, &self.cuts[from..to])
            }
        };
        name.into_iter().chain(cuts.iter().map(|&start| Piece::Bytes(start)))
    }
}
