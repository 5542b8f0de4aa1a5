//! Applies the list of what to rewrite, in two stages.
//!
//! The first is the resolver of an indirect function of ours, which the dynamic linker calls while it relocates this
//! library: before the program's `.preinit_array`, where clang starts its runtime. This stage may use nothing that
//! needs a relocation to another library. It makes the callbacks of a runtime inside the program jumps to ours. The
//! second runs when the program starts us, and sends the interceptors for which we have no replacement to the C
//! library.
//!
//! What in memory differs from the list stays as it is, and then nothing is recorded ([`is_complete`]).

use crate::base::c;
use crate::base::kernel::{self, READ_EXECUTE, READ_WRITE_EXECUTE, number, system};
use crate::base::program::Address;
use crate::base::relaxed::Relaxed;
use crate::rewrite::ask;
use crate::tsan::access::write_alone;
use crate::wire::patches::{Call, JUMP, Jump, List, Muted, NOTHING, Part, Span, WRITES};
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

/// What is added to the addresses of the list to get those of the program.
static BASE: Relaxed<usize> = Relaxed::zero();

/// Something was not as the list says, or could not be rewritten.
static DIFFERS: Relaxed<bool> = Relaxed::zero();

/// The list, and what is added to its addresses.
pub fn list() -> Option<(List<'static>, usize)> {
    Some((ask::list()?, BASE.get()))
}

/// Something that matters could not be rewritten.
pub fn differs() {
    DIFFERS.set(true);
}

/// Whether all was rewritten that matters. If not, it is unknown what synchronises in the program.
pub fn is_complete() -> bool {
    !DIFFERS.get()
}

/// The pages of the program's code, by the list: first addresses and lengths.
pub fn code(list: List<'static>, base: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..).map_while(move |i| list.records(Part::Code).get(i)).map(move |Span { start, length }| {
        let first = base.wrapping_add(start as usize);
        (first & !4095, ((first & 4095) + length as usize).next_multiple_of(4096))
    })
}

/// Code of the program, or of ours, that can be written, and in which no thread is: the program has not begun.
pub struct Writable<Pages>(Pages);

impl<Pages: Iterator<Item = (usize, usize)> + Clone> Writable<Pages> {
    /// Does something to code while it can be written; false, and nothing is done, if that is forbidden.
    pub fn during(pages: Pages, work: impl FnOnce(&Writable<Pages>)) -> bool {
        let mut all = pages.clone();
        let allowed = all.all(|(start, length)| kernel::protect_code(start, length, READ_WRITE_EXECUTE));
        if allowed {
            work(&Writable(pages.clone()));
        }
        for (start, length) in pages {
            kernel::protect_code(start, length, READ_EXECUTE);
        }
        allowed
    }

    fn has(&self, at: usize, length: usize) -> bool {
        self.0.clone().any(|(start, size)| at >= start && at - start <= size && size - (at - start) >= length)
    }

    /// Has what begins at an address go elsewhere, if its bytes are those of the list and the place is near; whether it
    /// did.
    fn divert(&self, at: usize, bytes: u64, how: Near, target: usize) -> bool {
        let Ok(distance) = i32::try_from(target as i64 - (at + JUMP) as i64) else { return false };
        let is_known = || Address(at).read::<u32>() == bytes as u32 && Address(at + 4).byte() == (bytes >> 32) as u8;
        if !self.has(at, JUMP) || !is_known() {
            return false;
        }
        // SAFETY: the bytes can be written, no thread is there, and they are what the list was made for: it says that
        // the target, which has the same arguments, stands for what begins there.
        unsafe {
            (at as *mut u8).write_volatile(how as u8);
            ((at + 1) as *mut i32).write_unaligned(distance);
        }
        true
    }

    /// Has four bytes of an instruction, which name something, name something else, if they are what the list was made
    /// for and the place is near; whether it did.
    pub fn rename(&self, at: usize, before: usize, after: usize) -> bool {
        let fits = |name: usize| i32::try_from(name as isize).ok();
        let (Some(before), Some(after)) = (fits(before), fits(after)) else { return false };
        if !self.has(at, 4) || Address(at).read::<u32>() != before as u32 {
            return false;
        }
        // SAFETY: the bytes can be written, no thread is there, and they are what the list was made for: it says that
        // they name a function by its distance or its address, for which a stub of ours may stand.
        unsafe { (at as *mut i32).write_unaligned(after) };
        true
    }

