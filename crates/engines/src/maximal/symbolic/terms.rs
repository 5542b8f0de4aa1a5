//! What expressions give, as bits for the solver, and what events have to meet.
//!
//! For each term a number, that it is known, and that it has no value. Symbols are what earlier events of the thread
//! have defined or read ([`crate::maximal::symbolic::cells`]).

use crate::maximal::search::Search;
use crate::maximal::symbolic::Symbolic;
use crate::maximal::symbolic::arithmetic::{Arithmetic, Computed};
use crate::maximal::symbolic::circuit::{Bit, NO, YES};
use crate::maximal::symbolic::number::{Number, WIDEST};
use snag_model::symbolic::{Binary, Node, Role, Sort, Term, binary};
use snag_model::{DefinitionId, EventId, TermId};
use std::collections::HashSet;

/// Arithmetic of so few bits are multiplied and divided bit by bit.
const NARROW: usize = 9;

/// What a term gives.
#[derive(Clone)]
pub(super) struct Value {
    pub number: Number,
    /// Whether it is known at all.
    pub known: Bit,
    /// That it has no value: division by zero and the like.
    pub undefined: Bit,
}

impl Value {
    fn constant(value: Option<i128>) -> Value {
        Value { number: Number::constant(value.unwrap_or(0)), known: Bit::Known(value.is_some()), undefined: NO }
    }
}

/// A product or a quotient whose bits are left open.
#[derive(Clone)]
pub(super) struct Open {
    number: Number,
    undefined: Bit,
    a: Number,
    b: Number,
}

/// Whether an operator is left open: what follows from a product of unknown factors is hard for a SAT solver to see,
/// and mostly there are only a few values to compute with.
fn is_hard(operator: Binary, a: &Number, b: &Number) -> bool {
    let open = |number: &Number| number.is_open() && number.width() > NARROW;
    match operator {
        Binary::Multiply => open(a) && open(b),
        Binary::Divide | Binary::Remainder => open(b) || b.is_open() && open(a),
        _ => false,
    }
}

impl<'i> Search<'_, 'i, Symbolic<'i>> {
    pub(super) fn arithmetic(&mut self) -> Arithmetic<'_, 'i> {
        Arithmetic { circuit: &mut self.encoding.circuit, formula: &mut self.formula }
    }

    pub(super) fn and(&mut self, a: Bit, b: Bit) -> Bit {
        self.encoding.circuit.and(&mut self.formula, a, b)
    }

    pub(super) fn or(&mut self, a: Bit, b: Bit) -> Bit {
        self.encoding.circuit.or(&mut self.formula, a, b)
    }

    pub(super) fn choose(&mut self, condition: Bit, yes: Bit, no: Bit) -> Bit {
        self.encoding.circuit.choose(&mut self.formula, condition, yes, no)
    }

    // Conditions that events have to meet.

    /// Tells the solver what an event has to meet if it happens: a branch goes where it should, what is computed has a
    /// value.
    pub(super) fn oblige(&mut self, event: EventId) {
        if !self.encoding.obliged.insert(event) {
            return;
        }
        let happens = match self.target.events.contains(&event) {
            true => YES,
            false => self.formula.happens(event),
        };
        if self.expressions().in_call(event) {
            let threads = &self.index.threads;
            let right = self.not_strayed(threads.thread(event), threads.position(event));
            self.formula.clause([!happens, right]);
        }
        let live = self.takes_effect(event);
        let other_side = self.index.op(event).on_other_side();
        match self.expressions().symbolic.role(event) {
            Role::Branch { condition, outcome } => {
                let value = self.term(condition);
                let is_true = self.arithmetic().is_not_zero(&value.number);
                let certain = self.and(value.known, !value.undefined);
                if other_side {
                    let right = self.and(certain, is_true);
                    self.formula.clause([!happens, !live, right]);
                } else {
                    let diverges = self.diverges(event);
                    let as_it_went = match outcome {
                        Some(true) => is_true,
                        Some(false) => !is_true,
                        None => NO,
                    };
                    let right = self.and(certain, as_it_went);
                    let same = self.as_observed_unless_plain(condition);
                    let right = self.or(right, same);
                    self.formula.clause([!happens, diverges, right]);
                    self.formula.clause([!diverges, certain]);
                    self.formula.clause([!diverges, !as_it_went]);
                }
            }
            Role::Let(definition) => {
                let term = self.expressions().symbolic.definition(definition).term.expect("a let has a term");
                let right = self.has_value(term, false, other_side);
                self.formula.clause([!happens, !live, right]);
            }
            Role::Write(term) => {
                let right = self.has_value(term, true, other_side);
                self.formula.clause([!happens, !live, right]);
            }
            // It may depend on all that its thread has read.
            Role::None | Role::Read(_) => {
                let threads = &self.index.threads;
                let right = self.not_strayed(threads.thread(event), threads.position(event));
                self.formula.clause([!happens, right]);
            }
        }
        self.settle();
        self.teach(event);
    }

