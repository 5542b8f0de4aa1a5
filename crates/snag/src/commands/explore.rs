//! `snag explore`: everything that a program in the small language can do.

use super::trace::compile;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::interrupt;
use crate::output::Output;
use clap::ValueEnum;
use serde_json::json;
use snag_recipe_lang::{Access, Explored, Program};
use std::io::Write;
use std::path::PathBuf;

/// Options of `snag explore`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag explore prog.rcp                    the races, deadlocks and failures that some schedule shows
  snag explore --states 10000000 prog.rcp  for a larger program

Exit status: 0 nothing found, 1 races, deadlocks or failures found, 2 error.")]
pub struct Args {
    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Give up after so many states
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = super::generate::at_least_one)]
    states: usize,
    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For scripts: docs/rcp.md
    Json,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::Report)?;
    let program = compile(context, &args.program)?;
    let explored = snag_recipe_lang::explore_until(&program, args.states, &interrupt::interrupted);
    let mut output = Output::open(None)?;
    match args.format {
        Format::Text => text(&mut output, context, &program, &explored)?,
        Format::Json => json(&mut output, &program, &explored)?,
    }
    output.commit()?;
    if !explored.complete {
        let why = match interrupt::interrupted() {
            true => "interrupted",
            false => "the program has more states than --states allows, or they take too much memory",
        };
        let (path, states) = (args.program.display(), explored.states);
        context.insist(&format!("{path}: stopped after {states} states: {why}; there may be more than was found"));
    }
    let found = !explored.races.is_empty() || !explored.deadlocks.is_empty() || !explored.failures.is_empty();
    Ok(if found { Status::Found } else { Status::Clean })
}

fn text(out: &mut Output, context: &Context, program: &Program, explored: &Explored) -> Result<(), Failure> {
    let access = |access: &Access| {
        let word = if access.writes { "write" } else { "read" };
        format!("{word} at {}", access.location)
    };
    for race in &explored.races {
        writeln!(out, "race on {}: {}, {}", race.variable, access(&race.first), access(&race.second))?;
        if !context.quiet {
            writeln!(out, "    after {}", turns(program, &explored.ways[race]))?;
        }
    }
    for waiting in &explored.deadlocks {
        writeln!(out, "deadlock")?;
        for (thread, place) in waiting {
            writeln!(out, "    {thread} at {place}")?;
        }
    }
    for (location, message) in &explored.failures {
        writeln!(out, "failure at {location}: {message}")?;
    }
    if !context.quiet {
        let count = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        writeln!(
            out,
            "{}, {}, {} in {}",
            count(explored.races.len(), "race", "races"),
            count(explored.deadlocks.len(), "deadlock", "deadlocks"),
            count(explored.failures.len(), "failure", "failures"),
            count(explored.states, "state", "states"),
        )?;
    }
    Ok(())
}

/// The steps to a state as `--schedule` of `snag trace` takes them.
fn turns(program: &Program, steps: &[usize]) -> String {
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for &thread in steps {
        match turns.last_mut() {
            Some((last, count)) if *last == thread => *count += 1,
            _ => turns.push((thread, 1)),
        }
    }
    let text = |&(thread, count): &(usize, usize)| format!("{}*{count}", program.threads[thread].name);
    let all: Vec<String> = turns.iter().map(text).collect();
    if all.is_empty() { "no step".to_owned() } else { all.join(",") }
}

fn json(out: &mut Output, program: &Program, explored: &Explored) -> Result<(), Failure> {
    let access = |access: &Access| {
        let op = if access.writes { "write" } else { "read" };
        json!({ "op": op, "location": access.location })
    };
    let races: Vec<_> = explored
        .races
        .iter()
        .map(|race| {
            let schedule = turns(program, &explored.ways[race]);
            json!({ "variable": race.variable, "first": access(&race.first), "second": access(&race.second),
                    "schedule": schedule })
        })
        .collect();
    let deadlocks: Vec<_> = explored
        .deadlocks
        .iter()
        .map(|waiting| {
            let threads = waiting.iter().map(|(thread, place)| json!({ "thread": thread, "place": place }));
            threads.collect::<Vec<_>>()
        })
        .collect();
    let failures: Vec<_> = explored
        .failures
        .iter()
        .map(|(location, message)| json!({ "location": location, "message": message }))
        .collect();
    let document = json!({ "snag": snag_report::VERSION, "program": program.file, "states": explored.states,
        "complete": explored.complete, "races": races, "deadlocks": deadlocks, "failures": failures });
    writeln!(out, "{document}")?;
    Ok(())
}
