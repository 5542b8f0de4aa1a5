//! RAPID's STD format: one event a line, `thread|op(target)|location`.
//!
//! Read: `r`, `w`, `acq`, `rel`, `fork`, `join`, `branch`, and what RAPID reads
//! but predicts nothing from: any `begin…`, any `end…`, `dummy(…)`. Target and
//! location are free text without `|`; an empty location is none. A line that
//! does not parse is an error with its number. Everything is kept, so that a
//! trace that was read is written again byte for byte.

use crate::error::{Error, Position, Result};
use crate::events::{Event, Events, Plain};
use crate::ids::*;
use crate::lines::Lines;
use crate::names::Key;
use crate::op::Op;
use crate::reader::BlockReader;
use crate::scan::Delimiters;
use crate::tables::{Space, Tables};
use std::io::{Read, Write};

/// Reads STD.
pub struct StdReader<R> {
    lines: Lines<R>,
    /// Lines read; in this format also the number of events read.
    line: u64,
    /// Whether lines end in CR LF; decided by the first.
    crlf: Option<bool>,
    /// Threads that appeared in the thread column.
    in_column: Vec<bool>,
    /// Threads that were named by a fork or join before they appeared: line, whether forked.
    named: Vec<(ThreadId, u64, bool)>,
    warnings: Vec<String>,
}

