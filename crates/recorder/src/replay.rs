//! Runs a recorded program again: along the schedule of the recording, or along a witness up to a race.
//!
//! The schedule says which thread runs for how many steps. The runtime follows it; the tool compares what happens with
//! what was recorded, or, at the end of a witness, looks at the threads that stand in front of their racing accesses.

mod printed;

use crate::recorded::{Recorded, thread_numbers};
use crate::recorder::{Ended, Options, Prints, Recorder};
use crate::ring::{Settings, memory_file};
use crate::standing::{Stopped, Wanted, records};
use crate::symbols::Symbols;
use crate::translate::Translator;
use crate::wire::{self, Segment};
pub use printed::{MOST as MOST_PRINTED, Printed};
use snag_formats::snag_format::RecordedEvent;
use snag_model::{Action, EventId, Op, Ops, Tables, Trace};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// A schedule that makes the program do the events of a witness, in its order, and then brings the threads of a race or
/// deadlock in front of the events that come then. `spurious` are the wake-ups of the witness that come for no reason.
pub fn along_witness(
    trace: &Trace,
    recorded: &Recorded,
    witness: impl Iterator<Item = EventId>,
    spurious: &[EventId],
    then: &[EventId],
) -> Result<Vec<Segment>, String> {
    let numbers = thread_numbers(trace);
    let steps = recorded.steps(trace);
    let number = |event: EventId| numbers[trace.thread_of(event).index()] as u32;
    // One step can be several events, a copy for one. Those who are to stand in front of the last do not do the first.
    let last = then.iter().map(|&event| Ok((number(event), before(&steps, event)?)));
    let last = last.collect::<Result<HashMap<u32, u64>, String>>()?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut add = |thread: u32, until: u64, timeout: u32| match segments.last_mut() {
        Some(segment) if segment.thread == thread && timeout == 0 => segment.until = segment.until.max(until),
        _ => segments.push(Segment { thread, timeout, until }),
    };
    for event in witness {
        let index = event.index();
        let action = trace.action(event);
        let until = steps[index].min(last.get(&number(event)).copied().unwrap_or(u64::MAX));
        if let Action::Probe(_) = action {
            // If it gave up after some time, it waits first; if not, it is done when its next turn comes.
            add(number(event), until, 0);
        }
        let ends_by_itself = match action {
            Action::Wake { .. } if spurious.contains(&event) => wire::WAKES,
            Action::Wake { by: None, .. } | Action::Probe(_) => wire::TIMES_OUT,
            _ => 0,
        };
        add(number(event), until, ends_by_itself);
    }
    for &event in then {
        add(number(event), last[&number(event)], 0);
    }
    // Who was in a call that blocks has a turn to come out of it. Whoever stands there already does nothing in its turn.
    segments.extend(then.iter().map(|&event| Segment {
        thread: number(event),
        timeout: 0,
        until: last[&number(event)],
    }));
    Ok(segments)
}

/// How many steps the thread of an event has done when it stands in front of it.
fn before(steps: &[u64], event: EventId) -> Result<u64, String> {
    steps[event.index()].checked_sub(1).ok_or_else(|| {
        format!("the recording says that event {} is in step 0 of its thread, and steps are counted from 1", event.0)
    })
}

/// The same with the two accesses themselves at its end, in the order given.
pub fn through_race(
    trace: &Trace,
    recorded: &Recorded,
    witness: impl Iterator<Item = EventId>,
    spurious: &[EventId],
    pair: [EventId; 2],
) -> Result<Vec<Segment>, String> {
    let mut segments = along_witness(trace, recorded, witness, spurious, &pair)?;
    let numbers = thread_numbers(trace);
    let steps = recorded.steps(trace);
    for event in pair {
        let thread = numbers[trace.thread_of(event).index()] as u32;
        segments.push(Segment { thread, timeout: 0, until: steps[event.index()] });
    }
    Ok(segments)
}

/// How a run ended that was driven through a race and then left to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its end.
    pub end: End,
    /// What it printed; nothing if that was too much.
    pub printed: Printed,
    /// Whether it came through the race.
    pub followed: bool,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Ended(Ended),
    /// Nothing happened any more, or it took too long: it was ended.
    Stuck,
    /// It printed more than [`MOST_PRINTED`] bytes: it was ended.
    PrintedTooMuch,
}

/// How long a run may take that is left to itself.
const LONGEST: Duration = Duration::from_secs(60);

