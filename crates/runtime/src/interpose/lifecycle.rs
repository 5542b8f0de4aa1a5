//! Beginning and end: from the program's start, by way of forks and loaded libraries.

use crate::base::c::{self, Pointer};
use crate::base::memory::{Global, map};
use crate::base::record::{attach, put_blob, put3};
use crate::base::thread::{self, inside};
use crate::interpose::{signals, threads};
use crate::real;
use crate::scheduler::token::{self, HOLDER, Next, OFF, ON, enter, is_on};
use crate::scheduler::watchdog;
use crate::wire::{BLOB_MAPS, VARIABLE, head, op};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::*};

static STARTED: AtomicBool = AtomicBool::new(false);

/// First and last byte of our own instructions.
static OURS: Global<(usize, usize)> = Global::new((0, 0));

/// Whether an instruction is ours, or a copy that we have made.
pub fn is_ours(pc: usize) -> bool {
    let (first, last) = unsafe { *OURS.get() };
    (first..=last).contains(&pc) || crate::rewrite::probe::is_copy(pc)
}

/// A whole file, which may be one of `/proc`.
fn read_file(path: &[u8]) -> Option<&'static [u8]> {
    const MOST: usize = 4 << 20;
    let descriptor = c::open(path, 0);
    if descriptor < 0 {
        return None;
    }
    let buffer = unsafe { core::slice::from_raw_parts_mut(map(MOST, None), MOST) };
    let length = c::read(descriptor, buffer);
    c::close(descriptor);
    Some(&buffer[..length])
}

fn forget_file(file: &'static [u8]) {
    unsafe { c::system(c::number::MUNMAP, [file.as_ptr() as usize, 4 << 20, 0, 0, 0, 0]) };
}

/// The value of our variable, from the kernel: the C library may not have an environment yet.
fn variable() -> Option<Vec<u8>> {
    let environment = read_file(b"/proc/self/environ\0")?;
    let wanted = environment.split(|&b| b == 0).find_map(|entry| {
        entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=").map(|value| {
            let mut path = value.to_vec();
            path.push(0);
            path
        })
    });
    forget_file(environment);
    wanted
}

/// Tells the tool what is mapped where, and remembers where we are ourselves.
fn tell_maps() {
    let Some(maps) = read_file(b"/proc/self/maps\0") else { return };
    put_blob(BLOB_MAPS, maps);
    let here = tell_maps as *const () as usize;
    for line in maps.split(|&b| b == b'\n') {
        let Some(range) = line.split(|&b| b == b' ').next().and_then(|range| core::str::from_utf8(range).ok()) else {
            continue;
        };
        let Some((from, to)) = range.split_once('-') else { continue };
        let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap_or(0));
        if (from..to).contains(&here) {
            unsafe { *OURS.get() = (from, to - 1) };
        }
    }
    forget_file(maps);
}

/// Every instrumented part of the program calls this when it is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_init() {
    if STARTED.swap(true, AcqRel) {
        return;
    }
    crate::rewrite::patch::finish();
    let Some(path) = variable() else { return };
    c::look_up_all();
    // First, so that it is at the same place when the run is repeated: a schedule takes room.
    thread::prepare();
    if !attach(&path) {
        return;
    }
    let Some(first) = thread::new() else { return };
    let this = unsafe { &mut *first };
    this.kernel.store(c::thread_id(), Relaxed);
    this.handle.store(unsafe { c::pthread_self() }, Relaxed);
    this.identity.store(this.handle.load(Relaxed), Relaxed);
    this.inside = 1;
    thread::set_current(first);
    crate::rewrite::elided_reads::tell_reads();
    crate::rewrite::patch::install_probes();
    tell_maps();
    crate::interpose::cancel::look_for_users();
    expect_forks();
    token::start(first);
    put3(head(op::BEGIN, 0, 0), 0, 0);
    const REGISTER_MEMBARRIER: usize = 1 << 4;
    unsafe { c::system(c::number::MEMBARRIER, [REGISTER_MEMBARRIER, 0, 0, 0, 0, 0]) };
    signals::install_own(c::SIGNAL, watchdog::let_go);
    if crate::base::record::wanted().watchdog > 0 {
        threads::start_own(watchdog::watch);
    }
    this.inside = 0;
    unsafe { crate::scheduler::free_running::leave() };
}

// No other thread may be inside the runtime at the moment of a fork; the lock of the scheduler says so. Handlers of the
// program run before and after that moment, and do what they like. Those that are registered first are called last before a
// fork and first after it, and ours are.

/// Set while the thread that forks holds the lock of the scheduler.
static FORKING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn before_fork() {
    let thread = thread::current();
    if is_on() && !thread.is_null() && unsafe { (*thread).inside } == 0 {
        unsafe { (*thread).inside += 1 };
        token::SCHEDULER.lock();
        FORKING.store(true, Relaxed);
    }
}

unsafe extern "C" fn after_fork() {
    if FORKING.swap(false, Relaxed) {
        token::SCHEDULER.unlock();
        unsafe { (*thread::current()).inside -= 1 };
    }
}

/// The child of a fork has one thread and is not recorded.
unsafe extern "C" fn in_child() {
    ON.store(false, Relaxed);
    HOLDER.0.store(OFF, Relaxed);
    unsafe { after_fork() };
}

type Handler = unsafe extern "C" fn();

