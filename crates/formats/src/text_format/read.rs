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
use snag_model::{Action, Else, Fault, Mode, Primitive, Probe, Stale};
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
        let action = operation(op, tables)?;
        events.push(Event { location, ..Event::of(thread, action) });
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
                tables.declarations.initial.push((variable, value));
                variable.0
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

fn variable(rest: &mut Cursor, tables: &mut Tables) -> Parsed<VarId> {
    let place = rest.variable()?;
    Ok(place_id(place, tables))
}

/// The id of a name.
fn named<T>(rest: &mut Cursor, tables: &mut Tables, space: Space, id: fn(u32) -> T) -> Parsed<T> {
    Ok(id(tables.intern(space, &rest.name()?)))
}

fn place_id(place: Place, tables: &mut Tables) -> VarId {
    match place {
        Place::Named(name) => tables.variable_named(&name),
        Place::Range { address, size } => tables.variable_range(address, size),
    }
}

/// The `op` column of a line.
fn operation(text: &str, tables: &mut Tables) -> Parsed<Action> {
    let mut rest = Cursor::new(text);
    let word = rest.word();
    let Some(op) = Op::ALL.into_iter().find(|&op| super::write::word(op) == word) else {
        return Err(format!("unknown operation '{}'", shortened(text)));
    };
    let action = match op {
        Op::Begin => Action::Begin,
        Op::End => Action::End,
        Op::Branch | Op::OtherBranch => branch(&mut rest, op, tables)?,
        _ => {
            rest.expect("(")?;
            bracketed(&mut rest, op, tables)?
        }
    };
    rest.end()?;
    Ok(action)
}

