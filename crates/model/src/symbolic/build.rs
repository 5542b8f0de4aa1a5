//! Binds symbols, parses expressions, and evaluates them on the recorded values.

use super::parse::{Wrong, parse};
use super::{Definition, Role, Sort, Symbolic, Terms, Undefined, evaluate};
use crate::events::Event;
use crate::ids::*;
use crate::op::Op;
use crate::tables::{Space, Tables, Variable};
use crate::validate::Rule;
use std::collections::HashMap;

type Check<T = ()> = Result<T, (Rule, String)>;

/// Follows the symbolic events of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    terms: Terms,
    definitions: Vec<Definition>,
    /// By event; only as long as needed so far.
    roles: Vec<Role>,
    threads: Vec<Scope>,
}

/// The symbols of a thread.
#[derive(Clone, Debug, Default)]
struct Scope {
    symbols: HashMap<Box<str>, DefinitionId>,
    /// Symbols of the other side of the last branch, which only that side sees. Their names stay taken.
    side: Vec<Box<str>>,
}

/// The name and the type of a symbol as its definition spells it: `v`, or `v:i32`.
fn name_and_sort(spelled: &str) -> (&str, Option<Sort>) {
    match spelled.rsplit_once(':') {
        Some((name, word)) if Sort::from_word(word).is_some() => (name, Sort::from_word(word)),
        _ => (spelled, None),
    }
}

/// `v:u2` is meant as a type and is none. As a name no expression could use it, and the value would get another type.
fn is_no_misspelled_type(name: &str) -> Check {
    let Some((_, word)) = name.rsplit_once(':') else { return Ok(()) };
    let width = word.strip_prefix(['i', 'u']);
    if width.is_some_and(|width| !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit())) {
        let known: Vec<&str> = Sort::ALL.into_iter().map(Sort::word).collect();
        return Err((Rule::BadExpression, format!("'{word}' is no type: expected one of {}", known.join(", "))));
    }
    Ok(())
}

impl Builder {
    /// The next event that has to do with symbols. Ids are known to stand for something.
    pub(crate) fn event(&mut self, number: usize, event: &Event, tables: &Tables) -> Check {
        let thread = event.thread;
        if self.threads.len() <= thread.index() {
            self.threads.resize_with(thread.index() + 1, Scope::default);
        }
        if !event.op.on_other_side() {
            self.leave_side(thread);
        }
        let role = match event.op {
            Op::Read | Op::OtherRead => {
                let Some(symbol) = event.aux.checked_sub(1) else { return Ok(()) };
                let (name, sort) = name_and_sort(tables.names(Space::Symbol).get(symbol as usize));
                is_no_misspelled_type(name)?;
                let sort = sort.unwrap_or(Sort::DEFAULT);
                is_as_wide(event, sort, tables)?;
                let value = event.value.map(|memory| sort.from_memory(memory));
                if let (Some(memory), Some(value)) = (event.value, value)
                    && sort.to_memory(value) != Some(memory)
                {
                    return Err((Rule::ValueOutOfType, format!("{memory} is no value of type {sort}")));
                }
                Role::Read(self.define(number, event, name, Definition { value, ..new(sort) })?)
            }
            Op::Write | Op::OtherWrite => {
                let Some(expression) = event.aux.checked_sub(1) else { return Ok(()) };
                let term = self.expression(thread, expression, tables)?;
                let sort = self.terms.sort(term);
                is_as_wide(event, sort, tables)?;
                if event.op == Op::Write {
                    self.wrote(term, event.value)?;
                }
                Role::Write(term)
            }
            Op::Let | Op::OtherLet => {
                let term = self.expression(thread, event.aux, tables)?;
                let (name, said) = name_and_sort(tables.names(Space::Symbol).get(event.target as usize));
                is_no_misspelled_type(name)?;
                let sort = self.terms.sort(term);
                if let Some(said) = said.filter(|&said| said != sort) {
                    let message = format!("symbol {name} is said to be {said} and defined as {sort}");
                    return Err((Rule::BadExpression, message));
                }
                let value = if event.op == Op::Let { self.value(term)? } else { None };
                Role::Let(self.define(number, event, name, Definition { term: Some(term), value, ..new(sort) })?)
            }
            Op::Branch | Op::OtherBranch => {
                let Some(expression) = event.aux.checked_sub(1) else { return Ok(()) };
                let term = self.expression(thread, expression, tables)?;
                let condition = self.terms.truth(term);
                let outcome = match event.op {
                    Op::Branch => self.went(condition, event.value)?,
                    _ => Some(true),
                };
                Role::Branch { condition, outcome }
            }
            _ => return Ok(()),
        };
        self.roles.resize(number, Role::None);
        self.roles.push(role);
        Ok(())
    }

