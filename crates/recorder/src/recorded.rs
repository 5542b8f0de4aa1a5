//! What a recording has beside its events, read again.

mod read;

pub use read::Part;

use crate::code::Code;
use crate::layout::Layouts;
use crate::recorder::{MODEL, ONLY, WITHOUT};
use crate::ring::{Drain, Settings};
use crate::seal::{Seal, Sealed};
use crate::selection::{Pattern, Selection};
use crate::wire::Segment;
use snag_model::{EventId, ThreadId, Trace};
use snag_models::{Model, Models};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name, or empty.
    pub function: String,
    /// Where in it the program was.
    pub place: String,
}

/// A stretch of events: where each thread was at its start, and what changed.
#[derive(Debug, Default)]
struct Stretch {
    first: u64,
    start: Vec<(u32, u64)>,
    /// Event in the stretch and the call from there on.
    calls: Vec<(u32, u32)>,
    /// Event in the stretch and by how much more than one its step is ahead.
    steps: Vec<(u32, i64)>,
}

/// What was recorded beside the events of a trace.
#[derive(Debug, Default)]
pub struct Recorded {
    stretches: Vec<Stretch>,
    strings: Vec<String>,
    frames: Vec<Vec<(u32, u32)>>,
    /// Caller and frame.
    nodes: Vec<(u32, u32)>,
    /// The program, its arguments, the folder it ran in.
    about: Vec<(String, String)>,
    data: BTreeMap<u64, (u64, String)>,
    names: HashMap<u32, String>,
    turns: Vec<(u32, bool, u64)>,
    /// The functions at each location of the trace.
    sites: HashMap<u32, Vec<Frame>>,
    /// What the variables of the program consist of.
    layouts: Layouts,
    /// Where its places and locks were in memory.
    pub code: Code,
    /// Code that ran and that nobody saw, and why: without it nothing is proved.
    pub unseen: Vec<String>,
}

/// More of a stack is not shown: functions, and bytes of their names.
const MOST_FRAMES: usize = 1000;
const MOST_TEXT: usize = 1 << 18;

impl Recorded {
    /// The stretch that an event lies in, and its place there.
    fn stretch(&self, event: EventId) -> Option<(&Stretch, u32)> {
        let at = self.stretches.partition_point(|s| s.first <= event.0 as u64).checked_sub(1)?;
        let stretch = &self.stretches[at];
        Some((stretch, event.0 - stretch.first as u32))
    }

    /// The functions that an event's thread was in, innermost first, without the place of the event itself; of very many the
    /// innermost.
    pub fn callers(&self, trace: &Trace, event: EventId) -> Vec<Frame> {
        let Some((stretch, index)) = self.stretch(event) else { return Vec::new() };
        let thread = trace.thread_of(event);
        let same =
            |&&(at, _): &&(u32, u32)| at <= index && trace.thread_of(EventId(stretch.first as u32 + at)) == thread;
        let last = stretch.calls.iter().rev().find(same).map(|call| call.1);
        let number = thread_number(trace, thread);
        let mut call = last.or_else(|| stretch.start.get(number).map(|start| start.0)).unwrap_or(0);
        let (mut all, mut bytes) = (Vec::new(), 0);
        // Every caller comes before its calls, which was checked when they were read.
        while call != 0 {
            let Some(&(caller, frame)) = self.nodes.get(call as usize) else { break };
            for &(function, place) in self.frames.get(frame as usize).into_iter().flatten() {
                let text = |id: u32| self.strings.get(id as usize).map_or("", String::as_str);
                let (function, place) = (text(function), text(place));
                bytes += function.len() + place.len();
                if all.len() == MOST_FRAMES || bytes > MOST_TEXT {
                    return all;
                }
                all.push(Frame { function: function.to_owned(), place: place.to_owned() });
            }
            call = caller;
        }
        all
    }

    /// The functions that an event's thread was in, innermost first, from the place of the event on.
    pub fn stack(&self, trace: &Trace, event: EventId) -> Vec<Frame> {
        let site = trace.events.location(event.index());
        let own = self.sites.get(&site.0).map_or(&[][..], |frames| &frames[..frames.len().min(MOST_FRAMES)]);
        let mut stack = own.to_vec();
        stack.extend(self.callers(trace, event));
        stack
    }

    /// Which step of its thread each event belongs to, counted from 1.
    pub fn steps(&self, trace: &Trace) -> Vec<u64> {
        // Names can be any numbers, so that they are counted anew.
        let mut known: HashMap<usize, usize> = HashMap::new();
        let mut place = |number: usize| {
            let next = known.len();
            *known.entry(number).or_insert(next)
        };
        let places: Vec<usize> = thread_numbers(trace).into_iter().map(&mut place).collect();
        let mut done = vec![0u64; known.len()];
        let mut exceptions = self.stretches.iter().flat_map(|s| s.steps.iter().map(|e| (s.first + e.0 as u64, e.1)));
        let mut exception = exceptions.next();
        let mut steps = Vec::with_capacity(trace.len());
        for (index, thread) in trace.events.threads().iter().enumerate() {
            let step = &mut done[places[thread.index()]];
            *step = step.wrapping_add(1);
            if let Some((_, more)) = exception.filter(|(event, _)| *event == index as u64) {
                *step = step.wrapping_add_signed(more);
                exception = exceptions.next();
            }
            steps.push(*step);
        }
        steps
    }