impl<R: Read + Send> StdReader<R> {
    /// Reads STD from `input`.
    pub fn new(input: R) -> StdReader<R> {
        StdReader {
            lines: Lines::new(input),
            line: 0,
            crlf: None,
            in_column: Vec::new(),
            named: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl<R> StdReader<R> {
    /// A thread that is joined, but neither forked nor seen, may be a slip of the pen.
    fn name_strangers(&mut self, tables: &Tables) {
        let named = std::mem::take(&mut self.named);
        let mut known = self.in_column.clone();
        known.resize(tables.thread_count(), false);
        named.iter().filter(|n| n.2).for_each(|n| known[n.0.index()] = true);
        if let Some(&(thread, line, _)) = named.iter().find(|n| !known[n.0.index()]) {
            let name = tables.thread_name(thread);
            self.warnings
                .push(format!("line {line}: thread {name} is joined, but it is never forked and has no event"));
        }
    }
}

impl<R: Read + Send> BlockReader for StdReader<R> {
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        let Some((padded, end)) = self.lines.next_padded(self.line)? else {
            if self.line == 0 {
                return Err(Error::new(Position::Whole, "the input is empty; a trace has at least one event"));
            }
            self.name_strangers(tables);
            return Ok(false);
        };
        let mut parser = Parser {
            tables,
            events,
            line: self.line,
            crlf: self.crlf,
            in_column: &mut self.in_column,
            named: &mut self.named,
            gathered: Vec::with_capacity(GATHERED),
            runner: (ThreadId(0), Key::padded(&[0; 16], 0)),
            warnings: &mut self.warnings,
        };
        parser.chunk(padded, end)?;
        (self.line, self.crlf) = (parser.line, parser.crlf);
        Ok(true)
    }

    fn position_of(&self, event: usize) -> Position {
        Position::Line(event as u64 + 1)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// So many plain events are moved into the columns at once.
const GATHERED: usize = 256;

const READ: u32 = u16::from_le_bytes(*b"r(") as u32;
const WRITE: u32 = u16::from_le_bytes(*b"w(") as u32;
const ACQUIRE: u32 = u32::from_le_bytes(*b"acq(");
const RELEASE: u32 = u32::from_le_bytes(*b"rel(");

struct Parser<'a> {
    tables: &'a mut Tables,
    events: &'a mut Events,
    line: u64,
    crlf: Option<bool>,
    in_column: &'a mut Vec<bool>,
    named: &'a mut Vec<(ThreadId, u64, bool)>,
    /// Plain events not yet in the columns.
    gathered: Vec<Plain>,
    /// Thread of the last plain line, and the key of its name.
    runner: (ThreadId, Key),
    warnings: &'a mut Vec<String>,
}

/// An operation as it stands in a line, before its target is looked up.
enum Word<'a> {
    Memory(Op, &'a [u8]),
    Lock(Op, &'a [u8]),
    Thread(Op, &'a [u8]),
    Branch(Option<&'a [u8]>),
    Mark,
}

impl Parser<'_> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::new(Position::Line(self.line + 1), message))
    }

    fn not_text<T>(&self) -> Result<T> {
        self.error("not UTF-8 text")
    }

    fn chunk(&mut self, padded: &[u8], end: usize) -> Result<()> {
        let done = self.lines(padded, end);
        self.flush();
        done
    }

    /// Moves the plain events gathered so far into the columns.
    fn flush(&mut self) {
        self.events.extend_from_plain(&self.gathered);
        self.gathered.clear();
    }

    fn lines(&mut self, padded: &[u8], end: usize) -> Result<()> {
        let mut delimiters = Delimiters::new(padded, end);
        let mut start = 0;
        while start < end {
            let (first, second, last) = (delimiters.next(), delimiters.next(), delimiters.next());
            let window = padded[start..].first_chunk::<128>().expect("padding follows");
            let short = (last - start < 64) & (last < end) & (self.crlf == Some(false));
            if short && self.plain_line(window, first - start, second - start, last - start) {
                start = last + 1;
            } else {
                self.flush();
                let length = memchr::memchr(b'\n', &padded[start..end]);
                self.tables.layout.open_end = length.is_none();
                let last = length.map_or(end, |length| start + length);
                self.line(&padded[start..last], &padded[last..end])?;
                delimiters.skip_to(last + 1);
                start = last + 1;
            }
            self.line += 1;
        }
        Ok(())
    }

    /// The common line, at the start of the window, with its delimiters below 64:
    /// an access or a lock operation, with names of up to fifteen bytes. False,
    /// and nothing done, if it is not one.
    ///
    /// Every index is masked, so that the compiler sees that it lies in the window.
    #[inline(always)]
    fn plain_line(&mut self, window: &[u8; 128], first: usize, second: usize, last: usize) -> bool {
        let (first, second, last) = (first & 63, second & 63, last & 63);
        let word = u32::from_le_bytes(window[first + 1..first + 5].try_into().expect("four bytes"));
        let (reads, writes) = (word & 0xffff == READ, word & 0xffff == WRITE);
        let (acquires, releases) = (word == ACQUIRE, word == RELEASE);
        let access = reads | writes;
        let from = first + if access { 3 } else { 5 };
        let target = second.wrapping_sub(from + 1);
        let location = last.wrapping_sub(second + 1);
        let regular = (window[first] == b'|')
            & (window[second] == b'|')
            & (window[last] == b'\n')
            & (window[second.wrapping_sub(1) & 63] == b')')
            & (window[last.wrapping_sub(1) & 63] != b'\r')
            & (access | acquires | releases)
            & (target.wrapping_sub(1) < 15)
            & (location < 16)
            & (first.wrapping_sub(1) < 15);
        if !regular {
            return false;
        }
        let key = |from: usize, len: usize| Key::padded(window[from..from + 16].try_into().expect("16 bytes"), len);
        let name = |from: usize, len: usize| &window[from..from + len];
        // A thread mostly runs on.
        let thread = key(0, first);
        if thread != self.runner.1 && !self.switch(name(0, first), thread) {
            return false;
        }
        let (place, key) = (key(second + 1, location), key(from, target));
        let location = match self.tables.names(Space::Location).glance(place) {
            Some(location) => location,
            None => match self.tables.names_mut(Space::Location).intern_key(name(second + 1, location), place) {
                Ok(location) => location as u32,
                Err(_) => return false,
            },
        };
        let target = if access {
            match self.tables.glance_variable(key) {
                Some(variable) => variable,
                None => match self.tables.variable_named_bytes(name(from, target)) {
                    Ok(variable) => variable.0,
                    Err(_) => return false,
                },
            }
        } else {
            match self.tables.names_mut(Space::Lock).intern_key(name(from, target), key) {
                Ok(lock) => lock as u32,
                Err(_) => return false,
            }
        };
        let op = match (access, writes | releases) {
            (true, false) => Op::Read,
            (true, true) => Op::Write,
            (false, false) => Op::Acquire,
            (false, true) => Op::Release,
        };
        self.gathered.push(Plain { thread: self.runner.0, target, location: LocId(location), op });
        if self.gathered.len() == GATHERED {
            self.flush();
        }
        true
    }

    #[inline(never)]
    fn switch(&mut self, name: &[u8], key: Key) -> bool {
        let Ok(thread) = self.tables.names_mut(Space::Thread).intern_key(name, key) else { return false };
        self.note_column(thread);
        self.runner = (ThreadId::new(thread), key);
        true
    }

    fn note_column(&mut self, thread: usize) {
        if self.in_column.len() <= thread {
            self.in_column.resize(thread + 1, false);
        }
        self.in_column[thread] = true;
    }

    /// Any line, without its line feed, and the text that follows, from there on.
    #[inline(never)]
    fn line(&mut self, mut line: &[u8], ahead: &[u8]) -> Result<()> {
        line = self.without_carriage_return(line)?;
        let Some(first) = line.iter().position(|&b| b == b'|') else {
            return self.error("no '|': expected thread|op(target)|location");
        };
        let after = &line[first + 1..];
        let Some(second) = after.iter().position(|&b| b == b'|') else {
            return self.error("only one '|': expected thread|op(target)|location");
        };
        let (thread, op, location) = (&line[..first], &after[..second], &after[second + 1..]);
        if thread.is_empty() {
            return self.error("the thread has no name");
        }
        if location.contains(&b'|') {
            return self.error("more than two '|': expected thread|op(target)|location");
        }
        let Ok(location) = self.tables.names_mut(Space::Location).intern_bytes(location) else {
            return self.not_text();
        };
        let Ok(thread) = self.tables.names_mut(Space::Thread).intern_bytes(thread) else {
            return self.not_text();
        };
        let (thread, location) = (ThreadId::new(thread), LocId::new(location));
        match self.word(op)? {
            Word::Memory(op, target) => {
                let Ok(variable) = self.tables.variable_named_bytes(target) else { return self.not_text() };
                self.events.push_plain(thread, op, variable.0, location);
            }
            Word::Lock(op, target) => {
                let Ok(lock) = self.tables.names_mut(Space::Lock).intern_bytes(target) else {
                    return self.not_text();
                };
                self.events.push_plain(thread, op, lock as u32, location);
            }
            Word::Thread(op, target) => self.fork_or_join(thread, op, target, location, ahead)?,
            Word::Branch(text) => {
                let target = match text {
                    None => 0,
                    Some(text) => self.text(text)? + 1,
                };
                self.events.push_plain(thread, Op::Branch, target, location);
            }
            Word::Mark => {
                let text = self.text(op)?;
                self.events.push_plain(thread, Op::Mark, text, location);
            }
        }
        self.note_column(thread.index());
        Ok(())
    }

    /// Lines end all in LF or all in CR LF; the first one decides.
    fn without_carriage_return<'l>(&mut self, line: &'l [u8]) -> Result<&'l [u8]> {
        let (stripped, open) = (line.strip_suffix(b"\r"), self.tables.layout.open_end);
        match (self.crlf, stripped) {
            (_, Some(_)) if open => self.error("line ends in CR without LF"),
            (None, _) => {
                self.crlf = Some(stripped.is_some());
                self.tables.layout.crlf = stripped.is_some();
                Ok(stripped.unwrap_or(line))
            }
            (Some(true), Some(stripped)) => Ok(stripped),
            (Some(false), None) => Ok(line),
            (Some(true), None) if open => Ok(line),
            (Some(true), None) => self.error("line ends in LF alone although the lines before end in CR LF"),
            (Some(false), Some(_)) => self.error("line ends in CR LF although the lines before end in LF alone"),
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<u32> {
        match self.tables.names_mut(Space::Text).intern_bytes(text) {
            Ok(index) => Ok(index as u32),
            Err(_) => self.not_text(),
        }
    }

    #[inline]
    fn word<'l>(&self, op: &'l [u8]) -> Result<Word<'l>> {
        let word = match op {
            [b'r', b'(', target @ .., b')'] => Word::Memory(Op::Read, target),
            [b'w', b'(', target @ .., b')'] => Word::Memory(Op::Write, target),
            [b'a', b'c', b'q', b'(', target @ .., b')'] => Word::Lock(Op::Acquire, target),
            [b'r', b'e', b'l', b'(', target @ .., b')'] => Word::Lock(Op::Release, target),
            [b'f', b'o', b'r', b'k', b'(', target @ .., b')'] => Word::Thread(Op::Fork, target),
            [b'j', b'o', b'i', b'n', b'(', target @ .., b')'] => Word::Thread(Op::Join, target),
            [b'b', b'r', b'a', b'n', b'c', b'h'] => return Ok(Word::Branch(None)),
            [b'b', b'r', b'a', b'n', b'c', b'h', b'(', text @ .., b')'] => return Ok(Word::Branch(Some(text))),
            [b'd', b'u', b'm', b'm', b'y', b'(', .., b')'] => return Ok(Word::Mark),
            _ if op.starts_with(b"begin") || op.starts_with(b"end") => return Ok(Word::Mark),
            _ => return self.unknown(op),
        };
        let (Word::Memory(_, target) | Word::Lock(_, target) | Word::Thread(_, target)) = word else {
            return Ok(word);
        };
        if target.is_empty() {
            return self.error(format!("'{}' has no target", String::from_utf8_lossy(op)));
        }
        Ok(word)
    }

    #[cold]
    fn unknown<T>(&self, op: &[u8]) -> Result<T> {
        let shown: String = String::from_utf8_lossy(op).chars().take(40).collect();
        let known = ["r", "w", "acq", "rel", "fork", "join", "dummy"];
        match known.iter().find(|k| op.strip_prefix(k.as_bytes()).is_some_and(|r| r.starts_with(b"("))) {
            Some(_) => self.error(format!("'{shown}' lacks its closing ')'")),
            None => self.error(format!(
                "unknown operation '{shown}': expected r, w, acq, rel, fork, join, branch, begin… or end…"
            )),
        }
    }

    /// Public traces write `fork(124)` for thread `T124`. A target that no thread
    /// column shows, here or in the text that follows, is taken for a thread with the
    /// same number and another prefix: one that the text ahead shows or, if there is
    /// none, the one with the prefix of this line's thread.
    fn fork_or_join(&mut self, thread: ThreadId, op: Op, target: &[u8], location: LocId, ahead: &[u8]) -> Result<()> {
        let Ok(spelled) = std::str::from_utf8(target) else { return self.not_text() };
        let resolved = self.resolve(thread, spelled, ahead);
        let (name, alias) = match &resolved {
            None => (spelled, 0),
            Some(name) => (name.as_str(), self.tables.intern(Space::Text, spelled) + 1),
        };
        if let (Some(name), true) = (&resolved, self.warnings.is_empty()) {
            self.warnings.push(format!(
                "line {}: {}({spelled}) is taken to mean thread {name}, as the thread column spells it",
                self.line + 1,
                op.word()
            ));
        }
        let child = self.tables.thread(name);
        if self.in_column.get(child.index()) != Some(&true) {
            self.named.push((child, self.line + 1, op == Op::Fork));
        }
        let mut event = Event::new(thread, op, child.0);
        (event.aux, event.location) = (alias, location);
        self.events.push(event);
        Ok(())
    }

    fn resolve(&self, thread: ThreadId, spelled: &str, ahead: &[u8]) -> Option<String> {
        let in_column = |id: usize| self.in_column.get(id) == Some(&true);
        // Seen in the column, named so by an earlier fork or join, or still to come: spelled right.
        if self.tables.names(Space::Thread).find(spelled).is_some() || shows_thread(ahead, spelled.as_bytes()) {
            return None;
        }
        let number = number_of(spelled);
        if number.is_empty() {
            return None;
        }
        let mut known = self.tables.names(Space::Thread).iter().enumerate();
        let earlier = known.find(|(id, name)| in_column(*id) && number_of(name) == number);
        if let Some((_, name)) = earlier {
            return Some(name.to_owned());
        }
        if let Some(name) = thread_ahead(ahead, number) {
            return Some(name);
        }
        // Nothing is known: one of the two spellings has no prefix, or they are different names.
        let column = self.tables.thread_name(thread);
        let (prefix, other) = (prefix_of(column), prefix_of(spelled));
        let numbered = !number_of(column).is_empty();
        (numbered && prefix != other && (prefix.is_empty() || other.is_empty())).then(|| format!("{prefix}{number}"))
    }
}

/// The digits at the end of a thread's name, if the rest has none; else nothing.
fn number_of(name: &str) -> &str {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits } else { "" }
}

fn prefix_of(name: &str) -> &str {
    &name[..name.len() - number_of(name).len()]
}

/// Whether a later line is by this thread.
fn shows_thread(ahead: &[u8], name: &[u8]) -> bool {
    let column = [b"\n", name, b"|"].concat();
    memchr::memmem::find(ahead, &column).is_some()
}

/// The first thread ahead whose name ends in this number.
fn thread_ahead(ahead: &[u8], number: &str) -> Option<String> {
    let end = format!("{number}|");
    memchr::memmem::find_iter(ahead, end.as_bytes()).find_map(|at| {
        let start = memchr::memrchr(b'\n', &ahead[..at])? + 1;
        let name = std::str::from_utf8(&ahead[start..at + number.len()]).ok()?;
        (number_of(name) == number && !name.contains('|')).then(|| name.to_owned())
    })
}

/// Writes STD.
pub struct StdWriter<W> {
    out: W,
    line: Vec<u8>,
    /// Whether a line was written that still lacks its end.
    open: bool,
}

impl<W: Write> StdWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> StdWriter<W> {
        StdWriter { out, line: Vec::new(), open: false }
    }

