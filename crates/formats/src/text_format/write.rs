//! Writing Snag's text format.

use super::spelling::{spelled, spelled_object, spelled_variable};
use super::{Directive, FIRST_LINE, is_comment};
use crate::error::{Error, Position, Result};
use crate::lines::LONGEST_LINE;
use snag_model::events::{Event, Events};
use snag_model::ids::*;
use snag_model::op::{MemoryOrder, Op};
use snag_model::tables::{Declarations, Space, Tables};
use snag_model::{Action, Else, Fault, Probe};
use std::fmt::Write as _;
use std::io::Write;

/// Appends formatted text to a string.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {
        write!($out, $($text)*).expect("a string takes any text")
    };
}

/// The word of an operation in this format.
pub(super) fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "r",
        Op::Write => "w",
        Op::AtomicRead => "atomic-r",
        Op::AtomicWrite => "atomic-w",
        Op::Acquire => "acq",
        Op::Release => "rel",
        Op::ReadAcquire => "racq",
        Op::ReadRelease => "rrel",
        Op::OtherRead => "else-r",
        Op::OtherWrite => "else-w",
        Op::OtherAcquire => "else-acq",
        Op::OtherRelease => "else-rel",
        op => op.word(),
    }
}

/// Writes Snag's text format.
pub struct TextWriter<W> {
    out: W,
    /// Lines that were not handed to `out` yet.
    text: String,
    /// Whether the header was written.
    started: bool,
    /// Whether the last line still lacks its end.
    open: bool,
    /// Events written.
    count: u64,
    /// Comments written.
    comments: usize,
    /// How many declarations of each kind were written.
    declared: [usize; Directive::ALL.len()],
}

impl<W: Write> TextWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> TextWriter<W> {
        TextWriter { out, text: String::new(), started: false, open: false, count: 0, comments: 0, declared: [0; 4] }
    }

    /// Writes the next events. What the format cannot express is an error, not left out.
    pub fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
        self.start(tables)?;
        for index in 0..events.len() {
            let event = events.get(index);
            self.comments(tables, self.count)?;
            self.next_line(tables);
            let from = self.text.len();
            event_line(&mut self.text, &event, tables).map_err(|message| self.error(message))?;
            if self.text.len() - from + 2 > LONGEST_LINE {
                return Err(self.error(format!("its line would be longer than {LONGEST_LINE} bytes")));
            }
            self.count += 1;
            if self.text.len() > 1 << 16 {
                self.hand_out()?;
            }
        }
        self.hand_out()
    }

    /// Writes what stands after the last event, ends the last line and hands out the writer.
    pub fn finish(mut self, tables: &Tables) -> Result<W> {
        self.start(tables)?;
        self.comments(tables, u64::MAX)?;
        if !tables.layout.open_end {
            self.next_line(tables);
        }
        self.hand_out()?;
        self.out.flush().map_err(cannot_write)?;
        Ok(self.out)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(Position::Event(self.count), format!("cannot be written as Snag text: {}", message.into()))
    }

    fn hand_out(&mut self) -> Result<()> {
        self.out.write_all(self.text.as_bytes()).map_err(cannot_write)?;
        self.text.clear();
        Ok(())
    }

    fn next_line(&mut self, tables: &Tables) {
        if self.open {
            self.text.push_str(if tables.layout.crlf { "\r\n" } else { "\n" });
        }
        self.open = true;
    }

    /// Writes the first line and the directives, or checks that no declaration was added since.
    fn start(&mut self, tables: &Tables) -> Result<()> {
        let declarations = &tables.declarations;
        if self.started {
            let late = Directive::ALL.into_iter().any(|d| self.declared[d as usize] < declared(declarations, d));
            let message = "the trace declares something after its first event; directives stand before all events";
            return if late { Err(self.error(message)) } else { Ok(()) };
        }
        self.started = true;
        self.next_line(tables);
        self.text.push_str(FIRST_LINE);
        let marker = |c: &(u64, String)| if c.0 == 0 { Directive::by_word(&c.1) } else { None };
        if tables.comments.iter().take_while(|c| c.0 == 0).any(|c| marker(c).is_some()) {
            while let Some(comment) = tables.comments.get(self.comments).filter(|c| c.0 == 0) {
                match marker(comment) {
                    Some(directive) => self.directives(tables, directive, 1),
                    None => self.comment(tables, &comment.1)?,
                }
                self.comments += 1;
            }
        }
        for directive in Directive::ALL {
            self.directives(tables, directive, usize::MAX);
        }
        Ok(())
    }

    /// Writes at most `count` more directives of a kind.
    fn directives(&mut self, tables: &Tables, directive: Directive, count: usize) {
        let from = self.declared[directive as usize];
        let to = declared(&tables.declarations, directive).min(from.saturating_add(count));
        for index in from..to {
            self.next_line(tables);
            directive_line(&mut self.text, directive, index, tables);
        }
        self.declared[directive as usize] = to;
    }

    /// Writes the comments that stand before an event, or before an earlier one that was not written.
    fn comments(&mut self, tables: &Tables, event: u64) -> Result<()> {
        while let Some((number, text)) = tables.comments.get(self.comments).filter(|c| c.0 <= event) {
            if *number < self.count {
                return Err(self.error(format!("a comment of event {number} was added too late")));
            }
            self.comment(tables, text)?;
            self.comments += 1;
        }
        Ok(())
    }

    fn comment(&mut self, tables: &Tables, text: &str) -> Result<()> {
        if !is_comment(text) {
            return Err(self.error("a comment neither is blank nor starts with '#'"));
        }
        self.next_line(tables);
        self.text.push_str(text);
        Ok(())
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::new(Position::Whole, format!("cannot write: {error}"))
}

