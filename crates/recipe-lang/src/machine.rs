//! Runs programs, one step of one thread at a time.
//!
//! Memory is sequentially consistent. A step is one instruction that touches what
//! threads share, and all instructions of the thread after it up to the next such
//! one: these nobody else can see, so when they happen does not matter.
//!
//! A thread that fails (a false assertion, a division by zero, an index out of
//! bounds) stops where it is, with all the locks it holds; the others go on. So
//! whatever can happen before a failure is seen can be seen.

use crate::program::*;
use snag_model::symbolic::{self, Binary, Sort};

/// Deepest calls.
const DEEPEST: usize = 200;

/// Most local variables of a thread.
const MOST_SLOTS: usize = 1 << 20;

/// So many instructions in a row that touch nothing shared are taken for a loop that does not end.
const MOST_LOCAL: usize = 1_000_000;

/// Everything that matters for how a run goes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Shared memory.
    pub cells: Vec<i128>,
    /// Of each lock 1 + the thread that holds it, or 0; and how often.
    pub locks: Vec<(u32, u32)>,
    /// The threads.
    pub threads: Vec<Thread>,
}

/// Where a thread stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Thread {
    /// What it is doing.
    pub status: Status,
    /// Its calls, the innermost last.
    pub frames: Vec<Frame>,
}

/// A call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// Of this function.
    pub function: usize,
    /// The next instruction.
    pub next: usize,
    /// The values of its variables.
    pub slots: Vec<i128>,
    /// Where the caller wants the returned value.
    pub to: Option<Slot>,
}

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// It was not forked yet.
    NotForked,
    /// Its next instruction is one that touches what threads share.
    Running,
    /// It waits for a condition, having given up a lock that it held so often.
    Waiting {
        /// The condition.
        condition: usize,
        /// The lock.
        lock: usize,
        /// How often it was held.
        holds: u32,
    },
    /// It was notified and wants its lock back.
    Woken {
        /// The condition.
        condition: usize,
        /// The lock.
        lock: usize,
        /// How often it was held.
        holds: u32,
    },
    /// It has ended.
    Done,
    /// It has failed.
    Failed,
}

/// Watches a run.
pub trait Observer {
    /// An instruction of a thread is about to be executed, in a frame with these values.
    fn before(&mut self, _thread: usize, _instruction: &Instruction, _line: u32, _slots: &[i128]) {}

    /// It was; if it is a call these are the values of the new frame, if it is a return those of the old one.
    fn after(&mut self, _thread: usize, _instruction: &Instruction, _line: u32, _slots: &[i128]) {}

    /// A branch goes one way; on the other way `other` would come next.
    fn branch(&mut self, _state: &State, _thread: usize, _line: u32, _condition: Slot, _yes: bool, _other: usize) {}

    /// A step that others can see, with the place or lock that it goes to.
    fn visible(&mut self, _state: &State, _thread: usize, _line: u32, _action: Visible) {}

    /// A thread fails.
    fn fails(&mut self, _thread: usize, _line: u32, _message: &str) {}
}

/// Nobody watches.
pub struct Nobody;

impl Observer for Nobody {}

/// What a step does that others can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Visible {
    Read {
        cell: usize,
        place: Place,
        to: Slot,
    },
    Write {
        cell: usize,
        place: Place,
        from: Slot,
    },
    Lock {
        lock: usize,
        place: LockPlace,
    },
    Unlock {
        lock: usize,
        place: LockPlace,
    },
    /// Gives up its lock and waits.
    WaitBegin {
        condition: usize,
        lock: usize,
        place: LockPlace,
    },
    /// Has its lock again.
    WaitEnd {
        condition: usize,
        lock: usize,
    },
    /// Wakes a thread, or nobody.
    Notify {
        condition: usize,
        woken: Option<usize>,
    },
    NotifyAll {
        condition: usize,
    },
    Fork {
        thread: usize,
    },
    Join {
        thread: usize,
    },
}

