//! Atomic operations of code that is not instrumented: Rust's standard library, which comes compiled.
//!
//! What is generic or inlined in the standard library is compiled into the program, and instrumented. The rest, such as
//! the slow paths of locks, `Condvar`, `Once`, `Barrier`, `park` and the count of threads in a scope, is not
//! instrumented, and synchronises all the same, on words that instrumented code uses too. So when the program starts,
//! the runtime searches the functions that call no callback for atomic instructions, and replaces each of them by a
//! trap. The handler of the trap records the operation, lets another thread run if it is time, and has a copy of the
//! instruction executed elsewhere.
//!
//! An atomic read or write need not be an atomic instruction. So the plain writes of functions that have an atomic
//! instruction are replaced too, and all plain accesses of the functions of `Once` and of channels, the only ones that
//! acquire by a plain read. These accesses count if they touch a word that was ever used by an atomic operation
//! (`words`).
//!
//! What such a function copies or fills is no event: only the library knows whether it is ordered.

use crate::base::c::{self, Pointer};
use crate::base::chunk::Slot;
use crate::base::kernel::{self, READ_EXECUTE, READ_WRITE_EXECUTE};
use crate::base::program::Address;
use crate::base::record::{flush, page, put3, put4};
use crate::base::relaxed::Relaxed;
use crate::base::thread;
use crate::interpose::context::Context;
use crate::interpose::signals;
use crate::rewrite::decode::{Instruction, Memory, decode};
use crate::rewrite::patch::{Symbol, Table, near};
use crate::rewrite::words;
use crate::scheduler::{Next, enter, is_holder, is_on, not_holder};
use crate::tsan::atomic::{ACQUIRE, ACQUIRE_RELEASE, RELEASE, detail};
use crate::wire::{head, op};
use core::ffi::c_int;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Writes whatever it reads.
    Modify,
    /// Writes if it reads what is in the first register.
    Compare,
    Read,
    Write,
}

struct Probe {
    at: usize,
    /// Where the instruction is now.
    copy: usize,
    length: usize,
    kind: Kind,
    memory: Memory,
    /// Logarithm of the operand's bytes.
    log: u8,
}

/// By address. Set once, before the program starts.
static PROBES: OnceLock<Vec<Probe>> = OnceLock::new();

/// First address and size of the copies.
static COPIES: [Relaxed<usize>; 2] = [const { Relaxed::zero() }; 2];

/// The functions that are not instrumented: first address, and a bit for each stretch of sixteen bytes.
static UNSEEN: OnceLock<(usize, Vec<u64>)> = OnceLock::new();

/// Bytes of a copy: the instruction and a jump back.
const COPY: usize = 32;

/// Whether an instruction is in a function of Rust that is not instrumented.
pub fn is_unseen(pc: usize) -> bool {
    let Some((first, bits)) = UNSEEN.get() else { return false };
    let granule = pc.wrapping_sub(*first) / 16;
    bits.get(granule / 64).is_some_and(|word| word >> (granule % 64) & 1 == 1)
}

/// Whether there are any traps.
pub fn is_installed() -> bool {
    PROBES.get().is_some()
}

/// Whether an instruction is a copy of ours.
pub fn is_copy(pc: usize) -> bool {
    pc.wrapping_sub(COPIES[0].get()) < COPIES[1].get()
}

/// A name that rustc made, in either of its ways.
fn is_rust(name: &[u8]) -> bool {
    let hashed = || {
        name.len() > 24
            && name.starts_with(b"_ZN")
            && name[name.len() - 20..].starts_with(b"17h")
            && name.ends_with(b"E")
            && name[name.len() - 17..name.len() - 1].iter().all(u8::is_ascii_hexdigit)
    };
    name.starts_with(b"_R") || hashed()
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

/// Synchronises by plain reads and writes.
fn is_delicate(name: &[u8]) -> bool {
    contains(name, b"4once") || contains(name, b"4mpmc")
}

/// Which plain accesses of a function may synchronise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    No,
    Writes,
    All,
}

/// The instructions of a function up to where they are no longer understood.
pub fn instructions(first: usize, size: usize) -> impl Iterator<Item = (usize, Instruction)> {
    let mut at = first;
    core::iter::from_fn(move || {
        // SAFETY: the function is part of the program's code, as its symbol says, which is mapped and stays.
        let code = unsafe { core::slice::from_raw_parts(at as *const u8, (first + size).checked_sub(at)?) };
        let found = decode(code)?;
        at += found.length;
        Some((at - found.length, found))
    })
}