/// What follows the opening bracket, and the bracket.
fn bracketed(rest: &mut Cursor, op: Op, tables: &mut Tables) -> Parsed<Action> {
    let lock = |rest: &mut Cursor, tables: &mut Tables| named(rest, tables, Space::Lock, LockId);
    let condition = |rest: &mut Cursor, tables: &mut Tables| named(rest, tables, Space::Condition, CondId);
    let mode = if matches!(op, Op::ReadAcquire | Op::ReadRelease | Op::ReadTryFail | Op::ReadWant) {
        Mode::Shared
    } else {
        Mode::Exclusive
    };
    let action = match op {
        Op::Read | Op::Write | Op::AtomicRead | Op::AtomicWrite | Op::Rmw | Op::OtherRead | Op::OtherWrite => {
            return access(rest, op, tables);
        }
        Op::Let | Op::OtherLet => return definition(rest, op, tables),
        Op::Alloc => Action::Alloc { variable: variable(rest, tables)? },
        Op::Free => Action::Free { variable: variable(rest, tables)? },
        Op::Reach => {
            let object = variable(rest, tables)?;
            rest.expect(",")?;
            Action::Reach { object, leads_to: reach(rest, tables)? }
        }
        Op::Fence => Action::Fence { order: memory_order(rest)? },
        Op::Acquire | Op::ReadAcquire => {
            let lock = lock(rest, tables)?;
            let gives_up = rest.eat(",");
            if gives_up {
                rest.expect("try")?;
            }
            Action::Acquire { lock, mode, gives_up }
        }
        Op::Release | Op::ReadRelease => Action::Release { lock: lock(rest, tables)?, mode },
        Op::OtherAcquire => Action::Else(Else::Acquire { lock: lock(rest, tables)? }),
        Op::OtherRelease => Action::Else(Else::Release { lock: lock(rest, tables)? }),
        Op::Fork | Op::Join => {
            let thread = named(rest, tables, Space::Thread, ThreadId)?;
            let spelling = if rest.eat(",") { Some(named(rest, tables, Space::Text, TextId)?) } else { None };
            match op {
                Op::Fork => Action::Fork { thread, spelling },
                _ => Action::Join { thread, spelling },
            }
        }
        Op::WaitBegin | Op::WaitEnd => {
            let condition = condition(rest, tables)?;
            rest.expect(",")?;
            let lock = lock(rest, tables)?;
            match op {
                Op::WaitBegin => Action::WaitBegin { condition, lock },
                _ => Action::WaitEnd { condition, lock },
            }
        }
        Op::Wake => {
            let condition = condition(rest, tables)?;
            let by = if rest.eat(",") { Some(rest.number("event number", 0, u32::MAX - 2)?) } else { None };
            Action::Wake { condition, by: by.map(EventId) }
        }
        Op::Notify => Action::Notify { condition: condition(rest, tables)? },
        Op::NotifyAll => Action::NotifyAll { condition: condition(rest, tables)? },
        Op::SemPost => Action::SemPost { semaphore: named(rest, tables, Space::Semaphore, SemId)? },
        Op::SemWait => Action::SemWait { semaphore: named(rest, tables, Space::Semaphore, SemId)? },
        Op::TryFail | Op::ReadTryFail => Action::Probe(Probe::Held { lock: lock(rest, tables)?, mode }),
        Op::SemValue => {
            let semaphore = named(rest, tables, Space::Semaphore, SemId)?;
            rest.expect(")=")?;
            let count = rest.number("count", 0, u32::MAX)?;
            return Ok(Action::Probe(Probe::Count { semaphore, count }));
        }
        Op::JoinFail => Action::Probe(Probe::Alive { thread: named(rest, tables, Space::Thread, ThreadId)? }),
        Op::BarrierEnter => Action::BarrierEnter { barrier: named(rest, tables, Space::Barrier, BarrierId)? },
        Op::BarrierLeave => Action::BarrierLeave { barrier: named(rest, tables, Space::Barrier, BarrierId)? },
        Op::MethodBegin => {
            let method = named(rest, tables, Space::Method, MethodId)?;
            rest.expect(",")?;
            let reach = if rest.starts_with("{") { reach(rest, tables)? } else { arguments(rest, tables)? };
            Action::MethodBegin { method, reach }
        }
        Op::MethodEnd => Action::MethodEnd { method: named(rest, tables, Space::Method, MethodId)? },
        Op::StaleRead | Op::StaleWrite | Op::StaleFree => {
            let how = match op {
                Op::StaleRead => Stale::Read,
                Op::StaleWrite => Stale::Write,
                _ => Stale::Free,
            };
            Action::Fault(Fault::Stale { variable: variable(rest, tables)?, how })
        }
        Op::Want | Op::ReadWant => Action::Fault(Fault::Want { lock: lock(rest, tables)?, mode }),
        Op::Unheld => Action::Fault(Fault::Unheld { lock: lock(rest, tables)? }),
        Op::Gone => Action::Fault(Fault::Gone { lock: lock(rest, tables)? }),
        Op::Discard => Action::Fault(Fault::Discard(match member(rest, tables)? {
            Object::Lock(id) => Primitive::Lock(id),
            Object::Condition(id) => Primitive::Condition(id),
            Object::Semaphore(id) => Primitive::Semaphore(id),
            Object::Barrier(id) => Primitive::Barrier(id),
            Object::Variable(_) | Object::Thread(_) => {
                return Err("only a lock, a condition, a semaphore or a barrier can be discarded".to_owned());
            }
        })),
        Op::Mark => Action::Mark { text: named(rest, tables, Space::Text, TextId)? },
        Op::Begin | Op::End | Op::Branch | Op::OtherBranch => {
            unreachable!("'{}' has no bracket of this kind", op.word())
        }
    };
    rest.expect(")")?;
    Ok(action)
}

