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
//!
//! The symboliser, which turns the addresses of a panic's backtrace into names, is left alone: a single backtrace would
//! run into a hundred thousand traps. It consists of crates that the standard library keeps to itself (`gimli`,
//! `addr2line`, …) and of its module `backtrace_rs`. No program can call them but by functions of `std::backtrace` and
//! of the panic handler. These hold a lock all the while, whose atomics are traps as everywhere; without it they only
//! take names apart (`rustc_demangle`), which needs no state. So all that the symboliser's own atomics (counts of
//! references to parsed files, cells that are filled once) could order is ordered by that lock already; they are on
//! words that no other code has; and its plain accesses are no events.

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
    contains(name, &[b"4once", b"4mpmc"])
}

/// A function of the symboliser that the standard library keeps to itself, or one that was compiled for its types.
pub fn is_symboliser(name: &[u8]) -> bool {
    const CRATES: [&[u8]; 5] = [b"_5gimli", b"_9addr2line", b"_11miniz_oxide", b"_6object", b"_14rustc_demangle"];
    // The names that rustc used to make begin with the crate, or with a type.
    const BEFORE: [&[u8]; 10] = [
        b"_ZN5gimli",
        b"_ZN9addr2line",
        b"_ZN11miniz_oxide",
        b"_ZN6object",
        b"_ZN14rustc_demangle",
        b"$LT$gimli..",
        b"$LT$addr2line..",
        b"$LT$miniz_oxide..",
        b"$LT$object..",
        b"$LT$std..backtrace_rs..",
    ];
    if contains(name, &[b"12backtrace_rs"]) {
        return true;
    }
    if !name.starts_with(b"_R") {
        return contains(name, &BEFORE);
    }
    // At the end stands the crate that has compiled a generic function, for whatever types: others may use it.
    let name = name.split(|&byte| byte == b'.').next().unwrap_or(name);
    let is_inside = |part: &[u8]| name.windows(part.len() + 1).any(|window| window.starts_with(part));
    CRATES.iter().any(|part| is_inside(part))
}

fn contains(name: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().any(|part| name.windows(part.len()).any(|window| window == *part))
}

/// A stretch of code, which several symbols may name.
struct Stretch {
    size: u64,
    delicate: bool,
    /// By all of its names.
    symboliser: bool,
}

/// Finds the functions of Rust that are not instrumented, and what becomes a trap there.
pub fn decide<'a, R: ReadRef<'a>>(image: &Image<'a, R>, words: &Words<'_, 'a, R>, functions: &[Function<'a>]) -> Traps {
    let mut callbacks: Vec<u64> =
        functions.iter().filter(|f| f.name.starts_with(b"__tsan_")).map(|function| function.address).collect();
    callbacks.sort_unstable();
    let mut stretches: BTreeMap<u64, Stretch> = BTreeMap::new();
    for function in functions.iter().filter(|function| function.size > 0 && is_rust(function.name)) {
        let new = Stretch { size: 0, delicate: false, symboliser: true };
        let stretch = stretches.entry(function.address).or_insert(new);
        stretch.size = stretch.size.max(function.size);
        stretch.delicate |= is_delicate(function.name);
        stretch.symboliser &= is_symboliser(function.name);
    }
    let mut found = Traps::default();
    let mut unseen: Vec<(u64, u64)> = Vec::new();
    for (&start, stretch) in &stretches {
        let Some(code) = Code::of(image, start, stretch.size) else { continue };
        let calls_back = |i: &Instruction| target(i, words).is_some_and(|to| callbacks.binary_search(&to).is_ok());
        if code.instructions.iter().any(calls_back) {
            continue;
        }
        unseen.push((start, start.saturating_add(stretch.size)));
        if stretch.symboliser {
            continue;
        }
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
    // Code that is further away cannot be called from there.
    const FURTHEST: u64 = 1 << 31;
    let first = ranges.iter().map(|range| range.0).min().unwrap_or(0) / GRANULE * GRANULE;
    let near = |range: &&(u64, u64)| range.1 - first <= FURTHEST;
    let last = ranges.iter().filter(near).map(|range| range.1).max().unwrap_or(0);
    let count = last.saturating_sub(first).div_ceil(GRANULE);
    let mut bits = vec![0u64; count.div_ceil(64) as usize];
    for (from, to) in ranges.iter().filter(near) {
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
        return (i.memory_base() == Register::RIP).then_some(Memory {
            base: None,
            index: None,
            displacement,
            relative,
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rustc_are_told_from_others() {
        for name in ["_RNvNtCs1_3std4exit", "_ZN4core3ptr4read17h0123456789abcdefE"] {
            assert!(is_rust(name.as_bytes()), "{name}");
        }
        for name in ["main", "_ZN4core3ptr4read17h0123456789abcdegE", "_ZN3foo3barEv", "_ZN17h0123456789abcdefE"] {
            assert!(!is_rust(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_symboliser_is_what_only_the_standard_library_uses() {
        let ours = [
            "_RNvMs4_NtNtCsduwmD7cSIQq_5gimli4read7arangesE5parse",
            "_RINvNtCsgE_4core3ptr13drop_in_placeNtNtCs4X_9addr2line4line12LineSequenceECsjr_3std",
            "_RINvMs0_NtNtNtCsjrH_3std12backtrace_rs9symbolize5gimliNtB6_5Cache11with_globalE",
            "_ZN5gimli4read4unit4next17h0123456789abcdefE",
            "_ZN75_$LT$gimli..read..Reader$u20$as$u20$core..ops..Drop$GT$4drop17h0123456789abcdefE",
        ];
        for name in ours {
            assert!(is_symboliser(name.as_bytes()), "{name}");
        }
        let others = [
            // Compiled by such a crate, for a type of everybody's.
            "_RINvNtCsgE_4core3ptr13drop_in_placeNtNtCsl_5alloc6string6StringECs4X4t9plMPHF_9addr2line",
            "_RINvNtCsgE_4core3ptr13drop_in_placeNtNtCsl_5alloc6string6StringECs4X4t9plMPHF_9addr2line.llvm.12",
            "_RNvNtNtCsjrHSEGnQ3l9_3std3sys9backtrace4lock",
            "_RNvNtCsjrHSEGnQ3l9_3std9backtrace9Backtrace",
            "_ZN3std9backtrace4lock17h0123456789abcdefE",
        ];
        for name in others {
            assert!(!is_symboliser(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn each_stretch_of_unseen_code_has_its_bits() {
        let (first, bits) = granules(&[(0x1008, 0x1020), (0x1470, 0x1471)]);
        assert_eq!((first, bits), (0x1000, vec![0b11, 1 << 7]));
        assert_eq!(granules(&[]), (0, vec![]));
        // Nonsense takes no memory.
        assert_eq!(granules(&[(0, 16), (1 << 60, (1 << 60) + 16)]), (0, vec![1]));
    }
}
