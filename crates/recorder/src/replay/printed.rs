//! What a run has printed into a file without a name, which lies in memory: how much is kept of it has a limit.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A program may print so many bytes. It can also make its file longer in other ways, and without printing anything.
pub const MOST: u64 = 64 << 20;

/// So much is kept of the first line, and of the last one.
const LINE: usize = 1 << 12;

/// What a run has printed, as far as it takes to tell two runs apart and to show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Bytes.
    pub length: u64,
    /// The first line, if there is one.
    pub first: Option<Vec<u8>>,
    /// The last line, if there are several.
    pub last: Option<Vec<u8>>,
    digest: Vec<u8>,
}

/// Whether a file has become too long, or takes too much memory.
pub fn is_too_much(file: &File) -> bool {
    const BLOCK: u64 = 512;
    file.metadata().is_ok_and(|data| data.len() > MOST || data.blocks() * BLOCK > 2 * MOST)
}

impl Printed {
    /// Reads a file of at most [`MOST`] bytes, or so much of it.
    pub fn read(file: &File) -> io::Result<Printed> {
        let (mut digest, mut length) = (Sha256::new(), 0);
        let (mut head, mut tail): (Vec<u8>, Vec<u8>) = Default::default();
        let mut buffer = vec![0; 1 << 16];
        while length < MOST {
            let bytes = match file.read_at(&mut buffer, length)? {
                0 => break,
                count => &buffer[..count],
            };
            digest.update(bytes);
            length += bytes.len() as u64;
            head.extend(bytes.iter().take(LINE - head.len()));
            tail.extend(bytes);
            tail.drain(..tail.len().saturating_sub(LINE));
        }
        let first = head.split(|&byte| byte == b'\n').next().filter(|_| length > 0).map(<[u8]>::to_vec);
        let tail = tail.strip_suffix(b"\n").unwrap_or(&tail);
        let start = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // All of a single line is in front.
        let several = head.strip_suffix(b"\n").unwrap_or(&head).contains(&b'\n') || length > LINE as u64;
        let last = several.then(|| tail[start..].to_vec());
        Ok(Printed { length, first, last, digest: digest.finalize().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::memory_file;

    fn printed(bytes: &[u8]) -> Printed {
        let file = File::from(memory_file("test").unwrap());
        file.write_all_at(bytes, 0).unwrap();
        Printed::read(&file).unwrap()
    }

    fn lines(bytes: &[u8]) -> (Option<String>, Option<String>) {
        let Printed { first, last, length, .. } = printed(bytes);
        assert_eq!(length, bytes.len() as u64);
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        (first.map(text), last.map(text))
    }

    #[test]
    fn the_first_and_the_last_line_are_kept() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(lines(b""), (None, None));
        assert_eq!(lines(b"one"), (some("one"), None));
        assert_eq!(lines(b"one\n"), (some("one"), None));
        assert_eq!(lines(b"one\ntwo"), (some("one"), some("two")));
        let many: Vec<u8> = (0..100_000).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        assert_eq!(lines(&many), (some("line 0"), some("line 99999")));
        let mut other = many.clone();
        other[500_000] ^= 1;
        assert_ne!(printed(&many), printed(&other), "they differ in the middle only");
        assert_eq!(printed(&many), printed(&many.clone()));
    }

    #[test]
    fn a_file_that_was_made_longer_than_memory_is_not_read_to_its_end() {
        let file = File::from(memory_file("test").unwrap());
        file.set_len(1 << 50).unwrap();
        assert!(is_too_much(&file));
        assert_eq!(Printed::read(&file).unwrap().length, MOST);
        file.set_len(MOST).unwrap();
        assert!(!is_too_much(&file));
    }
}
