//! The runtime library, ready to be preloaded.

use crate::ring::{memory_file, seal, shared_path};
use crate::wire::PLACE;
use snag_runtime::LIBRARY;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The name that the library is linked with: the longest that is needed.
const LINKED_NAME: &[u8] = b"libclang_rt.tsan-x86_64.so\0";

/// A runtime library in memory.
pub struct Library {
    file: OwnedFd,
}

impl Library {
    /// The library under the name by which a program asks for ThreadSanitizer's runtime, so that the dynamic linker takes
    /// ours for it and never loads the other. It says where the shared memory is.
    pub fn for_program(program: &Path, shared: &str) -> io::Result<Library> {
        if LIBRARY.is_empty() {
            return Err(io::Error::other("programs can be recorded only on Linux on x86-64"));
        }
        let name = wanted_name(program).unwrap_or_else(|| "libtsan.so.2".to_owned());
        let mut library = LIBRARY.to_vec();
        write_over(&mut library, LINKED_NAME, &name);
        if !write_over(&mut library, PLACE, shared) {
            return Err(io::Error::other("the runtime cannot be told where the shared memory is"));
        }
        let mut file = std::fs::File::from(memory_file("snag-runtime")?);
        file.write_all(&library)?;
        let file = OwnedFd::from(file);
        seal(&file, true)?;
        Ok(Library { file })
    }

    /// Where other processes find it while this one lives.
    pub fn path(&self) -> String {
        shared_path(&self.file)
    }
}

/// Puts a text where a longer one is, and zeros behind it; false if that is not there, or not longer.
fn write_over(library: &mut [u8], there: &[u8], text: &str) -> bool {
    let place = library.windows(there.len()).position(|bytes| bytes == there);
    let Some(place) = place.filter(|_| text.len() < there.len()) else { return false };
    library[place..place + there.len()].fill(0);
    library[place..place + text.len()].copy_from_slice(text.as_bytes());
    true
}

/// The name of ThreadSanitizer's runtime among the libraries that a program needs.
pub fn wanted_name(program: &Path) -> Option<String> {
    let file = object::ReadCache::new(std::fs::File::open(program).ok()?);
    needed(&file)?.into_iter().find(|name| name.starts_with("libtsan.so") || name.starts_with("libclang_rt.tsan"))
}

/// The shared libraries that an ELF file names; `None` if it is none.
fn needed<'a>(file: impl object::ReadRef<'a>) -> Option<Vec<String>> {
    use object::elf;
    use object::read::elf::{Dyn, FileHeader, SectionHeader};
    let header = elf::FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let (dynamic, strings) = sections.iter().find_map(|s| s.dynamic(endian, file).ok().flatten())?;
    let strings = sections.strings(endian, file, strings).ok()?;
    let names = dynamic.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED));
    Some(
        names
            .filter_map(|entry| strings.get(entry.val32(endian)?).ok())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
    )
}
