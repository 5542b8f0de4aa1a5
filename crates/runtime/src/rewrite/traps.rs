//! Atomic operations of code that is not instrumented: Rust's standard library, which comes compiled.
//!
//! The tool has listed the instructions that may synchronise there. Each becomes a trap, whose handler records the
//! operation, lets another thread run if it is time, and has a copy of the instruction executed elsewhere. Plain
//! accesses among them count if they touch a word that was ever used by an atomic operation (`words`).
//!
//! What such a function copies or fills is no event: only the library knows whether it is ordered.

use crate::base::c::{self, Pointer};
use crate::base::chunk::Slot;
use crate::base::kernel::{self, READ_EXECUTE};
use crate::base::program::Address;
use crate::base::record::{flush, page, put3, put4};
use crate::base::relaxed::Relaxed;
use crate::base::thread;
use crate::interpose::context::Context;
use crate::interpose::signals;
use crate::rewrite::apply::{self, FAR_JUMP_LENGTH, code, far_jump, near, while_writable};
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

const _: () = assert!(15 + FAR_JUMP_LENGTH <= COPY);

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
    let size = (traps.len() * COPY).next_multiple_of(4096);
    let Some(copies) = near(base.wrapping_add(first.at as usize), size) else { return apply::differs() };
    COPIES[0].set(copies);
    COPIES[1].set(size);
    let installed = INSTALLED.get_or_init(|| Installed { traps, base, copies });
    signals::install_own(c::SIGTRAP, on_trap);
    words::watch();
    let done = while_writable(code(list, base), || {
        for (trap, copy) in (0..).map_while(|i| installed.get(i)) {
            let at = base.wrapping_add(trap.at as usize);
            // SAFETY: each copy has `COPY` bytes of its own in the memory that `near` has made.
            if unsafe { copy_instruction(&trap, at, copy) } {
                const TRAP: u8 = 0xcc;
                // SAFETY: the first byte of an instruction, which can be written now. Whoever comes there gets to the
                // handler, which has the instruction executed elsewhere. No thread is there: the program has not begun.
                unsafe { (at as *mut u8).write_volatile(TRAP) };
            } else {
                apply::differs();
            }
        }
    });
    kernel::protect_code(copies, size, READ_EXECUTE);
    if !done {
        apply::differs();
    }
}

/// Copies an instruction if it is the one of the list.
///
/// # Safety
/// `COPY` bytes of memory for instructions are where the copy goes, which nobody executes yet.
unsafe fn copy_instruction(trap: &Trap, at: usize, copy: usize) -> bool {
    let length = (trap.length as usize).min(15);
    if (0..length).any(|i| Address(at + i).byte() != trap.bytes[i]) {
        return false;
    }
    let mut bytes = trap.bytes;
    if let Some(offset) = trap.memory.relative.map(usize::from) {
        let moved = trap.memory.displacement as i64 + at as i64 - copy as i64;
        let (Ok(moved), Some(place)) = (i32::try_from(moved), bytes.get_mut(offset..offset + 4)) else { return false };
        place.copy_from_slice(&moved.to_le_bytes());
    }
    // SAFETY: there is room for sixteen bytes, and behind the instruction, which is shorter, for a jump.
    unsafe {
        (copy as *mut [u8; 16]).write_unaligned(bytes);
        far_jump(copy + length, at + length);
    }
    true
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
