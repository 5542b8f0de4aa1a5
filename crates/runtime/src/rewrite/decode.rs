//! A decoder of x86-64 instructions: their length, and which registers and memory they name. That is enough to find the
//! atomic ones, and those that load, in code that a compiler made.
//!
//! An instruction is: prefixes, opcode, a byte that names registers and memory (ModRM), one that names two more
//! registers (SIB), a displacement, and an immediate. The opcode says which of these follow. In doubt the decoder gives
//! no answer.

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub length: usize,
    /// 0: one byte; 1, 2, 3: behind 0F, 0F 38, 0F 3A; 4: a vector instruction with other prefixes.
    pub map: u8,
    pub opcode: u8,
    /// It has the prefix that makes it atomic.
    pub locked: bool,
    /// Its memory is in the thread's own segment.
    pub segment: bool,
    /// Bits W, R, X, B of the prefix that doubles the number of registers.
    pub rex: u8,
    /// Operands have two bytes.
    pub short: bool,
    pub memory: Option<Memory>,
    /// Bits 3 to 5 of the ModRM byte: a register, or more of the opcode.
    pub middle: u8,
    /// The other register that the byte names, in place of memory.
    pub register: Option<u8>,
}

/// A place in memory: the sum of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// A register.
    pub base: Option<u8>,
    /// A register and by what power of two it is multiplied.
    pub index: Option<(u8, u8)>,
    pub displacement: i32,
    /// Relative to the next instruction, in which case the displacement begins at this byte.
    pub relative: Option<usize>,
}

/// What follows an opcode of the first map.
fn first_map(opcode: u8) -> Option<(bool, Constant)> {
    use Constant::*;
    Some(match opcode {
        0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f => return None,
        0x60..=0x62 | 0x82 | 0x9a | 0xc4 | 0xc5 | 0xce | 0xd4..=0xd6 | 0xea => return None,
        0x00..=0x3f => match opcode & 7 {
            0..=3 => (true, No),
            4 => (false, Byte),
            _ => (false, Word),
        },
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => (true, No),
        0x68 | 0xa9 | 0xe8 | 0xe9 => (false, Word),
        0x69 | 0x81 | 0xc7 => (true, Word),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => (true, Byte),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => (false, Byte),
        0xa0..=0xa3 => (false, Bytes(8)),
        0xb8..=0xbf => (false, Full),
        0xc2 | 0xca => (false, Bytes(2)),
        0xc8 => (false, Bytes(3)),
        0xf6 => (true, IfTest(1)),
        0xf7 => (true, IfTest(4)),
        _ => (false, No),
    })
}

/// The same behind 0F.
fn second_map(opcode: u8) -> Option<(bool, Constant)> {
    use Constant::*;
    Some(match opcode {
        0x04 | 0x0a | 0x0c | 0x0f | 0x24..=0x27 | 0x36 | 0x38..=0x3f | 0xa6 | 0xa7 => return None,
        0x05..=0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => (false, No),
        0x80..=0x8f => (false, Always(4)),
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => (true, Byte),
        _ => (true, No),
    })
}

enum Constant {
    No,
    Byte,
    /// Four bytes, or two if operands are short.
    Word,
    /// As many as the operands.
    Full,
    Bytes(usize),
    Always(usize),
    /// Only the first two of the group have one.
    IfTest(usize),
}

/// The instruction that the bytes begin with.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let mut at = 0;
    let mut found = Instruction {
        length: 0,
        map: 0,
        opcode: 0,
        locked: false,
        segment: false,
        rex: 0,
        short: false,
        memory: None,
        middle: 0,
        register: None,
    };
    loop {
        match *code.get(at)? {
            0xf0 => found.locked = true,
            0x64 | 0x65 => found.segment = true,
            0x66 => found.short = true,
            // Addresses of four bytes: only as padding.
            0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 => {}
            _ => break,
        }
        at += 1;
    }
    if let rex @ 0x40..=0x4f = *code.get(at)? {
        found.rex = rex & 15;
        at += 1;
    }
    let first = *code.get(at)?;
    at += 1;
    let mut next = || {
        let byte = code.get(at).copied();
        at += 1;
        byte
    };
    let (names_memory, constant) = match first {
        0x0f => {
            found.opcode = next()?;
            match found.opcode {
                0x38 => {
                    (found.map, found.opcode) = (2, next()?);
                    (true, Constant::No)
                }
                0x3a => {
                    (found.map, found.opcode) = (3, next()?);
                    (true, Constant::Byte)
                }
                opcode => {
                    found.map = 1;
                    second_map(opcode)?
                }
            }
        }
        0xc4 | 0xc5 | 0x62 => {
            let map = match (first, next()?) {
                (0xc5, _) => 1,
                (0xc4, byte) => {
                    next()?;
                    byte & 31
                }
                (_, byte) => {
                    next()?;
                    next()?;
                    byte & 7
                }
            };
            found.opcode = next()?;
            found.map = 4;
            match (map, found.opcode) {
                (1, 0x77) if first != 0x62 => (false, Constant::No),
                (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) => (true, Constant::Byte),
                (1 | 2 | 5 | 6, _) => (true, Constant::No),
                (3, _) => (true, Constant::Byte),
                _ => return None,
            }
        }
        opcode => {
            found.opcode = opcode;
            first_map(opcode)?
        }
    };
    if names_memory {
        let byte = *code.get(at)?;
        at += 1;
        found.middle = byte >> 3 & 7;
        if byte < 0xc0 {
            found.memory = Some(memory(code, &mut at, byte, found.rex)?);
        } else {
            found.register = Some(byte & 7 | (found.rex & 1) << 3);
        }
    }
    let wide = found.rex & 8 != 0;
    at += match constant {
        Constant::No => 0,
        Constant::Byte => 1,
        Constant::Word if found.short => 2,
        Constant::Word => 4,
        Constant::Full if wide => 8,
        Constant::Full if found.short => 2,
        Constant::Full => 4,
        Constant::Bytes(length) | Constant::Always(length) => length,
        Constant::IfTest(length) if found.middle < 2 => {
            if length == 4 && found.short {
                2
            } else {
                length
            }
        }
        Constant::IfTest(_) => 0,
    };
    found.length = at;
    (at <= 15 && at <= code.len()).then_some(found)
}

fn memory(code: &[u8], at: &mut usize, byte: u8, rex: u8) -> Option<Memory> {
    let (mode, low) = (byte >> 6, byte & 7);
    let mut found = Memory { base: Some(low | (rex & 1) << 3), index: None, displacement: 0, relative: None };
    let mut word = false;
    if low == 4 {
        let sib = *code.get(*at)?;
        *at += 1;
        let index = sib >> 3 & 7 | (rex & 2) << 2;
        found.base = Some(sib & 7 | (rex & 1) << 3);
        found.index = (index != 4).then_some((index, sib >> 6));
        if sib & 7 == 5 && mode == 0 {
            (found.base, word) = (None, true);
        }
    } else if low == 5 && mode == 0 {
        (found.base, found.relative, word) = (None, Some(*at), true);
    }
    if word || mode == 2 {
        let bytes = code.get(*at..*at + 4)?;
        found.displacement = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        *at += 4;
    } else if mode == 1 {
        found.displacement = *code.get(*at)? as i8 as i32;
        *at += 1;
    }
    Some(found)
}
