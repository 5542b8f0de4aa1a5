//! `snag replay`: run a recorded program again, along its recording or up to a race.

mod command;
mod many;

use crate::background::Recording;
use crate::commands::check::folder_is_there;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt::{self, Doing, Then};
use crate::output::Output;
use snag_model::{EventId, RaceKind, Trace};
use snag_pipeline::{Analysis, Deadlock, Race};
use snag_recorder::Recorded;
use snag_recorder::recorded::Part;
use snag_recorder::recorder::FREELY;
use snag_recorder::replay::{self, Driven, Repeated, Standing};
use snag_report::{Background, describe};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Options of `snag replay`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag record -o run.snag -- ./prog
  snag replay run.snag               run it again the same way, and compare every event
  snag check run.snag                what could have gone wrong: R1, R2, ...
  snag replay run.snag --race R1     make it happen
  snag replay run.snag --race D1     the same for a deadlock
  snag replay run.snag --race R1 --many 20   what comes of it, with either access first

Exit status: 0 the run was repeated; 1 the race or deadlock is confirmed, or with --many, changes what comes out; 2 it went another
way, or an error.

What is going to be run is said before. A recording that was not made by this user on this machine may name any command, and in
another folder than that of the recording, or after the program was changed, the same command may do something else: then it
is run with --trust only, or if it is given again after --.")]
pub struct Args {
    /// A recording made by 'snag record'
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Drive the program to this race or deadlock, as 'snag check' numbers them, and stop in front of it
    #[arg(long, value_name = "ID")]
    race: Option<String>,
    /// Run N times through the race with each of the two accesses first, and compare how the program ends
    #[arg(long, value_name = "N", requires = "race", value_parser = clap::value_parser!(u64).range(1..))]
    many: Option<u64>,
    /// Run the command that the recording names although it may be a stranger's, not made by this user on this machine, or not what it
    /// was: in another folder, or changed
    #[arg(long)]
    trust: bool,
    /// Also show lines of source files that lie below this folder; may be given several times
    #[arg(long, value_name = "DIR", requires = "race")]
    source_root: Vec<PathBuf>,
    /// The program and its arguments: run these, not what the recording names
    #[arg(value_name = "PROG", last = true)]
    command: Vec<OsString>,
}

/// Runs the command. An interrupt ends the program that is replayed; what that looks like is of no interest.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    args.source_root.iter().try_for_each(|folder| folder_is_there(folder))?;
    interrupt::listen(Then::End)?;
    let result = replay(context, args);
    match interrupt::asked() {
        true => Err("interrupted".to_owned().into()),
        false => result,
    }
}

fn replay(context: &Context, args: &Args) -> Result<Status, Failure> {
    let source = Source::open(context, &args.trace, None).and_then(|source| source.read(context));
    let mut trace = source.map_err(|problem| input::message(&problem))?;
    let Some(recorded) = Recorded::read(&args.trace, &mut trace, Part::Whole)? else {
        return Err(format!(
            "{}: not recorded by 'snag record'; only such traces can be replayed",
            args.trace.display()
        )
        .into());
    };
    if recorded.about("threads") == Some(FREELY) {
        let path = args.trace.display();
        return Err(format!("{path}: recorded with --free-running: there is no order of turns to replay").into());
    }
    let command = command::to_run(&args.trace, &recorded, &args.command, args.trust)?;
    command::announce(&command);
    warn_about_changes(context, &recorded, &command);
    match &args.race {
        None => repeat(context, &trace, &recorded, command),
        Some(id) => {
            let background = Recording::read(&args.trace, &mut trace, Part::Whole, &args.source_root)?;
            race(context, args, &trace, &recorded, background.as_ref(), command, id)
        }
    }
}

/// What is not as it was, before it shows.
fn warn_about_changes(context: &Context, recorded: &Recorded, command: &[OsString]) {
    let then = recorded.command();
    if command.iter().map(|argument| argument.to_string_lossy()).ne(then.iter().copied()) {
        context.warn(&format!("the recorded command was: {}", then.join(" ")));
    }
    let folder = std::env::current_dir().unwrap_or_default();
    if let Some(then) = recorded.about("folder").filter(|then| Path::new(then) != folder) {
        context.warn(&format!("it was recorded in the folder {then}"));
    }
    let program = command.first().and_then(|program| snag_recorder::recorder::find_program(Path::new(program)));
    if let (Some(then), Some(program)) = (recorded.about("digest"), program)
        && !snag_recorder::recorder::has_digest(&program, then)
    {
        context.warn(&format!("{} has changed since it was recorded", program.display()));
    }
    let now = snag_recorder::recorder::environment();
    if recorded.about("environment").is_some_and(|then| then != now) {
        context.warn("the environment variables are not those of the recording");
    }
}

/// A program is about to be run, or was: not if the user wants to stop.
fn begin() -> Result<(), Failure> {
    interrupt::doing(Doing::Program);
    match interrupt::asked() {
        true => Err(Failure::Reported),
        false => Ok(()),
    }
}

fn repeat(context: &Context, trace: &Trace, recorded: &Recorded, command: Vec<OsString>) -> Result<Status, Failure> {
    begin()?;
    let repeated = replay::repeat(trace, recorded, command)?;
    begin()?;
    let mut out = Output::open(None)?;
    let status = match repeated {
        Repeated::Same(events, ended) => {
            if let Some(ending) = super::record::ending(ended) {
                context.note(&ending);
            }
            writeln!(out, "repeated: all {events} events as recorded")?;
            Status::Clean
        }
        Repeated::Differs(event, then, now) => {
            writeln!(out, "diverged at event {event}\n    recorded: {then}\n    now:      {now}")?;
            Status::Error
        }
    };
    out.commit()?;
    Ok(status)
}

