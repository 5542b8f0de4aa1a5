//! The library that takes the place of ThreadSanitizer's runtime in a program that was built for it.
//!
//! It is preloaded under the name of that runtime, answers the compiler's callbacks, stands before the functions of the
//! C library that synchronise, allocate, copy or block, and writes what happens into memory that it shares with the tool
//! (`wire`). One thread of the program runs at a time (`token`), so the order of events and the values are exact; or, if the user
//! wants it so, threads run freely (`free`).
//!
//! Rules for the code here: it runs inside any program at any moment, so it uses no heap but its own (`memory`), no
//! thread-local storage but one word (`thread`), no lock of the C library, and it leaves errno alone. Where something
//! cannot be recorded, recording ends, not the program.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
// What is exported is called by compilers and programs under contracts that are not ours to state.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod access;
mod annotations;
mod atomic;
mod atomic128;
mod blocking;
mod c;
mod cancel;
mod decode;
mod descriptors;
mod exit;
mod fibers;
mod forbidden;
mod free;
mod futex;
mod heap;
mod interface;
mod life;
mod locks;
mod memory;
mod once;
mod openmp;
mod patch;
mod probe;
mod ranges;
mod ready;
mod record;
mod sent;
mod signals;
mod spin;
mod stacks;
mod streams;
mod thread;
mod threads;
mod token;
mod unread;
mod unwinding;
mod versions;
mod waiting;
mod watchdog;
#[allow(dead_code)]
mod wire;
mod words;
