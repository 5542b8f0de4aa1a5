//! What a thread would have done had a branch gone the other way.
//!
//! The code behind the other way is followed as long as what it does is certain:
//! through assignments, accesses to places that do not depend on anything read,
//! locks, calls and branches whose condition does not depend on anything read. It ends at
//! the first thing that is not certain, or that concerns other threads beyond memory
//! and locks, or that leaves the program.

use crate::machine::{cell_of, in_bounds, is_partial, lock_of, object_of};
use crate::program::*;
use crate::symbols::{Sym, Values};
use crate::tracer::{symbol_name, typed};
use std::collections::HashMap;

/// Longest list of effects.
const MOST_EFFECTS: usize = 24;

/// Most instructions that are followed.
const MOST_INSTRUCTIONS: usize = 2_000;

/// Deepest calls.
const DEEPEST: usize = 50;

/// Something that would have happened.
pub(crate) struct Effect {
    pub line: u32,
    pub kind: Kind,
}

/// What.
pub(crate) enum Kind {
    Read { cell: usize, symbol: String },
    Write { cell: usize, text: String },
    Let { symbol: String, text: String },
    Branch { word: &'static str, text: String },
    Acquire(usize),
    Release(usize),
}

/// A call.
pub(crate) struct Frame {
    pub function: usize,
    pub next: usize,
    pub syms: Vec<Sym>,
    /// Values; those that depend on what is read mean nothing here.
    pub numbers: Vec<i128>,
    pub to: Option<Slot>,
}

/// The effects; the first of them would be event number `first`. `holds` says how often the thread holds a lock.
pub(crate) fn effects(
    program: &Program,
    frames: Vec<Frame>,
    holds: &dyn Fn(usize) -> u32,
    first: usize,
) -> Vec<Effect> {
    let mut side = Side { program, frames, holds, first, held: HashMap::new(), effects: Vec::new() };
    for _ in 0..MOST_INSTRUCTIONS {
        if side.effects.len() >= MOST_EFFECTS || side.step().is_none() {
            break;
        }
    }
    // What comes after the last access or lock leads to nothing.
    let leads = |effect: &Effect| matches!(effect.kind, Kind::Read { .. } | Kind::Write { .. } | Kind::Acquire(_));
    let end = side.effects.iter().rposition(leads).map_or(0, |last| last + 1);
    side.effects.truncate(end);
    side.effects
}

struct Side<'a> {
    program: &'a Program,
    frames: Vec<Frame>,
    holds: &'a dyn Fn(usize) -> u32,
    first: usize,
    /// How often locks are held that the side has touched.
    held: HashMap<usize, u32>,
    effects: Vec<Effect>,
}

