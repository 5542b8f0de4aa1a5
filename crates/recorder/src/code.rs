//! Where the places and locks of a recording were in memory, told by the files that were mapped there, so that they can be found
//! again in a run in which the files are mapped elsewhere.

use crate::beside::{Input, put, put_text};
use crate::symbols::Symbols;
use snag_model::{LocId, LockId};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Which one.
    pub path: PathBuf,
    /// What is added to the addresses in the file.
    pub bias: u64,
    /// The addresses that it takes.
    pub extent: Range<u64>,
}

/// What is written when there is something new.
#[derive(Default)]
pub struct NewCode {
    /// Program counters, and the locations that they became.
    pub places: Vec<(LocId, u64)>,
    /// Locks and their addresses.
    pub locks: Vec<(LockId, u64)>,
    /// Files that have been written.
    written: usize,
}

impl NewCode {
    /// The block for what is new since the last time: nothing if that is nothing.
    pub fn take(&mut self, symbols: &Symbols, out: &mut Vec<u8>) {
        if self.places.is_empty() && self.locks.is_empty() {
            return;
        }
        out.push(crate::beside::kind::CODE);
        let files: Vec<Mapped> = symbols.mapped().skip(self.written).collect();
        self.written += files.len();
        put(out, files.len() as u64);
        for Mapped { path, bias, extent } in files {
            put_text(out, &path.to_string_lossy());
            put(out, bias);
            put(out, extent.start);
            put(out, extent.end);
        }
        put(out, self.places.len() as u64);
        for (location, pc) in self.places.drain(..) {
            put(out, location.0 as u64);
            put(out, pc);
        }
        put(out, self.locks.len() as u64);
        for (lock, address) in self.locks.drain(..) {
            put(out, lock.0 as u64);
            put(out, address);
        }
    }
}

/// About how many bytes a place or a lock takes.
const ENTRY: usize = 64;

/// What such blocks say.
#[derive(Debug, Default)]
pub struct Code {
    files: Vec<Mapped>,
    places: HashMap<LocId, Vec<u64>>,
    locks: HashMap<LockId, u64>,
}

impl Code {
    /// Takes over a block; `take` is told how many bytes each entry takes, and may refuse. Returns the largest location that the
    /// block means.
    pub fn read(
        &mut self,
        input: &mut Input,
        take: &mut dyn FnMut(usize) -> Result<(), String>,
    ) -> Result<Option<LocId>, String> {
        for _ in 0..input.number()? {
            let path = input.text()?;
            take(size_of::<Mapped>() + path.len())?;
            let (bias, start, end) = (input.number()?, input.number()?, input.number()?);
            self.files.push(Mapped { path: PathBuf::from(path), bias, extent: start..end });
        }
        let mut furthest = None;
        for _ in 0..input.number()? {
            take(ENTRY)?;
            let location = LocId(input.id("location", u32::MAX as usize)?);
            furthest = furthest.max(Some(location));
            self.places.entry(location).or_default().push(input.number()?);
        }
        for _ in 0..input.number()? {
            take(ENTRY)?;
            let lock = LockId(input.id("lock", u32::MAX as usize)?);
            self.locks.insert(lock, input.number()?);
        }
        Ok(furthest)
    }

    /// Whether a program counter of another run is one of those of a location, in the same file; `None` if the recording does not
    /// say.
    pub fn has_place(&self, location: LocId, pc: u64, now: &Symbols) -> Option<bool> {
        if self.places.is_empty() {
            return None;
        }
        let all = self.places.get(&location).map_or(&[][..], Vec::as_slice);
        Some(all.iter().any(|&then| self.moved(then, now) == pc))
    }

    /// Where a lock is in another run.
    pub fn lock(&self, lock: LockId, now: &Symbols) -> Option<u64> {
        self.locks.get(&lock).map(|&address| self.moved(address, now))
    }

    /// Where locks were.
    pub fn locks(&self) -> impl Iterator<Item = (LockId, u64)> {
        self.locks.iter().map(|(&lock, &address)| (lock, address))
    }