    /// That a term has a value where it is computed; also one that fits into memory, if it is written.
    pub(super) fn has_value(&mut self, term: TermId, written: bool, other_side: bool) -> Bit {
        let Value { number, known, undefined } = self.term(term);
        let mut right = !undefined;
        if self.expressions().is_partial(term) {
            right = self.and(right, known);
        }
        if written && self.expressions().symbolic.term(term).sort == Sort::Int {
            for at in 64..number.width() {
                let differs = self.encoding.circuit.xor(&mut self.formula, number.bit(at), number.bit(63));
                let fits = self.or(!known, !differs);
                right = self.and(right, fits);
            }
        }
        match other_side {
            true => right,
            false => {
                let same = self.as_observed_unless_plain(term);
                self.or(right, same)
            }
        }
    }

    /// That a term is as in the trace; false if its value says as much.
    pub(super) fn as_observed_unless_plain(&mut self, term: TermId) -> Bit {
        let expressions = self.expressions();
        match expressions.symbols_of(term).into_iter().all(|symbol| expressions.is_plain(symbol)) {
            true => NO,
            false => self.as_observed_term(term),
        }
    }

    // Terms.

    pub(super) fn term(&mut self, term: TermId) -> Value {
        if let Some(value) = self.encoding.terms.get(&term) {
            return value.clone();
        }
        let Term { sort, node } = self.expressions().symbolic.term(term);
        let value = match node {
            Node::Constant(value) => Value::constant(Some(value)),
            Node::Symbol(definition) => self.symbol(definition),
            Node::Convert(part) => {
                let part = self.term(part);
                Value { number: self.arithmetic().convert(sort, &part.number), ..part }
            }
            Node::Unary(operator, part) => {
                let part = self.term(part);
                let Computed { number, undefined } = self.arithmetic().unary(operator, sort, &part.number);
                self.computed(number, undefined, part.known, part.undefined)
            }
            Node::Binary(operator @ (Binary::And | Binary::Or), a, b) => {
                let (a, b) = (self.term(a), self.term(b));
                let is_true = self.arithmetic().is_not_zero(&a.number);
                let (yes, no) = match operator {
                    Binary::And => (b, Value::constant(Some(0))),
                    _ => (Value::constant(Some(1)), b),
                };
                self.chosen(is_true, &a, &yes, &no)
            }
            Node::Binary(operator, a, b) => {
                let (a, b) = (self.term(a), self.term(b));
                let Computed { number, undefined } = match is_hard(operator, &a.number, &b.number) {
                    true => self.leave_open(term, operator, sort, &a.number, &b.number),
                    false => self.arithmetic().binary(operator, sort, &a.number, &b.number),
                };
                let known = self.and(a.known, b.known);
                let parts = self.or(a.undefined, b.undefined);
                self.computed(number, undefined, known, parts)
            }
            Node::Choose(condition, yes, no) => {
                let (condition, yes, no) = (self.term(condition), self.term(yes), self.term(no));
                let is_true = self.arithmetic().is_not_zero(&condition.number);
                self.chosen(is_true, &condition, &yes, &no)
            }
        };
        self.encoding.terms.insert(term, value.clone());
        value
    }

    /// A product or a quotient of numbers that the solver is free to choose: some result, about which it is told what
    /// runs have shown ([`Search::teach`]).
    pub(super) fn leave_open(
        &mut self,
        term: TermId,
        operator: Binary,
        sort: Sort,
        a: &Number,
        b: &Number,
    ) -> Computed {
        let width = match (sort, operator) {
            (Sort::Bits { width, .. }, _) => width as usize,
            (_, Binary::Multiply) => (a.width() + b.width()).min(WIDEST),
            _ => (a.width() + 1).min(WIDEST),
        };
        let mut bits: Vec<Bit> = (0..width).map(|_| self.formula.derived()).collect();
        if let Sort::Bits { signed: false, .. } = sort {
            bits.push(NO);
        }
        let undefined = match operator {
            Binary::Multiply if a.width() + b.width() <= WIDEST || sort != Sort::Int => NO,
            Binary::Multiply => self.formula.derived(),
            _ => {
                let smallest = match sort {
                    Sort::Bits { width, signed: true } => Some(-1i128 << (width - 1)),
                    Sort::Bits { .. } => None,
                    _ => Some(i128::MIN),
                };
                let by_zero = !self.arithmetic().is_not_zero(b);
                let overflow = match smallest {
                    None => NO,
                    Some(smallest) => self.are(a, smallest, b, -1),
                };
                self.or(by_zero, overflow)
            }
        };
        let result = Open { number: Number::from_bits(bits), undefined, a: a.clone(), b: b.clone() };
        let computed = Computed { number: result.number.clone(), undefined };
        self.encoding.hard.insert(term, result);
        computed
    }

    /// That two numbers have these values.
    pub(super) fn are(&mut self, a: &Number, first: i128, b: &Number, second: i128) -> Bit {
        let a = self.arithmetic().equal(a, &Number::constant(first));
        let b = self.arithmetic().equal(b, &Number::constant(second));
        self.and(a, b)
    }