impl Side<'_> {
    fn with<T>(&self, ask: impl FnOnce(&Values) -> T) -> T {
        let frame = self.frames.last().expect("it runs");
        let infos = &self.program.functions[frame.function].slots;
        ask(&Values { syms: &frame.syms, numbers: &frame.numbers, sorts: &|slot: Slot| infos[slot].sort })
    }

    fn depends(&self, slot: Slot) -> bool {
        self.frames.last().is_some_and(|frame| frame.syms[slot].depends())
    }

    fn number(&self, slot: Slot) -> Option<i128> {
        (!self.depends(slot)).then(|| self.frames.last().map(|frame| frame.numbers[slot])).flatten()
    }

    fn set(&mut self, line: u32, to: Slot, sym: Sym, number: i128) {
        let sym = match sym {
            // Deep expressions get a name, as in the trace.
            Sym::Expr { text, depends: true, depth } if depth > 60 => self.define(line, "t", &text),
            // What does not depend on anything read is its value.
            Sym::Expr { depends: false, .. } => Sym::Constant,
            sym => sym,
        };
        let frame = self.frames.last_mut().expect("it runs");
        frame.syms[to] = sym;
        frame.numbers[to] = number;
    }

    fn new_symbol(&self, name: &str) -> String {
        format!("{name}.{}", self.first + self.effects.len())
    }

    fn define(&mut self, line: u32, name: &str, text: &str) -> Sym {
        let symbol = self.new_symbol(name);
        self.effects.push(Effect { line, kind: Kind::Let { symbol: symbol.clone(), text: text.to_owned() } });
        Sym::symbol(&symbol, true)
    }

    /// The cell of a place that does not depend on anything read.
    fn cell(&self, place: Place) -> Option<usize> {
        let slot = match place {
            Place::Cell(_) => None,
            Place::Element(_, _, slot) | Place::Field(slot, _) => Some(slot),
        };
        if slot.is_some_and(|slot| self.depends(slot)) {
            return None;
        }
        cell_of(self.program, place, &self.frames.last()?.numbers).ok()
    }

    fn lock(&self, place: LockPlace) -> Option<usize> {
        if let LockPlace::Element(_, _, slot) = place
            && self.depends(slot)
        {
            return None;
        }
        lock_of(place, &self.frames.last()?.numbers).ok()
    }

    /// Follows one instruction; `None` where that cannot be done for certain.
    fn step(&mut self) -> Option<()> {
        let program = self.program;
        let frame = self.frames.last_mut()?;
        let code = &program.functions[frame.function];
        let (instruction, line) = &code.code[frame.next];
        let line = *line;
        frame.next += 1;
        let sort = |slot: Slot| code.slots[slot].sort;
        match instruction {
            Instruction::Constant { to, value } => self.set(line, *to, Sym::Constant, *value),
            Instruction::Copy { to, from } => {
                let number = sort(*to).convert(frame.numbers[*from]);
                let sym = self.with(|values| values.converted(*from, sort(*to)));
                self.set(line, *to, sym, number);
            }
            Instruction::Unary { operator, to, a } => {
                let number = snag_model::symbolic::unary(*operator, sort(*to), frame.numbers[*a]);
                let sym = self.with(|values| values.unary(*operator, *a)).unwrap_or(Sym::Constant);
                let number = if sym.depends() { 0 } else { number.ok()? };
                self.set(line, *to, sym, number);
            }
            Instruction::Binary { operator, to, a, b } => {
                let number = snag_model::symbolic::binary(*operator, sort(*to), frame.numbers[*a], frame.numbers[*b]);
                if is_partial(*operator)
                    && let Some((word, text, _)) = self.with(|values| values.is_defined(*operator, *a, *b))
                {
                    // A constant zero would make it fail whatever is read.
                    if matches!(word, "divisor") && self.number(*b) == Some(0) {
                        return None;
                    }
                    self.effects.push(Effect { line, kind: Kind::Branch { word, text } });
                }
                let sym = self.with(|values| values.binary(*operator, *a, *b)).unwrap_or(Sym::Constant);
                let number = if sym.depends() { 0 } else { number.ok()? };
                self.set(line, *to, sym, number);
            }
            Instruction::Defined { slot, .. } => {
                if self.depends(*slot) {
                    let text = self.with(|values| values.alone(*slot));
                    let symbol = self.define(line, &symbol_name(&code.slots[*slot].name), &text);
                    self.frames.last_mut()?.syms[*slot] = symbol;
                }
            }
            Instruction::Load { to, place } => {
                let cell = self.cell(*place)?;
                let info = &program.cells[cell];
                let symbol = self.new_symbol(&symbol_name(&info.name));
                self.effects.push(Effect { line, kind: Kind::Read { cell, symbol: typed(&symbol, info.sort) } });
                self.set(line, *to, Sym::symbol(&symbol, true), 0);
            }
            Instruction::Store { place, from } => {
                let cell = self.cell(*place)?;
                let text = self.with(|values| values.alone(*from));
                self.effects.push(Effect { line, kind: Kind::Write { cell, text } });
            }
            Instruction::LocalLoad { to, base, length, index } => {
                let element = base + in_bounds(self.number(*index)?, *length).ok()?;
                let frame = self.frames.last()?;
                let (sym, number) = (frame.syms[element].clone(), frame.numbers[element]);
                self.set(line, *to, sym, number);
            }
            Instruction::LocalStore { base, length, index, from } => {
                let element = base + in_bounds(self.number(*index)?, *length).ok()?;
                let frame = self.frames.last()?;
                let (sym, number) = (frame.syms[*from].clone(), frame.numbers[*from]);
                self.set(line, element, sym, number);
            }
            Instruction::Jump(to) => frame.next = *to,
            Instruction::Branch { condition, yes, no } => {
                let next = if self.number(*condition)? != 0 { *yes } else { *no };
                self.frames.last_mut()?.next = next;
            }
            Instruction::Lock(place) => {
                let lock = self.lock(*place)?;
                let held = self.held.entry(lock).or_insert_with(|| (self.holds)(lock));
                *held += 1;
                self.effects.push(Effect { line, kind: Kind::Acquire(lock) });
            }
            Instruction::Unlock(place) => {
                let lock = self.lock(*place)?;
                let held = self.held.entry(lock).or_insert_with(|| (self.holds)(lock));
                *held = held.checked_sub(1)?;
                self.effects.push(Effect { line, kind: Kind::Release(lock) });
            }
            Instruction::Call { function, arguments, to } => self.call(*function, None, arguments, *to)?,
            Instruction::CallVirtual { object, method, arguments, to } => {
                let number = self.number(*object)?;
                let function = *object_of(program, number).ok()?.methods.get(method)?;
                self.call(function, Some(number), arguments, *to)?;
            }
            Instruction::Return(value) => {
                let ended = self.frames.pop()?;
                let returned = value.map(|slot| (ended.syms[slot].clone(), ended.numbers[slot]));
                // The end of the thread.
                self.frames.last()?;
                if let (Some((sym, number)), Some(to)) = (returned, ended.to) {
                    self.set(line, to, sym, number);
                }
            }
            Instruction::Assert(condition) => match self.number(*condition) {
                Some(0) => return None,
                Some(_) => {}
                None => {
                    let text = self.with(|values| values.alone(*condition));
                    self.effects.push(Effect { line, kind: Kind::Branch { word: "assert", text } });
                }
            },
            Instruction::Wait { .. }
            | Instruction::Notify { .. }
            | Instruction::Fork(_)
            | Instruction::Join(_)
            | Instruction::Print(_) => return None,
        }
        Some(())
    }

    fn call(&mut self, function: usize, this: Option<i128>, arguments: &[Slot], to: Option<Slot>) -> Option<()> {
        if self.frames.len() >= DEEPEST {
            return None;
        }
        let caller = self.frames.last()?;
        let slots = self.program.functions[function].slots.len();
        let (mut syms, mut numbers) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        if let Some(this) = this {
            syms.push(Sym::Constant);
            numbers.push(this);
        }
        for &argument in arguments {
            syms.push(caller.syms[argument].clone());
            numbers.push(caller.numbers[argument]);
        }
        syms.resize(slots, Sym::Constant);
        numbers.resize(slots, 0);
        self.frames.push(Frame { function, next: 0, syms, numbers, to });
        Some(())
    }
}
