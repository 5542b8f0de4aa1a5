//! Payload of a block of events: one column after the other, each as narrow as its largest number allows.
//!
//! ```text
//! widths: thread u8  target u8  location u8  aux u8  value u8   written u8 (0 or 1)   0u16
//! op       one byte an event
//! thread   `width` bytes an event; a column of width 0 is all zeros and takes no room
//! target
//! location
//! aux
//! value    if its width is not 0: a bit an event whether the value is known, in whole bytes;
//!          then the known ones, zigzag, `width` bytes each
//! written  if 1: how many u32; as many indices u16, ascending; as many values i64
//! ```
//!
//! Decoding is a widening copy per column and has no branch per event; so this file knows columns, not actions.

use super::{unzigzag, zigzag};
use snag_model::events::{Columns, Events};
use snag_model::ids::*;
use snag_model::narrow::Narrow;
use snag_model::op::Op;
use std::ops::Range;

/// Bytes of the payload before the columns.
const WIDTHS: usize = 8;

/// Appends the payload for some events, at most [`super::BLOCK_EVENTS`].
pub(super) fn encode(events: &Events, range: Range<usize>, out: &mut Vec<u8>) {
    let ops = &events.ops()[range.clone()];
    let threads = &events.threads()[range.clone()];
    let targets = &events.targets()[range.clone()];
    let locations = events.location_column();
    let aux = events.aux_column().get(range.clone()).unwrap_or(&[]);
    let values: Vec<Option<i64>> = match events.has_values() {
        true => range.clone().map(|i| events.value(i)).collect(),
        false => Vec::new(),
    };
    let largest = values.iter().flatten().map(|&v| zigzag(v)).max();
    let first = events.written_column().partition_point(|w| (w.0 as usize) < range.start);
    let last = events.written_column().partition_point(|w| (w.0 as usize) < range.end);
    let written = &events.written_column()[first..last];

    let width_of = |numbers: &mut dyn Iterator<Item = u32>| width(numbers.max().unwrap_or(0) as u64);
    let thread_width = width_of(&mut threads.iter().map(|t| t.0));
    let target_width = width_of(&mut targets.iter().copied());
    let location_width = width(locations.largest(range.clone()) as u64);
    let aux_width = width_of(&mut aux.iter().copied());
    let value_width = largest.map_or(0, |v| width(v).max(1));
    out.extend([thread_width, target_width, location_width, aux_width, value_width, !written.is_empty() as u8, 0, 0]);

    out.extend(ops.iter().map(|&op| op as u8));
    narrow(threads.iter().map(|t| t.0), thread_width, out);
    narrow(targets.iter().copied(), target_width, out);
    narrow(locations.range(range.clone()), location_width, out);
    narrow(aux.iter().copied(), aux_width, out);
    if value_width > 0 {
        for eight in values.chunks(8) {
            out.push(eight.iter().enumerate().fold(0, |bits, (i, v)| bits | (v.is_some() as u8) << i));
        }
        let codes: Vec<u64> = values.iter().flatten().map(|&v| zigzag(v)).collect();
        match value_width {
            8 => store(codes.iter().map(|c| c.to_le_bytes()), out),
            width => narrow(codes.iter().map(|&c| c as u32), width, out),
        }
    }
    if !written.is_empty() {
        out.extend_from_slice(&(written.len() as u32).to_le_bytes());
        for w in written {
            out.extend_from_slice(&((w.0 as usize - range.start) as u16).to_le_bytes());
        }
        for w in written {
            out.extend_from_slice(&w.1.to_le_bytes());
        }
    }
}

/// Bytes that hold a number: 0, 1, 2, 4 or 8.
fn width(largest: u64) -> u8 {
    match largest {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Appends the lowest `width` bytes of each number.
fn narrow(numbers: impl ExactSizeIterator<Item = u32>, width: u8, out: &mut Vec<u8>) {
    match width {
        0 => {}
        1 => out.extend(numbers.map(|n| n as u8)),
        2 => store(numbers.map(|n| (n as u16).to_le_bytes()), out),
        _ => store(numbers.map(u32::to_le_bytes), out),
    }
}

fn store<const W: usize>(numbers: impl ExactSizeIterator<Item = [u8; W]>, out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + W * numbers.len(), 0);
    out[from..].as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(room, bytes)| *room = bytes);
}

