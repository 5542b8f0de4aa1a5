//! Reading STD: any line, and what is said about all of them.

use super::memo::Memo;
use super::plain::Batch;
use crate::error::{Error, Position, Result};
use crate::lines::Lines;
use crate::reader::BlockReader;
use crate::scan::Delimiters;
use snag_model::Action;
use snag_model::events::{Event, Events};
use snag_model::ids::*;
use snag_model::op::Op;
use snag_model::tables::{Space, Tables};
use std::collections::{HashMap, HashSet};
use std::io::Read;

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
    memo: Memo,
    numbers: Numbers,
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
            memo: Memo::new(),
            numbers: Numbers::default(),
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
            warnings: &mut self.warnings,
            numbers: &mut self.numbers,
            columns: None,
        };
        parser.chunk(padded, end, &mut self.memo)?;
        (self.line, self.crlf) = (parser.line, parser.crlf);
        tables.check_room(self.line, 0).map_err(|message| Error::new(Position::Line(self.line), message))?;
        Ok(true)
    }

    fn position_of(&self, event: usize) -> Position {
        Position::Line(event as u64 + 1)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

pub(super) struct Parser<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) events: &'a mut Events,
    /// Lines before the current one.
    line: u64,
    crlf: Option<bool>,
    in_column: &'a mut Vec<bool>,
    named: &'a mut Vec<(ThreadId, u64, bool)>,
    warnings: &'a mut Vec<String>,
    numbers: &'a mut Numbers,
    /// The thread columns of the rest of the chunk, once they were asked for.
    columns: Option<Columns>,
}

/// Threads by the number that their names end in.
#[derive(Default)]
struct Numbers {
    threads: HashMap<String, Vec<usize>>,
    /// How many threads were looked at.
    known: usize,
}

impl Numbers {
    /// Those whose names end in this number.
    fn of(&mut self, number: &str, tables: &Tables) -> &[usize] {
        let names = tables.names(Space::Thread);
        for thread in self.known..names.len() {
            self.threads.entry(number_of(names.get(thread)).to_owned()).or_default().push(thread);
        }
        self.known = names.len();
        self.threads.get(number).map_or(&[], Vec::as_slice)
    }
}

/// The thread columns of a text: what was behind the reader since they were looked at is known to it by name.
struct Columns {
    names: HashSet<String>,
    /// The first one with each number.
    numbers: HashMap<String, String>,
}

impl Columns {
    fn of(ahead: &[u8]) -> Columns {
        let (mut names, mut numbers) = (HashSet::new(), HashMap::new());
        for line in ahead.split(|&byte| byte == b'\n').skip(1) {
            let column = memchr::memchr(b'|', line).and_then(|end| std::str::from_utf8(&line[..end]).ok());
            if let Some(name) = column.filter(|name| !names.contains(*name)) {
                names.insert(name.to_owned());
                numbers.entry(number_of(name).to_owned()).or_insert_with(|| name.to_owned());
            }
        }
        Columns { names, numbers }
    }
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

    fn chunk(&mut self, padded: &[u8], end: usize, memo: &mut Memo) -> Result<()> {
        let mut delimiters = Delimiters::new(padded, end);
        let mut batch = Batch::new();
        let mut start = 0;
        while start < end {
            // The common lines, as far as they go.
            while self.crlf == Some(false) && batch.gather(padded, start, &mut delimiters, self.tables, memo) {
                let (lines, next) = batch.look_up(padded, self, memo);
                self.line += lines as u64;
                start = next;
                if !batch.is_done() {
                    break;
                }
            }
            if start == end {
                break;
            }
            // And one that is not.
            let length = memchr::memchr(b'\n', &padded[start..end]);
            self.tables.layout.open_end = length.is_none();
            let last = length.map_or(end, |length| start + length);
            self.line(&padded[start..last], &padded[last..end])?;
            self.line += 1;
            start = last + 1;
            delimiters.skip_to(start);
        }
        Ok(())
    }

    /// A line is by this thread.
    pub(super) fn note_column(&mut self, thread: usize) {
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
            if line.trim_ascii().is_empty() {
                return self.error("the line is blank: expected thread|op(target)|location");
            }
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
        // Accesses and locks go into the columns as they are: public traces have a billion of them.
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
                let text = text.map(|text| self.text(text)).transpose()?;
                let action = Action::Branch { condition: None, taken: None, text };
                self.events.push(Event { location, ..Event::of(thread, action) });
            }
            Word::Mark => {
                let text = self.text(op)?;
                self.events.push(Event { location, ..Event::of(thread, Action::Mark { text }) });
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

    fn text(&mut self, text: &[u8]) -> Result<TextId> {
        match self.tables.names_mut(Space::Text).intern_bytes(text) {
            Ok(index) => Ok(TextId::new(index)),
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
            _ if is_mark(op) => return Ok(Word::Mark),
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
        let (name, spelling) = match &resolved {
            None => (spelled, None),
            Some(name) => (name.as_str(), Some(TextId(self.tables.intern(Space::Text, spelled)))),
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
        let action = match op {
            Op::Fork => Action::Fork { thread: child, spelling },
            _ => Action::Join { thread: child, spelling },
        };
        self.events.push(Event { location, ..Event::of(thread, action) });
        Ok(())
    }

    fn resolve(&mut self, thread: ThreadId, spelled: &str, ahead: &[u8]) -> Option<String> {
        // Seen in the column, named so by an earlier fork or join, or still to come: spelled right.
        if self.tables.names(Space::Thread).find(spelled).is_some() {
            return None;
        }
        let columns = self.columns.get_or_insert_with(|| Columns::of(ahead));
        if columns.names.contains(spelled) {
            return None;
        }
        let number = number_of(spelled);
        if number.is_empty() {
            return None;
        }
        let mut known = self.numbers.of(number, self.tables).iter();
        if let Some(&id) = known.find(|&&id| self.in_column.get(id) == Some(&true)) {
            return Some(self.tables.names(Space::Thread).get(id).to_owned());
        }
        if let Some(name) = columns.numbers.get(number) {
            return Some(name.clone());
        }
        // Nothing is known: one of the two spellings has no prefix, or they are different names.
        let column = self.tables.thread_name(thread);
        let (prefix, other) = (prefix_of(column), prefix_of(spelled));
        let numbered = !number_of(column).is_empty();
        (numbered && prefix != other && (prefix.is_empty() || other.is_empty())).then(|| format!("{prefix}{number}"))
    }
}

/// Whether an operation is read and kept, but means nothing.
pub(super) fn is_mark(op: &[u8]) -> bool {
    op.starts_with(b"begin") || op.starts_with(b"end") || op.starts_with(b"dummy(") && op.ends_with(b")")
}

/// The digits at the end of a thread's name, if the rest has none; else nothing.
fn number_of(name: &str) -> &str {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits } else { "" }
}

fn prefix_of(name: &str) -> &str {
    &name[..name.len() - number_of(name).len()]
}
