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

use crate::base::kernel::{self, READ_EXECUTE, READ_WRITE_EXECUTE, number, system};
use crate::base::program::Address;
use crate::rewrite::decode::{Instruction, Memory};
use crate::rewrite::patch::{self, FAR_JUMP, Table, far_jump, jump, near};
use crate::rewrite::probe::{called, instructions};
use crate::tsan::access::write_alone;

/// What LLVM's compilers leave in the section for comments.
const COMPILERS: [&[u8]; 2] = [b"clang version", b"rustc version"];

/// The symbol that `snag` gives to programs whose reads are all told.
const ALL_TOLD: &[u8] = b"__snag_all_reads\0";

/// A callback for a write, the one for a read and a write, and what does nothing but the first.
type Write = (&'static [u8], &'static [u8], unsafe extern "C" fn());

const WRITES: [Write; 9] = [
    (b"__tsan_write1", b"__tsan_read_write1", write_alone::<0>),
    (b"__tsan_write2", b"__tsan_read_write2", write_alone::<1>),
    (b"__tsan_write4", b"__tsan_read_write4", write_alone::<2>),
    (b"__tsan_write8", b"__tsan_read_write8", write_alone::<3>),
    (b"__tsan_write16", b"__tsan_read_write16", write_alone::<4>),
    (b"__tsan_unaligned_write2", b"__tsan_unaligned_read_write2", write_alone::<1>),
    (b"__tsan_unaligned_write4", b"__tsan_unaligned_read_write4", write_alone::<2>),
    (b"__tsan_unaligned_write8", b"__tsan_unaligned_read_write8", write_alone::<3>),
    (b"__tsan_unaligned_write16", b"__tsan_unaligned_read_write16", write_alone::<4>),
];

/// Has writes count as reads, too, where the program needs it. Before it has a second thread.
pub fn tell_reads() {
    let Some(us) = Table::of_us().filter(|_| leaves_reads_out()) else { return };
    for (write, read_and_write, _) in WRITES {
        // SAFETY: both are ours and take the same arguments, and the program has not begun.
        unsafe { jump(us.find(write), us.find(read_and_write)) };
    }
    if let Some(program) = patch::program() {
        spare_writes(&program);
    }
}

/// Whether reads of the program may be missing.
fn leaves_reads_out() -> bool {
    let Some(file) = File::of_program() else { return false };
    let has = |section: &[u8], text: &[u8]| {
        file.section(section).is_some_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
    };
    COMPILERS.iter().any(|compiler| has(b".comment", compiler)) && !has(b".strtab", ALL_TOLD)
}

/// The program's file in memory.
struct File {
    bytes: &'static [u8],
}

impl File {
    fn of_program() -> Option<File> {
        let file = kernel::open(b"/proc/self/exe\0", 0);
        if file < 0 {
            return None;
        }
        const READ: usize = 1;
        const PRIVATE: usize = 2;
        let length = kernel::file_length(file).max(0) as usize;
        // SAFETY: the kernel maps the file where nothing is.
        let start = unsafe { system(number::MMAP, [0, length, READ, PRIVATE, file as usize, 0]) };
        kernel::close(file);
        // SAFETY: so much of the file is mapped there, until `drop`.
        (start > 0).then(|| File { bytes: unsafe { core::slice::from_raw_parts(start as *const u8, length) } })
    }

    /// A number of so many bytes; 0 if the file is not that long.
    fn number(&self, at: usize, size: usize) -> usize {
        let bytes = at.checked_add(size).and_then(|end| self.bytes.get(at..end)).unwrap_or(&[]);
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | byte as usize)
    }

    /// What is in the section with this name.
    fn section(&self, name: &[u8]) -> Option<&[u8]> {
        let (headers, count, names) = (self.number(40, 8), self.number(60, 2), self.number(62, 2));
        let header = |section: usize| headers.saturating_add(section * 64);
        let content = |section: usize| {
            let (start, size) = (self.number(header(section) + 24, 8), self.number(header(section) + 32, 8));
            self.bytes.get(start..start.checked_add(size)?)
        };
        let names = content(names)?;
        let is_called = |section: &usize| {
            let called = names.get(self.number(header(*section), 4)..).unwrap_or(&[]);
            called.starts_with(name) && called.get(name.len()) == Some(&0)
        };
        (0..count).find(is_called).and_then(content)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: `of_program` has mapped it, and whoever borrowed from it is through.
        unsafe { kernel::unmap(self.bytes.as_ptr() as usize, self.bytes.len()) };
    }
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
        match WRITES.iter().position(|(write, ..)| *write == name) {
            Some(write) => Callee::Write(write),
            None if begins(&reads) && !begins(&reads_and_writes) => Callee::Read,
            // Operations that no instruction does, on numbers of 16 bytes say.
            None if begins(&[b"__", b"fmod"]) => Callee::Helper,
            None => Callee::Function,
        }
    }
}