/// Appends the `count` events of a payload to `events`. Their ids are whatever the payload says; that they stand for
/// something is checked by the [`snag_model::Validator`].
pub(super) fn decode(payload: &[u8], count: usize, events: &mut Events) -> Result<(), String> {
    let mut rest = payload;
    let widths = take(&mut rest, WIDTHS)?;
    let [thread_width, target_width, location_width, aux_width, value_width, written, ..] = widths else {
        return Err(SHORT.to_owned());
    };
    if !widths[..4].iter().all(|w| matches!(w, 0 | 1 | 2 | 4)) || !matches!(value_width, 0 | 1 | 2 | 4 | 8) {
        return Err(format!("unknown width of a column of events: {:?}", &widths[..5]));
    }
    if *written > 1 || widths[6..] != [0, 0] {
        return Err("bytes of an events block that must be zero are not".to_owned());
    }
    let ops = take(&mut rest, count)?;
    let threads = Column::take(&mut rest, *thread_width, count)?;
    let targets = Column::take(&mut rest, *target_width, count)?;
    let locations = Column::take(&mut rest, *location_width, count)?;
    let aux = Column::take(&mut rest, *aux_width, count)?;
    let largest = ops.iter().fold(0, |largest, &code| largest.max(code));
    if largest as usize >= Op::ALL.len() {
        return Err(format!("unknown operation {largest}"));
    }
    let from = events.len();
    events.extend_with(|Columns { op, thread, target, location }| {
        op.extend(ops.iter().map(|&code| OPS[code as usize]));
        threads.widen(thread, ThreadId);
        targets.widen(target, |n| n);
        locations.append_to(location);
    });
    if *target_width > 0 && ops.iter().fold(false, |any, &op| any | takes_no_target(op)) {
        check_targets(&events.ops()[from..], &events.targets()[from..])?;
    }
    if *aux_width > 0 {
        decode_aux(aux, from, events)?;
    }
    if *value_width > 0 {
        decode_values(&mut rest, *value_width, from, events)?;
    }
    if *written == 1 {
        decode_written(&mut rest, from, events)?;
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes too many in an events block", rest.len())) }
}

const SHORT: &str = "an events block is too short for its columns";

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(bytes).ok_or(SHORT)?;
    *rest = left;
    Ok(taken)
}

/// The operation of every code, so that converting a column needs no check per event; codes that mean nothing are
/// refused before.
static OPS: [Op; 256] = {
    let mut table = [Op::Mark; 256];
    let mut code = 0;
    while code < Op::ALL.len() {
        table[code] = Op::ALL[code];
        code += 1;
    }
    table
};

/// A column as stored.
#[derive(Clone, Copy)]
struct Column<'a> {
    bytes: &'a [u8],
    width: u8,
    count: usize,
}

impl<'a> Column<'a> {
    fn take(rest: &mut &'a [u8], width: u8, count: usize) -> Result<Column<'a>, String> {
        Ok(Column { bytes: take(rest, width as usize * count)?, width, count })
    }

    /// Appends the numbers. Each arm is a loop that the compiler turns into vector instructions.
    fn widen<T: Clone>(self, out: &mut Vec<T>, make: impl Fn(u32) -> T) {
        match self.width {
            0 => out.resize(out.len() + self.count, make(0)),
            1 => out.extend(self.bytes.iter().map(|&b| make(b as u32))),
            2 => out.extend(self.bytes.as_chunks().0.iter().map(|&b| make(u16::from_le_bytes(b) as u32))),
            _ => out.extend(self.bytes.as_chunks().0.iter().map(|&b| make(u32::from_le_bytes(b)))),
        }
    }
}

impl Column<'_> {
    /// The same for a column that is narrow in memory, too.
    fn append_to(self, out: &mut Narrow) {
        match self.width {
            0 => out.extend_short(std::iter::repeat_n(0, self.count)),
            1 => out.extend_short(self.bytes.iter().map(|&b| b as u16)),
            2 => out.extend_short(self.bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b))),
            _ => self.widen(out.long(), |n| n),
        }
    }
}

fn takes_no_target(op: u8) -> bool {
    op == Op::Begin as u8 || op == Op::End as u8
}

fn check_targets(ops: &[Op], targets: &[u32]) -> Result<(), String> {
    let wrong = ops.iter().zip(targets).find(|(op, target)| takes_no_target(**op as u8) && **target != 0);
    wrong.map_or(Ok(()), |(op, _)| Err(format!("'{}' has a target", op.word())))
}

fn decode_aux(column: Column, from: usize, events: &mut Events) -> Result<(), String> {
    let mut aux = Vec::with_capacity(column.count);
    column.widen(&mut aux, |n| n);
    let wrong = events.ops()[from..].iter().zip(&aux).find(|(op, aux)| **aux != 0 && !op.takes_aux());
    if let Some((op, _)) = wrong {
        return Err(format!("'{}' refers to a second thing", op.word()));
    }
    if aux.iter().any(|&a| a != 0) {
        events.aux_mut()[from..].copy_from_slice(&aux);
    }
    Ok(())
}

