//! Memory that other threads came to late, and where its accesses are.

use super::what;
use crate::snag_format::numbers::{Input, put};
use crate::snag_format::{unzigzag, zigzag};

/// Memory that was a thread's own before another one interfered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// Its first byte.
    pub address: u64,
    /// How many bytes; at least one.
    pub size: u64,
    /// The event from which on it is this memory.
    pub from: u64,
    /// The last event before which accesses to it may not be listed.
    pub to: u64,
}

/// The payload for some memory.
pub(in crate::snag_format) fn memory_payload(all: &[Late]) -> Vec<u8> {
    let mut payload = vec![what::MEMORY];
    put(&mut payload, all.len() as u64);
    let mut end = 0_u64;
    for &Late { address, size, from, to } in all {
        put(&mut payload, zigzag(address.wrapping_sub(end) as i64));
        put(&mut payload, size);
        put(&mut payload, from);
        put(&mut payload, to - from);
        end = address.wrapping_add(size);
    }
    payload
}

/// What may have been touched by accesses that were not listed, in a stretch of events.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Touched {
    /// The first of the events; those of the next stretch follow the last one.
    pub first: u64,
    /// Lines of 64 bytes, by number, in any order.
    pub lines: Vec<u64>,
}

impl Touched {
    /// Its payload.
    pub(in crate::snag_format) fn payload(mut self) -> Vec<u8> {
        self.lines.sort_unstable();
        self.lines.dedup();
        let mut payload = vec![what::TOUCHED];
        put(&mut payload, self.first);
        put(&mut payload, self.lines.len() as u64);
        let mut last = 0;
        for &line in &self.lines {
            put(&mut payload, line - last);
            last = line;
        }
        payload
    }
}

/// The payload of the end; events are ascending.
pub(in crate::snag_format) fn end_payload(events: &[u64]) -> Vec<u8> {
    let mut payload = vec![what::END];
    put(&mut payload, events.len() as u64);
    let mut last = 0;
    for &event in events {
        put(&mut payload, event - last);
        last = event;
    }
    payload
}

/// Most entries of memory of a file: a recorder has given up before.
const MOST: usize = 1 << 22;

/// Reads what is behind the first byte of a payload about memory.
pub(super) fn read_memory(input: &mut Input, all: &mut Vec<Late>) -> Result<(), String> {
    let count = input.number()?;
    if count > MOST.saturating_sub(all.len()) as u64 {
        return Err("too much memory that others came to late".to_owned());
    }
    let mut end = 0_u64;
    for _ in 0..count {
        let address = end.wrapping_add(unzigzag(input.number()?) as u64);
        let (size, from) = (input.number()?, input.number()?);
        let to = from.checked_add(input.number()?).ok_or("a number of an event is too large")?;
        end = address.checked_add(size).filter(|_| size > 0).ok_or("memory reaches over the last address")?;
        all.push(Late { address, size, from, to });
    }
    input.end()
}

/// Reads what is behind the first byte of what was touched: the first event, and whether `any` line is one that is wanted.
pub(super) fn read_touched(input: &mut Input, mut is_wanted: impl FnMut(u64) -> bool) -> Result<(u64, bool), String> {
    let first = input.number()?;
    let (mut line, mut any) = (0_u64, false);
    for _ in 0..input.number()? {
        line = line.wrapping_add(input.number()?);
        any |= is_wanted(line);
    }
    input.end()?;
    Ok((first, any))
}

/// Reads what is behind the first byte of the end.
pub(super) fn read_end(input: &mut Input) -> Result<Vec<u64>, String> {
    let (mut all, mut last) = (Vec::new(), 0_u64);
    for _ in 0..input.number()? {
        last = last.checked_add(input.number()?).ok_or("a number of an event is too large")?;
        all.push(last);
    }
    input.end()?;
    Ok(all)
}

/// Finds out whether an access is to such memory.
pub(super) struct Memory {
    /// By address.
    all: Vec<Late>,
    /// The greatest end of any of them up to each.
    ends: Vec<u64>,
    /// A bit for each line that may be in it, by a hash.
    lines: Vec<u64>,
}

