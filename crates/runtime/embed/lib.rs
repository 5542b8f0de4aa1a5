//! The runtime as a shared library, ready to be written to a file and preloaded.
//!
//! Its sources are in `src`. They export `malloc`, `pthread_create` and the like, so they must never be linked into a
//! program of ours: the build script compiles them apart, and this crate holds nothing but the result.

/// The shared library; empty where programs cannot be recorded, that is, anywhere but on x86-64 Linux.
pub static LIBRARY: &[u8] = include_bytes!(env!("SNAG_RUNTIME"));
