//! `snag verify`: check every witness of a findings file again.
//!
//! Only the trace reader and the checker are involved: no engine, and nothing of
//! the pipeline that made the findings. A witness that the checker refuses, or
//! accesses that are not what the file says, make the claim rejected (status 1); a
//! file that cannot be read or does not belong to the trace is an error (status 2),
//! which comes before any answer. What is accepted is for the user to say, not for
//! the file: that missing methods were ignored does not make a claim easier to prove.

use crate::background::Recording;
use crate::context::Context;
use crate::document::{self, Claim, DeadlockClaim, Entry, FaultClaim, RaceClaim};
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt;
use crate::output::Output;
use crate::witness_claim::Claimed;
use snag_checker::{Checker, Series};
use snag_model::tables::DESCRIPTOR;
use snag_model::{Action, Cells, EventId, FaultKind, Level, LockId, Op, RaceKind, ThreadId, Trace};
use snag_recorder::recorded::Part;
use snag_report::printable;
use std::cell::RefCell;
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
    /// Also accept what holds only if missing methods are ignored, and was found so: it is no proof
    #[arg(long)]
    ignore_missing: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::End)?;
    let findings = FindingsFile::open(&args.findings, context.memory)?;
    let in_findings = |message: String| format!("{}: {message}", input::name(&args.findings));
    let entries = document::entries(findings.read()?).map_err(in_findings)?;
    let index = choose(&entries, args).map_err(in_findings)?;
    let trace = Source::open(context, &args.trace, None).and_then(|source| source.read(context));
    let mut trace = trace.map_err(|problem| input::message(&problem))?;
    // Findings call what a recorded program accesses by the names that its debugging information has for it.
    Recording::name_variables(&args.trace, &mut trace, Part::Whole)?;
    let expected = entries[index].events;
    if expected != trace.len() as u64 {
        let message = format!("is about a trace of {expected} events; this one has {}", trace.len());
        return Err(in_findings(message).into());
    }
    let cells = Cells::of(&trace);
    let about = Claimed::about(&trace);
    // Whatever is wrong with the file is said before anything is answered.
    let claimed = claimed_events(findings.read()?, index, &about).map_err(in_findings)?;
    let held = held_locks(&trace, claimed);
    // For what was found as if no method were missing.
    let without = trace.events.ops().contains(&Op::MethodBegin).then(|| trace.without_missing());
    let without_cells = without.as_ref().map(Cells::of);
    let ignoring = without.as_ref().zip(without_cells.as_ref()).map(|(trace, cells)| Checker::new(trace, cells));
    let checker = Checker::new(&trace, &cells);
    let (ignoring, series) = (ignoring.as_ref(), RefCell::default());
    let judge = Judge { trace: &trace, about: &about, checker: &checker, ignoring, series, held };
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
        let id = claim.id().to_owned();
        let verdict = judge.claim(&claim, false)?;
        // The file says how it was found, not what is accepted.
        let ignoring = verdict.is_err() && claim.missing_ignored() && judge.claim(&claim, true)?.is_ok();
        let id = printable(&id);
        match verdict {
            Err(_) if ignoring && args.ignore_missing => {
                accepted += 1;
                let how = "accepted with missing methods ignored: no proof";
                if context.quiet { Ok(()) } else { print(&mut output, format_args!("{id}  {how}")) }
            }
            Ok(()) => {
                accepted += 1;
                if context.quiet { Ok(()) } else { print(&mut output, format_args!("{id}  accepted")) }
            }
            Err(why) => {
                rejected += 1;
                let hint = match ignoring {
                    true => " (holds only if missing methods are ignored, which --ignore-missing accepts)",
                    false => "",
                };
                print(&mut output, format_args!("{id}  rejected: {}{hint}", printable(&why)))
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
    fn open(path: &Path, memory: u64) -> Result<FindingsFile, String> {
        let stdin = path == Path::new("-");
        let is_stream = || std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir());
        if !stdin && !is_stream() {
            return Ok(FindingsFile::Path(path.to_owned()));
        }
        // It can be read once only, so it is kept.
        let cannot = |error| format!("{}: cannot read: {}", path.display(), snag_formats::why(&error));
        let input: Box<dyn Read> =
            if stdin { Box::new(io::stdin()) } else { Box::new(std::fs::File::open(path).map_err(cannot)?) };
        let mut bytes = Vec::new();
        input.take(memory.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
        let room = snag_model::Room::new(memory);
        room.check(bytes.len() as u64, "findings that are no file")
            .map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(FindingsFile::Memory(bytes))
    }

    fn read(&self) -> Result<Box<dyn Read + '_>, String> {
        match self {
            FindingsFile::Memory(bytes) => Ok(Box::new(&bytes[..])),
            FindingsFile::Path(path) => {
                let cannot = |error| format!("{}: cannot open: {}", path.display(), snag_formats::why(&error));
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
    about: &'a Claimed<'a>,
    checker: &'a Checker<'a>,
    /// One that knows of no missing methods, if the trace has some.
    ignoring: Option<&'a Checker<'a>>,
    /// What they have executed of the trace, by whether missing methods are ignored, and by level.
    series: RefCell<HashMap<(bool, Level), Series<'a>>>,
    /// Names of the locks held at the events of all claimed races.
    held: HashMap<u32, Vec<String>>,
}

/// The events of all races that a document claims, which must make sense for this trace.
fn claimed_events(document: impl Read, index: usize, about: &Claimed) -> Result<HashSet<u32>, String> {
    let mut claimed = HashSet::new();
    document::claims(document, index, &mut |claim| {
        makes_sense(&claim, about).map_err(|message| format!("{}: {message}", claim.id()))?;
        if let Claim::Race(race) = claim {
            claimed.extend([race.first.event, race.second.event]);
        }
        Ok(())
    })?;
    Ok(claimed)
}

/// Whether a claim is one about this trace, true or not.
fn makes_sense(claim: &Claim, about: &Claimed) -> Result<(), String> {
    let in_range = |number: u32| about.event(number).map(|_| ());
    match claim {
        Claim::Race(race) => {
            let (level, kind) = (level(&race.level)?, kind(race)?);
            let reads = race.reads.iter().map(|read| read.event);
            let others = race.diverging.iter().copied().chain(reads).chain([race.first.event, race.second.event]);
            let others = others.chain(race.spurious.iter().copied());
            about.schedule(race.as_observed, &race.witness)?;
            others.into_iter().try_for_each(in_range)?;
            if kind == RaceKind::Order && (level == Level::Symbolic || !race.diverging.is_empty()) {
                return Err("a race by memory order is no matter of level 'symbolic'".to_owned());
            }
            if !race.spurious.is_empty() && (kind == RaceKind::Order || level == Level::Symbolic) {
                return Err("waits end for no reason only in races that come next, below level 'symbolic'".to_owned());
            }
            if level != Level::Symbolic && !race.diverging.is_empty() {
                return Err(format!("branches go the other way at level '{level}', which only 'symbolic' allows"));
            }
        }
        Claim::Deadlock(deadlock) => {
            level(&deadlock.level)?;
            about.schedule(deadlock.as_observed, &deadlock.witness)?;
            let pending = deadlock.pending.iter().map(|claim| claim.event);
            pending.chain(deadlock.spurious.iter().copied()).try_for_each(in_range)?;
        }
        Claim::Fault(fault) => {
            fault_kind(fault)?;
            let events = fault.first.iter().chain([&fault.second]).map(|claim| claim.event);
            events.into_iter().try_for_each(in_range)?;
            if let Some(witness) = &fault.witness {
                about.schedule(0, witness)?;
            }
            if let Some(level_said) = &fault.level {
                level(level_said)?;
            }
        }
    }
    Ok(())
}

fn events(numbers: &[u32]) -> Vec<EventId> {
    numbers.iter().map(|&number| EventId(number)).collect()
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
        match event.action().if_it_happens() {
            Action::Branch { .. } if event.op == Op::Branch => _ = aside.remove(&event.thread),
            Action::Acquire { lock, .. } => own.push(lock),
            Action::Release { lock, .. } => {
                if let Some(at) = own.iter().rposition(|&held| held == lock) {
                    own.remove(at);
                }
            }
            Action::WaitBegin { lock, .. } => {
                let before = own.len();
                own.retain(|&held| held != lock);
                waiting.insert(event.thread, before - own.len());
            }
            Action::WaitEnd { lock, .. } => {
                let times = waiting.remove(&event.thread).unwrap_or(1);
                own.extend(std::iter::repeat_n(lock, times));
            }
            _ => {}
        }
    }
    found
}

/// Accepted, or why not.
type Verdict = Result<(), String>;

impl<'a> Judge<'a> {
    /// The verdict about a claim, with missing methods ignored or not; an error if the claim makes no sense for this trace, as when the file
    /// has changed since it was looked at.
    fn claim(&self, claim: &Claim, ignoring: bool) -> Result<Verdict, String> {
        let judged = makes_sense(claim, self.about).and_then(|()| match claim {
            Claim::Race(race) => self.race(race, ignoring),
            Claim::Deadlock(deadlock) => self.deadlock(deadlock, ignoring),
            Claim::Fault(fault) => self.fault(fault),
        });
        judged.map_err(|message| format!("{}: {message}", claim.id()))
    }

    fn race(&self, race: &RaceClaim, ignoring: bool) -> Result<Verdict, String> {
        let level = level(&race.level)?;
        let [first, second] = [&race.first, &race.second].map(|access| EventId(access.event));
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
        let schedule = self.about.schedule(race.as_observed, &race.witness)?;
        let verdict = match level {
            Level::Symbolic if kind(race)? != RaceKind::Order => {
                let diverging = events(&race.diverging);
                let reads: Vec<_> = race.reads.iter().map(|read| (EventId(read.event), read.value)).collect();
                self.checker(ignoring).check_race_with_values(
                    schedule.iter(self.trace),
                    &diverging,
                    &reads,
                    first,
                    second,
                )
            }
            _ if !race.spurious.is_empty() => {
                let (events, spurious) = (schedule.iter(self.trace), events(&race.spurious));
                self.checker(ignoring).check_race_with_spurious(events, first, second, level, &spurious)
            }
            _ => {
                let kind = kind(race)?;
                self.in_series(ignoring, level, |series| series.check(kind, &schedule, first, second))
            }
        };
        Ok(verdict.map_err(|violation| violation.to_string()))
    }

    fn deadlock(&self, deadlock: &DeadlockClaim, ignoring: bool) -> Result<Verdict, String> {
        let level = level(&deadlock.level)?;
        let pending: Vec<EventId> = deadlock.pending.iter().map(|claim| EventId(claim.event)).collect();
        for claim in &deadlock.pending {
            let same = self.describes(claim.event, &claim.thread, &claim.op, &claim.location);
            if !same || self.lock(claim.event) != claim.lock {
                return Ok(Err(self.differs(claim.event)));
            }
        }
        let schedule = self.about.schedule(deadlock.as_observed, &deadlock.witness)?;
        let spurious = events(&deadlock.spurious);
        let verdict = match level {
            _ if !spurious.is_empty() || level == Level::Symbolic => {
                let events = schedule.iter(self.trace);
                self.checker(ignoring).check_deadlock_with_spurious(events, &pending, level, &spurious)
            }
            _ => self.in_series(ignoring, level, |series| series.check_deadlock(&schedule, &pending)),
        };
        Ok(verdict.map_err(|violation| violation.to_string()))
    }

    fn fault(&self, fault: &FaultClaim) -> Result<Verdict, String> {
        let kind = fault_kind(fault)?;
        for access in fault.first.iter().chain([&fault.second]) {
            let same = self.describes(access.event, &access.thread, &access.op, &access.location);
            if !same || self.target(access.event) != access.variable {
                return Ok(Err(self.differs(access.event)));
            }
        }
        let first = fault.first.as_ref().map(|access| EventId(access.event));
        let second = EventId(fault.second.event);
        let verdict = match (&fault.witness, first) {
            (Some(witness), Some(first)) if kind == FaultKind::DestroyedInUse => {
                let level = fault.level.as_deref().map_or(Ok(Level::Writer), level)?;
                let schedule = self.about.schedule(0, witness)?;
                self.checker.check_end_in_use(schedule.iter(self.trace), first, second, level)
            }
            _ => self.checker.check_fault(kind, first, second),
        };
        Ok(verdict.map_err(|violation| violation.to_string()))
    }

    /// Who judges a claim.
    fn checker(&self, missing_ignored: bool) -> &'a Checker<'a> {
        self.ignoring.filter(|_| missing_ignored).unwrap_or(self.checker)
    }

    /// Most witnesses begin as the trace does: that part is executed once for all of them.
    fn in_series<R>(&self, missing_ignored: bool, level: Level, judge: impl FnOnce(&mut Series) -> R) -> R {
        let mut all = self.series.borrow_mut();
        let series = all.entry((missing_ignored, level));
        judge(series.or_insert_with(|| self.checker(missing_ignored).series(level)))
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
        let accessed = self.trace.action(EventId(event)).variable();
        self.target(event) == variable
            || accessed.is_some_and(|accessed| self.trace.tables.variable_spelled(accessed) == variable)
    }

    fn target(&self, event: u32) -> String {
        self.trace.target_text(&self.trace.event(EventId(event)))
    }

    fn lock(&self, event: u32) -> String {
        match self.trace.action(EventId(event)).acquired() {
            Some((lock, _)) => self.trace.tables.lock_name(lock).to_owned(),
            // Of a wait that never ended it is the target.
            None => self.target(event),
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

/// What is said to have gone wrong.
fn fault_kind(fault: &FaultClaim) -> Result<FaultKind, String> {
    let word = &fault.kind;
    FaultKind::from_word(word).ok_or_else(|| format!("kind '{word}' is not available in this version"))
}

/// What a race's witness is said to show.
fn kind(race: &RaceClaim) -> Result<RaceKind, String> {
    match race.kind.as_deref() {
        None => Ok(RaceKind::Predictable),
        Some(word) if word == RaceKind::Order.word() => Ok(RaceKind::Order),
        // It is a race on what stands for the descriptor.
        Some("descriptor") if race.first.variable.starts_with(DESCRIPTOR) => Ok(RaceKind::Predictable),
        Some(word) => Err(format!("kind '{word}' is not available in this version")),
    }
}

fn level(word: &str) -> Result<Level, String> {
    word.parse().map_err(|_| format!("level '{word}' is not available in this version"))
}