    /// Leaves out a call, or returns in place of a jump, if its bytes are those of the list; whether it did.
    pub fn mute(&self, at: usize, muted: &Muted) -> bool {
        let length = muted.length as usize;
        let is_known = || (0..length).all(|i| Address(at + i).byte() == (muted.bytes >> (8 * i)) as u8);
        const NOTHING: [&[u8]; 2] = [&[0x0f, 0x1f, 0x44, 0, 0], &[0x66, 0x0f, 0x1f, 0x44, 0, 0]];
        const RETURN: u8 = 0xc3;
        let Some(nothing) = NOTHING.iter().find(|nothing| nothing.len() == length) else { return false };
        if !self.has(at, length) || !is_known() {
            return false;
        }
        for (i, &byte) in nothing.iter().enumerate() {
            let byte = if muted.returns { RETURN } else { byte };
            // SAFETY: the bytes can be written, no thread is there, and they are what the list was made for: it says
            // that they are a whole instruction, whose callback the program does not need.
            unsafe { ((at + i) as *mut u8).write_volatile(byte) };
        }
        true
    }

    /// Makes a trap of an instruction, if its bytes are these; whether it did.
    pub fn trap(&self, at: usize, bytes: &[u8]) -> bool {
        const TRAP: u8 = 0xcc;
        let is_known = || bytes.iter().enumerate().all(|(i, &byte)| Address(at + i).byte() == byte);
        if !self.has(at, bytes.len()) || !is_known() {
            return false;
        }
        // SAFETY: the first byte of an instruction, which can be written, and no thread is there. Whoever comes there
        // gets to the handler of the signal.
        unsafe { (at as *mut u8).write_volatile(TRAP) };
        true
    }
}

/// The instructions that go to something near.
#[derive(Clone, Copy)]
enum Near {
    Jump = 0xe9,
    Call = 0xe8,
}

/// Memory for instructions of ours, which jumps from the program's code reach.
pub struct Room {
    pub start: usize,
    next: usize,
    pub end: usize,
}

impl Room {
    /// So much of it.
    pub fn near(address: usize, size: usize) -> Option<Room> {
        const FIXED_NOREPLACE: usize = 0x100000 | 0x2 | 0x20;
        let size = size.next_multiple_of(4096);
        let step = size.next_multiple_of(1 << 16);
        let near = address & !0xf_ffff;
        let below = near > 0x4000_0000;
        let place = |i: usize| if below { near - 0x1000_0000 - i * step } else { near + 0x2000_0000 + i * step };
        let arguments = |at: usize| [at, size, READ_WRITE_EXECUTE, FIXED_NOREPLACE, usize::MAX, 0];
        // SAFETY: the kernel maps new memory and refuses to replace what is there.
        let mut made = (0..256).map(|i| unsafe { system(number::MMAP, arguments(place(i))) });
        let start = made.find(|&result| result > 0)? as usize;
        Some(Room { start, next: start, end: start + size })
    }

    /// Puts instructions behind those that are there; where they are.
    pub fn put<const N: usize>(&mut self, instructions: [u8; N]) -> Option<usize> {
        let at = self.next;
        if self.end - at < N {
            return None;
        }
        self.next += N;
        // SAFETY: there is so much room in memory that `near` has made for this, and nobody executes it yet.
        unsafe { (at as *mut [u8; N]).write_unaligned(instructions) };
        Some(at)
    }

    /// Nobody writes there any more.
    pub fn close(self) {
        kernel::protect_code(self.start, self.end - self.start, READ_EXECUTE);
    }
}

/// Instructions with a jump to anywhere behind the first so many bytes.
pub fn with_jump<const N: usize>(instructions: &[u8], target: usize) -> [u8; N] {
    // jmp [rip], and the address behind it.
    let jump = [0xff, 0x25, 0, 0, 0, 0];
    let address = target.to_le_bytes();
    core::array::from_fn(|i| match i.checked_sub(instructions.len()) {
        None => instructions[i],
        Some(i @ ..6) => jump[i],
        Some(i @ 6..14) => address[i - 6],
        Some(_) => 0,
    })
}

/// Bytes of a jump to anywhere, and what is left free behind it.
pub const FAR_JUMP: usize = 16;

unsafe extern "C" fn nothing() -> usize {
    0
}

/// Where this library was loaded.
fn our_base() -> usize {
    let base: usize;
    // SAFETY: the instruction computes an address, of what the linker puts at the start of this library.
    unsafe { asm!(".hidden __ehdr_start", "lea {0}, [rip + __ehdr_start]", out(reg) base) };
    base
}

