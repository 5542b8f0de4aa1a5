//! The table of library calls: functions of the C library that read and write memory on behalf of the program.
//!
//! A row has the function's name, the register in which its next argument would be (`stack` after six), its arguments
//! and its result; then what it reads and may write, and then, with its result, what it has written. What a function
//! reads may decide what the program does next, so it is recorded with its contents. `docs/library-calls.md` lists all
//! rows; a test keeps it up to date.
//!
//! | macro | for functions that |
//! |---|---|
//! | `library!` | compute, and neither block nor call anything of the program's |
//! | `kernel!` | report bad addresses, so what they read is looked at afterwards; they write what comes from outside |
//! | `calls_out!` | call functions of the program, or keep memory that they allocate |
//!
//! Functions that may block are in [`calls`](super::calls), those that print and scan in [`printing`] and [`scanning`],
//! those that copy and search in [`ranges`](super::ranges).

pub mod attributes;
pub mod effects;
pub mod encodings;
pub mod format;
pub mod fortified;
pub mod names;
pub mod numbers;
pub mod paths;
pub mod printing;
pub mod scanning;
pub mod sorting;
pub mod structures;
pub mod time;
pub mod users;
pub mod wide;
pub mod words;

use crate::base::c;
use crate::base::thread::inside;
use crate::interpose::blocking::around_with;
use crate::interpose::descriptors::begins;
use crate::interpose::library::effects::outside;
use crate::interpose::lifecycle::is_ours;
use crate::rewrite::traps;
use crate::scheduler::free_running::{is_free, leave};
use crate::scheduler::{is_on, lend, wipe};

/// Whether calls from there count: what the runtime calls, and code of Rust's library that nobody sees, does not.
pub fn counts(pc: usize) -> bool {
    is_on() && !is_ours(pc) && !traps::is_unseen(pc)
}

/// A call in one turn of its thread: what it reads is what it finds. Where threads run freely, others go on meanwhile.
pub fn in_turn<R>(pc: usize, before: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    if !counts(pc) {
        return call();
    }
    if is_free() {
        return around_with(pc, None, before, call, after);
    }
    let Some(thread) = begins(pc) else { return call() };
    let result = inside(thread, || {
        before();
        let result = lend(thread, call);
        if is_on() {
            after(&result);
        }
        result
    });
    let error = c::errno();
    wipe();
    c::set_errno(error);
    result
}

/// A call that reports bad addresses. What it reads is looked at only afterwards, and not if it has reported one.
pub fn with_kernel<R: Outcome>(pc: usize, reads: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    if is_free() {
        // Only the addresses are noted then.
        return in_turn(pc, reads, call, |result| outside(|| after(result)));
    }
    in_turn(
        pc,
        || (),
        call,
        |result| {
            if !result.is_bad_address() {
                reads();
                outside(|| after(result));
            }
        },
    )
}

/// A call from which functions of the program, or the allocator, are called.
pub fn calling_out<R>(pc: usize, before: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    if !counts(pc) || begins(pc).is_none() {
        return call();
    }
    before();
    leave();
    let result = call();
    let error = c::errno();
    if begins(pc).is_some() {
        after(&result);
        wipe();
    }
    c::set_errno(error);
    result
}

/// Results that say whether an address was bad.
pub trait Outcome {
    fn is_bad_address(&self) -> bool;
}

const BAD_ADDRESS: i32 = 14;

impl Outcome for i32 {
    fn is_bad_address(&self) -> bool {
        *self == -1 && c::errno() == BAD_ADDRESS
    }
}

impl Outcome for i64 {
    fn is_bad_address(&self) -> bool {
        *self == -1 && c::errno() == BAD_ADDRESS
    }
}

impl Outcome for isize {
    fn is_bad_address(&self) -> bool {
        *self == -1 && c::errno() == BAD_ADDRESS
    }
}

/// Addresses; null if the call has failed.
impl Outcome for usize {
    fn is_bad_address(&self) -> bool {
        *self == 0 && c::errno() == BAD_ADDRESS
    }
}

macro_rules! rows {
    ($how:path; $($name:ident $register:tt ($($argument:ident: $type:ty),*) -> $result:ty;
       $before:expr; |$answer:pat_param| $after:expr;)*) => {$(
        const _: () = {
            extern "C" fn recorded($($argument: $type,)* pc: usize) -> $result {
                $how(pc, || $before, || $crate::pass_on!($name($($argument: $type),*) -> $result), |&$answer| $after)
            }
            $crate::interpose::library::row! { $name $register recorded }
        };
    )*};
}

macro_rules! row {
    ($name:ident stack $target:path) => {
        $crate::interpose::calls::stub! { $name stack $target }
    };
    ($name:ident stack8 $target:path) => {
        $crate::interpose::calls::stub! { $name stack8 $target }
    };
    ($name:ident $register:literal $target:path) => {
        $crate::stubs! { $name $register $target; }
    };
}

macro_rules! library {
    ($($row:tt)*) => { $crate::interpose::library::rows! { $crate::interpose::library::in_turn; $($row)* } };
}

macro_rules! kernel {
    ($($row:tt)*) => { $crate::interpose::library::rows! { $crate::interpose::library::with_kernel; $($row)* } };
}

macro_rules! calls_out {
    ($($row:tt)*) => { $crate::interpose::library::rows! { $crate::interpose::library::calling_out; $($row)* } };
}

pub(crate) use {calls_out, kernel, library, row, rows};
