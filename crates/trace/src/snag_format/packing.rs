//! How the payload of a block is compressed.

/// A block as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Packing {
    Plain = 0,
    /// LZ4, block format.
    Lz4 = 1,
    /// One zstd frame. Not in files of version 1.
    Zstd = 2,
}

/// Fast, and hardly worse than higher levels on what guessing has left.
const ZSTD_LEVEL: i32 = 1;

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
    zstd: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
}

impl Packer {
    pub(super) fn new(packing: Packing) -> Packer {
        let zstd = match packing {
            Packing::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            _ => None,
        };
        Packer { packing, zstd, packed: Vec::new() }
    }

    /// The payload as it is to be stored: compressed if that makes it smaller by more than a quarter (LZ4, which is
    /// there to save time) or at all (zstd).
    pub(super) fn pack<'a>(&'a mut self, payload: &'a [u8]) -> (Packing, &'a [u8]) {
        let enough = match self.packing {
            Packing::Plain => return (Packing::Plain, payload),
            Packing::Lz4 => payload.len() / 4 * 3,
            Packing::Zstd => payload.len(),
        };
        match self.try_pack(payload) {
            Some(length) if length < enough => (self.packing, &self.packed[..length]),
            _ => (Packing::Plain, payload),
        }
    }

    fn try_pack(&mut self, payload: &[u8]) -> Option<usize> {
        let room = match self.packing {
            Packing::Zstd => zstd::zstd_safe::compress_bound(payload.len()),
            _ => lz4_flex::block::get_maximum_output_size(payload.len()),
        };
        if self.packed.len() < room {
            self.packed.resize(room, 0);
        }
        match &mut self.zstd {
            Some(zstd) => zstd.compress_to_buffer(payload, &mut self.packed[..]).ok(),
            None => lz4_flex::block::compress_into(payload, &mut self.packed).ok(),
        }
    }
}
