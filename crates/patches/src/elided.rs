//! Elided reads: reads for which the compiler makes no callback.
//!
//! LLVM elides the callback of a read if a write to the same place follows in its basic block, because whatever races
//! with the one races with the other. But what the thread does next may depend on the value that it read. So every
//! write of a program that LLVM has compiled counts as a read and a write, with two exceptions: programs that `snag`
//! linked, for which the compiler elides nothing (`-tsan-instrument-read-before-write`), and writes before which the
//! code shows that there was no read.
//!
//! The code in question is the function's instructions since its last call of one of the program's functions, in the
//! order in which they stand. If none of them loads from what may be the place that is written, or a part of it, except
//! for loads that had a callback, then no read was elided. In doubt, one was. A function that is not understood to its
//! end is left as it is: all of its writes count as reads.

use crate::code::{Code, is_of_thread, memory_operand, number};
use crate::image::{Function, Image};
use iced_x86::{EncodingKind, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use object::ReadRef;
use snag_wire::patches::{Call, JUMP, WRITES, word_of};

/// What LLVM's compilers leave in the section for comments.
const COMPILERS: [&[u8]; 2] = [b"clang version", b"rustc version"];

/// The symbol that `snag` gives to programs of which no read is elided.
const ALL_RECORDED: &[u8] = b"__snag_all_reads\0";

/// Whether the compiler may have elided reads of the program.
pub fn may_be_elided<'a, R: ReadRef<'a>>(image: &Image<'a, R>) -> bool {
    let has = |section: &[u8], text: &[u8]| {
        image.section(section).is_some_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
    };
    COMPILERS.iter().any(|compiler| has(b".comment", compiler)) && !has(b".strtab", ALL_RECORDED)
}

/// What a call goes to.
#[derive(Clone, Copy)]
enum Callee {
    Read,
    /// By its number in [`WRITES`].
    Write(usize),
    /// Another callback, or something that the compiler has put there by itself.
    Helper,
    /// A function that the program calls.
    Function,
}

impl Callee {
    fn of(name: &[u8]) -> Callee {
        let reads = [&b"__tsan_read"[..], b"__tsan_unaligned_read"];
        let reads_and_writes = [&b"__tsan_read_write"[..], b"__tsan_unaligned_read_write"];
        let begins = |with: &[&[u8]]| with.iter().any(|with| name.starts_with(with));
        match WRITES.iter().position(|(write, _)| write.as_bytes() == name) {
            Some(write) => Callee::Write(write),
            None if begins(&reads) && !begins(&reads_and_writes) => Callee::Read,
            // Operations that no instruction does, on numbers of 16 bytes say.
            None if begins(&[b"__", b"fmod"]) => Callee::Helper,
            None => Callee::Function,
        }
    }
}

/// The functions of a program by address.
struct Callees(Vec<(u64, Callee)>);

impl Callees {
    fn new(functions: &[Function]) -> Callees {
        let mut callees: Vec<(u64, Callee)> =
            functions.iter().map(|function| (function.address, Callee::of(function.name))).collect();
        callees.sort_by_key(|(address, callee)| (*address, matches!(callee, Callee::Function)));
        Callees(callees)
    }

    /// What has no name may be anything.
    fn at(&self, address: u64) -> Callee {
        let at = self.0.partition_point(|(other, _)| *other < address);
        self.0.get(at).filter(|(other, _)| *other == address).map_or(Callee::Helper, |(_, callee)| *callee)
    }

    /// Whether bytes of code look as if a write was called among them: where not, there is no need to decode them.
    fn may_call_write(&self, code: &[u8], address: u64) -> bool {
        const CALL: u8 = 0xe8;
        let target = |(i, bytes): (usize, &[u8])| match *bytes {
            [CALL, a, b, c, d] => {
                let distance = i32::from_le_bytes([a, b, c, d]);
                Some(address.wrapping_add((i + JUMP) as u64).wrapping_add_signed(distance.into()))
            }
            _ => None,
        };
        code.windows(JUMP).enumerate().filter_map(target).any(|target| matches!(self.at(target), Callee::Write(_)))
    }

    /// What an instruction calls; `None` if it is no call.
    fn called_by(&self, i: &Instruction) -> Option<Callee> {
        match i.flow_control() {
            // The compiler's own calls are direct.
            FlowControl::Call if i.op0_kind() == OpKind::NearBranch64 => Some(self.at(i.near_branch64())),
            FlowControl::Call | FlowControl::IndirectCall => Some(Callee::Function),
            _ => None,
        }
    }
}

/// The calls for writes before which no read was elided, by address.
pub fn writes_alone<'a, R: ReadRef<'a>>(image: &Image<'a, R>, functions: &[Function<'a>]) -> Vec<Call> {
    let callees = Callees::new(functions);
    let mut stretches: Vec<(u64, u64)> = functions.iter().map(|function| (function.address, function.size)).collect();
    stretches.sort_unstable();
    stretches.dedup();
    let mut calls = Vec::new();
    for (start, size) in stretches {
        if !image.instructions(start, size).is_some_and(|code| callees.may_call_write(code, start)) {
            continue;
        }
        let Some(code) = Code::of(image, start, size).filter(|code| code.is_whole) else { continue };
        let writes = |i: &Instruction| matches!(callees.called_by(i), Some(Callee::Write(_)));
        if code.instructions.iter().any(writes) {
            look_at_function(image, &callees, &code.instructions, &mut calls);
        }
    }
    calls.sort_unstable();
    calls.dedup();
    let call = |(at, write): (u64, usize)| {
        let bytes = word_of(image.instructions(at, JUMP as u64)?);
        Some(Call { at, bytes, write: write as u64 })
    };
    calls.into_iter().filter_map(call).collect()
}