/// Drives the program along a schedule made by [`through_race`], lets it run on, with turns taken at random from the seed, and
/// says how it ended. What it prints goes through a file without a name.
pub fn outcome(
    recorded: &Recorded,
    command: Vec<OsString>,
    schedule: Vec<Segment>,
    seed: u64,
) -> Result<Outcome, String> {
    let file = memory_file("snag-output").map_err(|error| format!("cannot keep what is printed: {error}"))?;
    let file = Arc::new(File::from(file));
    let settings = Settings { schedule, seed, quantum: 100, ..recorded.settings()? };
    let prints = Prints::Into(file.clone());
    let mut recorder = Recorder::start(&Options { command, settings, prints, seal: None })?;
    let started = Instant::now();
    let mut last = (Instant::now(), 0);
    let end = loop {
        let moved = recorder.ring.next(Duration::from_millis(5), |_| ());
        let replayed = recorder.ring.header().replayed.load(Relaxed);
        if moved || replayed != last.1 {
            last = (Instant::now(), replayed);
        }
        if let Some(status) = recorder.child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            break End::Ended(Ended::from(status));
        }
        let end = match printed::is_too_much(&file) {
            true => End::PrintedTooMuch,
            false if last.0.elapsed() > PATIENCE || started.elapsed() > LONGEST => End::Stuck,
            false => continue,
        };
        let _ = recorder.child.kill();
        let _ = recorder.child.wait();
        break end;
    };
    if let Some(damage) = recorder.damage() {
        return Err(format!("nothing is known about the race: {damage}"));
    }
    let followed = recorder.ring.header().outcome.load(Acquire) == wire::FOLLOWED;
    // The last of it may have come after the last look.
    let end = if printed::is_too_much(&file) { End::PrintedTooMuch } else { end };
    let printed = match end {
        End::PrintedTooMuch => Ok(Printed::default()),
        _ => Printed::read(&file).map_err(|error| format!("cannot read what was printed: {error}")),
    };
    Ok(Outcome { end, printed: printed?, followed })
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
    /// All threads were seen in front of their events, at the same time: accesses to overlapping memory, or acquires of locks that
    /// the others hold.
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

/// How long a thread may take for a single step.
const ONE_STEP: Duration = Duration::from_secs(5);

/// Drives the program along a schedule made by [`along_witness`]. What it prints goes where `prints` says.
pub fn drive(
    trace: &Trace,
    recorded: &Recorded,
    command: Vec<OsString>,
    mut schedule: Vec<Segment>,
    then: &[EventId],
    prints: Prints,
) -> Result<Driven, String> {
    let look_before = schedule.len();
    let numbers = thread_numbers(trace);
    let steps = recorded.steps(trace);
    then.iter().try_for_each(|&event| before(&steps, event).map(|_| ()))?;
    // One step more for each, if need be.
    schedule.extend(then.iter().map(|&event| {
        let thread = numbers[trace.thread_of(event).index()] as u32;
        Segment { thread, timeout: 0, until: steps[event.index()] }
    }));
    let settings = Settings { schedule: schedule.clone(), stop_at_end: true, look_before, ..recorded.settings()? };
    let mut recorder = Recorder::start(&Options { command, settings, prints, seal: None })?;
    let result = follow(&mut recorder).map(|why| {
        let done = recorder.ring.header().replayed.load(Relaxed).min(look_before as u64);
        let mut look = Look { trace, recorded, then, steps: &schedule[look_before..], first: look_before, read: 0 };
        look.translate(&mut recorder);
        let stood = match why {
            Some(why) => Err(why + &look.elsewhere(&mut recorder)),
            None => look.stand(&mut recorder),
        };
        // Whatever it looks like: if it was written over, nobody knows who says so.
        let stood = recorder.trouble().map_or(stood, Err);
        stood.map_or_else(|why| Driven::Diverged { done, all: look_before as u64, why }, Driven::Confirmed)
    });
    // It has served its purpose.
    let _ = recorder.child.kill();
    let _ = recorder.child.wait();
    result
}

