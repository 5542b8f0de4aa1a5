//! `snag replay`: run a recorded program again, along its recording or up to a race.

mod command;
mod many;

use crate::background::Recording;
use crate::commands::check::folder_is_there;
use crate::confirm::{self, Goal};
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::input::{self, Source};
use crate::interrupt::{self, Doing, Then};
use crate::output::Output;
use snag_model::Trace;
use snag_pipeline::Analysis;
use snag_recorder::recorded::Part;
use snag_recorder::recorder::FREELY;
use snag_recorder::replay::{self, Driven, Repeated, Standing};
use snag_recorder::{Prints, Recorded};
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
  snag replay run.snag --all         each of them in a run of its own, a line for each
  snag replay run.snag --race R1 --many 20   what comes of it, with either access first

Exit status: 0 the run was repeated; 1 the race or deadlock is confirmed, or with --many, changes what comes out; 2 it went another
way, or an error. With --all, 0 there is nothing to confirm; 1 all are confirmed; 2 some are not, or an error.

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
    /// Drive the program to everything that 'snag check' finds, in one run after the other, and say what is confirmed; what the
    /// program prints is not shown
    #[arg(long, conflicts_with_all = ["race", "many", "source_root"])]
    all: bool,
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
        None if args.all => {
            // For names of variables.
            Recording::name_variables(&args.trace, &mut trace, Part::Whole)?;
            everything(context, &trace, &recorded, &command)
        }
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

/// What `snag check` finds by itself.
fn analyse(context: &Context, trace: &Trace) -> Analysis {
    let options = snag_pipeline::Options {
        settings: snag_pipeline::Settings { jobs: context.jobs, ..Default::default() },
        spurious: true,
        ..Default::default()
    };
    let bars = context.bars();
    let analysis = snag_pipeline::analyse(trace, &options, &bars);
    bars.clear();
    analysis
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
    let analysis = analyse(context, trace);
    begin()?;
    let Some(goal) = Goal::by_id(&analysis, id) else {
        let path = args.trace.display();
        return Err(format!("{path}: there is no race {id}; 'snag check' shows {}", known(&analysis)).into());
    };
    if let Some(why) = goal.cannot_be_replayed() {
        return Err(format!("{id} cannot be replayed: {why}").into());
    }
    if let Some(runs) = args.many {
        let Goal::Race(race) = goal else {
            return Err(format!("{id} is a deadlock, which nobody comes through: --many is for races").into());
        };
        return many::run(context, trace, recorded, &command, id, race, runs);
    }
    let driven = goal.drive(context, (trace, recorded), &command, Prints::AsWeDo)?;
    begin()?;
    let mut out = Output::open(None)?;
    let status = match driven {
        Driven::Confirmed(standing) => {
            let how = match goal {
                Goal::Race(_) => "both threads have been stopped in front of their accesses:",
                Goal::Deadlock(_) => "the threads have been stopped in front of locks that the others hold:",
            };
            writeln!(out, "{id} confirmed: {}\n{how}", headline(trace, goal))?;
            show(&mut out, trace, background, &standing)?;
            Status::Found
        }
        Driven::Diverged { done, all, why } => {
            writeln!(out, "{id} not confirmed: {}", confirm::diverged(done, all, &why))?;
            Status::Error
        }
    };
    out.commit().map_err(|failure| failure.with_status(status))?;
    Ok(status)
}

fn headline(trace: &Trace, goal: Goal) -> String {
    match goal {
        Goal::Race(race) => describe::race(trace, race.first, race.second),
        Goal::Deadlock(deadlock) => describe::deadlock(trace, deadlock),
    }
}

/// Replays all that `snag check` finds, one line for each.
fn everything(context: &Context, trace: &Trace, recorded: &Recorded, command: &[OsString]) -> Result<Status, Failure> {
    let analysis = analyse(context, trace);
    begin()?;
    let confirmations = confirm::all(context, (trace, recorded), command, &analysis);
    begin()?;
    let races = analysis.races.iter().map(Goal::Race).zip(&confirmations.races).enumerate();
    let deadlocks = analysis.deadlocks.iter().map(Goal::Deadlock).zip(&confirmations.deadlocks).enumerate();
    let named = races.map(|(index, one)| (format!("R{}", index + 1), one));
    let named = named.chain(deadlocks.map(|(index, one)| (format!("D{}", index + 1), one)));
    let mut out = Output::open(None)?;
    let (mut all, mut confirmed) = (0, 0);
    for (id, (goal, confirmation)) in named {
        all += 1;
        match confirmation.why_not() {
            None => {
                confirmed += 1;
                writeln!(out, "{id} confirmed: {}", headline(trace, goal))?;
            }
            Some(why) => writeln!(out, "{id} not confirmed: {why}\n    {}", headline(trace, goal))?,
        }
    }
    writeln!(out, "{confirmed} of {all} confirmed")?;
    let status = match (all, confirmed) {
        (0, _) => Status::Clean,
        (all, confirmed) if all == confirmed => Status::Found,
        _ => Status::Error,
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
