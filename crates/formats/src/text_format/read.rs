//! Reading Snag's text format.

use super::spelling::{Cursor, Member, Place, shortened};
use super::{Directive, FIRST_LINE, is_comment};
use crate::error::{Error, Position, Result};
use crate::lines::Lines;
use crate::reader::BlockReader;
use snag_model::events::{Event, Events};
use snag_model::ids::*;
use snag_model::op::{MemoryOrder, Op};
use snag_model::tables::{Object, Space, Tables};
use std::collections::HashSet;
use std::io::Read;

/// Reads Snag's text format.
pub struct TextReader<R> {
    lines: Lines<R>,
    state: State,
}

/// What is known after the lines read so far.
#[derive(Default)]
struct State {
    /// Lines read.
    line: u64,
    /// Whether lines end in CR LF; decided by the first.
    crlf: bool,
    /// Directives and comments before the first event; empty from then on.
    header: Vec<HeaderLine>,
    /// Bytes that it takes.
    header_taken: u64,
    /// What each directive has declared, against declaring twice.
    declared: [HashSet<u32>; Directive::ALL.len()],
    /// Whether an event was read.
    started: bool,
    /// Number of the first event of the last block, and the line of each of its events.
    block: (usize, Vec<u64>),
}

/// About how many bytes a line of the header takes beside its text.
const HEADER_LINE: usize = 64;

enum HeaderLine {
    Comment(String),
    Directive(Directive),
}

impl<R: Read + Send> TextReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> TextReader<R> {
        TextReader { lines: Lines::new(input), state: State::default() }
    }
}

impl<R: Read + Send> BlockReader for TextReader<R> {
    fn read_block(&mut self, tables: &mut Tables, events: &mut Events) -> Result<bool> {
        let state = &mut self.state;
        let Some(chunk) = self.lines.next_chunk(state.line)? else {
            if !state.started {
                let found = if state.line == 0 { "the input is empty" } else { "there is no event" };
                return Err(Error::new(Position::Whole, format!("{found}; a trace has at least one event")));
            }
            return Ok(false);
        };
        state.block.0 = events.first + events.len();
        state.block.1.clear();
        let mut rest = chunk;
        while !rest.is_empty() {
            let (line, ended, after) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], true, &rest[end + 1..]),
                None => (rest, false, &rest[rest.len()..]),
            };
            state
                .line(line, ended, tables, events)
                .map_err(|message| Error::new(Position::Line(state.line + 1), message))?;
            state.line += 1;
            rest = after;
        }
        let read = (events.first + events.len()) as u64;
        tables
            .check_room(read, state.header_taken)
            .map_err(|message| Error::new(Position::Line(state.line), message))?;
        Ok(true)
    }

    fn position_of(&self, event: usize) -> Position {
        let (first, lines) = &self.state.block;
        match event.checked_sub(*first).and_then(|index| lines.get(index)) {
            Some(&line) => Position::Line(line),
            None => Position::Event(event as u64),
        }
    }

    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

type Parsed<T> = std::result::Result<T, String>;

impl State {
    fn line(&mut self, line: &[u8], ended: bool, tables: &mut Tables, events: &mut Events) -> Parsed<()> {
        if !ended {
            tables.layout.open_end = true;
        }
        let line = self.without_carriage_return(line, ended, tables)?;
        let line = std::str::from_utf8(line).map_err(|_| "not UTF-8 text".to_owned())?;
        if self.line == 0 {
            return first_line(line);
        }
        if is_comment(line) {
            if self.started {
                tables.comments.push(((events.first + events.len()) as u64, line.to_owned()));
            } else {
                self.header_taken += (HEADER_LINE + line.len()) as u64;
                self.header.push(HeaderLine::Comment(line.to_owned()));
            }
            return Ok(());
        }
        if line.starts_with('%') {
            return self.directive(line, tables);
        }
        if !self.started {
            self.started = true;
            self.settle_header(tables);
        }
        let mut fields = line.split('|');
        let (Some(thread), Some(op), Some(location)) = (fields.next(), fields.next(), fields.next()) else {
            return Err("fewer than two '|': expected thread|operation|location".to_owned());
        };
        if fields.next().is_some() {
            return Err("more than two '|': expected thread|operation|location".to_owned());
        }
        if thread.is_empty() {
            return Err("the thread has no name".to_owned());
        }
        let location = tables.location(location);
        let thread = tables.thread(thread);
        let mut event = operation(op, thread, tables)?;
        event.location = location;
        events.push(event);
        self.block.1.push(self.line + 1);
        Ok(())
    }

