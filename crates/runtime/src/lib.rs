//! The library that takes the place of ThreadSanitizer's runtime in a program that was built for it.
//!
//! It is preloaded under the name of that runtime, answers the compiler's callbacks, replaces the functions of the C
//! library that synchronise, allocate, copy or block, and writes what happens into memory that it shares with the tool
//! (`wire`). One thread of the program runs at a time, so the order of events and their values are exact; or, if the user
//! asks for it, threads run freely.
//!
//! | room | what it does | look here for |
//! |---|---|---|
//! | [`tsan`] | callbacks of the compiler | what happens in `__tsan_write4`: `access` |
//! | | | in `__tsan_atomic32_load`: `atomic`; in `AnnotateHappensBefore`: `annotations` |
//! | [`interpose`] | library functions that ours replace | what happens in `pthread_mutex_lock`: `locks` |
//! | | | in `pthread_cond_wait`: `waiting`; in `read`: `blocking`; in `malloc`: `heap` |
//! | | | in `memcpy`: `ranges`; in `fork`, and when the program starts: `lifecycle` |
//! | [`scheduler`] | decides which thread runs | how the token changes hands: `token` |
//! | | | what threads do that run at the same time: `free_running` |
//! | | | how a stuck thread loses the token: `watchdog` |
//! | [`rewrite`] | rewrites machine code before the start | how callbacks linked into the program become ours: `patch` |
//! | | | how uninstrumented atomics are seen: `probe`; which writes count as reads: `elided_reads` |
//! | [`base`] | libc, memory, threads, records | how a record gets into shared memory: `record` |
//! | | | what is known about a thread: `thread`; system calls: `c` |
//! | [`wire`] | the format between runtime and tool | what a record looks like |
//!
//! Rules for the code here: it runs inside any program at any moment, so it uses no heap but its own (`base::memory`), no
//! thread-local storage but one word (`base::thread`), no lock of the C library, and it leaves errno alone. Where
//! something cannot be recorded, recording ends, not the program.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
// What is exported is called by compilers and programs under contracts that are not ours to state.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod base;
mod interpose;
mod protocol;
mod rewrite;
mod scheduler;
mod tsan;
#[allow(dead_code)]
mod wire;
