//! What is written beside the events: one extra block of a `.snag` file for each block of events.
//!
//! ```text
//! block    = kind u8, then
//! 1 stretch   first event, threads n × (call at the start, steps at the start), calls n × (events since the last, call),
//!             steps n × (events since the last, by how much more or less than one the step grows, signed)
//! 2 names     strings n × text; frames n × (pc, n × (function string, place string)); calls n × (caller, frame)
//! 3 schedule  n × (thread × 2 + timed out, steps at the start of the turn)
//! 4 about     UTF-8 `key=value`, each ended by a zero byte
//! 5 data      n × (address, size, name)
//! 6 threads   n × (thread, name)
//! 7 sites     n × (location of the trace, n × (function, place))
//! 8 layouts   types n × (size, 0 | 1 type of the elements | 2 + n, n × (name, offset, type)); variables n × (address,
//!             type, name or nothing if that of block 5 is right)
//! 9 code      files n × (path, what is added to the addresses in it, first and last address); places n × (location of the
//!             trace, program counter); locks n × (lock of the trace, address)
//! 10 unseen   n × text: code that ran and that nobody saw, and why
//! ```
//!
//! All numbers are LEB128. Strings, frames and calls are meant by their numbers and are told before they are meant: what is recorded
//! refers backwards only, so that no chain of callers has a cycle. A *call* is a node of the tree of calls: its caller's node and the frame it was called from; 0
//! is the bottom of every stack. An event's call is that of the last entry for its thread at or before it.

/// Kinds of blocks.
pub mod kind {
    #![allow(missing_docs)]
    pub const STRETCH: u8 = 1;
    pub const NAMES: u8 = 2;
    pub const SCHEDULE: u8 = 3;
    pub const ABOUT: u8 = 4;
    pub const DATA: u8 = 5;
    pub const THREADS: u8 = 6;
    pub const SITES: u8 = 7;
    pub const LAYOUTS: u8 = 8;
    pub const CODE: u8 = 9;
    pub const UNSEEN: u8 = 10;
}

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number of either sign.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends a text.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Takes numbers and texts off a block.
pub struct Input<'a>(pub &'a [u8]);

/// As names of the trace itself.
const LONGEST_TEXT: usize = 4 << 20;

const SHORT: &str = "a block ends in the middle of an entry";

impl Input<'_> {
    /// A number.
    pub fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(SHORT)?;
            self.0 = rest;
            number |= ((byte & 127) as u64) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    /// A number of either sign.
    pub fn signed(&mut self) -> Result<i64, String> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The number of something of which there are so many.
    pub fn id(&mut self, what: &str, known: usize) -> Result<u32, String> {
        match self.number()? {
            id if id < known as u64 => u32::try_from(id).map_err(|_| format!("{what} {id} is too large a number")),
            id => Err(format!(
                "{what} {id} is not known at this place, where there are {known} (rule: what is referred to comes before)"
            )),
        }
    }

    /// A text.
    pub fn text(&mut self) -> Result<String, String> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if length > LONGEST_TEXT {
            return Err(format!("a text of {length} bytes is longer than {LONGEST_TEXT}"));
        }
        let (text, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes too many in a block", self.0.len())) }
    }
}