/// How many declarations of a kind there are.
fn declared(declarations: &Declarations, directive: Directive) -> usize {
    match directive {
        Directive::Lock => declarations.plain_locks.len(),
        Directive::Semaphore => declarations.semaphores.len(),
        Directive::Barrier => declarations.barriers.len(),
        Directive::Init => declarations.initial.len(),
    }
}

fn directive_line(out: &mut String, directive: Directive, index: usize, tables: &Tables) {
    let declarations = &tables.declarations;
    out.push_str(directive.word());
    out.push(' ');
    let name = |space: Space, id: u32| spelled(tables.names(space).get(id as usize));
    match directive {
        Directive::Lock => put!(out, "{} plain", name(Space::Lock, declarations.plain_locks[index].0)),
        Directive::Semaphore => {
            let (id, count) = declarations.semaphores[index];
            put!(out, "{} {count}", name(Space::Semaphore, id.0))
        }
        Directive::Barrier => {
            let (id, parties) = declarations.barriers[index];
            put!(out, "{} {parties}", name(Space::Barrier, id.0))
        }
        Directive::Init => {
            let (id, value) = declarations.initial[index];
            put!(out, "{} {value}", spelled_variable(tables.variable(id), tables))
        }
    }
}

fn event_line(out: &mut String, event: &Event, tables: &Tables) -> std::result::Result<(), String> {
    let thread = tables.thread_name(event.thread);
    let location = tables.location_name(event.location);
    if thread.is_empty() || thread.starts_with(['#', '%']) || thread.contains(['|', '\n']) {
        return Err("a thread's name is empty, starts with '#' or '%', or holds '|' or a line end".to_owned());
    }
    if location.contains(['|', '\n']) || location.ends_with('\r') {
        return Err("a location holds '|' or a line end, or ends in a carriage return".to_owned());
    }
    if (event.value.is_some() && !event.op.takes_value()) || (event.written.is_some() && event.op != Op::Rmw) {
        return Err(format!("'{}' has a value", event.op.word()));
    }
    if let Action::Branch { condition, taken: Some(taken), .. } = event.action()
        && (condition.is_none() || !matches!(taken, 0 | 1))
    {
        return Err("the outcome of a branch is 0 or 1, and it has a condition".to_owned());
    }
    // What is in the columns beyond the event's action would be lost.
    if (event.op.is_atomic() || event.op == Op::Fence) && MemoryOrder::from_code(event.aux).is_none() {
        return Err("unknown memory order".to_owned());
    }
    if event.aux != 0 && !event.op.takes_aux() {
        return Err(format!("'{}' refers to a second thing", event.op.word()));
    }
    out.push_str(thread);
    out.push('|');
    out.push_str(word(event.op));
    operands(out, event.action(), tables)?;
    out.push('|');
    out.push_str(location);
    Ok(())
}

/// The members of a set, with commas in between.
fn members(out: &mut String, set: ReachId, tables: &Tables) {
    for (i, &object) in tables.reach_objects(set).iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        out.push_str(&spelled_object(object, tables));
    }
}

