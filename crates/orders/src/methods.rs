//! Orders forced by missing methods (docs/model.md, rule 3).
//!
//! Per object that some missing method could reach, two rows gather what the
//! events inside such methods knew, and what the ordinary events that touch the
//! object knew. An event inside takes over both, an ordinary one only the first:
//! ordinary events are not ordered among themselves.

use crate::clocks::{Clocks, Slot, Time};
use snag_trace::events::Event;
use snag_trace::tables::Object;
use snag_trace::{LockId, Op, ReachId, ThreadId, Trace, VarId, Variable};
use std::collections::HashMap;

pub(crate) struct Methods {
    /// Objects of each reach set, as indices into `inside` and `outside`.
    reaches: Vec<Vec<u32>>,
    /// Per variable, lock and thread the objects that a touch of it touches.
    of_variable: Vec<Vec<u32>>,
    of_lock: HashMap<LockId, u32>,
    of_thread: HashMap<ThreadId, u32>,
    /// Per object the rows that gather what was known inside and outside; 0 before the first.
    inside: Vec<u32>,
    outside: Vec<u32>,
    /// Open methods of each thread.
    open: Vec<Vec<ReachId>>,
}

impl Methods {
    /// Before the first event.
    pub fn new(trace: &Trace) -> Methods {
        let mut methods = Methods {
            reaches: Vec::new(),
            of_variable: Vec::new(),
            of_lock: HashMap::new(),
            of_thread: HashMap::new(),
            inside: Vec::new(),
            outside: Vec::new(),
            open: vec![Vec::new(); trace.tables.thread_count()],
        };
        let pieces = Pieces::of(trace);
        let mut objects: HashMap<Piece, u32> = HashMap::new();
        for reach in 0..trace.tables.reach_count() {
            let mut indices = Vec::new();
            for &object in trace.tables.reach_objects(ReachId::new(reach)) {
                let mut add = |piece: Piece| {
                    let next = objects.len() as u32;
                    indices.push(*objects.entry(piece).or_insert(next));
                };
                match object {
                    Object::Variable(v) => pieces.of_variable(trace.tables.variable(v)).for_each(add),
                    Object::Lock(lock) => add(Piece::Lock(lock)),
                    Object::Thread(thread) => add(Piece::Thread(thread)),
                }
            }
            indices.sort_unstable();
            indices.dedup();
            methods.reaches.push(indices);
        }
        for v in 0..trace.tables.variable_count() {
            let touched = pieces.of_variable(trace.tables.variable(VarId::new(v)));
            methods.of_variable.push(touched.filter_map(|piece| objects.get(&piece).copied()).collect());
        }
        for (piece, &index) in &objects {
            match piece {
                Piece::Lock(lock) => methods.of_lock.insert(*lock, index),
                Piece::Thread(thread) => methods.of_thread.insert(*thread, index),
                _ => None,
            };
        }
        methods.inside = vec![0; objects.len()];
        methods.outside = vec![0; objects.len()];
        methods
    }

    /// The objects an event touches by itself.
    fn touched(&self, event: &Event) -> Vec<u32> {
        let lock = |id: u32| self.of_lock.get(&LockId(id)).copied().into_iter().collect();
        let thread = |id: ThreadId| self.of_thread.get(&id).copied().into_iter().collect();
        match event.op {
            op if op.touches_memory() => self.of_variable[event.target as usize].clone(),
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => lock(event.target),
            Op::WaitBegin | Op::WaitEnd => lock(event.aux),
            Op::Fork | Op::Join => thread(ThreadId(event.target)),
            Op::Begin | Op::End => thread(event.thread),
            _ => Vec::new(),
        }
    }

    /// The event learns what it may not be moved over.
    pub fn before(&mut self, clocks: &mut Clocks, slot: Slot, event: &Event) {
        if event.op == Op::MethodBegin {
            self.open[event.thread.index()].push(ReachId(event.aux));
        }
        for reach in &self.open[event.thread.index()] {
            for &object in &self.reaches[reach.index()] {
                clocks.join_row(slot, self.inside[object as usize]);
                clocks.join_row(slot, self.outside[object as usize]);
            }
        }
        for object in self.touched(event) {
            clocks.join_row(slot, self.inside[object as usize]);
        }
    }

    /// What the event knows is kept for those that may not be moved over it.
    pub fn after(&mut self, clocks: &mut Clocks, slot: Slot, time: Time, event: &Event) {
        let add = |clocks: &mut Clocks, row: &mut u32| {
            if *row == 0 {
                *row = clocks.new_row();
            }
            clocks.gather(*row, slot, time);
        };
        for reach in &self.open[event.thread.index()] {
            for &object in &self.reaches[reach.index()] {
                add(clocks, &mut self.inside[object as usize]);
            }
        }
        for object in self.touched(event) {
            add(clocks, &mut self.outside[object as usize]);
        }
        if event.op == Op::MethodEnd {
            self.open[event.thread.index()].pop();
        }
    }

    /// Every row referred to from here.
    pub fn roots(&self, mark: &mut dyn FnMut(u32)) {
        self.inside.iter().chain(&self.outside).for_each(|&row| mark(row));
    }
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
