//! From the program's start to its end: attaching to the tool, forks, and libraries that are loaded later.

use crate::base::c::{self, Pointer};
use crate::base::kernel;
use crate::base::lock::Mutex;
use crate::base::memory;
use crate::base::program::Address;
use crate::base::real::look_up_all;
use crate::base::record::{put_blob, put3, start_chunk};
use crate::base::relaxed::Relaxed;
use crate::base::shared::{attach, wanted};
use crate::base::thread::{self, Thread, inside};
use crate::interpose::{cancel, descriptors, missing, modelled, signal_order, signals, threads};
use crate::pass_on;
use crate::rewrite::{apply, traps};
use crate::scheduler::free_running::{leave, leaving};
use crate::scheduler::{
    HOLDER, IGNORING, Next, SCHEDULER, block, enter, forget_in_child, give_up_because_of, is_on, start, wake, watchdog,
};
use crate::tsan::hooks;
use crate::wire::{BLOB_MAPS, OTHER_CODE, head, op};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::*};

static STARTED: AtomicBool = AtomicBool::new(false);

/// First and last byte of our own instructions.
static OURS: [Relaxed<usize>; 2] = [Relaxed::zero(), Relaxed::zero()];

/// Whether an instruction is ours, or a copy that we have made.
pub fn is_ours(pc: usize) -> bool {
    (OURS[0].get()..=OURS[1].get()).contains(&pc) || traps::is_copy(pc)
}

/// A whole file, which may be one of `/proc`.
fn read_file(path: &[u8]) -> Option<Vec<u8>> {
    const MOST: usize = 4 << 20;
    let descriptor = kernel::open(path, 0);
    if descriptor < 0 {
        return None;
    }
    let mut bytes = vec![0; MOST];
    let length = kernel::read(descriptor, &mut bytes);
    kernel::close(descriptor);
    bytes.truncate(length);
    Some(bytes)
}

/// Tells the tool what is mapped where, and remembers where we are ourselves.
fn tell_maps() {
    let Some(maps) = read_file(b"/proc/self/maps\0") else { return };
    put_blob(BLOB_MAPS, &maps);
    let here = tell_maps as *const () as usize;
    for line in maps.split(|&b| b == b'\n') {
        let Some(range) = line.split(|&b| b == b' ').next().and_then(|range| core::str::from_utf8(range).ok()) else {
            continue;
        };
        let Some((from, to)) = range.split_once('-') else { continue };
        let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap_or(0));
        if (from..to).contains(&here) {
            OURS[0].set(from);
            OURS[1].set(to - 1);
        }
    }
}

/// Every instrumented part of the program calls this when it is initialised.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_init() {
    if STARTED.swap(true, AcqRel) {
        return;
    }
    apply::finish();
    look_up_all();
    // First, so that these are at the same places when the run is repeated: a schedule takes room.
    memory::prepare();
    thread::prepare();
    if !attach() {
        return;
    }
    modelled::prepare();
    start_chunk();
    let Some(first) = thread::new() else { return };
    first.kernel.store(kernel::thread_id(), Relaxed);
    first.handle.store(c::pthread_self(), Relaxed);
    first.identity.store(c::pthread_self(), Relaxed);
    first.inside.set(1);
    thread::set_current(Some(first));
    apply::tell_reads();
    traps::install();
    tell_maps();
    cancel::look_for_users();
    expect_forks();
    start(first);
    put3(head(op::BEGIN, 0, 0), 0, 0);
    missing::look_at_what_is_loaded();
    const REGISTER_MEMBARRIER: usize = 1 << 4;
    kernel::memory_barrier(REGISTER_MEMBARRIER);
    signals::install_own(c::SIGNAL, watchdog::let_go);
    if wanted().watchdog > 0 {
        threads::start_own(watchdog::watch);
    }
    hooks::tell_wishes();
    let initializers = hooks::initializers();
    first.inside.set(0);
    if !apply::is_complete() {
        give_up_because_of(OTHER_CODE);
    }
    leave();
    hooks::on_initialize(initializers);
}

// No other thread may be inside the runtime at the moment of a fork; the lock of the scheduler says so. Handlers of the
// program run before and after that moment, and do what they like. Those that are registered first are called last
// before a fork and first after it, and ours are.

/// Set while the thread that forks holds the lock of the scheduler.
static FORKING: AtomicBool = AtomicBool::new(false);

extern "C" fn before_fork() {
    if let Some(thread) = thread::current().filter(|thread| is_on() && thread.is_outside()) {
        thread.inside.add(1);
        SCHEDULER.lock().keep();
        FORKING.store(true, Relaxed);
    }
}

extern "C" fn after_fork() {
    if let Some(thread) = thread::current().filter(|_| FORKING.swap(false, Relaxed)) {
        // SAFETY: `before_fork` has kept the lock, in this thread, and set the flag.
        unsafe { SCHEDULER.give_back() };
        thread.inside.subtract(1);
    }
}

/// The child of a fork has one thread and is not recorded.
extern "C" fn in_child() {
    forget_in_child();
    after_fork();
}

fn expect_forks() {
    type Handler = extern "C" fn();
    let (before, after, child): (Handler, Handler, Handler) = (before_fork, after_fork, in_child);
    let library: Pointer = core::ptr::null_mut();
    pass_on!(__register_atfork(before: Handler, after: Handler, child: Handler, library: Pointer) -> c_int);
}

