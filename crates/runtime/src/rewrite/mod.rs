//! Rewriting of the program's machine code, before it starts.
//!
//! The tool decides what is rewritten (`snag-patches`): it reads the program's file and decodes its instructions. The
//! runtime asks it for a list ([`ask`]) and applies that ([`apply`], [`traps`]):
//!
//! - A program may carry ThreadSanitizer's runtime inside: its callbacks become jumps to ours.
//! - Code that the compiler has not instrumented may synchronise by atomic instructions: these become traps.
//! - LLVM elides reads in front of writes, so writes count as reads, too; writes before which no read can have been
//!   elided get callbacks of their own.
//!
//! Whatever is overwritten is compared with the list first.

pub mod apply;
pub mod ask;
pub mod traps;
pub mod words;
