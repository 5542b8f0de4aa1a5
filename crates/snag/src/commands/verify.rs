//! `snag verify`: check every witness of a findings file again.
//!
//! Only the trace reader and the checker are involved: no engine, and nothing of
//! the pipeline that made the findings. A witness that the checker refuses, or
//! accesses that are not what the file says, make the claim rejected (status 1); a
//! file that cannot be read or does not belong to the trace is an error (status 2).

use crate::background::Recording;
use crate::context::Context;
use crate::document::{self, Claim, DeadlockClaim, Entry, RaceClaim};
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt;
use crate::output::Output;
use snag_report::printable;
use snag_schedule::{Checker, Level};
use snag_trace::{Cells, EventId, LockId, Op, ThreadId, Trace, VarId};
use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Options of `snag verify`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag check --format json -o found.json trace.std
  snag verify trace.std found.json
  snag verify --trace-index 2 c.std found.json   if the file speaks of several traces

Exit status: 0 every witness accepted, 1 some rejected, 2 error.")]
pub struct Args {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// What 'snag check --format json' wrote; - is standard input
    #[arg(value_name = "FINDINGS.json")]
    findings: PathBuf,
    /// Which of the file's traces this is, from 0 [default: the only one, or the one of this path]
    #[arg(long, value_name = "N")]
    trace_index: Option<usize>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::End)?;
    let findings = FindingsFile::open(&args.findings)?;
    let in_findings = |message: String| format!("{}: {message}", input::name(&args.findings));
    let entries = document::entries(findings.read()?).map_err(in_findings)?;
    let index = choose(&entries, args).map_err(in_findings)?;
    let trace = Source::open(context, &args.trace, None).and_then(|source| source.read(context));
    let mut trace = trace.map_err(|problem| input::message(&problem))?;
    // Findings call what a recorded program accesses by the names that its debugging information has for it.
    Recording::name_variables(&args.trace, &mut trace);
    let expected = entries[index].events;
    if expected != trace.len() as u64 {
        let message = format!("is about a trace of {expected} events; this one has {}", trace.len());
        return Err(in_findings(message).into());
    }
    let cells = Cells::of(&trace);
    let held = held_locks(&trace, claimed_events(findings.read()?, index));
    // For what was found as if no method were missing.
    let without = trace.events.ops().contains(&Op::MethodBegin).then(|| trace.without_missing());
    let without_cells = without.as_ref().map(Cells::of);
    let ignoring = without.as_ref().zip(without_cells.as_ref()).map(|(trace, cells)| Checker::new(trace, cells));
    let judge = Judge { trace: &trace, checker: Checker::new(&trace, &cells), ignoring, held };
    let mut output = Output::open(None)?;
    let (mut accepted, mut rejected) = (0u64, 0u64);
    let mut closed = None;
    let mut print = |output: &mut Output, line: std::fmt::Arguments| {
        writeln!(output, "{line}").map_err(|error| {
            closed = Some(error);
            String::new()
        })
    };
    let read = document::claims(findings.read()?, index, &mut |claim| {
        if interrupt::interrupted() {
            return Err("interrupted before every witness was checked".to_owned());
        }
        let ignoring = match &claim {
            Claim::Race(race) => race.missing_ignored,
            Claim::Deadlock(deadlock) => deadlock.missing_ignored,
        };
        let (id, verdict) = judge.claim(claim)?;
        match verdict {
            Ok(()) => {
                accepted += 1;
                let how = if ignoring { " with missing methods ignored: no proof" } else { "" };
                if context.quiet { Ok(()) } else { print(&mut output, format_args!("{id}  accepted{how}")) }
            }
            Err(why) => {
                rejected += 1;
                print(&mut output, format_args!("{id}  rejected: {}", printable(&why)))
            }
        }
    });
    let status = if rejected > 0 { Status::Found } else { Status::Clean };
    if let Some(error) = closed {
        return Err(Failure::from(error).with_status(status));
    }
    output.flush()?;
    read.map_err(in_findings)?;
    if !context.quiet {
        let total = accepted + rejected;
        let noun = if total == 1 { "witness" } else { "witnesses" };
        writeln!(output, "{total} {noun}: {accepted} accepted, {rejected} rejected")?;
    }
    output.commit().map_err(|failure| failure.with_status(status))?;
    Ok(status)
}

/// Which entry of the file the trace is.
fn choose(entries: &[Entry], args: &Args) -> Result<usize, String> {
    if let Some(index) = args.trace_index {
        let known = entries.len();
        return if index < known { Ok(index) } else { Err(format!("no trace {index}: it speaks of {known} traces")) };
    }
    if entries.len() == 1 {
        return Ok(0);
    }
    let name = input::name(&args.trace);
    let matching: Vec<usize> = (0..entries.len()).filter(|&i| entries[i].path == name).collect();
    match matching[..] {
        [index] => Ok(index),
        [] => Err(format!("speaks of {} traces, none of them '{name}'; say which with --trace-index", entries.len())),
        _ => Err(format!("speaks of '{name}' several times; say which with --trace-index")),
    }
}

