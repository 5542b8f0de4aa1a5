//! Parallel regions, their barriers, and what is copied or ordered inside.

use super::{Function, let_go, note, note_and_let_go};
use crate::base::c::Pointer;
use crate::base::relaxed::Relaxed;
use crate::base::thread;
use crate::pass_on;
use crate::wire::op;
use core::ffi::{c_long, c_uint};

/// A parallel region. It lies on the stack of its caller; most of its parts are only there to have addresses.
pub struct Region {
    function: Function,
    data: Relaxed<Pointer>,
    start: u8,
    end: u8,
    barrier: u8,
    ordered: u8,
    copied: u8,
    pub(super) tasks: u8,
    /// How often a thread came for a piece of work, up to a few times.
    pub(super) fetches: Relaxed<u32>,
}

impl Region {
    const fn new(function: Function) -> Region {
        Region {
            function,
            data: Relaxed::zero(),
            start: 0,
            end: 0,
            barrier: 0,
            ordered: 0,
            copied: 0,
            tasks: 0,
            fetches: Relaxed::zero(),
        }
    }
}

unsafe extern "C" fn nothing(_: Pointer) {}

/// In place of a region where there is none.
static OUTSIDE: Region = Region::new(nothing);

/// The region that the thread is in.
pub(super) fn region() -> &'static Region {
    let region = thread::current().map_or(core::ptr::null_mut(), |thread| thread.region.get());
    // SAFETY: `run` and `run_task` have put the region there while the thread is in it. Its caller waits for its end,
    // and leaves its frame only then.
    unsafe { region.as_ref() }.unwrap_or(&OUTSIDE)
}

/// What a thread does in a region.
unsafe extern "C" fn run(region: Pointer) {
    // SAFETY: `in_region` has passed its region to the library for this function, and waits for the region's end.
    let region = unsafe { &*(region as *const Region) };
    // SAFETY: the compiler has made the function to be called with this argument by each thread of the region.
    let work = || unsafe { (region.function)(region.data.get()) };
    let Some(thread) = thread::current() else { return work() };
    let outer = thread.region.replace((&raw const *region).cast_mut());
    note(op::SYNC_ACQUIRE, &region.start);
    work();
    note_and_let_go(op::SYNC_RELEASE, &region.end);
    thread.region.set(outer);
}

fn in_region<R>(function: Function, data: Pointer, call: impl FnOnce(Function, Pointer) -> R) -> R {
    let region = Region::new(function);
    region.data.set(data);
    note(op::BARRIER_NEW, &region.barrier);
    note_and_let_go(op::SYNC_RELEASE, &region.start);
    let result = call(run, (&raw const region) as Pointer);
    note(op::SYNC_ACQUIRE, &region.end);
    note(op::SYNC_ACQUIRE, &region.tasks);
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel(function: Function, data: Pointer, threads: c_uint, flags: c_uint) {
    in_region(function, data, |function, data| {
        pass_on!(GOMP_parallel(
            function: Function, data: Pointer, threads: c_uint, flags: c_uint,
        ) -> ())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_reductions(
    function: Function,
    data: Pointer,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    in_region(function, data, |function, data| {
        pass_on!(GOMP_parallel_reductions(
            function: Function, data: Pointer, threads: c_uint, flags: c_uint,
        ) -> c_uint)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_sections(
    function: Function,
    data: Pointer,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    in_region(function, data, |function, data| {
        pass_on!(GOMP_parallel_sections(
            function: Function, data: Pointer, threads: c_uint, count: c_uint, flags: c_uint,
        ) -> ())
    })
}

macro_rules! parallel_loops {
    ($($name:ident ($($argument:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub extern "C" fn $name(
            function: Function,
            data: Pointer,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            $($argument: c_long,)*
            flags: c_uint,
        ) {
            in_region(function, data, |function, data| {
                pass_on!($name(
                    function: Function, data: Pointer, threads: c_uint, start: c_long, end: c_long, step: c_long,
                    $($argument: c_long,)* flags: c_uint,
                ) -> ())
            })
        }
    )*};
}

parallel_loops! {
    GOMP_parallel_loop_static(chunk); GOMP_parallel_loop_dynamic(chunk); GOMP_parallel_loop_guided(chunk);
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk); GOMP_parallel_loop_nonmonotonic_guided(chunk);
    GOMP_parallel_loop_runtime(); GOMP_parallel_loop_nonmonotonic_runtime();
    GOMP_parallel_loop_maybe_nonmonotonic_runtime();
}

/// All threads of the region come here, and go on when all have come and the tasks are done.
fn barrier<R>(call: impl FnOnce() -> R) -> R {
    let region = region();
    note_and_let_go(op::BARRIER_ENTER, &region.barrier);
    let result = call();
    note(op::BARRIER_LEAVE, &region.barrier);
    note(op::SYNC_ACQUIRE, &region.tasks);
    result
}

macro_rules! barriers {
    ($($name:ident -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $result {
            barrier(|| pass_on!($name() -> $result))
        }
    )*};
}

barriers! {
    GOMP_barrier -> (); GOMP_barrier_cancel -> bool; GOMP_loop_end -> (); GOMP_loop_end_cancel -> bool;
    GOMP_sections_end -> (); GOMP_sections_end_cancel -> bool;
}

// One thread does something and hands the others its result: they wait for each other before and after.

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_start() -> Pointer {
    let region = region();
    note_and_let_go(op::SYNC_RELEASE, &region.copied);
    let result = pass_on!(GOMP_single_copy_start() -> Pointer);
    if !result.is_null() {
        note(op::SYNC_ACQUIRE, &region.copied);
    }
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_end(data: Pointer) {
    let region = region();
    note_and_let_go(op::SYNC_RELEASE, &region.copied);
    pass_on!(GOMP_single_copy_end(data: Pointer) -> ());
    note(op::SYNC_ACQUIRE, &region.copied);
}

// Iterations that wait for the one before.

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_start() {
    let_go();
    pass_on!(GOMP_ordered_start() -> ());
    note(op::SYNC_ACQUIRE, &region().ordered);
}

#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_end() {
    note(op::SYNC_RELEASE, &region().ordered);
    pass_on!(GOMP_ordered_end() -> ())
}
