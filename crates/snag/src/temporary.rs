//! Files that only this process needs. They have no name, so nobody else can have made one in their place, and they are gone with the
//! process, however it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const NAMELESS: &str = "/proc/self/fd/";

/// What the last one that was made has: which program was run.
static OF: Mutex<String> = Mutex::new(String::new());

/// Whether a path is that of such a file.
pub fn is_nameless(path: &Path) -> bool {
    path.starts_with(NAMELESS)
}

/// What a recording is called in reports.
pub fn name(path: &Path) -> String {
    match is_nameless(path) {
        true => OF.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        false => path.display().to_string(),
    }
}

/// What a file is called when something is wrong with it.
pub fn shown(path: &Path) -> String {
    match is_nameless(path) {
        true => format!("the temporary recording in {}", std::env::temp_dir().display()),
        false => path.display().to_string(),
    }
}

/// A file without a name, for its owner alone.
pub struct Temporary(File);

impl Temporary {
    /// A new one, for the recording of a run of this program. There is one at a time.
    pub fn new(program: &OsStr) -> Result<Temporary, String> {
        *OF.lock().unwrap_or_else(PoisonError::into_inner) = format!("the run of {}", program.display());
        let folder = std::env::temp_dir();
        let made = tempfile::tempfile_in(&folder);
        made.map(Temporary).map_err(|error| format!("{}: cannot create a temporary file: {error}", folder.display()))
    }

    /// By which this process can open it.
    pub fn path(&self) -> PathBuf {
        format!("{NAMELESS}{}", self.0.as_raw_fd()).into()
    }

    /// Gives what is in it a name, which nobody could have known before.
    pub fn keep(&self, prefix: &str, suffix: &str) -> io::Result<PathBuf> {
        let mut named = tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile()?;
        io::copy(&mut File::open(self.path())?, &mut named)?;
        let (_, path) = named.keep()?;
        Ok(path)
    }
}
