//! Threads that run freely: one order of what they did at the same time.
//!
//! The ring has what they did one after the other, in turns, each with the time at which it began. Accesses are in chunks of
//! each thread, with the time at which they were announced; an access was done between that time and the time of the
//! thread's next record, while it is *open*. So the order of two accesses is known unless they were open at the same time.
//! If one of two such accesses writes what the other touches, what the other has read is not known, or what the two have
//! left. Everything that follows from such a read is left out: what the thread does after it, and what others do after
//! they read or synchronise with something that was left out. What remains is what the program did, in an order in which
//! it may have done it: all that remains would be the same whichever of the two came first.
//!
//! Events are written when their access ends. Then everything that was open at the same time has been seen: of whoever
//! announces something later, the record cannot be seen before, and its time is later.

mod streams;

use super::extent::is_possible;
use super::life::MOST_THREADS;
use super::{BATCH, Translator};
use crate::ring::OwnChunks;
use crate::wire::{self, op};
use snag_model::Op;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
pub use streams::Freely;
use streams::{Access, Open, Stream, length};

/// Takes events; see [`Translator::chunk`].
type Take<'a> = &'a mut dyn FnMut(&mut Translator);

/// Words of a turn: more than any operation needs.
const LONGEST_TURN: usize = 1 << 24;

impl Translator {
    /// Threads run freely, and put their accesses there.
    pub fn run_freely(&mut self, chunks: OwnChunks) {
        self.shadow.contention.give_up();
        self.freely = Some(Box::new(Freely::new(chunks)));
    }

    /// The records of a chunk of the ring, or of a part of one; how many words they were.
    pub(super) fn free_chunk(&mut self, words: &[u64], cut: bool, take: Take) -> usize {
        let Some(mut freely) = self.freely.take() else { return 0 };
        let mut at = 0;
        while at < words.len() && words[at] != 0 {
            let next = at.saturating_add(wire::words(&words[at..]));
            // A record is there with its first word, which is stored last.
            if next > words.len() {
                self.damage("a record is longer than what it is in".to_owned());
                break;
            }
            self.free_record(&mut freely, &words[at..next], take);
            at = next;
        }
        if cut && !self.oddities.has_ended() {
            // Nothing more will come.
            self.merge(&mut freely, u64::MAX, take);
            self.end_turn(&mut freely);
            for thread in 0..freely.streams.len() {
                self.close(&mut freely, thread, u64::MAX, false);
            }
        }
        if let Some(what) = freely.damaged {
            self.damage(what.to_owned());
        }
        take(self);
        self.freely = Some(freely);
        at
    }

    fn free_record(&mut self, freely: &mut Freely, words: &[u64], take: Take) {
        let first = words[0];
        if let Some(what) = freely.damaged {
            self.damage(what.to_owned());
        }
        let thread = words.get(1).copied().unwrap_or(0) as u32;
        let is_thread = matches!(first as u8, op::SWITCH | op::FORK | op::JOIN);
        if is_thread && thread as u64 >= MOST_THREADS {
            self.damage(format!("a thread has the number {thread}"));
        }
        if self.oddities.has_ended() {
            return freely.pass_over(words);
        }
        let (a, b) = (words.get(1).copied().unwrap_or(0), words.get(2).copied().unwrap_or(0));
        match first as u8 {
            op::SWITCH => {
                self.waits_no_more(a as u32 as usize);
                freely.turn = (a as u32 as usize, b);
                freely.stream(a as u32 as usize);
            }
            op::UP_TO => {
                let (thread, time) = freely.turn;
                self.merge(freely, time, take);
                self.close(freely, thread, a, true);
                self.resume(thread);
            }
            op::APPEARED => self.record(words),
            op::OWN => {
                let (thread, _) = freely.turn;
                freely.stream(thread).chunks.push_back(a as u32);
                if !freely.live.contains(&thread) {
                    freely.live.push(thread);
                }
            }
            op::TURN_END => {
                self.merge(freely, a, take);
                self.end_turn(freely);
                if self.batch.len() >= BATCH {
                    take(self);
                }
            }
            _ => self.turn_record(freely, words),
        }
    }