/// Where a call goes, if that can be seen.
pub fn called(at: usize, instruction: &Instruction) -> Option<usize> {
    let next = at + instruction.length;
    match (instruction.map, instruction.opcode, instruction.middle) {
        (0, 0xe8 | 0xe9, _) => {
            let distance = Address(next - 4).read::<i32>();
            Some(next.wrapping_add_signed(distance as isize))
        }
        (0, 0xff, 2 | 4) => {
            let memory = instruction.memory?;
            memory.relative?;
            Some(Address(next.wrapping_add_signed(memory.displacement as isize)).read())
        }
        _ => None,
    }
}

/// What an instruction does to memory, if it is one of those that count.
fn kind_of(i: &Instruction, plain: Plain) -> Option<(Kind, u8)> {
    let memory = i.memory?;
    const STACK: u8 = 4;
    if i.segment || memory.base == Some(STACK) {
        return None;
    }
    let whole = match (i.short, i.rex & 8 != 0) {
        (_, true) => 3,
        (true, _) => 1,
        _ => 2,
    };
    let sized = |kind: Kind, bytes: bool| Some((kind, if bytes { 0 } else { whole }));
    let is_byte = i.opcode & 1 == 0;
    match (i.map, i.opcode, i.middle) {
        (0, 0x86 | 0x87, _) => sized(Kind::Modify, is_byte),
        (1, 0xb0 | 0xb1, _) if i.locked => sized(Kind::Compare, is_byte),
        (1, 0xc0 | 0xc1, _) if i.locked => sized(Kind::Modify, is_byte),
        (1, 0xba, 5..=7) if i.locked => sized(Kind::Modify, false),
        (0, 0x00 | 0x01 | 0x08..=0x11 | 0x18 | 0x19 | 0x20 | 0x21 | 0x28 | 0x29 | 0x30 | 0x31, _) if i.locked => {
            sized(Kind::Modify, is_byte)
        }
        (0, 0x80 | 0x81, 0..=6) | (0, 0xfe | 0xff, 0 | 1) | (0, 0xf6 | 0xf7, 2 | 3) if i.locked => {
            sized(Kind::Modify, is_byte)
        }
        (0, 0x83, 0..=6) if i.locked => sized(Kind::Modify, false),
        // Moves and comparisons.
        (0, 0x8a | 0x8b | 0x38..=0x3b, _) | (0, 0x80 | 0x81, 7) if plain == Plain::All => sized(Kind::Read, is_byte),
        (0, 0x83, 7) if plain == Plain::All => sized(Kind::Read, false),
        (0, 0xf6 | 0xf7, 0) if plain == Plain::All => sized(Kind::Read, is_byte),
        (1, 0xb6 | 0xbe, _) if plain == Plain::All => Some((Kind::Read, 0)),
        (1, 0xb7 | 0xbf, _) if plain == Plain::All => Some((Kind::Read, 1)),
        (0, 0x63, _) if plain == Plain::All => Some((Kind::Read, 2)),
        (0, 0x88 | 0x89 | 0xc6 | 0xc7, _) if plain != Plain::No => sized(Kind::Write, is_byte),
        _ => None,
    }
}