/// Has the writes that no untold read can have come before do what they did.
fn spare_writes(program: &Table) {
    let mut callees: Vec<(usize, Callee)> =
        program.functions().map(|symbol| (program.address(symbol), Callee::of(program.name(symbol)))).collect();
    callees.sort_by_key(|(address, callee)| (*address, matches!(callee, Callee::Function)));
    // What has no name may be anything.
    let callee = |target: usize| {
        let at = callees.partition_point(|(address, _)| *address < target);
        callees.get(at).filter(|(address, _)| *address == target).map_or(Callee::Helper, |(_, callee)| *callee)
    };
    let data = Data::of_program(program);
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for symbol in program.functions() {
        look_at_function(program.address(symbol), symbol.size(), &data, &callee, &mut calls);
    }
    // Functions with the same code may be one.
    calls.sort_unstable();
    calls.dedup();
    let (Some(&(first, _)), Some(&(last, _))) = (calls.first(), calls.last()) else { return };
    let Some(jumps) = near(first, WRITES.len() * FAR_JUMP) else { return };
    for (i, (_, _, alone)) in WRITES.iter().enumerate() {
        // SAFETY: `near` has made room for as many.
        unsafe { far_jump(jumps + i * FAR_JUMP, *alone as usize) };
    }
    let from = first & !4095;
    let length = (last + 4 - from).next_multiple_of(4096);
    // If that is forbidden, all writes count as reads.
    if !kernel::protect_code(from, length, READ_WRITE_EXECUTE) {
        return;
    }
    for (distance, write) in calls {
        let target = jumps + write * FAR_JUMP;
        // SAFETY: the last four bytes of a call, in pages that can be written now. What it goes to from now on takes
        // the same arguments. No thread is there: the program has not begun.
        unsafe { (distance as *mut i32).write_unaligned((target as i64 - (distance + 4) as i64) as i32) };
    }
    kernel::protect_code(from, length, READ_EXECUTE);
}

/// Memory of the program's file that stays as it is.
struct Data {
    /// First address and the one behind the last.
    constant: Vec<(usize, usize)>,
}

impl Data {
    fn of_program(program: &Table) -> Data {
        let mut data = Data { constant: Vec::new() };
        let Some((headers, count)) = patch::program_headers() else { return data };
        for header in (0..count).map(|i| headers + i * 56) {
            let [kind, flags] = [0, 4].map(|at| Address(header + at).read::<u32>());
            let [address, size] = [16, 40].map(|at| Address(header + at).read::<usize>());
            const LOADED: u32 = 1;
            // Only written before the program starts.
            const SETTLED: u32 = 0x6474_e552;
            const WRITABLE: u32 = 2;
            if kind == LOADED && flags & WRITABLE == 0 || kind == SETTLED {
                data.constant.push((program.base + address, program.base + address + size));
            }
        }
        data
    }

    fn may_change(&self, address: usize) -> bool {
        !self.constant.iter().any(|&(from, to)| (from..to).contains(&address))
    }
}

/// Where an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many bytes from where a register points, which is into the stack.
    Stack(u8, i32),
    Fixed(usize),
    Somewhere,
}

impl Place {
    /// Whether what is loaded from one may be a part of the other. Loads may be narrower than what the program reads,
    /// and start later.
    fn may_overlap(self, other: Place) -> bool {
        const WIDEST: u32 = 16;
        match (self, other) {
            (Place::Stack(one, here), Place::Stack(other, there)) => one != other || here.abs_diff(there) < WIDEST,
            (Place::Fixed(here), Place::Fixed(there)) => here.abs_diff(there) < WIDEST as usize,
            (Place::Stack(..), Place::Fixed(_)) | (Place::Fixed(_), Place::Stack(..)) => false,
            (Place::Somewhere, _) | (_, Place::Somewhere) => true,
        }
    }

