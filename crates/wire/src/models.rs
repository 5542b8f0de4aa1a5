//! The table of models that the tool hands to the runtime: which functions of libraries without callbacks do what.
//!
//! The table is words. The first ones say how many functions, patterns, libraries and bytes of text there are; then come
//! the functions, sorted by name, the patterns, and the libraries, each of [`ENTRY`] words; then the texts. A reader
//! checks every number, so [`Table::new`] accepts any words and answers for those that make sense.

/// Words before the first entry.
pub const FIRST: usize = 4;

/// Words of an entry.
pub const ENTRY: usize = 4;

/// Most bytes of a table: more functions than any library has.
pub const MOST: usize = 1 << 26;

/// What a function does. Arguments are numbered from 1; what a number in [`Entry`] means depends on the effect.
pub mod effect {
    #![allow(missing_docs)]
    /// shares nothing with other threads and touches nothing that the program sees
    pub const PURE: u8 = 1;
    /// touches what its arguments lead to, and nothing else that is shared
    pub const ARGUMENTS: u8 = 2;
    /// takes the lock `object`, or fails
    pub const ACQUIRE: u8 = 3;
    /// gives the lock `object` back
    pub const RELEASE: u8 = 4;
    /// makes a lock, ends it
    pub const CREATE_LOCK: u8 = 5;
    pub const DESTROY_LOCK: u8 = 6;
    /// waits for the condition `object` with the lock `second`
    pub const WAIT: u8 = 7;
    pub const NOTIFY: u8 = 8;
    pub const NOTIFY_ALL: u8 = 9;
    pub const CREATE_CONDITION: u8 = 10;
    pub const DESTROY_CONDITION: u8 = 11;
    /// takes one from the semaphore `object`, or fails
    pub const TAKE: u8 = 12;
    pub const POST: u8 = 13;
    /// makes the semaphore `object` with the count `second`
    pub const CREATE_SEMAPHORE: u8 = 14;
    pub const DESTROY_SEMAPHORE: u8 = 15;
    /// calls the function `second` unless that was done for `object`
    pub const ONCE: u8 = 16;
    /// asks whether `object` is initialised (result: the caller has to), says that it is, by the value `second`
    pub const BEGIN_ONCE: u8 = 17;
    pub const END_ONCE: u8 = 18;
    /// atomic accesses to `object`
    pub const ATOMIC_READ: u8 = 19;
    pub const ATOMIC_WRITE: u8 = 20;
    pub const ATOMIC_UPDATE: u8 = 21;
    /// puts the item `second` into the queue `object`; takes one out (the result), or fails; looks how many there are
    pub const PUSH: u8 = 22;
    pub const POP: u8 = 23;
    pub const LOOK: u8 = 24;
    /// what the caller did before comes before what whoever receives from `object` does afterwards
    pub const SEND: u8 = 25;
    pub const RECEIVE: u8 = 26;
    /// both
    pub const EXCHANGE: u8 = 27;
    /// has the function `object` called, maybe in another thread, with what `second` says as its first argument
    pub const CALL_LATER: u8 = 28;
    /// comes after the functions that were called later, if the argument `object` is not 0 or there is none
    pub const AWAIT_CALLS: u8 = 29;
    /// takes items out of a queue, or changes their order
    pub const REARRANGE: u8 = 30;
    /// an [`ATOMIC_UPDATE`] that writes only if it succeeds
    pub const ATOMIC_COMPARE: u8 = 31;
    /// like [`CALL_LATER`] with every function of the table at `object`, of which there are `size`
    pub const CALL_TABLE: u8 = 32;
    /// sends by `object` before, and receives by it afterwards
    pub const RUN: u8 = 33;
    /// nothing is known about it: for functions that a pattern does not mean
    pub const UNKNOWN: u8 = 34;
}

/// How a result says that the function did what it is there for.
pub mod success {
    #![allow(missing_docs)]
    /// whatever it is
    pub const ALWAYS: u8 = 0;
    /// an `int` that is not 0
    pub const NONZERO: u8 = 1;
    /// an `int` that is 0
    pub const ZERO: u8 = 2;
    /// a `bool`
    pub const TRUE: u8 = 3;
    /// a pointer that is not null
    pub const POINTER: u8 = 4;
}