/// Waits until the threads stand where they should, or why they do not.
fn follow(recorder: &mut Recorder) -> Result<Option<String>, String> {
    let mut last = (Instant::now(), 0, 0);
    loop {
        let moved = recorder.next(Duration::from_millis(5), &mut Translator::taken);
        if let Some(why) = recorder.trouble() {
            return Ok(Some(why));
        }
        let ring = &recorder.ring;
        match ring.header().outcome.load(Acquire) {
            wire::STANDING => return Ok(None),
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

/// A look at threads that stand still.
struct Look<'a> {
    trace: &'a Trace,
    recorded: &'a Recorded,
    /// Where they should stand.
    then: &'a [EventId],
    /// The turns in which each of them does just that, from the `first` of the schedule on.
    steps: &'a [Segment],
    first: usize,
    /// Words of the chunk that is being filled that have been translated.
    read: usize,
}

impl Look<'_> {
    /// Translates all there is. Everything stands still, so the chunk is as it is.
    fn translate(&mut self, recorder: &mut Recorder) {
        while recorder.next(Duration::ZERO, &mut Translator::taken) {}
        let Recorder { ring, translator, .. } = recorder;
        let rest = ring.rest().to_vec();
        self.read = records(&rest).map(<[u64]>::len).sum();
        translator.chunk(&rest[..self.read], false, &mut Translator::taken);
    }

    fn name(&self, event: EventId) -> &str {
        self.trace.tables.thread_name(self.trace.thread_of(event))
    }

    /// Where a thread stands, in words.
    fn place(&self, recorder: &mut Recorder, index: usize) -> String {
        let name = self.name(self.then[index]);
        let number = self.steps[index].thread;
        match recorder.translator.stopped.get(&number).copied() {
            Some(stopped) => format!("{name} {}", stopped.describe(&mut recorder.translator.symbols)),
            None if recorder.translator.has_ended(number as usize) => format!("{name} has ended"),
            None => format!("{name} was not stopped"),
        }
    }

    /// Where all of them stand that were stopped.
    fn elsewhere(&self, recorder: &mut Recorder) -> String {
        let mut text = String::new();
        for index in 0..self.then.len() {
            if recorder.translator.stopped.contains_key(&self.steps[index].thread) {
                text += "; ";
                text += &self.place(recorder, index);
            }
        }
        text
    }

    /// Compares where the threads stand with where they should.
    fn stand(&mut self, recorder: &mut Recorder) -> Result<Vec<Standing>, String> {
        let (mut standing, mut calls) = (Vec::new(), Vec::new());
        let symbols = &recorder.translator.symbols;
        let all = self.then.iter().map(|&event| Wanted::new(self.trace, self.recorded, event, symbols));
        let all = all.collect::<Result<Vec<Wanted>, String>>()?;
        for (index, &event) in self.then.iter().enumerate() {
            let mut wanted = all[index];
            wanted.races_with(&all);
            let stopped = recorder.translator.stopped.get(&self.steps[index].thread).copied();
            let symbols = &mut recorder.translator.symbols;
            let is = |found: Stopped, symbols: &mut Symbols| wanted.is(self.trace, self.recorded, &found, symbols);
            let may = |found: &Stopped, symbols: &mut Symbols| {
                found.is_call() && wanted.is_memory() && wanted.is_at(self.trace, self.recorded, found, symbols)
            };
            match stopped {
                Some(found) if is(found, symbols) => {}
                Some(found) if may(&found, symbols) => calls.push((index, wanted)),
                _ => return Err(self.place(recorder, index)),
            }
            let holds = match wanted.is_memory() {
                true => read_memory(recorder.child.id(), wanted.address, wanted.size.min(16) as usize),
                false => {
                    self.is_held(recorder, index, wanted.address)?;
                    None
                }
            };
            standing.push(Standing { event, holds });
        }
        self.let_call(recorder, &calls)?;
        Ok(standing)
    }

    /// Whether the lock in front of which a thread stands is one that another of them holds.
    fn is_held(&self, recorder: &mut Recorder, index: usize, lock: u64) -> Result<(), String> {
        let others =
            self.steps.iter().map(|step| step.thread as usize).filter(|&t| t != self.steps[index].thread as usize);
        let holders = recorder.translator.holders(lock);
        match others.into_iter().any(|other| holders.contains(&other)) {
            true => Ok(()),
            false => Err(self.place(recorder, index) + ", which none of the others holds"),
        }
    }

    /// Threads in front of calls that did not say what they touch do the step that they stand in front of, each alone.
    fn let_call(&self, recorder: &mut Recorder, calls: &[(usize, Wanted)]) -> Result<(), String> {
        if calls.is_empty() {
            return Ok(());
        }
        for (index, step) in self.steps.iter().enumerate() {
            if !calls.iter().any(|call| call.0 == index) {
                // A turn of no steps.
                recorder.ring.reschedule(self.first + index, Segment { until: step.until - 1, ..*step });
            }
        }
        recorder.ring.looked();
        let (started, mut full, mut skip) = (Instant::now(), Vec::new(), self.read);
        loop {
            let Recorder { ring, translator, child, .. } = recorder;
            let over = matches!(ring.header().outcome.load(Acquire), wire::FOLLOWED | wire::DIVERGED)
                || started.elapsed() > ONE_STEP
                || child.try_wait().map_err(|error| format!("cannot wait: {error}"))?.is_some();
            let mut take = |words: &[u64]| {
                full.extend(records(words.get(skip..).unwrap_or(&[])).map(<[u64]>::to_vec));
                skip = 0;
            };
            while ring.next(Duration::from_millis(1), &mut take) {}
            let rest = records(ring.rest().get(skip..).unwrap_or(&[])).map(<[u64]>::to_vec).collect::<Vec<_>>();
            let mut missing = calls.iter().filter(|(index, wanted)| {
                let deeds = deeds(full.iter().chain(&rest), self.steps[*index].thread);
                !deeds.iter().any(|deed| wanted.is(self.trace, self.recorded, deed, &mut translator.symbols))
            });
            match missing.next().map(|missing| missing.0) {
                None => return Ok(()),
                Some(index) if over => {
                    return Err(self.place(recorder, index) + ", which does not touch what was recorded");
                }
                Some(_) => {}
            }
        }
    }
}

/// What a thread has done to memory in some records.
fn deeds<'a>(records: impl Iterator<Item = &'a Vec<u64>>, thread: u32) -> Vec<Stopped> {
    let mut runs = None;
    let mut all = Vec::new();
    for record in records {
        match record[0] as u8 {
            wire::op::SWITCH => runs = record.get(1).map(|&number| number as u32),
            _ if runs == Some(thread) => all.extend(Stopped::from_deed(record)),
            _ => {}
        }
    }
    all
}