/// All that follows the word of the operation.
fn operands(out: &mut String, action: Action, tables: &Tables) -> std::result::Result<(), String> {
    let name = |space: Space, id: u32| spelled(tables.names(space).get(id as usize));
    let lock = |lock: LockId| name(Space::Lock, lock.0);
    let condition_name = |condition: CondId| name(Space::Condition, condition.0);
    let variable_name = |variable: VarId| spelled_variable(tables.variable(variable), tables);
    let expression = |id: ExprId| match tables.names(Space::Expression).get(id.index()) {
        text if text.contains(['|', '\n']) => Err("an expression holds '|' or a line end".to_owned()),
        text => Ok(text),
    };
    let shown = |value: Option<i64>| value.map_or(String::new(), |value| format!("={value}"));
    match action {
        Action::Begin | Action::End => {}
        Action::Read { variable, value, into } => {
            put!(out, "({}){}", variable_name(variable), shown(value));
            symbol_read(out, into, tables);
        }
        Action::Else(Else::Read { variable, into }) => {
            put!(out, "({})", variable_name(variable));
            symbol_read(out, into, tables);
        }
        Action::Write { variable, value, of } => {
            put!(out, "({}){}", variable_name(variable), shown(value));
            if let Some(of) = of {
                put!(out, "<-{}", expression(of)?);
            }
        }
        Action::Else(Else::Write { variable, of }) => {
            put!(out, "({})", variable_name(variable));
            if let Some(of) = of {
                put!(out, "<-{}", expression(of)?);
            }
        }
        Action::AtomicRead { variable, order, value } | Action::AtomicWrite { variable, order, value } => {
            put!(out, "({},{}){}", variable_name(variable), order.word(), shown(value));
        }
        Action::Rmw { variable, order, read, written } => {
            put!(out, "({},{})", variable_name(variable), order.word());
            let shown = |value: Option<i64>| value.map_or("?".to_owned(), |value| value.to_string());
            if read.or(written).is_some() {
                put!(out, "={}:{}", shown(read), shown(written));
            }
        }
        Action::Acquire { lock: taken, gives_up, .. } => {
            put!(out, "({}{})", lock(taken), if gives_up { ",try" } else { "" });
        }
        Action::Release { lock: taken, .. }
        | Action::Else(Else::Acquire { lock: taken } | Else::Release { lock: taken }) => {
            put!(out, "({})", lock(taken));
        }
        Action::Fork { thread, spelling } | Action::Join { thread, spelling } => {
            put!(out, "({}", name(Space::Thread, thread.0));
            if let Some(spelling) = spelling {
                put!(out, ",{}", name(Space::Text, spelling.0));
            }
            out.push(')');
        }
        Action::WaitBegin { condition, lock: given } | Action::WaitEnd { condition, lock: given } => {
            put!(out, "({},{})", condition_name(condition), lock(given));
        }
        Action::Wake { condition, by } => {
            put!(out, "({}", condition_name(condition));
            if let Some(notify) = by {
                put!(out, ",{}", notify.0);
            }
            out.push(')');
        }
        Action::Notify { condition } | Action::NotifyAll { condition } => put!(out, "({})", condition_name(condition)),
        Action::SemPost { semaphore } | Action::SemWait { semaphore } => {
            put!(out, "({})", name(Space::Semaphore, semaphore.0));
        }
        Action::Probe(Probe::Held { lock: wanted, .. }) => put!(out, "({})", lock(wanted)),
        Action::Probe(Probe::Count { semaphore, count }) => {
            put!(out, "({})={count}", name(Space::Semaphore, semaphore.0));
        }
        Action::Probe(Probe::Alive { thread }) => put!(out, "({})", name(Space::Thread, thread.0)),
        Action::BarrierEnter { barrier } | Action::BarrierLeave { barrier } => {
            put!(out, "({})", name(Space::Barrier, barrier.0));
        }
        Action::Alloc { variable } | Action::Free { variable } => put!(out, "({})", variable_name(variable)),
        Action::Reach { object, leads_to } => {
            put!(out, "({},{{", variable_name(object));
            members(out, leads_to, tables);
            out.push_str("})");
        }
        Action::Fence { order } => put!(out, "({})", order.word()),
        Action::MethodBegin { method, reach } => {
            let (open, close) = if tables.are_arguments(reach) { ("", "") } else { ("{", "}") };
            put!(out, "({},{open}", name(Space::Method, method.0));
            members(out, reach, tables);
            put!(out, "{close})");
        }
        Action::MethodEnd { method } => put!(out, "({})", name(Space::Method, method.0)),
        Action::Branch { condition, text, .. } | Action::Else(Else::Branch { condition, text }) => {
            if let Some(text) = text {
                put!(out, "{{{}}}", name(Space::Text, text.0));
            }
            if let Some(condition) = condition {
                put!(out, "({})", expression(condition)?);
            }
            if let Action::Branch { taken, .. } = action {
                out.push_str(&shown(taken));
            }
        }
        Action::Let { symbol, is } | Action::Else(Else::Let { symbol, is }) => {
            put!(out, "({})={}", name(Space::Symbol, symbol.0), expression(is)?);
        }
        Action::Fault(Fault::Stale { variable, .. }) => put!(out, "({})", variable_name(variable)),
        Action::Fault(
            Fault::Want { lock: wanted, .. } | Fault::Unheld { lock: wanted } | Fault::Gone { lock: wanted },
        ) => {
            put!(out, "({})", lock(wanted));
        }
        Action::Fault(Fault::Discard(primitive)) => put!(out, "({})", spelled_object(primitive.object(), tables)),
        Action::Mark { text } => put!(out, "({})", name(Space::Text, text.0)),
    }
    Ok(())
}

/// The symbol that a read is read into.
fn symbol_read(out: &mut String, into: Option<SymbolId>, tables: &Tables) {
    if let Some(symbol) = into {
        put!(out, "->{}", spelled(tables.names(Space::Symbol).get(symbol.index())));
    }
}
