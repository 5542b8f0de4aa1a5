//! What the tests of the formats share.
#![allow(dead_code)]

use snag_formats::open::Format;
use snag_formats::snag_format::{SnagReader, SnagWriter};
use snag_formats::std_format::{StdReader, StdWriter};
use snag_formats::text_format::{TextReader, TextWriter};
use snag_formats::*;
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::*;
use snag_synthesis::Rng;
use std::io::{Cursor, Read};

/// A trace with every event and directive in every spelling.
pub const EVERY_EVENT: &str = include_str!("../every.stx");

/// Hands out a few bytes at a time, as a slow pipe does.
pub struct Drip {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Drip {
    pub fn new(bytes: &[u8], step: usize) -> Drip {
        Drip { bytes: bytes.to_vec(), at: 0, step }
    }
}

impl Read for Drip {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.step.min(self.bytes.len() - self.at).min(buffer.len());
        buffer[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

pub fn read_as(format: Format, bytes: &[u8]) -> Result<Trace> {
    let input = Cursor::new(bytes.to_vec());
    let reader: Box<dyn BlockReader> = match format {
        Format::Std => Box::new(StdReader::new(input)),
        Format::Text => Box::new(TextReader::new(input)),
        Format::Snag => Box::new(SnagReader::new(input)),
    };
    TraceReader::new(reader, None).as_written().read_all().map(|(trace, _)| trace)
}

pub fn write_as(format: Format, trace: &Trace) -> Result<Vec<u8>> {
    match format {
        Format::Std => {
            let mut writer = StdWriter::new(Vec::new());
            writer.write(&trace.events, &trace.tables)?;
            writer.finish(&trace.tables)
        }
        Format::Text => {
            let mut writer = TextWriter::new(Vec::new());
            writer.write(&trace.events, &trace.tables)?;
            writer.finish(&trace.tables)
        }
        Format::Snag => {
            let mut writer = SnagWriter::new(Vec::new(), true);
            writer.write(&trace.events, &trace.tables)?;
            writer.finish(&trace.tables)
        }
    }
}

pub fn snag_bytes(trace: &Trace, compress: bool) -> Vec<u8> {
    let mut writer = SnagWriter::new(Vec::new(), compress);
    writer.write(&trace.events, &trace.tables).unwrap();
    writer.finish(&trace.tables).unwrap()
}

/// Small numbers from a seed.
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Rng::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.number()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Names of every shape.
const NAMES: &[&str] = &[
    "x",
    "y",
    "a b",
    "lock:l",
    "thread:",
    "0x10:4",
    "0x10",
    "(",
    "é|è",
    "\u{0}\n\r\t",
    "\"\\",
    "m,n",
    "",
    "longer than fifteen bytes",
    "=1",
];

fn value(random: &mut Random) -> Option<i64> {
    match random.below(6) {
        0 | 1 => None,
        2 => Some(random.next() as i64),
        3 => Some(i64::MIN),
        _ => Some(random.below(5) as i64 - 2),
    }
}

/// A well-formed trace with every kind of event: events are proposed at random and kept if no rule forbids them.
pub fn random_trace(seed: u64, events: usize) -> Trace {
    let mut random = Random::new(seed);
    let mut trace = Trace::default();
    let tables = &mut trace.tables;
    for name in ["main", "T1", "T2", "T3", "é \"x\""] {
        tables.thread(name);
    }
    for name in NAMES {
        tables.variable_named(name);
        for space in Space::ALL {
            if !matches!(space, Space::Thread | Space::Location | Space::Expression | Space::VariableName) {
                tables.intern(space, name);
            }
        }
    }
    for name in ["file.c:1", "file.c:2", "somewhere (else)"] {
        tables.location(name);
    }
    for address in [0x1000, 0x1004, 0x2000, 0xffff_ffff_ffff_fff8] {
        for size in [1, 4, 8] {
            tables.variable_range(address, size);
        }
    }
    for text in ["1", "x", "(+ x 1)", "(< (* x y) -3)"] {
        tables.intern(Space::Expression, text);
    }
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut objects = Vec::new();
        for _ in 0..seed * 2 {
            let name = |space| tables.names(space).len();
            objects.push(match random.below(6) {
                0 => Object::Variable(VarId::new(random.below(tables.variable_count()))),
                1 => Object::Lock(LockId::new(random.below(tables.lock_count()))),
                2 => Object::Condition(CondId::new(random.below(name(Space::Condition)))),
                3 => Object::Semaphore(SemId::new(random.below(name(Space::Semaphore)))),
                4 => Object::Barrier(BarrierId::new(random.below(name(Space::Barrier)))),
                _ => Object::Thread(ThreadId::new(random.below(tables.thread_count()))),
            });
        }
        if !objects.is_empty() {
            tables.arguments(objects.clone());
        }
        tables.reach(objects);
    }
    if random.one_in(2) {
        tables.declarations.plain_locks.push(LockId(1));
        tables.declarations.semaphores.push((SemId(3), 7));
        tables.declarations.semaphores.push((SemId(2), 0));
        tables.declarations.barriers.push((BarrierId(2), 2));
        tables.declarations.initial.push((VarId(2), -5));
        tables.declarations.initial.push((VarId::new(tables.variable_count() - 1), i64::MAX));
    }
    tables.layout.crlf = random.one_in(4);
    let mut validator = Validator::new();
    let mut notifies: Vec<(u32, usize)> = Vec::new();
    let mut tries = 0;
    while trace.events.len() < events && tries < events * 40 {
        tries += 1;
        let thread = ThreadId::new(random.below(5));
        let op = *random.pick(&Op::ALL);
        if matches!(op, Op::End | Op::Join | Op::Want | Op::ReadWant) && !random.one_in(20) {
            continue;
        }
        let tables = &trace.tables;
        let below = |space: Space| tables.names(space).len().min(5);
        let mut event = Event::new(thread, op, 0);
        let bound = match op {
            op if op.if_it_happens().is_access() || matches!(op, Op::Alloc | Op::Free) => tables.variable_count(),
            op if op.is_stale() => tables.variable_count(),
            Op::Acquire | Op::Release | Op::ReadAcquire | Op::ReadRelease => below(Space::Lock),
            Op::OtherAcquire | Op::OtherRelease | Op::TryFail | Op::ReadTryFail => below(Space::Lock),
            Op::Want | Op::ReadWant | Op::Unheld | Op::Gone => below(Space::Lock),
            Op::Discard => 2,
            Op::Fork | Op::Join | Op::JoinFail => below(Space::Thread),
            Op::WaitBegin | Op::Wake | Op::WaitEnd | Op::Notify | Op::NotifyAll => 2,
            Op::SemPost | Op::SemWait | Op::SemValue => below(Space::Semaphore),
            Op::BarrierEnter | Op::BarrierLeave => below(Space::Barrier),
            Op::MethodBegin | Op::MethodEnd => 3,
            Op::Reach => tables.variable_count(),
            Op::Branch | Op::Let | Op::Mark | Op::OtherBranch | Op::OtherLet => NAMES.len(),
            _ => 1,
        };
        event.target = random.below(bound) as u32;
        event.location = LocId::new(random.below(4));
        event.aux = match op {
            Op::Read | Op::OtherRead if random.one_in(4) => 1 + random.below(NAMES.len()) as u32,
            Op::OtherWrite | Op::OtherBranch => 1 + random.below(4) as u32,
            Op::Write | Op::Branch if random.one_in(3) => 1 + random.below(4) as u32,
            Op::AtomicRead | Op::AtomicWrite | Op::Rmw => random.below(5) as u32,
            Op::Fence => 1 + random.below(4) as u32,
            Op::Fork | Op::Join if random.one_in(3) => 1 + random.below(NAMES.len()) as u32,
            Op::WaitBegin | Op::WaitEnd => random.below(5) as u32,
            Op::Wake if !notifies.is_empty() && !random.one_in(3) => 1 + random.pick(&notifies).1 as u32,
            Op::MethodBegin | Op::Reach => random.below(tables.reach_count()) as u32,
            Op::Let | Op::OtherLet => random.below(4) as u32,
            Op::SemValue => random.below(9) as u32,
            Op::Discard => random.below(4) as u32,
            _ => 0,
        };
        if op.is_access() {
            event.value = value(&mut random);
        }
        if op == Op::Branch && event.aux != 0 && random.one_in(2) {
            event.value = Some(random.below(2) as i64);
        }
        if op == Op::Rmw {
            event.written = value(&mut random);
        }
        let mut single = Events::new();
        single.restart(trace.events.len());
        single.push(event);
        let mut next = validator.clone();
        if next.check(&single, 0, &trace.tables).is_err() {
            continue;
        }
        validator = next;
        if matches!(op, Op::Notify | Op::NotifyAll) {
            notifies.push((event.target, trace.events.len()));
        }
        if random.one_in(10) {
            let text = *random.pick(&["", "# comment", "#", "  \t"]);
            trace.tables.comments.push((trace.events.len() as u64, text.to_owned()));
        }
        trace.events.push(event);
    }
    trace.tables.comments.push((trace.events.len() as u64, "# end".to_owned()));
    trace.tables.layout.open_end = random.one_in(4);
    trace
}
