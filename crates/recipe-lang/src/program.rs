//! A program ready to run: instructions over the slots of a frame.
//!
//! At most one instruction of a step touches what threads share; all others only
//! touch the frame of their thread. Every read of a shared variable is an
//! instruction of its own, in the order in which C would write them down.

use snag_model::symbolic::{Binary, Sort, Unary};
use std::collections::HashMap;

/// A slot of a frame.
pub type Slot = usize;

/// A program ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of its file, for locations.
    pub file: String,
    /// Shared memory, cell by cell: elements of arrays and fields of objects are cells of their own.
    pub cells: Vec<Cell>,
    /// Names of the locks; elements of arrays are locks of their own.
    pub locks: Vec<String>,
    /// Names of the condition variables.
    pub conditions: Vec<String>,
    /// Objects; object *n* has the number *n* + 1, as 0 is `null`.
    pub objects: Vec<Object>,
    /// Code.
    pub functions: Vec<Function>,
    /// Threads.
    pub threads: Vec<ThreadCode>,
    /// Names of methods and fields, by number.
    pub members: Vec<String>,
}

/// A cell of shared memory.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name in traces.
    pub name: String,
    /// The type of its values.
    pub sort: Sort,
    /// Its value before the program starts.
    pub initial: i128,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// The functions of its methods, by the number of their name.
    pub methods: HashMap<usize, usize>,
    /// The cells of its fields, by the number of their name.
    pub fields: HashMap<usize, usize>,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct ThreadCode {
    /// Its name.
    pub name: String,
    /// The function that it runs.
    pub function: usize,
    /// The cells through which its arguments come.
    pub arguments: Vec<usize>,
    /// Whether it runs from the beginning, without a fork.
    pub starts: bool,
}

/// A function, a method, or the body of a thread.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The slots of its frame; parameters come first.
    pub slots: Vec<SlotInfo>,
    /// How many parameters there are; of a method, the object comes first.
    pub parameters: usize,
    /// The type of what it returns, if anything.
    pub returns: Option<Sort>,
    /// What it does, and in which line.
    pub code: Vec<(Instruction, u32)>,
}

/// A slot of a frame.
#[derive(Clone, Debug)]
pub struct SlotInfo {
    /// The name of the variable; empty for what has none.
    pub name: String,
    /// The type of its values.
    pub sort: Sort,
}

/// A place in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A cell.
    Cell(usize),
    /// An element of the array that starts at this cell and is so long.
    Element(usize, u32, Slot),
    /// A field of the object in a slot.
    Field(Slot, usize),
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPlace {
    /// This one.
    Lock(usize),
    /// An element of the array that starts with this lock and is so long.
    Element(usize, u32, Slot),
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Instruction {
    Constant {
        to: Slot,
        value: i128,
    },
    /// Converts to the type of `to`.
    Copy {
        to: Slot,
        from: Slot,
    },
    Unary {
        operator: Unary,
        to: Slot,
        a: Slot,
    },
    Binary {
        operator: Binary,
        to: Slot,
        a: Slot,
        b: Slot,
    },
    /// The variable in this slot has got its value. `counted`: by `++` or `--`.
    Defined {
        slot: Slot,
        counted: bool,
    },
    Load {
        to: Slot,
        place: Place,
    },
    Store {
        place: Place,
        from: Slot,
    },
    /// Elements of a local array, which starts at slot `base`.
    LocalLoad {
        to: Slot,
        base: Slot,
        length: u32,
        index: Slot,
    },
    LocalStore {
        base: Slot,
        length: u32,
        index: Slot,
        from: Slot,
    },
    Jump(usize),
    Branch {
        condition: Slot,
        yes: usize,
        no: usize,
    },
    Lock(LockPlace),
    Unlock(LockPlace),
    Wait {
        condition: usize,
        lock: LockPlace,
    },
    Notify {
        condition: usize,
        all: bool,
    },
    Fork(usize),
    Join(usize),
    Call {
        function: usize,
        arguments: Vec<Slot>,
        to: Option<Slot>,
    },
    CallVirtual {
        object: Slot,
        method: usize,
        arguments: Vec<Slot>,
        to: Option<Slot>,
    },
    Return(Option<Slot>),
    Assert(Slot),
    Print(Vec<Slot>),
}

impl Instruction {
    /// Whether it touches what threads share, so that its place among the instructions of other threads matters.
    pub fn is_shared(&self) -> bool {
        matches!(
            self,
            Instruction::Load { .. }
                | Instruction::Store { .. }
                | Instruction::Lock(_)
                | Instruction::Unlock(_)
                | Instruction::Wait { .. }
                | Instruction::Notify { .. }
                | Instruction::Fork(_)
                | Instruction::Join(_)
        )
    }
}