/// The findings file, readable from its start as often as needed.
enum FindingsFile {
    Path(PathBuf),
    Memory(Vec<u8>),
}

impl FindingsFile {
    fn open(path: &Path) -> Result<FindingsFile, String> {
        if path != Path::new("-") {
            return Ok(FindingsFile::Path(path.to_owned()));
        }
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map_err(|error| format!("-: cannot read: {error}"))?;
        Ok(FindingsFile::Memory(bytes))
    }

    fn read(&self) -> Result<Box<dyn Read + '_>, String> {
        match self {
            FindingsFile::Memory(bytes) => Ok(Box::new(&bytes[..])),
            FindingsFile::Path(path) => {
                let cannot = |error| format!("{}: cannot open: {}", path.display(), snag_trace::why(&error));
                let file = std::fs::File::open(path).map_err(cannot)?;
                if file.metadata().is_ok_and(|data| data.is_dir()) {
                    return Err(format!("{}: is a directory, not findings", path.display()));
                }
                Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
            }
        }
    }
}

struct Judge<'a> {
    trace: &'a Trace,
    checker: Checker<'a>,
    /// One that knows of no missing methods, if the trace has some.
    ignoring: Option<Checker<'a>>,
    /// Names of the locks held at the events of all claimed races.
    held: HashMap<u32, Vec<String>>,
}

/// The events of all races that a document claims. What is wrong with the document is said when it is judged.
fn claimed_events(document: impl Read, index: usize) -> HashSet<u32> {
    let mut events = HashSet::new();
    let _ = document::claims(document, index, &mut |claim| {
        if let Claim::Race(race) = claim {
            events.extend([race.first.event, race.second.event]);
        }
        Ok(())
    });
    events
}

/// The names of the locks that the thread of each wanted event holds there, sorted.
fn held_locks(trace: &Trace, wanted: HashSet<u32>) -> HashMap<u32, Vec<String>> {
    let mut held: Vec<Vec<LockId>> = vec![Vec::new(); trace.tables.thread_count()];
    // The same on the other side of a thread's last branch.
    let mut aside: HashMap<ThreadId, Vec<LockId>> = HashMap::new();
    let mut waiting: HashMap<ThreadId, usize> = HashMap::new();
    let mut found = HashMap::new();
    for (number, event) in trace.events.iter().enumerate() {
        let own = match event.op.on_other_side() {
            true => aside.entry(event.thread).or_insert_with(|| held[event.thread.index()].clone()),
            false => &mut held[event.thread.index()],
        };
        if wanted.contains(&(number as u32)) {
            let names = own.iter().map(|&lock| trace.tables.lock_name(lock).to_owned());
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            names.dedup();
            found.insert(number as u32, names);
        }
        let (target, second) = (LockId(event.target), LockId(event.aux));
        match event.op.if_it_happens() {
            Op::Branch if event.op == Op::Branch => _ = aside.remove(&event.thread),
            Op::Acquire | Op::ReadAcquire => own.push(target),
            Op::Release | Op::ReadRelease => {
                if let Some(at) = own.iter().rposition(|&lock| lock == target) {
                    own.remove(at);
                }
            }
            Op::WaitBegin => {
                let before = own.len();
                own.retain(|&lock| lock != second);
                waiting.insert(event.thread, before - own.len());
            }
            Op::WaitEnd => {
                let times = waiting.remove(&event.thread).unwrap_or(1);
                own.extend(std::iter::repeat_n(second, times));
            }
            _ => {}
        }
    }
    found
}

/// Accepted, or why not.
type Verdict = Result<(), String>;

