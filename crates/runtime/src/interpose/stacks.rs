//! Stacks of new threads, at addresses that are never used twice.
//!
//! The C library gives the stack of a thread that has ended, and its thread-local variables, to the next one, in an order
//! that is known to the library alone. What two threads keep at one address, one after the other, would look like a race.

use crate::base::c::{self, Pointer, number, system};
use crate::base::memory::Global;
use crate::real;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

/// Where stacks are: away from the memory of the program and of the runtime.
const FIRST: usize = 0x2000_0000_0000;
const GUARD: usize = 1 << 16;

struct Stack {
    /// First byte, with the guard.
    at: usize,
    size: usize,
    thread: *mut crate::base::thread::Thread,
}

struct Stacks {
    next: usize,
    used: Vec<Stack>,
}

/// Guarded by the token.
static STACKS: Global<Stacks> = Global::new(Stacks { next: FIRST, used: Vec::new() });

/// glibc's `pthread_attr_t`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Attributes([u8; 56]);

unsafe extern "C" {
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_getstack(attributes: *const Attributes, at: *mut Pointer, size: *mut usize) -> c_int;
    fn pthread_attr_getstacksize(attributes: *const Attributes, size: *mut usize) -> c_int;
    fn pthread_attr_setstack(attributes: *mut Attributes, at: Pointer, size: usize) -> c_int;
    fn pthread_attr_setguardsize(attributes: *mut Attributes, size: usize) -> c_int;
}

/// The attributes that a thread is created with, with a new stack unless the program brings one. Nothing if the system
/// refuses: then the C library decides.
pub fn with_new_stack(wanted: *const Attributes, thread: *mut crate::base::thread::Thread) -> Option<Attributes> {
    let mut attributes = Attributes([0; 56]);
    let mut size = 0;
    unsafe {
        match wanted.as_ref() {
            // What it points to is only read while the thread is created.
            Some(wanted) => attributes = *wanted,
            None => {
                pthread_attr_init(&mut attributes);
            }
        }
        let mut at = core::ptr::null_mut();
        pthread_attr_getstack(&attributes, &mut at, &mut size);
        if (at as usize).wrapping_add(size) != 0 {
            return None;
        }
        pthread_attr_getstacksize(&attributes, &mut size);
    }
    let size = size.next_multiple_of(4096);
    let stacks = unsafe { &mut *STACKS.get() };
    stacks.used.retain(|stack| !is_over(stack));
    let whole = GUARD + size;
    const NOTHING: usize = 0;
    const READ_WRITE: usize = 3;
    // Private, anonymous, no memory reserved, a stack, and nothing that is there already.
    const FLAGS: usize = 0x2 | 0x20 | 0x4000 | 0x20000 | 0x100000;
    unsafe {
        let at = system(number::MMAP, [stacks.next, whole, NOTHING, FLAGS, usize::MAX, 0]);
        stacks.next += whole;
        if at < 0 || system(number::MPROTECT, [at as usize + GUARD, size, READ_WRITE, 0, 0, 0]) < 0 {
            return None;
        }
        let at = at as usize;
        if pthread_attr_setstack(&mut attributes, (at + GUARD) as Pointer, size) != 0 {
            return None;
        }
        stacks.used.push(Stack { at, size: whole, thread });
    }
    Some(attributes)
}

/// The C library believes that a stack it was given has no guard; programs may look for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(handle: usize, attributes: *mut Attributes) -> c_int {
    let result = unsafe { real!(pthread_getattr_np, fn(usize, *mut Attributes) -> c_int)(handle, attributes) };
    let (mut at, mut size) = (core::ptr::null_mut(), 0);
    if result == 0 && unsafe { pthread_attr_getstack(attributes, &mut at, &mut size) } == 0 {
        let next = unsafe { (&raw const (*STACKS.get()).next).read_volatile() };
        if (FIRST..next).contains(&(at as usize)) {
            unsafe { pthread_attr_setguardsize(attributes, GUARD) };
        }
    }
    result
}

/// Gives the memory of a thread back that the system no longer knows.
fn is_over(stack: &Stack) -> bool {
    let thread = unsafe { &*stack.thread };
    let kernel = thread.kernel.load(Relaxed);
    if !thread.is(crate::base::thread::State::Dead) || kernel == 0 {
        return false;
    }
    // As long as it can be joined, the library keeps what is known about it there.
    let over = c::is_gone(kernel) && thread.handle.load(Relaxed) == 0;
    if over {
        unsafe { system(number::MUNMAP, [stack.at, stack.size, 0, 0, 0, 0]) };
    }
    over
}