/// Where an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many bytes from where a register points, which is into the stack.
    Stack(u8, i64),
    Fixed(u64),
    Somewhere,
}

impl Place {
    /// Whether what is loaded from one may be a part of the other. Loads may be narrower than what the program reads,
    /// and start later.
    fn may_overlap(self, other: Place) -> bool {
        const WIDEST: u64 = 16;
        match (self, other) {
            (Place::Stack(one, here), Place::Stack(other, there)) => one != other || here.abs_diff(there) < WIDEST,
            (Place::Fixed(here), Place::Fixed(there)) => here.abs_diff(there) < WIDEST,
            (Place::Stack(..), Place::Fixed(_)) | (Place::Fixed(_), Place::Stack(..)) => false,
            (Place::Somewhere, _) | (_, Place::Somewhere) => true,
        }
    }

    fn is_known(self) -> bool {
        self != Place::Somewhere
    }
}

/// The number of the stack pointer, and of the register that may hold the start of the frame.
const STACK: u8 = 4;
const FRAME: u8 = 5;

/// A function, as far as it matters where its memory is.
struct Frame {
    /// Whether it has a register of its own for the start of its frame.
    framed: bool,
    /// The lowest address in its frame that it takes, by the stack pointer and by that register.
    taken: [i64; 2],
    /// Whether the program is loaded wherever there is room, so that addresses in its code mean nothing.
    movable: bool,
}

impl Frame {
    fn of(code: &[Instruction], movable: bool) -> Frame {
        let mut first = code.iter().filter(|i| !matches!(i.mnemonic(), Mnemonic::Endbr64 | Mnemonic::Nop));
        let pushes_frame =
            first.next().is_some_and(|i| i.mnemonic() == Mnemonic::Push && i.op0_register() == Register::RBP);
        let framed = pushes_frame && first.next().and_then(copies_stack) == Some(Register::RBP);
        let mut frame = Frame { framed, taken: [i64::MAX; 2], movable };
        let mut has_called = false;
        for i in code {
            has_called |= i.flow_control() == FlowControl::Call;
            let of_stack = matches!(i.memory_base(), Register::RSP | Register::RBP) && memory_operand(i).is_some();
            if i.mnemonic() == Mnemonic::Push && has_called {
                // Offsets mean something else from here on.
                frame.taken[0] = i64::MIN;
            } else if copies_stack(i).is_some_and(|to| to != Register::RBP || !framed) {
                frame.taken[0] = frame.taken[0].min(0);
            } else if i.mnemonic() == Mnemonic::Lea && of_stack {
                let taken = &mut frame.taken[(i.memory_base() == Register::RBP) as usize];
                let has_index = i.memory_index() != Register::None;
                let offset = if has_index { i64::MIN } else { i.memory_displacement64() as i64 };
                *taken = offset.min(*taken);
            }
        }
        frame
    }

    /// The place that an instruction names, which has an operand in memory.
    fn place(&self, i: &Instruction) -> Place {
        // Vectors may be wider than what counts as near.
        if i.encoding() != EncodingKind::Legacy || is_of_thread(i) {
            return Place::Somewhere;
        }
        if i.is_ip_rel_memory_operand() {
            return Place::Fixed(i.ip_rel_memory_address());
        }
        let offset = i.memory_displacement64() as i64;
        match (i.memory_base(), i.memory_index()) {
            (Register::None, Register::None) if !self.movable => Place::Fixed(offset as u64),
            (base, Register::None) => match number(base) {
                Some(STACK) => Place::Stack(STACK, offset),
                Some(FRAME) if self.framed => Place::Stack(FRAME, offset),
                _ => Place::Somewhere,
            },
            _ => Place::Somewhere,
        }
    }

