//! The functions that ours replace.

use crate::base::c::{Pointer, RTLD_NEXT, dlerror, dlsym};
use crate::base::messages::die;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A function of the C library that one of ours replaces, or that we need: its name, with a zero byte, and its address
/// once that is known.
pub struct Real {
    pub name: &'static str,
    pub found: AtomicUsize,
}

unsafe extern "C" {
    // The linker's names for the beginning and the end of the section that holds them all.
    #[link_name = "__start_snag_real"]
    static FIRST: u8;
    #[link_name = "__stop_snag_real"]
    static END: u8;
}

impl Real {
    /// Its address.
    #[inline]
    pub fn get(&self) -> usize {
        match self.found.load(Relaxed) {
            0 => self.look_up(),
            known => known,
        }
    }

    #[cold]
    fn look_up(&self) -> usize {
        let mut address = self.find_by(RTLD_NEXT);
        if address == 0 {
            address = self.look_up_in_plugins();
        }
        if address == 0 {
            die(self.name.trim_end_matches('\0'));
        }
        self.found.store(address, Relaxed);
        address
    }

    /// Libraries for OpenMP may come with something that was loaded later, for itself alone.
    fn look_up_in_plugins(&self) -> usize {
        const LOADED_ALREADY: c_int = 1 | 4;
        let load = crate::real!(dlopen, fn(*const u8, c_int) -> Pointer);
        let libraries = ["libgomp.so.1\0", "libomp.so.5\0", "libomp.so\0", "libiomp5.so\0"];
        let mut found = libraries.iter().filter_map(|library| {
            // SAFETY: the name ends in a zero byte, and the library is not loaded if it is not there already.
            let handle = unsafe { load(library.as_ptr(), LOADED_ALREADY) };
            let address = if handle.is_null() { 0 } else { self.find_by(handle) };
            (address != 0).then_some(address)
        });
        found.next().unwrap_or(0)
    }

    /// Asks the dynamic linker; 0 if there is no such function.
    fn find_by(&self, handle: Pointer) -> usize {
        // SAFETY: the name ends in a zero byte, and the handle comes from `dlopen` or is `RTLD_NEXT`.
        unsafe { dlsym(handle, self.name.as_ptr()) as usize }
    }
}

/// Looks all of them up while nothing runs yet: later, that could mean waiting for a lock of the dynamic linker in the
/// middle of an operation. A function that is missing now may come with a library, or is never called.
pub fn look_up_all() {
    let [first, end]: [*const Real; 2] = [(&raw const FIRST).cast(), (&raw const END).cast()];
    // SAFETY: the linker puts the section's statics, all of them a `Real`, one after the other between the two symbols.
    let all = unsafe { core::slice::from_raw_parts(first, end.offset_from_unsigned(first)) };
    for real in all {
        real.found.store(real.find_by(RTLD_NEXT), Relaxed);
    }
    // The program must not find our failures.
    dlerror();
}

/// The function of the C library that one of ours replaces.
#[macro_export]
macro_rules! real {
    ($name:ident, fn($($argument:ty),*) -> $result:ty) => {{
        #[used]
        #[unsafe(link_section = "snag_real")]
        static REAL: $crate::base::real::Real = $crate::base::real::Real {
            name: concat!(stringify!($name), "\0"),
            found: core::sync::atomic::AtomicUsize::new(0),
        };
        let found = REAL.get();
        #[allow(unused_unsafe)]
        // SAFETY: the dynamic linker has found the function by its name, and the library's header gives it this type.
        let function = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> $result>(found) };
        function
    }};
}

/// Calls the function that ours replaces, as the program has called ours: with the arguments that it has passed.
#[macro_export]
macro_rules! pass_on {
    ($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty) => {{
        let function = $crate::real!($name, fn($($type),*) -> $result);
        #[allow(unused_unsafe)]
        // SAFETY: the program calls the function with these arguments, and answers for them; we only stand in between.
        let result = unsafe { function($($argument),*) };
        result
    }};
}
