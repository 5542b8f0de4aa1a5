//! The library that takes the place of ThreadSanitizer's runtime in a program that was built for it.
//!
//! It is preloaded under the name of that runtime, answers the compiler's callbacks, replaces the functions of the C
//! library that synchronise, allocate, copy or block, and writes what happens into memory that it shares with the tool.
//! One thread of the program runs at a time, so the order of events and their values are exact; or, if the user asks
//! for it, threads run freely.
//!
//! | room | what it does | look here for |
//! |---|---|---|
//! | `tsan` | callbacks of the compiler | what happens in `__tsan_write4`: `access` |
//! | | | in `__tsan_atomic32_load`: `atomic`; in `AnnotateHappensBefore`: `annotations` |
//! | `interpose` | library functions that ours replace | what happens in `pthread_mutex_lock`: `locks` |
//! | | | in `pthread_cond_wait`: `conditions`; in `read`: `blocking`, `calls`; in `malloc`: `heap` |
//! | | | in `memcpy`: `ranges`; in `fork`, and when the program starts: `lifecycle` |
//! | `scheduler` | decides which thread runs | how the token changes hands: `token`, `dispatch` |
//! | | | how a thread waits: `block`; how a stuck thread loses the token: `watchdog` |
//! | | | what threads do that run at the same time: `free_running` |
//! | `protocol` | how threads and processes hand over | what the loom tests check: `go`, `lock`, `ring`, `seal` |
//! | `rewrite` | rewrites machine code before the start | who decides: `ask`; how callbacks become ours: `apply` |
//! | | | how uninstrumented atomics are seen: `traps` |
//! | `base` | libc, memory, threads, records | how a record gets into shared memory: `record` |
//! | | | what is known about a thread: `thread`; system calls: `kernel` |
//! | `wire` | the format between runtime and tool | what a record looks like |
//!
//! Tests: `tests/protocols.rs` for `protocol`; everything else runs inside recorded programs, in `recording` among the
//! tests of the command line (`cargo test -p snag --test recording`): this library replaces `malloc`, so it cannot be
//! linked into a test program.
//!
//! # Rules for the code here
//!
//! It runs inside any program at any moment. So it uses no heap but its own (`base::memory`), no thread-local storage
//! but one word (`base::thread`), no lock of the C library, no crate, and it leaves errno alone. The standard library
//! is used where it does none of that: collections, and cells that are set once. Where something cannot be recorded,
//! recording ends, not the program.
//!
//! # Contract of the entry points
//!
//! Functions with the C calling convention are called by compiled code, by libraries and by the kernel, never by
//! chance: whoever calls `memcpy` gives us what `memcpy` demands. We use such arguments for nothing but what the
//! function that ours replaces would do with them: pass them on (`pass_on!`), or read and write there
//! (`base::program::Address`). So a bad argument does no more harm than without us. Words that threads share are
//! atomics (`base::relaxed`), or behind a lock (`base::lock`).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
// The contract of what is exported is above.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod base;
mod interpose;
mod protocol;
mod rewrite;
mod scheduler;
mod tsan;

pub(crate) use snag_wire as wire;
