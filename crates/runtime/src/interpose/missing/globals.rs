//! Which variable of the program an address lies in, by the symbol tables of what is loaded.
//!
//! The full table is in the file; the one that is loaded has no static variables. Bytes that no symbol covers belong
//! together up to the next symbol.

use crate::base::kernel::{self, number, system};
use crate::base::program::Address;
use crate::interpose::missing::loaded::Object;
use core::ops::Range;

/// The variables of an object.
pub struct Globals {
    /// What it can write, without what is read-only after relocation.
    writable: Vec<Range<usize>>,
    /// Variables by address; they may overlap.
    variables: Vec<Range<usize>>,
}

impl Globals {
    /// Those of an instrumented object.
    pub fn of(object: &Object) -> Globals {
        let writable = writable(object);
        let mut variables = Vec::new();
        symbols(object, |variable| {
            if writable.iter().any(|range| range.contains(&variable.start)) {
                variables.push(variable);
            }
        });
        variables.sort_unstable_by_key(|variable| (variable.start, core::cmp::Reverse(variable.end)));
        // Of several names the longest counts.
        let mut end = 0;
        variables.retain(|variable| {
            let is_new = variable.end > end;
            end = end.max(variable.end);
            is_new
        });
        Globals { writable, variables }
    }

    /// The variable at an address, or the gap between two.
    pub fn find(&self, address: usize) -> Option<Range<usize>> {
        let around = self.writable.iter().find(|range| range.contains(&address))?;
        let next = self.variables.partition_point(|variable| variable.start <= address);
        let before = next.checked_sub(1).map(|before| self.variables[before].clone());
        match before {
            Some(variable) if variable.contains(&address) => Some(variable),
            before => {
                let start = before.map_or(around.start, |variable| variable.end.max(around.start));
                let end = self.variables.get(next).map_or(around.end, |variable| variable.start.min(around.end));
                Some(start..end)
            }
        }
    }
}

/// What an object can write when it runs.
pub fn writable(object: &Object) -> Vec<Range<usize>> {
    let sealed = &object.sealed;
    let without = |range: &Range<usize>| {
        if sealed.is_empty() || sealed.end <= range.start || range.end <= sealed.start {
            return [range.clone(), 0..0];
        }
        [range.start..sealed.start.max(range.start), sealed.end.min(range.end)..range.end]
    };
    object.data.iter().flat_map(without).filter(|range| range.start < range.end).collect()
}

/// A file in memory, to be read.
struct File {
    start: usize,
    length: usize,
}

impl File {
    fn open(path: &[u8]) -> Option<File> {
        let program: &[u8] = b"/proc/self/exe";
        let path = [if path.is_empty() { program } else { path }, b"\0"].concat();
        let descriptor = kernel::open(&path, 0);
        if descriptor < 0 {
            return None;
        }
        let length = kernel::file_length(descriptor);
        const READ: usize = 1;
        const PRIVATE: usize = 2;
        // SAFETY: the kernel maps the file where nothing is.
        let start = unsafe { system(number::MMAP, [0, length.max(0) as usize, READ, PRIVATE, descriptor as usize, 0]) };
        kernel::close(descriptor);
        (start > 0 && length > 0).then_some(File { start: start as usize, length: length as usize })
    }

    /// So many bytes from an offset on, if the file has them.
    fn at(&self, offset: usize, bytes: usize) -> Option<Address> {
        let end = offset.checked_add(bytes)?;
        (end <= self.length).then_some(Address(self.start + offset))
    }

    fn word(&self, offset: usize) -> Option<usize> {
        Some(self.at(offset, 8)?.read())
    }

    fn half(&self, offset: usize) -> Option<usize> {
        Some(self.at(offset, 4)?.read::<u32>() as usize)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: `open` has mapped it, and what was read of it is a copy.
        unsafe { kernel::unmap(self.start, self.length) };
    }
}

/// Calls `visit` with each variable of the table in the object's file.
fn symbols(object: &Object, mut visit: impl FnMut(Range<usize>)) -> Option<()> {
    let file = File::open(&object.path)?;
    if file.half(0)? as u32 != u32::from_le_bytes(*b"\x7fELF") {
        return None;
    }
    let sections = file.word(40)?;
    let [size, count] = [58, 60].map(|at| file.at(at, 2).map_or(0, |at| at.read::<u16>() as usize));
    const ALL: usize = 2;
    const LOADED: usize = 11;
    let find = |kind: usize| (0..count).map(|i| sections + i * size).find(|&at| file.half(at + 4) == Some(kind));
    let section = find(ALL).or_else(|| find(LOADED))?;
    let (from, length) = (file.word(section + 24)?, file.word(section + 32)?);
    const SYMBOL: usize = 24;
    for at in (from..from.checked_add(length)?).step_by(SYMBOL) {
        let info = file.at(at, SYMBOL)?.plus(4).byte();
        let (value, size) = (file.word(at + 8)?, file.word(at + 16)?);
        const VARIABLE: u8 = 1;
        if info & 15 == VARIABLE && size > 0 && value != 0 {
            let start = object.base.wrapping_add(value);
            visit(start..start.saturating_add(size));
        }
    }
    Some(())
}
