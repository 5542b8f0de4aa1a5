//! Numbers and texts in payloads: numbers of at most 64 bits as LEB128 or with a first byte that tells how long they are, texts with their
//! length before them.

/// The longest text.
pub(super) const LONGEST_TEXT: usize = 4 << 20;

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The rest of a payload.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

const SHORT: &str = "a block ends in the middle of an entry";

impl<'a> Input<'a> {
    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, String> {
        let (&byte, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(byte)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, String> {
        match self.0.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.0 = rest;
                Ok(byte as u64)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = (byte & 0x7f) as u64;
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    /// A number of which the first byte says how many bytes it has: as many as the position of its lowest one. What is above that is the
    /// number. If there is no one in it, it is the next eight bytes.
    #[inline]
    pub(super) fn prefixed(&mut self) -> Result<u64, String> {
        let &first = self.0.first().ok_or(SHORT)?;
        if first == 0 {
            self.byte()?;
            let bytes = self.bytes(8)?;
            return Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        }
        let length = 1 + first.trailing_zeros() as usize;
        let word = match self.0.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..self.0.len()].copy_from_slice(self.0);
                u64::from_le_bytes(word)
            }
        };
        self.bytes(length)?;
        Ok(word << (64 - 8 * length) >> (64 - 7 * length))
    }

    pub(super) fn id(&mut self, what: &str, known: usize) -> Result<u32, String> {
        let id = self.number()?;
        if id >= known as u64 {
            return Err(format!("{what} {id} has no name yet"));
        }
        Ok(id as u32)
    }

    /// The length of a list, taken out of `left`.
    pub(super) fn count(&mut self, left: &mut usize) -> Result<usize, String> {
        let count = self.number()?;
        if count > *left as u64 {
            return Err(format!("a list of {count} entries is too long for one block"));
        }
        *left -= count as usize;
        Ok(count as usize)
    }

    #[inline]
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn length(&mut self) -> Result<usize, String> {
        let length = self.number()?;
        if length > LONGEST_TEXT as u64 {
            return Err(format!("a text of {length} bytes is longer than {LONGEST_TEXT}"));
        }
        Ok(length as usize)
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes too many in a block", self.0.len())) }
    }
}
