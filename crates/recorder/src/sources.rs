//! Lines of the sources of a recorded program, for reports.
//!
//! A recording names its source files, and whoever made it may have named any file: the keys of whoever reads it, a device without end, a
//! pipe that nobody writes to. Reports are passed on. So a line is shown only of a regular file of moderate length that
//!
//! - lies below a folder that the user named, or
//! - lies below the working directory and has the name of a source file, or
//! - was compiled into the program that was recorded, if that program is here, unchanged: its own debug information names the file.
//!
//! What counts is where the file really is, behind all links.

mod compiled;
mod open;

use crate::recorded::Recorded;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// Longer files are not shown.
const LONGEST_FILE: u64 = 16 << 20;

/// No more of a line is shown.
const LONGEST_LINE: usize = 1000;

/// Bytes of files that are kept, as several findings are often about the same one.
const KEPT: usize = 64 << 20;

/// Names of source files end like this, in languages that are recorded.
const ENDINGS: [&str; 44] = [
    "a68", "ada", "adb", "ads", "asm", "c", "c++", "cc", "cp", "cpp", "cppm", "cu", "cuh", "cxx", "d", "def", "f",
    "f03", "f08", "f90", "f95", "for", "go", "h", "h++", "hh", "hpp", "hxx", "i", "ii", "inc", "inl", "ipp", "ixx",
    "l", "ll", "m", "mm", "rs", "s", "swift", "tcc", "tpp", "y",
];

/// Which files may be shown, and what was read of them.
pub struct Sources {
    /// Folders that the user named, as they really are.
    roots: Vec<PathBuf>,
    /// The working directory.
    here: Option<PathBuf>,
    /// The source files of the program, once they were asked for.
    compiled: OnceLock<compiled::Files>,
    /// What is in files that were asked for; nothing if they may not be shown.
    files: Mutex<HashMap<PathBuf, Option<Arc<str>>>>,
}

impl Sources {
    /// Also files below these folders may be shown.
    pub fn new(roots: &[PathBuf]) -> Sources {
        Sources {
            roots: roots.iter().filter_map(|root| root.canonicalize().ok()).collect(),
            here: std::env::current_dir().ok().and_then(|here| here.canonicalize().ok()),
            compiled: OnceLock::new(),
            files: Mutex::default(),
        }
    }

    /// A line of a source file that a recording names, counted from 1; nothing if the file may not be shown.
    pub fn line(&self, recorded: &Recorded, path: &str, line: u64) -> Option<String> {
        let path = match recorded.about("folder") {
            Some(folder) => Path::new(folder).join(path),
            None => PathBuf::from(path),
        };
        let text = self.text(recorded, &path)?;
        let line = text.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
        let end = line.char_indices().nth(LONGEST_LINE).map_or(line.len(), |(at, _)| at);
        Some(line[..end].to_owned())
    }

    fn text(&self, recorded: &Recorded, path: &Path) -> Option<Arc<str>> {
        let mut files = self.files.lock().ok()?;
        if let Some(known) = files.get(path) {
            return known.clone();
        }
        let may_be_shown = |real: &Path| self.may_be_shown(recorded, path, real);
        let text = open::regular(path, LONGEST_FILE, may_be_shown).map(|bytes| String::from_utf8_lossy(&bytes).into());
        let kept: usize = files.values().flatten().map(|text: &Arc<str>| text.len()).sum();
        if kept > KEPT {
            files.clear();
        }
        files.insert(path.to_owned(), text.clone());
        text
    }

    /// Whether the file that is really at `real` may be shown as the source file `path`.
    fn may_be_shown(&self, recorded: &Recorded, path: &Path, real: &Path) -> bool {
        let here = || self.here.as_ref().is_some_and(|here| real.starts_with(here)) && has_name_of_source(real);
        self.roots.iter().any(|root| real.starts_with(root))
            || here()
            || self.compiled.get_or_init(|| compiled::Files::of(recorded)).contains(path, real)
    }
}

fn has_name_of_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}