    /// Lets another thread go on.
    pub(super) fn resume(&mut self, thread: usize) {
        if self.current != thread || !self.threads.get(thread).is_some_and(|state| state.known) {
            self.current = thread;
            self.runs.id = self.thread(thread);
            self.runs.own = super::shadow::Own::of(thread);
            self.visit();
            self.look_closely();
            self.calls.resume(thread);
        }
    }

    /// All accesses that were announced before a time, in the order of their times.
    fn merge(&mut self, freely: &mut Freely, until: u64, take: Take) {
        let mut next = BinaryHeap::new();
        freely.live.retain(|&thread| !freely.streams[thread].chunks.is_empty());
        for index in 0..freely.live.len() {
            let thread = freely.live[index];
            next.extend(freely.peek(thread).filter(|&time| time < until).map(|time| Reverse((time, thread))));
        }
        while let Some(Reverse((_, thread))) = next.pop() {
            let soon = next.peek().map_or(until, |&Reverse((time, _))| time);
            loop {
                self.access_begins(freely, thread);
                if self.batch.len() >= BATCH {
                    take(self);
                }
                match freely.peek(thread) {
                    Some(time) if time < soon => {}
                    Some(time) if time < until => {
                        next.push(Reverse((time, thread)));
                        break;
                    }
                    _ => break,
                }
            }
        }
    }

    /// The next access of a thread: what it did before is over.
    fn access_begins(&mut self, freely: &mut Freely, thread: usize) {
        let stream = &mut freely.streams[thread];
        let Some((_, access)) = stream.next.take() else { return };
        let position = stream.position;
        if thread == freely.turn.0 {
            // It goes on, so its turn is over.
            self.end_turn(freely);
        }
        self.close(freely, thread, position, true);
        let stream = &mut freely.streams[thread];
        stream.at += stream.words;
        stream.position += stream.words as u64;
        let mut more = std::mem::take(&mut stream.more);
        let touches = |access: &Access| access.size > 0 && is_possible(access.address, access.size);
        for access in more.drain(..).chain([access]).filter(touches) {
            let end = access.address + access.size;
            let writes = access.writes();
            let certain = freely.disturb(thread, access.address..end, writes, false);
            let (reads, in_turn) = (!writes, false);
            freely.open(thread, Open { access, end, reads, writes, certain, told: false, in_turn, handlers: 0 });
        }
        freely.streams[thread].more = more;
    }

    /// Whatever a thread was doing is done: it goes on with the record at this position. Without `whole`, it has ended in
    /// the middle, and the value of its last write was not seen.
    fn close(&mut self, freely: &mut Freely, thread: usize, position: u64, whole: bool) {
        let stream = freely.stream(thread);
        if stream.open.is_empty() && stream.calls.is_empty() {
            return;
        }
        let here = stream.calls.iter().take_while(|call| call.0 < position);
        let calls: Vec<u64> = here.map(|call| call.1).collect();
        stream.calls.drain(..calls.len());
        let mut open = std::mem::take(&mut stream.open);
        let is_handled = calls.iter().any(|&call| call as u8 == op::HANDLER);
        for open in &mut open {
            self.access_ends(freely, thread, open, whole && !is_handled);
        }
        if !freely.streams[thread].lost {
            self.resume(thread);
        }
        for call in calls {
            let lost = freely.streams[thread].lost;
            match call as u8 {
                op::HANDLER => open.iter_mut().for_each(|open| open.handlers += 1),
                op::HANDLED => open.iter_mut().for_each(|open| open.handlers = open.handlers.saturating_sub(1)),
                op::ENTER if !lost => self.calls.enter(call >> 16, &mut self.symbols),
                op::LEAVE if !lost => self.calls.leave(),
                _ => {}
            }
        }
        open.retain(|open| open.handlers > 0);
        freely.set_open(thread, open);
    }

