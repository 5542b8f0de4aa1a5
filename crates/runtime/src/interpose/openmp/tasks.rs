//! Tasks. What one needs is copied by the library; we put what we need before it.

use super::regions::{Region, region};
use super::shares::wait_for_others;
use super::{Function, let_go, note, note_and_let_go};
use crate::base::c::Pointer;
use crate::base::thread::{self, inside};
use crate::pass_on;
use crate::scheduler::is_holder;
use crate::tsan::access::{range_read, range_write};
use crate::wire::op;
use core::ffi::{c_int, c_long, c_uint};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Copies = unsafe extern "C" fn(Pointer, Pointer);

#[repr(C)]
#[derive(Clone, Copy)]
struct Task {
    function: Function,
    copies: Option<Copies>,
    /// What is to be copied, and how many bytes that are.
    data: Pointer,
    size: usize,
    /// Where the copy begins.
    offset: usize,
    region: *const Region,
    /// What its creation and its start have in common.
    created: *const u8,
    /// It may depend on other tasks.
    depends: bool,
}

/// Addresses for tasks; two that have the same one may seem to be in order.
static CREATED: [u8; 4096] = [0; 4096];
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// Called by the library, in the thread that creates the task. It may run from here on.
unsafe extern "C" fn copy_task(to: Pointer, from: Pointer) {
    // SAFETY: `GOMP_task` has passed its task to the library, for this function, and waits for it.
    let task = unsafe { *(from as *const Task) };
    // SAFETY: the library has made room for the task and what it needs, as it was told, and lets us fill it.
    unsafe { (to as *mut Task).write(task) };
    let data = to.wrapping_byte_add(task.offset);
    match task.copies {
        // SAFETY: the compiler has made the function to copy what the task needs from here to there.
        Some(copies) => unsafe { copies(data, task.data) },
        None => copy(data, task.data, task.size),
    }
    note(op::SYNC_RELEASE, task.created);
}

/// Copies some of the program's memory, as the program would.
fn copy(to: Pointer, from: Pointer, size: usize) {
    // SAFETY: so many bytes are what the task needs, and there is as much room for it in the library's block.
    let copies = || unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, size) };
    let Some(thread) = thread::current() else { return copies() };
    range_read(from as usize, size, 0);
    range_write(to as usize, size, 0);
    inside(thread, copies);
}

unsafe extern "C" fn run_task(task: Pointer) {
    let at = task;
    // SAFETY: the library passes what `copy_task` has filled.
    let task = unsafe { *(at as *const Task) };
    // SAFETY: the compiler has made the function to be called with its copy of what it needs, which is behind the task.
    let work = || unsafe { (task.function)(at.wrapping_byte_add(task.offset)) };
    let Some(thread) = thread::current() else { return work() };
    // It may be done by a thread that waits, and that has let go of the token.
    let had_token = is_holder(thread);
    // SAFETY: the region in which a task was created ends after the task.
    let region = unsafe { &*task.region };
    if !had_token {
        wait_for_others(region);
    }
    note(op::SYNC_ACQUIRE, task.created);
    if task.depends {
        note(op::SYNC_ACQUIRE, &region.tasks);
    }
    let outer = thread.region.replace(task.region.cast_mut());
    work();
    thread.region.set(outer);
    match had_token {
        true => note(op::SYNC_RELEASE, &region.tasks),
        false => note_and_let_go(op::SYNC_RELEASE, &region.tasks),
    }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn GOMP_task(
    function: Function,
    data: Pointer,
    copies: Option<Copies>,
    size: c_long,
    alignment: c_long,
    deferred: bool,
    flags: c_uint,
    dependences: Pointer,
    priority: c_int,
    detached: Pointer,
) {
    let really = |function, data, copies, size, alignment| {
        pass_on!(GOMP_task(
            function: Function, data: Pointer, copies: Option<Copies>, size: c_long, alignment: c_long, deferred: bool,
            flags: c_uint, dependences: Pointer, priority: c_int, detached: Pointer,
        ) -> ())
    };
    const DEPENDS: c_uint = 1 << 3;
    const DETACHED: c_uint = 1 << 13;
    if flags & DETACHED != 0 {
        return really(function, data, copies, size, alignment);
    }
    let size = size.max(0) as usize;
    let alignment = (alignment.max(1) as usize).max(align_of::<Task>());
    let offset = size_of::<Task>().next_multiple_of(alignment);
    let created = &raw const CREATED[TASKS.fetch_add(1, Relaxed) % CREATED.len()];
    let depends = flags & DEPENDS != 0;
    let task = Task { function, copies, data, size, offset, region: region(), created, depends };
    let start = (&raw const task) as Pointer;
    really(run_task, start, Some(copy_task), (offset + size) as c_long, alignment as c_long);
}

macro_rules! waits {
    ($($name:ident ($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) {
            let_go();
            pass_on!($name($($argument: $type),*) -> ());
            note(op::SYNC_ACQUIRE, &region().tasks);
        }
    )*};
}

waits! { GOMP_taskwait(); GOMP_taskwait_depend(dependences: Pointer); GOMP_taskgroup_end(); }

/// Lets others run; the library may do tasks meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskyield() {
    let_go();
    pass_on!(GOMP_taskyield() -> ())
}
