//! What the ids of a trace stand for, and what the trace declares about them.

use crate::ids::*;
use crate::names::{Key, Names};
use crate::ranges::Ranges;
use crate::reaches::Reaches;
use crate::room::Room;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// How the names of variables begin that stand for descriptors: to use one is to read it, to close it to write it.
pub const DESCRIPTOR: &str = "descriptor in use ";

/// The kinds of names, each with ids of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Space {
    Thread = 0,
    Lock = 1,
    Condition = 2,
    Semaphore = 3,
    Barrier = 4,
    Method = 5,
    Symbol = 6,
    Location = 7,
    Expression = 8,
    Text = 9,
    /// Names of variables that are not address ranges; ids of their own, see [`Tables::variable`].
    VariableName = 10,
}

impl Space {
    /// Every kind, in the order of its code.
    pub const ALL: [Space; 11] = [
        Space::Thread,
        Space::Lock,
        Space::Condition,
        Space::Semaphore,
        Space::Barrier,
        Space::Method,
        Space::Symbol,
        Space::Location,
        Space::Expression,
        Space::Text,
        Space::VariableName,
    ];
}

/// A memory location as the trace gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variable {
    /// A name (index into [`Space::VariableName`]); overlaps only itself.
    Named(u32),
    /// The bytes from `address` on; overlaps every range that shares a byte.
    Range {
        /// First byte.
        address: u64,
        /// Number of bytes, at least 1; the range does not wrap around.
        size: u64,
    },
}

/// Something a missing method could reach.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Object {
    Variable(VarId),
    Lock(LockId),
    Thread(ThreadId),
    Condition(CondId),
    Semaphore(SemId),
    Barrier(BarrierId),
}

/// What a trace states beside its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declarations {
    /// Locks that their holder may not acquire again.
    pub plain_locks: Vec<LockId>,
    /// Initial counts of semaphores; 0 where nothing is said.
    pub semaphores: Vec<(SemId, u32)>,
    /// How many threads a barrier waits for. Where nothing is said, a generation
    /// consists of all that entered before the first one left.
    pub barriers: Vec<(BarrierId, u32)>,
    /// Values in memory before the first event.
    pub initial: Vec<(VarId, i64)>,
}

/// Layout of the text a trace was read from, kept so that writing it again
/// gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    /// Lines end in carriage return and line feed.
    pub crlf: bool,
    /// The last line has no line end.
    pub open_end: bool,
}

/// Gives an address range (its first byte and size) a name when it is asked for one: a trace has millions of ranges, and a report
/// shows a few.
#[derive(Clone)]
pub struct Namer(pub Arc<dyn Fn(u64, u64) -> Option<String> + Send + Sync>);

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Namer")
    }
}

/// All names and declarations of a trace.
#[derive(Clone, Debug)]
pub struct Tables {
    names: [Names; Space::ALL.len()],
    variables: Vec<Variable>,
    /// Variable of each name, parallel to [`Space::VariableName`].
    named: Vec<VarId>,
    ranges: Ranges,
    reaches: Reaches,
    /// What the trace declares.
    pub declarations: Declarations,
    /// Comment and blank lines: number of the event they stand before, text.
    pub comments: Vec<(u64, String)>,
    /// How the text looked.
    pub layout: Layout,
    /// Who gives address ranges the names that reports have for them. These are not part of the trace and are never written.
    pub namer: Option<Namer>,
    /// How much memory all this may take.
    room: Room,
    /// Bytes that the first comments take, and how many these are.
    comments_taken: (usize, u64),
    /// What was declared by the time somebody asked for the first time.
    declared: OnceLock<Declared>,
}

/// Declarations by what they are about.
#[derive(Clone, Debug)]
struct Declared {
    plain_locks: HashSet<LockId>,
    semaphores: HashMap<SemId, u32>,
    barriers: HashMap<BarrierId, u32>,
    /// How many there were of each.
    counts: [usize; 3],
}

impl Declared {
    fn of(declarations: &Declarations) -> Declared {
        let Declarations { plain_locks, semaphores, barriers, .. } = declarations;
        // The first one counts.
        Declared {
            plain_locks: plain_locks.iter().copied().collect(),
            semaphores: semaphores.iter().rev().copied().collect(),
            barriers: barriers.iter().rev().copied().collect(),
            counts: [plain_locks.len(), semaphores.len(), barriers.len()],
        }
    }
}

/// About how many bytes each of them takes beside its name, here and where the rules are checked.
const THREAD: usize = 256;
const LOCK: usize = 96;
const OTHER: usize = 64;
const VARIABLE: usize = 56;
const DECLARATION: usize = 64;
const COMMENT: usize = 64;

