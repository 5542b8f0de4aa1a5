//! Runs a recorded program again: along the schedule of the recording, or along a witness up to a race.
//!
//! The schedule says which thread runs for how many steps. The runtime follows it; the tool compares what happens with
//! what was recorded, or, at the end of a witness, looks at the threads that stand in front of their racing accesses.

use crate::recorded::{Recorded, thread_numbers};
use crate::recorder::{Ended, Options, Prints, Recorder};
use crate::ring::Settings;
use crate::translate::Translator;
use crate::wire::{self, Segment};
use snag_trace::events::Event;
use snag_trace::snag_format::RecordedEvent;
use snag_trace::{EventId, Op, Tables, Trace, VarId, Variable};
use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// A schedule that makes the program do the events of a witness, in its order, and then brings the threads of a race or
/// deadlock in front of the events that come then.
pub fn along_witness(
    trace: &Trace,
    recorded: &Recorded,
    witness: impl Iterator<Item = EventId>,
    then: &[EventId],
) -> Vec<Segment> {
    let numbers = thread_numbers(trace);
    let steps = recorded.steps(trace);
    let number = |event: EventId| numbers[trace.thread_of(event).index()] as u32;
    let mut segments: Vec<Segment> = Vec::new();
    let mut add = |thread: u32, until: u64, timeout: bool| match segments.last_mut() {
        Some(last) if last.thread == thread && !timeout => last.until = last.until.max(until),
        _ => segments.push(Segment { thread, timeout: timeout as u32, until }),
    };
    for event in witness {
        let index = event.index();
        let woken_by_time = trace.events.ops()[index] == Op::Wake && trace.events.aux(index) == 0;
        add(number(event), steps[index], woken_by_time);
    }
    for &event in then {
        add(number(event), steps[event.index()].saturating_sub(1), false);
    }
    segments
}

/// The same with the two accesses themselves at its end, in the order given.
pub fn through_race(
    trace: &Trace,
    recorded: &Recorded,
    witness: impl Iterator<Item = EventId>,
    pair: [EventId; 2],
) -> Vec<Segment> {
    let mut segments = along_witness(trace, recorded, witness, &pair);
    let numbers = thread_numbers(trace);
    let steps = recorded.steps(trace);
    for event in pair {
        let thread = numbers[trace.thread_of(event).index()] as u32;
        segments.push(Segment { thread, timeout: 0, until: steps[event.index()] });
    }
    segments
}

/// How a run ended that was driven through a race and then left to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its end; `None` if it had to be ended.
    pub ended: Option<Ended>,
    /// What it printed.
    pub output: Vec<u8>,
    /// Whether it came through the race.
    pub followed: bool,
}

/// How long a run may take that is left to itself.
const LONGEST: Duration = Duration::from_secs(60);

/// Drives the program along a schedule made by [`through_race`], lets it run on, with turns taken at random from the seed, and
/// says how it ended. What it prints goes through a file in the given place.
pub fn outcome(command: Vec<OsString>, schedule: Vec<Segment>, seed: u64, output: &Path) -> Result<Outcome, String> {
    let settings = Settings { schedule, seed, quantum: 100, ..Settings::default() };
    let mut recorder = Recorder::start(&Options { command, settings, prints: Prints::Into(output.to_owned()) })?;
    let started = Instant::now();
    let mut last = (Instant::now(), 0);
    let ended = loop {
        let moved = recorder.ring.next(Duration::from_millis(5), |_| ());
        let replayed = recorder.ring.header().replayed.load(Relaxed);
        if moved || replayed != last.1 {
            last = (Instant::now(), replayed);
        }
        if let Some(status) = recorder.child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            break Some(Ended::from(status));
        }
        if last.0.elapsed() > PATIENCE || started.elapsed() > LONGEST {
            let _ = recorder.child.kill();
            let _ = recorder.child.wait();
            break None;
        }
    };
    let followed = recorder.ring.header().outcome.load(Acquire) == wire::FOLLOWED;
    let output = std::fs::read(output).map_err(|error| format!("{}: {error}", output.display()))?;
    Ok(Outcome { ended, output, followed })
}

/// One of the accesses of a race, or of the acquires of a deadlock, that is about to happen.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The event of the trace that it is.
    pub event: EventId,
    /// What is in the memory now, if it could be read.
    pub holds: Option<Vec<u8>>,
}