    /// Whether something may have an address in the frame.
    fn is_taken(&self, register: u8, offset: i64) -> bool {
        offset >= self.taken[(register == FRAME) as usize]
    }
}

/// The register that an instruction copies the stack pointer to.
fn copies_stack(i: &Instruction) -> Option<Register> {
    let copies = i.mnemonic() == Mnemonic::Mov && i.op0_kind() == OpKind::Register && i.op1_register() == Register::RSP;
    copies.then(|| i.op0_register())
}

/// Whether an instruction loads from memory that it names, or by a string.
fn loads(i: &Instruction, information: &mut InstructionInfoFactory) -> bool {
    if i.is_string_instruction() {
        return true;
    }
    let Some(operand) = memory_operand(i) else { return false };
    // What the compiler has at hand there: its canary, and where the thread's memory is.
    let has_registers = i.memory_base() != Register::None || i.memory_index() != Register::None;
    if is_of_thread(i) && !has_registers && matches!(i.memory_displacement64(), 0 | 0x28) {
        return false;
    }
    let access = information.info(i).op_access(operand);
    !matches!(access, OpAccess::None | OpAccess::NoMemAccess | OpAccess::Write | OpAccess::CondWrite)
}

/// Whether an instruction may change the register of the first argument.
fn may_change_argument(i: &Instruction, information: &mut InstructionInfoFactory) -> bool {
    let is_read = |access: OpAccess| matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead);
    let registers = information.info(i).used_registers();
    registers.iter().any(|used| used.register().full_register() == Register::RDI && !is_read(used.access()))
}

/// At most so many loads without a callback are looked at.
const MOST_LOADS: usize = 100;

/// Adds the calls for writes before which no read was elided: where they are, and which write.
fn look_at_function<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    callees: &Callees,
    code: &[Instruction],
    calls: &mut Vec<(u64, usize)>,
) {
    let frame = Frame::of(code, image.is_movable());
    let mut information = InstructionInfoFactory::new();
    let mut argument = Place::Somewhere;
    // Where reads that had a callback are going to load from, where such loads were that may as well have been others,
    // and where others were.
    let (mut seen, mut excused, mut unseen): (Vec<Place>, Vec<Place>, Vec<Place>) = Default::default();
    for i in code {
        if let Some(callee) = callees.called_by(i) {
            match callee {
                Callee::Read => seen.push(argument),
                Callee::Write(write) => {
                    let known = |place: &&Place| place.is_known() && argument.is_known();
                    let is_few = unseen.len() + excused.len() < MOST_LOADS;
                    let is_elided = unseen.iter().any(|place| place.may_overlap(argument))
                        || excused.iter().filter(known).any(|place| place.may_overlap(argument));
                    if is_few && !is_elided && i.len() == JUMP {
                        calls.push((i.ip(), write));
                    }
                }
                Callee::Helper => {}
                Callee::Function => {
                    seen.clear();
                    excused.clear();
                    unseen.clear();
                }
            }
            argument = Place::Somewhere;
            continue;
        }
        let names_memory = memory_operand(i).is_some();
        if loads(i, &mut information) {
            let place = if names_memory { frame.place(i) } else { Place::Somewhere };
            let may_be_shared = match place {
                Place::Stack(register, offset) => frame.is_taken(register, offset),
                Place::Fixed(address) => image.may_change(address),
                Place::Somewhere => true,
            };
            let same = seen.iter().position(|seen| *seen == place && place.is_known());
            let maybe = || seen.iter().position(|seen| !seen.is_known() || !place.is_known());
            match (may_be_shared, same.or_else(maybe)) {
                (false, _) => {}
                (true, None) => unseen.push(place),
                (true, Some(one)) => {
                    seen.remove(one);
                    excused.extend(same.is_none().then_some(place));
                }
            }
            excused.truncate(MOST_LOADS);
            unseen.truncate(MOST_LOADS);
        }
        if i.mnemonic() == Mnemonic::Lea && i.op0_register() == Register::RDI {
            argument = frame.place(i);
        } else if may_change_argument(i, &mut information) {
            argument = Place::Somewhere;
        }
    }
}
