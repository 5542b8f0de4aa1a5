//! Atomic operations of code that is not instrumented: Rust's standard library, which comes compiled.
//!
//! What is generic or inlined in the standard library is compiled into the program, and instrumented. The rest, such as
//! the slow paths of locks, `Condvar`, `Once`, `Barrier`, `park` and the count of threads in a scope, is not
//! instrumented, and synchronises all the same, on words that instrumented code uses too. So each atomic instruction of
//! a function that calls no callback becomes a trap, whose handler records the operation.
//!
//! An atomic read or write need not be an atomic instruction. So the plain writes of functions that have an atomic
//! instruction become traps too, and all plain accesses of the functions of `Once` and of channels, the only ones that
//! acquire by a plain read. The runtime counts these accesses if they touch a word that was ever used by an atomic
//! operation.

use crate::code::{Code, displacement_offset, is_of_thread, memory_operand, number, target};
use crate::image::{Function, Image, Words};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use object::ReadRef;
use snag_wire::patches::{Effect, GRANULE, Memory, Trap};
use std::collections::BTreeMap;

/// What is rewritten in code that is not instrumented, and which code that is.
#[derive(Debug, Default)]
pub struct Traps {
    /// By address.
    pub traps: Vec<Trap>,
    /// Where the first bit of `unseen` is about.
    pub first: u64,
    /// A bit for each granule.
    pub unseen: Vec<u64>,
}

/// Which plain accesses of a function may synchronise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    No,
    Writes,
    All,
}

/// A name that rustc made, in either of its ways.
pub fn is_rust(name: &[u8]) -> bool {
    let hashed = || {
        let hash = name.len().checked_sub(20).filter(|&start| start > 4).map(|start| &name[start..]);
        let is_hash = |hash: &[u8]| {
            hash.starts_with(b"17h") && hash.ends_with(b"E") && hash[3..19].iter().all(u8::is_ascii_hexdigit)
        };
        name.starts_with(b"_ZN") && hash.is_some_and(is_hash)
    };
    name.starts_with(b"_R") || hashed()
}

/// Synchronises by plain reads and writes.
fn is_delicate(name: &[u8]) -> bool {
    [&b"4once"[..], b"4mpmc"].iter().any(|part| name.windows(part.len()).any(|window| window == *part))
}

/// A stretch of code, which several symbols may name.
#[derive(Default)]
struct Stretch {
    size: u64,
    delicate: bool,
}

/// Finds the functions of Rust that are not instrumented, and what becomes a trap there.
pub fn decide<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    words: &Words<'_, 'a, R>,
    functions: &[Function<'a>],
) -> Traps {
    let mut callbacks: Vec<u64> =
        functions.iter().filter(|f| f.name.starts_with(b"__tsan_")).map(|function| function.address).collect();
    callbacks.sort_unstable();
    let mut stretches: BTreeMap<u64, Stretch> = BTreeMap::new();
    for function in functions.iter().filter(|function| function.size > 0 && is_rust(function.name)) {
        let stretch = stretches.entry(function.address).or_default();
        stretch.size = stretch.size.max(function.size);
        stretch.delicate |= is_delicate(function.name);
    }
    let mut found = Traps::default();
    let mut unseen: Vec<(u64, u64)> = Vec::new();
    for (&start, stretch) in &stretches {
        let Some(code) = Code::of(image, start, stretch.size) else { continue };
        let calls_back = |i: &Instruction| target(i, words).is_some_and(|to| callbacks.binary_search(&to).is_ok());
        if code.instructions.iter().any(calls_back) {
            continue;
        }
        unseen.push((start, start + stretch.size));
        let atomic = |i: &Instruction| effect(i, Plain::No).is_some();
        let plain = match stretch.delicate {
            true => Plain::All,
            false if code.instructions.iter().any(atomic) => Plain::Writes,
            false => Plain::No,
        };
        found.traps.extend(code.instructions.iter().filter_map(|i| trap(image, i, plain)));
    }
    found.traps.sort_unstable_by_key(|trap| trap.at);
    found.traps.dedup_by_key(|trap| trap.at);
    (found.first, found.unseen) = granules(&unseen);
    found
}