/// An access: its variable and memory order, its values, and the symbol read or the expression written.
fn access(rest: &mut Cursor, op: Op, tables: &mut Tables) -> Parsed<Action> {
    let variable = variable(rest, tables)?;
    let order = match op.is_atomic() {
        true => {
            rest.expect(",")?;
            memory_order(rest)?
        }
        false => MemoryOrder::default(),
    };
    rest.expect(")")?;
    let value = |rest: &mut Cursor| if rest.eat("=") { rest.integer().map(Some) } else { Ok(None) };
    let into = |rest: &mut Cursor, tables: &mut Tables| match rest.eat("->") {
        true => named(rest, tables, Space::Symbol, SymbolId).map(Some),
        false => Ok(None),
    };
    let of = |rest: &mut Cursor, tables: &mut Tables| rest.eat("<-").then(|| expression(rest, tables));
    Ok(match op {
        Op::Read => Action::Read { variable, value: value(rest)?, into: into(rest, tables)? },
        Op::Write => Action::Write { variable, value: value(rest)?, of: of(rest, tables) },
        Op::AtomicRead => Action::AtomicRead { variable, order, value: value(rest)? },
        Op::AtomicWrite => Action::AtomicWrite { variable, order, value: value(rest)? },
        Op::OtherRead => Action::Else(Else::Read { variable, into: into(rest, tables)? }),
        Op::OtherWrite => Action::Else(Else::Write { variable, of: of(rest, tables) }),
        _ => {
            let (read, written) = rmw_values(rest)?;
            Action::Rmw { variable, order, read, written }
        }
    })
}

/// The rest of a line.
fn expression(rest: &mut Cursor, tables: &mut Tables) -> ExprId {
    ExprId(tables.intern(Space::Expression, rest.remainder()))
}

fn memory_order(rest: &mut Cursor) -> Parsed<MemoryOrder> {
    let word = rest.name()?;
    let order = MemoryOrder::ALL.into_iter().find(|o| o.word() == word);
    order.ok_or_else(|| {
        format!("'{}' is no memory order: expected relaxed, acquire, release, acq_rel or seq_cst", shortened(&word))
    })
}

/// The value read and the value written by an rmw, either of which may be `?`.
fn rmw_values(rest: &mut Cursor) -> Parsed<(Option<i64>, Option<i64>)> {
    if !rest.eat("=") {
        return Ok((None, None));
    }
    let value = |rest: &mut Cursor| if rest.eat("?") { Ok(None) } else { rest.integer().map(Some) };
    let read = value(rest)?;
    rest.expect(":")?;
    let written = value(rest)?;
    if read.is_none() && written.is_none() {
        return Err("an rmw of which neither value is known has no '='".to_owned());
    }
    Ok((read, written))
}

/// The definition of a symbol.
fn definition(rest: &mut Cursor, op: Op, tables: &mut Tables) -> Parsed<Action> {
    let symbol = named(rest, tables, Space::Symbol, SymbolId)?;
    rest.expect(")")?;
    rest.expect("=")?;
    let is = expression(rest, tables);
    Ok(if op == Op::Let { Action::Let { symbol, is } } else { Action::Else(Else::Let { symbol, is }) })
}

/// `branch`, `branch(condition)`, `branch(condition)=1`, and before the condition `{text}`: what an STD trace has in
/// brackets, or what a condition is for.
fn branch(rest: &mut Cursor, op: Op, tables: &mut Tables) -> Parsed<Action> {
    let mut text = None;
    if rest.eat("{") {
        text = Some(named(rest, tables, Space::Text, TextId)?);
        rest.expect("}")?;
    }
    let (mut condition, mut taken) = (None, None);
    if rest.eat("(") {
        let written = rest.remainder();
        let with_outcome = |(outcome, ending): (i64, &str)| Some((written.strip_suffix(ending)?, Some(outcome)));
        let outcomes = [(0, ")=0"), (1, ")=1")].into_iter().filter(|_| op == Op::Branch);
        let without = || written.strip_suffix(')').map(|condition| (condition, None));
        let Some((expression, outcome)) = outcomes.filter_map(with_outcome).next().or_else(without) else {
            return Err("the branch lacks its closing ')'".to_owned());
        };
        (condition, taken) = (Some(ExprId(tables.intern(Space::Expression, expression))), outcome);
    }
    Ok(match op {
        Op::Branch => Action::Branch { condition, taken, text },
        _ => Action::Else(Else::Branch { condition, text }),
    })
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
