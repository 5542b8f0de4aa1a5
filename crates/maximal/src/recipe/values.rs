//! What reads find, writes leave and expressions give, as bits for the solver.
//!
//! For each term a number, that it is known, and that it has no value. A read finds what one of the writes left that it
//! may see: a variable for each says which, and implies that the bits are equal. What a write leaves follows from its
//! expression; as that depends on reads again, which depend on writes, the bits of a write may be left open at first
//! and equated later. Left open they say less, so what the solver refutes stays refuted.

use crate::index::Index;
use crate::memory::{Source, Writes};
use crate::recipe::circuit::{Bit, NO, YES};
use crate::recipe::number::{Computed, Number, Numbers, WIDEST};
use crate::recipe::search::Search;
use snag_trace::symbolic::{Binary, Node, Role, Sort, binary};
use snag_trace::{DefinitionId, EventId, TermId, VarId, Variable};
use std::collections::HashSet;

/// So many reads are encoded with all that they depend on at once; further ones only as far as a run shows it to be
/// necessary.
const AT_ONCE: usize = 300;
/// Further than this nothing is followed at once: the stack is finite.
const DEEPEST: u32 = 50;
/// Numbers of so few bits are multiplied and divided bit by bit.
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

/// What a write leaves in memory.
#[derive(Clone)]
pub(super) struct Written {
    /// Its 64 bits.
    bits: Vec<Bit>,
    known: Bit,
    /// It follows from the term that is written; otherwise it is left open.
    pub defined: bool,
}

/// What a read finds.
#[derive(Clone)]
pub(super) struct Found {
    /// Per cell what it may see, and that it does.
    pub choices: Vec<Vec<(Source, Bit)>>,
    /// The 64 bits that it finds.
    bits: Vec<Bit>,
    known: Bit,
}

/// A product or a quotient whose bits are left open.
#[derive(Clone)]
pub(super) struct Open {
    number: Number,
    undefined: Bit,
    a: Number,
    b: Number,
}

/// Whether an operator is left open: what follows from a product of unknown factors is hard for a SAT solver to see, and
/// mostly there are only a few values to compute with.
fn is_hard(operator: Binary, a: &Number, b: &Number) -> bool {
    let open = |number: &Number| number.is_open() && number.width() > NARROW;
    match operator {
        Binary::Multiply => open(a) && open(b),
        Binary::Divide | Binary::Remainder => open(b) || b.is_open() && open(a),
        _ => false,
    }
}

/// The bits of a number that is known.
fn constant(value: u64, width: usize) -> Vec<Bit> {
    (0..width).map(|at| Bit::Known(value >> at & 1 == 1)).collect()
}