fn decode_values(rest: &mut &[u8], width: u8, from: usize, events: &mut Events) -> Result<(), String> {
    let count = events.len() - from;
    let bits = take(rest, count.div_ceil(8))?;
    if !count.is_multiple_of(8) && bits[count / 8] >> (count % 8) != 0 {
        return Err("values of events beyond the end of an events block".to_owned());
    }
    let known: usize = bits.iter().map(|b| b.count_ones() as usize).sum();
    let codes = take(rest, known * width as usize)?;
    if known == 0 {
        return Ok(());
    }
    match width {
        1 => spread(bits, codes, |[b]: [u8; 1]| b as u64, from, events),
        2 => spread(bits, codes, |b| u16::from_le_bytes(b) as u64, from, events),
        4 => spread(bits, codes, |b| u32::from_le_bytes(b) as u64, from, events),
        _ => spread(bits, codes, u64::from_le_bytes, from, events),
    }
}

/// Gives the known values to their events. Which values are known is hard to predict, so the loop does the same for
/// all: it takes the next code and goes on to the one after it only if this one was used.
fn spread<const W: usize>(
    bits: &[u8],
    codes: &[u8],
    wide: impl Fn([u8; W]) -> u64,
    from: usize,
    events: &mut Events,
) -> Result<(), String> {
    let codes = codes.as_chunks().0;
    let (ops, values, known) = events.values_mut();
    let (mut next, mut misplaced) = (0, false);
    for ((values, ops), &byte) in values[from..].chunks_mut(8).zip(ops[from..].chunks(8)).zip(bits) {
        for (i, (value, op)) in values.iter_mut().zip(ops).enumerate() {
            let bit = (byte >> i) & 1;
            let code = wide(codes[next.min(codes.len() - 1)]);
            *value = unzigzag(code) & -(bit as i64);
            next += bit as usize;
            misplaced |= bit == 1 && !op.takes_value();
        }
    }
    if misplaced {
        return Err("something that neither accesses memory nor is a branch has a value".to_owned());
    }
    let (first, shift) = (from / 64, from % 64);
    for (i, eight) in bits.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..eight.len()].copy_from_slice(eight);
        let word = u64::from_le_bytes(word);
        known[first + i] |= word << shift;
        if shift > 0 && word >> (64 - shift) != 0 {
            known[first + i + 1] |= word >> (64 - shift);
        }
    }
    Ok(())
}

fn decode_written(rest: &mut &[u8], from: usize, events: &mut Events) -> Result<(), String> {
    let count = super::u32_at(take(rest, 4)?, 0) as usize;
    if count > super::BLOCK_EVENTS {
        return Err("more values written than events".to_owned());
    }
    let indices = take(rest, 2 * count)?.as_chunks().0;
    let values = take(rest, 8 * count)?.as_chunks().0;
    let mut next = 0;
    for (&index, &value) in indices.iter().zip(values) {
        let index = u16::from_le_bytes(index) as usize;
        if index < next || events.ops().get(from + index) != Some(&Op::Rmw) {
            return Err("a value written that belongs to no rmw, or out of order".to_owned());
        }
        next = index + 1;
        events.set_written(from + index, i64::from_le_bytes(value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use snag_model::events::Event;

    #[test]
    fn zigzag_goes_back() {
        for value in [0, 1, -1, i64::MAX, i64::MIN, 12345, -54321] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!((zigzag(-1), zigzag(1), zigzag(-2)), (1, 2, 3));
    }

    #[test]
    fn columns_of_every_width_come_back() {
        for largest in [0u32, 1, 255, 256, 65535, 65536, u32::MAX] {
            for count in [1, 7, 8, 9, 64, 65, 1000] {
                let mut events = Events::new();
                for i in 0..count as u32 {
                    let op = [Op::Rmw, Op::Read, Op::Let, Op::Write][i as usize % 4];
                    let mut event = Event::new(ThreadId(largest / (i + 1)), op, largest / (i % 7 + 1));
                    event.location = LocId(largest / (i % 3 + 1));
                    event.aux = largest / (i % 5 + 1);
                    event.value = (op.is_access() && i % 3 > 0).then(|| -((largest / (i + 1)) as i64) * 77_777);
                    event.written = (op == Op::Rmw && i % 8 == 0).then_some(i as i64 - 100);
                    events.push(event);
                }
                let mut payload = Vec::new();
                encode(&events, 0..count, &mut payload);
                let mut back = Events::new();
                decode(&payload, count, &mut back).unwrap();
                assert_eq!(back, events);
                // Any cut is noticed.
                for cut in 0..payload.len().min(200) {
                    assert!(decode(&payload[..cut], count, &mut Events::new()).is_err());
                }
                payload.push(0);
                assert!(decode(&payload, count, &mut Events::new()).is_err());
            }
        }
    }
}
