//! Functions inside the program without callbacks: static objects that were compiled without `-fsanitize=thread`, and
//! functions with `no_sanitize_thread`.
//!
//! A function that touches memory, and calls no callback, was not instrumented: the compilers announce every function
//! that they instrument unless it touches nothing that others could see. A call of such a function can be led elsewhere
//! by a jump at its start. The instructions that the jump displaces are moved, so all of them must be understood, none
//! of them may leave the function or depend on where it stands but by a displacement, and nothing may jump among them.
//! In doubt a function is left as it is.

use crate::code::{Code, displacement_offset, is_of_thread, memory_operand, target};
use crate::image::{Function, Image, Words};
use crate::traps::is_rust;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use object::ReadRef;
use snag_wire::patches::{Entry, JUMP, MOST_DISPLACED};
use std::collections::BTreeMap;

/// Whether a function belongs to ThreadSanitizer's runtime, which is never started, or to what starts the program.
fn is_no_bodys(name: &[u8]) -> bool {
    const BEGIN: [&[u8]; 12] = [
        b"__tsan",
        b"__sanitizer",
        b"__interceptor",
        b"___interceptor",
        b"__ubsan",
        b"_ZN6__tsan",
        b"_ZN11__sanitizer",
        b"_ZN14__interception",
        b"_ZN7__ubsan",
        b"_ZN6__lsan",
        b"_dl_",
        b"__libc_csu_",
    ];
    const WHOLE: [&[u8]; 9] = [
        b"main",
        b"_start",
        b"_init",
        b"_fini",
        b"frame_dummy",
        b"register_tm_clones",
        b"deregister_tm_clones",
        b"__do_global_dtors_aux",
        b"atexit",
    ];
    BEGIN.iter().any(|begin| name.starts_with(begin)) || WHOLE.contains(&name)
}

/// A jump or call inside the program.
struct Branch {
    to: u64,
    /// The function that it is in.
    of: u64,
    is_call: bool,
}

/// Finds the functions, each with its name.
pub fn decide<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    words: &Words<'_, 'a, R>,
    functions: &[Function<'a>],
) -> Vec<(Entry, &'a [u8])> {
    let mut stretches: BTreeMap<u64, Function<'a>> = BTreeMap::new();
    for function in functions.iter().filter(|function| function.size > 0) {
        let known = stretches.entry(function.address).or_insert(*function);
        if function.size > known.size || is_no_bodys(function.name) {
            *known = *function;
        }
    }
    let is_callback = |to: u64| stretches.get(&to).is_some_and(|function| function.name.starts_with(b"__tsan_"));
    let mut information = InstructionInfoFactory::new();
    let mut branches: Vec<Branch> = Vec::new();
    let mut found: Vec<(Entry, &'a [u8])> = Vec::new();
    for function in stretches.values() {
        // The runtime inside is large, and jumps to nobody.
        if is_no_bodys(function.name) {
            continue;
        }
        let Some(code) = Code::of(image, function.address, function.size) else { continue };
        branches.extend(code.instructions.iter().filter_map(|i| branch(i, function.address)));
        let is_candidate = !is_rust(function.name) && code.is_whole;
        let calls_back = |i: &Instruction| target(i, words).is_some_and(is_callback);
        if is_candidate
            && !code.instructions.iter().any(calls_back)
            && touches(image, &code.instructions, &mut information)
            && let Some(entry) = entry(image, function, &code.instructions)
        {
            found.push((entry, function.name));
        }
    }
    branches.sort_unstable_by_key(|branch| branch.to);
    found.retain(|(entry, _)| {
        let end = entry.at + entry.length as u64;
        let first = branches.partition_point(|branch| branch.to < entry.at);
        let mut into = branches[first..].iter().take_while(|branch| branch.to < end);
        // A call of itself is a call. A jump to its start is a loop, whose rounds are none.
        let is_harmless = |branch: &Branch| branch.to == entry.at && (branch.is_call || branch.of != entry.at);
        into.all(is_harmless) && stretches.range(entry.at + 1..end).next().is_none()
    });
    found
}

fn branch(i: &Instruction, of: u64) -> Option<Branch> {
    let is_near = i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64;
    is_near.then(|| Branch { to: i.near_branch64(), of, is_call: i.flow_control() == FlowControl::Call })
}

/// Whether a function touches memory that is neither its own nor constant.
fn touches<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    code: &[Instruction],
    information: &mut InstructionInfoFactory,
) -> bool {
    let is_frame = code.iter().any(|i| {
        i.mnemonic() == Mnemonic::Mov && i.op0_register() == Register::RBP && i.op1_register() == Register::RSP
    });
    code.iter().any(|i| {
        if i.is_string_instruction() {
            return true;
        }
        let Some(operand) = memory_operand(i) else { return false };
        let access = information.info(i).op_access(operand);
        if matches!(access, OpAccess::None | OpAccess::NoMemAccess) || is_of_thread(i) {
            return false;
        }
        // Where a call goes is read there, and nothing else.
        if matches!(i.flow_control(), FlowControl::IndirectCall | FlowControl::IndirectBranch) {
            return false;
        }
        match i.memory_base() {
            Register::RSP => false,
            Register::RBP => !is_frame,
            Register::RIP => image.may_change(i.ip_rel_memory_address()),
            _ => true,
        }
    })
}

/// The instructions that a jump displaces, if they can be moved.
fn entry<'a, R: ReadRef<'a>>(image: &Image<'a, R>, function: &Function<'a>, code: &[Instruction]) -> Option<Entry> {
    // The targets of a table of jumps are not known.
    let is_table = |i: &Instruction| i.flow_control() == FlowControl::IndirectBranch && !i.is_ip_rel_memory_operand();
    if code.iter().any(is_table) {
        return None;
    }
    let mut entry = Entry {
        at: function.address,
        size: function.size,
        name: 0,
        bytes: [0; MOST_DISPLACED],
        length: 0,
        relative: [None; 4],
    };
    let (mut length, mut relative) = (0, entry.relative.iter_mut());
    for i in code {
        if i.flow_control() != FlowControl::Next {
            return None;
        }
        if i.is_ip_rel_memory_operand() {
            let bytes = image.instructions(i.ip(), i.len() as u64)?;
            *relative.next()? = Some(length as u8 + displacement_offset(bytes, i)?);
        }
        length += i.len();
        if length >= JUMP {
            let bytes = image.instructions(function.address, length as u64)?;
            entry.bytes.get_mut(..length)?.copy_from_slice(bytes);
            entry.length = length as u8;
            return Some(entry);
        }
    }
    None
}