    /// Tells the solver which products and quotients the last run has computed for what an event depends on.
    pub(super) fn teach(&mut self, event: EventId) {
        if self.encoding.hard.is_empty() {
            return;
        }
        let expressions = self.expressions();
        let mut terms: Vec<TermId> = expressions.term_of(event).into_iter().collect();
        let mut seen: HashSet<TermId> = HashSet::new();
        while let Some(term) = terms.pop() {
            if !seen.insert(term) {
                continue;
            }
            match expressions.symbolic.term(term).node {
                Node::Constant(_) => {}
                Node::Symbol(symbol) => {
                    if !self.is_settled(symbol) {
                        terms.extend(expressions.symbolic.definition(symbol).term);
                    }
                }
                Node::Convert(a) | Node::Unary(_, a) => terms.push(a),
                Node::Choose(a, b, c) => terms.extend([a, b, c]),
                Node::Binary(operator, a, b) => {
                    terms.extend([a, b]);
                    if let (Some(first), Some(second)) = (self.run.values.value_of(a), self.run.values.value_of(b)) {
                        self.point(term, operator, first, second);
                    }
                }
            }
        }
    }

    /// What an operator makes of two numbers.
    pub(super) fn point(&mut self, term: TermId, operator: Binary, first: i128, second: i128) {
        let Some(open) = self.encoding.hard.get(&term).cloned() else { return };
        if !self.encoding.points.insert((term, first, second)) {
            return;
        }
        let here = self.are(&open.a, first, &open.b, second);
        match binary(operator, self.expressions().symbolic.term(term).sort, first, second) {
            Err(_) => self.formula.clause([!here, open.undefined]),
            Ok(value) => {
                self.formula.clause([!here, !open.undefined]);
                for at in 0..open.number.width() {
                    let bit = open.number.bit(at);
                    self.formula.clause([!here, if value >> at.min(WIDEST - 1) & 1 == 1 { bit } else { !bit }]);
                }
            }
        }
    }

    pub(super) fn computed(&mut self, number: Number, undefined: Bit, known: Bit, parts: Bit) -> Value {
        let here = self.and(known, undefined);
        Value { number, known, undefined: self.or(parts, here) }
    }

    /// One of two, of which only the one is computed that the condition chooses.
    pub(super) fn chosen(&mut self, is_true: Bit, condition: &Value, yes: &Value, no: &Value) -> Value {
        let number = self.arithmetic().choose(is_true, &yes.number, &no.number);
        let known = self.choose(is_true, yes.known, no.known);
        let undefined = self.choose(is_true, yes.undefined, no.undefined);
        let undefined = self.and(condition.known, undefined);
        Value { number, known: self.and(condition.known, known), undefined: self.or(condition.undefined, undefined) }
    }

    pub(super) fn symbol(&mut self, symbol: DefinitionId) -> Value {
        if let Some(value) = self.encoding.symbols.get(&symbol) {
            return value.clone();
        }
        // Definitions may form a long chain: the first ones first, so that this goes no deeper than one of them.
        let mut todo = vec![symbol];
        let mut chain = HashSet::new();
        while let Some(symbol) = todo.pop() {
            let definition = self.expressions().symbolic.definition(symbol);
            if self.encoding.symbols.contains_key(&symbol) || !chain.insert(symbol) {
                continue;
            }
            if let Some(term) = definition.term.filter(|_| !self.is_settled(symbol)) {
                todo.extend(self.expressions().symbols_of(term));
            }
        }
        let mut chain: Vec<DefinitionId> = chain.into_iter().collect();
        chain.sort_unstable();
        for symbol in chain {
            if !self.encoding.symbols.contains_key(&symbol) {
                let value = self.symbol_alone(symbol);
                self.encoding.symbols.insert(symbol, value);
            }
        }
        self.encoding.symbols[&symbol].clone()
    }

    /// Whether a symbol has one value in all schedules.
    pub(super) fn is_settled(&self, symbol: DefinitionId) -> bool {
        self.expressions().symbolic.definition(symbol).event < self.formula.base
            || self.expressions().fixed_value(symbol).is_some()
    }

    pub(super) fn symbol_alone(&mut self, symbol: DefinitionId) -> Value {
        let definition = self.expressions().symbolic.definition(symbol);
        if self.is_settled(symbol) {
            return Value::constant(definition.value);
        }
        if let Some(term) = definition.term {
            let Value { number, known, undefined } = self.term(term);
            return Value { number, known: self.and(known, !undefined), undefined: NO };
        }
        let read = definition.event;
        let found = self.found(read);
        let (bits, known) = (found.bits.clone(), found.known);
        let number = self.arithmetic().convert(definition.sort, &Number::from_bits(bits));
        if self.expressions().is_plain(symbol) || self.index.op(read).on_other_side() {
            return Value { number, known, undefined: NO };
        }
        // What the trace says need not be what memory held.
        let agrees = self.agrees(read);
        let recorded = Value::constant(definition.value);
        let number = self.arithmetic().choose(agrees, &recorded.number, &number);
        Value { number, known: self.choose(agrees, recorded.known, known), undefined: NO }
    }
}
