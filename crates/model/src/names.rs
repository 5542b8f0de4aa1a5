//! Interning of names: text in, dense id out.
//!
//! Reading a text trace is mostly looking up names, so this is the hottest
//! structure of the project. A name of up to fifteen bytes *is* its key (two
//! machine words), so that a hit compares two words and touches no text; a
//! longer one is found by two independent hashes and then compared.

/// A set of names with dense ids in order of first appearance.
#[derive(Clone, Debug)]
pub struct Names {
    /// All names, one after the other.
    text: String,
    /// Where the name of each id ends in `text`; it starts where the one before ends.
    ends: Vec<usize>,
    /// Open addressing, a power of two long, at most half full, less while small.
    slots: Vec<Slot>,
    /// A hash has so many bits more than are needed for an index into `slots`.
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    /// Which name; nothing in a free slot.
    id: u32,
}

/// Up to fifteen bytes of text and their number in the top byte of `high`, or
/// two hashes of a longer text with a top byte that no short text has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    low: u64,
    high: u64,
}

/// No text has this key, so that one comparison tells a hit.
const FREE: Slot = Slot { key: Key { low: 0, high: 0xfe << 56 }, id: 0 };
const LONG: u64 = 0xff << 56;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key {
    #[inline(always)]
    fn of(text: &[u8]) -> Key {
        if text.len() <= 15 { Key::short(text) } else { Key::long(text) }
    }

    #[inline(always)]
    fn short(text: &[u8]) -> Key {
        let n = text.len();
        let top = (n as u64) << 56;
        // Two overlapping loads cover any length without a loop.
        if n >= 8 {
            let low = load64(&text[..8]);
            let tail = load64(&text[n - 8..]);
            // For n == 8 the tail is the low word again; shift it out.
            let high = if n == 8 { 0 } else { tail >> (8 * (16 - n)) };
            Key { low, high: high | top }
        } else if n >= 4 {
            let a = load32(&text[..4]) as u64;
            let b = load32(&text[n - 4..]) as u64;
            Key { low: a | b << (8 * (n - 4)), high: top }
        } else {
            let mut low = 0;
            for (i, &b) in text.iter().enumerate() {
                low |= (b as u64) << (8 * i);
            }
            Key { low, high: top }
        }
    }

    /// The key of a text of up to fifteen bytes of which sixteen bytes
    /// can be read, in two loads.
    #[inline(always)]
    pub fn padded(bytes: &[u8; 16], len: usize) -> Key {
        /// Which bits of either word count, and the length where it belongs.
        const MASKS: [[u64; 3]; 16] = {
            let mut masks = [[0; 3]; 16];
            let mut n = 0;
            while n < 16 {
                let all: u128 = (1 << (8 * n)) - 1;
                masks[n] = [all as u64, (all >> 64) as u64, (n as u64) << 56];
                n += 1;
            }
            masks
        };
        let [low, high, length] = MASKS[len & 15];
        Key { low: load64(&bytes[..8]) & low, high: load64(&bytes[8..]) & high | length }
    }

    /// A long text is folded from both ends with different multipliers, eight
    /// bytes at a time.
    fn long(text: &[u8]) -> Key {
        let mut low = text.len() as u64 ^ MIX;
        let mut high = (text.len() as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mut chunks = text.chunks_exact(8);
        for chunk in &mut chunks {
            let word = load64(chunk);
            low = (low ^ word).wrapping_mul(0xc4ce_b9fe_1a85_ec53).rotate_left(29);
            high = (high.rotate_left(23) ^ word).wrapping_mul(0x87c3_7b91_1142_53d5);
        }
        let mut word = 0;
        for (i, &b) in chunks.remainder().iter().enumerate() {
            word |= (b as u64) << (8 * i);
        }
        low = (low ^ word).wrapping_mul(MIX);
        high = (high.rotate_left(23) ^ word).wrapping_mul(MIX);
        Key { low: low ^ low >> 32, high: high | LONG }
    }

    /// Good in its upper bits. What differs between names are mostly digits, which differ in their lower halves; the
    /// rotation keeps those of both words apart.
    #[inline(always)]
    fn hash(self) -> u64 {
        (self.low ^ self.high.rotate_left(20)).wrapping_mul(MIX)
    }
}

#[inline(always)]
fn load64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[inline(always)]
fn load32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

impl Default for Names {
    fn default() -> Self {
        Names::new()
    }
}

impl Names {
    /// No names.
    pub fn new() -> Names {
        Names { text: String::new(), ends: Vec::new(), slots: vec![FREE; 16], shift: 60 }
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>() + self.slots.len() * size_of::<Slot>()
    }

    /// The name with this index.
    pub fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// All names in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The index of a name, if it is there.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.lookup(name.as_bytes(), Key::of(name.as_bytes())).ok()
    }

    /// The index of a name, added if new.
    pub fn intern(&mut self, name: &str) -> usize {
        let key = Key::of(name.as_bytes());
        match self.lookup(name.as_bytes(), key) {
            Ok(index) => index,
            Err(slot) => self.add(name, key, slot),
        }
    }

    /// The index of a name given as bytes, added if new. Only a new name is
    /// checked to be UTF-8: one that was seen before is known to be.
    #[inline]
    pub fn intern_bytes(&mut self, name: &[u8]) -> Result<usize, std::str::Utf8Error> {
        self.intern_key(name, Key::of(name))
    }

    /// The index of the name with a key made by [`Key::padded`], if it stands
    /// where it is looked for first, as most do.
    #[inline(always)]
    pub fn glance(&self, key: Key) -> Option<u32> {
        let slot = &self.slots[self.slot(key.hash())];
        (slot.key == key).then_some(slot.id)
    }

    /// Whether there are so many names that [`Names::prepare`] pays.
    pub fn is_large(&self) -> bool {
        self.slots.len() * size_of::<Slot>() > 1 << 19
    }

    /// Has the processor fetch what [`Names::glance`] will look at.
    #[inline(always)]
    pub fn prepare(&self, key: Key) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let slot: *const Slot = &self.slots[self.slot(key.hash())];
            // SAFETY: a prefetch reads nothing, and the address is that of a slot.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(slot.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = key;
    }

    #[inline(always)]
    fn slot(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The index of a name with this key, added if new.
    #[inline(never)]
    pub fn intern_key(&mut self, name: &[u8], key: Key) -> Result<usize, std::str::Utf8Error> {
        match self.lookup(name, key) {
            Ok(index) => Ok(index),
            Err(slot) => Ok(self.add(std::str::from_utf8(name)?, key, slot)),
        }
    }

    #[inline(always)]
    fn lookup(&self, name: &[u8], key: Key) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.slot(key.hash());
        loop {
            let slot = &self.slots[at];
            if slot.key == key {
                let index = slot.id as usize;
                if key.high < LONG || self.get(index).as_bytes() == name {
                    return Ok(index);
                }
            } else if slot.key == FREE.key {
                return Err(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn add(&mut self, name: &str, key: Key, slot: usize) -> usize {
        let index = self.ends.len();
        assert!(index < u32::MAX as usize - 1, "more than four thousand million names");
        self.text.push_str(name);
        self.ends.push(self.text.len());
        self.slots[slot] = Slot { key, id: index as u32 };
        // Sparse while that is cheap: most look-ups should hit at their first try.
        let sparse = match self.ends.len() {
            ..0x400 => 8,
            0x400..0x1_0000 => 4,
            _ => 2,
        };
        if sparse * self.ends.len() > self.slots.len() {
            self.grow();
        }
        index
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let old = std::mem::replace(&mut self.slots, vec![FREE; mask + 1]);
        self.shift -= 1;
        for slot in old.into_iter().filter(|s| s.key != FREE.key) {
            let mut at = self.slot(slot.key.hash());
            while self.slots[at].key != FREE.key {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Names) -> bool {
        self.text == other.text && self.ends == other.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_told_apart() {
        let mut names = Names::new();
        let mut all = Vec::new();
        for n in 0..40 {
            for last in ["", "a", "b", "\0"] {
                all.push("x".repeat(n) + last);
            }
        }
        let mut unique: Vec<String> = Vec::new();
        for name in &all {
            if !unique.contains(name) {
                unique.push(name.clone());
            }
            let index = names.intern(name);
            assert_eq!(unique[index], *name);
            assert_eq!(names.get(index), name);
        }
        assert_eq!(names.len(), unique.len());
        for (i, name) in unique.iter().enumerate() {
            assert_eq!(names.find(name), Some(i));
            assert_eq!(names.intern_bytes(name.as_bytes()), Ok(i));
            if name.len() < 16 {
                let surrounded = format!("{name}, and more behind it");
                let key = Key::padded(surrounded.as_bytes().first_chunk().unwrap(), name.len());
                assert_eq!(names.intern_key(name.as_bytes(), key), Ok(i));
                assert!(names.glance(key).is_none_or(|found| found as usize == i));
            }
        }
        assert_eq!(names.find("nothing like it"), None);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_and_leave_no_name() {
        let mut names = Names::new();
        assert!(names.intern_bytes(b"\xff\xfe").is_err());
        assert!(names.is_empty());
    }
}