fn expect_forks() {
    let register = real!(__register_atfork, fn(Handler, Handler, Handler, Pointer) -> c_int);
    unsafe { register(before_fork, after_fork, in_child, core::ptr::null_mut()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> c_int {
    if crate::interpose::descriptors::begins(0) {
        crate::interpose::signal_order::sends();
    }
    let child = unsafe { real!(fork, fn() -> c_int)() };
    unsafe { crate::scheduler::free_running::leave() };
    child
}

struct Clone {
    function: unsafe extern "C" fn(Pointer) -> c_int,
    argument: Pointer,
}

unsafe extern "C" fn begin_clone(of: Pointer) -> c_int {
    unsafe { in_child() };
    let clone = unsafe { Box::from_raw(of as *mut Clone) };
    unsafe { (clone.function)(clone.argument) }
}

/// Whether a process that is made with these flags has memory of its own.
fn is_fork(flags: usize) -> bool {
    const SHARES_MEMORY: usize = 0x100;
    flags & SHARES_MEMORY == 0
}

/// The last three arguments are there if the flags say so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    function: unsafe extern "C" fn(Pointer) -> c_int,
    stack: Pointer,
    flags: c_int,
    argument: Pointer,
    parent: Pointer,
    storage: Pointer,
    child: Pointer,
) -> c_int {
    type Function = unsafe extern "C" fn(Pointer) -> c_int;
    let real = real!(clone, fn(Function, Pointer, c_int, Pointer, Pointer, Pointer, Pointer) -> c_int);
    if !is_on() || !is_fork(flags as usize) {
        return unsafe { real(function, stack, flags, argument, parent, storage, child) };
    }
    let clone: Pointer = Box::into_raw(Box::new(Clone { function, argument })).cast();
    let result = unsafe { real(begin_clone, stack, flags, clone, parent, storage, child) };
    drop(unsafe { Box::from_raw(clone as *mut Clone) });
    result
}

/// After a system call that the program has made by its number: it may have been a fork.
pub fn after_system_call(n: i64, arguments: &[usize; 6], result: i64) {
    let flags = match n {
        c::number::FORK => 0,
        c::number::CLONE => arguments[0],
        c::number::CLONE3 => unsafe { *(arguments[0] as *const usize) },
        _ => return,
    };
    if result == 0 && is_fork(flags) {
        unsafe { in_child() };
    }
}

/// A child that shares our memory would go through our records: make it a real one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> c_int {
    unsafe { fork() }
}

/// Who has a library loaded or unloaded, and how often, as initialisation may load more. Guarded by the token.
static LOADER: Global<(*mut thread::Thread, u32)> = Global::new((core::ptr::null_mut(), 0));

/// Libraries are initialised and left one after the other, under a lock of the dynamic linker. It is taken here already, so
/// that the order is seen.
fn under_loader_lock<R>(work: impl FnOnce() -> R) -> R {
    crate::scheduler::free_running::leaving(|| within_loader_lock(work))
}

fn within_loader_lock<R>(work: impl FnOnce() -> R) -> R {
    let thread = thread::current();
    if !is_on() || !enter(thread, Next::call(0)) {
        return work();
    }
    let loader = LOADER.get();
    let key = loader as usize;
    inside(thread, || {
        while is_on() && !unsafe { (*loader).0.is_null() || (*loader).0 == thread } {
            token::block(thread, key, None);
        }
    });
    unsafe { *loader = (thread, (*loader).1 + 1) };
    if is_on() {
        put3(head(op::SYNC_ACQUIRE, 0, 0), key as u64, 0);
    }
    let result = work();
    let counts = is_on() && enter(thread, Next::call(0));
    unsafe { (*loader).1 -= 1 };
    if unsafe { (*loader).1 } == 0 {
        unsafe { (*loader).0 = core::ptr::null_mut() };
    }
    if counts {
        put3(head(op::SYNC_RELEASE, 0, 0), key as u64, 0);
        inside(thread, || token::wake(key, usize::MAX, 0));
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(path: *const u8, flags: c_int) -> Pointer {
    under_loader_lock(|| {
        let library = unsafe { real!(dlopen, fn(*const u8, c_int) -> Pointer)(path, flags) };
        let thread = thread::current();
        if is_on() && !library.is_null() && enter(thread, Next::call(0)) {
            inside(thread, tell_maps);
            crate::interpose::cancel::look_for_users();
        }
        library
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(library: Pointer) -> c_int {
    under_loader_lock(|| unsafe { real!(dlclose, fn(Pointer) -> c_int)(library) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_ignore_thread_begin() {
    let thread = thread::current();
    if is_on() && !thread.is_null() {
        let first = unsafe { (*thread).ignoring } == 0;
        if first {
            crate::scheduler::free_running::leaving(|| enter(thread, Next::call(0)));
        }
        unsafe { (*thread).ignoring += 1 };
        if first && HOLDER.0.load(Relaxed) == thread as usize {
            // Where threads run freely, the thread itself knows.
            HOLDER.0.store(thread as usize | token::IGNORING, Relaxed);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_ignore_thread_end() {
    let thread = thread::current();
    if is_on() && !thread.is_null() && unsafe { (*thread).ignoring } > 0 {
        unsafe { (*thread).ignoring -= 1 };
        if unsafe { (*thread).ignoring } == 0 && HOLDER.0.load(Relaxed) == thread as usize | token::IGNORING {
            HOLDER.0.store(thread as usize, Relaxed);
        }
    }
}
