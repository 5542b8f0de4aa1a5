//! Where output goes: standard output, or a file that is written whole or not at all.

use crate::interrupt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 17;

/// Standard output or a file. A file appears under its name only with
/// [`Output::commit`]; until then, or without, what was there before stays.
pub enum Output {
    /// Standard output.
    Stdout(BufWriter<io::StdoutLock<'static>>),
    /// Something that cannot be replaced as a whole: a device, a pipe.
    Direct(BufWriter<File>, PathBuf),
    /// A file next to the one to be written.
    Replace(Replacement),
}

/// A new file that is going to take the name of another.
pub struct Replacement {
    out: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Output {
    /// Opens the file, or standard output for `None` and `-`.
    pub fn open(path: Option<&Path>) -> Result<Output, String> {
        match path {
            None => Ok(Output::stdout()),
            Some(path) if path == Path::new("-") => Ok(Output::stdout()),
            Some(path) => Output::file(path)
                .map_err(|e| format!("{}: cannot write: {}", path.display(), snag_formats::why_not_created(&e))),
        }
    }

    fn stdout() -> Output {
        Output::Stdout(BufWriter::with_capacity(BUFFER, io::stdout().lock()))
    }

    fn file(path: &Path) -> io::Result<Output> {
        // Through a symbolic link, the file it points to is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let existing = fs::metadata(&target).ok();
        if existing.as_ref().is_some_and(|data| !data.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Output::Direct(BufWriter::with_capacity(BUFFER, file), path.to_owned()));
        }
        let Some(name) = target.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        interrupt::unfinished(&temporary);
        let replacement =
            Replacement { out: BufWriter::with_capacity(BUFFER, file), temporary, target, committed: false };
        if let Some(data) = existing {
            fs::set_permissions(&replacement.temporary, data.permissions())?;
        }
        Ok(Output::Replace(replacement))
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Output::Stdout(_))
    }

    /// Everything was written: makes it visible.
    pub fn commit(mut self) -> Result<(), crate::Failure> {
        self.flush()?;
        if let Output::Replace(replacement) = &mut self {
            let target = replacement.target.display().to_string();
            replacement.commit().map_err(|e| format!("{target}: cannot write: {e}"))?;
        }
        Ok(())
    }
}

impl Replacement {
    fn commit(&mut self) -> io::Result<()> {
        self.out.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
        interrupt::finished(&self.temporary);
    }
}

impl Output {
    /// An error with the name of the file it is about.
    fn named(&self, error: io::Error) -> io::Error {
        let path = match self {
            Output::Stdout(_) => return error,
            Output::Direct(_, path) => path,
            Output::Replace(file) => &file.target,
        };
        io::Error::new(error.kind(), Unwritten(format!("{}: cannot write: {error}", path.display())))
    }

    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Output::Stdout(out) => out,
            Output::Direct(out, _) => out,
            Output::Replace(file) => &mut file.out,
        }
    }
}

/// What could not be written and why.
#[derive(Debug)]
pub struct Unwritten(String);

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritten {}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner().flush().map_err(|error| self.named(error))
    }
}