    /// Where an address of the recording is in another run: with the file that was mapped there, or, outside all files, where it was.
    pub fn moved(&self, address: u64, now: &Symbols) -> u64 {
        let Some(then) = self.files.iter().find(|file| file.extent.contains(&address)) else { return address };
        match now.mapped().find(|file| file.path == then.path).or_else(|| self.elsewhere(&then.path, now)) {
            Some(now) => address.wrapping_sub(then.bias).wrapping_add(now.bias),
            None => address,
        }
    }

    /// A file of the same name in another folder, as a program that is given again may lie elsewhere; none that was itself mapped in the
    /// recording.
    fn elsewhere(&self, then: &Path, now: &Symbols) -> Option<Mapped> {
        let name = then.file_name()?;
        let is_other = |path: &Path| self.files.iter().any(|file| file.path == path);
        now.mapped().find(|file| file.path.file_name() == Some(name) && !is_other(&file.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(maps: &str) -> Symbols {
        let mut symbols = Symbols::new(None);
        symbols.map(maps);
        symbols
    }

    /// The file that this test is in, as it would be mapped from an address on.
    fn mapped_at(start: u64) -> String {
        let path = std::env::current_exe().unwrap();
        format!("{start:x}-{:x} r--p 00000000 00:00 1 {}\n", start + 0x1000, path.display())
    }

    /// Addresses of a recording are looked for in the file that they were in, whatever others are called.
    #[test]
    fn a_file_of_the_same_name_is_not_taken_for_another_one() {
        let line = |start: u64, path: &str| format!("{start:x}-{:x} r--p 00000000 00:00 1 {path}\n", start + 0x1000);
        let extent = |start: u64| start..start + 0x1000;
        let file = |path: &str, bias: u64| Mapped { path: path.into(), bias, extent: extent(bias) };
        let files = vec![file("/one/plugin.so", 0x10_0000), file("/two/plugin.so", 0x20_0000)];
        let code = Code { files, ..Code::default() };
        let both = symbols(&(line(0x70_0000, "/one/plugin.so") + &line(0x80_0000, "/two/plugin.so")));
        assert_eq!([0x10_0010, 0x20_0010].map(|address| code.moved(address, &both)), [0x70_0010, 0x80_0010]);
        // The first one is not there this time.
        let one = symbols(&line(0x80_0000, "/two/plugin.so"));
        assert_eq!([0x10_0010, 0x20_0010].map(|address| code.moved(address, &one)), [0x10_0010, 0x80_0010]);
        // What was moved to another folder is found there.
        let moved = symbols(&(line(0x80_0000, "/two/plugin.so") + &line(0x90_0000, "/three/plugin.so")));
        assert_eq!([0x10_0010, 0x20_0010].map(|address| code.moved(address, &moved)), [0x90_0010, 0x80_0010]);
    }

    #[test]
    fn places_and_locks_move_with_the_files_that_they_are_in() {
        let (then, now) = (symbols(&mapped_at(0x5555_0000_0000)), symbols(&mapped_at(0x5666_0000_0000)));
        let places = vec![(LocId(3), 0x5555_0000_0123), (LocId(3), 0x5555_0000_0456), (LocId(4), 0x7000_0000_0001)];
        let mut new = NewCode { places, locks: vec![(LockId(1), 0x5555_0000_0800)], ..NewCode::default() };
        let mut block = Vec::new();
        new.take(&then, &mut block);
        let mut code = Code::default();
        assert_eq!(code.read(&mut Input(&block[1..]), &mut |_| Ok(())), Ok(Some(LocId(4))));
        for symbols in [&then, &now] {
            let start = symbols.mapped().next().unwrap().bias;
            assert_eq!(code.has_place(LocId(3), start + 0x123, symbols), Some(true));
            assert_eq!(code.has_place(LocId(3), start + 0x456, symbols), Some(true));
            assert_eq!(code.has_place(LocId(3), start + 0x124, symbols), Some(false));
            assert_eq!(code.has_place(LocId(4), start + 0x123, symbols), Some(false));
            assert_eq!(code.has_place(LocId(4), 0x7000_0000_0001, symbols), Some(true));
            assert_eq!(code.lock(LockId(1), symbols), Some(start + 0x800));
            assert_eq!(code.lock(LockId(2), symbols), None);
        }
        assert_eq!(code.has_place(LocId(3), 0x5555_0000_0123, &now), Some(false));
        // Once said is enough.
        block.clear();
        new.take(&then, &mut block);
        assert!(block.is_empty());
    }
}
