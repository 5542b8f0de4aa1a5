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
use crate::wire::patches::{Call, JUMP, Jump, List, NOTHING, Part, Span, WRITES};
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

/// The code of the program that a list is about: first addresses and lengths.
pub fn code(list: List<'static>, base: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..).map_while(move |i| list.records(Part::Code).get(i)).map(move |Span { start, length }| {
        let first = base.wrapping_add(start as usize);
        (first & !4095, ((first & 4095) + length as usize).next_multiple_of(4096))
    })
}

/// Has code writable while something is done to it; false, and nothing is done, if that is forbidden.
pub fn while_writable(code: impl Iterator<Item = (usize, usize)> + Clone, work: impl FnOnce()) -> bool {
    let allowed = code.clone().all(|(start, length)| kernel::protect_code(start, length, READ_WRITE_EXECUTE));
    if allowed {
        work();
    }
    for (start, length) in code {
        kernel::protect_code(start, length, READ_EXECUTE);
    }
    allowed
}

/// Something that matters could not be rewritten.
pub fn differs() {
    DIFFERS.set(true);
}

/// Whether all was rewritten that matters. If not, it is unknown what synchronises in the program.
pub fn is_complete() -> bool {
    !DIFFERS.get()
}

/// Memory for instructions that a jump from an address reaches, writable.
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

/// Jumps to anywhere, in memory that jumps of the program reach.
struct FarJumps {
    next: usize,
}

/// Bytes from a jump to anywhere to the next.
const FAR_JUMP: usize = 16;

impl FarJumps {
    /// Room for so many.
    fn near(address: usize, count: usize) -> Option<FarJumps> {
        near(address, (count * FAR_JUMP).max(1)).map(|next| FarJumps { next })
    }

    /// Makes another one; where it is.
    ///
    /// # Safety
    /// There is room for it.
    unsafe fn to(&mut self, target: usize) -> usize {
        let at = self.next;
        self.next += FAR_JUMP;
        // SAFETY: there is room, and nobody executes what is there yet.
        unsafe { far_jump(at, target) };
        at
    }
}

/// Bytes of a jump to anywhere.
pub const FAR_JUMP_LENGTH: usize = 14;

/// Makes a jump to anywhere, in memory that may be written.
///
/// # Safety
/// [`FAR_JUMP_LENGTH`] bytes of memory for instructions are there, which nobody executes yet.
pub unsafe fn far_jump(at: usize, target: usize) {
    // SAFETY: there are as many bytes.
    unsafe {
        // jmp [rip], and the address behind it.
        (at as *mut [u8; 6]).write_unaligned([0xff, 0x25, 0, 0, 0, 0]);
        ((at + 6) as *mut usize).write_unaligned(target);
    }
}

/// The instructions that go to something near.
#[derive(Clone, Copy)]
enum Near {
    Jump = 0xe9,
    Call = 0xe8,
}

/// Has what begins at an address go elsewhere, if its bytes are those of the list and the place is near; whether it did.
///
/// # Safety
/// No thread is there, the bytes can be written if they are those, and what is gone to does as well.
unsafe fn divert(at: usize, bytes: u64, how: Near, target: usize) -> bool {
    let is_known = Address(at).read::<u32>() == bytes as u32 && Address(at + 4).byte() == (bytes >> 32) as u8;
    let Ok(distance) = i32::try_from(target as i64 - (at + JUMP) as i64) else { return false };
    if is_known {
        // SAFETY: the caller says that it can be written, and that the instruction may take the place of what is there.
        unsafe {
            (at as *mut u8).write_volatile(how as u8);
            ((at + 1) as *mut i32).write_unaligned(distance);
        }
    }
    is_known
}

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
    let Some(mut room) = FarJumps::near(base.wrapping_add(first.at as usize), jumps.len()) else { return differs() };
    let done = while_writable(code(list, base), || {
        for jump in jumps.iter() {
            let goal = target(&jump);
            if goal != 0 {
                // SAFETY: there is room for as many as the part has. The jump goes to a function that has the name, and
                // the duty, of the one that begins there; the program has not begun, so no thread is in it.
                let done =
                    unsafe { divert(base.wrapping_add(jump.at as usize), jump.bytes, Near::Jump, room.to(goal)) };
                if !done {
                    differs();
                }
            }
        }
    });
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
    let done = while_writable(pages, || {
        for jump in ours.iter() {
            // SAFETY: both are ours and take the same arguments, and the program has not begun.
            if !unsafe { divert(at(&jump), jump.bytes, Near::Jump, us + jump.target as usize) } {
                differs();
            }
        }
    });
    if !done {
        differs();
    }
    let calls = list.records::<Call>(Part::Writes);
    let Some(first) = calls.get(0) else { return };
    let Some(mut room) = FarJumps::near(base.wrapping_add(first.at as usize), ALONE.len()) else { return };
    // SAFETY: there is room for as many.
    let targets = ALONE.map(|alone| unsafe { room.to(alone as usize) });
    // If that is forbidden, all writes count as reads.
    while_writable(code(list, base), || {
        for call in calls.iter() {
            let Some(&target) = targets.get(call.write as usize) else { continue };
            // SAFETY: what is called from now on takes the same arguments. No thread is there: the program has not
            // begun. A call that stays as it is counts as a read, too.
            unsafe { divert(base.wrapping_add(call.at as usize), call.bytes, Near::Call, target) };
        }
    });
}
