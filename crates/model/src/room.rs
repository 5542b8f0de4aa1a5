//! How much memory a trace may take beside its events.
//!
//! A file of a few bytes can unpack to millions of names or comments. So what a reader keeps of them is counted and has a limit, which
//! grows with the length of the file as it is stored: a long file may have many names, a short one that has is meant to do harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that names, comments and declarations of a trace may take, unless somebody says otherwise.
pub const DEFAULT_MEMORY: u64 = 512 << 20;

/// So many bytes more for each byte of the file.
const FOR_EACH_BYTE: u64 = 16;

/// The limit, and how much of the file was read.
#[derive(Clone, Debug)]
pub struct Room {
    most: u64,
    read: Arc<AtomicU64>,
}

impl Default for Room {
    fn default() -> Room {
        Room::new(DEFAULT_MEMORY)
    }
}

impl Room {
    /// So many bytes and those that the length of the file adds.
    pub fn new(most: u64) -> Room {
        Room { most, read: Arc::default() }
    }

    /// The same for a file of which so many bytes have been read.
    pub fn with_read(self, read: Arc<AtomicU64>) -> Room {
        Room { read, ..self }
    }

    /// Bytes that may be taken by now.
    pub fn most(&self) -> u64 {
        self.most.saturating_add(self.read.load(Ordering::Relaxed).saturating_mul(FOR_EACH_BYTE))
    }

    /// Refuses what takes more.
    pub fn check(&self, taken: u64, what: &str) -> Result<(), String> {
        match self.most() {
            most if taken <= most => Ok(()),
            most => {
                Err(format!("{what} would take more than {} of memory; --memory SIZE raises this limit", spelled(most)))
            }
        }
    }
}

fn spelled(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 10 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 10 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes.div_ceil(1 << 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_grows_with_what_was_read_of_the_file() {
        let read = Arc::new(AtomicU64::new(0));
        let room = Room::new(1 << 20).with_read(read.clone());
        assert!(room.check(1 << 20, "names").is_ok());
        let refused = room.check((1 << 20) + 1, "names").unwrap_err();
        assert!(refused.contains("names") && refused.contains("1024 KiB") && refused.contains("--memory"), "{refused}");
        read.store(100, Ordering::Relaxed);
        assert!(room.check((1 << 20) + 1600, "names").is_ok() && room.check((1 << 20) + 1601, "names").is_err());
    }
}
