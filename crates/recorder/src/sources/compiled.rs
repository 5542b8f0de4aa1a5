//! The source files that a program was compiled from, by its own debug information.

use super::open;
use crate::recorded::Recorded;
use crate::recorder::is_digest_of;
use addr2line::gimli::{self, AttributeValue, EndianSlice, RunTimeEndian};
use object::{Object, ObjectSection};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Larger programs are not read.
const LARGEST_PROGRAM: u64 = 1 << 30;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Paths of source files, by their last part.
#[derive(Default)]
pub(super) struct Files(HashMap<OsString, HashSet<PathBuf>>);

impl Files {
    /// Those of the program that was recorded, if it is here and the same; else none.
    pub(super) fn of(recorded: &Recorded) -> Files {
        Files::read(recorded).unwrap_or_default()
    }

    fn read(recorded: &Recorded) -> Option<Files> {
        let program = Path::new(recorded.about("program")?);
        // A recording has the path as it really is; one that means another file for each reader was not recorded here.
        let is_exact = |real: &Path| real == program;
        let bytes = open::regular(program, LARGEST_PROGRAM, is_exact)?;
        is_digest_of(&bytes, recorded.about("digest")?).then(|| Files::in_program(&bytes))
    }

    /// Those that the debug information of a program names.
    fn in_program(bytes: &[u8]) -> Files {
        let mut files = Files::default();
        // What cannot be read any more does not spoil what was.
        let _ = files.add_all(bytes);
        files
    }

    fn add_all(&mut self, bytes: &[u8]) -> Option<()> {
        let file = object::File::parse(bytes).ok()?;
        let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or(&[]);
            Ok(EndianSlice::new(data, RunTimeEndian::Little))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = dwarf.unit(header) {
                self.add_unit(&dwarf, &unit);
            }
        }
        Some(())
    }

    fn add_unit<'a>(&mut self, dwarf: &gimli::Dwarf<Reader<'a>>, unit: &gimli::Unit<Reader<'a>>) {
        let text = |value: AttributeValue<Reader<'a>>| {
            let text = dwarf.attr_string(unit, value).ok()?;
            Some(PathBuf::from(String::from_utf8_lossy(text.slice()).into_owned()))
        };
        let Some(program) = &unit.line_program else { return };
        let header = program.header();
        let folder = unit.comp_dir.map(|dir| PathBuf::from(String::from_utf8_lossy(dir.slice()).into_owned()));
        for file in header.file_names() {
            let mut path = folder.clone().unwrap_or_default();
            path.extend(file.directory(header).and_then(text));
            path.extend(text(file.path_name()));
            if let Some(name) = path.file_name() {
                self.0.entry(name.to_owned()).or_default().insert(path);
            }
        }
    }

    /// Whether the file that is really at `real`, and is called `path` in the recording, is one of them.
    pub(super) fn contains(&self, path: &Path, real: &Path) -> bool {
        let known = path.file_name().and_then(|name| self.0.get(name));
        known.is_some_and(|known| known.iter().any(|known| known.canonicalize().is_ok_and(|known| known == real)))
    }
}
