//! What missing methods could reach, as numbered objects (docs/model.md, rule 3).
//!
//! Two things share memory, or are the same lock, thread and so on, iff they share an object here: address ranges are cut
//! where reach sets begin and end. What no reach set tells apart is *one* object: if a thousand calls could
//! all reach the same thousand variables, these are a single object. So what the sets take together is at most
//! what they have in the trace, and mostly far less.

use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::{
    Action, BarrierId, CondId, EventId, LockId, Op, ReachId, SemId, Space, ThreadId, Trace, VarId, Variable,
};
use std::ops::Range;

/// Whose order is kept: that of missing calls that could reach a common object, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Missing {
    /// Calls that could reach a common object (RDIT, and the model).
    #[default]
    Reach,
    /// All calls, as if there were an object that each of them could reach (the simple barriers of the RDIT paper).
    All,
}

/// The objects that the missing methods of a trace could reach, numbered from 0.
pub struct Objects {
    count: usize,
    /// Objects of all reach sets, one set after the other, and where each ends.
    reached: Lists,
    /// Objects that a touch of each variable touches.
    of_variable: Lists,
    /// The object that is a lock, thread, …, or [`NONE`].
    of_lock: Vec<u32>,
    of_thread: Vec<u32>,
    of_condition: Vec<u32>,
    of_semaphore: Vec<u32>,
    of_barrier: Vec<u32>,
    /// Where pieces of memory begin, ascending, and the object of each (or [`NONE`]).
    cuts: Vec<u64>,
    of_piece: Vec<u32>,
    /// First and last event of each thread.
    ends: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

/// Lists of numbers, one after the other.
#[derive(Default)]
struct Lists {
    numbers: Vec<u32>,
    ends: Vec<usize>,
}

impl Lists {
    fn finish(&mut self) {
        self.ends.push(self.numbers.len());
    }

    fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.numbers[start..self.ends[index]]
    }
}

