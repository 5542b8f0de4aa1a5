//! Traces that are too long to be kept whole.
//!
//! A trace is read into memory as it is. If that gets long, and it is a file, and the engines can do with less, it is read
//! twice instead: once to find out which memory threads have for themselves, once for the events that are about anything
//! else. Only if something is found is all of it read, to prove that.
//!
//! What would not fit into memory is not begun: then less is done, or nothing, and the user is told.

use crate::context::Context;
use crate::input::Source;
use crate::interrupt;
use snag_model::{Events, Tables, Trace};
use snag_pipeline::condense::{Condensed, Sieve, Survey};
use snag_pipeline::engines::{MC, SHB};
use snag_pipeline::{Analysis, Choice, EngineRef, Left, Options, Subject};
use snag_report::Unread;
use std::path::Path;
use std::time::{Duration, Instant};

/// Traces of up to so many events are kept whole, unless the user says otherwise.
const WHOLE: u64 = 1 << 23;

/// About how many bytes are needed for an event: to keep it, for SHB to look at it, for the maximal engine to do so, and to
/// check proofs about it.
const KEEP: u64 = 24;
const QUICK: u64 = 16;
const MAXIMAL: u64 = 64;
const CHECK: u64 = 20;

/// Up to how many events a trace is kept whole for these engines. Those that take one look at each event are done sooner than
/// a trace is read again, so it may fill a quarter of the memory.
pub fn whole_for(context: &Context, engines: &[Choice]) -> u64 {
    let slow = |choice: &Choice| *choice == Choice::Auto || *choice == MC.into();
    match engines.iter().any(slow) {
        true => WHOLE,
        false => whole_in_a_hurry(context),
    }
}

/// The same for any engine if there is a budget: with a short one there is no time to read a trace twice.
pub fn whole_in_a_hurry(context: &Context) -> u64 {
    WHOLE.max(available(context).unwrap_or(0) / 4 / (KEEP + QUICK + CHECK))
}

/// A trace as it was read.
pub enum Read {
    /// All of it.
    Whole(Trace),
    /// What is left of it, and how long it takes to read it once more.
    Condensed(Condensed, Duration),
}

impl Read {
    /// The trace that engines look at.
    pub fn trace(&self) -> &Trace {
        match self {
            Read::Whole(trace) => trace,
            Read::Condensed(condensed, _) => &condensed.trace,
        }
    }

    /// How many events the trace has.
    pub fn events(&self) -> usize {
        match self {
            Read::Whole(trace) => trace.len(),
            Read::Condensed(condensed, _) => condensed.whole(),
        }
    }
}

/// Reads a trace: whole if it has up to `most` events, and as much of that as there is time for until `until`. Says also
/// whether the recording is whole: not cut off, and all was read.
pub fn read(context: &Context, path: &Path, most: Option<u64>, until: Option<Instant>) -> Result<Taken, Unread> {
    if most.is_some()
        && let Some((condensed, once)) = contended(context, path, until)
    {
        return Ok((Read::Condensed(condensed, once), true, None));
    }
    let started = Instant::now();
    let mut source = Source::open(context, path, None)?.until(until);
    let most = most.filter(|_| source.is_file()).map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let (events, more) = source.read_beginning(context, most.saturating_add(1))?;
    if source.is_cut_short() {
        return Ok(beginning(context, source, events));
    }
    if !more || events.len() <= most {
        let (trace, whole) = source.into_trace(events);
        return Ok((Read::Whole(trace), whole, None));
    }
    let mut survey = Survey::default();
    survey.block(&events, source.tables());
    // If there may be no time to read it twice, its beginning must do.
    let spare = until.map(|_| (events, source.unread_bytes()));
    let too_late = |spare: Option<(Events, Option<u64>)>, tables: Tables| match spare {
        Some((events, unread)) if events.len() >= FIRST && !interrupt::asked() => {
            Ok((Read::Whole(Trace { tables, events }), false, unread))
        }
        _ => first_events(context, path, until),
    };
    source.pass(context, "reading", |block, tables| survey.block(block, tables))?;
    if source.is_cut_short() {
        return too_late(spare, source.into_tables().0);
    }
    let (tables, whole) = source.into_tables();
    let once = started.elapsed();
    let Some(private) = survey.finish(&tables) else {
        drop(spare);
        let mut source = Source::open(context, path, None)?.again().until(until);
        let (events, _) = source.read_beginning(context, usize::MAX)?;
        if source.is_cut_short() {
            return Ok(beginning(context, source, events));
        }
        let (trace, whole) = source.into_trace(events);
        return Ok((Read::Whole(trace), whole, None));
    };
    if until.is_some_and(|until| Instant::now() + once > until) {
        return too_late(spare, tables);
    }
    let tables = spare.is_some().then_some(tables);
    let mut sieve = Sieve::new(private);
    let mut source = Source::open(context, path, None)?.again().until(until);
    source.pass(context, "reading again", |block, tables| sieve.block(block, tables))?;
    if source.is_cut_short() {
        return too_late(spare, tables.unwrap_or_default());
    }
    let (tables, still_whole) = source.into_tables();
    match sieve.finish(tables) {
        Ok(condensed) if whole == still_whole => {
            let (left, all) = (condensed.trace.len(), condensed.whole());
            context.detail(&format!(
                "{}: {left} of {all} events are not about memory of one thread alone",
                path.display()
            ));
            Ok((Read::Condensed(condensed, once), whole, None))
        }
        _ => Err(Unread { path: path.display().to_string(), message: "it has changed while it was read".to_owned() }),
    }
}

