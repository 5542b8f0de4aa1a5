//! Callbacks of the compiler: what instrumented code calls before it touches memory, around its functions, and in place
//! of its atomic operations; and what the sanitizers' headers let a program call by name.
//!
//! A callback takes the token if it has to, writes one record and returns. [`access`] is the hot path: nearly all of
//! the time that recording costs is spent there.

pub mod access;
pub mod annotations;
pub mod atomic;
pub mod atomic128;
pub mod fibers;
pub mod hooks;
pub mod interface;