/// How far a program came along a witness.
#[derive(Clone, Debug)]
pub enum Driven {
    /// All threads stand in front of their events: accesses to overlapping memory, or acquires of locks that the others
    /// hold.
    Confirmed(Vec<Standing>),
    /// It went another way.
    Diverged {
        /// Segments of the schedule that were run.
        done: u64,
        /// Segments there are.
        all: u64,
        /// What happened.
        why: String,
    },
}

/// How long nothing may happen before a replay is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Drives the program along a schedule made by [`along_witness`].
pub fn drive(
    trace: &Trace,
    command: Vec<OsString>,
    schedule: Vec<Segment>,
    then: &[EventId],
) -> Result<Driven, String> {
    let all = schedule.len() as u64;
    let settings = Settings { schedule, stop_at_end: true, ..Settings::default() };
    let mut recorder = Recorder::start(&Options { command, settings, prints: Prints::AsWeDo })?;
    let why = follow(&mut recorder)?;
    let done = recorder.ring.header().replayed.load(Relaxed);
    let result = match why {
        Some(why) => Driven::Diverged { done, all, why },
        None => {
            // Everything stands still, so the chunk is as it is.
            let rest = recorder.ring.rest().to_vec();
            recorder.translator.chunk(&rest, false, &mut Translator::taken);
            stand(trace, &recorder, then).unwrap_or_else(|why| Driven::Diverged { done, all, why })
        }
    };
    // It has served its purpose.
    let _ = recorder.child.kill();
    let _ = recorder.child.wait();
    Ok(result)
}

/// Waits until the schedule was followed to its end, or why it was not.
fn follow(recorder: &mut Recorder) -> Result<Option<String>, String> {
    let mut last = (Instant::now(), 0, 0);
    loop {
        let Recorder { ring, translator, .. } = recorder;
        let moved = ring.next(Duration::from_millis(5), |words| translator.chunk(words, false, &mut Translator::taken));
        match ring.header().outcome.load(Acquire) {
            wire::FOLLOWED => return Ok(None),
            wire::DIVERGED => return Ok(Some("the thread whose turn it was cannot run".to_owned())),
            _ => {}
        }
        let progress = (ring.header().replayed.load(Relaxed), ring.header().filled.load(Relaxed));
        if moved || progress != (last.1, last.2) {
            last = (Instant::now(), progress.0, progress.1);
        }
        if last.0.elapsed() > PATIENCE {
            return Ok(Some("nothing happens any more".to_owned()));
        }
        if let Some(status) = recorder.child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            return Ok(Some(match Ended::from(status) {
                Ended::Exit(code) => format!("the program exited with status {code}"),
                Ended::Signal(signal) => format!("the program died of signal {signal}"),
            }));
        }
    }
}

/// Compares where the threads stand with where they should.
fn stand(trace: &Trace, recorder: &Recorder, then: &[EventId]) -> Result<Driven, String> {
    let numbers = thread_numbers(trace);
    let mut standing = Vec::new();
    for &event in then {
        let thread = trace.thread_of(event);
        let name = trace.tables.thread_name(thread);
        let number = numbers[thread.index()] as u32;
        let Some(&[first, address, size]) = recorder.translator.stopped.get(&number) else {
            return Err(format!("{name} was not stopped"));
        };
        let access = trace.event(event);
        if !access.op.has_variable() {
            // A thread in front of a lock says so by not being in front of an access; its steps say which lock it is.
            if address != 0 {
                return Err(format!("{name} stands in front of an access to {address:#x}, and not of a lock"));
            }
            standing.push(Standing { event, holds: None });
            continue;
        }
        let Variable::Range { address: wanted, size: bytes } = trace.tables.variable(VarId(access.target)) else {
            return Err("the race is not about memory".to_owned());
        };
        // Operations that are no plain accesses do not say where they are going; for those the count of steps speaks.
        if address != 0 {
            let writes = size >> 32 != 0;
            let same_memory = address & ADDRESS == wanted & ADDRESS;
            if writes != access.op.writes() || !same_memory {
                return Err(format!(
                    "{name} stands in front of another access, a {} of {address:#x}",
                    if writes { "write" } else { "read" }
                ));
            }
            let _ = first;
        }
        let holds = read_memory(recorder.child.id(), wanted & ADDRESS, bytes.min(16) as usize);
        standing.push(Standing { event, holds });
    }
    Ok(Driven::Confirmed(standing))
}

/// The part of an address in the trace that is an address of the program.
const ADDRESS: u64 = (1 << 48) - 1;

