//! Changes that chance or malice could make.

use crate::blocks::{Block, END, EXTRA, INDEX, number, put, settle};
use snag_synthesis::Rng;

/// Numbers at which something ends.
const EDGES: [u64; 14] =
    [0, 1, 2, 127, 128, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 60, 1 << 63, u64::MAX];

pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Rng::new(seed))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.number() % bound.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Changes a few things about the blocks of a file; `others` are blocks of further files.
pub fn change_blocks(blocks: &mut Vec<Block>, others: &[Block], random: &mut Random) {
    // Most often one thing: the rest is looked at as well then.
    for _ in 0..1 + random.below(3) * random.below(2) {
        let at = any_block(blocks, random);
        match random.below(16) {
            0 => {
                let to = random.below(blocks.len());
                blocks.swap(at, to);
            }
            1 => {
                let copy = blocks[at].clone();
                blocks.insert(random.below(blocks.len() + 1), copy);
            }
            2 if blocks.len() > 1 => drop(blocks.remove(at)),
            3 => blocks[at].events = *random.pick(&EDGES) as u32,
            4 => blocks[at].kind = random.below(9) as u8,
            5 => blocks[at].claims = Some(*random.pick(&EDGES) as u32),
            6 => {
                let other = random.pick(others).clone();
                blocks.insert(random.below(blocks.len() + 1), other);
            }
            _ => change_bytes(&mut blocks[at].payload, others, random),
        }
    }
    // Whoever means harm sees to it that the rest fits.
    if random.below(8) > 0 {
        settle(blocks);
    }
}

/// Mostly one that is not of the most frequent kind.
fn any_block(blocks: &[Block], random: &mut Random) -> usize {
    let at = random.below(blocks.len());
    if blocks[at].kind == END || blocks[at].kind == INDEX {
        return random.below(blocks.len());
    }
    let extras: Vec<usize> = (0..blocks.len()).filter(|&i| blocks[i].kind == EXTRA).collect();
    if !extras.is_empty() && random.below(2) == 0 { *random.pick(&extras) } else { at }
}

fn change_bytes(bytes: &mut Vec<u8>, others: &[Block], random: &mut Random) {
    for _ in 0..1 + random.below(3) * random.below(2) {
        if bytes.is_empty() {
            bytes.push(random.below(256) as u8);
        }
        let at = random.below(bytes.len());
        let length = random.below(24).min(bytes.len() - at);
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = *random.pick(&[0, 1, 2, 127, 128, 255]),
            2 | 3 => {
                // A number for a number.
                let (_, end) = number(bytes, at);
                let mut new = Vec::new();
                put(&mut new, *random.pick(&EDGES));
                bytes.splice(at..end, new);
            }
            4 => {
                // One more, or one less.
                let (value, end) = number(bytes, at);
                let mut new = Vec::new();
                put(&mut new, if random.below(2) == 0 { value.wrapping_add(1) } else { value.wrapping_sub(1) });
                bytes.splice(at..end, new);
            }
            5 => drop(bytes.drain(at..at + length)),
            6 => {
                let piece = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let other = &random.pick(others).payload;
                let from = random.below(other.len());
                let to = (from + random.below(40)).min(other.len());
                bytes.splice(at..at + length, other[from..to].iter().copied());
            }
        }
    }
}

/// Changes a few lines of a text, and a few bytes.
pub fn change_text(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 + random.below(4) {
        if lines.is_empty() {
            lines.push(b"T|w(x)|a\n".to_vec());
        }
        let (at, to) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(8) {
            0 => lines.swap(at, to),
            1 => {
                let copy = lines[at].clone();
                lines.insert(to, copy);
            }
            2 => drop(lines.remove(at)),
            3 => {
                let digits: Vec<usize> = (0..lines[at].len()).filter(|&i| lines[at][i].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    let digit = *random.pick(&digits);
                    let edge = random.pick(&EDGES).to_string();
                    lines[at].splice(digit..digit + 1, edge.bytes());
                }
            }
            4 => {
                // A field of one line in another.
                let field = |line: &[u8], n: usize| line.split(|&b| b == b'|').nth(n).map(<[u8]>::to_vec);
                let n = random.below(3);
                if let (Some(new), Some(_)) = (field(&lines[to], n), field(&lines[at], n)) {
                    let mut fields: Vec<Vec<u8>> = lines[at].split(|&b| b == b'|').map(<[u8]>::to_vec).collect();
                    fields[n] = new;
                    lines[at] = fields.join(&b'|');
                }
            }
            _ => {
                let line = &mut lines[at];
                if !line.is_empty() {
                    let place = random.below(line.len());
                    line[place] = *random.pick(b"\0\xff\x80|(){},=\"\\\n\r09%# :-+*\x1b");
                }
            }
        }
    }
    lines.concat()
}
