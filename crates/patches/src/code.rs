//! Instructions of a function, one after the other.

use crate::image::{Image, Words};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::ReadRef;

/// A function's instructions up to where they are no longer understood.
pub struct Code {
    pub instructions: Vec<Instruction>,
    /// Whether the whole function is understood.
    pub is_whole: bool,
}

impl Code {
    /// Decodes a function.
    pub fn of<'a, R: ReadRef<'a>>(image: &Image<'a, R>, address: u64, size: u64) -> Option<Code> {
        let bytes = image.instructions(address, size)?;
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut instructions = Vec::with_capacity(bytes.len() / 4);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Some(Code { instructions, is_whole: false });
            }
            instructions.push(instruction);
        }
        Some(Code { instructions, is_whole: true })
    }
}

/// Where the displacement of an instruction begins, which it has.
pub fn displacement_offset(bytes: &[u8], instruction: &Instruction) -> Option<u8> {
    let mut decoder = Decoder::with_ip(64, bytes, instruction.ip(), DecoderOptions::NONE);
    let same = decoder.decode();
    let offsets = decoder.get_constant_offsets(&same);
    (offsets.displacement_size() == 4).then(|| offsets.displacement_offset() as u8)
}

/// Where a call, or a jump to another function, goes, if that can be seen.
pub fn target<'a, R: ReadRef<'a>>(instruction: &Instruction, words: &Words<'_, 'a, R>) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::UnconditionalBranch if instruction.op0_kind() == OpKind::NearBranch64 => {
            Some(instruction.near_branch64())
        }
        FlowControl::IndirectCall | FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
            words.at(instruction.ip_rel_memory_address())
        }
        _ => None,
    }
}

/// The operand of an instruction that is in memory.
pub fn memory_operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|&operand| instruction.op_kind(operand) == OpKind::Memory)
}

/// Whether its memory is in the thread's own segment.
pub fn is_of_thread(instruction: &Instruction) -> bool {
    matches!(instruction.memory_segment(), Register::FS | Register::GS)
}

/// The number by which instructions name a register of eight bytes.
pub fn number(register: Register) -> Option<u8> {
    (register.is_gpr64()).then(|| register.number() as u8)
}
