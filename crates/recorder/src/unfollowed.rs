//! Opening a file that somebody else may have put there.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Follows no link at the end of the path and waits for nobody, whatever is there.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    match data.is_file() {
        true => Ok((file, data)),
        false => Err(io::Error::other("not a regular file")),
    }
}
