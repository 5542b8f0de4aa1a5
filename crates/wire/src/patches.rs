//! The list of what the runtime is to rewrite in a program's machine code.
//!
//! The tool makes the list out of the program's file; the runtime applies it before the program starts. A list is a row
//! of words: its [`Head`], then parts, each of which holds records of one kind. Addresses are those of the file: the
//! runtime adds where the file was loaded. Whatever a record overwrites it names, byte for byte, and the runtime
//! rewrites nothing that looks different.
//!
//! A list is never sent to another version of Snag, so the format may change with any build.

/// First word of a list.
pub const MAGIC: u64 = 0x6863_7461_7067_6e73;

/// The parts of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// [`Span`]s of the program that can be executed.
    Code,
    /// [`Jump`]s at the start of functions of the program, to functions of the runtime.
    Callbacks,
    /// [`Jump`]s at the start of functions of the program, to functions of other libraries; their targets are places in
    /// [`Part::Names`].
    Libraries,
    /// [`Jump`]s at the start of functions of the runtime, to functions of the runtime.
    Runtime,
    /// [`Call`]s of a callback for a write, before which no read was elided.
    Writes,
    /// [`Trap`]s, by address.
    Traps,
    /// A bit for each stretch of [`GRANULE`] bytes from [`List::unseen`] on: whether it belongs to a function of Rust
    /// that is not instrumented.
    Unseen,
    /// Names, each followed by a zero byte.
    Names,
    /// [`Silent`] functions, by address.
    Silent,
    /// Addresses of variables that silent functions name.
    Variables,
    /// [`Site`]s from which silent functions are called, or that name them.
    Sites,
    /// [`Muted`] calls of callbacks.
    Muted,
}

/// How many parts there are.
pub const PARTS: usize = 12;

/// Bytes for each of which [`Part::Unseen`] has a bit.
pub const GRANULE: u64 = 16;

/// Functions that a program may define for the runtime to call, in the order of [`List::hook`].
pub const HOOKS: [&str; 4] = [
    "__tsan_default_options",
    "__tsan_default_suppressions",
    "__tsan_on_initialize",
    // Its name in older versions of ThreadSanitizer.
    "_ZN6__tsan12OnInitializeEv",
];

/// Callbacks for a write, and for a read and a write of the same size, in the order of [`Call::write`].
pub const WRITES: [(&str, &str); 9] = [
    ("__tsan_write1", "__tsan_read_write1"),
    ("__tsan_write2", "__tsan_read_write2"),
    ("__tsan_write4", "__tsan_read_write4"),
    ("__tsan_write8", "__tsan_read_write8"),
    ("__tsan_write16", "__tsan_read_write16"),
    ("__tsan_unaligned_write2", "__tsan_unaligned_read_write2"),
    ("__tsan_unaligned_write4", "__tsan_unaligned_read_write4"),
    ("__tsan_unaligned_write8", "__tsan_unaligned_read_write8"),
    ("__tsan_unaligned_write16", "__tsan_unaligned_read_write16"),
];

/// Bytes of a jump or call to a place nearby.
pub const JUMP: usize = 5;

/// [`Jump::target`]: a function that does nothing.
pub const NOTHING: u64 = u64::MAX;

/// Words that a record consists of.
pub trait Record: Sized {
    /// So many words.
    type Words: AsRef<[u64]> + for<'a> TryFrom<&'a [u64]>;

    /// The record as words.
    fn words(&self) -> Self::Words;

    /// The record that words are.
    fn from_words(words: Self::Words) -> Self;
}

/// Eight bytes of instructions as a word, or fewer with zeros behind.
pub fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).enumerate().fold(0, |word, (i, &byte)| word | (byte as u64) << (8 * i))
}

/// What a list begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// See [`List::headers`].
    pub headers: u64,
    /// See [`List::unseen`].
    pub unseen: u64,
    /// See [`List::hook`].
    pub hooks: [u64; HOOKS.len()],
    /// First word and number of words of each part.
    pub parts: [(u64, u64); PARTS],
}

const FIRST_HOOK: usize = 3;
const FIRST_PART: usize = FIRST_HOOK + HOOKS.len();

/// Words of a [`Head`].
pub const HEAD: usize = FIRST_PART + 2 * PARTS;

impl Head {
    /// The head as words.
    pub fn words(&self) -> [u64; HEAD] {
        let mut words = [0; HEAD];
        words[..FIRST_HOOK].copy_from_slice(&[MAGIC, self.headers, self.unseen]);
        words[FIRST_HOOK..FIRST_PART].copy_from_slice(&self.hooks);
        for (part, pair) in self.parts.iter().zip(words[FIRST_PART..].chunks_exact_mut(2)) {
            pair.copy_from_slice(&[part.0, part.1]);
        }
        words
    }
}