    fn is_known(self) -> bool {
        self != Place::Somewhere
    }
}

const STACK: u8 = 4;
const FRAME: u8 = 5;
/// The register of a first argument.
const ARGUMENT: u8 = 7;

/// A function, as far as it matters where its memory is.
struct Function {
    /// Whether it has a register of its own for the start of its frame.
    framed: bool,
    /// The lowest address in its frame that it takes, by either register.
    taken: [i32; 2],
}

impl Function {
    /// `None` if not all of it is understood.
    fn at(start: usize, size: usize) -> Option<Function> {
        let framed = || {
            let mut first = instructions(start, size).filter(|(_, i)| i.map != 1);
            let (_, push) = first.next()?;
            let (_, moves) = first.next()?;
            (push.opcode == 0x55 && push.rex == 0 && copies_stack(&moves) == Some(FRAME)).then_some(())
        };
        let mut function = Function { framed: framed().is_some(), taken: [i32::MAX; 2] };
        let (mut end, mut has_called) = (start, false);
        for (at, i) in instructions(start, size) {
            end = at + i.length;
            has_called |= i.map == 0 && i.opcode == 0xe8;
            let pushes = i.map == 0 && matches!((i.opcode, i.middle), (0x50..=0x57 | 0x68 | 0x6a, _) | (0xff, 6));
            let of_stack = i.memory.and_then(|memory| memory.base).filter(|&base| base == STACK || base == FRAME);
            if pushes && has_called {
                // Offsets mean something else from here on.
                function.taken[0] = i32::MIN;
            } else if copies_stack(&i).is_some_and(|to| to != FRAME || !function.framed) {
                function.taken[0] = function.taken[0].min(0);
            } else if let (true, Some(memory), Some(base)) = (is_address(&i), i.memory, of_stack) {
                let taken = &mut function.taken[(base == FRAME) as usize];
                let offset = if memory.index.is_some() { i32::MIN } else { memory.displacement };
                *taken = offset.min(*taken);
            }
        }
        (end == start + size).then_some(function)
    }

    fn place(&self, at: usize, i: &Instruction, memory: &Memory) -> Place {
        const VECTOR: u8 = 4;
        match (memory.base, memory.index, memory.relative) {
            // Which registers these name is not known.
            _ if i.map == VECTOR || i.segment => Place::Somewhere,
            (None, None, Some(_)) => Place::Fixed((at + i.length).wrapping_add_signed(memory.displacement as isize)),
            (None, None, None) => Place::Fixed(memory.displacement as usize),
            (Some(STACK), None, _) => Place::Stack(STACK, memory.displacement),
            (Some(FRAME), None, _) if self.framed => Place::Stack(FRAME, memory.displacement),
            _ => Place::Somewhere,
        }
    }

    /// Whether something may have an address in the frame.
    fn is_taken(&self, register: u8, offset: i32) -> bool {
        offset >= self.taken[(register == FRAME) as usize]
    }
}

/// The register that an instruction copies the stack pointer to.
fn copies_stack(i: &Instruction) -> Option<u8> {
    match (i.map, i.opcode) {
        (0, 0x89) if i.middle == STACK && i.rex & 4 == 0 => i.register,
        (0, 0x8b) if i.register == Some(STACK) => Some(i.middle | (i.rex & 4) << 1),
        _ => None,
    }
}

/// It only computes an address.
fn is_address(i: &Instruction) -> bool {
    (i.map, i.opcode) == (0, 0x8d)
}

/// Whether an instruction loads from memory; if in doubt, it does.
fn loads(i: &Instruction) -> bool {
    match (i.map, i.opcode) {
        // Strings.
        (0, 0xa4..=0xa7 | 0xac | 0xad) => true,
        _ if i.memory.is_none() || is_address(i) => false,
        (0, 0x88 | 0x89 | 0x8c | 0x8f | 0xc6 | 0xc7) => false,
        // Hints, moves of vectors, and bits of the processor's state.
        (1, 0x0d | 0x18..=0x1f | 0x11 | 0x13 | 0x17 | 0x29 | 0x2b | 0x7f | 0xc3 | 0xd6 | 0xe7 | 0x90..=0x9f) => false,
        // What the compiler has at hand there: its canary, and where the thread's memory is.
        _ => !(i.segment && i.memory.is_some_and(|m| m.base.is_none() && matches!(m.displacement, 0 | 0x28))),
    }
}