    fn access_ends(&mut self, freely: &mut Freely, thread: usize, open: &mut Open, has_value: bool) {
        let Access { first, address, .. } = open.access;
        let unknown = open.reads && !open.told && freely.is_unknown(address..open.end);
        let certain = open.certain && !unknown;
        let stream = &mut freely.streams[thread];
        if stream.ends {
            self.lose(stream);
        }
        let lost = stream.lost;
        if !certain && open.reads {
            stream.ends = true;
            if !lost {
                self.note_unordered(thread, first >> 16, open.end - address);
            }
        }
        if first as u8 == op::MAY_TOUCH {
            // What it has touched the turn after it says.
            if open.writes && !open.certain {
                stream.unsure.push(address..open.end);
            }
            return;
        }
        if open.writes && (lost || !certain) {
            freely.make_unknown(address..open.end);
        } else if open.writes {
            freely.make_known(address..open.end);
        }
        if std::mem::replace(&mut open.told, true) {
            return;
        }
        if lost {
            self.oddities.left_out += 1;
            return;
        }
        self.resume(thread);
        let op = if open.writes { Op::Write } else { Op::Read };
        let pc = first >> 16;
        self.calls.step();
        let known = certain && has_value;
        open.access.take_values(&freely.chunks);
        let [low, high] = open.access.values.map(|value| known.then_some(value));
        match open.access.size {
            _ if matches!(first as u8, op::RANGE_READ | op::RANGE_WRITE) => {
                self.range(first as u8, pc, address, open.access.size, &[]);
            }
            16 => {
                self.access(op, address, 8, pc, low);
                self.access(op, address + 8, 8, pc, high);
            }
            size => self.access(op, address, size, pc, low),
        }
    }

    fn lose(&mut self, stream: &mut Stream) {
        self.oddities.threads_cut += !stream.lost as u64;
        stream.lost = true;
    }

    fn note_unordered(&mut self, thread: usize, pc: u64, size: u64) {
        self.oddities.unordered += 1;
        if self.oddities.unordered_at.len() < 3 {
            let location = self.location(pc);
            let thread = self.thread(thread);
            let text = format!(
                "{size} bytes read by {} at {}",
                self.tables.thread_name(thread),
                self.tables.location_name(location)
            );
            self.oddities.unordered_at.push(text);
        }
    }

    /// A record of the thread whose turn it is. It goes into the trace when the turn ends.
    fn turn_record(&mut self, freely: &mut Freely, words: &[u64]) {
        let touched = self.touched(words);
        let mut index = None;
        if let Some((range, reads, writes)) = touched {
            let (thread, _) = freely.turn;
            // Calls are made between turns.
            let in_turn = words[0] as u8 != op::MAY_TOUCH;
            let certain = freely.disturb(thread, range.clone(), writes, in_turn);
            let (address, size) = (range.start, range.end - range.start);
            let access = Access { first: words[0], address, size, values: [0; 2], at: None };
            index = Some(freely.streams[thread].open.len());
            let open = Open { access, end: range.end, reads, writes, certain, told: true, in_turn, handlers: 0 };
            freely.open(thread, open);
        }
        freely.records.extend(words);
        freely.lengths.push((words.len(), index));
        if freely.records.len() > LONGEST_TURN {
            self.damage("a turn does not end".to_owned());
        }
    }

    /// The memory that a record is about, and whether it is read and written.
    fn touched(&self, words: &[u64]) -> Option<(Range<u64>, bool, bool)> {
        let (a, b) = (*words.get(1)?, *words.get(2)?);
        let (size, reads, writes) = match words[0] as u8 {
            op::ATOMIC_READ => (length(words[0]), true, false),
            op::ATOMIC_WRITE => (length(words[0]), false, true),
            op::RMW => (length(words[0]), true, true),
            op::RANGE_READ => (b, true, false),
            op::RANGE_WRITE | op::ALLOC => (b, false, true),
            op::FREE => (self.heap.block_at(a), false, true),
            op::MAY_TOUCH => (b & !(1 << 63), b >> 63 == 0, b >> 63 != 0),
            _ => return None,
        };
        (size > 0 && is_possible(a, size)).then(|| (a..a + size, reads, writes))
    }

