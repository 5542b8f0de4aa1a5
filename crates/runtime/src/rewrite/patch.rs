//! Programs that carry ThreadSanitizer's runtime inside: clang's default, gcc's `-static-libtsan`, Rust.
//!
//! Such a program never asks for a library that we could replace. So its own copies of the callbacks and interceptors
//! are overwritten with jumps to ours, before any of them runs. The first stage is the resolver of an indirect function
//! of ours, which the dynamic linker calls while it relocates this library: before the program's `.preinit_array`,
//! where clang starts its runtime. This stage may use nothing that needs a relocation to another library. The second
//! stage runs when the program starts us, and sends the interceptors for which we have no replacement to the C library.

use crate::base::c;
use crate::base::kernel::{self, READ_EXECUTE, READ_WRITE_EXECUTE, number, system};
use crate::base::program::Address;
use crate::base::relaxed::Relaxed;
use core::arch::{asm, global_asm};

global_asm!(
    ".text",
    ".globl snag_early",
    ".hidden snag_early",
    ".type snag_early,@gnu_indirect_function",
    "snag_early: jmp {first}",
    ".section .data.rel.ro.snag_early,\"aw\",@progbits",
    ".balign 8",
    ".globl snag_early_reference",
    ".hidden snag_early_reference",
    "snag_early_reference: .quad snag_early",
    ".text",
    first = sym first_stage,
);

unsafe extern "C" {
    static snag_early_reference: usize;
}

/// An entry of an ELF symbol table.
#[repr(C)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Symbol {
    fn is_function(&self) -> bool {
        const FUNCTION: u8 = 2;
        self.section != 0 && self.info & 15 == FUNCTION
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.size as usize
    }
}

/// A symbol table in memory.
#[derive(Clone, Copy)]
pub struct Table {
    /// Added to the values.
    pub base: usize,
    symbols: *const Symbol,
    count: usize,
    names: *const u8,
}

/// The program's table, if it has the runtime inside.
pub fn program() -> Option<Table> {
    let [base, symbols, count, names] = [0, 1, 2, 3].map(|i: usize| PROGRAM[i].get());
    (symbols != 0).then_some(Table { base, symbols: symbols as *const Symbol, count, names: names as *const u8 })
}

/// See [`program`]: base, symbols, count and names; all 0 if there is none.
static PROGRAM: [Relaxed<usize>; 4] = [const { Relaxed::zero() }; 4];

/// Room for jumps near the program: next and end.
static JUMPS: [Relaxed<usize>; 2] = [const { Relaxed::zero() }; 2];

impl Table {
    fn symbols(&self) -> &'static [Symbol] {
        // SAFETY: a table is made from an ELF file that is mapped, and stays so, by what the file says of itself: where
        // its symbols begin and how many there are. The dynamic linker trusts it likewise.
        unsafe { core::slice::from_raw_parts(self.symbols, self.count) }
    }

    /// The functions that the table has.
    pub fn functions(&self) -> impl Iterator<Item = &'static Symbol> {
        self.symbols().iter().filter(|symbol| symbol.is_function())
    }

    /// Where a symbol is.
    pub fn address(&self, symbol: &Symbol) -> usize {
        self.base + symbol.value as usize
    }

    pub fn name(&self, symbol: &Symbol) -> &'static [u8] {
        let start = self.names.wrapping_add(symbol.name as usize);
        // SAFETY: as above: the names of a file that is mapped, each of which ends in a zero byte.
        unsafe { core::slice::from_raw_parts(start, Address::from(start).text_length(usize::MAX)) }
    }

    /// Where a function is; 0 if it is not here.
    pub fn find(&self, name: &[u8]) -> usize {
        let found = self.symbols().iter().find(|symbol| symbol.is_function() && same(self.name(symbol), name));
        found.map_or(0, |symbol| self.base + symbol.value as usize)
    }

    /// The dynamic symbols of what is loaded at `base`.
    fn dynamic(base: usize, dynamic: usize) -> Option<Table> {
        let (mut symbols, mut names, mut hash) = (0, 0, 0);
        let mut entry = Address(dynamic);
        loop {
            let [tag, value] = entry.read::<[usize; 2]>();
            match tag {
                0 => break,
                5 => names = value,
                6 => symbols = value,
                0x6fff_fef5 => hash = value,
                _ => {}
            }
            entry = entry.plus(16);
        }
        // The dynamic linker may have added the base already.
        let [symbols, names, hash] =
            [symbols, names, hash].map(|value| if value != 0 && value < base { value + base } else { value });
        if symbols == 0 || names == 0 || hash == 0 {
            return None;
        }
        Some(Table { base, symbols: symbols as *const Symbol, count: count_by_hash(hash), names: names as *const u8 })
    }

    /// The full table in the program's file, unless it was stripped.
    fn of_file(base: usize) -> Option<Table> {
        let file = kernel::open(b"/proc/self/exe\0", 0);
        if file < 0 {
            return None;
        }
        let length = kernel::file_length(file);
        const READ: usize = 1;
        const PRIVATE: usize = 2;
        // SAFETY: the kernel maps the file where nothing is.
        let start = unsafe { system(number::MMAP, [0, length as usize, READ, PRIVATE, file as usize, 0]) };
        kernel::close(file);
        if start < 0 {
            return None;
        }
        let start = start as usize;
        let word = |at: usize| Address(at).read::<usize>();
        let half = |at: usize| Address(at).read::<u32>() as usize;
        let sections = start + word(start + 40);
        let count = Address(start + 60).read::<u16>() as usize;
        const SYMBOLS: usize = 2;
        let section = (0..count).map(|i| sections + i * 64).find(|&section| half(section + 4) == SYMBOLS)?;
        let names = sections + half(section + 40) * 64;
        Some(Table {
            base,
            symbols: (start + word(section + 24)) as *const Symbol,
            count: word(section + 32) / size_of::<Symbol>(),
            names: (start + word(names + 24)) as *const u8,
        })
    }

    /// The program's own.
    fn of_program() -> Option<Table> {
        let (headers, count) = program_headers()?;
        let header = |i: usize| headers + i * 56;
        let kind = |i: usize| Address(header(i)).read::<u32>();
        let address = |i: usize| Address(header(i) + 16).read::<usize>();
        const DYNAMIC: u32 = 2;
        const HEADERS: u32 = 6;
        let base = (0..count).find(|&i| kind(i) == HEADERS).map_or(0, |i| headers - address(i));
        let carries = |table: &Table| table.find(b"__tsan_init") != 0;
        let full = Table::of_file(base).filter(carries);
        full.or_else(|| {
            let dynamic = (0..count).find(|&i| kind(i) == DYNAMIC)?;
            Table::dynamic(base, base + address(dynamic)).filter(carries)
        })
    }

    /// Ours. The dynamic linker would find the program's functions under the same names.
    pub fn of_us() -> Option<Table> {
        let base: usize;
        // SAFETY: the instruction computes an address, of what the linker puts at the start of this library.
        unsafe { asm!(".hidden __ehdr_start", "lea {0}, [rip + __ehdr_start]", out(reg) base) };
        let word = |at: usize| Address(at).read::<usize>();
        let headers = base + word(base + 32);
        let count = Address(base + 56).read::<u16>() as usize;
        const DYNAMIC: u32 = 2;
        let dynamic = (0..count).map(|i| headers + i * 56).find(|&h| Address(h).read::<u32>() == DYNAMIC)?;
        Table::dynamic(base, base + word(dynamic + 16))
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

fn strip<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    same(start, prefix).then_some(rest)
}