    /// Lines end all in LF or all in CR LF; the first one decides.
    fn without_carriage_return<'l>(&mut self, line: &'l [u8], ended: bool, tables: &mut Tables) -> Parsed<&'l [u8]> {
        let stripped = line.strip_suffix(b"\r");
        if self.line == 0 && ended {
            self.crlf = stripped.is_some();
            tables.layout.crlf = self.crlf;
        }
        let wrong = match stripped {
            Some(_) if !ended => "line ends in CR without LF",
            Some(stripped) if stripped.ends_with(b"\r") => "line ends in more than one CR",
            Some(stripped) if self.crlf => return Ok(stripped),
            Some(_) => "line ends in CR LF although the first line ends in LF alone",
            None if self.crlf && ended => "line ends in LF alone although the first line ends in CR LF",
            None => return Ok(line),
        };
        Err(wrong.to_owned())
    }

    fn directive(&mut self, line: &str, tables: &mut Tables) -> Parsed<()> {
        let (word, arguments) = line.split_once(' ').unwrap_or((line, ""));
        let Some(directive) = Directive::by_word(word) else {
            return Err(format!(
                "unknown directive '{}': expected %lock, %semaphore, %barrier or %init",
                shortened(word)
            ));
        };
        if self.started {
            return Err(format!("'{word}' after the first event: directives stand before all events"));
        }
        let mut rest = Cursor::new(arguments);
        let id = match directive {
            Directive::Lock => {
                let lock = tables.intern(Space::Lock, &rest.name()?);
                rest.expect(" plain")?;
                tables.declarations.plain_locks.push(LockId(lock));
                lock
            }
            Directive::Semaphore => {
                let semaphore = tables.intern(Space::Semaphore, &rest.name()?);
                rest.expect(" ")?;
                let count = rest.number("initial count of a semaphore", 0, u32::MAX)?;
                tables.declarations.semaphores.push((SemId(semaphore), count));
                semaphore
            }
            Directive::Barrier => {
                let barrier = tables.intern(Space::Barrier, &rest.name()?);
                rest.expect(" ")?;
                let parties = rest.number("number of parties of a barrier", 1, u32::MAX)?;
                tables.declarations.barriers.push((BarrierId(barrier), parties));
                barrier
            }
            Directive::Init => {
                let variable = variable(&mut rest, tables)?;
                rest.expect(" ")?;
                let value = rest.integer()?;
                tables.declarations.initial.push((VarId(variable), value));
                variable
            }
        };
        rest.end()?;
        if !self.declared[directive as usize].insert(id) {
            return Err(format!("'{}' is said twice", shortened(line)));
        }
        self.header_taken += HEADER_LINE as u64;
        self.header.push(HeaderLine::Directive(directive));
        Ok(())
    }

    /// Turns the header into comments before event 0, with markers for the directives unless these all stand first
    /// and in their usual order.
    fn settle_header(&mut self, tables: &mut Tables) {
        let header = std::mem::take(&mut self.header);
        self.header_taken = 0;
        let place = |line: &HeaderLine| match line {
            HeaderLine::Directive(directive) => *directive as usize,
            HeaderLine::Comment(_) => Directive::ALL.len(),
        };
        let usual = header.is_sorted_by_key(place);
        for line in header {
            match line {
                HeaderLine::Comment(text) => tables.comments.push((0, text)),
                HeaderLine::Directive(directive) if !usual => tables.comments.push((0, directive.word().to_owned())),
                HeaderLine::Directive(_) => {}
            }
        }
    }
}

fn first_line(line: &str) -> Parsed<()> {
    match line.strip_prefix("%snag") {
        _ if line == FIRST_LINE => Ok(()),
        Some(version) if version.starts_with(' ') && version.trim() != "1" => Err(format!(
            "text format version '{}' is not known to this snag, which reads version 1",
            shortened(version.trim())
        )),
        _ => Err(format!("the first line is not '{FIRST_LINE}'")),
    }
}

