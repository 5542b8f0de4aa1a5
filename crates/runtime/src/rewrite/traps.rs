//! Atomic operations of code that is not instrumented: Rust's standard library, which comes compiled.
//!
//! The tool has listed the instructions that may synchronise there. Each becomes a trap, whose handler records the
//! operation, lets another thread run if it is time, and has a copy of the instruction executed elsewhere. Plain
//! accesses among them count if they touch a word that was ever used by an atomic operation (`words`).
//!
//! What such a function copies or fills is no event: only the library knows whether it is ordered.

use crate::base::c::{self, Pointer};
use crate::base::chunk::Slot;
use crate::base::program::Address;
use crate::base::record::{flush, page, put3, put4};
use crate::base::relaxed::Relaxed;
use crate::base::thread;
use crate::interpose::context::Context;
use crate::interpose::signals;
use crate::rewrite::apply::{self, FAR_JUMP, Room, Writable, code, with_jump};
use crate::rewrite::words;
use crate::scheduler::{Next, enter, is_holder, is_on, not_holder};
use crate::tsan::atomic::{ACQUIRE, ACQUIRE_RELEASE, RELEASE, detail};
use crate::wire::patches::{Effect, GRANULE, Part, Records, Trap};
use crate::wire::{head, op};
use core::ffi::c_int;
use std::sync::OnceLock;

/// The traps of the program.
struct Installed {
    /// By address.
    traps: Records<'static, Trap>,
    /// What is added to their addresses.
    base: usize,
    /// Where the copy of the first one is; the others follow.
    copies: usize,
}

impl Installed {
    /// The trap with a number, and where its instruction is executed.
    fn get(&self, index: usize) -> Option<(Trap, usize)> {
        Some((self.traps.get(index)?, self.copies + index * COPY))
    }
}

/// Set once, before the program starts, if there are any.
static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// First address and size of the copies.
static COPIES: [Relaxed<usize>; 2] = [const { Relaxed::zero() }; 2];

/// The functions that are not instrumented: first address, and a bit for each granule.
static UNSEEN: OnceLock<(usize, &[u64])> = OnceLock::new();

/// Bytes of a copy: the instruction and a jump back.
const COPY: usize = 32;

const _: () = assert!(16 + FAR_JUMP <= COPY);

/// Whether an instruction is in a function of Rust that is not instrumented.
pub fn is_unseen(pc: usize) -> bool {
    let Some((first, bits)) = UNSEEN.get() else { return false };
    let granule = pc.wrapping_sub(*first) / GRANULE as usize;
    bits.get(granule / 64).is_some_and(|word| word >> (granule % 64) & 1 == 1)
}

/// Whether there are any traps.
pub fn is_installed() -> bool {
    INSTALLED.get().is_some()
}

/// Whether an instruction is a copy of ours.
pub fn is_copy(pc: usize) -> bool {
    pc.wrapping_sub(COPIES[0].get()) < COPIES[1].get()
}

/// Makes traps of the instructions that the list names.
pub fn install() {
    let Some((list, base)) = apply::list() else { return };
    UNSEEN.get_or_init(|| (base.wrapping_add(list.unseen() as usize), list.part(Part::Unseen)));
    let traps = list.records::<Trap>(Part::Traps);
    let Some(first) = traps.get(0) else { return };
    let Some(mut room) = Room::near(base.wrapping_add(first.at as usize), traps.len() * COPY) else {
        return apply::differs();
    };
    COPIES[0].set(room.start);
    COPIES[1].set(room.end - room.start);
    let installed = INSTALLED.get_or_init(|| Installed { traps, base, copies: room.start });
    signals::install_own(c::SIGTRAP, on_trap);
    words::watch();
    let done = Writable::during(code(list, base), |code| {
        for (trap, copy) in (0..).map_while(|i| installed.get(i)) {
            let at = base.wrapping_add(trap.at as usize);
            let instruction = copied(&trap, at, copy);
            let copied = instruction.and_then(|instruction| room.put::<COPY>(instruction));
            if copied != Some(copy) || !code.trap(at, &trap.bytes[..trap.length as usize]) {
                return apply::differs();
            }
        }
    });
    room.close();
    if !done {
        apply::differs();
    }
}

/// An instruction as it is elsewhere, with a jump back behind it; `None` if it cannot be there.
fn copied(trap: &Trap, at: usize, copy: usize) -> Option<[u8; COPY]> {
    let mut bytes = trap.bytes;
    let length = trap.length as usize;
    if let Some(offset) = trap.memory.relative.map(usize::from) {
        let moved = trap.memory.displacement as i64 + at as i64 - copy as i64;
        bytes.get_mut(offset..offset + 4)?.copy_from_slice(&i32::try_from(moved).ok()?.to_le_bytes());
    }
    Some(with_jump(bytes.get(..length)?, at + length))
}

fn address(trap: &Trap, at: usize, context: Context) -> usize {
    let memory = &trap.memory;
    let base = match (memory.relative, memory.base) {
        (Some(_), _) => at + trap.length as usize,
        (None, Some(base)) => context.register(base),
        (None, None) => 0,
    };
    let index = memory.index.map_or(0, |(index, scale)| context.register(index) << scale);
    base.wrapping_add(index).wrapping_add_signed(memory.displacement as isize)
}

/// Handler of the trap.
extern "C" fn on_trap(signal: c_int, information: Pointer, context: Pointer) {
    let at = Context::new(context).instruction().wrapping_sub(1);
    let found = INSTALLED.get().and_then(|all| all.get(all.traps.find(at.wrapping_sub(all.base) as u64)?));
    let Some((trap, copy)) = found else {
        return signals::call_or_die(signal, information, context);
    };
    let context = Context::new(context);
    context.go_on_at(copy);
    let error = c::errno();
    record(&trap, at, context);
    c::set_errno(error);
}

fn record(trap: &Trap, at: usize, context: Context) {
    let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) else { return };
    let address = address(trap, at, context);
    let log = trap.log;
    let load = || Address(address).operand(log);
    if matches!(trap.effect, Effect::Read | Effect::Write) {
        // No step of its own: whether it counts depends on what was done before.
        let holds = is_holder(thread) || not_holder().is_some();
        if !holds || !words::is_word(address) {
            return;
        }
        flush();
        match trap.effect {
            Effect::Read => {
                put3(head(op::ATOMIC_READ, detail(log, ACQUIRE), 0), address as u64, load());
            }
            _ => {
                let slot = put3(head(op::ATOMIC_WRITE, detail(log, RELEASE), 0), address as u64, 0);
                fill_in_later(slot, address, log);
            }
        }
        return;
    }
    if enter(Next::access(op::RMW, 0, address, 1 << log)).is_none() {
        return;
    }
    words::note(address);
    let old = load();
    let whole: u64 = if log == 3 { !0 } else { (1 << (8 << log)) - 1 };
    if trap.effect == Effect::Compare {
        const EXPECTED: u8 = 0;
        if context.register(EXPECTED) as u64 & whole != old {
            put3(head(op::ATOMIC_READ, detail(log, ACQUIRE), 0), address as u64, old);
            return;
        }
    }
    let read = put4(head(op::RMW, detail(log, ACQUIRE_RELEASE), 0), address as u64, old, 0);
    fill_in_later(read.plus(1), address, log);
}

/// The value is what the instruction will have left when the thread next calls us.
fn fill_in_later(slot: Slot, address: usize, log: u8) {
    page().fill_in_later(slot, address, 0, 1 << log);
}
