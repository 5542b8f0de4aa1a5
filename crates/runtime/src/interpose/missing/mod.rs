//! Calls out of instrumented code into code that nobody sees: libraries, and functions of the program, that were built
//! without callbacks.
//!
//! Such a call is a missing method (`docs/incomplete.md`): it begins, it ends, and it can reach what its arguments lead
//! to, and the variables of the library itself, or those that the function names. What it does in between is unknown; what it does by functions that the
//! runtime replaces (locks of the C library, futexes, the heap), and what it calls back, are events as ever.
//!
//! | file | what it does |
//! |---|---|
//! | `loaded` | what is loaded where, and which of it is instrumented |
//! | `exempt` | libraries whose calls are no missing methods, with reasons |
//! | `slots` | leads calls of instrumented code to us: slots of the global offset table, tables of functions |
//! | `silent` | the same for functions of the program itself |
//! | `targets` | the functions that are called so |
//! | `trampoline` | keeps arguments, results, stack and unwinding as they are |
//! | `calls` | begins and ends calls; closes those that are left by other ways |
//! | `reach` | what a call can reach: a conservative scan, within a budget |
//! | `blocks`, `globals` | the objects of that scan: heap blocks, variables |
//!
//! Where threads run freely, nothing is captured.

pub mod blocks;
mod calls;
mod exempt;
mod globals;
pub mod loaded;
mod reach;
mod silent;
mod slots;
mod targets;
mod trampoline;

pub use calls::{OpenCalls, called_back, close_all, goes_on, is_open, left_to, room_for_calls, thread_begins};
pub use reach::may_be_unreadable;
pub use silent::meant_by;
pub use slots::look_at_what_is_loaded;
pub use targets::Target;
pub use trampoline::STUB;
