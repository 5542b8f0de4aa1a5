//! OpenMP as gcc compiles it: calls of GNU's runtime library, which synchronises where no instrumentation is.
//!
//! What a parallel region does comes after what its caller did, and before what that does next. Barriers, critical sections and
//! locks are events of their own. A task comes after its creation, and before whoever waits for tasks, whichever these are; one
//! with dependences comes after all tasks that have ended before it starts.
//!
//! A thread lets go of the token when it goes to where the library mostly makes it wait, and takes it again when it comes back to the
//! program's code, also if that is another part of it: the library has threads that wait do tasks. Where it waits elsewhere (a task that
//! is not put off and has dependences, the next of ordered iterations), the watchdog takes the token.

use crate::base::c::Pointer;
use crate::base::memory::Global;
use crate::base::record::put3;
use crate::base::thread::{self, Thread, inside};
use crate::real;
use crate::scheduler::free_running;
use crate::scheduler::token::{self, Next, enter};
use crate::tsan::access::{range_read, range_write};
use crate::wire::{head, lock, op};
use core::ffi::{c_int, c_long, c_uint};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Function = unsafe extern "C" fn(Pointer);
type Copies = unsafe extern "C" fn(Pointer, Pointer);

/// A parallel region. It lies on the stack of its caller; its parts are only there to have addresses.
pub struct Region {
    function: Function,
    data: Pointer,
    start: u8,
    end: u8,
    barrier: u8,
    ordered: u8,
    copied: u8,
    tasks: u8,
}

impl Region {
    const fn new(function: Function, data: Pointer) -> Region {
        Region { function, data, start: 0, end: 0, barrier: 0, ordered: 0, copied: 0, tasks: 0 }
    }
}

unsafe extern "C" fn nothing(_: Pointer) {}

/// In place of a region where there is none.
static mut OUTSIDE: Region = Region::new(nothing, core::ptr::null_mut());

/// What guards sections that have no name.
static CRITICAL: u8 = 0;
static ATOMIC: u8 = 0;

fn region() -> &'static Region {
    let thread = thread::current();
    let region = if thread.is_null() { core::ptr::null() } else { unsafe { (*thread).region } };
    unsafe { &*(if region.is_null() { &raw const OUTSIDE } else { region }) }
}

fn put(code: u8, object: *const u8, detail: u64) {
    put3(head(code, 0, 0), object as u64, detail);
}

/// Something happens to an object. Free threads let go of the token.
fn note(code: u8, object: *const u8) {
    if enter(thread::current(), Next::on(code, 0, object as usize)) {
        put(code, object, 0);
    }
    unsafe { free_running::leave() };
}

/// The same before the library may make the thread wait.
fn note_and_let_go(code: u8, object: *const u8) {
    let thread = thread::current();
    if enter(thread, Next::on(code, 0, object as usize)) {
        put(code, object, 0);
        inside(thread, || token::release(thread));
    }
}

fn let_go() {
    let thread = thread::current();
    if enter(thread, Next::call(0)) {
        inside(thread, || token::release(thread));
    }
}

/// What a thread does in a region.
unsafe extern "C" fn run(region: Pointer) {
    let region = unsafe { &*(region as *const Region) };
    let thread = thread::current();
    if thread.is_null() {
        return unsafe { (region.function)(region.data) };
    }
    let outer = unsafe { core::mem::replace(&mut (*thread).region, region) };
    note(op::SYNC_ACQUIRE, &region.start);
    unsafe { (region.function)(region.data) };
    note_and_let_go(op::SYNC_RELEASE, &region.end);
    unsafe { (*thread).region = outer };
}

