//! What threads that run freely have announced, and what is known about memory.
//!
//! A record is read when it is complete, and its chunk given back when it was read to its end. Memory is taken for known only
//! after a write that nobody disturbed, by a thread of which nothing was left out.

use super::super::life::MOST_THREADS;
use crate::hash::BuildWordHasher;
use crate::ring::OwnChunks;
use crate::wire::{self, op};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What is known about threads that run freely.
pub struct Freely {
    pub(super) chunks: OwnChunks,
    pub(super) streams: Vec<Stream>,
    /// Threads that have chunks.
    pub(super) live: Vec<usize>,
    /// Threads that have something open.
    pub(super) busy: Vec<usize>,
    /// Bytes whose contents are not known: of each eight, by address / 8, which ones.
    pub(super) unknown: HashMap<u64, u8, BuildWordHasher>,
    /// What synchronises, by address, that something was done with which is not in the trace.
    pub(super) lost: HashSet<u64, BuildWordHasher>,
    /// The turn that has begun: whose, and when.
    pub(super) turn: (usize, u64),
    /// What its thread has done in it: the records, one after the other, and for each its length and what it has opened.
    pub(super) records: Vec<u64>,
    pub(super) lengths: Vec<(usize, Option<usize>)>,
    /// Long stretches that are not known, beside what `unknown` says.
    long: Vec<Range<u64>>,
    /// What shows that a chunk is not as a thread has left it.
    pub(super) damaged: Option<&'static str>,
}

/// Stretches that are longer than this are kept as a whole.
const LONG: u64 = 1 << 20;

/// Most ranges of one record.
const RANGES: u64 = 4;

/// So long a thread that runs may take between two words of a record.
const LONGEST: Duration = Duration::from_secs(5);

/// What a thread has put into chunks of its own.
#[derive(Default)]
pub(super) struct Stream {
    /// Chunks that have not been read to their end.
    pub(super) chunks: VecDeque<u32>,
    /// The next word of the first one.
    pub(super) at: usize,
    /// Words read.
    pub(super) position: u64,
    /// Calls and returns since the last access, with their positions.
    pub(super) calls: VecDeque<(u64, u64)>,
    /// The next access, if it is complete, and its time.
    pub(super) next: Option<(u64, Access)>,
    /// More that it touches at the same time.
    pub(super) more: Vec<Access>,
    /// Words of its record.
    pub(super) words: usize,
    pub(super) open: Vec<Open>,
    /// What a call may have written while another thread did.
    pub(super) unsure: Vec<Range<u64>>,
    /// Its next record is not part of the trace, nor is anything after it.
    pub(super) ends: bool,
    pub(super) lost: bool,
}

/// An access as it was recorded.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) first: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) values: [u64; 2],
    /// Where the values are as long as they have not been taken: those of a write are there when the thread's next record is.
    pub(super) at: Option<(u32, usize)>,
}

impl Access {
    /// Of a length with its first bit set if it is written.
    pub(super) fn range(address: u64, length: u64, pc: u64) -> Access {
        let code = if length >> 63 != 0 { op::RANGE_WRITE } else { op::RANGE_READ };
        let first = wire::head(code, wire::WITHOUT_CONTENTS, pc as usize);
        Access { first, address, size: length & !(1 << 63), values: [0; 2], at: None }
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.first as u8, op::WRITE | op::RANGE_WRITE)
    }

    pub(super) fn take_values(&mut self, chunks: &OwnChunks) {
        if let Some((chunk, index)) = self.at.take() {
            self.values = [chunks.word(chunk, index), chunks.word(chunk, index + 1)];
        }
    }
}

/// Something a thread may be doing right now.
pub(super) struct Open {
    pub(super) access: Access,
    pub(super) end: u64,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Nobody else does anything about it at the same time.
    pub(super) certain: bool,
    /// It is in the trace already.
    pub(super) told: bool,
    /// It is done within a turn: whatever others do in theirs comes before or after it.
    pub(super) in_turn: bool,
    /// So many signal handlers have begun that may have come before it.
    pub(super) handlers: u32,
}

