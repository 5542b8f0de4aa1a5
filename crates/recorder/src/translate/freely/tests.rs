//! A machine on which announcing an access, doing it and noting its value are moments apart.

use super::*;
use crate::ring::{Ring, Settings};
use crate::symbols::Symbols;
use crate::wire::head;
use snag_formats::snag_format::RecordedEvent;
use snag_synthesis::Rng;
use std::sync::atomic::Ordering::Relaxed;

/// Something a thread has really done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    op: Op,
    address: u64,
    /// What was read or, if nothing was, written.
    value: i64,
    /// What was there after it.
    left: i64,
}

/// A thread of a machine on which the moments of announcing, doing and noting an access are apart.
#[derive(Default)]
struct Thread {
    chunk: u32,
    at: usize,
    position: u64,
    /// The access that was announced: where its value goes, address, and whether it writes.
    announced: Option<(usize, u64, bool)>,
    /// A write that was done and not noted: where its value goes, and the address.
    unnoted: Option<(usize, u64)>,
    holds: bool,
    done: Vec<Done>,
}

struct Machine {
    chunks: OwnChunks,
    free: u32,
    threads: Vec<Thread>,
    memory: [i64; 8],
    time: u64,
    written: i64,
    /// The thread in its turn, and the lock's holder.
    turn: Option<usize>,
    locked: bool,
    ring: Vec<u64>,
}

const FIRST: u64 = 0x7000_0000_0000;
const LOCK: u64 = 0x7000_0000_1000;

fn slot(address: u64) -> usize {
    ((address - FIRST) / 4) as usize
}

impl Machine {
    fn put(&mut self, thread: usize, words: &[u64]) -> usize {
        let this = &mut self.threads[thread];
        let at = this.at;
        for (index, &word) in words.iter().enumerate() {
            self.chunks.words(this.chunk)[at + index].store(word, Relaxed);
        }
        this.at += words.len();
        this.position += words.len() as u64;
        at
    }

    /// What a thread does before anything else is recorded.
    fn note(&mut self, thread: usize) {
        let this = &mut self.threads[thread];
        if let Some((at, address)) = this.unnoted.take() {
            let value = self.memory[slot(address)] as u64;
            self.chunks.words(this.chunk)[at].store(value, Relaxed);
        }
    }

    fn announce(&mut self, thread: usize, address: u64, writes: bool) {
        self.note(thread);
        self.time += 1;
        let code = if writes { op::WRITE } else { op::READ };
        let value = if writes { 0 } else { self.memory[slot(address)] as u64 };
        let time = self.time;
        let at = self.put(thread, &[head(code, 2, 0x40), address, value, time]);
        self.threads[thread].announced = Some((at + 2, address, writes));
    }

    fn perform(&mut self, thread: usize) {
        let Some((at, address, writes)) = self.threads[thread].announced.take() else { return };
        if writes {
            self.written += 1;
            self.memory[slot(address)] = self.written;
            self.threads[thread].unnoted = Some((at, address));
        }
        let (op, value) = (if writes { Op::Write } else { Op::Read }, self.memory[slot(address)]);
        self.threads[thread].done.push(Done { op, address, value, left: value });
    }

    fn begin_turn(&mut self, thread: usize) {
        self.note(thread);
        self.time += 1;
        self.turn = Some(thread);
        let position = self.threads[thread].position;
        self.ring.extend([head(op::SWITCH, 0, 0), thread as u64, self.time, head(op::UP_TO, 0, 0), position, 0]);
    }

    fn end_turn(&mut self) {
        self.time += 1;
        self.turn = None;
        self.ring.extend([head(op::TURN_END, 0, 0), self.time, 0]);
    }

    /// What a thread does in its turn.
    fn act(&mut self, thread: usize, rng: &mut Rng) {
        let address = FIRST + 4 * rng.below(8) as u64;
        match rng.below(5) {
            0 if self.threads[thread].holds => {
                self.threads[thread].holds = false;
                self.locked = false;
                self.ring.extend([head(op::UNLOCK, 0, 0x40), LOCK, 0]);
                self.threads[thread].done.push(Done { op: Op::Release, address: 0, value: 0, left: 0 });
            }
            0 | 1 if !self.locked => {
                self.threads[thread].holds = true;
                self.locked = true;
                self.ring.extend([head(op::LOCK, 0, 0x40), LOCK, 0]);
                self.threads[thread].done.push(Done { op: Op::Acquire, address: 0, value: 0, left: 0 });
            }
            2 => {
                let value = self.memory[slot(address)];
                self.written += 1;
                self.memory[slot(address)] = self.written;
                let first = head(op::RMW, 2 | 4 << 3, 0x40);
                self.ring.extend([first, address, value as u64, self.written as u64]);
                self.threads[thread].done.push(Done { op: Op::Rmw, address, value, left: self.written });
            }
            3 => {
                let value = self.memory[slot(address)];
                self.ring.extend([head(op::ATOMIC_READ, 2 | 2 << 3, 0x40), address, value as u64]);
                self.threads[thread].done.push(Done { op: Op::AtomicRead, address, value, left: value });
            }
            _ => {
                self.put(thread, &[head(op::NEXT, 0, 0)]);
                self.free += 1;
                (self.threads[thread].chunk, self.threads[thread].at) = (self.free, 0);
                self.ring.extend([head(op::OWN, 0, 0), self.free as u64, 0]);
            }
        }
    }
}