fn read_memory(process: u32, address: u64, length: usize) -> Option<Vec<u8>> {
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// What a repetition of a recording gave.
#[derive(Clone, Debug)]
pub enum Repeated {
    /// So many events, all the same, and how the program ended.
    Same(u64, Ended),
    /// The first event that differs: its number, what was recorded, what happened.
    Differs(u64, String, String),
}

/// Runs the program along the recording's own schedule and compares every event.
pub fn repeat(trace: &Trace, recorded: &Recorded, command: Vec<OsString>) -> Result<Repeated, String> {
    let settings = Settings { schedule: recorded.schedule(), ..Settings::default() };
    let mut recorder = Recorder::start(&Options { command, settings, prints: Prints::AsWeDo })?;
    let mut comparison = Comparison { trace, compared: 0, difference: None };
    let ended = loop {
        let Recorder { ring, translator, .. } = &mut recorder;
        let mut compare = |translator: &mut Translator| comparison.compare(translator);
        if ring.next(Duration::from_millis(20), |words| translator.chunk(words, false, &mut compare)) {
            continue;
        }
        match recorder.child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => break Ended::from(status),
            Err(error) => return Err(format!("cannot wait for the program: {error}")),
        }
    };
    let Recorder { ring, translator, .. } = &mut recorder;
    let mut compare = |translator: &mut Translator| comparison.compare(translator);
    while ring.next(Duration::ZERO, |words| translator.chunk(words, false, &mut compare)) {}
    translator.chunk(ring.rest(), true, &mut compare);
    let Comparison { compared, difference, .. } = comparison;
    if let Some((event, then, now)) = difference {
        return Ok(Repeated::Differs(event, then, now));
    }
    if compared < trace.len() {
        let then = describe(trace, compared);
        return Ok(Repeated::Differs(compared as u64, then, "the end of the program".to_owned()));
    }
    Ok(Repeated::Same(compared as u64, ended))
}

/// Compares what happens with what was recorded.
struct Comparison<'a> {
    trace: &'a Trace,
    /// Events that were the same.
    compared: usize,
    /// The first one that was not, what it was, and what it is now.
    difference: Option<(u64, String, String)>,
}

impl Comparison<'_> {
    /// Compares the events that were translated since the last time.
    fn compare(&mut self, translator: &mut Translator) {
        for now in translator.batch.events() {
            if self.difference.is_some() {
                break;
            }
            let event = self.compared;
            if event >= self.trace.len() {
                let now = describe_recorded(&now, &translator.tables);
                self.difference = Some((event as u64, "the end of the recording".to_owned(), now));
            } else if self.is_same(&now) {
                self.compared += 1;
            } else {
                let now = describe_recorded(&now, &translator.tables);
                self.difference = Some((event as u64, describe(self.trace, event), now));
            }
        }
        translator.taken();
        translator.take_beside();
    }

    /// Names get their numbers in the order in which they come, so the same events have the same numbers; of variables
    /// this is so for each of the two kinds.
    fn is_same(&self, now: &RecordedEvent) -> bool {
        let then = self.trace.event(EventId::new(self.compared));
        let same_target = match then.op.has_variable() {
            false => now.size == 0 && now.address == then.target as u64,
            true => match self.trace.tables.variable(VarId(then.target)) {
                Variable::Named(name) => now.size == 0 && now.address == name as u64,
                Variable::Range { address, size } => (now.address, now.size) == (address, size),
            },
        };
        let rest = (then.op, then.thread, then.location, then.aux, then.value, then.written);
        same_target && rest == (now.op, now.thread, now.location, now.aux, now.value, now.written)
    }
}

/// An event that has not become part of a trace.
fn describe_recorded(event: &RecordedEvent, tables: &Tables) -> String {
    let RecordedEvent { op, thread, location, aux, value, written, .. } = *event;
    let mut trace = Trace { tables: tables.clone(), ..Trace::default() };
    let target = match (op.has_variable(), event.size) {
        (false, _) => event.address as u32,
        (true, 0) => tables.variable_of_name(event.address as usize).map_or(0, |variable| variable.0),
        (true, size) => trace.tables.variable_range(event.address, size).0,
    };
    trace.events.push(Event { op, thread, location, aux, value, written, target });
    describe(&trace, 0)
}

fn describe(trace: &Trace, index: usize) -> String {
    let event = trace.events.get(index);
    let value = event.value.map_or(String::new(), |value| format!(" = {value}"));
    format!(
        "{} {}{value} by {} at {}",
        event.op.word(),
        trace.target_text(&event),
        trace.tables.thread_name(event.thread),
        trace.tables.location_name(event.location)
    )
}