impl Freely {
    /// At the start of a recording.
    pub(super) fn new(chunks: OwnChunks) -> Freely {
        Freely {
            chunks,
            // Before its first turn, the first thread says what is mapped where.
            streams: vec![Stream::default()],
            live: Vec::new(),
            busy: Vec::new(),
            unknown: HashMap::default(),
            lost: HashSet::default(),
            turn: (0, 0),
            records: Vec::new(),
            lengths: Vec::new(),
            long: Vec::new(),
            damaged: None,
        }
    }

    pub(super) fn stream(&mut self, thread: usize) -> &mut Stream {
        if self.streams.len() <= thread {
            self.streams.resize_with(thread + 1, Stream::default);
        }
        &mut self.streams[thread]
    }

    /// The time of the next access of a thread, if it has announced one.
    pub(super) fn peek(&mut self, thread: usize) -> Option<u64> {
        if self.damaged.is_some() {
            return None;
        }
        let stream = &mut self.streams[thread];
        while stream.next.is_none() {
            let &chunk = stream.chunks.front()?;
            let first = self.chunks.word(chunk, stream.at);
            match first as u8 {
                0 => return None,
                op::NEXT => {
                    stream.chunks.pop_front();
                    stream.at = 0;
                    stream.position += 1;
                    stream.open.iter_mut().for_each(|open| open.access.take_values(&self.chunks));
                    self.chunks.give_back(chunk);
                }
                op::READ | op::WRITE | op::RANGES => {
                    let ranges = first as u8 == op::RANGES;
                    stream.words = if (first >> 8) & 7 == 4 { 5 } else { 4 };
                    let when = stream.at + if ranges { 1 } else { stream.words - 1 };
                    let mut time = self.chunks.word(chunk, when);
                    let mut patience = 0;
                    let mut since = None;
                    while time == 0 {
                        // The thread is taking it right now, unless it is dead.
                        patience += 1;
                        if patience > 100 {
                            if self.chunks.is_over() && self.chunks.word(chunk, when) == 0 {
                                return None;
                            }
                            if since.get_or_insert_with(Instant::now).elapsed() > LONGEST {
                                if !self.chunks.is_stopped() {
                                    self.damaged = Some("a record of an access is never completed");
                                    return None;
                                }
                                since = None;
                            }
                            std::thread::sleep(Duration::from_micros(50));
                        }
                        std::hint::spin_loop();
                        time = self.chunks.word(chunk, when);
                    }
                    if ranges {
                        let count = self.chunks.word(chunk, stream.at + 2);
                        if count > RANGES {
                            self.damaged = Some("a function touches too many ranges at once");
                            return None;
                        }
                        stream.words = 3 + 2 * count as usize;
                        for at in (stream.at + 3..stream.at + stream.words).step_by(2) {
                            let [address, length] = [at, at + 1].map(|at| self.chunks.word(chunk, at));
                            stream.more.push(Access::range(address, length, first >> 16));
                        }
                        stream.next = Some((time, stream.more.pop().unwrap_or(Access::range(0, 0, 0))));
                    } else {
                        let address = self.chunks.word(chunk, stream.at + 1);
                        let (size, at) = (length(first), Some((chunk, stream.at + 2)));
                        stream.next = Some((time, Access { first, address, size, values: [0; 2], at }));
                    }
                }
                _ => {
                    stream.calls.push_back((stream.position, first));
                    stream.at += 1;
                    stream.position += 1;
                }
            }
        }
        stream.next.as_ref().map(|next| next.0)
    }

    /// Somebody may be touching these bytes from now on: whom that disturbs. Whether it is certain itself.
    pub(super) fn disturb(
        &mut self,
        thread: usize,
        Range { start, end }: Range<u64>,
        writes: bool,
        in_turn: bool,
    ) -> bool {
        let mut certain = true;
        for &other in &self.busy {
            if other == thread {
                continue;
            }
            for open in &mut self.streams[other].open {
                let meet = open.access.address < end && start < open.end && !(open.in_turn && in_turn);
                if meet && (open.writes || writes) {
                    if writes {
                        open.certain = false;
                    }
                    if open.writes {
                        certain = false;
                    }
                }
            }
        }
        certain
    }

