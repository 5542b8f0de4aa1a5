//! Which values of a frame are used again.

use crate::machine::State;
use crate::program::*;

/// For each function and instruction the slots that are used from there on before they get a new value.
pub(crate) struct Liveness {
    functions: Vec<Vec<Vec<bool>>>,
}

impl Liveness {
    pub fn of(program: &Program) -> Liveness {
        Liveness { functions: program.functions.iter().map(function).collect() }
    }

    /// Sets values that are not used again to zero, so that states that differ in nothing else are equal.
    pub fn forget_dead(&self, state: &mut State) {
        for thread in &mut state.threads {
            // A caller's next instruction comes after the call: what the call returns is not there yet.
            let mut returned: Option<Slot> = None;
            for frame in thread.frames.iter_mut().rev() {
                let Some(live) = self.functions[frame.function].get(frame.next) else {
                    returned = frame.to;
                    continue;
                };
                for (slot, value) in frame.slots.iter_mut().enumerate() {
                    if !live[slot] || returned == Some(slot) {
                        *value = 0;
                    }
                }
                returned = frame.to;
            }
        }
    }
}

/// Larger functions are not looked at: then all their values count.
const LARGEST: usize = 20_000_000;

/// Backwards until nothing changes.
fn function(function: &Function) -> Vec<Vec<bool>> {
    let slots = function.slots.len();
    let code = &function.code;
    if slots.saturating_mul(code.len()) > LARGEST {
        return Vec::new();
    }
    let mut live = vec![vec![false; slots]; code.len() + 1];
    loop {
        let mut changed = false;
        for at in (0..code.len()).rev() {
            let mut now = vec![false; slots];
            let mut add = |next: usize| {
                for slot in 0..slots {
                    now[slot] |= live[next][slot];
                }
            };
            match &code[at].0 {
                Instruction::Jump(to) => add(*to),
                Instruction::Branch { yes, no, .. } => {
                    add(*yes);
                    add(*no);
                }
                Instruction::Return(_) => {}
                _ => add(at + 1),
            }
            let (used, defined) = touched(&code[at].0);
            if let Some(slot) = defined {
                now[slot] = false;
            }
            used.into_iter().for_each(|slot| now[slot] = true);
            if now != live[at] {
                live[at] = now;
                changed = true;
            }
        }
        if !changed {
            return live;
        }
    }
}

/// The slots that an instruction uses, and the one that it gives a new value.
fn touched(instruction: &Instruction) -> (Vec<Slot>, Option<Slot>) {
    let place = |place: &Place| match place {
        Place::Cell(_) => None,
        Place::Element(_, _, slot) | Place::Field(slot, _) => Some(*slot),
    };
    let lock = |place: &LockPlace| match place {
        LockPlace::Lock(_) => Vec::new(),
        LockPlace::Element(_, _, slot) => vec![*slot],
    };
    let array = |base: Slot, length: u32| (base..base + length as usize).collect::<Vec<_>>();
    match instruction {
        Instruction::Constant { to, .. } => (Vec::new(), Some(*to)),
        Instruction::Copy { to, from } => (vec![*from], Some(*to)),
        Instruction::Unary { to, a, .. } => (vec![*a], Some(*to)),
        Instruction::Binary { to, a, b, .. } => (vec![*a, *b], Some(*to)),
        Instruction::Load { to, place: from } => (place(from).into_iter().collect(), Some(*to)),
        Instruction::Store { place: to, from } => (place(to).into_iter().chain([*from]).collect(), None),
        Instruction::LocalLoad { to, base, length, index } => {
            let mut used = array(*base, *length);
            used.push(*index);
            (used, Some(*to))
        }
        Instruction::LocalStore { base, length, index, from } => {
            let mut used = array(*base, *length);
            used.extend([*index, *from]);
            (used, None)
        }
        Instruction::Branch { condition, .. } | Instruction::Assert(condition) => (vec![*condition], None),
        Instruction::Lock(place) | Instruction::Unlock(place) | Instruction::Wait { lock: place, .. } => {
            (lock(place), None)
        }
        Instruction::Call { arguments, to, .. } => (arguments.clone(), *to),
        Instruction::CallVirtual { object, arguments, to, .. } => {
            (arguments.iter().copied().chain([*object]).collect(), *to)
        }
        Instruction::Return(value) => (value.iter().copied().collect(), None),
        Instruction::Print(values) => (values.clone(), None),
        Instruction::Defined { .. }
        | Instruction::Jump(_)
        | Instruction::Notify { .. }
        | Instruction::Fork(_)
        | Instruction::Join(_) => (Vec::new(), None),
    }
}