/// A stretch of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub start: u64,
    /// How many.
    pub length: u64,
}

impl Record for Span {
    type Words = [u64; 2];

    fn words(&self) -> [u64; 2] {
        [self.start, self.length]
    }

    fn from_words([start, length]: [u64; 2]) -> Span {
        Span { start, length }
    }
}

/// A jump that takes the place of the first instructions of a function, which never run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Where the function begins.
    pub at: u64,
    /// Its first [`JUMP`] bytes, by [`word_of`].
    pub bytes: u64,
    /// Where the jump goes.
    pub target: u64,
}

impl Record for Jump {
    type Words = [u64; 3];

    fn words(&self) -> [u64; 3] {
        [self.at, self.bytes, self.target]
    }

    fn from_words([at, bytes, target]: [u64; 3]) -> Jump {
        Jump { at, bytes, target }
    }
}

/// A call of one of [`WRITES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the instruction begins.
    pub at: u64,
    /// Its [`JUMP`] bytes, by [`word_of`].
    pub bytes: u64,
    /// Which one.
    pub write: u64,
}

impl Record for Call {
    type Words = [u64; 3];

    fn words(&self) -> [u64; 3] {
        [self.at, self.bytes, self.write]
    }

    fn from_words([at, bytes, write]: [u64; 3]) -> Call {
        Call { at, bytes, write }
    }
}

/// A function of the program that has no callbacks: what it does nobody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Where it begins.
    pub at: u64,
    /// Bytes of its instructions.
    pub length: u64,
    /// Its name in [`Part::Names`].
    pub name: u64,
    /// The first of its [`Part::Variables`], and how many there are.
    pub variables: (u32, u32),
    /// What is known of it; see [`silent`].
    pub flags: u64,
}

/// Flags of [`Silent`] functions. All of them are about what the function calls without callbacks, too.
pub mod silent {
    /// It may touch memory that others see.
    pub const TOUCHES: u64 = 1;
    /// It calls other objects.
    pub const LEAVES: u64 = 2;
    /// What it calls, or what it names, is not known.
    pub const OPEN: u64 = 4;
}

impl Record for Silent {
    type Words = [u64; 5];

    fn words(&self) -> [u64; 5] {
        let (first, count) = self.variables;
        [self.at, self.length, self.name, first as u64 | (count as u64) << 32, self.flags]
    }

    fn from_words([at, length, name, variables, flags]: [u64; 5]) -> Silent {
        Silent { at, length, name, variables: (variables as u32, (variables >> 32) as u32), flags }
    }
}

/// How a [`Site`] names its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By four bytes of an instruction, relative to where they end.
    Relative,
    /// By four bytes of an instruction, which are its address.
    Absolute,
    /// By a word of data.
    Word,
}

/// A place where a [`Silent`] function is called or named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where the bytes are that name it.
    pub at: u64,
    /// Its index.
    pub function: u32,
    /// What the bytes mean.
    pub naming: Naming,
}

impl Record for Site {
    type Words = [u64; 2];

    fn words(&self) -> [u64; 2] {
        [self.at, self.function as u64 | (self.naming as u64) << 32]
    }

    fn from_words([at, rest]: [u64; 2]) -> Site {
        let naming = match rest >> 32 {
            0 => Naming::Relative,
            1 => Naming::Absolute,
            _ => Naming::Word,
        };
        Site { at, function: rest as u32, naming }
    }
}

/// A call of a callback, or a jump to one, that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Muted {
    /// Where the instruction begins.
    pub at: u64,
    /// Its bytes, by [`word_of`].
    pub bytes: u64,
    /// How many of them there are: five or six.
    pub length: u32,
    /// Whether it is a jump, so that the function returns instead.
    pub returns: bool,
}

impl Record for Muted {
    type Words = [u64; 3];

    fn words(&self) -> [u64; 3] {
        [self.at, self.bytes, self.length as u64 | (self.returns as u64) << 32]
    }

    fn from_words([at, bytes, rest]: [u64; 3]) -> Muted {
        Muted { at, bytes, length: rest as u32, returns: rest >> 32 != 0 }
    }
}

/// What a trapped instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Writes whatever it reads.
    Modify,
    /// Writes if it reads what is in the first register.
    Compare,
    /// Reads, not atomically.
    Read,
    /// Writes, not atomically.
    Write,
}

/// An instruction that becomes a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Where it begins.
    pub at: u64,
    /// Its bytes, with zeros behind.
    pub bytes: [u8; 16],
    /// How many of them there are.
    pub length: u8,
    /// What it does.
    pub effect: Effect,
    /// Logarithm of the operand's bytes.
    pub log: u8,
    /// Where.
    pub memory: Memory,
}

