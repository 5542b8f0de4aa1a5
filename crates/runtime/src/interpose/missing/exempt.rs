//! Libraries that have no callbacks, and whose calls are no missing methods all the same.
//!
//! Each of them synchronises by nothing but functions that the runtime replaces, so what they put in order is seen; and
//! they are called so often that calls which nobody needs to know of would order everything.

/// How names of files begin, without their folder, and why.
const LIBRARIES: &[(&str, &str)] = &[
    ("ld-linux", "the dynamic linker: what it does under its lock is recorded by our `dlopen`"),
    ("libc.so", "the table of library calls says what its functions touch; locks and waits are replaced"),
    ("libc-", "the same, as older systems name it"),
    ("libm.so", "computes, and touches nothing but what its arguments point to"),
    ("libm-", "the same"),
    ("libmvec", "the same"),
    ("libpthread", "a part of the C library"),
    ("libdl", "a part of the C library"),
    ("librt", "a part of the C library"),
    ("libresolv", "a part of the C library"),
    ("libutil", "a part of the C library"),
    ("libnss_", "a part of the C library"),
    ("libanl", "a part of the C library"),
    ("libgcc_s", "unwinds and computes; its locks are those of the C library"),
    ("libstdc++", "synchronises by functions of the C library and futexes, and inline, in the program"),
    ("libc++", "the same"),
    ("libsupc++", "the same"),
    ("libunwind", "unwinds; its locks are those of the C library"),
    ("libgomp", "the runtime records what it does: see `openmp`"),
    ("libomp", "says itself what it does, if it is built for that"),
    ("libiomp", "the same"),
    ("libtsan", "a runtime for callbacks"),
    ("libclang_rt", "a runtime for callbacks"),
    ("linux-vdso", "the kernel's: clocks"),
];

/// Whether calls of the object that was loaded from this file are no missing methods.
pub fn is_exempt(path: &[u8]) -> bool {
    let name = path.iter().rposition(|&byte| byte == b'/').map_or(path, |slash| &path[slash + 1..]);
    LIBRARIES.iter().any(|(library, _)| name.starts_with(library.as_bytes()))
}

/// Functions that are called by the compiler's tables, or that return in ways of their own.
pub fn is_exempt_function(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 6] = [b"__tsan_", b"__sanitizer_", b"__cxa_", b"_Unwind_", b"__gxx_personality", b"__gcc_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}