fn variable(rest: &mut Cursor, tables: &mut Tables) -> Parsed<u32> {
    let place = rest.variable()?;
    Ok(place_id(place, tables).0)
}

fn place_id(place: Place, tables: &mut Tables) -> VarId {
    match place {
        Place::Named(name) => tables.variable_named(&name),
        Place::Range { address, size } => tables.variable_range(address, size),
    }
}

/// The `op` column of a line.
fn operation(text: &str, thread: ThreadId, tables: &mut Tables) -> Parsed<Event> {
    let mut rest = Cursor::new(text);
    let word = rest.word();
    let Some(op) = Op::ALL.into_iter().find(|&op| super::write::word(op) == word) else {
        return Err(format!("unknown operation '{}'", shortened(text)));
    };
    let mut event = Event::new(thread, op, 0);
    match op {
        Op::Begin | Op::End => {}
        Op::Branch | Op::OtherBranch => branch(&mut rest, &mut event, tables)?,
        _ => {
            rest.expect("(")?;
            bracketed(&mut rest, &mut event, tables)?;
        }
    }
    rest.end()?;
    Ok(event)
}

/// What follows the opening bracket, and the bracket.
fn bracketed(rest: &mut Cursor, event: &mut Event, tables: &mut Tables) -> Parsed<()> {
    let space = match event.op {
        Op::Read | Op::Write | Op::OtherRead | Op::OtherWrite => {
            event.target = variable(rest, tables)?;
            rest.expect(")")?;
            return plain_access(rest, event, tables);
        }
        Op::AtomicRead | Op::AtomicWrite | Op::Rmw => {
            event.target = variable(rest, tables)?;
            event.aux = memory_order(rest)?;
            rest.expect(")")?;
            return atomic_values(rest, event);
        }
        Op::Alloc | Op::Free => {
            event.target = variable(rest, tables)?;
            return rest.expect(")");
        }
        Op::Reach => {
            event.target = variable(rest, tables)?;
            rest.expect(",")?;
            event.aux = reach(rest, tables)?.0;
            return rest.expect(")");
        }
        Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => Space::Lock,
        Op::OtherAcquire | Op::OtherRelease => Space::Lock,
        Op::Fork | Op::Join => Space::Thread,
        Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => Space::Condition,
        Op::SemPost | Op::SemWait => Space::Semaphore,
        Op::BarrierEnter | Op::BarrierLeave => Space::Barrier,
        Op::MethodBegin | Op::MethodEnd => Space::Method,
        Op::Let | Op::OtherLet => Space::Symbol,
        Op::Mark => Space::Text,
        Op::Begin | Op::End | Op::Branch | Op::OtherBranch => {
            unreachable!("'{}' has no bracket of this kind", event.op.word())
        }
    };
    event.target = tables.intern(space, &rest.name()?);
    match event.op {
        Op::Fork | Op::Join if rest.eat(",") => event.aux = 1 + tables.intern(Space::Text, &rest.name()?),
        Op::WaitBegin | Op::WaitEnd => {
            rest.expect(",")?;
            event.aux = tables.intern(Space::Lock, &rest.name()?);
        }
        Op::Acquire | Op::ReadAcquire if rest.eat(",") => {
            rest.expect("try")?;
            event.aux = 1;
        }
        Op::Wake if rest.eat(",") => event.aux = 1 + rest.number("event number", 0, u32::MAX - 2)?,
        Op::MethodBegin => {
            rest.expect(",")?;
            event.aux = if rest.starts_with("{") { reach(rest, tables)? } else { arguments(rest, tables)? }.0;
        }
        _ => {}
    }
    rest.expect(")")?;
    if matches!(event.op, Op::Let | Op::OtherLet) {
        rest.expect("=")?;
        event.aux = tables.intern(Space::Expression, rest.remainder());
    }
    Ok(())
}

/// The value of a plain access, and the symbol read or the expression written.
fn plain_access(rest: &mut Cursor, event: &mut Event, tables: &mut Tables) -> Parsed<()> {
    if !event.op.on_other_side() && rest.eat("=") {
        event.value = Some(rest.integer()?);
    }
    let reads = event.op.if_it_happens() == Op::Read;
    if reads && rest.eat("->") {
        event.aux = 1 + tables.intern(Space::Symbol, &rest.name()?);
    } else if !reads && rest.eat("<-") {
        event.aux = 1 + tables.intern(Space::Expression, rest.remainder());
    }
    Ok(())
}

