//! The common lines of STD, some dozens at a time: accesses and lock operations with short names.
//!
//! Two steps, so that the processor never waits: the fields of all lines of a batch are found first, and the memory
//! where their names are kept is asked for; then the names are looked up. Whatever is in the way (an uncommon line, a
//! name that is no text) ends a batch before it and is left to the parser of single lines. Lines that were read before are not
//! taken apart again.

use super::memo::{Bytes, Memo, Said};
use super::read::Parser;
use crate::scan::Delimiters;
use snag_model::events::Columns;
use snag_model::ids::*;
use snag_model::names::Key;
use snag_model::op::Op;
use snag_model::tables::{Space, Tables};
use std::hint::select_unpredictable;

/// So many lines are read at once.
const BATCH: usize = 64;

/// A longer line is uncommon.
const LONGEST: usize = 64;

/// The letters of accesses, counted from that of a read; and all of them as bits.
const WRITE: u8 = b'w' - b'r';
const LETTERS: u32 = 1 | 1 << WRITE;

const ACQUIRE: u32 = u32::from_le_bytes(*b"acq(");
const RELEASE: u32 = u32::from_le_bytes(*b"rel(");

/// The beginning of a line and at least as much as a common line can have.
pub(super) type Window = [u8; 2 * LONGEST];

/// A common line: where its fields are, and the keys of their names.
#[derive(Clone, Copy)]
struct Line {
    target_key: Key,
    location_key: Key,
    /// Where it starts in the chunk.
    start: u32,
    /// How many lines of its batch come before it.
    number: u8,
    op: Op,
    /// Where the thread ends, the target starts, the operation ends, and the line; all relative to `start`.
    first: u8,
    target: u8,
    second: u8,
    last: u8,
}

/// Consecutive common lines.
pub(super) struct Batch {
    /// Those that have to be looked up.
    lines: [Line; BATCH],
    /// How many these are.
    unknown: usize,
    /// How many there are in all.
    count: usize,
    /// How many are read.
    done: usize,
    /// Where the line after the last one starts.
    end: usize,
    /// Thread of the last line that was looked up, and the key of its name.
    runner: (ThreadId, Key),
    // What the lines say.
    ops: [Op; BATCH],
    threads: [ThreadId; BATCH],
    targets: [u32; BATCH],
    locations: [u32; BATCH],
}

impl Batch {
    pub fn new() -> Batch {
        let nothing = Key::padded(&[0; 16], 0);
        let line = Line {
            target_key: nothing,
            location_key: nothing,
            start: 0,
            number: 0,
            op: Op::Read,
            first: 0,
            target: 0,
            second: 0,
            last: 0,
        };
        Batch {
            lines: [line; BATCH],
            unknown: 0,
            count: 0,
            done: 0,
            end: 0,
            runner: (ThreadId(0), nothing),
            ops: [Op::Read; BATCH],
            threads: [ThreadId(0); BATCH],
            targets: [0; BATCH],
            locations: [0; BATCH],
        }
    }

    /// Takes the next common lines from `start` on. False if there is none.
    pub fn gather(
        &mut self,
        padded: &[u8],
        start: usize,
        delimiters: &mut Delimiters,
        tables: &Tables,
        memo: &Memo,
    ) -> bool {
        match memo.is_on() {
            true => self.gather_with(padded, start, delimiters, tables, |bytes| memo.get(bytes?)),
            false => self.gather_with(padded, start, delimiters, tables, |_| None),
        }
    }

    #[inline(always)]
    fn gather_with(
        &mut self,
        padded: &[u8],
        start: usize,
        delimiters: &mut Delimiters,
        tables: &Tables,
        known: impl Fn(Option<Bytes>) -> Option<Said>,
    ) -> bool {
        let (variables, locations) = (tables.names(Space::VariableName), tables.names(Space::Location));
        let (far_variables, far_locations) = (variables.is_large(), locations.is_large());
        let mut from = start;
        (self.count, self.unknown) = (0, 0);
        while self.count < BATCH {
            let [first, second, last] = delimiters.three().map(|position| position - from);
            let Some(window) = padded[from..].first_chunk() else { break };
            if let Some(said) = known(Bytes::of(window, last + 1)) {
                self.says(self.count, said);
            } else {
                let line = &mut self.lines[self.unknown];
                if last >= LONGEST || !line.read(window, from, first, second, last) {
                    break;
                }
                line.number = self.count as u8;
                if far_variables {
                    variables.prepare(line.target_key);
                }
                if far_locations {
                    locations.prepare(line.location_key);
                }
                self.unknown += 1;
            }
            from += last + 1;
            self.count += 1;
            delimiters.pass_three();
        }
        self.end = from;
        self.count > 0
    }

    #[inline(always)]
    fn says(&mut self, number: usize, said: Said) {
        self.ops[number] = said.op;
        self.threads[number] = said.thread;
        self.targets[number] = said.target;
        self.locations[number] = said.location;
    }