unsafe extern "C" fn first_stage() -> usize {
    ask::ask();
    if let (Some(list), Some(headers)) = (ask::list(), ask::program_headers()) {
        let base = headers.wrapping_sub(list.headers() as usize);
        BASE.set(base);
        let us = our_base();
        let target = |jump: &Jump| match jump.target {
            NOTHING => nothing as *const () as usize,
            target => us + target as usize,
        };
        jump_all(Part::Callbacks, list, base, &target);
    }
    first_stage as *const () as usize
}

/// Makes the jumps of a part to anywhere; a target of 0 is none.
fn jump_all(part: Part, list: List<'static>, base: usize, target: &dyn Fn(&Jump) -> usize) {
    let jumps = list.records::<Jump>(part);
    let Some(first) = jumps.get(0) else { return };
    let Some(mut room) = Room::near(base.wrapping_add(first.at as usize), jumps.len() * FAR_JUMP) else {
        return differs();
    };
    let done = Writable::during(code(list, base), |code| {
        for jump in jumps.iter() {
            let goal = target(&jump);
            if goal == 0 {
                continue;
            }
            let at = base.wrapping_add(jump.at as usize);
            let far = room.put::<FAR_JUMP>(with_jump(&[], goal));
            if !far.is_some_and(|far| code.divert(at, jump.bytes, Near::Jump, far)) {
                differs();
            }
        }
    });
    room.close();
    if !done {
        differs();
    }
}

/// Called when the program starts us.
pub fn finish() {
    // Keeps the reference, and with it the first stage, alive.
    // SAFETY: a word of this library's data, which the dynamic linker has filled in.
    unsafe { core::ptr::read_volatile(&raw const snag_early_reference) };
    let Some((list, base)) = list() else { return };
    let names = list.part(Part::Names);
    jump_all(Part::Libraries, list, base, &|jump| {
        let mut name = [0u8; 256];
        let byte = |at: usize| names.get(at / 8).map_or(0, |word| (word >> (8 * (at % 8))) as u8);
        let length = (0..).take_while(|i| byte(jump.target as usize + i) != 0).count();
        if length >= name.len() {
            return 0;
        }
        name[..length].iter_mut().enumerate().for_each(|(i, to)| *to = byte(jump.target as usize + i));
        // SAFETY: the name ends: the array is longer, and zero behind it.
        let target = unsafe { c::dlsym(c::RTLD_NEXT, name.as_ptr()) } as usize;
        if target == 0 {
            // The program does not ask why this failed.
            c::dlerror();
        }
        if target == base.wrapping_add(jump.at as usize) { 0 } else { target }
    });
}

/// What does nothing but the write, in the order of [`WRITES`].
const ALONE: [unsafe extern "C" fn(); WRITES.len()] = [
    write_alone::<0>,
    write_alone::<1>,
    write_alone::<2>,
    write_alone::<3>,
    write_alone::<4>,
    write_alone::<1>,
    write_alone::<2>,
    write_alone::<3>,
    write_alone::<4>,
];

/// Has writes count as reads, too, where reads may have been elided, and only there. Before the program has a second
/// thread.
pub fn tell_reads() {
    let Some((list, base)) = list() else { return };
    let (us, ours) = (our_base(), list.records::<Jump>(Part::Runtime));
    let at = |jump: &Jump| us + jump.at as usize;
    let (Some(first), Some(last)) = (ours.iter().map(|j| at(&j)).min(), ours.iter().map(|j| at(&j)).max()) else {
        return;
    };
    let page = first & !4095;
    let pages = core::iter::once((page, (last + JUMP - page).next_multiple_of(4096)));
    let done = Writable::during(pages, |code| {
        for jump in ours.iter() {
            if !code.divert(at(&jump), jump.bytes, Near::Jump, us + jump.target as usize) {
                differs();
            }
        }
    });
    if !done {
        differs();
    }
    let calls = list.records::<Call>(Part::Writes);
    let Some(first) = calls.get(0) else { return };
    let Some(mut room) = Room::near(base.wrapping_add(first.at as usize), ALONE.len() * FAR_JUMP) else { return };
    let targets = ALONE.map(|alone| room.put::<FAR_JUMP>(with_jump(&[], alone as usize)));
    room.close();
    // A call that stays as it is, because it looks different or nothing may be written, counts as a read, too.
    Writable::during(code(list, base), |code| {
        for call in calls.iter() {
            if let Some(Some(target)) = targets.get(call.write as usize) {
                code.divert(base.wrapping_add(call.at as usize), call.bytes, Near::Call, *target);
            }
        }
    });
}
