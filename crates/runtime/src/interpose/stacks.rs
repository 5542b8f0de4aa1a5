//! Stacks of new threads, at addresses that are never used twice.
//!
//! The C library gives the stack of a thread that has ended, with its thread-local variables, to the next thread, in an
//! order that only the library knows. What two threads keep at one address, one after the other, would look like a
//! race.

use crate::base::c::Pointer;
use crate::base::kernel::{self, number, system};
use crate::base::lock::Mutex;
use crate::base::relaxed::Relaxed;
use crate::base::thread::{State, Thread};
use crate::pass_on;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed as Unordered;

/// Where stacks are: away from the memory of the program and of the runtime.
const FIRST: usize = 0x2000_0000_0000;
const GUARD: usize = 1 << 16;

struct Stack {
    /// First byte, with the guard.
    at: usize,
    size: usize,
    thread: &'static Thread,
}

/// Those that are in use. The lock is held while a stack is made.
static USED: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// Bytes from the first that have been given out so far. Changed under the lock.
static GIVEN_OUT: Relaxed<usize> = Relaxed::zero();

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
pub fn with_new_stack(wanted: *const Attributes, thread: &'static Thread) -> Option<Attributes> {
    let mut attributes = Attributes([0; 56]);
    let mut size = 0;
    // SAFETY: the attributes are the program's, if it has any, or ours, and the library fills in variables of ours.
    // What the attributes point to is only read while the thread is created.
    unsafe {
        match wanted.as_ref() {
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
    let mut used = USED.lock();
    used.retain(|stack| !is_over(stack));
    let whole = GUARD + size;
    let at = map_stack(FIRST + GIVEN_OUT.get(), size);
    GIVEN_OUT.add(whole);
    let at = at?;
    // SAFETY: the attributes are ours, and nobody else has the memory, which `map_stack` has made for this.
    if unsafe { pthread_attr_setstack(&mut attributes, (at + GUARD) as Pointer, size) } != 0 {
        return None;
    }
    used.push(Stack { at, size: whole, thread });
    Some(attributes)
}

/// Whether an address is where stacks of threads are.
pub fn is_stack(address: usize) -> bool {
    (FIRST..FIRST + GIVEN_OUT.get()).contains(&address)
}

/// Memory for a stack behind a guard, where nothing is yet.
fn map_stack(at: usize, size: usize) -> Option<usize> {
    const NOTHING: usize = 0;
    const READ_WRITE: usize = 3;
    // Private, anonymous, no memory reserved, a stack, and nothing that is there already.
    const FLAGS: usize = 0x2 | 0x20 | 0x4000 | 0x20000 | 0x100000;
    // SAFETY: the kernel replaces nothing that is there, and the second call changes what the first has made.
    unsafe {
        let at = system(number::MMAP, [at, GUARD + size, NOTHING, FLAGS, usize::MAX, 0]);
        let usable = at >= 0 && system(number::MPROTECT, [at as usize + GUARD, size, READ_WRITE, 0, 0, 0]) >= 0;
        usable.then_some(at as usize)
    }
}

/// The C library believes that a stack it was given has no guard; programs may look for it.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_getattr_np(handle: usize, attributes: *mut Attributes) -> c_int {
    let result = pass_on!(pthread_getattr_np(handle: usize, attributes: *mut Attributes) -> c_int);
    let (mut at, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the library has filled in the attributes, which the program has passed, and fills in variables of ours.
    if result == 0 && unsafe { pthread_attr_getstack(attributes, &mut at, &mut size) } == 0 {
        let is_ours = (FIRST..FIRST + GIVEN_OUT.get()).contains(&(at as usize));
        if is_ours {
            // SAFETY: as above.
            unsafe { pthread_attr_setguardsize(attributes, GUARD) };
        }
    }
    result
}

/// Gives the memory of a thread back that the system no longer knows.
fn is_over(stack: &Stack) -> bool {
    let kernel = stack.thread.kernel.load(Unordered);
    if !stack.thread.is(State::Dead) || kernel == 0 {
        return false;
    }
    // As long as it can be joined, the library keeps what is known about it there.
    let over = kernel::is_gone(kernel) && stack.thread.handle.load(Unordered) == 0;
    if over {
        // SAFETY: `map_stack` has made it for a thread that is gone, and joined or detached.
        unsafe { kernel::unmap(stack.at, stack.size) };
    }
    over
}