impl Objects {
    /// Those of a trace.
    pub fn of(trace: &Trace, missing: Missing) -> Objects {
        let atoms = Atoms::of(trace);
        let (class, classes) = refine(&atoms, trace);
        let mut reached = Lists::default();
        let mut stamp = vec![NONE; classes];
        for set in 0..trace.tables.reach_count() {
            if !atoms.called[set] {
                reached.finish();
                continue;
            }
            atoms.of_set(trace, set, |atom| {
                let object = class[atom];
                if std::mem::replace(&mut stamp[object as usize], set as u32) != set as u32 {
                    reached.numbers.push(object);
                }
            });
            if missing == Missing::All {
                reached.numbers.push(classes as u32);
            }
            reached.finish();
        }
        // An atom that is in no set has no object.
        let object = |atom: usize| if atoms.used[atom] { class[atom] } else { NONE };
        let mut of_variable = Lists::default();
        for v in 0..trace.tables.variable_count() {
            let from = of_variable.numbers.len();
            of_variable.numbers.extend(atoms.of_variable(trace, VarId::new(v)).map(object).filter(|&o| o != NONE));
            of_variable.numbers[from..].sort_unstable();
            let mut kept = from;
            for at in from..of_variable.numbers.len() {
                if at == from || of_variable.numbers[at] != of_variable.numbers[kept - 1] {
                    of_variable.numbers[kept] = of_variable.numbers[at];
                    kept += 1;
                }
            }
            of_variable.numbers.truncate(kept);
            of_variable.finish();
        }
        let of = |space: usize| atoms.spaces[space].clone().map(object).collect();
        let mut ends = vec![(NONE, NONE); trace.tables.thread_count()];
        for (index, thread) in trace.events.threads().iter().enumerate() {
            let (first, last) = &mut ends[thread.index()];
            *first = (*first).min(index as u32);
            *last = index as u32;
        }
        Objects {
            count: classes + (missing == Missing::All) as usize,
            reached,
            of_variable,
            of_lock: of(0),
            of_thread: of(1),
            of_condition: of(2),
            of_semaphore: of(3),
            of_barrier: of(4),
            of_piece: (atoms.pieces..atoms.pieces + atoms.cuts.len()).map(object).collect(),
            cuts: atoms.cuts,
            ends,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those of a reach set.
    #[inline]
    pub fn reached(&self, reach: ReachId) -> &[u32] {
        self.reached.get(reach.index())
    }

    /// Those of a variable.
    #[inline]
    pub fn of_variable(&self, variable: VarId) -> &[u32] {
        self.of_variable.get(variable.index())
    }

    /// Those of the memory from a first to a last byte; some may come twice.
    pub fn of_bytes(&self, first: u64, last: u64) -> impl Iterator<Item = u32> {
        pieces(&self.cuts, first, last).map(|piece| self.of_piece[piece]).filter(|&object| object != NONE)
    }

    /// Calls `visit` with those that an event touches by itself; some may come twice.
    pub fn touched(&self, id: EventId, event: &Event, mut visit: impl FnMut(u32)) {
        let mut see = |object: u32| {
            if object != NONE {
                visit(object);
            }
        };
        for object in event.action().objects() {
            match object {
                Object::Variable(variable) => self.of_variable(variable).iter().for_each(|&object| see(object)),
                Object::Lock(lock) => see(self.of_lock[lock.index()]),
                Object::Thread(thread) => see(self.of_thread[thread.index()]),
                Object::Condition(condition) => see(self.of_condition[condition.index()]),
                Object::Semaphore(semaphore) => see(self.of_semaphore[semaphore.index()]),
                Object::Barrier(barrier) => see(self.of_barrier[barrier.index()]),
            }
        }
        let (first, last) = self.ends[event.thread.index()];
        if first == id.0 || last == id.0 || matches!(event.op, Op::Begin | Op::End) {
            see(self.of_thread[event.thread.index()]);
        }
    }
}

/// Everything a reach set may hold, numbered: named variables and nothing else by their ids, then locks, threads,
/// conditions, semaphores and barriers, then the pieces between cuts.
struct Atoms {
    count: usize,
    /// Locks, threads, conditions, semaphores, barriers.
    spaces: [Range<usize>; 5],
    /// The first piece.
    pieces: usize,
    cuts: Vec<u64>,
    /// Whether some set holds the atom.
    used: Vec<bool>,
    /// Whether some call could reach each set; others are arguments, and what objects lead to.
    called: Vec<bool>,
}

impl Atoms {
    fn of(trace: &Trace) -> Atoms {
        let tables = &trace.tables;
        let mut next = tables.variable_count();
        let spaces = [Space::Lock, Space::Thread, Space::Condition, Space::Semaphore, Space::Barrier].map(|space| {
            let from = next;
            next += tables.names(space).len();
            from..next
        });
        let mut called = vec![false; tables.reach_count()];
        for (_, event) in trace.events_of(&[Op::MethodBegin]) {
            if let Action::MethodBegin { reach, .. } = event.action() {
                called[reach.index()] = true;
            }
        }
        let mut known = vec![false; tables.variable_count()];
        let mut cuts = Vec::new();
        for set in (0..tables.reach_count()).filter(|&set| called[set]) {
            for &object in tables.reach_objects(ReachId::new(set)) {
                if let Object::Variable(v) = object
                    && !std::mem::replace(&mut known[v.index()], true)
                    && let Variable::Range { address, size } = tables.variable(v)
                {
                    cuts.push(address);
                    cuts.extend((address + (size - 1)).checked_add(1));
                }
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let count = next + cuts.len();
        let mut atoms = Atoms { count, spaces, pieces: next, cuts, used: vec![false; count], called };
        for set in (0..tables.reach_count()).filter(|&set| atoms.called[set]) {
            let mut used = std::mem::take(&mut atoms.used);
            atoms.of_set(trace, set, |atom| used[atom] = true);
            atoms.used = used;
        }
        atoms
    }

    fn of_variable(&self, trace: &Trace, variable: VarId) -> Range<usize> {
        match trace.tables.variable(variable) {
            Variable::Named(_) => variable.index()..variable.index() + 1,
            Variable::Range { address, size } => {
                let pieces = pieces(&self.cuts, address, address + (size - 1));
                self.pieces + pieces.start..self.pieces + pieces.end
            }
        }
    }

    /// Calls `visit` with the atoms of a reach set; some may come twice.
    #[inline]
    fn of_set(&self, trace: &Trace, set: usize, mut visit: impl FnMut(usize)) {
        for &object in trace.tables.reach_objects(ReachId::new(set)) {
            match object {
                Object::Variable(v) => self.of_variable(trace, v).for_each(&mut visit),
                Object::Lock(LockId(id)) => visit(self.spaces[0].start + id as usize),
                Object::Thread(ThreadId(id)) => visit(self.spaces[1].start + id as usize),
                Object::Condition(CondId(id)) => visit(self.spaces[2].start + id as usize),
                Object::Semaphore(SemId(id)) => visit(self.spaces[3].start + id as usize),
                Object::Barrier(BarrierId(id)) => visit(self.spaces[4].start + id as usize),
            }
        }
    }
}

/// The pieces that share a byte with a range; before the first cut there is none.
fn pieces(cuts: &[u64], first: u64, last: u64) -> Range<usize> {
    let from = cuts.partition_point(|&cut| cut <= first).saturating_sub(1);
    let to = cuts.partition_point(|&cut| cut <= last);
    from.min(to)..to
}

/// Puts atoms that are in exactly the same reach sets into one class. Returns the class of each atom and their number.
fn refine(atoms: &Atoms, trace: &Trace) -> (Vec<u32>, usize) {
    let mut class = vec![0u32; atoms.count];
    let mut size = vec![atoms.count as u32];
    // Of the set at hand: how many of each class are in it, the class that those move to, and the set of that.
    let mut inside = vec![0u32];
    let mut moved = vec![NONE];
    let mut seen = vec![NONE; atoms.count];
    let mut touched: Vec<u32> = Vec::new();
    let mut members: Vec<usize> = Vec::new();
    for set in (0..trace.tables.reach_count()).filter(|&set| atoms.called[set]) {
        members.clear();
        touched.clear();
        atoms.of_set(trace, set, |atom| {
            if std::mem::replace(&mut seen[atom], set as u32) != set as u32 {
                members.push(atom);
                let class = class[atom] as usize;
                if inside[class] == 0 {
                    touched.push(class as u32);
                }
                inside[class] += 1;
            }
        });
        for &old in &touched {
            let (all, some) = (size[old as usize], std::mem::take(&mut inside[old as usize]));
            moved[old as usize] = old;
            if some < all {
                moved[old as usize] = size.len() as u32;
                size[old as usize] -= some;
                size.push(some);
                inside.push(0);
                moved.push(NONE);
            }
        }
        for &atom in &members {
            class[atom] = moved[class[atom] as usize];
        }
    }
    let count = size.len();
    (class, count)
}
