//! Functions that a program may define for ThreadSanitizer to call: its options, its suppressions, and a notice that the
//! runtime is ready. There is no call when something is found: that is long after the run.

use crate::base::c::{self, Pointer};
use crate::base::program::Address;
use crate::base::record::put_blob;
use crate::rewrite::apply;
use crate::wire::patches::HOOKS;
use crate::wire::{BLOB_OPTIONS, BLOB_SUPPRESSIONS};

/// A text that is longer than this is none.
const MOST: usize = 1 << 20;

/// A function of the program. Where ThreadSanitizer's runtime is inside, that may have one of its own, which does nothing.
fn defined(name: &'static core::ffi::CStr) -> Option<usize> {
    let number = HOOKS.iter().position(|hook| hook.as_bytes() == name.to_bytes());
    let inside = number.zip(apply::list()).and_then(|(number, (list, base))| Some((list.hook(number)?, base)));
    if let Some((address, base)) = inside {
        return Some(base.wrapping_add(address as usize));
    }
    /// The first definition in the order in which the dynamic linker looks.
    const ANYWHERE: Pointer = core::ptr::null_mut();
    // SAFETY: the name ends in a zero byte.
    let found = unsafe { c::dlsym(ANYWHERE, name.as_ptr().cast()) } as usize;
    if found == 0 {
        // The program does not ask why this failed.
        c::dlerror();
    }
    (found != 0).then_some(found)
}

/// Hands the tool what the program says about options and suppressions. Called inside.
pub fn tell_wishes() {
    for (name, kind) in [(c"__tsan_default_options", BLOB_OPTIONS), (c"__tsan_default_suppressions", BLOB_SUPPRESSIONS)]
    {
        let Some(function) = defined(name) else { continue };
        // SAFETY: that is its type in ThreadSanitizer's interface.
        let function = unsafe { core::mem::transmute::<usize, extern "C" fn() -> usize>(function) };
        let text = function();
        if text != 0 {
            let length = Address(text).text_length(MOST);
            // SAFETY: so many bytes were read there just now; the text lives as long as the program.
            put_blob(kind, unsafe { core::slice::from_raw_parts(text as *const u8, length) });
        }
    }
}

/// The functions of the program that want to know that the runtime is ready. Called inside: looking for a function that
/// does not exist takes memory, and frees it.
pub fn initializers() -> [Option<usize>; 2] {
    // Newer versions of ThreadSanitizer have a name for C, all have `__tsan::OnInitialize`.
    [c"__tsan_on_initialize", c"_ZN6__tsan12OnInitializeEv"].map(defined)
}

/// Tells the program that the runtime is ready. Called outside: what it does is recorded.
pub fn on_initialize(functions: [Option<usize>; 2]) {
    for function in functions.into_iter().flatten() {
        // SAFETY: `initializers` found it under a name that has this type in ThreadSanitizer's interface.
        let function = unsafe { core::mem::transmute::<usize, extern "C" fn()>(function) };
        function();
    }
}
