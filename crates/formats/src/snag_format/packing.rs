//! How the payload of a block is compressed.
//!
//! A payload of recorded events has parts that are unlike each other, its streams: with zstd each of them is a frame of its own.

use std::io;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch, compress_bound};

/// A block as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Packing {
    Plain = 0,
    /// LZ4, block format.
    Lz4 = 1,
    /// Zstd frames, one after the other. Not in files of version 1.
    Zstd = 2,
}

/// Fast, and hardly worse than higher levels on what guessing has left.
const ZSTD_LEVEL: i32 = 1;

/// Zstd skips so many bytes whenever it has found nothing that was there before: all of them.
const WITHOUT_MATCHES: u32 = 1 << 17;

/// So often a part of a payload is compressed in the same way before the others are tried again; twice as often whenever that has
/// changed nothing, up to the second number.
const KEPT: (u32, u32) = (16, 256);

/// Shorter payloads are taken as a whole.
const SHORT_PAYLOAD: usize = 1 << 16;

/// Shorter parts are compressed with matches, without trying what is better.
const SHORT_PART: usize = 1 << 12;

impl Packing {
    pub(super) fn from_code(code: u8) -> Option<Packing> {
        [Packing::Plain, Packing::Lz4, Packing::Zstd].into_iter().find(|packing| *packing as u8 == code)
    }

    /// Whether so many stored bytes can stand for so many plain ones.
    pub(super) fn can_hold(self, stored: usize, plain: usize) -> bool {
        match self {
            Packing::Plain => stored == plain,
            // It cannot shrink by more than a factor of 255.
            Packing::Lz4 => plain <= stored.saturating_mul(255),
            Packing::Zstd => true,
        }
    }

    /// Fills `plain`, which is as long as it must be.
    pub(super) fn unpack(self, stored: &[u8], plain: &mut [u8]) -> Result<(), String> {
        let length = match self {
            Packing::Plain => unreachable!("plain blocks are taken as they are"),
            Packing::Lz4 => lz4_flex::block::decompress_into(stored, plain).map_err(|e| e.to_string()),
            Packing::Zstd => zstd::bulk::decompress_to_buffer(stored, plain).map_err(|e| e.to_string()),
        };
        match length {
            Ok(length) if length == plain.len() => Ok(()),
            Ok(length) => Err(format!("the block holds {length} bytes instead of {}", plain.len())),
            Err(e) => Err(format!("the block cannot be decompressed: {e}")),
        }
    }
}

/// Compresses payloads in one way; keeps its memory from one to the next.
pub(super) struct Packer {
    packing: Packing,
    zstd: Option<Zstd>,
    packed: Vec<u8>,
}

impl Packer {
    pub(super) fn new(packing: Packing) -> Packer {
        let (packing, zstd) = match packing {
            // A library that does not know what is asked for: then nothing is compressed.
            Packing::Zstd => Zstd::new().map_or((Packing::Plain, None), |zstd| (packing, Some(zstd))),
            _ => (packing, None),
        };
        Packer { packing, zstd, packed: Vec::new() }
    }

    /// The payload as it is to be stored: compressed if that makes it smaller by more than a quarter (LZ4, which is
    /// there to save time) or at all (zstd). The ends of its parts are given if they are alike in all payloads that have some.
    pub(super) fn pack<'a>(&'a mut self, payload: &'a [u8], parts: &[usize]) -> (Packing, &'a [u8]) {
        let enough = match self.packing {
            Packing::Plain => return (Packing::Plain, payload),
            Packing::Lz4 => payload.len() / 4 * 3,
            Packing::Zstd => payload.len(),
        };
        match self.try_pack(payload, parts) {
            Some(length) if length < enough => (self.packing, &self.packed[..length]),
            _ => (Packing::Plain, payload),
        }
    }

    fn try_pack(&mut self, payload: &[u8], parts: &[usize]) -> Option<usize> {
        if let Some(zstd) = &mut self.zstd {
            return zstd.pack(payload, parts, &mut self.packed).ok();
        }
        let room = lz4_flex::block::get_maximum_output_size(payload.len());
        make_room(&mut self.packed, room);
        lz4_flex::block::compress_into(payload, &mut self.packed).ok()
    }
}

fn make_room(bytes: &mut Vec<u8>, room: usize) {
    if bytes.len() < room {
        bytes.resize(room, 0);
    }
}

/// Compresses with zstd: by looking for what was there before, and by giving frequent bytes short codes. The first takes three
/// times as long as the second, and what guessing has left seldom repeats itself: it is done only where it is worth it, and so are codes.
struct Zstd {
    /// By [`Way`].
    compressors: [Compressor<'static>; 3],
    /// Of each part.
    parts: Vec<Part>,
    /// What was compressed to compare.
    other: Vec<u8>,
}

/// How a part is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Matches,
    Codes,
    /// Not at all.
    Stored,
}

#[derive(Clone, Copy)]
struct Part {
    way: Way,
    /// How often it will be compressed like this before others are tried.
    left: u32,
    /// How often that was when they were tried last.
    kept: u32,
}

impl Zstd {
    fn new() -> io::Result<Zstd> {
        let mut compressors =
            [Compressor::new(ZSTD_LEVEL)?, Compressor::new(ZSTD_LEVEL)?, Compressor::new(ZSTD_LEVEL)?];
        for (way, codes) in [(Way::Codes, ParamSwitch::Enable), (Way::Stored, ParamSwitch::Disable)] {
            let compressor = &mut compressors[way as usize];
            compressor.set_parameter(CParameter::TargetLength(WITHOUT_MATCHES))?;
            // Else there would be no codes whenever it is in such a hurry.
            compressor.set_parameter(CParameter::LiteralCompressionMode(codes))?;
        }
        Ok(Zstd { compressors, parts: Vec::new(), other: Vec::new() })
    }

