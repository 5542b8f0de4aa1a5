//! `snag replay --many`: whether it matters who comes first.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::temporary::Temporary;
use snag_predict::Race;
use snag_recording::replay::{self, Outcome};
use snag_recording::{Ended, Recorded};
use snag_report::describe;
use snag_trace::Trace;
use std::ffi::OsString;
use std::io::{self, Write};

/// An outcome and how often it was seen.
type Counted = Vec<(Outcome, u64)>;

/// Runs the program through the race in both orders and compares.
pub fn run(
    context: &Context,
    trace: &Trace,
    recorded: &Recorded,
    command: &[OsString],
    id: &str,
    race: &Race,
    runs: u64,
) -> Result<Status, Failure> {
    let mut out = io::stdout();
    writeln!(out, "{id}: {}", describe::race(trace, race.first, race.second))?;
    let mut seen: Vec<Counted> = Vec::new();
    for pair in [[race.first, race.second], [race.second, race.first]] {
        let schedule = replay::through_race(trace, recorded, race.witness.iter(trace), pair);
        let mut counted: Counted = Vec::new();
        for seed in 1..=runs {
            context.detail(&format!("run {seed} of {runs}"));
            let file = Temporary::new()?;
            let outcome = replay::outcome(command.to_vec(), schedule.clone(), seed, &file.path())?;
            match counted.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, count)) => *count += 1,
                None => counted.push((outcome, 1)),
            }
        }
        writeln!(out, "\nfirst the {}:", describe::access(trace, pair[0]))?;
        for (outcome, count) in &counted {
            writeln!(out, "    {count} of {runs}: {}", describe_outcome(outcome))?;
        }
        seen.push(counted);
    }
    let through = |counted: &Counted| counted.iter().any(|(outcome, _)| outcome.followed);
    if !seen.iter().all(through) {
        writeln!(out, "\nin one of the orders no run came through the race: the program went another way")?;
        return Ok(Status::Error);
    }
    let same = |a: &Counted, b: &Counted| a.iter().all(|(outcome, _)| b.iter().any(|(other, _)| other == outcome));
    if seen.iter().all(|counted| counted.len() == 1) && same(&seen[0], &seen[1]) {
        writeln!(out, "\nevery run ended in the same way")?;
        return Ok(Status::Clean);
    }
    match same(&seen[0], &seen[1]) && same(&seen[1], &seen[0]) {
        true => writeln!(out, "\nruns end differently, but no order of the accesses has an end of its own")?,
        false => writeln!(out, "\nwho comes first makes a difference")?,
    }
    Ok(Status::Found)
}

fn describe_outcome(outcome: &Outcome) -> String {
    let end = match outcome.ended {
        Some(Ended::Exit(status)) => format!("exit status {status}"),
        Some(Ended::Signal(signal)) => format!("died of signal {signal}"),
        None => "did not end".to_owned(),
    };
    let text = String::from_utf8_lossy(&outcome.output);
    let mut lines = text.lines();
    let output = match (lines.next(), lines.next_back()) {
        (None, _) => "no output".to_owned(),
        (Some(only), None) => format!("output '{only}'"),
        (Some(first), Some(last)) => format!("output '{first}' … '{last}', {} bytes", outcome.output.len()),
    };
    let astray = if outcome.followed { "" } else { ", did not come through the race" };
    format!("{end}, {output}{astray}")
}
