//! What the sanitizers' headers declare beside the callbacks: questions about the runtime and the heap, and calls that
//! configure ThreadSanitizer's reports. Programs refer to these functions, and some do not start if one is missing. The
//! tool makes the reports, so these functions answer that there is none.

use crate::base::c::{self, Pointer};
use crate::base::program::Address;
use crate::base::thread;
use crate::scheduler::free_running::leaving;
use crate::stubs;
use crate::tsan::access::{range_read, range_write};
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What `mallinfo2` says.
#[repr(C)]
struct Heap {
    /// Bytes taken from the system, without blocks that are mapped by themselves.
    arena: usize,
    _pieces: [usize; 3],
    /// Bytes in blocks that are mapped by themselves.
    mapped: usize,
    _largest: [usize; 2],
    /// Bytes in use, without those.
    used: usize,
    /// Bytes that are free.
    free: usize,
    _top: usize,
}

unsafe extern "C" {
    safe fn mallinfo2() -> Heap;
    safe fn malloc_trim(pad: usize) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_current_allocated_bytes() -> usize {
    let heap = mallinfo2();
    heap.used + heap.mapped
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_heap_size() -> usize {
    let heap = mallinfo2();
    heap.arena + heap.mapped
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_free_bytes() -> usize {
    mallinfo2().free
}

/// The C library keeps no count of what it has given back.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_unmapped_bytes() -> usize {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_estimated_allocated_size(size: usize) -> usize {
    size
}

/// Nobody keeps a list of blocks here: what is no null pointer is taken for one, as the header demands of its users.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_ownership(block: Pointer) -> c_int {
    !block.is_null() as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_allocated_size(block: Pointer) -> usize {
    // SAFETY: the program says that the block is one of the heap's, as the header demands.
    if block.is_null() { 0 } else { unsafe { c::malloc_usable_size(block) } }
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_purge_allocator() {
    malloc_trim(0);
}

/// 0: they were not installed.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_install_malloc_and_free_hooks(_allocated: Pointer, _freed: Pointer) -> c_int {
    0
}

/// The first who asks may go on and report.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_acquire_crash_state() -> c_int {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    (ASKED.fetch_add(1, Relaxed) == 0) as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_get_report_path() -> *const u8 {
    c"".as_ptr().cast()
}

/// Names are found out by the tool, after the run.
extern "C" fn no_name(_address: Pointer, _format: *const u8, text: Address, size: usize) {
    if size > 0 {
        text.write(0u8);
    }
}

/// The kind of memory at an address.
extern "C" fn no_place(
    _address: Pointer,
    name: Address,
    size: usize,
    first: Option<&mut usize>,
    length: Option<&mut usize>,
) -> *const u8 {
    no_name(core::ptr::null_mut(), core::ptr::null(), name, size);
    [first, length].into_iter().flatten().for_each(|word| *word = 0);
    c"".as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn ThreadSanitizerQuery(_question: *const u8) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn RunningOnValgrind() -> c_int {
    0
}

/// How many times slower the program runs, about.
#[unsafe(no_mangle)]
pub extern "C" fn ValgrindSlowdown() -> f64 {
    10.0
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_testonly_shadow_stack_current_size() -> usize {
    thread::current().map_or(0, |thread| thread.depth.get())
}

// Objects of libraries, of which a program says itself when they are read and written.

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_external_register_tag(_kind: *const u8) -> usize {
    static TAGS: AtomicUsize = AtomicUsize::new(0);
    TAGS.fetch_add(1, Relaxed) + 1
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_external_read(object: usize, pc: usize, _tag: usize) {
    leaving(|| range_read(object, 1, pc));
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_external_write(object: usize, pc: usize, _tag: usize) {
    leaving(|| range_write(object, 1, pc));
}

extern "C" fn nothing() -> usize {
    0
}

stubs! {
    __tsan_locate_address "r11" no_place; __sanitizer_symbolize_pc "r11" no_name;
    __sanitizer_symbolize_global "r11" no_name;
    __sanitizer_set_report_path "r11" nothing; __sanitizer_set_report_fd "r11" nothing;
    __sanitizer_sandbox_on_notify "r11" nothing; __sanitizer_report_error_summary "r11" nothing;
    __sanitizer_print_stack_trace "r11" nothing; __sanitizer_set_death_callback "r11" nothing;
    __sanitizer_get_module_and_offset_for_pc "r11" nothing;
    __tsan_external_register_header "r11" nothing; __tsan_external_assign_tag "r11" nothing;
    __tsan_get_current_report "r11" nothing; __tsan_get_report_data "r11" nothing;
    __tsan_get_report_tag "r11" nothing; __tsan_get_report_stack "r11" nothing; __tsan_get_report_mop "r11" nothing;
    __tsan_get_report_loc "r11" nothing; __tsan_get_report_loc_object_type "r11" nothing;
    __tsan_get_report_mutex "r11" nothing; __tsan_get_report_thread "r11" nothing;
    __tsan_get_report_unique_tid "r11" nothing; __tsan_get_alloc_stack "r11" nothing;
    AnnotatePCQCreate "r11" nothing; AnnotatePCQDestroy "r11" nothing; AnnotatePCQGet "r11" nothing;
    AnnotatePCQPut "r11" nothing;
}