fn read_memory(process: u32, address: u64, length: usize) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
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

/// After so long without a thread that can run, a program is ended that has waited for ever before.
const STALL: Duration = Duration::from_secs(1);

/// Runs the program along the recording's own schedule and compares every event.
pub fn repeat(trace: &Trace, recorded: &Recorded, command: Vec<OsString>) -> Result<Repeated, String> {
    let settings = Settings { schedule: recorded.schedule(trace), ..recorded.settings()? };
    let mut recorder = Recorder::start(&Options { command, settings, prints: Prints::AsWeDo, seal: None })?;
    let mut comparison = Comparison { trace, compared: 0, difference: None };
    // Where threads waited for ever they do again.
    let waits = Ops::of(trace.events.ops()).any(&[Op::Want, Op::ReadWant]);
    let mut stalled: Option<Instant> = None;
    let ended = loop {
        if recorder.next(Duration::from_millis(20), &mut |translator| comparison.compare(translator)) {
            continue;
        }
        let is_stalled = waits && recorder.ring.header().stalled.load(Acquire) != 0;
        stalled = stalled.filter(|_| is_stalled).or(is_stalled.then(Instant::now));
        if stalled.is_some_and(|since| since.elapsed() > STALL) {
            let _ = recorder.child.kill();
        }
        match recorder.child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => break Ended::from(status),
            Err(error) => return Err(format!("cannot wait for the program: {error}")),
        }
    };
    let mut compare = |translator: &mut Translator| comparison.compare(translator);
    while recorder.next(Duration::ZERO, &mut compare) {}
    let Recorder { ring, translator, .. } = &mut recorder;
    translator.chunk(ring.rest(), true, &mut compare);
    translator.end_waits();
    compare(translator);
    if let Some(trouble) = recorder.trouble() {
        return Err(format!("what the program did cannot be compared with the recording: {trouble}"));
    }
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
        let then = RecordedEvent::of(&self.trace.event(EventId::new(self.compared)), &self.trace.tables);
        // What a call of unseen code can reach is found by a guess at what is an address, in memory that nobody may use any
        // more: it is nothing that the program did.
        let aux = if then.op == Op::MethodBegin { now.aux } else { then.aux };
        // Neither of the other two is part of the event.
        *now == RecordedEvent { hint: now.hint, seen: now.seen, aux, ..then }
    }
}

/// An event that has not become part of a trace.
fn describe_recorded(event: &RecordedEvent, tables: &Tables) -> String {
    let mut trace = Trace { tables: tables.clone(), ..Trace::default() };
    trace.events.push(event.in_trace(&mut trace.tables));
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
