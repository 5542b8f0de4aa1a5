//! A `.snag` file taken apart into blocks, and put together again.

use snag_formats::compression::Compression;
use snag_formats::snag_format::{MAGIC, repaired};
use std::io::{Cursor, Read, Write};

pub const NAMES: u8 = 1;
pub const INDEX: u8 = 4;
pub const END: u8 = 5;
pub const EXTRA: u8 = 6;

const FILE_HEADER: usize = 16;
const BLOCK_HEADER: usize = 24;

/// A block with its payload as it is before it is compressed.
#[derive(Clone, Debug)]
pub struct Block {
    pub kind: u8,
    pub payload: Vec<u8>,
    pub events: u32,
    /// What the header says of the length of the payload, if that is not true.
    pub claims: Option<u32>,
}

impl Block {
    pub fn new(kind: u8, payload: Vec<u8>) -> Block {
        Block { kind, payload, events: 0, claims: None }
    }
}

pub fn take_apart(file: &[u8]) -> Vec<Block> {
    let field = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut blocks, mut at) = (Vec::new(), FILE_HEADER);
    while at < file.len() {
        let (stored, body) = (field(at + 4) as usize, at + BLOCK_HEADER);
        let stored = &file[body..body + stored];
        let payload = match file[at + 1] {
            0 => stored.to_vec(),
            1 => lz4(stored, field(at + 8) as usize),
            2 => zstd(stored),
            other => panic!("unknown compression {other}"),
        };
        blocks.push(Block { kind: file[at], payload, events: field(at + 12), claims: None });
        at = body + stored.len();
    }
    blocks
}

/// A file of these blocks with right checksums, the payloads compressed or not.
pub fn put_together(blocks: &[Block], compress: bool) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend([0; 4]);
    for block in blocks {
        let packed = compress && block.kind != END;
        let stored = if packed { packed_with_zstd(&block.payload) } else { block.payload.clone() };
        file.extend([block.kind, if packed { 2 } else { 0 }, 0, 0]);
        let plain = block.claims.unwrap_or(block.payload.len() as u32);
        for field in [stored.len() as u32, plain, block.events, 0, 0] {
            file.extend(field.to_le_bytes());
        }
        file.extend(stored);
    }
    repaired(&file)
}

/// Leaves out the index, which nobody needs, and has the end count the events.
pub fn settle(blocks: &mut Vec<Block>) {
    blocks.retain(|block| block.kind != INDEX && block.kind != END);
    let events: u64 = blocks.iter().map(|block| block.events as u64).sum();
    let mut end = events.to_le_bytes().to_vec();
    end.extend([0; 9]);
    end.extend(b"SNAGEND");
    blocks.push(Block::new(END, end));
}

fn zstd(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    Compression::Zstd.reader(Box::new(Cursor::new(packed.to_vec()))).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

pub fn packed_with_zstd(plain: &[u8]) -> Vec<u8> {
    let mut writer = Compression::Zstd.writer(Vec::new()).unwrap();
    writer.write_all(plain).unwrap();
    writer.finish().unwrap()
}

/// LZ4's block format: literals, then copies of what came before.
fn lz4(packed: &[u8], length: usize) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::with_capacity(length), 0);
    let mut byte = move || {
        at += 1;
        packed[at - 1] as usize
    };
    while plain.len() < length {
        let token = byte();
        let extend = |short: usize, byte: &mut dyn FnMut() -> usize| {
            let mut all = short;
            if short == 15 {
                loop {
                    let more = byte();
                    all += more;
                    if more < 255 {
                        break;
                    }
                }
            }
            all
        };
        for _ in 0..extend(token >> 4, &mut byte) {
            plain.push(byte() as u8);
        }
        if plain.len() < length {
            let offset = byte() | byte() << 8;
            for _ in 0..extend(token & 15, &mut byte) + 4 {
                plain.push(plain[plain.len() - offset]);
            }
        }
    }
    plain
}

/// Appends a number as LEB128.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number as LEB128 and where it ends.
pub fn number(data: &[u8], mut at: usize) -> (u64, usize) {
    let (mut value, mut shift) = (0u64, 0);
    while at < data.len() && shift < 64 {
        value |= ((data[at] & 127) as u64) << shift;
        shift += 7;
        at += 1;
        if data[at - 1] < 128 {
            break;
        }
    }
    (value, at)
}

/// The payload of a names block with these threads and nothing else.
pub fn names_of_threads(threads: impl Iterator<Item = String> + Clone, count: usize) -> Vec<u8> {
    let mut out = vec![0];
    put(&mut out, count as u64);
    threads.clone().for_each(|name| put(&mut out, name.len() as u64));
    threads.for_each(|name| out.extend(name.as_bytes()));
    out.extend([0; 15]);
    out
}