impl State {
    /// Before the first step: every thread that starts has come to its first shared instruction.
    pub fn start(program: &Program, observer: &mut impl Observer) -> State {
        let threads = program.threads.iter().map(|_| Thread { status: Status::NotForked, frames: Vec::new() });
        let mut state = State {
            cells: program.cells.iter().map(|cell| cell.initial).collect(),
            locks: vec![(0, 0); program.locks.len()],
            threads: threads.collect(),
        };
        for thread in 0..program.threads.len() {
            if program.threads[thread].starts {
                state.begin(program, thread);
                state.advance(program, thread, observer);
            }
        }
        state
    }

    fn begin(&mut self, program: &Program, thread: usize) {
        let function = program.threads[thread].function;
        let slots = vec![0; program.functions[function].slots.len()];
        self.threads[thread] =
            Thread { status: Status::Running, frames: vec![Frame { function, next: 0, slots, to: None }] };
    }

    /// The next instruction of a thread that runs, and its line.
    pub fn instruction<'p>(&self, program: &'p Program, thread: usize) -> Option<(&'p Instruction, u32)> {
        let frame = self.threads[thread].frames.last()?;
        let (instruction, line) = &program.functions[frame.function].code[frame.next];
        Some((instruction, *line))
    }

    /// What a thread would access next: cell, whether it writes, line.
    pub fn next_access(&self, program: &Program, thread: usize) -> Option<(usize, bool, u32)> {
        if self.threads[thread].status != Status::Running {
            return None;
        }
        let (instruction, line) = self.instruction(program, thread)?;
        let slots = &self.threads[thread].frames.last()?.slots;
        match instruction {
            Instruction::Load { place, .. } => Some((cell_of(program, *place, slots).ok()?, false, line)),
            Instruction::Store { place, .. } => Some((cell_of(program, *place, slots).ok()?, true, line)),
            _ => None,
        }
    }

    /// The lock that a thread needs for its next step.
    pub fn wanted_lock(&self, program: &Program, thread: usize) -> Option<usize> {
        match self.threads[thread].status {
            Status::Woken { lock, .. } => Some(lock),
            Status::Running => match self.instruction(program, thread)? {
                (Instruction::Lock(place), _) => lock_of(*place, &self.threads[thread].frames.last()?.slots).ok(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The thread other than this one that holds a lock.
    pub fn holder(&self, thread: usize, lock: usize) -> Option<usize> {
        let owner = self.locks[lock].0 as usize;
        (owner != 0 && owner != thread + 1).then(|| owner - 1)
    }

    /// Whether a thread can make a step.
    pub fn can_step(&self, program: &Program, thread: usize) -> bool {
        match self.threads[thread].status {
            Status::Running | Status::Woken { .. } => {}
            _ => return false,
        }
        if let Some(lock) = self.wanted_lock(program, thread) {
            return self.holder(thread, lock).is_none();
        }
        match self.instruction(program, thread) {
            Some((Instruction::Join(child), _)) => self.threads[*child].status == Status::Done,
            _ => true,
        }
    }

    /// In how many ways a thread can make its next step: a notify may wake any of those that wait.
    pub fn choices(&self, program: &Program, thread: usize) -> usize {
        match self.instruction(program, thread) {
            Some((Instruction::Notify { condition, all: false }, _))
                if self.threads[thread].status == Status::Running =>
            {
                self.waiting_for(*condition).count().max(1)
            }
            _ => 1,
        }
    }

    /// The threads that wait for a condition.
    pub fn waiting_for(&self, condition: usize) -> impl Iterator<Item = usize> {
        let waits = move |thread: &Thread| matches!(thread.status, Status::Waiting { condition: other, .. } if other == condition);
        self.threads.iter().enumerate().filter(move |(_, thread)| waits(thread)).map(|(number, _)| number)
    }

    /// A thread that can makes its next step, in one of the ways that there are.
    pub fn step(&mut self, program: &Program, thread: usize, choice: usize, observer: &mut impl Observer) {
        let (instruction, line) = self.instruction(program, thread).expect("the thread can make a step");
        if let Status::Woken { condition, lock, holds } = self.threads[thread].status {
            self.locks[lock] = (thread as u32 + 1, holds);
            self.threads[thread].status = Status::Running;
            observer.visible(self, thread, line, Visible::WaitEnd { condition, lock });
            self.go_on(program, thread, observer);
            return;
        }
        let slots = &self.threads[thread].frames.last().expect("it runs").slots;
        let checked = "checked when the thread came here";
        let action = match instruction {
            Instruction::Load { to, place } => {
                Visible::Read { cell: cell_of(program, *place, slots).expect(checked), place: *place, to: *to }
            }
            Instruction::Store { place, from } => {
                Visible::Write { cell: cell_of(program, *place, slots).expect(checked), place: *place, from: *from }
            }
            Instruction::Lock(place) => Visible::Lock { lock: lock_of(*place, slots).expect(checked), place: *place },
            Instruction::Unlock(place) => {
                Visible::Unlock { lock: lock_of(*place, slots).expect(checked), place: *place }
            }
            Instruction::Wait { condition, lock: place } => {
                let lock = lock_of(*place, slots).expect(checked);
                Visible::WaitBegin { condition: *condition, lock, place: *place }
            }
            Instruction::Notify { condition, all: true } => Visible::NotifyAll { condition: *condition },
            Instruction::Notify { condition, all: false } => {
                Visible::Notify { condition: *condition, woken: self.waiting_for(*condition).nth(choice) }
            }
            Instruction::Fork(child) => Visible::Fork { thread: *child },
            Instruction::Join(child) => Visible::Join { thread: *child },
            _ => unreachable!("a thread stops only before what others can see"),
        };
        observer.visible(self, thread, line, action);
        self.act(program, thread, action, observer);
    }

    fn act(&mut self, program: &Program, thread: usize, action: Visible, observer: &mut impl Observer) {
        let frame = self.threads[thread].frames.last_mut().expect("it runs");
        match action {
            Visible::Read { cell, to, .. } => {
                let sort = program.functions[frame.function].slots[to].sort;
                frame.slots[to] = sort.convert(self.cells[cell]);
            }
            Visible::Write { cell, from, .. } => self.cells[cell] = frame.slots[from],
            Visible::Lock { lock, .. } => {
                self.locks[lock].0 = thread as u32 + 1;
                self.locks[lock].1 += 1;
            }
            Visible::Unlock { lock, .. } => {
                self.locks[lock].1 -= 1;
                if self.locks[lock].1 == 0 {
                    self.locks[lock].0 = 0;
                }
            }
            Visible::WaitBegin { condition, lock, .. } => {
                let holds = std::mem::take(&mut self.locks[lock]).1;
                self.threads[thread].status = Status::Waiting { condition, lock, holds };
                return;
            }
            Visible::Notify { woken, .. } => self.wake(woken),
            Visible::NotifyAll { condition } => {
                let all: Vec<usize> = self.waiting_for(condition).collect();
                all.into_iter().for_each(|waiting| self.wake(Some(waiting)));
            }
            Visible::Fork { thread: child } => {
                self.begin(program, child);
                self.go_on(program, thread, observer);
                self.advance(program, child, observer);
                return;
            }
            Visible::Join { .. } | Visible::WaitEnd { .. } => {}
        }
        self.go_on(program, thread, observer);
    }

    fn wake(&mut self, thread: Option<usize>) {
        if let Some(thread) = thread
            && let Status::Waiting { condition, lock, holds } = self.threads[thread].status
        {
            self.threads[thread].status = Status::Woken { condition, lock, holds };
        }
    }

    /// Past the instruction that was executed, and on to the next shared one.
    fn go_on(&mut self, program: &Program, thread: usize, observer: &mut impl Observer) {
        self.threads[thread].frames.last_mut().expect("it runs").next += 1;
        self.advance(program, thread, observer);
    }

    /// Executes what nobody else can see.
    fn advance(&mut self, program: &Program, thread: usize, observer: &mut impl Observer) {
        for _ in 0..MOST_LOCAL {
            let Some((instruction, line)) = self.instruction(program, thread) else {
                self.threads[thread].status = Status::Done;
                return;
            };
            let slots = &self.threads[thread].frames.last().expect("it has an instruction").slots;
            observer.before(thread, instruction, line, slots);
            let done = match instruction.is_shared() {
                true => self.can_ever(program, thread, instruction),
                false => self.execute(program, thread, instruction, line, observer),
            };
            if let Err(message) = done {
                observer.fails(thread, line, &message);
                self.threads[thread].status = Status::Failed;
                return;
            }
            if instruction.is_shared() {
                return;
            }
        }
        let line = self.instruction(program, thread).map_or(0, |(_, line)| line);
        observer.fails(thread, line, "this loop does not seem to end");
        self.threads[thread].status = Status::Failed;
    }

    /// Whether a shared instruction makes sense here; whatever other threads do does not change that.
    fn can_ever(&self, program: &Program, thread: usize, instruction: &Instruction) -> Result<(), String> {
        let slots = &self.threads[thread].frames.last().expect("it runs").slots;
        let holds = |place: LockPlace, what: &str| -> Result<(), String> {
            let lock = lock_of(place, slots)?;
            match self.locks[lock].0 as usize == thread + 1 {
                true => Ok(()),
                false => Err(format!("{what} {}, which the thread does not hold", program.locks[lock])),
            }
        };
        match instruction {
            Instruction::Load { place, .. } => cell_of(program, *place, slots).map(|_| ()),
            Instruction::Store { place, from } => {
                let cell = cell_of(program, *place, slots)?;
                match program.cells[cell].sort.to_memory(slots[*from]) {
                    Some(_) => Ok(()),
                    None => Err(symbolic::Undefined::TooLarge.to_string()),
                }
            }
            Instruction::Lock(place) => lock_of(*place, slots).map(|_| ()),
            Instruction::Unlock(place) => holds(*place, "unlock of"),
            Instruction::Wait { lock, .. } => holds(*lock, "wait with"),
            Instruction::Fork(child) => match self.threads[*child].status {
                Status::NotForked => Ok(()),
                _ => Err(format!("thread {} is forked a second time", program.threads[*child].name)),
            },
            Instruction::Join(child) if *child == thread => Err("a thread joins itself".to_owned()),
            _ => Ok(()),
        }
    }

    fn execute(
        &mut self,
        program: &Program,
        thread: usize,
        instruction: &Instruction,
        line: u32,
        observer: &mut impl Observer,
    ) -> Result<(), String> {
        let depth = self.threads[thread].frames.len();
        let frame = self.threads[thread].frames.last_mut().expect("it runs");
        let infos = &program.functions[frame.function].slots;
        let sort = |slot: Slot| infos[slot].sort;
        frame.next += 1;
        match instruction {
            Instruction::Constant { to, value } => frame.slots[*to] = *value,
            Instruction::Copy { to, from } => frame.slots[*to] = sort(*to).convert(frame.slots[*from]),
            Instruction::Unary { operator, to, a } => {
                frame.slots[*to] =
                    symbolic::unary(*operator, sort(*to), frame.slots[*a]).map_err(|why| why.to_string())?;
            }
            Instruction::Binary { operator, to, a, b } => {
                let result = symbolic::binary(*operator, sort(*to), frame.slots[*a], frame.slots[*b]);
                frame.slots[*to] = result.map_err(|why| why.to_string())?;
            }
            Instruction::Defined { .. } | Instruction::Print(_) => {}
            Instruction::LocalLoad { to, base, length, index } => {
                let index = in_bounds(frame.slots[*index], *length)?;
                frame.slots[*to] = frame.slots[base + index];
            }
            Instruction::LocalStore { base, length, index, from } => {
                let index = in_bounds(frame.slots[*index], *length)?;
                frame.slots[base + index] = frame.slots[*from];
            }
            Instruction::Jump(to) => frame.next = *to,
            Instruction::Branch { condition, yes, no } => {
                let way = frame.slots[*condition] != 0;
                let (next, other) = if way { (*yes, *no) } else { (*no, *yes) };
                frame.next = next;
                observer.branch(self, thread, line, *condition, way, other);
                return Ok(());
            }
            Instruction::Assert(condition) => {
                let holds = frame.slots[*condition] != 0;
                return if holds { Ok(()) } else { Err("assertion failed".to_owned()) };
            }
            Instruction::Call { function, arguments, to } => {
                let values: Vec<i128> = arguments.iter().map(|&slot| frame.slots[slot]).collect();
                self.call(program, thread, *function, values, *to, depth)?;
            }
            Instruction::CallVirtual { object, method, arguments, to } => {
                let number = frame.slots[*object];
                let object = object_of(program, number)?;
                let Some(&function) = object.methods.get(method) else {
                    return Err(format!("object {} has no method {}", object.name, program.members[*method]));
                };
                let values = arguments.iter().map(|&slot| frame.slots[slot]);
                let values: Vec<i128> = std::iter::once(number).chain(values).collect();
                self.call(program, thread, function, values, *to, depth)?;
            }
            Instruction::Return(value) => {
                let value = value.map(|slot| frame.slots[slot]);
                let ended = self.threads[thread].frames.pop().expect("it runs");
                if let (Some(value), Some(to), Some(caller)) = (value, ended.to, self.threads[thread].frames.last_mut())
                {
                    caller.slots[to] = value;
                }
                observer.after(thread, instruction, line, &ended.slots);
                return Ok(());
            }
            _ => unreachable!("others can see it"),
        }
        let slots = &self.threads[thread].frames.last().expect("it runs").slots;
        observer.after(thread, instruction, line, slots);
        Ok(())
    }

    fn call(
        &mut self,
        program: &Program,
        thread: usize,
        function: usize,
        mut slots: Vec<i128>,
        to: Option<Slot>,
        depth: usize,
    ) -> Result<(), String> {
        if depth >= DEEPEST {
            return Err(format!("calls nested deeper than {DEEPEST}"));
        }
        let taken: usize = self.threads[thread].frames.iter().map(|frame| frame.slots.len()).sum();
        if taken + program.functions[function].slots.len() > MOST_SLOTS {
            return Err("the local variables of all calls are too many".to_owned());
        }
        slots.resize(program.functions[function].slots.len(), 0);
        self.threads[thread].frames.push(Frame { function, next: 0, slots, to });
        Ok(())
    }
}

/// An index that is in bounds.
pub(crate) fn in_bounds(index: i128, length: u32) -> Result<usize, String> {
    match (0..length as i128).contains(&index) {
        true => Ok(index as usize),
        false => Err(format!("index {index} is outside of 0 to {}", length - 1)),
    }
}

/// The object of a number.
pub(crate) fn object_of(program: &Program, number: i128) -> Result<&Object, String> {
    match usize::try_from(number - 1).ok().and_then(|index| program.objects.get(index)) {
        Some(object) => Ok(object),
        None if number == 0 => Err("null has no members".to_owned()),
        None => Err(format!("{number} is no object")),
    }
}

/// The cell of a place.
pub(crate) fn cell_of(program: &Program, place: Place, slots: &[i128]) -> Result<usize, String> {
    match place {
        Place::Cell(cell) => Ok(cell),
        Place::Element(first, length, index) => in_bounds(slots[index], length).map(|index| first + index),
        Place::Field(object, field) => {
            let object = object_of(program, slots[object])?;
            let cell = object.fields.get(&field).copied();
            cell.ok_or_else(|| format!("object {} has no field {}", object.name, program.members[field]))
        }
    }
}

/// The lock of a place.
pub(crate) fn lock_of(place: LockPlace, slots: &[i128]) -> Result<usize, String> {
    match place {
        LockPlace::Lock(lock) => Ok(lock),
        LockPlace::Element(first, length, index) => in_bounds(slots[index], length).map(|index| first + index),
    }
}

/// Whether an operator may have no value.
pub(crate) fn is_partial(operator: Binary) -> bool {
    matches!(operator, Binary::Divide | Binary::Remainder | Binary::ShiftLeft | Binary::ShiftRight)
}

/// The smallest value of a signed type.
pub(crate) fn smallest(sort: Sort) -> Option<i128> {
    match sort {
        Sort::Bits { width, signed: true } => Some(-(1 << (width - 1))),
        _ => None,
    }
}