    /// Adds the events of the lines to the columns. How many lines were read, and where the next one starts.
    pub fn look_up(&mut self, padded: &[u8], parser: &mut Parser, memo: &mut Memo) -> (usize, usize) {
        self.done = self.count;
        let mut next = self.end;
        for index in 0..self.unknown {
            let line = self.lines[index];
            let window = padded[line.start as usize..].first_chunk().expect("padding follows");
            let Some(said) = self.ask(&line, window, parser) else {
                (self.done, next) = (line.number as usize, line.start as usize);
                break;
            };
            self.says(line.number as usize, said);
            if memo.is_on()
                && let Some(bytes) = Bytes::of(window, line.last as usize + 1)
            {
                memo.keep(bytes, said);
            }
        }
        let done = self.done;
        memo.note(done, self.count - self.unknown);
        parser.events.extend_with(|Columns { op, thread, target, location }| {
            op.extend_from_slice(&self.ops[..done]);
            thread.extend_from_slice(&self.threads[..done]);
            target.extend_from_slice(&self.targets[..done]);
            location.extend(&self.locations[..done]);
        });
        (done, next)
    }

    /// What a line says; `None` if one of its names is no text.
    #[inline(always)]
    fn ask(&mut self, line: &Line, window: &Window, parser: &mut Parser) -> Option<Said> {
        // A thread mostly runs on.
        let key = Key::padded(at(window, 0), line.first as usize);
        if key != self.runner.1 {
            self.runner = (switch(parser, &window[..line.first as usize], key)?, key);
        }
        let location = line.place(window, parser.tables)?;
        let target = line.target(window, parser.tables)?;
        Some(Said { thread: self.runner.0, op: line.op, target, location })
    }

    /// Whether all lines that were gathered could be looked up.
    pub fn is_done(&self) -> bool {
        self.done == self.count
    }
}

/// Another thread goes on; `None` if its name is no text.
#[inline(never)]
fn switch(parser: &mut Parser, name: &[u8], key: Key) -> Option<ThreadId> {
    let thread = parser.tables.names_mut(Space::Thread).intern_key(name, key).ok()?;
    parser.note_column(thread);
    Some(ThreadId::new(thread))
}

#[inline(always)]
fn at(window: &Window, from: usize) -> &[u8; 16] {
    window[from..from + 16].try_into().expect("sixteen bytes")
}

impl Line {
    /// Reads the line at the start of the window, given its delimiters, all of them below [`LONGEST`]. False if it is
    /// not a common one.
    ///
    /// Every index is masked, so that the compiler sees that it lies in the window; every test is one that common lines
    /// pass, so that the processor predicts it.
    #[inline(always)]
    fn read(&mut self, window: &Window, start: usize, first: usize, second: usize, last: usize) -> bool {
        const MASK: usize = LONGEST - 1;
        let (first, second, last) = (first & MASK, second & MASK, last & MASK);
        if window[first] != b'|' || window[second] != b'|' || window[last] != b'\n' {
            return false;
        }
        if window[(second - 1) & MASK] != b')' || window[(last - 1) & MASK] == b'\r' {
            return false;
        }
        // Which of two operations it is cannot be predicted, so there is no branch about it.
        let (op, target) = if window[first + 2] == b'(' {
            let letter = window[first + 1].wrapping_sub(b'r');
            if letter > WRITE || LETTERS >> letter & 1 == 0 {
                return false;
            }
            (select_unpredictable(letter == WRITE, Op::Write, Op::Read), first + 3)
        } else {
            let word = u32::from_le_bytes(*window[first + 1..].first_chunk().expect("four bytes"));
            if (word ^ ACQUIRE) as u64 * (word ^ RELEASE) as u64 != 0 {
                return false;
            }
            (select_unpredictable(word == RELEASE, Op::Release, Op::Acquire), first + 5)
        };
        // No empty thread or target, and nothing that does not fit into a key.
        let (target_length, location_length) = (second.wrapping_sub(target + 1), last - second - 1);
        if first.wrapping_sub(1) >= 15 || target_length.wrapping_sub(1) >= 15 || location_length >= 16 {
            return false;
        }
        *self = Line {
            target_key: Key::padded(at(window, target), target_length),
            location_key: Key::padded(at(window, second + 1), location_length),
            start: start as u32,
            number: 0,
            op,
            first: first as u8,
            target: target as u8,
            second: second as u8,
            last: last as u8,
        };
        true
    }

    /// The id of its location; `None` if that is no text.
    #[inline(always)]
    fn place(&self, window: &Window, tables: &mut Tables) -> Option<u32> {
        tables.names(Space::Location).glance(self.location_key).or_else(|| self.new_place(window, tables))
    }

    /// The id of its variable or lock; `None` if the name is no text.
    #[inline(always)]
    fn target(&self, window: &Window, tables: &mut Tables) -> Option<u32> {
        let known = match self.op.is_plain_access() {
            true => tables.glance_variable(self.target_key),
            false => tables.names(Space::Lock).glance(self.target_key),
        };
        known.or_else(|| self.new_target(window, tables))
    }

    #[inline(never)]
    fn new_place(&self, window: &Window, tables: &mut Tables) -> Option<u32> {
        let name = &window[self.second as usize + 1..self.last as usize];
        let id = tables.names_mut(Space::Location).intern_key(name, self.location_key);
        id.ok().map(|id| id as u32)
    }

    #[inline(never)]
    fn new_target(&self, window: &Window, tables: &mut Tables) -> Option<u32> {
        let name = &window[self.target as usize..self.second as usize - 1];
        match self.op.is_plain_access() {
            true => tables.variable_named_bytes(name).ok().map(|id| id.0),
            false => tables.names_mut(Space::Lock).intern_key(name, self.target_key).ok().map(|id| id as u32),
        }
    }
}