/// Shorter recordings are read whole: that takes no time.
const LONG: u64 = 1 << 18;

/// About as long it takes to read an event of a recording.
const TO_READ: Duration = Duration::from_nanos(60);

/// What is left of a recording without what no other thread can interfere with, if it says what that is: most of it need not be
/// decoded. Also how long it will take to read all of it. `None` if there is no time for it, or something is wrong.
fn contended(context: &Context, path: &Path, until: Option<Instant>) -> Option<(Condensed, Duration)> {
    let (source, numbers, whole) = Source::open_contended(context, path)?;
    if whole < LONG {
        return None;
    }
    let mut source = source.until(until);
    let (events, _) = source.read_beginning(context, usize::MAX).ok().filter(|_| !source.is_cut_short())?;
    let (trace, _) = source.into_trace(events);
    let (read, numbers) = (trace.len(), numbers.take());
    let condensed = Condensed::of(&trace)?.within(&numbers, whole as usize);
    drop(trace);
    let left = condensed.trace.len();
    context.detail(&format!(
        "{}: {left} of {whole} events are not about memory of one thread alone; {read} were read",
        path.display()
    ));
    Some((condensed, TO_READ * whole.min(u32::MAX.into()) as u32))
}

/// So many events are read in a moment.
const FIRST: usize = 1 << 20;

/// What is read of a trace: all of it or what is left of it, whether that is the whole recording, and how many bytes there was
/// no time for.
type Taken = (Read, bool, Option<u64>);

/// So long the beginning of a trace may be read although the time for reading is up.
const MOMENT: Duration = Duration::from_millis(250);

/// Reads the beginning of a recording again, of which nothing was kept before the user wanted to stop, or too little before time was up.
fn first_events(context: &Context, path: &Path, until: Option<Instant>) -> Result<Taken, Unread> {
    let until = until.map(|until| until.max(Instant::now() + MOMENT));
    let mut source = Source::open(context, path, None)?.again().regardless().until(until);
    let (events, _) = source.read_beginning(context, FIRST)?;
    Ok(beginning(context, source, events))
}

/// What was read of a recording until there was no more time.
fn beginning(context: &Context, source: Source, events: Events) -> Taken {
    if interrupt::asked() {
        context.insist(&format!("interrupted: only the first {} events are analysed", events.len()));
    }
    let left = source.unread_bytes();
    let (trace, _) = source.into_trace(events);
    (Read::Whole(trace), false, left)
}