fn memory_order(rest: &mut Cursor) -> Parsed<u32> {
    rest.expect(",")?;
    let word = rest.name()?;
    let order = MemoryOrder::ALL.into_iter().find(|o| o.word() == word);
    order.map(|o| o as u32).ok_or_else(|| {
        format!("'{}' is no memory order: expected relaxed, acquire, release, acq_rel or seq_cst", shortened(&word))
    })
}

/// The value of an atomic access; of an rmw the value read and the value written, either of which may be `?`.
fn atomic_values(rest: &mut Cursor, event: &mut Event) -> Parsed<()> {
    if !rest.eat("=") {
        return Ok(());
    }
    if event.op != Op::Rmw {
        event.value = Some(rest.integer()?);
        return Ok(());
    }
    event.value = if rest.eat("?") { None } else { Some(rest.integer()?) };
    rest.expect(":")?;
    event.written = if rest.eat("?") { None } else { Some(rest.integer()?) };
    if event.value.is_none() && event.written.is_none() {
        return Err("an rmw of which neither value is known has no '='".to_owned());
    }
    Ok(())
}

/// `branch`, `branch(condition)`, `branch(condition)=1`, and before the condition `{text}`: what an STD trace has in
/// brackets, or what a condition is for.
fn branch(rest: &mut Cursor, event: &mut Event, tables: &mut Tables) -> Parsed<()> {
    if rest.eat("{") {
        event.target = 1 + tables.intern(Space::Text, &rest.name()?);
        rest.expect("}")?;
    }
    if rest.eat("(") {
        let mut condition = rest.remainder();
        for (outcome, ending) in [(0, ")=0"), (1, ")=1")] {
            if let Some(shorter) = condition.strip_suffix(ending).filter(|_| event.op == Op::Branch) {
                event.value = Some(outcome);
                condition = shorter;
                event.aux = 1 + tables.intern(Space::Expression, condition);
                return Ok(());
            }
        }
        let Some(condition) = condition.strip_suffix(')') else {
            return Err("the branch lacks its closing ')'".to_owned());
        };
        event.aux = 1 + tables.intern(Space::Expression, condition);
    }
    Ok(())
}

/// The set of what a missing method could reach.
fn reach(rest: &mut Cursor, tables: &mut Tables) -> Parsed<ReachId> {
    rest.expect("{")?;
    let mut objects = Vec::new();
    if !rest.eat("}") {
        loop {
            objects.push(member(rest, tables)?);
            if rest.eat("}") {
                break;
            }
            rest.expect(",")?;
        }
    }
    Ok(tables.reach(objects))
}

/// What a missing method was given.
fn arguments(rest: &mut Cursor, tables: &mut Tables) -> Parsed<ReachId> {
    let mut objects = vec![member(rest, tables)?];
    while rest.eat(",") {
        objects.push(member(rest, tables)?);
    }
    Ok(tables.arguments(objects))
}

/// A member of such a set.
fn member(rest: &mut Cursor, tables: &mut Tables) -> Parsed<Object> {
    if let Some(name) = rest.plain_name() {
        return Ok(Object::Variable(tables.variable_named(name)));
    }
    Ok(match rest.member()? {
        Member::Variable(place) => Object::Variable(place_id(place, tables)),
        Member::Lock(name) => Object::Lock(LockId(tables.intern(Space::Lock, &name))),
        Member::Thread(name) => Object::Thread(tables.thread(&name)),
        Member::Condition(name) => Object::Condition(CondId(tables.intern(Space::Condition, &name))),
        Member::Semaphore(name) => Object::Semaphore(SemId(tables.intern(Space::Semaphore, &name))),
        Member::Barrier(name) => Object::Barrier(BarrierId(tables.intern(Space::Barrier, &name))),
    })
}

/// A member of such a set that stands alone.
pub(crate) fn object(text: &str, tables: &mut Tables) -> Parsed<Object> {
    let mut rest = Cursor::new(text);
    let object = member(&mut rest, tables)?;
    match rest.remainder() {
        "" => Ok(object),
        more => Err(format!("unexpected '{}'", shortened(more))),
    }
}