/// How many symbols there are, by the GNU hash table.
fn count_by_hash(hash: usize) -> usize {
    let word = |index: usize| Address(hash).plus(4 * index).read::<u32>() as usize;
    let (buckets, first, bloom) = (word(0), word(1), word(2));
    let start = 4 + 2 * bloom;
    let mut last = (0..buckets).map(|i| word(start + i)).max().unwrap_or(0);
    if last < first {
        return first;
    }
    while word(start + buckets + last - first) & 1 == 0 {
        last += 1;
    }
    last + 1
}

/// Where the program's headers are, and how many.
pub fn program_headers() -> Option<(usize, usize)> {
    let file = kernel::open(b"/proc/self/auxv\0", 0);
    if file < 0 {
        return None;
    }
    let mut bytes = [0u8; 1024];
    let length = kernel::read(file, &mut bytes);
    kernel::close(file);
    let word = |at: usize| Address::from(&raw const bytes[at]).read::<usize>();
    let entry = |wanted: usize| (0..length / 16).find(|&i| word(16 * i) == wanted).map(|i| word(16 * i + 8));
    const HEADERS: usize = 3;
    const COUNT: usize = 5;
    Some((entry(HEADERS)?, entry(COUNT)?))
}

/// What a function of the runtime in the program stands for: a callback, or a function of the C library.
fn stands_for(name: &'static [u8]) -> Option<&'static [u8]> {
    if let Some(original) = strip(name, b"___interceptor_") {
        return Some(original);
    }
    if let Some(original) = strip(name, b"__interceptor_") {
        return if strip(original, b"trampoline_").is_some() { None } else { Some(original) };
    }
    // These have no other name.
    let exact: [&[u8]; 7] = [
        b"setjmp",
        b"_setjmp",
        b"sigsetjmp",
        b"__sigsetjmp",
        b"RunningOnValgrind",
        b"ValgrindSlowdown",
        b"ThreadSanitizerQuery",
    ];
    if exact.iter().any(|exact| same(exact, name)) {
        return Some(name);
    }
    let ours: [&[u8]; 9] =
        [b"__tsan_", b"__sanitizer_", b"Annotate", b"WTFAnnotate", b"__cxa_guard_", b"_Znw", b"_Zna", b"_Zdl", b"_Zda"];
    ours.iter().any(|prefix| strip(name, prefix).is_some()).then_some(name)
}

/// Memory for instructions that a jump from an address reaches.
pub fn near(address: usize, size: usize) -> Option<usize> {
    const FIXED_NOREPLACE: usize = 0x100000 | 0x2 | 0x20;
    let step = size.next_multiple_of(1 << 16);
    let near = address & !0xf_ffff;
    let below = near > 0x4000_0000;
    let place = |i: usize| if below { near - 0x1000_0000 - i * step } else { near + 0x2000_0000 + i * step };
    // SAFETY: the kernel maps new memory and refuses to replace what is there.
    let map =
        |at: usize| unsafe { system(number::MMAP, [at, size, READ_WRITE_EXECUTE, FIXED_NOREPLACE, usize::MAX, 0]) };
    let mut made = (0..256).map(|i| map(place(i)));
    made.find(|&result| result > 0).map(|result| result as usize)
}

/// Overwrites the start of a function with a jump. False if there is no room for it nearby.
fn redirect(function: usize, target: usize) -> bool {
    let [mut next, mut end] = [JUMPS[0].get(), JUMPS[1].get()];
    if next + FAR_JUMP > end {
        const ROOM: usize = 1 << 16;
        let Some(made) = near(function, ROOM) else { return false };
        (next, end) = (made, made + ROOM);
    }
    // SAFETY: there is room for it in memory that `near` has made for jumps.
    unsafe { far_jump(next, target) };
    JUMPS[0].set(next + FAR_JUMP);
    JUMPS[1].set(end);
    // SAFETY: the jump goes to one of ours that has the function's name, and stands for it.
    unsafe { jump(function, next) };
    true
}

/// Bytes from a jump to anywhere to the next.
pub const FAR_JUMP: usize = 16;

/// Makes a jump to anywhere, in memory that may be written.
///
/// # Safety
/// Sixteen bytes of memory for instructions are there, which nobody executes yet.
pub unsafe fn far_jump(at: usize, target: usize) {
    // SAFETY: there are as many bytes.
    unsafe {
        // jmp [rip], and the address behind it.
        (at as *mut [u8; 6]).write_unaligned([0xff, 0x25, 0, 0, 0, 0]);
        ((at + 6) as *mut usize).write_unaligned(target);
    }
}

/// Bytes that a jump takes.
const JUMP: usize = 5;

/// Overwrites the start of a function with a jump to something that is near.
///
/// # Safety
/// The function has room for a jump, no thread is in it, and what the jump goes to does as well for its callers.
pub unsafe fn jump(function: usize, target: usize) {
    let page = function & !0xfff;
    let length = ((function + JUMP + 0xfff) & !0xfff) - page;
    kernel::protect_code(page, length, READ_WRITE_EXECUTE);
    // SAFETY: the pages can be written now, and the function is as long as that.
    unsafe {
        (function as *mut u8).write_volatile(0xe9);
        ((function + 1) as *mut i32).write_unaligned((target as i64 - (function + JUMP) as i64) as i32);
    }
    kernel::protect_code(page, length, READ_EXECUTE);
}

/// Whether a function is the runtime's for the program to call, and not the program's for the runtime.
fn is_interface(name: &[u8]) -> bool {
    match strip(name, b"__tsan_") {
        Some(rest) => strip(rest, b"default_").is_none() && strip(rest, b"on_").is_none(),
        None => strip(name, b"__sanitizer_").is_some(),
    }
}

unsafe extern "C" fn nothing() -> usize {
    0
}

unsafe extern "C" fn first_stage() -> usize {
    let resolved = first_stage as *const () as usize;
    let (Some(program), Some(us)) = (Table::of_program(), Table::of_us()) else { return resolved };
    let words = [program.base, program.symbols as usize, program.count, program.names as usize];
    for i in 0..words.len() {
        PROGRAM[i].set(words[i]);
    }
    for symbol in program.symbols().iter().filter(|symbol| symbol.is_function()) {
        let Some(name) = stands_for(program.name(symbol)) else { continue };
        let target = match us.find(name) {
            // What is left of the interface must not wake the runtime that is never started.
            0 if is_interface(name) && symbol.size() >= JUMP => nothing as *const () as usize,
            target => target,
        };
        if target != 0 {
            redirect(program.base + symbol.value as usize, target);
        }
    }
    resolved
}

/// Has the atomic instructions of a program with the runtime inside recorded.
pub fn install_probes() {
    if let Some(program) = program() {
        crate::rewrite::probe::install(&program);
    }
}

/// Called when the program starts us.
pub fn finish() {
    // Keeps the reference, and with it the first stage, alive.
    // SAFETY: a word of this library's data, which the dynamic linker has filled in.
    unsafe { core::ptr::read_volatile(&raw const snag_early_reference) };
    let (Some(program), Some(us)) = (program(), Table::of_us()) else { return };
    for symbol in program.symbols().iter().filter(|symbol| symbol.is_function()) {
        let Some(name) = stands_for(program.name(symbol)) else { continue };
        let function = program.base + symbol.value as usize;
        if us.find(name) != 0 {
            continue;
        }
        let mut ended = [0u8; 256];
        if name.len() >= ended.len() {
            continue;
        }
        ended[..name.len()].iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        // SAFETY: the name ends: the array is longer, and zero behind it.
        let target = unsafe { c::dlsym(c::RTLD_NEXT, ended.as_ptr()) } as usize;
        if target != 0 && target != function {
            redirect(function, target);
        }
    }
}