impl Search<'_, '_, '_, '_> {
    fn numbers(&mut self) -> Numbers<'_> {
        Numbers { circuit: &mut self.circuit, line: &mut self.line }
    }

    fn and(&mut self, a: Bit, b: Bit) -> Bit {
        self.circuit.and(&mut self.line, a, b)
    }

    fn or(&mut self, a: Bit, b: Bit) -> Bit {
        self.circuit.or(&mut self.line, a, b)
    }

    fn choose(&mut self, condition: Bit, yes: Bit, no: Bit) -> Bit {
        self.circuit.choose(&mut self.line, condition, yes, no)
    }

    // Conditions that events have to meet.

    /// Tells the solver what an event has to meet if it happens: a branch goes where it should, what is computed has a value.
    pub(super) fn oblige(&mut self, event: EventId) {
        if !self.obliged.insert(event) {
            return;
        }
        let happens = match self.target.contains(&event) {
            true => YES,
            false => self.line.included(&self.scope, event),
        };
        let live = self.live(event);
        let other_side = self.world.index.op(event).on_other_side();
        match self.world.symbolic.role(event) {
            Role::Branch { condition, outcome } => {
                let value = self.term(condition);
                let is_true = self.numbers().is_not_zero(&value.number);
                let certain = self.and(value.known, !value.undefined);
                if other_side {
                    let right = self.and(certain, is_true);
                    self.line.clause([!happens, !live, right]);
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
                    self.line.clause([!happens, diverges, right]);
                    self.line.clause([!diverges, certain]);
                    self.line.clause([!diverges, !as_it_went]);
                }
            }
            Role::Let(definition) => {
                let term = self.world.symbolic.definition(definition).term.expect("a let has a term");
                let right = self.has_value(term, false, other_side);
                self.line.clause([!happens, !live, right]);
            }
            Role::Write(term) => {
                let right = self.has_value(term, true, other_side);
                self.line.clause([!happens, !live, right]);
            }
            // It may depend on all that its thread has read.
            Role::None | Role::Read(_) => {
                let threads = &self.world.index.threads;
                let right = self.not_strayed(threads.thread(event), threads.position(event));
                self.line.clause([!happens, right]);
            }
        }
        self.settle_open();
        self.teach(event);
    }

    /// That a term has a value where it is computed; also one that fits into memory, if it is written.
    fn has_value(&mut self, term: TermId, written: bool, other_side: bool) -> Bit {
        let Value { number, known, undefined } = self.term(term);
        let mut right = !undefined;
        if self.world.is_partial(term) {
            right = self.and(right, known);
        }
        if written && self.world.symbolic.term(term).sort == Sort::Int {
            for at in 64..number.width() {
                let differs = self.circuit.xor(&mut self.line, number.bit(at), number.bit(63));
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
    fn as_observed_unless_plain(&mut self, term: TermId) -> Bit {
        let world = self.world;
        match world.symbols_of(term).into_iter().all(|symbol| world.is_plain(symbol)) {
            true => NO,
            false => self.as_observed_term(term),
        }
    }

    // Terms.

    pub(super) fn term(&mut self, term: TermId) -> Value {
        if let Some(value) = self.terms.get(&term) {
            return value.clone();
        }
        let snag_trace::symbolic::Term { sort, node } = self.world.symbolic.term(term);
        let value = match node {
            Node::Constant(value) => Value::constant(Some(value)),
            Node::Symbol(definition) => self.symbol(definition),
            Node::Convert(part) => {
                let part = self.term(part);
                Value { number: self.numbers().convert(sort, &part.number), ..part }
            }
            Node::Unary(operator, part) => {
                let part = self.term(part);
                let Computed { number, undefined } = self.numbers().unary(operator, sort, &part.number);
                self.computed(number, undefined, part.known, part.undefined)
            }
            Node::Binary(operator @ (Binary::And | Binary::Or), a, b) => {
                let (a, b) = (self.term(a), self.term(b));
                let is_true = self.numbers().is_not_zero(&a.number);
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
                    false => self.numbers().binary(operator, sort, &a.number, &b.number),
                };
                let known = self.and(a.known, b.known);
                let parts = self.or(a.undefined, b.undefined);
                self.computed(number, undefined, known, parts)
            }
            Node::Choose(condition, yes, no) => {
                let (condition, yes, no) = (self.term(condition), self.term(yes), self.term(no));
                let is_true = self.numbers().is_not_zero(&condition.number);
                self.chosen(is_true, &condition, &yes, &no)
            }
        };
        self.terms.insert(term, value.clone());
        value
    }

    /// A product or a quotient of numbers that the solver is free to choose: some result, about which it is told what
    /// runs have shown ([`Search::teach`]).
    fn leave_open(&mut self, term: TermId, operator: Binary, sort: Sort, a: &Number, b: &Number) -> Computed {
        let width = match (sort, operator) {
            (Sort::Bits { width, .. }, _) => width as usize,
            (_, Binary::Multiply) => (a.width() + b.width()).min(WIDEST),
            _ => (a.width() + 1).min(WIDEST),
        };
        let mut bits: Vec<Bit> = (0..width).map(|_| self.line.fresh(false)).collect();
        if let Sort::Bits { signed: false, .. } = sort {
            bits.push(NO);
        }
        let undefined = match operator {
            Binary::Multiply if a.width() + b.width() <= WIDEST || sort != Sort::Int => NO,
            Binary::Multiply => self.line.fresh(false),
            _ => {
                let smallest = match sort {
                    Sort::Bits { width, signed: true } => Some(-1i128 << (width - 1)),
                    Sort::Bits { .. } => None,
                    _ => Some(i128::MIN),
                };
                let by_zero = !self.numbers().is_not_zero(b);
                let overflow = match smallest {
                    None => NO,
                    Some(smallest) => self.are(a, smallest, b, -1),
                };
                self.or(by_zero, overflow)
            }
        };
        let result = Open { number: Number::from_bits(bits), undefined, a: a.clone(), b: b.clone() };
        let computed = Computed { number: result.number.clone(), undefined };
        self.hard.insert(term, result);
        computed
    }

    /// That two numbers have these values.
    fn are(&mut self, a: &Number, first: i128, b: &Number, second: i128) -> Bit {
        let a = self.numbers().equal(a, &Number::constant(first));
        let b = self.numbers().equal(b, &Number::constant(second));
        self.and(a, b)
    }

    /// Tells the solver which products and quotients the last run has computed for what an event depends on.
    pub(super) fn teach(&mut self, event: EventId) {
        if self.hard.is_empty() {
            return;
        }
        let world = self.world;
        let mut terms: Vec<TermId> = world.terms_of(event);
        let mut seen: HashSet<TermId> = HashSet::new();
        while let Some(term) = terms.pop() {
            if !seen.insert(term) {
                continue;
            }
            match world.symbolic.term(term).node {
                Node::Constant(_) => {}
                Node::Symbol(symbol) => {
                    if !self.is_settled(symbol) {
                        terms.extend(world.symbolic.definition(symbol).term);
                    }
                }
                Node::Convert(a) | Node::Unary(_, a) => terms.push(a),
                Node::Choose(a, b, c) => terms.extend([a, b, c]),
                Node::Binary(operator, a, b) => {
                    terms.extend([a, b]);
                    if let (Some(first), Some(second)) = (self.run.value_of(a), self.run.value_of(b)) {
                        self.point(term, operator, first, second);
                    }
                }
            }
        }
    }

    /// What an operator makes of two numbers.
    fn point(&mut self, term: TermId, operator: Binary, first: i128, second: i128) {
        let Some(open) = self.hard.get(&term).cloned() else { return };
        if !self.points.insert((term, first, second)) {
            return;
        }
        let here = self.are(&open.a, first, &open.b, second);
        match binary(operator, self.world.symbolic.term(term).sort, first, second) {
            Err(_) => self.line.clause([!here, open.undefined]),
            Ok(value) => {
                self.line.clause([!here, !open.undefined]);
                for at in 0..open.number.width() {
                    let bit = open.number.bit(at);
                    self.line.clause([!here, if value >> at.min(WIDEST - 1) & 1 == 1 { bit } else { !bit }]);
                }
            }
        }
    }

    fn computed(&mut self, number: Number, undefined: Bit, known: Bit, parts: Bit) -> Value {
        let here = self.and(known, undefined);
        Value { number, known, undefined: self.or(parts, here) }
    }

    /// One of two, of which only the one is computed that the condition chooses.
    fn chosen(&mut self, is_true: Bit, condition: &Value, yes: &Value, no: &Value) -> Value {
        let number = self.numbers().choose(is_true, &yes.number, &no.number);
        let known = self.choose(is_true, yes.known, no.known);
        let undefined = self.choose(is_true, yes.undefined, no.undefined);
        let undefined = self.and(condition.known, undefined);
        Value { number, known: self.and(condition.known, known), undefined: self.or(condition.undefined, undefined) }
    }

    fn symbol(&mut self, symbol: DefinitionId) -> Value {
        if let Some(value) = self.symbols.get(&symbol) {
            return value.clone();
        }
        // Definitions may form a long chain: the first ones first, so that this goes no deeper than one of them.
        let mut todo = vec![symbol];
        let mut chain = HashSet::new();
        while let Some(symbol) = todo.pop() {
            let definition = self.world.symbolic.definition(symbol);
            if self.symbols.contains_key(&symbol) || !chain.insert(symbol) {
                continue;
            }
            if let Some(term) = definition.term.filter(|_| !self.is_settled(symbol)) {
                todo.extend(self.world.symbols_of(term));
            }
        }
        let mut chain: Vec<DefinitionId> = chain.into_iter().collect();
        chain.sort_unstable();
        for symbol in chain {
            if !self.symbols.contains_key(&symbol) {
                let value = self.symbol_alone(symbol);
                self.symbols.insert(symbol, value);
            }
        }
        self.symbols[&symbol].clone()
    }

    /// Whether a symbol has one value in all schedules.
    fn is_settled(&self, symbol: DefinitionId) -> bool {
        self.world.symbolic.definition(symbol).event < self.scope.base || self.world.fixed_value(symbol).is_some()
    }

    fn symbol_alone(&mut self, symbol: DefinitionId) -> Value {
        let definition = self.world.symbolic.definition(symbol);
        if self.is_settled(symbol) {
            return Value::constant(definition.value);
        }
        if let Some(term) = definition.term {
            let Value { number, known, undefined } = self.term(term);
            return Value { number, known: self.and(known, !undefined), undefined: NO };
        }
        let read = definition.event;
        let found = self.found(read);
        let number = self.numbers().convert(definition.sort, &Number::from_bits(found.bits));
        if self.world.is_plain(symbol) || self.world.index.op(read).on_other_side() {
            return Value { number, known: found.known, undefined: NO };
        }
        // What the trace says need not be what memory held.
        let agrees = self.agrees(read);
        let recorded = Value::constant(definition.value);
        let number = self.numbers().choose(agrees, &recorded.number, &number);
        Value { number, known: self.choose(agrees, recorded.known, found.known), undefined: NO }
    }

    // Memory.

    /// What a read finds, in all its cells.
    pub(super) fn found(&mut self, read: EventId) -> Found {
        if let Some(found) = self.reads.get(&read) {
            return found.clone();
        }
        self.in_progress.push(read);
        let (happens, live) = (self.line.included(&self.scope, read), self.live(read));
        let Index { memory, cells, trace, .. } = self.world.index;
        let mut found = Found { choices: Vec::new(), bits: vec![NO; 64], known: YES };
        let variable = trace.tables.variable(VarId(trace.events.targets()[read.index()]));
        for cell in memory.cells_of(read) {
            let choices = self.choices(read, cell, happens, live);
            let (from, width) = match (variable, cells.bytes(cell)) {
                (Variable::Range { address, .. }, Some((start, bytes))) => (8 * (start - address), 8 * bytes),
                _ => (0, 64),
            };
            if from + width > 64 {
                found.known = NO;
                found.choices.push(choices);
                continue;
            }
            let mut contents = Vec::new();
            for &(source, _) in &choices {
                contents.push(self.content(source, cell, width as usize));
            }
            for at in 0..width as usize {
                let bits: Vec<Bit> = contents.iter().map(|content| content.0[at]).collect();
                found.bits[from as usize + at] = self.one_of(&choices, &bits);
            }
            let known: Vec<Bit> = contents.iter().map(|content| content.1).collect();
            let known = self.one_of(&choices, &known);
            found.known = self.and(found.known, known);
            found.choices.push(choices);
        }
        self.in_progress.pop();
        self.reads.insert(read, found.clone());
        found
    }

    /// The bit of the one that was chosen.
    fn one_of(&mut self, choices: &[(Source, Bit)], bits: &[Bit]) -> Bit {
        let Some(&first) = bits.first() else { return NO };
        if bits.iter().all(|&bit| bit == first) {
            return first;
        }
        let out = self.line.fresh(false);
        for (&(_, chosen), &bit) in choices.iter().zip(bits) {
            self.line.clause([!chosen, !bit, out]);
            self.line.clause([!chosen, bit, !out]);
        }
        out
    }

    /// What a read may see in a cell, each with a bit for that.
    fn choices(&mut self, read: EventId, cell: usize, happens: Bit, live: Bit) -> Vec<(Source, Bit)> {
        let seen = self.world.index.memory.seen_or_none(read, cell);
        let sources = self.sources(read, cell);
        let only = sources.len() == 1;
        let mut choices = Vec::new();
        for source in sources {
            let chosen = if only { YES } else { self.line.fresh(source == seen) };
            if let Some(write) = source.filter(|&write| write >= self.scope.base) {
                let earlier = self.line.before(&self.scope, write, read);
                let written = self.live(write);
                for needed in [earlier, written] {
                    self.line.clause([!happens, !live, !chosen, needed]);
                }
            }
            choices.push((source, chosen));
        }
        let mut parts = vec![!happens, !live];
        parts.extend(choices.iter().map(|choice| choice.1));
        self.line.clause(parts);
        choices
    }

    fn sources(&mut self, read: EventId, cell: usize) -> Vec<Source> {
        let Index { threads, memory, must, .. } = self.world.index;
        let base = self.scope.base;
        let (own, before) = (threads.thread(read), must.row(read));
        // Of each thread the last write that comes before the read in any case.
        let last_settled = |list: &Writes| {
            let count = if list.thread == own { threads.position(read) } else { before[list.thread] };
            let settled = list.events.partition_point(|&w| threads.position(w) < count);
            settled.checked_sub(1).map(|last| list.events[last])
        };
        let mut latest: Vec<EventId> = memory.writes(cell).filter_map(|list| last_settled(&list)).collect();
        let side = self.world.branch_of(read);
        let others = self.world.other_writes(cell);
        if side.is_some() {
            let same_side = |write: &&EventId| self.world.branch_of(**write) == side && **write < read;
            latest.extend(others.iter().rev().find(same_side));
        }
        latest.retain(|&write| write >= base);
        let mut writes: Vec<EventId> = Vec::new();
        for list in memory.writes(cell) {
            let from = list.events.partition_point(|&w| w < base);
            let to = list.events.partition_point(|&w| self.scope.may(w));
            writes.extend(&list.events[from.min(to)..to]);
        }
        for &write in others.iter().filter(|&&write| write >= base && self.scope.may(write)) {
            let branch = self.world.branch_of(write);
            let possible = match threads.thread(write) == own {
                true => branch == side,
                false => true,
            };
            if possible && self.world.side_with(write).is_some_and(|side| threads.position(write) < side.end) {
                writes.push(write);
            }
        }
        let scope = &self.scope;
        writes.retain(|&write| {
            let hidden = |&other: &EventId| other != write && scope.settled(write, other) == Some(true);
            write != read && scope.settled(write, read) != Some(false) && !latest.iter().any(hidden)
        });
        writes.sort_unstable();
        let mut sources: Vec<Source> = Vec::new();
        if latest.is_empty() {
            sources.push(if base == EventId(0) { None } else { memory.last_before(cell, base) });
        }
        for write in writes {
            if self.live(write) != NO {
                sources.push(Some(write));
            }
        }
        sources
    }

    /// What a cell holds after a write, or held at the start, as so many bits; and that this is known.
    fn content(&mut self, source: Source, cell: usize, width: usize) -> (Vec<Bit>, Bit) {
        let Index { memory, cells, trace, .. } = self.world.index;
        let Some(write) = source else {
            let value = memory.value_left(None, cell);
            return (constant(value.unwrap_or(0), width), Bit::Known(value.is_some()));
        };
        let written = self.written(write);
        let variable = trace.tables.variable(VarId(trace.events.targets()[write.index()]));
        let from = match (variable, cells.bytes(cell)) {
            (Variable::Range { size: 9.., .. }, _) => return (vec![NO; width], NO),
            (Variable::Range { address, .. }, Some((start, _))) => 8 * (start - address) as usize,
            _ => 0,
        };
        (written.bits[from..from + width].to_vec(), written.known)
    }

    fn written(&mut self, write: EventId) -> Written {
        if let Some(written) = self.writes.get(&write) {
            return written.clone();
        }
        let threads = &self.world.index.threads;
        let role = self.world.symbolic.role(write);
        let written = match role {
            _ if write < self.scope.base => self.as_recorded(write, YES),
            Role::Write(term) if self.follow_now(term) => {
                self.depth += 1;
                let written = self.of_term(term);
                self.depth -= 1;
                // Something may have asked for it on the way.
                if let Some(open) = self.writes.get(&write).cloned() {
                    self.equate(&open, &written);
                }
                written
            }
            Role::Write(term) => {
                self.open.push(write);
                let sort = self.world.symbolic.term(term).sort;
                let own = sort.width().map_or(64, usize::from);
                let mut bits: Vec<Bit> = (0..own).map(|_| self.line.fresh(false)).collect();
                let fill = match sort {
                    Sort::Bits { signed: false, .. } => NO,
                    _ => bits[own - 1],
                };
                bits.resize(64, fill);
                Written { bits, known: self.line.fresh(true), defined: false }
            }
            _ => {
                let rmw = self.world.index.op(write) == snag_trace::Op::Rmw;
                let count = threads.position(write) + rmw as u32;
                let nothing_read = self.first_read(threads.thread(write)) >= count;
                let as_observed = if nothing_read { YES } else { self.as_observed_write(write) };
                self.as_recorded(write, as_observed)
            }
        };
        self.writes.insert(write, written.clone());
        written
    }

    /// Whether to encode what a term depends on now.
    fn follow_now(&self, term: TermId) -> bool {
        let reads = self.reads_of(term);
        let new = reads.iter().any(|read| !self.reads.contains_key(read));
        let cyclic = reads.iter().any(|read| self.in_progress.contains(read));
        !cyclic && (!new || self.depth < DEEPEST && self.reads.len() < AT_ONCE)
    }

    /// The reads that a term depends on, in its own thread.
    pub(super) fn reads_of(&self, term: TermId) -> Vec<EventId> {
        let (mut todo, mut seen) = (self.world.symbols_of(term), HashSet::new());
        let mut reads = Vec::new();
        while let Some(symbol) = todo.pop() {
            if self.is_settled(symbol) || !seen.insert(symbol) {
                continue;
            }
            let definition = self.world.symbolic.definition(symbol);
            match definition.term {
                Some(term) => todo.extend(self.world.symbols_of(term)),
                None => reads.push(definition.event),
            }
        }
        reads
    }

    fn as_recorded(&mut self, write: EventId, as_observed: Bit) -> Written {
        let value = self.world.wrote(write);
        let known = if value.is_some() { as_observed } else { NO };
        Written { bits: constant(value.unwrap_or(0) as u64, 64), known, defined: true }
    }

    fn of_term(&mut self, term: TermId) -> Written {
        let Value { number, known, undefined } = self.term(term);
        Written { bits: number.low(64), known: self.and(known, !undefined), defined: true }
    }

    fn equate(&mut self, open: &Written, is: &Written) {
        let pairs = open.bits.iter().zip(&is.bits).map(|(&a, &b)| (a, b));
        for (a, b) in pairs.chain([(open.known, is.known)]).collect::<Vec<_>>() {
            self.line.clause([!a, b]);
            self.line.clause([a, !b]);
        }
    }

    /// Says what a write leaves that was left open.
    pub(super) fn define(&mut self, write: EventId) {
        let Role::Write(term) = self.world.symbolic.role(write) else { return };
        let open = self.writes[&write].clone();
        if !open.defined {
            self.writes.get_mut(&write).expect("was just read").defined = true;
            let is = self.of_term(term);
            self.equate(&open, &is);
        }
    }

    /// Encodes what was left open, as far as that is done at once.
    pub(super) fn settle_open(&mut self) {
        loop {
            if let Some(write) = self.open_observed.pop() {
                let is = self.is_as_observed(write);
                let open = self.observed[&write];
                self.line.clause([!open, is]);
                self.line.clause([open, !is]);
            } else if self.reads.len() < AT_ONCE
                && let Some(write) = self.open.pop()
            {
                self.define(write);
            } else {
                return;
            }
        }
    }

    // What is as in the trace.

    /// That a read finds what it found in the trace.
    fn agrees(&mut self, read: EventId) -> Bit {
        if let Some(&agrees) = self.agreeing.get(&read) {
            return agrees;
        }
        let found = self.found(read);
        let memory = &self.world.index.memory;
        let mut all = YES;
        for (cell, choices) in memory.cells_of(read).zip(found.choices) {
            let mut any = NO;
            for (source, chosen) in choices {
                let agrees = self.agrees_with(read, cell, source);
                let both = self.and(chosen, agrees);
                any = self.or(any, both);
            }
            all = self.and(all, any);
        }
        self.agreeing.insert(read, all);
        all
    }

    fn agrees_with(&mut self, read: EventId, cell: usize, source: Source) -> Bit {
        let memory = &self.world.index.memory;
        let same = memory.seen(read, cell) == source;
        let by_write = match source {
            _ if !same => NO,
            Some(write) => self.as_observed_write(write),
            None => YES,
        };
        let by_value = match memory.wanted(read, cell) {
            None => NO,
            Some(value) => {
                let width = self.world.index.cells.bytes(cell).map_or(64, |(_, bytes)| 8 * bytes as usize);
                if width > 64 {
                    return by_write;
                }
                let (bits, known) = self.content(source, cell, width);
                let mut equal = known;
                for (at, bit) in bits.into_iter().enumerate() {
                    let right = if value >> at & 1 == 1 { bit } else { !bit };
                    equal = self.and(equal, right);
                }
                equal
            }
        };
        self.or(by_write, by_value)
    }

    /// That a write does what it did in the trace. Left open at first.
    fn as_observed_write(&mut self, write: EventId) -> Bit {
        if write < self.scope.base {
            return YES;
        }
        if let Some(&bit) = self.observed.get(&write) {
            return bit;
        }
        let bit = self.line.fresh(true);
        self.observed.insert(write, bit);
        self.open_observed.push(write);
        bit
    }

    fn is_as_observed(&mut self, write: EventId) -> Bit {
        let threads = &self.world.index.threads;
        let op = self.world.index.op(write);
        if op.on_other_side() {
            return NO;
        }
        let Role::Write(term) = self.world.symbolic.role(write) else {
            let rmw = op == snag_trace::Op::Rmw;
            return self.not_strayed(threads.thread(write), threads.position(write) + rmw as u32);
        };
        let same = self.as_observed_term(term);
        let Some(value) = self.world.index.trace.event(write).value_written() else { return same };
        let written = self.written(write);
        let mut equal = written.known;
        for (at, &bit) in written.bits.iter().enumerate() {
            let right = if value >> at & 1 == 1 { bit } else { !bit };
            equal = self.and(equal, right);
        }
        self.or(same, equal)
    }

    fn as_observed_term(&mut self, term: TermId) -> Bit {
        // As in the trace are those symbols whose reads are.
        let (mut todo, mut seen) = (self.world.symbols_of(term), HashSet::new());
        let mut all = YES;
        while let Some(symbol) = todo.pop() {
            if self.is_settled(symbol) || !seen.insert(symbol) {
                continue;
            }
            let definition = self.world.symbolic.definition(symbol);
            let same = match definition.term {
                _ if self.world.index.op(definition.event).on_other_side() => NO,
                Some(term) => {
                    todo.extend(self.world.symbols_of(term));
                    continue;
                }
                None => self.agrees(definition.event),
            };
            all = self.and(all, same);
        }
        all
    }

    /// The position of the first read of a thread that may find something else.
    fn first_read(&self, thread: usize) -> u32 {
        let reads = &self.world.reads[thread];
        let from = self.world.index.threads.count_before(thread, self.scope.base);
        reads.get(reads.partition_point(|&read| read < from)).copied().unwrap_or(u32::MAX)
    }

    /// That all reads among the first events of a thread find what they found in the trace.
    fn not_strayed(&mut self, thread: usize, count: u32) -> Bit {
        let world = self.world;
        let from = world.index.threads.count_before(thread, self.scope.base);
        let mut all = YES;
        for &read in world.reads[thread].iter().filter(|&&read| read >= from && read < count) {
            let agrees = self.agrees(world.index.threads.event(thread, read));
            all = self.and(all, agrees);
        }
        all
    }
}