    /// How many bytes it has become.
    fn pack(&mut self, payload: &[u8], ends: &[usize], packed: &mut Vec<u8>) -> io::Result<usize> {
        let ends = if payload.len() < SHORT_PAYLOAD { &[] } else { ends };
        make_room(packed, (ends.len() + 1) * compress_bound(0) + compress_bound(payload.len()));
        self.parts.resize(self.parts.len().max(ends.len()), Part { way: Way::Matches, left: 0, kept: 0 });
        let (mut start, mut length) = (0, 0);
        for (part, &end) in ends.iter().enumerate() {
            length += self.pack_part(part, &payload[start..end], &mut packed[length..])?;
            start = end;
        }
        if start < payload.len() {
            length += self.pack_as(Way::Matches, &payload[start..], &mut packed[length..])?;
        }
        Ok(length)
    }

    fn pack_as(&mut self, way: Way, bytes: &[u8], packed: &mut [u8]) -> io::Result<usize> {
        self.compressors[way as usize].compress_to_buffer(bytes, packed)
    }

    fn pack_part(&mut self, part: usize, bytes: &[u8], packed: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if bytes.len() < SHORT_PART {
            return self.pack_as(Way::Matches, bytes, packed);
        }
        let Part { way, left, kept } = self.parts[part];
        if left > 0 {
            self.parts[part].left -= 1;
            return self.pack_as(way, bytes, packed);
        }
        let mut other = std::mem::take(&mut self.other);
        make_room(&mut other, compress_bound(bytes.len()));
        let with_codes = self.pack_as(Way::Codes, bytes, packed)?;
        let with_matches = self.pack_as(Way::Matches, bytes, &mut other)?;
        let best = match (with_matches, with_codes) {
            (matches, codes) if matches <= codes / 2 => Way::Matches,
            (_, codes) if codes <= bytes.len() / 8 * 7 => Way::Codes,
            _ => Way::Stored,
        };
        let kept = if best == way { (2 * kept).clamp(KEPT.0, KEPT.1) } else { KEPT.0 };
        self.parts[part] = Part { way: best, left: kept, kept };
        if best == Way::Matches {
            packed[..with_matches].copy_from_slice(&other[..with_matches]);
        }
        self.other = other;
        Ok(if best == Way::Matches { with_matches } else { with_codes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_synthesis::Rng;

    fn unpacked(packing: Packing, stored: &[u8], length: usize) -> Vec<u8> {
        let mut plain = vec![0; length];
        packing.unpack(stored, &mut plain).unwrap();
        plain
    }

    #[test]
    fn parts_are_found_again_and_packed_with_matches_where_that_is_worth_it() {
        let mut rng = Rng::new(1);
        let mut random = |below: u64| (rng.number() % below) as u8;
        // Frequent bytes without order; the same with order; nothing to gain; nothing at all; few bytes.
        let mixed: Vec<u8> = (0..100_000).map(|_| random(8) * random(8)).collect();
        let ordered: Vec<u8> = mixed[..100].iter().copied().cycle().take(100_000).collect();
        let noise: Vec<u8> = (0..100_000).map(|_| random(256)).collect();
        let parts = [mixed, ordered, noise, Vec::new(), vec![7; 100]];
        let ends: Vec<usize> = (1..=parts.len()).map(|count| parts[..count].concat().len()).collect();
        let payload = [parts.concat(), b"and what belongs to no part".to_vec()].concat();

        let mut packer = Packer::new(Packing::Zstd);
        let mut lengths = Vec::new();
        for _ in 0..2 * KEPT.0 {
            let (packing, stored) = packer.pack(&payload, &ends);
            assert_eq!(packing, Packing::Zstd);
            assert!(unpacked(packing, stored, payload.len()) == payload);
            lengths.push(stored.len());
        }
        let ways: Vec<Way> = packer.zstd.iter().flat_map(|zstd| &zstd.parts).map(|part| part.way).collect();
        assert_eq!(ways, [Way::Codes, Way::Matches, Way::Stored, Way::Matches, Way::Matches]);
        assert!(lengths.iter().all(|length| length.abs_diff(lengths[0]) < 100), "the way is kept: {lengths:?}");
        let whole = Packer::new(Packing::Zstd).pack(&payload, &[]).1.len();
        assert!(lengths[0] < whole * 3 / 2, "{} instead of {whole} bytes", lengths[0]);
    }

    #[test]
    fn a_part_is_packed_in_another_way_when_it_has_changed() {
        let mut packer = Packer::new(Packing::Zstd);
        let mut rng = Rng::new(2);
        let mixed: Vec<u8> = (0..100_000).map(|_| (rng.number() % 8 * (rng.number() % 8)) as u8).collect();
        let ordered: Vec<u8> = mixed[..100].iter().copied().cycle().take(100_000).collect();
        let first = packer.pack(&mixed, &[mixed.len()]).1.len();
        let kept: Vec<usize> = (0..=KEPT.0).map(|_| packer.pack(&ordered, &[ordered.len()]).1.len()).collect();
        assert!(kept[0] > first / 2 && kept[KEPT.0 as usize] < first / 20, "{first}, then {kept:?}");
    }
}