#[unsafe(no_mangle)]
pub extern "C" fn fork() -> c_int {
    leaving(|| {
        if descriptors::begins(0).is_some() {
            signal_order::sends();
        }
        pass_on!(fork() -> c_int)
    })
}

struct Clone {
    function: unsafe extern "C" fn(Pointer) -> c_int,
    argument: Pointer,
}

extern "C" fn begin_clone(of: Pointer) -> c_int {
    in_child();
    // SAFETY: `clone` has made it, and the child has a copy of its own.
    let clone = unsafe { Box::from_raw(of as *mut Clone) };
    // SAFETY: the program has passed the function to `clone`, to be called with the argument in the child.
    unsafe { (clone.function)(clone.argument) }
}

/// Whether a process that is made with these flags has memory of its own.
fn is_fork(flags: usize) -> bool {
    const SHARES_MEMORY: usize = 0x100;
    flags & SHARES_MEMORY == 0
}

/// The last three arguments are there if the flags say so.
#[unsafe(no_mangle)]
pub extern "C" fn clone(
    function: unsafe extern "C" fn(Pointer) -> c_int,
    stack: Pointer,
    flags: c_int,
    argument: Pointer,
    parent: Pointer,
    storage: Pointer,
    child: Pointer,
) -> c_int {
    type Function = unsafe extern "C" fn(Pointer) -> c_int;
    let really = |function: Function, argument: Pointer| {
        pass_on!(clone(
            function: Function, stack: Pointer, flags: c_int, argument: Pointer, parent: Pointer, storage: Pointer,
            child: Pointer,
        ) -> c_int)
    };
    if !is_on() || !is_fork(flags as usize) {
        return really(function, argument);
    }
    let clone = Box::into_raw(Box::new(Clone { function, argument }));
    let result = really(begin_clone, clone.cast());
    // SAFETY: it was made above, and the child has a copy of its own.
    drop(unsafe { Box::from_raw(clone) });
    result
}

/// After a system call that the program has made by its number: it may have been a fork.
pub fn after_system_call(n: i64, arguments: &[usize; 6], result: i64) {
    let flags = match n {
        kernel::number::FORK => 0,
        kernel::number::CLONE => arguments[0],
        kernel::number::CLONE3 => Address(arguments[0]).read(),
        _ => return,
    };
    if result == 0 && is_fork(flags) {
        in_child();
    }
}

/// A child that shares our memory would go through our records: make it a real one.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> c_int {
    fork()
}

/// Who has a library loaded or unloaded, and how often, as initialisation may load more.
struct Loader {
    thread: Option<&'static Thread>,
    depth: u32,
}

/// The lock is held for a look or a change.
static LOADER: Mutex<Loader> = Mutex::new(Loader { thread: None, depth: 0 });

/// Libraries are initialised and left one after the other, under a lock of the dynamic linker. It is taken here
/// already, so that the order is seen.
fn under_loader_lock<R>(work: impl FnOnce() -> R) -> R {
    leaving(|| within_loader_lock(work))
}

fn within_loader_lock<R>(work: impl FnOnce() -> R) -> R {
    if !is_on() {
        return work();
    }
    let Some(thread) = enter(Next::call(0)) else { return work() };
    let key = &raw const LOADER as usize;
    let is_taken = || LOADER.lock().thread.is_some_and(|loader| loader != thread);
    inside(thread, || {
        while is_on() && is_taken() {
            block(thread, key, None);
        }
    });
    let mut loader = LOADER.lock();
    loader.thread = Some(thread);
    loader.depth += 1;
    drop(loader);
    if is_on() {
        put3(head(op::SYNC_ACQUIRE, 0, 0), key as u64, 0);
    }
    let result = work();
    let counts = is_on() && enter(Next::call(0)).is_some();
    let mut loader = LOADER.lock();
    loader.depth -= 1;
    if loader.depth == 0 {
        loader.thread = None;
    }
    drop(loader);
    if counts {
        put3(head(op::SYNC_RELEASE, 0, 0), key as u64, 0);
        inside(thread, || wake(key, usize::MAX, 0));
    }
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn dlopen(path: *const u8, flags: c_int) -> Pointer {
    under_loader_lock(|| {
        let library = pass_on!(dlopen(path: *const u8, flags: c_int) -> Pointer);
        if is_on()
            && !library.is_null()
            && let Some(thread) = enter(Next::call(0))
        {
            inside(thread, tell_maps);
            inside(thread, missing::look_at_what_is_loaded);
            cancel::look_for_users();
        }
        library
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn dlclose(library: Pointer) -> c_int {
    under_loader_lock(|| pass_on!(dlclose(library: Pointer) -> c_int))
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_ignore_thread_begin() {
    if let Some(thread) = thread::current().filter(|_| is_on()) {
        let first = thread.ignoring.get() == 0;
        if first {
            leaving(|| enter(Next::call(0)));
        }
        thread.ignoring.add(1);
        if first && HOLDER.0.load(Relaxed) == thread.address() {
            // Where threads run freely, the thread itself knows.
            HOLDER.0.store(thread.address() | IGNORING, Relaxed);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_ignore_thread_end() {
    if let Some(thread) = thread::current().filter(|thread| is_on() && thread.ignoring.get() > 0) {
        thread.ignoring.subtract(1);
        if thread.ignoring.get() == 0 && HOLDER.0.load(Relaxed) == thread.address() | IGNORING {
            HOLDER.0.store(thread.address(), Relaxed);
        }
    }
}