impl Default for Tables {
    fn default() -> Self {
        Tables::new()
    }
}

impl Tables {
    /// Empty tables; location 0 is "none".
    pub fn new() -> Tables {
        let mut tables = Tables {
            names: Default::default(),
            variables: Vec::new(),
            named: Vec::new(),
            ranges: Ranges::default(),
            reaches: Reaches::default(),
            declarations: Declarations::default(),
            comments: Vec::new(),
            layout: Layout::default(),
            namer: None,
            room: Room::default(),
            comments_taken: (0, 0),
            declared: OnceLock::new(),
        };
        tables.intern(Space::Location, "");
        tables
    }

    /// The names of one kind.
    #[inline(always)]
    pub fn names(&self, space: Space) -> &Names {
        &self.names[space as usize]
    }

    /// The names of one kind, to add to. Variables are added by
    /// [`Tables::variable_named`], never here.
    #[inline(always)]
    pub fn names_mut(&mut self, space: Space) -> &mut Names {
        debug_assert!(space != Space::VariableName);
        &mut self.names[space as usize]
    }

    /// The index of a name, added if new.
    pub fn intern(&mut self, space: Space, name: &str) -> u32 {
        self.names_mut(space).intern(name) as u32
    }

    /// The thread of that name, added if new.
    pub fn thread(&mut self, name: &str) -> ThreadId {
        ThreadId(self.intern(Space::Thread, name))
    }

    /// The location of that name, added if new; the empty name is [`LocId::NONE`].
    pub fn location(&mut self, name: &str) -> LocId {
        LocId(self.intern(Space::Location, name))
    }

    /// The variable of that name, added if new.
    pub fn variable_named(&mut self, name: &str) -> VarId {
        self.variable_named_bytes(name.as_bytes()).expect("text is UTF-8")
    }

    /// The variable of that name, added if new; only a new name is checked to be UTF-8.
    #[inline]
    pub fn variable_named_bytes(&mut self, name: &[u8]) -> Result<VarId, std::str::Utf8Error> {
        let index = self.names[Space::VariableName as usize].intern_bytes(name)?;
        if let Some(&variable) = self.named.get(index) {
            return Ok(variable);
        }
        let variable = VarId::new(self.variables.len());
        self.variables.push(Variable::Named(index as u32));
        self.named.push(variable);
        Ok(variable)
    }

    /// The variable whose name has this key, if it is found at a glance.
    #[inline(always)]
    pub fn glance_variable(&self, key: Key) -> Option<u32> {
        let index = self.names[Space::VariableName as usize].glance(key)?;
        // Without ranges, variables are numbered as their names are.
        if self.ranges.is_empty() { Some(index) } else { self.named.get(index as usize).map(|v| v.0) }
    }

    /// The variable that is this address range, added if new.
    pub fn variable_range(&mut self, address: u64, size: u64) -> VarId {
        assert!(size > 0 && address.checked_add(size - 1).is_some(), "empty or wrapping range");
        self.ranges.intern(address, size, &mut self.variables)
    }

    /// The variable of the `index`-th name in [`Space::VariableName`].
    pub fn variable_of_name(&self, index: usize) -> Option<VarId> {
        self.named.get(index).copied()
    }

    /// How many variables there are.
    pub fn variable_count(&self) -> usize {
        self.variables.len()
    }

    /// What a variable is.
    #[inline]
    pub fn variable(&self, id: VarId) -> Variable {
        self.variables[id.index()]
    }

    /// A variable's name as reports show it.
    pub fn variable_text(&self, id: VarId) -> String {
        let alias = match (&self.namer, self.variable(id)) {
            (Some(Namer(name)), Variable::Range { address, size }) => name(address, size),
            _ => None,
        };
        alias.unwrap_or_else(|| self.variable_spelled(id))
    }

    /// A variable as the trace itself spells it, whatever reports call it.
    pub fn variable_spelled(&self, id: VarId) -> String {
        match self.variable(id) {
            Variable::Named(name) => self.names(Space::VariableName).get(name as usize).to_owned(),
            Variable::Range { address, size } => format!("{address:#x}:{size}"),
        }
    }

    /// Whether any variable is an address range.
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The set of objects a missing method could reach, added if new. The order
    /// is kept as given.
    pub fn reach(&mut self, objects: Vec<Object>) -> ReachId {
        self.reaches.intern(&objects, false)
    }

    /// The list of what a missing method was given, added if new. What it could reach then follows from object trees,
    /// see [`crate::trees`].
    pub fn arguments(&mut self, objects: Vec<Object>) -> ReachId {
        self.reaches.intern(&objects, true)
    }