    /// All that was seen, for a trace of so many events.
    pub(crate) fn finish(mut self, events: usize) -> Symbolic {
        if !self.roles.is_empty() {
            self.roles.resize(events, Role::None);
        }
        Symbolic { terms: self.terms, definitions: self.definitions, roles: self.roles }
    }

    /// Another event of a thread: what its last other side has defined is not seen any more.
    pub(crate) fn leave_side(&mut self, thread: ThreadId) {
        let Some(scope) = self.threads.get_mut(thread.index()) else { return };
        for name in std::mem::take(&mut scope.side) {
            scope.symbols.insert(name, DefinitionId(u32::MAX));
        }
    }

    fn define(&mut self, number: usize, event: &Event, name: &str, definition: Definition) -> Check<DefinitionId> {
        let scope = &mut self.threads[event.thread.index()];
        if scope.symbols.contains_key(name) {
            return Err((Rule::SymbolDefinedTwice, format!("symbol {name} is defined again")));
        }
        let id = DefinitionId::new(self.definitions.len());
        scope.symbols.insert(name.into(), id);
        if event.op.on_other_side() {
            scope.side.push(name.into());
        }
        self.definitions.push(Definition { thread: event.thread, event: EventId::new(number), ..definition });
        Ok(id)
    }

    fn expression(&mut self, thread: ThreadId, expression: u32, tables: &Tables) -> Check<TermId> {
        let text = tables.names(Space::Expression).get(expression as usize);
        let (symbols, definitions) = (&self.threads[thread.index()].symbols, &self.definitions);
        let known = |name: &str| {
            let id = *symbols.get(name)?;
            // A symbol of another branch's other side has no definition here.
            Some((id, definitions.get(id.index())?.sort))
        };
        parse(text, &mut self.terms, known).map_err(|wrong| match wrong {
            Wrong::Form(message) => (Rule::BadExpression, message),
            Wrong::Undefined(symbol) => (Rule::SymbolUndefined, format!("symbol {symbol} has no value here")),
        })
    }

    /// The value of a term in the trace, where known.
    fn value(&self, term: TermId) -> Check<Option<i128>> {
        let symbol = |id: DefinitionId| self.definitions[id.index()].value;
        evaluate(self.terms.all(), term, &symbol).map_err(undefined)
    }

    /// What is written is what the expression gives.
    fn wrote(&self, term: TermId, recorded: Option<i64>) -> Check {
        let Some(value) = self.value(term)? else { return Ok(()) };
        let memory = self.terms.sort(term).to_memory(value).ok_or_else(|| undefined(Undefined::TooLarge))?;
        match recorded {
            Some(recorded) if recorded != memory => {
                Err((Rule::WrongValue, format!("{recorded} is written although the expression gives {memory}")))
            }
            _ => Ok(()),
        }
    }

    /// The way a branch went; it is what its condition says.
    fn went(&self, condition: TermId, recorded: Option<i64>) -> Check<Option<bool>> {
        let value = self.value(condition)?.map(|value| value != 0);
        let recorded = recorded.map(|outcome| outcome != 0);
        match (value, recorded) {
            (Some(value), Some(recorded)) if value != recorded => {
                let message = format!("the branch went to {} although its condition is {value}", recorded as u8);
                Err((Rule::WrongValue, message))
            }
            _ => Ok(value.or(recorded)),
        }
    }
}

fn undefined(why: Undefined) -> (Rule, String) {
    (Rule::UndefinedResult, format!("the expression has no value: {why}"))
}

/// A definition that is not complete yet.
fn new(sort: Sort) -> Definition {
    Definition { thread: ThreadId(0), event: EventId(0), sort, term: None, value: None }
}

/// Bytes in memory say what a number is only if they are as many as its type has.
fn is_as_wide(event: &Event, sort: Sort, tables: &Tables) -> Check {
    match tables.variable(VarId(event.target)) {
        Variable::Range { size, .. } if sort.width().map(u64::from) != size.checked_mul(8) => {
            let message = format!("{size} bytes hold no value of type {sort}");
            Err((Rule::WidthDiffers, message))
        }
        _ => Ok(()),
    }
}
