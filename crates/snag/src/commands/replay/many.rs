//! `snag replay --many`: whether it matters who comes first.

use crate::context::Context;
use crate::failure::{Failure, Status};
use snag_model::Trace;
use snag_pipeline::Race;
use snag_recorder::replay::{self, End, MOST_PRINTED, Outcome};
use snag_recorder::{Ended, Recorded};
use snag_report::{describe, printable};
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
        let schedule = replay::through_race(trace, recorded, race.witness.iter(trace), &race.spurious, pair)?;
        let mut counted: Counted = Vec::new();
        for seed in 1..=runs {
            context.detail(&format!("run {seed} of {runs}"));
            let outcome = replay::outcome(recorded, command.to_vec(), schedule.clone(), seed);
            super::begin()?;
            let outcome = outcome?;
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
    let astray = if outcome.followed { "" } else { ", did not come through the race" };
    let end = match outcome.end {
        End::Ended(Ended::Exit(status)) => format!("exit status {status}"),
        End::Ended(Ended::Signal(signal)) => format!("died of signal {signal}"),
        End::Stuck => "did not end".to_owned(),
        End::PrintedTooMuch => return format!("ended, as it printed more than {} MB{astray}", MOST_PRINTED >> 20),
    };
    let printed = &outcome.printed;
    let shown = |line: &[u8]| printable(&String::from_utf8_lossy(line)).to_string();
    let output = match (&printed.first, &printed.last) {
        (None, _) => "no output".to_owned(),
        (Some(only), None) => format!("output '{}'", shown(only)),
        (Some(first), Some(last)) => {
            format!("output '{}' … '{}', {} bytes", shown(first), shown(last), printed.length)
        }
    };
    format!("{end}, {output}{astray}")
}