    /// The variable of the program that holds an address: its name and the offset in it.
    pub fn data(&self, address: u64) -> Option<(&str, u64)> {
        let (&start, (size, name)) = self.data.range(..=address).next_back()?;
        (address < start + size).then_some((name.as_str(), address - start))
    }

    /// What some bytes of a variable of the program are called: `pool.jobs[3].state`, or `pool[80..84]` where its type is
    /// not known.
    pub fn part(&self, address: u64, size: u64) -> Option<String> {
        let (name, offset) = self.data(address)?;
        if let Some(part) = self.layouts.path(address - offset, offset, size) {
            return Some(format!("{name}{part}"));
        }
        match self.data_size(address) {
            Some(whole) if (offset, size) == (0, whole) => Some(name.to_owned()),
            _ => Some(format!("{name}[{offset}..{}]", offset.saturating_add(size))),
        }
    }

    /// First byte of the variable of the program that holds an address.
    pub fn data_start(&self, address: u64) -> Option<u64> {
        self.data(address).map(|(_, offset)| address - offset)
    }

    /// Bytes of the variable of the program that holds an address.
    pub fn data_size(&self, address: u64) -> Option<u64> {
        self.data_start(address).and_then(|start| self.data.get(&start)).map(|(size, _)| *size)
    }

    /// The name that the program gave a thread.
    pub fn thread_name(&self, thread: ThreadId) -> Option<&str> {
        self.names.get(&thread.0).map(String::as_str)
    }

    /// The command line that was recorded.
    pub fn command(&self) -> Vec<&str> {
        self.about.iter().filter(|(key, _)| key == "argument").map(|(_, value)| value.as_str()).collect()
    }

    /// Whether it was made by whoever has this seal.
    pub fn sealed(&self, seal: &Seal) -> Sealed {
        seal.on(&self.about)
    }

    /// Something that is said about the recording: `folder`, `program`.
    pub fn about(&self, key: &str) -> Option<&str> {
        self.about.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// What threads might still do when the program was about to end. Recordings that do not say so were made when
    /// nobody waited for them.
    pub fn drain(&self) -> Drain {
        self.about("drain").and_then(|drain| drain.parse().ok()).unwrap_or(Drain::OFF)
    }

    /// How the program was run, but for the schedule.
    pub fn settings(&self) -> Result<Settings, String> {
        let texts = self.about.iter().filter(|(key, _)| key == MODEL).map(|(_, text)| text);
        let models: Result<Vec<Model>, _> =
            texts.map(|text| Model::parse(text, Path::new("a model in the recording"))).collect();
        let models = Models::with(models.map_err(|error| error.to_string())?);
        let patterns = |wanted: &str| -> Result<Vec<Pattern>, String> {
            self.about.iter().filter(|(key, _)| key == wanted).map(|(_, text)| text.parse()).collect()
        };
        let selection = Selection { without: patterns(WITHOUT)?, only: patterns(ONLY)? };
        Ok(Settings { drain: self.drain(), models, selection, ..Settings::default() })
    }

    /// The schedule of the recording, to be followed again.
    pub fn schedule(&self, trace: &Trace) -> Vec<Segment> {
        let numbers = thread_numbers(trace);
        let mut done: HashMap<u32, u64> = HashMap::new();
        for (thread, step) in trace.events.threads().iter().zip(self.steps(trace)) {
            done.insert(numbers[thread.index()] as u32, step);
        }
        // A turn ends with as many steps as the thread's next one starts with. Its last one ends with its last event:
        // others have come after it. The last of all goes on to the end of the program.
        let mut next: HashMap<u32, u64> = HashMap::new();
        let mut segments = Vec::with_capacity(self.turns.len());
        for &(thread, timed_out, steps) in self.turns.iter().rev() {
            let until = match next.insert(thread, steps) {
                Some(until) => until,
                None if segments.is_empty() => u64::MAX,
                None => done.get(&thread).map_or(steps, |&last| last.max(steps)),
            };
            segments.push(Segment { thread, timeout: timed_out as u32, until });
        }
        segments.reverse();
        segments
    }
}

/// The runtime's number of each thread.
pub fn thread_numbers(trace: &Trace) -> Vec<usize> {
    (0..trace.tables.thread_count()).map(|thread| thread_number(trace, ThreadId::new(thread))).collect()
}

/// The runtime's number of a thread: they are named by it.
pub fn thread_number(trace: &Trace, thread: ThreadId) -> usize {
    trace.tables.thread_name(thread).strip_prefix('T').and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{along_witness, through_race};

    /// Whoever made the file may have said so.
    #[test]
    fn nobody_is_stopped_in_front_of_an_event_in_step_0() {
        let text = &b"%snag 1\nmain|fork(T1)|1\nmain|w(x)|2\nT1|w(x)|3\n"[..];
        let (trace, _) = snag_formats::read_from(text, None, None).and_then(|file| file.read_all()).unwrap();
        let pair = [EventId::new(1), EventId::new(2)];
        let recorded = |less: i64| {
            let stretch = Stretch { steps: vec![(2, -less)], ..Stretch::default() };
            Recorded { stretches: vec![stretch], ..Recorded::default() }
        };
        let witness = || [EventId::new(0)].into_iter();
        assert!(along_witness(&trace, &recorded(0), witness(), &[], &pair).is_ok());
        let refused = [
            along_witness(&trace, &recorded(1), witness(), &[], &pair).unwrap_err(),
            through_race(&trace, &recorded(1), witness(), &[], pair).unwrap_err(),
        ];
        assert!(refused.iter().all(|why| why.contains("event 2 is in step 0 of its thread")), "{refused:?}");
    }
}
