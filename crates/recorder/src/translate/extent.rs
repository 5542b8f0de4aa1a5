//! What memory a program has, and how much is followed.
//!
//! What is kept about memory is longer than the memory itself, and it is kept for all that is ever touched. So what is gone has to be
//! forgotten: mappings that go back to the system in a call that is recorded, at once; others when there is much to follow, by a look at
//! what the program has mapped. Records may be forged, and tell of memory all over the place, but that costs no more than a look.
//! What no look helps against is a limit of the recorder, and is called that: it says nothing about who is to blame.

use super::Translator;
use super::heap::NUMBERED;
use super::shadow::REGION;
use std::ops::Range;

/// The first address that no program has.
pub const END: u64 = (1 << 47) - 4096;

/// The program, if it is known, and what it was seen to have.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// The process; 0 when it has ended.
    process: u32,
    /// The most memory that it was seen to have.
    most: u64,
    /// So much may be touched before there is a look at what is still there.
    room: u64,
}

/// So much more memory may be touched at least from one look to the next.
const ROOM: u64 = 1 << 27;

/// So much memory may be full of blocks, or of what was freed of them, where the program has none, as far as is known.
const BLOCKS: u64 = 1 << 32;

/// Whether a program can touch these bytes. It may say that it is about to, and die of it.
#[inline]
pub fn is_possible(address: u64, size: u64) -> bool {
    address < END && size <= END - address
}

impl Extent {
    /// The program is this process.
    pub fn is_of(&mut self, process: u32) {
        self.process = process;
    }

    /// The program has ended: there is nothing more to look at.
    pub fn ended(&mut self) {
        self.process = 0;
    }

    /// Looks how much it has had so far.
    pub fn look(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().strip_suffix(" kB")?.parse().ok());
        self.most = self.most.max(peak.unwrap_or(0_u64).saturating_mul(1024));
    }

    /// What it has mapped, by address; nothing if it has ended.
    fn mapped(&self) -> Vec<Range<u64>> {
        let maps = match self.process {
            0 => String::new(),
            process => std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default(),
        };
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        };
        maps.lines().filter_map(range).collect()
    }
}

impl Translator {
    /// Whether what is touched next can be followed. If not, a limit has ended the translation.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.heap.touched().max(self.shadow.touched()) <= self.extent.room.max(ROOM) || self.make_room()
    }

    /// Forgets memory that the program does not have any more. What is known of it comes again if it is touched again.
    #[cold]
    fn make_room(&mut self) -> bool {
        self.extent.look();
        let mapped = self.extent.mapped();
        let is_mapped = |number: u64| {
            let (start, end) = (number * REGION, (number * REGION).saturating_add(REGION));
            let from = mapped.partition_point(|range| range.end <= start);
            mapped.get(from).is_some_and(|range| range.start < end)
        };
        self.forget_all_near();
        self.heap.forget_if(|number| !is_mapped(number));
        let events = self.count() as u64;
        let heap = &self.heap;
        self.shadow.forget_regions(|number| {
            let in_program = number & ((1 << NUMBERED) / REGION - 1);
            // Memory that has addresses of its own in the trace has them no more when it is freed.
            let is_gone = in_program != number && !heap.has_place_in(number);
            is_gone || !is_mapped(in_program)
        });
        self.shadow.contention.resolve(events);
        let touched = self.heap.touched().max(self.shadow.touched());
        self.extent.room = touched + ROOM.max(touched / 4);
        let lost = self.heap.count_regions(|number| !is_mapped(number)) * REGION;
        let most = self.extent.most.saturating_add(self.extent.most / 2).saturating_add(BLOCKS);
        if lost > most {
            self.limit(format!("the program has more than {} of memory in blocks", shown(most)));
        } else if let Some((used, all)) = own_memory().filter(|(used, all)| used > &(all / 2)) {
            let (touched, used, all) = (shown(touched), shown(used), shown(all));
            self.limit(format!(
                "to follow the {touched} of memory that the program has touched takes {used}, and the machine has {all}"
            ));
        }
        !self.oddities.has_ended()
    }
}

fn shown(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// The memory that this process has, and that of the machine.
fn own_memory() -> Option<(u64, u64)> {
    let number = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let kilobytes: u64 =
            text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse().ok())?;
        Some(kilobytes.saturating_mul(1024))
    };
    Some((number("/proc/self/status", "VmRSS:")?, number("/proc/meminfo", "MemTotal:")?))
}