fn in_region<R>(function: Function, data: Pointer, call: impl FnOnce(Function, Pointer) -> R) -> R {
    let region = Region::new(function, data);
    note(op::BARRIER_NEW, &region.barrier);
    note_and_let_go(op::SYNC_RELEASE, &region.start);
    let result = call(run, (&raw const region) as Pointer);
    note(op::SYNC_ACQUIRE, &region.end);
    note(op::SYNC_ACQUIRE, &region.tasks);
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel(function: Function, data: Pointer, threads: c_uint, flags: c_uint) {
    let real = real!(GOMP_parallel, fn(Function, Pointer, c_uint, c_uint) -> ());
    in_region(function, data, |function, data| unsafe { real(function, data, threads, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel_reductions(
    function: Function,
    data: Pointer,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    let real = real!(GOMP_parallel_reductions, fn(Function, Pointer, c_uint, c_uint) -> c_uint);
    in_region(function, data, |function, data| unsafe { real(function, data, threads, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel_sections(
    function: Function,
    data: Pointer,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    let real = real!(GOMP_parallel_sections, fn(Function, Pointer, c_uint, c_uint, c_uint) -> ());
    in_region(function, data, |function, data| unsafe { real(function, data, threads, count, flags) })
}

macro_rules! parallel_loops {
    ($($name:ident ($($argument:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name(
            function: Function,
            data: Pointer,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            $($argument: c_long,)*
            flags: c_uint,
        ) {
            in_region(function, data, |function, data| unsafe {
                real!($name, fn(Function, Pointer, c_uint, c_long, c_long, c_long, $(parallel_loops!(@ $argument),)* c_uint) -> ())(
                    function, data, threads, start, end, step, $($argument,)* flags,
                )
            })
        }
    )*};
    (@ $argument:ident) => { c_long };
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
        pub unsafe extern "C" fn $name() -> $result {
            barrier(|| unsafe { real!($name, fn() -> $result)() })
        }
    )*};
}

barriers! {
    GOMP_barrier -> (); GOMP_barrier_cancel -> bool; GOMP_loop_end -> (); GOMP_loop_end_cancel -> bool;
    GOMP_sections_end -> (); GOMP_sections_end_cancel -> bool;
}

// One thread does something and hands the others its result: they wait for each other before and after.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_single_copy_start() -> Pointer {
    let region = region();
    note_and_let_go(op::SYNC_RELEASE, &region.copied);
    let result = unsafe { real!(GOMP_single_copy_start, fn() -> Pointer)() };
    if !result.is_null() {
        note(op::SYNC_ACQUIRE, &region.copied);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_single_copy_end(data: Pointer) {
    let region = region();
    note_and_let_go(op::SYNC_RELEASE, &region.copied);
    unsafe { real!(GOMP_single_copy_end, fn(Pointer) -> ())(data) };
    note(op::SYNC_ACQUIRE, &region.copied);
}

// Iterations that wait for the one before.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_ordered_start() {
    let_go();
    unsafe { real!(GOMP_ordered_start, fn() -> ())() };
    note(op::SYNC_ACQUIRE, &region().ordered);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_ordered_end() {
    note(op::SYNC_RELEASE, &region().ordered);
    unsafe { real!(GOMP_ordered_end, fn() -> ())() }
}

// Sections that exclude each other, and locks.

/// A lock that a thread holds, and how often.
struct Held {
    object: usize,
    by: *mut Thread,
    count: usize,
}

/// Guarded by the token. Whoever waits does so here, without spinning, and the library finds every lock free.
static HELD: Global<Vec<Held>> = Global::new(Vec::new());

fn held(object: usize) -> Option<&'static mut Held> {
    unsafe { (*HELD.get()).iter_mut().find(|held| held.object == object) }
}

/// Takes a lock. False if it is `tried` and another thread has it.
fn take(object: *const u8, tried: bool, call: impl FnOnce() -> bool) -> bool {
    let thread = thread::current();
    let object = object as usize;
    if !enter(thread, Next::on(op::LOCK, 0, object)) {
        return call();
    }
    let is_taken = || token::is_on() && held(object).is_some_and(|held| held.by != thread);
    inside(thread, || {
        while !tried && is_taken() {
            token::block(thread, object, None);
            unsafe { (*thread).starves = true };
        }
        unsafe { (*thread).starves = false };
    });
    let taken = !is_taken() && call();
    if taken && token::is_on() {
        match held(object) {
            Some(held) => held.count += 1,
            None => unsafe { (*HELD.get()).push(Held { object, by: thread, count: 1 }) },
        }
        let detail = if tried { lock::TRIED } else { 0 };
        put(op::LOCK, object as *const u8, lock::ANNOTATED | detail);
    }
    unsafe { free_running::leave() };
    taken
}

/// Gives a lock back.
fn give_back(object: *const u8, call: impl FnOnce()) {
    let thread = thread::current();
    let object = object as usize;
    if !enter(thread, Next::on(op::UNLOCK, 0, object)) {
        return call();
    }
    put(op::UNLOCK, object as *const u8, lock::ANNOTATED);
    call();
    if let Some(held) = held(object) {
        held.count -= 1;
        if held.count == 0 {
            unsafe { (*HELD.get()).retain(|held| held.object != object) };
            inside(thread, || token::wake(object, 1, 0));
        }
    }
    unsafe { free_running::leave() };
}

macro_rules! guards {
    ($($start:ident $end:ident ($($at:ident: Pointer)?) $object:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start($($at: Pointer)?) {
            take($object, false, || unsafe {
                real!($start, fn($(guards!(@ $at))?) -> ())($($at)?);
                true
            });
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $end($($at: Pointer)?) {
            give_back($object, || unsafe { real!($end, fn($(guards!(@ $at))?) -> ())($($at)?) })
        }
    )*};
    (@ $at:ident) => { Pointer };
}

guards! {
    GOMP_critical_start GOMP_critical_end () &raw const CRITICAL;
    GOMP_atomic_start GOMP_atomic_end () &raw const ATOMIC;
    GOMP_critical_name_start GOMP_critical_name_end (at: Pointer) at as *const u8;
    omp_set_lock omp_unset_lock (at: Pointer) at as *const u8;
    omp_set_nest_lock omp_unset_nest_lock (at: Pointer) at as *const u8;
}

macro_rules! new_locks {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: Pointer) {
            note(op::LOCK_NEW, at as *const u8);
            unsafe { real!($name, fn(Pointer) -> ())(at) }
        }
    )*};
}

new_locks! { omp_init_lock; omp_init_nest_lock; omp_destroy_lock; omp_destroy_nest_lock; }

macro_rules! tried_locks {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: Pointer) -> c_int {
            let mut result = 0;
            take(at as *const u8, true, || {
                result = unsafe { real!($name, fn(Pointer) -> c_int)(at) };
                result != 0
            });
            result
        }
    )*};
}

tried_locks! { omp_test_lock; omp_test_nest_lock; }

// Tasks. What one needs is copied by the library; we put what we need before it.

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
    let task = unsafe { *(from as *const Task) };
    unsafe { (to as *mut Task).write(task) };
    let data = unsafe { to.byte_add(task.offset) };
    match task.copies {
        Some(copies) => unsafe { copies(data, task.data) },
        None => copy(data, task.data, task.size),
    }
    note(op::SYNC_RELEASE, task.created);
}

/// Copies some of the program's memory, as the program would.
fn copy(to: Pointer, from: Pointer, size: usize) {
    let copies = || unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, size) };
    let thread = thread::current();
    if thread.is_null() {
        return copies();
    }
    unsafe {
        range_read(from as usize, size, 0);
        range_write(to as usize, size, 0);
    }
    inside(thread, copies);
}

unsafe extern "C" fn run_task(task: Pointer) {
    let (task, data) = unsafe {
        let header = *(task as *const Task);
        (header, task.byte_add(header.offset))
    };
    let thread = thread::current();
    if thread.is_null() {
        return unsafe { (task.function)(data) };
    }
    // It may be done by a thread that waits, and that has let go of the token.
    let had_token = token::is_holder(thread);
    let region = unsafe { &*task.region };
    note(op::SYNC_ACQUIRE, task.created);
    if task.depends {
        note(op::SYNC_ACQUIRE, &region.tasks);
    }
    let outer = unsafe { core::mem::replace(&mut (*thread).region, task.region) };
    unsafe { (task.function)(data) };
    unsafe { (*thread).region = outer };
    match had_token {
        true => note(op::SYNC_RELEASE, &region.tasks),
        false => note_and_let_go(op::SYNC_RELEASE, &region.tasks),
    }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn GOMP_task(
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
    let real = real!(
        GOMP_task,
        fn(Function, Pointer, Option<Copies>, c_long, c_long, bool, c_uint, Pointer, c_int, Pointer) -> ()
    );
    const DEPENDS: c_uint = 1 << 3;
    const DETACHED: c_uint = 1 << 13;
    if flags & DETACHED != 0 {
        return unsafe {
            real(function, data, copies, size, alignment, deferred, flags, dependences, priority, detached)
        };
    }
    let size = size.max(0) as usize;
    let alignment = (alignment.max(1) as usize).max(align_of::<Task>());
    let offset = size_of::<Task>().next_multiple_of(alignment);
    let created = &raw const CREATED[TASKS.fetch_add(1, Relaxed) % CREATED.len()];
    let depends = flags & DEPENDS != 0;
    let task = Task { function, copies, data, size, offset, region: region(), created, depends };
    let (start, whole) = ((&raw const task) as Pointer, (offset + size) as c_long);
    let alignment = alignment as c_long;
    unsafe {
        real(run_task, start, Some(copy_task), whole, alignment, deferred, flags, dependences, priority, detached)
    };
}

macro_rules! waits {
    ($($name:ident ($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) {
            let_go();
            unsafe { real!($name, fn($($type),*) -> ())($($argument),*) };
            note(op::SYNC_ACQUIRE, &region().tasks);
        }
    )*};
}

waits! { GOMP_taskwait(); GOMP_taskwait_depend(dependences: Pointer); GOMP_taskgroup_end(); }

/// Lets others run; the library may do tasks meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskyield() {
    let_go();
    unsafe { real!(GOMP_taskyield, fn() -> ())() }
}