    /// Writes the next events. What STD cannot express is an error, not left out.
    pub fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
        self.line.clear();
        for index in 0..events.len() {
            let number = (events.first + index) as u64;
            let event = events.get(index);
            if self.open {
                self.end_line(tables);
            }
            self.event(&event, tables).map_err(|message| Error::new(Position::Event(number), message))?;
            self.open = true;
            if self.line.len() > 1 << 16 {
                self.flush(number)?;
            }
        }
        self.flush((events.first + events.len()) as u64)
    }

    /// Ends the last line and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.line.clear();
        if self.open && !tables.layout.open_end {
            self.end_line(tables);
        }
        self.flush(0)?;
        self.out.flush().map_err(cannot_write)?;
        Ok(self.out)
    }

    fn end_line(&mut self, tables: &Tables) {
        self.line.extend_from_slice(if tables.layout.crlf { b"\r\n" } else { b"\n" });
    }

    fn flush(&mut self, _event: u64) -> Result<()> {
        self.out.write_all(&self.line).map_err(cannot_write)?;
        self.line.clear();
        Ok(())
    }

    fn event(&mut self, event: &Event, tables: &Tables) -> std::result::Result<(), String> {
        let name = |space: Space, id: u32| tables.names(space).get(id as usize);
        let inexpressible = |what: &str| Err(format!("STD cannot express {what}"));
        if event.value.is_some() || event.written.is_some() {
            return inexpressible("values");
        }
        let bracketed = |word: &str, target: &str| format!("{word}({target})");
        let op = match event.op {
            Op::Read | Op::Write if event.aux != 0 => return inexpressible("symbols"),
            Op::Read => bracketed("r", &tables.variable_text(VarId(event.target))),
            Op::Write => bracketed("w", &tables.variable_text(VarId(event.target))),
            Op::Acquire => bracketed("acq", name(Space::Lock, event.target)),
            Op::Release => bracketed("rel", name(Space::Lock, event.target)),
            Op::Fork | Op::Join => {
                let word = if event.op == Op::Fork { "fork" } else { "join" };
                match event.aux {
                    0 => bracketed(word, name(Space::Thread, event.target)),
                    alias => bracketed(word, name(Space::Text, alias - 1)),
                }
            }
            Op::Begin => "begin".to_owned(),
            Op::End => "end".to_owned(),
            Op::Branch if event.aux != 0 => return inexpressible("branch conditions"),
            Op::Branch if event.target != 0 => bracketed("branch", name(Space::Text, event.target - 1)),
            Op::Branch => "branch".to_owned(),
            Op::Mark => name(Space::Text, event.target).to_owned(),
            op => return inexpressible(&format!("'{}'", op.word())),
        };
        let thread = tables.thread_name(event.thread);
        let location = tables.location_name(event.location);
        for field in [thread, &op, location] {
            if field.contains(['|', '\n']) {
                return inexpressible("a name that holds '|' or a line end");
            }
        }
        self.line.extend_from_slice(thread.as_bytes());
        self.line.push(b'|');
        self.line.extend_from_slice(op.as_bytes());
        self.line.push(b'|');
        self.line.extend_from_slice(location.as_bytes());
        Ok(())
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::new(Position::Whole, format!("cannot write: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::TraceReader;
    use crate::trace::Trace;

    fn read(text: &str) -> Result<(Trace, Vec<String>)> {
        TraceReader::new(Box::new(StdReader::new(std::io::Cursor::new(text.as_bytes().to_vec()))), None).read_all()
    }

    fn rewritten(text: &str) -> String {
        let (trace, _) = read(text).unwrap();
        let mut writer = StdWriter::new(Vec::new());
        writer.write(&trace.events, &trace.tables).unwrap();
        String::from_utf8(writer.finish(&trace.tables).unwrap()).unwrap()
    }

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        for text in [
            "T0|fork(T1)|A.java:1\nT1|w(x)|B.java:2\nT0|join(T1)|\n",
            "T0|fork(1)|a\nT1|r(a(b)c)|x y z\nT1|begin foo|3\nT1|end|4\nT1|dummy(7)|5\nT1|branch|6",
            "T0|acq(l)|1\r\nT0|branch(why)|2\r\nT0|rel(l)|3\r\n",
            "T0|acq(l)|1\r\nT0|rel(l)|3",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn threads_without_their_prefix_are_resolved_with_a_warning() {
        let (trace, warnings) = read("T0|fork(124)|a\nT124|w(x)|b\nT0|join(124)|c\n").unwrap();
        assert_eq!(trace.tables.thread_count(), 2);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("line 1") && warnings[0].contains("T124"), "{warnings:?}");
        let (trace, warnings) = read("0|fork(T1)|a\n1|w(x)|b\n").unwrap();
        assert_eq!((trace.tables.thread_count(), warnings.len()), (2, 1));
        for (text, warned) in [
            ("main|fork(w1)|a\nw1|w(x)|b\n", 0),
            ("T1|fork(2)|a\n2|w(x)|b\n", 0),
            ("main|fork(2)|a\nT2|w(x)|b\n", 1),
            ("T1|fork(T2)|a\n2|w(x)|b\n", 1),
            ("T1|fork(T2)|a\nT1|w(x)|b\nT1|join(T2)|c\n", 0),
        ] {
            let (trace, warnings) = read(text).unwrap();
            assert_eq!((trace.tables.thread_count(), warnings.len()), (2, warned), "{text}");
        }
    }

    #[test]
    fn a_join_of_a_thread_that_nobody_knows_is_pointed_out() {
        let (_, warnings) = read("T1|fork(T2)|1\nT2|w(x)|2\nT1|join(TT)|3\n").unwrap();
        assert!(warnings[0].contains("line 3") && warnings[0].contains("TT"), "{warnings:?}");
    }

    #[test]
    fn errors_name_the_line() {
        let error = read("T0|w(x)|a\nT0|frob(x)|b\n").unwrap_err();
        assert_eq!(error.position, Position::Line(2));
        assert!(error.message.contains("frob"));
        let error = read("T0|w(x)|a\nT0|rel(l)|b\n").unwrap_err();
        assert_eq!(error.position, Position::Line(2));
        assert!(error.message.contains("not held"));
        assert!(read("T0|w(x)|a|b\n").unwrap_err().message.contains("more than two"));
        assert!(read("T0|w(x)|a\nT0|w(x)|a|b\n").is_err());
    }
}
