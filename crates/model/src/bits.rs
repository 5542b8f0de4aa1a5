//! Sixty-four answers in one word.

/// Bytes that are 0 or 1, as bits: the first byte becomes the lowest bit.
#[inline(always)]
pub(crate) fn bits_of(bytes: &[u8; 64]) -> u64 {
    // Times this number, eight bytes that are 0 or 1 leave their eight bits in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, &eight| bits << 8 | u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_becomes_its_bit() {
        let mut number = 1u64;
        for _ in 0..1000 {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(number >> 7);
            let bytes = std::array::from_fn(|i| (number >> i & 1) as u8);
            assert_eq!(bits_of(&bytes), number);
        }
    }
}