/// Whether an instruction may change the register of the first argument.
fn may_change_argument(i: &Instruction) -> bool {
    let low = |opcode: u8| opcode & 7 | (i.rex & 1) << 3 == ARGUMENT;
    match (i.map, i.opcode) {
        (0, 0x50..=0x5f | 0x90..=0x97 | 0xb0..=0xbf) | (1, 0xc8..=0xcf) => low(i.opcode),
        // Strings.
        (0, 0xa4..=0xa7 | 0xaa..=0xaf) => true,
        _ => i.register.is_some_and(|register| register & 7 == ARGUMENT) || i.middle == ARGUMENT,
    }
}

/// So many untold loads are looked at.
const MOST_LOADS: usize = 100;

/// Adds the calls for writes before which nothing was left out: where the distance to what is called stands, and which
/// write.
fn look_at_function(
    start: usize,
    size: usize,
    data: &Data,
    callee: &dyn Fn(usize) -> Callee,
    calls: &mut Vec<(usize, usize)>,
) {
    let is_call = |i: &Instruction| matches!((i.map, i.opcode, i.middle), (0, 0xe8, _) | (0, 0xff, 2));
    let is_direct = |i: &Instruction| i.opcode == 0xe8;
    let goes_to = |at: usize, i: &Instruction| match called(at, i) {
        // The compiler's own calls are direct.
        Some(target) if is_direct(i) => callee(target),
        _ => Callee::Function,
    };
    let writes = |(at, i): (usize, Instruction)| is_call(&i) && matches!(goes_to(at, &i), Callee::Write(_));
    if size == 0 || !instructions(start, size).any(writes) {
        return;
    }
    let Some(function) = Function::at(start, size) else { return };
    let mut argument = Place::Somewhere;
    // Where reads that were told are going to load from, where such loads were that may as well have been others, and
    // where others were.
    let (mut told, mut excused, mut untold): (Vec<Place>, Vec<Place>, Vec<Place>) = Default::default();
    for (at, i) in instructions(start, size) {
        if is_call(&i) {
            match goes_to(at, &i) {
                Callee::Read => told.push(argument),
                Callee::Write(write) => {
                    let known = |place: &&Place| place.is_known() && argument.is_known();
                    let is_few = untold.len() + excused.len() < MOST_LOADS;
                    let is_untold = untold.iter().any(|place| place.may_overlap(argument))
                        || excused.iter().filter(known).any(|place| place.may_overlap(argument));
                    if is_few && !is_untold {
                        calls.push((at + i.length - 4, write));
                    }
                }
                Callee::Helper => {}
                Callee::Function => {
                    told.clear();
                    excused.clear();
                    untold.clear();
                }
            }
            argument = Place::Somewhere;
            continue;
        }
        if loads(&i) {
            let place = i.memory.map_or(Place::Somewhere, |memory| function.place(at, &i, &memory));
            let may_be_shared = match place {
                Place::Stack(register, offset) => function.is_taken(register, offset),
                Place::Fixed(address) => data.may_change(address),
                Place::Somewhere => true,
            };
            let same = told.iter().position(|told| *told == place && place.is_known());
            let maybe = || told.iter().position(|told| !told.is_known() || !place.is_known());
            match (may_be_shared, same.or_else(maybe)) {
                (false, _) => {}
                (true, None) => untold.push(place),
                (true, Some(one)) => {
                    told.remove(one);
                    excused.extend(same.is_none().then_some(place));
                }
            }
            excused.truncate(MOST_LOADS);
            untold.truncate(MOST_LOADS);
        }
        if is_address(&i) && i.middle | (i.rex & 4) << 1 == ARGUMENT {
            argument = i.memory.map_or(Place::Somewhere, |memory| function.place(at, &i, &memory));
        } else if may_change_argument(&i) {
            argument = Place::Somewhere;
        }
    }
}