impl Judge<'_> {
    /// The claim's name and the verdict; an error if the claim makes no sense for this trace.
    fn claim(&self, claim: Claim) -> Result<(String, Verdict), String> {
        match claim {
            Claim::Race(race) => {
                let verdict = self.race(&race).map_err(|message| format!("{}: {message}", race.id))?;
                Ok((race.id, verdict))
            }
            Claim::Deadlock(deadlock) => {
                let verdict = self.deadlock(&deadlock).map_err(|message| format!("{}: {message}", deadlock.id))?;
                Ok((deadlock.id, verdict))
            }
        }
    }

    fn race(&self, race: &RaceClaim) -> Result<Verdict, String> {
        let level = level(&race.level)?;
        let [first, second] = [&race.first, &race.second].map(|access| EventId(access.event));
        let reads = race.reads.iter().map(|read| read.event);
        let others = race.diverging.iter().copied().chain(reads).chain([first.0, second.0]);
        let others = others.chain(race.as_observed.checked_sub(1));
        self.in_range(race.witness.iter().copied().chain(others))?;
        for access in [&race.first, &race.second] {
            let same = self.describes(access.event, &access.thread, &access.op, &access.location);
            if !same || !self.accesses(access.event, &access.variable) {
                return Ok(Err(self.differs(access.event)));
            }
        }
        for (access, locks) in [(&race.first, &race.locks_first), (&race.second, &race.locks_second)] {
            let mut said = locks.clone();
            said.sort_unstable();
            let held = self.held.get(&access.event).cloned().unwrap_or_default();
            if said != held {
                let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
                return Ok(Err(format!(
                    "the locks held at event {} are not what the findings say: {held}",
                    access.event
                )));
            }
        }
        let schedule = (0..race.as_observed).chain(race.witness.iter().copied()).map(EventId);
        let verdict = match level {
            Level::Symbolic => {
                let diverging: Vec<EventId> = race.diverging.iter().map(|&event| EventId(event)).collect();
                let reads: Vec<_> = race.reads.iter().map(|read| (EventId(read.event), read.value)).collect();
                self.checker(race.missing_ignored).check_race_with_values(schedule, &diverging, &reads, first, second)
            }
            _ if !race.diverging.is_empty() => {
                return Err(format!("branches go the other way at level '{level}', which only 'symbolic' allows"));
            }
            _ => self.checker(race.missing_ignored).check_race(schedule, first, second, level),
        };
        Ok(verdict.map_err(|violation| violation.to_string()))
    }

    fn deadlock(&self, deadlock: &DeadlockClaim) -> Result<Verdict, String> {
        let level = level(&deadlock.level)?;
        let pending: Vec<EventId> = deadlock.pending.iter().map(|claim| EventId(claim.event)).collect();
        self.in_range(deadlock.witness.iter().copied().chain(pending.iter().map(|event| event.0)))?;
        for claim in &deadlock.pending {
            let same = self.describes(claim.event, &claim.thread, &claim.op, &claim.location);
            if !same || self.lock(claim.event) != claim.lock {
                return Ok(Err(self.differs(claim.event)));
            }
        }
        let schedule = deadlock.witness.iter().map(|&event| EventId(event));
        Ok(self
            .checker(deadlock.missing_ignored)
            .check_deadlock(schedule, &pending, level)
            .map_err(|violation| violation.to_string()))
    }

    /// Who judges a claim.
    fn checker(&self, missing_ignored: bool) -> &Checker<'_> {
        self.ignoring.as_ref().filter(|_| missing_ignored).unwrap_or(&self.checker)
    }

    fn in_range(&self, mut events: impl Iterator<Item = u32>) -> Result<(), String> {
        match events.find(|&event| event as usize >= self.trace.len()) {
            None => Ok(()),
            Some(event) => Err(format!("event {event} is out of range: the trace has {} events", self.trace.len())),
        }
    }

    /// Whether an event is what the file says it is.
    fn describes(&self, event: u32, thread: &str, op: &str, location: &str) -> bool {
        let id = EventId(event);
        let recorded = self.trace.location_of(id);
        let same_place = if recorded.is_empty() { location == event.to_string() } else { location == recorded };
        same_place
            && self.trace.tables.thread_name(self.trace.thread_of(id)) == thread
            && self.trace.events.ops()[id.index()].word() == op
    }

    /// Whether an event accesses what the file says: by the name that reports have for it, or as the trace spells it.
    fn accesses(&self, event: u32, variable: &str) -> bool {
        let target = self.trace.event(EventId(event));
        self.trace.target_text(&target) == variable
            || target.op.has_variable() && self.trace.tables.variable_spelled(VarId(target.target)) == variable
    }

    fn target(&self, event: u32) -> String {
        self.trace.target_text(&self.trace.event(EventId(event)))
    }

    fn lock(&self, event: u32) -> String {
        let event = self.trace.event(EventId(event));
        match event.op {
            Op::WaitEnd => self.trace.tables.lock_name(LockId(event.aux)).to_owned(),
            _ => self.trace.target_text(&event),
        }
    }

    fn differs(&self, event: u32) -> String {
        let id = EventId(event);
        format!(
            "event {event} is not what the findings say: in the trace it is '{} {}' of thread {}",
            self.trace.events.ops()[id.index()].word(),
            self.target(event),
            self.trace.tables.thread_name(self.trace.thread_of(id))
        )
    }
}

fn level(word: &str) -> Result<Level, String> {
    word.parse().map_err(|_| format!("level '{word}' is not available in this version"))
}
