//! Text in chunks of whole lines, from any stream, through one buffer.

use crate::error::{Error, Position, Result};
use crate::scan::PADDING;
use std::io::Read;

/// A longer line is refused, so that a file without line ends cannot fill the memory.
pub const LONGEST_LINE: usize = 1 << 20;

const CHUNK: usize = 1 << 18;

/// Cuts a stream into chunks that end with a line.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// What was handed out last: `buffer[..used]`; the rest of `filled` is the start of the next chunk.
    used: usize,
    filled: usize,
    ended: bool,
    /// Lines handed out before the current chunk.
    line: u64,
}

impl<R: Read> Lines<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines { input, buffer: vec![0; CHUNK + LONGEST_LINE + PADDING], used: 0, filled: 0, ended: false, line: 0 }
    }

    /// The next chunk of whole lines; the last one of a stream may lack its line
    /// end. `None` at the end. `line` is the number of lines before the chunk.
    pub fn next_chunk(&mut self, line: u64) -> Result<Option<&[u8]>> {
        Ok(self.next_padded(line)?.map(|(padded, end)| &padded[..end]))
    }

    /// The same, with some bytes behind the chunk that may be read and mean
    /// nothing, and where the chunk ends.
    pub(crate) fn next_padded(&mut self, line: u64) -> Result<Option<(&[u8], usize)>> {
        self.line = line;
        self.buffer.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        loop {
            // What was there before holds no line end.
            let fresh = self.filled;
            if !self.ended && self.filled <= LONGEST_LINE {
                let end = (self.filled + CHUNK).min(self.buffer.len() - PADDING);
                match self.input.read(&mut self.buffer[self.filled..end]) {
                    Ok(0) => self.ended = true,
                    Ok(n) => self.filled += n,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(e) => {
                        let lines = memchr::memchr_iter(b'\n', &self.buffer[..self.filled]).count() as u64;
                        return Err(Error::new(Position::Line(line + lines + 1), format!("cannot read on: {e}")));
                    }
                }
            }
            if self.ended {
                self.used = self.filled;
                break;
            }
            if let Some(end) = memchr::memrchr(b'\n', &self.buffer[fresh..self.filled]) {
                self.used = fresh + end + 1;
                break;
            }
            if self.filled > LONGEST_LINE {
                break;
            }
        }
        if self.used == 0 && self.filled > 0 {
            return Err(Error::new(
                Position::Line(line + 1),
                format!("line is longer than {LONGEST_LINE} bytes; is this a text trace?"),
            ));
        }
        if line == 0 && self.buffer[..self.used].starts_with("\u{feff}".as_bytes()) {
            let message = "the text begins with a byte order mark; save it without one";
            return Err(Error::new(Position::Line(1), message));
        }
        let padded = &self.buffer[..self.used + PADDING];
        Ok(if self.used == 0 { None } else { Some((padded, self.used)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time, as a slow pipe does.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn chunks_end_with_lines_whatever_the_stream_hands_out() {
        let text = b"one\ntwo\n\nthree is longer\nlast";
        for step in 1..30 {
            let mut lines = Lines::new(Drip(text, step));
            let mut all = Vec::new();
            while let Some(chunk) = lines.next_chunk(0).unwrap() {
                all.extend_from_slice(chunk);
                assert!(chunk.ends_with(b"\n") || all.len() == text.len());
            }
            assert_eq!(all, text);
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::new(std::io::repeat(b'x'));
        let error = lines.next_chunk(7).unwrap_err();
        assert_eq!(error.position, Position::Line(8));
    }
}