/// A bit for each granule of these ranges, and where the first one is.
fn granules(ranges: &[(u64, u64)]) -> (u64, Vec<u64>) {
    let first = ranges.iter().map(|range| range.0).min().unwrap_or(0) / GRANULE * GRANULE;
    let last = ranges.iter().map(|range| range.1).max().unwrap_or(0);
    let count = last.saturating_sub(first).div_ceil(GRANULE);
    let mut bits = vec![0u64; count.div_ceil(64) as usize];
    for (from, to) in ranges {
        for granule in (from - first) / GRANULE..(to - first).div_ceil(GRANULE) {
            bits[granule as usize / 64] |= 1 << (granule % 64);
        }
    }
    (first, bits)
}

/// What an instruction does to memory, if it is one of those that count, and the logarithm of its operand's bytes.
fn effect(i: &Instruction, plain: Plain) -> Option<(Effect, u8)> {
    use Mnemonic::*;
    let operand = memory_operand(i)?;
    // What is on the stack, or the thread's own, is nobody else's.
    if is_of_thread(i) || i.memory_base() == Register::RSP {
        return None;
    }
    let log = match i.memory_size().size() {
        size @ (1 | 2 | 4 | 8) => size.ilog2() as u8,
        _ => return None,
    };
    let locked = i.has_lock_prefix();
    let by_constant = || i.op1_kind() != OpKind::Register;
    let general = |operand: u32| match i.op_kind(operand) {
        OpKind::Register => i.op_register(operand).is_gpr(),
        _ => true,
    };
    let effect = match i.mnemonic() {
        // Atomic without a prefix.
        Xchg => Effect::Modify,
        Cmpxchg if locked => Effect::Compare,
        Xadd | Add | Or | Adc | Sbb | And | Sub | Xor | Inc | Dec | Not | Neg if locked => Effect::Modify,
        // A register may name a bit of another word.
        Bts | Btr | Btc if locked && by_constant() => Effect::Modify,
        Mov if operand == 1 && plain == Plain::All && general(0) => Effect::Read,
        Cmp | Movzx | Movsx | Movsxd if plain == Plain::All => Effect::Read,
        Test if plain == Plain::All && by_constant() => Effect::Read,
        Mov if operand == 0 && plain != Plain::No && general(1) => Effect::Write,
        _ => return None,
    };
    Some((effect, log))
}

fn trap<'a, R: ReadRef<'a>>(image: &Image<'a, R>, i: &Instruction, plain: Plain) -> Option<Trap> {
    let (effect, log) = effect(i, plain)?;
    let code = image.instructions(i.ip(), i.len() as u64)?;
    let mut bytes = [0; 16];
    bytes.get_mut(..code.len())?.copy_from_slice(code);
    Some(Trap { at: i.ip(), bytes, length: i.len() as u8, effect, log, memory: memory(i, code)? })
}

/// The place that an instruction names; `None` if its registers are not those of addresses.
fn memory(i: &Instruction, code: &[u8]) -> Option<Memory> {
    if i.is_ip_rel_memory_operand() {
        let distance = i.ip_rel_memory_address().wrapping_sub(i.next_ip()) as i64;
        let (displacement, relative) = (i32::try_from(distance).ok()?, Some(displacement_offset(code, i)?));
        return (i.memory_base() == Register::RIP)
            .then_some(Memory { base: None, index: None, displacement, relative });
    }
    let part = |register: Register| match register {
        Register::None => Some(None),
        register => number(register).map(Some),
    };
    let scale = i.memory_index_scale().ilog2() as u8;
    Some(Memory {
        base: part(i.memory_base())?,
        index: part(i.memory_index())?.map(|index| (index, scale)),
        displacement: i32::try_from(i.memory_displacement64() as i64).ok()?,
        relative: None,
    })
}
