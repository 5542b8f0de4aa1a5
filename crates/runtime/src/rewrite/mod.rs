//! Rewriting of the program's machine code, before it starts.
//!
//! A program may carry ThreadSanitizer's runtime inside: its callbacks are overwritten with jumps to ours ([`patch`]).
//! Code that the compiler has not instrumented may synchronise by atomic instructions: these become traps ([`probe`]).
//! And LLVM leaves out reads in front of writes: writes after which no read can be missing get callbacks of their own
//! ([`elided_reads`]).

pub mod decode;
pub mod elided_reads;
pub mod patch;
pub mod probe;
pub mod words;