/// A place in memory: the sum of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// A register, by its number in instructions.
    pub base: Option<u8>,
    /// A register, and the power of two by which it is multiplied.
    pub index: Option<(u8, u8)>,
    /// A number.
    pub displacement: i32,
    /// Relative to the next instruction, in which case the displacement begins at this byte of the instruction.
    pub relative: Option<u8>,
}

/// A small number that may be absent, as a byte.
fn byte(number: Option<u8>) -> u64 {
    number.unwrap_or(u8::MAX) as u64
}

fn number(byte: u64) -> Option<u8> {
    Some(byte as u8).filter(|&byte| byte != u8::MAX)
}

impl Record for Trap {
    type Words = [u64; 5];

    fn words(&self) -> [u64; 5] {
        let Memory { base, index, displacement, relative } = self.memory;
        let small = [
            self.length as u64,
            self.effect as u64,
            self.log as u64,
            byte(base),
            byte(index.map(|(register, _)| register)),
            index.map_or(0, |(_, scale)| scale as u64),
            byte(relative),
        ];
        [
            self.at,
            word_of(&self.bytes[..8]),
            word_of(&self.bytes[8..]),
            displacement as u32 as u64,
            small.iter().enumerate().fold(0, |word, (i, &byte)| word | byte << (8 * i)),
        ]
    }

    fn from_words([at, low, high, displacement, small]: [u64; 5]) -> Trap {
        let part = |i: u32| small >> (8 * i) & 0xff;
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = ([low, high][i / 8] >> (8 * (i % 8))) as u8;
        }
        let effect = match part(1) {
            0 => Effect::Modify,
            1 => Effect::Compare,
            2 => Effect::Read,
            _ => Effect::Write,
        };
        let index = number(part(4)).map(|register| (register, part(5) as u8));
        let memory =
            Memory { base: number(part(3)), index, displacement: displacement as i32, relative: number(part(6)) };
        Trap { at, bytes, length: part(0) as u8, effect, log: part(2) as u8, memory }
    }
}

/// A list, wherever its words are. Reads them one by one: the runtime uses it before it can call anything, not even
/// what copies memory.
#[derive(Clone, Copy, Debug)]
pub struct List<'a>(&'a [u64]);

impl<'a> List<'a> {
    /// The list that words are; `None` if they are none.
    pub fn new(words: &'a [u64]) -> Option<List<'a>> {
        (words.len() >= HEAD && words[0] == MAGIC).then_some(List(words))
    }

    /// Where the program's headers are; the kernel tells the runtime where they were loaded.
    pub fn headers(&self) -> u64 {
        self.0[1]
    }

    /// First address that [`Part::Unseen`] is about.
    pub fn unseen(&self) -> u64 {
        self.0[2]
    }

    /// Where one of the [`HOOKS`] is, if the program defines it and has a runtime inside.
    pub fn hook(&self, index: usize) -> Option<u64> {
        self.0[FIRST_HOOK..FIRST_PART].get(index).copied().filter(|&address| address != 0)
    }

    /// The words of a part.
    pub fn part(&self, part: Part) -> &'a [u64] {
        let first = self.0[FIRST_PART + 2 * part as usize] as usize;
        let count = self.0[FIRST_PART + 2 * part as usize + 1] as usize;
        self.0.get(first..first.saturating_add(count)).unwrap_or(&[])
    }

    /// The records of a part.
    pub fn records<R: Record>(&self, part: Part) -> Records<'a, R> {
        Records { words: self.part(part), kind: core::marker::PhantomData }
    }
}

/// Records, one behind the other.
#[derive(Debug)]
pub struct Records<'a, R> {
    words: &'a [u64],
    kind: core::marker::PhantomData<R>,
}

impl<R> Clone for Records<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Records<'_, R> {}

impl<'a, R: Record> Records<'a, R> {
    const SIZE: usize = size_of::<R::Words>() / 8;

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len() / Self::SIZE
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<R> {
        let first = index.checked_mul(Self::SIZE)?;
        let words = self.words.get(first..first + Self::SIZE)?;
        words.try_into().ok().map(R::from_words)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = R> + 'a
    where
        R: 'a,
    {
        (0..self.len()).map_while(move |i| self.get(i))
    }

    /// The index of the record whose first word is this, where records are sorted by that.
    pub fn find(&self, first: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.words[middle * Self::SIZE] {
                word if word < first => low = middle + 1,
                word if word > first => high = middle,
                _ => return Some(middle),
            }
        }
        None
    }
}
