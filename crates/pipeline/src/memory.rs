//! How much memory there is, and who stops when it runs out.
//!
//! Rust ends the process when an allocation fails, and the kernel ends it when the machine's memory is used up. Both would take along what
//! other engines have found. So nobody lets it come to that: an engine that would need more than there is does not begin,
//! and one that comes near the limit on its way is told to stop as if the user had asked for it.

use crate::control_groups;
use crate::progress::Progress;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What is said of an engine that there was not enough memory for.
pub(crate) const OUT_OF_MEMORY: &str = "not looked at for lack of memory";

/// The size of the process is looked at no more often than this.
const STRIDE_MICROS: u64 = 2_000;

/// Until the next look, and for the report, so much of the limit stays free at least.
const RESERVE: u64 = 32 << 20;

/// The most memory this process has had in use so far, in bytes; 0 where the
/// system does not say.
pub fn peak_memory() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "VmHWM:").unwrap_or(0)
}

/// The value of a line such as `VmHWM:  1024 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().split(' ').next()?.parse::<u64>().ok()? * 1024)
}

/// What a process takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    /// Addresses, whether there is memory behind them or not.
    addresses: u64,
    /// Memory of its own.
    memory: u64,
}

impl Size {
    fn now() -> Option<Size> {
        let text = read_to_string("/proc/self/statm").ok()?;
        let mut pages = text.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (size, resident, shared) = (pages.next()?, pages.next()?, pages.next()?);
        // Pages have 4 KiB wherever recordings are made.
        Some(Size { addresses: size * 4096, memory: resident.saturating_sub(shared) * 4096 })
    }
}

/// What a process may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    addresses: u64,
    memory: u64,
}

impl Limit {
    /// What the system lets this process have, and no more than `most` bytes of memory.
    fn new(now: Size, most: Option<u64>) -> Limit {
        let limits = read_to_string("/proc/self/limits").unwrap_or_default();
        let available = read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemAvailable:"));
        let more = |free: u64| now.memory.saturating_add(free);
        let memory = [most, resource(&limits, "Max data size"), control_groups::free().map(more), available.map(more)];
        Limit {
            addresses: resource(&limits, "Max address space").unwrap_or(u64::MAX),
            memory: memory.into_iter().flatten().min().unwrap_or(u64::MAX),
        }
    }

    /// How much more there is.
    fn left(self, now: Size) -> u64 {
        let left = |limit: u64, used: u64| match limit {
            u64::MAX => u64::MAX,
            limit => limit.saturating_sub(RESERVE.max(limit / 16)).saturating_sub(used),
        };
        left(self.addresses, now.addresses).min(left(self.memory, now.memory))
    }
}

/// The limit that a line of `/proc/self/limits` names, if there is one.
fn resource(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?.parse().ok()
}

/// How many bytes more this process may take if it may take no more than `most` in all; `None` if nothing limits it.
pub fn free_memory(most: Option<u64>) -> Option<u64> {
    let now = Size::now().unwrap_or(Size { addresses: 0, memory: 0 });
    Some(Limit::new(now, most).left(now)).filter(|&left| left < u64::MAX)
}

/// Progress of which nobody need know that it also minds the memory: who asks whether to stop is told so when it runs out.
pub(crate) struct Minded<'a> {
    inner: &'a dyn Progress,
    limit: Limit,
    started: Instant,
    /// Microseconds after `started`.
    next_look: AtomicU64,
    short: AtomicBool,
    /// It was short at some time.
    was_short: AtomicBool,
}

impl<'a> Minded<'a> {
    /// Minds that the process takes no more than `most` bytes, or what the system lets it have if that is less.
    pub fn new(inner: &'a dyn Progress, most: Option<u64>) -> Minded<'a> {
        let now = Size::now().unwrap_or(Size { addresses: 0, memory: 0 });
        Minded {
            inner,
            limit: Limit::new(now, most),
            started: Instant::now(),
            next_look: AtomicU64::new(0),
            short: AtomicBool::new(false),
            was_short: AtomicBool::new(false),
        }
    }

    /// Whether so many bytes more can be had.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        Size::now().is_none_or(|now| self.limit.left(now) >= bytes)
    }

    /// Whether it has been short of memory since this was asked last.
    pub fn was_short(&self) -> bool {
        self.was_short.swap(false, Ordering::Relaxed)
    }

    fn is_short(&self) -> bool {
        let now = self.started.elapsed().as_micros() as u64;
        if now >= self.next_look.load(Ordering::Relaxed) {
            self.next_look.store(now + STRIDE_MICROS, Ordering::Relaxed);
            let short = !self.has_room_for(1);
            self.short.store(short, Ordering::Relaxed);
            self.was_short.fetch_or(short, Ordering::Relaxed);
        }
        self.short.load(Ordering::Relaxed)
    }
}

impl Progress for Minded<'_> {
    fn phase(&self, name: &str, total: u64) {
        self.inner.phase(name, total);
    }

    fn advance(&self, done: u64) {
        self.inner.advance(done);
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled() || self.is_short()
    }
}

/// What is said of something that was left open because there was no time, if there was no memory instead.
pub(crate) fn for_want_of_memory(reason: &str) -> String {
    match reason.strip_suffix(" in time") {
        Some(what) => format!("{what} for lack of memory"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Quiet;

    #[test]
    fn a_limit_is_read_from_what_the_system_says() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max data size             unlimited            unlimited            bytes     \n\
                      Max address space         4294967296           unlimited            bytes     \n";
        assert_eq!(resource(limits, "Max address space"), Some(4 << 30));
        assert_eq!(resource(limits, "Max data size"), None);
        assert_eq!(kilobytes("MemTotal: 8 kB\nMemAvailable:      12 kB\n", "MemAvailable:"), Some(12 << 10));
    }

    #[test]
    fn what_is_free_is_no_more_than_what_the_user_allows() {
        let free = free_memory(Some(1 << 26));
        assert!(free.is_some_and(|free| free <= 1 << 26), "{free:?}");
        assert_eq!(free_memory(Some(1)), Some(0));
        if cfg!(target_os = "linux") {
            assert!(free_memory(None).is_some_and(|free| free > 0));
        }
    }

    #[test]
    fn a_part_of_the_limit_stays_free() {
        let limit = Limit { addresses: u64::MAX, memory: 1 << 30 };
        let left = |memory| limit.left(Size { addresses: 1 << 40, memory });
        assert_eq!(left(0), (1 << 30) - (1 << 26));
        assert_eq!(left((1 << 30) - (1 << 26)), 0);
        assert_eq!(Limit { addresses: 1 << 30, ..limit }.left(Size { addresses: 1 << 40, memory: 0 }), 0);
    }

    #[test]
    fn who_asks_whether_to_stop_is_told_so_when_memory_runs_out() {
        let enough = Minded::new(&Quiet, None);
        assert!(!enough.cancelled() && !enough.was_short());
        let short = Minded::new(&Quiet, Some(1));
        assert!(short.cancelled() && short.was_short() && !short.was_short());
        assert!(!short.has_room_for(1));
    }
}
