//! Looking at the program's memory.

/// An address that the program has passed to a function that reads there, or touches there next by itself.
///
/// It comes out of a call of the program's, so it is as good as the program: where it leads nowhere, the program faults
/// in our function as it would have in the one that ours replaces, and its own handler sees that.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub usize);

impl Address {
    /// So many bytes further on.
    #[inline(always)]
    pub const fn plus(self, bytes: usize) -> Address {
        Address(self.0.wrapping_add(bytes))
    }

    /// What is there, wherever it lies. Not atomic; another thread of the program may race with us, as it would with
    /// the program.
    #[inline(always)]
    pub fn read<T: Plain>(self) -> T {
        // SAFETY: the program says by its call that it can be read there (see the type). Every pattern of bits is a
        // `T`.
        unsafe { (self.0 as *const T).read_unaligned() }
    }

    /// One byte, read once: a loop over them is not made into a call of a function that ours replaces.
    #[inline(always)]
    pub fn byte(self) -> u8 {
        // SAFETY: as in `read`.
        unsafe { (self.0 as *const u8).read_volatile() }
    }

    /// Where the program wants a result.
    #[inline(always)]
    pub fn write<T: Plain>(self, value: T) {
        // SAFETY: the program has passed the address for us to write there.
        unsafe { (self.0 as *mut T).write_unaligned(value) };
    }

    /// What was last written there by an operand of so many bytes, as its logarithm: at most the low eight.
    #[inline(always)]
    pub fn operand(self, log: u8) -> u64 {
        match log {
            0 => self.byte() as u64,
            1 => self.read::<u16>() as u64,
            2 => self.read::<u32>() as u64,
            _ => self.read::<u64>(),
        }
    }

    /// The bytes before a zero, at most `most`.
    pub fn text_length(self, most: usize) -> usize {
        let mut length = 0;
        while length < most && self.plus(length).byte() != 0 {
            length += 1;
        }
        length
    }
}

impl<T> From<*const T> for Address {
    fn from(pointer: *const T) -> Address {
        Address(pointer as usize)
    }
}

impl<T> From<*mut T> for Address {
    fn from(pointer: *mut T) -> Address {
        Address(pointer as usize)
    }
}

/// # Safety
/// Every pattern of bits is a value of the type.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: a number, or a row of numbers, is whatever its bits say.
        unsafe impl Plain for $type {}
    )*};
}

plain! { u8 u16 i16 u32 i32 u64 usize u128 [usize; 2] [u64; 2] [i32; 2] [u64; 16] [u8; 128] crate::base::c::Timespec }

// SAFETY: a pointer may have any bits; only using it is another matter.
unsafe impl<T> Plain for *mut T {}