/// What a machine did, and what became of it.
fn run(seed: u64, variables: usize) -> (Vec<Thread>, Vec<RecordedEvent>, Translator) {
    let mut rng = Rng::new(seed);
    let ring = Ring::new(&Settings { free: true, ..Settings::default() }).unwrap();
    let mut translator = Translator::new(Symbols::new(None));
    translator.run_freely(ring.own_chunks().unwrap());
    let count = 2 + rng.below(3);
    let threads = (0..count).map(|_| Thread::default()).collect();
    let chunks = ring.own_chunks().unwrap();
    let (time, written) = (1, 0);
    let (turn, locked, free) = (None, false, 0);
    let mut machine = Machine { chunks, free, threads, memory: [0; 8], time, written, turn, locked, ring: Vec::new() };
    let mut events = Vec::new();
    let mut take = |translator: &mut Translator| {
        events.extend(translator.batch.events());
        translator.taken();
    };
    for thread in 0..count {
        machine.begin_turn(thread);
        machine.free += 1;
        machine.threads[thread].chunk = machine.free;
        machine.ring.extend([head(op::OWN, 0, 0), machine.free as u64, 0]);
        machine.end_turn();
    }
    for _ in 0..60 + rng.below(200) {
        let thread = rng.below(count);
        match rng.below(8) {
            _ if machine.turn == Some(thread) => {
                machine.act(thread, &mut rng);
                if rng.below(2) == 0 {
                    machine.end_turn();
                }
            }
            _ if machine.threads[thread].announced.is_some() => machine.perform(thread),
            0 if machine.turn.is_none() => machine.begin_turn(thread),
            1 if rng.below(4) == 0 => {
                let words = std::mem::take(&mut machine.ring);
                translator.chunk(&words, false, &mut take);
            }
            // Some variables are a thread's own, some are shared.
            _ => {
                let own = variables..8;
                let which = match rng.below(3) {
                    0 if variables > 0 => rng.below(variables),
                    _ => own.start + thread % (own.end - own.start),
                };
                machine.announce(thread, FIRST + 4 * which as u64, rng.below(2) == 0);
            }
        }
    }
    // It dies in front of some accesses. They are as good as done.
    (0..count).for_each(|thread| machine.perform(thread));
    let words = std::mem::take(&mut machine.ring);
    translator.chunk(&words, true, &mut take);
    (machine.threads, events, translator)
}

/// Whatever the machine does, the trace has of each thread what it did first, with the right values, in an order in which
/// every read but a last one finds what it found.
#[test]
fn what_remains_is_what_happened() {
    let (mut uncut, mut cut, mut valued) = (0, 0, 0);
    for seed in 1..4000 {
        let (threads, events, translator) = run(seed, 1 + (seed % 4) as usize);
        let names: Vec<_> = (0..threads.len()).map(|number| translator.threads[number].id).collect();
        let mut next = vec![0; threads.len()];
        let mut memory = [0; 8];
        let mut holder = None;
        let last: Vec<_> =
            names.iter().map(|&name| events.iter().rposition(|event| event.thread == name).unwrap_or(0)).collect();
        for (index, event) in events.iter().enumerate() {
            let thread = names.iter().position(|&name| name == event.thread).unwrap();
            let done = threads[thread].done[next[thread]];
            next[thread] += 1;
            assert_eq!(event.op, done.op, "seed {seed}, event {index}");
            match event.op {
                Op::Acquire => assert_eq!(holder.replace(thread), None, "seed {seed}, event {index}"),
                Op::Release => assert_eq!(holder.take(), Some(thread), "seed {seed}, event {index}"),
                _ => {
                    assert_eq!(event.address, done.address, "seed {seed}, event {index}");
                    if let Some(value) = event.value {
                        valued += 1;
                        assert_eq!(value, done.value, "seed {seed}, event {index}");
                    }
                    let cell = &mut memory[slot(done.address)];
                    let is_last = last[thread] == index;
                    if event.op.reads() && (!is_last || event.value.is_some()) {
                        assert_eq!(*cell, done.value, "seed {seed}: event {index} reads something else");
                    }
                    if event.op.writes() {
                        *cell = done.left;
                    }
                }
            }
        }
        let odd = &translator.oddities;
        if odd.unordered == 0 {
            uncut += 1;
            let done: Vec<_> = threads.iter().map(|thread| thread.done.len()).collect();
            assert_eq!((odd.threads_cut, next), (0, done), "seed {seed}");
        }
        cut += (odd.threads_cut > 0) as u32;
    }
    assert!(uncut > 100 && cut > 1000 && valued > 100_000, "{uncut} {cut} {valued}");
}

#[test]
fn memory_that_several_threads_touch_is_shared() {
    let mut translator = Translator::new(Symbols::new(None));
    let mut access = |thread, op, value| {
        translator.resume(thread);
        translator.access(op, 0x1000, 8, 0x10, Some(value));
        (translator.oddities.foreign, translator.oddities.foreign_shared)
    };
    access(0, Op::Write, 1);
    assert_eq!(access(1, Op::Read, 1), (0, 0));
    assert_eq!(access(0, Op::Read, 2), (1, 1), "somebody has changed it");
}