    fn end_turn(&mut self, freely: &mut Freely) {
        let (thread, _) = freely.turn;
        self.resume(thread);
        let records = std::mem::take(&mut freely.records);
        let lengths = std::mem::take(&mut freely.lengths);
        let mut at = 0;
        for &(length, index) in &lengths {
            self.turn_record_ends(freely, &records[at..at + length], index);
            at += length;
        }
        (freely.records, freely.lengths) = (records, lengths);
        freely.records.clear();
        freely.lengths.clear();
        let mut open = std::mem::take(&mut freely.streams[thread].open);
        open.retain(|open| !open.in_turn);
        freely.set_open(thread, open);
        freely.streams[thread].unsure.clear();
    }

    fn turn_record_ends(&mut self, freely: &mut Freely, words: &[u64], index: Option<usize>) {
        let first = words[0];
        let code = first as u8;
        if matches!(code, op::MAY_TOUCH | op::STEP | op::WHOLE) {
            return;
        }
        let (a, b) = (words.get(1).copied().unwrap_or(0), words.get(2).copied().unwrap_or(0));
        let (thread, _) = freely.turn;
        let things: &[u64] = match code {
            op::LOCK | op::READ_LOCK | op::UNLOCK | op::LOCK_NEW | op::CONDITION_NEW | op::WAKE => &[a],
            op::NOTIFY | op::NOTIFY_ALL | op::SEM_NEW | op::SEM_POST | op::SEM_WAIT => &[a],
            op::TRY_FAILED | op::SEM_COUNT | op::WANT | op::GONE => &[a],
            op::BARRIER_NEW | op::BARRIER_ENTER | op::BARRIER_LEAVE | op::SYNC_RELEASE | op::SYNC_ACQUIRE => &[a],
            op::WAIT_BEGIN | op::WAIT_END => &[a, b],
            _ => &[],
        };
        let open = index.and_then(|index| freely.streams[thread].open.get(index));
        let (range, reads, writes, certain) = match open {
            Some(open) => (open.access.address..open.end, open.reads, open.writes, open.certain),
            None => (0..0, false, false, true),
        };
        let unsure = &freely.streams[thread].unsure;
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        let certain = certain && !(reads && freely.is_unknown(range.clone())) && !(writes && unsure.iter().any(meets));
        let depends = freely.streams[thread].ends && code != op::BLOB
            || things.iter().any(|thing| freely.lost.contains(thing))
            || code == op::JOIN && freely.streams.get(a as u32 as usize).is_some_and(|child| child.lost);
        if depends {
            self.lose(&mut freely.streams[thread]);
        }
        if code == op::END {
            freely.end(thread);
        }
        let lost = freely.streams[thread].lost;
        // What is in a new block is known when it is written; what was in one that is freed nobody may look at.
        let of_heap = matches!(code, op::ALLOC | op::FREE);
        if of_heap {
            freely.make_known(range.clone());
        } else if writes && (lost || !certain) {
            freely.make_unknown(range.clone());
        } else if writes {
            freely.make_known(range.clone());
        }
        if code == op::BLOB {
            return self.record(words);
        }
        if lost {
            freely.lost.extend(things);
            if code == op::FORK {
                let child = freely.stream(a as u32 as usize);
                self.lose(child);
            }
            self.oddities.left_out += 1;
            return;
        }
        if certain {
            return self.record(words);
        }
        if reads {
            freely.streams[thread].ends = true;
            self.note_unordered(thread, first >> 16, range.end - range.start);
        }
        let mut words = words.to_vec();
        if matches!(code, op::ATOMIC_READ | op::ATOMIC_WRITE | op::RMW) {
            words[0] |= (wire::WITHOUT_VALUES as u64) << 8;
        }
        self.record(&words);
    }
}

#[cfg(test)]
mod tests;