/// What the argument `limit` says about how long a function may wait.
pub mod limit {
    #![allow(missing_docs)]
    pub const NONE: u8 = 0;
    /// microseconds of the monotonic clock
    pub const UNTIL_MONOTONIC_MICROSECONDS: u8 = 1;
    /// from now on
    pub const FOR_MICROSECONDS: u8 = 2;
    /// from now on; an `int`, for ever if negative
    pub const FOR_MILLISECONDS: u8 = 3;
    /// address of seconds and microseconds of the wall clock; for ever if null
    pub const UNTIL_TIMEVAL: u8 = 4;
    /// address of seconds and nanoseconds of the wall clock; for ever if null
    pub const UNTIL_TIMESPEC: u8 = 5;
    /// address of seconds and nanoseconds from now on; for ever if null
    pub const FOR_TIMESPEC: u8 = 6;
}

/// [`Entry::flags`]: the lock is held for reading.
pub const READS: u8 = 1;
/// [`Entry::flags`]: it never waits.
pub const NEVER_WAITS: u8 = 2;
/// [`Entry::flags`]: the object is the library's own, the same for all calls.
pub const GLOBAL: u8 = 4;
/// [`Entry::flags`]: the lock is one for readers and writers.
pub const SHARED: u8 = 8;
/// [`Entry::flags`]: the item is not put at the end of the queue.
pub const ANYWHERE: u8 = 16;

/// A text of the table: where it begins among the texts, and its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// First byte.
    pub at: u32,
    /// Bytes.
    pub length: u16,
}

/// What a function does, as the table has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The function; of a pattern the pattern.
    pub name: Text,
    /// Which library it is in.
    pub library: u8,
    /// See [`effect`].
    pub effect: u8,
    /// Number of an argument; 0 if there is none.
    pub object: u8,
    /// Number of an argument; 0 if there is none.
    pub second: u8,
    /// See [`success`].
    pub success: u8,
    /// See [`READS`] and its kin.
    pub flags: u8,
    /// Number of the argument that says how long the function may wait; 0 if there is none.
    pub limit: u8,
    /// See [`limit`].
    pub unit: u8,
    /// Number of the argument that tells objects at one address apart, such as the bit of a bit lock; 0: none. Of
    /// [`effect::ONCE`] the value that the object has when it is done.
    pub part: u8,
    /// Bytes of an atomic access.
    pub size: u8,
    /// A function with the same arguments that does the same without waiting.
    pub attempt: Text,
    /// Of a wait: the function that gives the lock back.
    pub release: Text,
    /// Which result of the attempt means success: see [`success`].
    pub attempt_success: u8,
}

impl Text {
    const fn to_word(self) -> u64 {
        self.at as u64 | (self.length as u64) << 32
    }

    const fn from_word(word: u64) -> Text {
        Text { at: word as u32, length: (word >> 32) as u16 }
    }
}

impl Entry {
    /// As words.
    pub const fn to_words(self) -> [u64; ENTRY] {
        let bytes = [self.object, self.second, self.success, self.flags, self.limit, self.unit, self.part, self.size];
        [
            self.name.to_word() | (self.library as u64) << 48 | (self.effect as u64) << 56,
            u64::from_le_bytes(bytes),
            self.attempt.to_word() | (self.attempt_success as u64) << 48,
            self.release.to_word(),
        ]
    }

    /// From words.
    pub const fn from_words(words: [u64; ENTRY]) -> Entry {
        let [object, second, success, flags, limit, unit, part, size] = words[1].to_le_bytes();
        Entry {
            name: Text::from_word(words[0]),
            library: (words[0] >> 48) as u8,
            effect: (words[0] >> 56) as u8,
            object,
            second,
            success,
            flags,
            limit,
            unit,
            part,
            size,
            attempt: Text::from_word(words[2]),
            release: Text::from_word(words[3]),
            attempt_success: (words[2] >> 48) as u8,
        }
    }
}