/// What a program can be driven to.
enum Goal<'a> {
    Race(&'a Race),
    Deadlock(&'a Deadlock),
}

impl<'a> Goal<'a> {
    /// The finding that `snag check` gives this number.
    fn by_id(analysis: &'a Analysis, id: &str) -> Option<Goal<'a>> {
        let index = |prefix: char| id.strip_prefix(prefix)?.parse::<usize>().ok()?.checked_sub(1);
        let race = index('R').and_then(|index| analysis.races.get(index)).map(Goal::Race);
        race.or_else(|| index('D').and_then(|index| analysis.deadlocks.get(index)).map(Goal::Deadlock))
    }

    /// The events in front of which the threads are to stand.
    fn then(&self) -> Vec<EventId> {
        match self {
            Goal::Race(race) => vec![race.first, race.second],
            Goal::Deadlock(deadlock) => deadlock.pending.clone(),
        }
    }
}

/// `R1 to R3 and D1`.
fn known(analysis: &Analysis) -> String {
    let range = |prefix: char, count: usize| match count {
        0 => None,
        1 => Some(format!("{prefix}1")),
        last => Some(format!("{prefix}1 to {prefix}{last}")),
    };
    let ranges = [range('R', analysis.races.len()), range('D', analysis.deadlocks.len())];
    let ranges: Vec<String> = ranges.into_iter().flatten().collect();
    if ranges.is_empty() { "none".to_owned() } else { ranges.join(" and ") }
}

fn race(
    context: &Context,
    args: &Args,
    trace: &Trace,
    recorded: &Recorded,
    background: Option<&Recording>,
    command: Vec<OsString>,
    id: &str,
) -> Result<Status, Failure> {
    let options = snag_pipeline::Options {
        settings: snag_pipeline::Settings { jobs: context.jobs, ..Default::default() },
        spurious: true,
        ..Default::default()
    };
    let bars = context.bars();
    let analysis = snag_pipeline::analyse(trace, &options, &bars);
    bars.clear();
    begin()?;
    let Some(goal) = Goal::by_id(&analysis, id) else {
        let path = args.trace.display();
        return Err(format!("{path}: there is no race {id}; 'snag check' shows {}", known(&analysis)).into());
    };
    if let Goal::Race(race) = goal
        && race.kind == RaceKind::Order
    {
        let why =
            "in a race by memory order one access comes first in every run; what is wrong is that nothing orders them";
        return Err(format!("{id} cannot be replayed: {why}").into());
    }
    let then = goal.then();
    let (witness, spurious) = match goal {
        Goal::Race(race) => (&race.witness, &race.spurious),
        Goal::Deadlock(deadlock) => (&deadlock.witness, &deadlock.spurious),
    };
    if let Some(runs) = args.many {
        let Goal::Race(race) = goal else {
            return Err(format!("{id} is a deadlock, which nobody comes through: --many is for races").into());
        };
        return many::run(context, trace, recorded, &command, id, race, runs);
    }
    let schedule = replay::along_witness(trace, recorded, witness.iter(trace), spurious, &then)?;
    context.detail(&format!("driving the program through {} turns", schedule.len()));
    begin()?;
    let driven = replay::drive(trace, recorded, command, schedule, &then)?;
    begin()?;
    let mut out = Output::open(None)?;
    let status = match driven {
        Driven::Confirmed(standing) => {
            let (what, how) = match goal {
                Goal::Race(race) => (
                    describe::race(trace, race.first, race.second),
                    "both threads have been stopped in front of their accesses:",
                ),
                Goal::Deadlock(deadlock) => (
                    describe::deadlock(trace, deadlock),
                    "the threads have been stopped in front of locks that the others hold:",
                ),
            };
            writeln!(out, "{id} confirmed: {what}\n{how}")?;
            show(&mut out, trace, background, &standing)?;
            Status::Found
        }
        Driven::Diverged { done, all, why } => {
            writeln!(out, "{id} not confirmed: after {done} of {all} turns {why}")?;
            Status::Error
        }
    };
    out.commit().map_err(|failure| failure.with_status(status))?;
    Ok(status)
}

fn show(out: &mut Output, trace: &Trace, background: Option<&Recording>, standing: &[Standing]) -> io::Result<()> {
    for Standing { event, holds } in standing {
        writeln!(out, "\n    {}", describe::about_to(trace, *event))?;
        if let Some(background) = background {
            for line in describe::stack(trace, background, *event) {
                writeln!(out, "    {line}")?;
            }
        }
        if let Some(bytes) = holds {
            writeln!(out, "    the memory holds {} now", value(bytes))?;
        }
    }
    if let Some(background) = background {
        let accesses = standing.iter().filter(|s| trace.events.ops()[s.event.index()].has_variable());
        let mut notes: Vec<String> = accesses.filter_map(|s| background.memory(trace, s.event)).collect();
        notes.dedup();
        for (index, note) in notes.iter().enumerate() {
            let blank = if index == 0 { "\n" } else { "" };
            writeln!(out, "{blank}    {note}")?;
        }
    }
    Ok(())
}

/// Little endian, as a number if it is one.
fn value(bytes: &[u8]) -> String {
    if bytes.len() <= 8 {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        return u64::from_le_bytes(whole).to_string();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