    pub(super) fn open(&mut self, thread: usize, open: Open) {
        if self.streams[thread].open.is_empty() {
            self.busy.push(thread);
        }
        self.streams[thread].open.push(open);
    }

    /// A record that is not translated any more: the program needs its chunks all the same.
    pub(super) fn pass_over(&mut self, words: &[u64]) {
        match words[0] as u8 {
            op::SWITCH if (words[1] as u32 as u64) < MOST_THREADS => {
                self.turn.0 = words[1] as u32 as usize;
                self.stream(self.turn.0);
            }
            op::OWN => {
                // Those before it are full.
                self.end(self.turn.0);
                self.streams[self.turn.0].chunks.push_back(words[1] as u32);
            }
            _ => {}
        }
    }

    /// What a thread still has open.
    pub(super) fn set_open(&mut self, thread: usize, open: Vec<Open>) {
        if open.is_empty() {
            self.busy.retain(|&busy| busy != thread);
        }
        self.streams[thread].open = open;
    }

    /// A thread has ended.
    pub(super) fn end(&mut self, thread: usize) {
        while let Some(chunk) = self.streams[thread].chunks.pop_front() {
            self.chunks.give_back(chunk);
        }
    }

    pub(super) fn is_unknown(&self, range: Range<u64>) -> bool {
        if self.long.iter().any(|long| long.start < range.end && range.start < long.end) {
            return true;
        }
        let unknown = |(eight, bytes)| self.unknown.get(&eight).is_some_and(|unknown| unknown & bytes != 0);
        if self.is_long(&range) {
            return self.unknown.keys().any(|eight| range.start / 8 <= *eight && *eight < range.end.div_ceil(8));
        }
        eights(range).any(unknown)
    }

    /// Whether it is quicker to look at all that is not known.
    pub(super) fn is_long(&self, range: &Range<u64>) -> bool {
        (range.end - range.start) / 8 >= self.unknown.len() as u64
    }

    /// Something is in these bytes that is not known.
    pub(super) fn make_unknown(&mut self, range: Range<u64>) {
        if range.end - range.start <= LONG {
            return eights(range).for_each(|(eight, bytes)| *self.unknown.entry(eight).or_insert(0) |= bytes);
        }
        // Those that meet become one.
        let mut whole = range;
        self.long.retain(|long| {
            let apart = long.end < whole.start || whole.end < long.start;
            if !apart {
                whole = whole.start.min(long.start)..whole.end.max(long.end);
            }
            apart
        });
        self.long.push(whole);
    }

    /// These bytes were written, by one thread that is part of the trace.
    pub(super) fn make_known(&mut self, range: Range<u64>) {
        if self.long.iter().any(|long| long.start < range.end && range.start < long.end) {
            let parts = self.long.iter().flat_map(|long| {
                [long.start..long.end.min(range.start), long.start.max(range.end)..long.end]
                    .into_iter()
                    .filter(|part| part.start < part.end)
            });
            self.long = parts.collect();
        }
        if self.is_long(&range) {
            let inner = range.start.div_ceil(8)..range.end / 8;
            self.unknown.retain(|eight, _| !inner.contains(eight));
            return;
        }
        for (eight, bytes) in eights(range) {
            if let Entry::Occupied(mut entry) = self.unknown.entry(eight) {
                *entry.get_mut() &= !bytes;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }
}

/// The bytes of a range, eight by eight: address / 8, and a bit for each.
fn eights(Range { start, end }: Range<u64>) -> impl Iterator<Item = (u64, u8)> {
    (start / 8..end.div_ceil(8)).map(move |eight| {
        let from = start.saturating_sub(8 * eight).min(8) as u32;
        let to = (end - 8 * eight).min(8) as u32;
        (eight, (((1_u32 << to) - 1) & !((1 << from) - 1)) as u8)
    })
}

/// Bytes of an access.
pub(super) fn length(first: u64) -> u64 {
    1 << (first >> 8 & 7)
}
