//! Functions of a library that we call ourselves.

use super::Arguments;
use crate::base::c::{Pointer, dlerror, dlsym};
use core::ffi::c_int;

/// A function of a library, at its address. It takes integers and pointers, and returns one, or nothing.
#[derive(Clone, Copy)]
pub struct Function(pub usize);

type Called = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;

impl Function {
    /// Calls it with the arguments of another function.
    pub fn call(self, arguments: &Arguments) -> usize {
        self.with(arguments.registers)
    }

    /// Calls it.
    pub fn with(self, arguments: [usize; 6]) -> usize {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: it is the function that the program calls, or one that a model says takes the same arguments: the
        // program has passed them. A function looks at as many as it has.
        let function = unsafe { core::mem::transmute::<usize, Called>(self.0) };
        // SAFETY: as above.
        unsafe { function(a, b, c, d, e, f) }
    }
}

/// The function of this name in the file of this name, or in any if that is not known.
pub fn find(name: &[u8], file: Option<&[u8]>) -> Option<Function> {
    if name.is_empty() {
        return None;
    }
    const DEFAULT: Pointer = core::ptr::null_mut();
    const LOADED_ALREADY: c_int = 1 | 4;
    let ended = |text: &[u8]| [text, b"\0"].concat();
    // SAFETY: the name ends in a zero byte, and the handle means all files, or comes from `dlopen`.
    let find = |handle: Pointer| unsafe { dlsym(handle, ended(name).as_ptr()) };
    let mut found = find(DEFAULT);
    // Not before: when the program starts, this would initialise libraries too early.
    if found.is_null()
        && let Some(file) = file
    {
        let load = crate::real!(dlopen, fn(*const u8, c_int) -> Pointer);
        // SAFETY: the name ends in a zero byte, and nothing is loaded that is not there already.
        let handle = unsafe { load(ended(file).as_ptr(), LOADED_ALREADY) };
        if !handle.is_null() {
            found = find(handle);
        }
    }
    // The program must not find our failures.
    dlerror();
    (!found.is_null()).then_some(Function(found as usize))
}
