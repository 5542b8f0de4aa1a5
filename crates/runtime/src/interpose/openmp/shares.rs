//! Sections, iterations and tasks that threads fetch piece by piece.
//!
//! Fetching a piece orders nothing. But a thread that fetched one after the other would leave nothing for the rest of
//! the team, and what only one thread does shows no race. So whoever comes for a piece lets the others come, too.

use super::let_go;
use super::regions::{Region, region};
use crate::base::c::Pointer;
use crate::base::kernel;
use crate::base::relaxed::Relaxed;
use crate::pass_on;
use crate::scheduler::free_running::is_free;
use crate::scheduler::{is_on, others_wait};
use core::ffi::c_uint;

/// How often threads have waited for others so far: programs with many regions do not wait in all of them.
static WAITS: Relaxed<u32> = Relaxed::zero();

/// When a region begins the others are still on their way in the library, where nobody sees them.
pub(super) fn wait_for_others(region: &Region) {
    const FETCHES: u32 = 8;
    const TIME: u64 = 100_000;
    let fetches = &region.fetches;
    const MOST: u32 = 1000;
    if is_on() && !is_free() && fetches.get() < FETCHES && WAITS.get() < MOST && !others_wait() {
        fetches.add(1);
        WAITS.add(1);
        kernel::sleep(TIME);
    }
}

macro_rules! fetch {
    ($($name:ident ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            let_go();
            wait_for_others(region());
            pass_on!($name($($argument: $type),*) -> $result)
        }
    )*};
}

fetch! {
    GOMP_sections_start(count: c_uint) -> c_uint; GOMP_sections_next() -> c_uint;
    GOMP_loop_dynamic_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_guided_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_runtime_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_nonmonotonic_dynamic_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_nonmonotonic_guided_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_nonmonotonic_runtime_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_maybe_nonmonotonic_runtime_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_dynamic_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_guided_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_runtime_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_nonmonotonic_dynamic_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_nonmonotonic_guided_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_nonmonotonic_runtime_next(start: Pointer, end: Pointer) -> bool;
    GOMP_loop_ull_maybe_nonmonotonic_runtime_next(start: Pointer, end: Pointer) -> bool;
}