/// Bytes of a line.
const LINE: u64 = 64;
const LINES: u64 = 1 << 18;

fn slot(line: u64) -> (usize, u64) {
    let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LINES.trailing_zeros());
    (hash as usize / 64, 1 << (hash % 64))
}

impl Memory {
    pub(super) fn new(mut all: Vec<Late>) -> Memory {
        all.sort_unstable_by_key(|late| late.address);
        let mut lines = vec![0; (LINES / 64) as usize];
        for &Late { address, size, .. } in &all {
            if size / LINE > LINES {
                lines.fill(u64::MAX);
                break;
            }
            for line in address / LINE..=(address + size - 1) / LINE {
                let (word, bit) = slot(line);
                lines[word] |= bit;
            }
        }
        let mut end = 0;
        let ends = all.iter().map(|late| {
            end = end.max(late.address + late.size);
            end
        });
        Memory { ends: ends.collect(), all, lines }
    }

    /// Whether a line may have such memory that lives up to an event or longer, and from before another one on.
    pub(super) fn has_line(&self, line: u64, events: (u64, u64)) -> bool {
        let (word, bit) = slot(line);
        let Some(address) = line.checked_mul(LINE) else { return false };
        self.lines[word] & bit != 0
            && self.find(address, address + (LINE - 1), |late| late.to >= events.0 && late.from < events.1)
    }

    /// Whether the access of up to eight bytes that is this event is to it.
    #[inline]
    pub(super) fn has(&self, address: u64, size: u64, event: u64) -> bool {
        let last = address + (size - 1);
        let may = |line: u64| {
            let (word, bit) = slot(line);
            self.lines[word] & bit != 0
        };
        (may(address / LINE) || may(last / LINE)) && self.look(address, last, event)
    }

    fn look(&self, address: u64, last: u64, event: u64) -> bool {
        self.find(address, last, |late| (late.from..=late.to).contains(&event))
    }

    fn find(&self, address: u64, last: u64, mut is: impl FnMut(&Late) -> bool) -> bool {
        let mut at = self.all.partition_point(|late| late.address <= last);
        while at > 0 && self.ends[at - 1] > address {
            at -= 1;
            let late = &self.all[at];
            if late.address + late.size > address && is(late) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all = [
            Late { address: 0x1000, size: 8, from: 0, to: 0 },
            Late { address: 0x10, size: 1 << 40, from: 7, to: 1 << 31 },
            Late { address: u64::MAX - 9, size: 8, from: 1, to: 2 },
        ];
        let payload = memory_payload(&all);
        let mut back = Vec::new();
        read_memory(&mut Input(&payload[1..]), &mut back).unwrap();
        assert_eq!(back, all);
        assert_eq!(read_end(&mut Input(&end_payload(&[2, 9, 9])[1..])).unwrap(), [2, 9, 9]);
        let touched = Touched { first: 7, lines: vec![5, 1 << 50, 3, 5] }.payload();
        let mut lines = Vec::new();
        let read = read_touched(&mut Input(&touched[1..]), |line| {
            lines.push(line);
            line == 5
        });
        assert_eq!((read.unwrap(), lines), ((7, true), vec![3, 5, 1 << 50]));
        for cut in 1..payload.len() - 1 {
            assert!(read_memory(&mut Input(&payload[1..cut]), &mut Vec::new()).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn accesses_are_found_in_any_of_several_lives() {
        let memory = Memory::new(vec![
            Late { address: 0x1000, size: 0x800, from: 5, to: 9 },
            Late { address: 0x1040, size: 8, from: 20, to: 30 },
            Late { address: 0x3000, size: 8, from: 0, to: 100 },
        ]);
        assert!(memory.has(0x1040, 8, 7) && memory.has(0x1040, 8, 25) && !memory.has(0x1040, 8, 15));
        assert!(memory.has(0xffc, 8, 5) && !memory.has(0xff8, 8, 5) && memory.has(0x17ff, 1, 9));
        assert!(!memory.has(0x1800, 4, 9) && memory.has(0x3007, 1, 0) && !memory.has(0x3008, 8, 0));
    }
}