/// Replaces the atomic instructions of a program that has the runtime inside.
pub fn install(program: &Table) {
    let callbacks: Vec<usize> = {
        let mut all: Vec<usize> = program
            .functions()
            .filter(|symbol| program.name(symbol).starts_with(b"__tsan_"))
            .map(|symbol| program.address(symbol))
            .collect();
        all.sort_unstable();
        all
    };
    let is_rust = |symbol: &&Symbol| symbol.size() > 0 && is_rust(program.name(symbol));
    let (mut first, mut last) = (usize::MAX, 0);
    for symbol in program.functions().filter(is_rust) {
        first = first.min(program.address(symbol));
        last = last.max(program.address(symbol) + symbol.size());
    }
    if first >= last {
        return;
    }
    first &= !15;
    let mut unseen = vec![0u64; (last - first) / 16 / 64 + 1];
    let mut probes: Vec<Probe> = Vec::new();
    for symbol in program.functions().filter(is_rust) {
        let (start, size) = (program.address(symbol), symbol.size());
        let seen = |(at, i): (usize, Instruction)| {
            called(at, &i).is_some_and(|target| callbacks.binary_search(&target).is_ok())
        };
        if instructions(start, size).any(seen) {
            continue;
        }
        for granule in (start - first) / 16..(start + size - first).div_ceil(16) {
            unseen[granule / 64] |= 1 << (granule % 64);
        }
        let atomic = |(_, i): (usize, Instruction)| kind_of(&i, Plain::No).is_some();
        let plain = match instructions(start, size).any(atomic) {
            _ if is_delicate(program.name(symbol)) => Plain::All,
            true => Plain::Writes,
            false => Plain::No,
        };
        for (at, i) in instructions(start, size) {
            let (Some((kind, log)), Some(memory)) = (kind_of(&i, plain), i.memory) else { continue };
            probes.push(Probe { at, copy: 0, length: i.length, kind, memory, log });
        }
    }
    probes.sort_unstable_by_key(|probe| probe.at);
    // Functions with the same code may be one.
    probes.dedup_by_key(|probe| probe.at);
    UNSEEN.get_or_init(|| (first, unseen));
    if probes.is_empty() {
        return;
    }
    let size = (probes.len() * COPY).next_multiple_of(4096);
    let Some(copies) = near(first, size) else { return };
    COPIES[0].set(copies);
    COPIES[1].set(size);
    for (i, probe) in probes.iter_mut().enumerate() {
        probe.copy = copies + i * COPY;
        // SAFETY: each copy has `COPY` bytes of its own in the memory that `near` has made.
        unsafe { copy_instruction(probe) };
    }
    let probes = PROBES.get_or_init(|| probes);
    signals::install_own(c::SIGTRAP, on_trap);
    words::watch();
    let page = |address: usize| address & !4095;
    let (from, to) = (page(first), page(last + 4095));
    kernel::protect_code(from, to - from, READ_WRITE_EXECUTE);
    for probe in probes {
        const TRAP: u8 = 0xcc;
        // SAFETY: the first byte of an instruction, in pages that can be written now. Whoever comes there gets to the
        // handler, which has the instruction executed elsewhere. No thread is there: the program has not begun.
        unsafe { (probe.at as *mut u8).write_volatile(TRAP) };
    }
    kernel::protect_code(from, to - from, READ_EXECUTE);
}

/// # Safety
/// `COPY` bytes of memory for instructions are where the copy goes, which nobody executes yet.
unsafe fn copy_instruction(probe: &Probe) {
    let to = probe.copy as *mut u8;
    // SAFETY: an instruction has at most 15 bytes and the jump 14, so both fit; what is copied is the program's code.
    unsafe {
        for i in 0..probe.length {
            *to.add(i) = Address(probe.at + i).byte();
        }
        if let Some(offset) = probe.memory.relative {
            let moved = probe.memory.displacement as i64 + probe.at as i64 - probe.copy as i64;
            to.add(offset).cast::<i32>().write_unaligned(moved as i32);
        }
        // jmp [rip], and the address behind it.
        to.add(probe.length).cast::<[u8; 6]>().write_unaligned([0xff, 0x25, 0, 0, 0, 0]);
        to.add(probe.length + 6).cast::<usize>().write_unaligned(probe.at + probe.length);
    }
}

fn address(probe: &Probe, context: Context) -> usize {
    let memory = &probe.memory;
    let base = match (memory.relative, memory.base) {
        (Some(_), _) => probe.at + probe.length,
        (None, Some(base)) => context.register(base),
        (None, None) => 0,
    };
    let index = memory.index.map_or(0, |(index, scale)| context.register(index) << scale);
    base.wrapping_add(index).wrapping_add_signed(memory.displacement as isize)
}

/// Handler of the trap.
extern "C" fn on_trap(signal: c_int, information: Pointer, context: Pointer) {
    let at = Context::new(context).instruction().wrapping_sub(1);
    let probes = PROBES.get().map_or(&[][..], Vec::as_slice);
    let Ok(index) = probes.binary_search_by_key(&at, |probe| probe.at) else {
        return signals::call_or_die(signal, information, context);
    };
    let context = Context::new(context);
    context.go_on_at(probes[index].copy);
    let error = c::errno();
    record(&probes[index], context);
    c::set_errno(error);
}

fn record(probe: &Probe, context: Context) {
    let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) else { return };
    let address = address(probe, context);
    let log = probe.log;
    let load = || Address(address).operand(log);
    if matches!(probe.kind, Kind::Read | Kind::Write) {
        // No step of its own: whether it counts depends on what was done before.
        let holds = is_holder(thread) || not_holder().is_some();
        if !holds || !words::is_word(address) {
            return;
        }
        flush();
        match probe.kind {
            Kind::Read => {
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
    if probe.kind == Kind::Compare {
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