/// A table that somebody else has made.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    words: &'a [u64],
    functions: usize,
    patterns: usize,
    libraries: usize,
}

impl<'a> Table<'a> {
    /// A table without functions.
    pub const EMPTY: Table<'static> = Table { words: &[0; FIRST], functions: 0, patterns: 0, libraries: 0 };

    /// Words that may be a table; `None` if they are too few for what they say.
    pub fn new(words: &'a [u64]) -> Option<Table<'a>> {
        let &[functions, patterns, libraries, bytes, ..] = words else { return None };
        let counts = [functions, patterns, libraries].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let entries = counts.iter().try_fold(0, |sum: usize, &count| sum.checked_add(count))?;
        let before = entries.checked_mul(ENTRY)?.checked_add(FIRST)?;
        let texts = usize::try_from(bytes).ok()?.div_ceil(8);
        let [functions, patterns, libraries] = counts;
        (before.checked_add(texts)? <= words.len()).then_some(Table { words, functions, patterns, libraries })
    }

    /// How many functions and patterns there are.
    pub fn len(self) -> usize {
        self.functions + self.patterns
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    fn entry(self, index: usize) -> Entry {
        let at = FIRST + index * ENTRY;
        match self.words.get(at..at + ENTRY) {
            Some(&[a, b, c, d]) => Entry::from_words([a, b, c, d]),
            _ => Entry::default(),
        }
    }

    /// A text; empty if there is no such text.
    pub fn text(self, text: Text) -> &'a [u8] {
        let texts = &self.words[FIRST + (self.len() + self.libraries) * ENTRY..];
        // SAFETY: the words can be read as so many bytes, and any byte is a `u8`.
        let bytes = unsafe { core::slice::from_raw_parts(texts.as_ptr().cast::<u8>(), size_of_val(texts)) };
        bytes.get(text.at as usize..text.at as usize + text.length as usize).unwrap_or(&[])
    }

    /// Whether a file may be that of a library: its name fits one of the library's patterns. A library without any is
    /// whatever file has the functions.
    fn is_of(self, library: u8, file: Option<&[u8]>) -> bool {
        let Some(file) = file else { return true };
        if library as usize >= self.libraries {
            return true;
        }
        let patterns = self.text(self.entry(self.len() + library as usize).name);
        patterns.is_empty() || patterns.split(|&byte| byte == b'\n').any(|pattern| fits(pattern, file))
    }

    /// What a function does that is in a file of this name; whatever file it is in if that is not known. A function
    /// that is named comes before patterns, a longer pattern before a shorter one.
    pub fn find(self, name: &[u8], file: Option<&[u8]>) -> Option<Entry> {
        self.find_any(name, file).filter(|entry| entry.effect != effect::UNKNOWN)
    }

    fn find_any(self, name: &[u8], file: Option<&[u8]>) -> Option<Entry> {
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = (low + high) / 2;
            match self.text(self.entry(middle).name) < name {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let named =
            (low..self.functions).map(|index| self.entry(index)).take_while(|entry| self.text(entry.name) == name);
        let mut best = None;
        for entry in named {
            if self.is_of(entry.library, file) {
                return Some(entry);
            }
        }
        for index in self.functions..self.len() {
            let entry = self.entry(index);
            let is_longer = best.is_none_or(|best: Entry| entry.name.length > best.name.length);
            if is_longer && fits(self.text(entry.name), name) && self.is_of(entry.library, file) {
                best = Some(entry);
            }
        }
        best
    }
}

/// Whether a name is the pattern, in which one `*` stands for anything.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    meant(pattern, name).is_some()
}

/// What the `*` of a pattern stands for in a name that fits; nothing if the pattern has none and is the name.
pub fn meant<'name>(pattern: &[u8], name: &'name [u8]) -> Option<&'name [u8]> {
    match pattern.iter().position(|&byte| byte == b'*') {
        Some(at) => name.strip_prefix(&pattern[..at])?.strip_suffix(&pattern[at + 1..]),
        None => (name == pattern).then_some(&[]),
    }
}