    /// Whether any set is.
    pub fn has_arguments(&self) -> bool {
        self.reaches.has_arguments()
    }

    /// Whether a set is a list of arguments instead of what could be reached.
    pub fn are_arguments(&self, id: ReachId) -> bool {
        self.reaches.are_arguments(id)
    }

    /// The objects of a reach set.
    pub fn reach_objects(&self, id: ReachId) -> &[Object] {
        self.reaches.get(id)
    }

    /// How many reach sets there are.
    pub fn reach_count(&self) -> usize {
        self.reaches.len()
    }

    /// How many names and variables there are.
    pub fn name_count(&self) -> usize {
        self.names.iter().map(Names::len).sum::<usize>() + self.variables.len()
    }

    /// How many threads are named.
    pub fn thread_count(&self) -> usize {
        self.names(Space::Thread).len()
    }

    /// How many locks are named.
    pub fn lock_count(&self) -> usize {
        self.names(Space::Lock).len()
    }

    /// A thread's name.
    pub fn thread_name(&self, id: ThreadId) -> &str {
        self.names(Space::Thread).get(id.index())
    }

    /// A lock's name.
    pub fn lock_name(&self, id: LockId) -> &str {
        self.names(Space::Lock).get(id.index())
    }

    /// A location's name; empty for [`LocId::NONE`].
    pub fn location_name(&self, id: LocId) -> &str {
        self.names(Space::Location).get(id.index())
    }

    /// Initial count of a semaphore.
    pub fn semaphore_initial(&self, id: SemId) -> u32 {
        let declared = self.declared();
        let later = || self.declarations.semaphores.get(declared.counts[1]..)?.iter().find(|d| d.0 == id).map(|d| d.1);
        declared.semaphores.get(&id).copied().or_else(later).unwrap_or(0)
    }

    /// Declared number of parties of a barrier.
    pub fn barrier_parties(&self, id: BarrierId) -> Option<u32> {
        let declared = self.declared();
        let later = || self.declarations.barriers.get(declared.counts[2]..)?.iter().find(|d| d.0 == id).map(|d| d.1);
        declared.barriers.get(&id).copied().or_else(later)
    }

    /// Whether its holder may acquire a lock again.
    pub fn lock_is_plain(&self, id: LockId) -> bool {
        let declared = self.declared();
        let later = || self.declarations.plain_locks.get(declared.counts[0]..).is_some_and(|more| more.contains(&id));
        declared.plain_locks.contains(&id) || later()
    }

    fn declared(&self) -> &Declared {
        self.declared.get_or_init(|| Declared::of(&self.declarations))
    }

    /// Sets how much memory all this may take.
    pub fn limit(&mut self, room: Room) {
        self.room = room;
    }

    /// How much memory all this may take.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Bytes that all this takes, beside what so many events account for: they may touch a range each.
    pub fn taken(&mut self, events: u64) -> u64 {
        let (counted, mut taken) = self.comments_taken;
        let new = self.comments.get(counted..).unwrap_or_default();
        taken += new.iter().map(|comment| (COMMENT + comment.1.len()) as u64).sum::<u64>();
        self.comments_taken = (self.comments.len(), taken);
        let of_names = |space: Space| {
            let each = match space {
                Space::Thread => THREAD,
                Space::Lock => LOCK,
                Space::VariableName => VARIABLE,
                _ => OTHER,
            };
            self.names(space).bytes() + each * self.names(space).len()
        };
        let names: usize = Space::ALL.into_iter().map(of_names).sum();
        let ranges = (self.variables.len() - self.named.len()).saturating_sub(events as usize);
        let Declarations { plain_locks, semaphores, barriers, initial } = &self.declarations;
        let declared = plain_locks.len() + semaphores.len() + barriers.len() + initial.len();
        taken + (names + VARIABLE * ranges + self.reaches.bytes() + DECLARATION * declared) as u64
    }

    /// Refuses tables that take more memory than they may; `events` have been read, and the reader itself keeps `more` bytes.
    pub fn check_room(&mut self, events: u64, more: u64) -> Result<(), String> {
        let taken = self.taken(events) + more;
        self.room.check(taken, "the names, comments and declarations of the trace")
    }
}

impl PartialEq for Tables {
    fn eq(&self, other: &Tables) -> bool {
        self.names == other.names
            && self.variables == other.variables
            && self.reaches == other.reaches
            && self.declarations == other.declarations
            && self.comments == other.comments
            && self.layout == other.layout
    }
}