/// Reads all of a trace in which something was found, or its beginning if there is no time for all of it.
pub fn read_whole(
    context: &Context,
    path: &Path,
    condensed: &Condensed,
    found: &str,
    until: Option<Instant>,
) -> Result<Trace, Unread> {
    let needed = condensed.whole() as u64 * (KEEP + CHECK);
    if let Some(free) = available(context).filter(|&free| free < needed) {
        let message = format!(
            "{found}, and to prove it on all {} events takes about {} of memory, of which {} are free: analyse it on a larger \
             machine, or a shorter run",
            condensed.whole(),
            gigabytes(needed),
            gigabytes(free)
        );
        return Err(Unread { path: path.display().to_string(), message });
    }
    let mut source = Source::open(context, path, None)?.again().regardless().until(until);
    let (events, _) = source.read_beginning(context, usize::MAX)?;
    let is_beginning = source.is_cut_short();
    let (trace, _) = source.into_trace(events);
    if trace.len() > condensed.whole() || trace.len() < condensed.whole() && !is_beginning {
        return Err(Unread {
            path: path.display().to_string(),
            message: "it has changed while it was read".to_owned(),
        });
    }
    Ok(trace)
}

/// What is to be done about a trace of which engines look at so many events, and whether the maximal engine is left out of `auto`
/// for want of memory; or why nothing can be done.
pub fn what_fits(context: &Context, path: &Path, options: &Options, events: usize) -> Result<(Options, bool), String> {
    let free = available(context).unwrap_or(u64::MAX);
    match plan(free, options, events)? {
        None => Ok((options.clone(), false)),
        Some(engines) => {
            context.insist(&format!(
                "{}: for lack of memory only shb looks for races: mc would need about {}, and {} are free",
                path.display(),
                gigabytes(events as u64 * MAXIMAL),
                gigabytes(free)
            ));
            Ok((Options { engines, ..options.clone() }, true))
        }
    }
}

/// The engines that can run instead of those that were asked for, if these cannot.
fn plan(free: u64, options: &Options, events: usize) -> Result<Option<Vec<Choice>>, String> {
    let needed = |bytes: u64| events as u64 * bytes;
    if needed(MAXIMAL) <= free || !options.engines.contains(&Choice::Auto) {
        return Ok(None);
    }
    if needed(QUICK) > free {
        return Err(format!(
            "{events} events of it would have to be looked at together, for which about {} of memory are needed, and {} are \
             free; 'snag check --online' needs little, and finds less",
            gigabytes(needed(QUICK)),
            gigabytes(free)
        ));
    }
    let smaller = |&choice: &Choice| if choice == Choice::Auto { SHB.into() } else { choice };
    Ok(Some(options.engines.iter().map(smaller).collect()))
}

/// Notes that no engine has seen so many bytes of the file.
pub fn note_unread(analysis: &mut Analysis, bytes: u64) {
    let engines: Vec<EngineRef> = analysis.engines.iter().map(|report| report.engine).collect();
    for engine in engines {
        let reason = "not read in time".to_owned();
        analysis.left.push(Left { engine, what: Subject::Byte, reason, count: bytes });
    }
}

/// Notes that the maximal engine was left out.
pub fn note_left_out(analysis: &mut Analysis, events: usize) {
    analysis.did_not_run(MC, Some(SHB), events, "not looked at for lack of memory");
}

fn gigabytes(bytes: u64) -> String {
    match bytes as f64 / 1e9 {
        little if little < 1.0 => format!("{:.0} MB", little * 1e3),
        much => format!("{much:.1} GB"),
    }
}

/// Bytes that this process may still take, as far as the system or the user says.
fn available(context: &Context) -> Option<u64> {
    snag_pipeline::free_memory(context.most_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_made_smaller_or_refused_with_the_figures() {
        let auto = Options::default();
        let events = 1_000_000_000;
        assert_eq!(plan(64_000_000_000, &auto, events), Ok(None));
        assert_eq!(plan(63_000_000_000, &auto, events), Ok(Some(vec![SHB.into()])));
        let refused = plan(15_000_000_000, &auto, events).expect_err("too little");
        assert!(
            refused.contains("16.0 GB") && refused.contains("15.0 GB") && refused.contains("--online"),
            "{refused}"
        );
        // Who asks for an engine gets it.
        let mc = Options { engines: vec![MC.into()], ..Options::default() };
        assert_eq!(plan(0, &mc, events), Ok(None));
    }
}
