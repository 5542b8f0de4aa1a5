//! Drives a recorded program to what was found in its recording.

use crate::context::Context;
use crate::interrupt::{self, Doing};
use snag_model::{EventId, RaceKind, Schedule, Trace};
use snag_pipeline::{Analysis, Deadlock, Progress, Race};
use snag_recorder::replay::{self, Driven};
use snag_recorder::{Prints, Recorded};
use snag_report::{Confirmation, Confirmations};
use std::ffi::OsString;

/// What a program can be driven to.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// A race.
    Race(&'a Race),
    /// A deadlock.
    Deadlock(&'a Deadlock),
}

impl<'a> Goal<'a> {
    /// The finding that `snag check` gives this number.
    pub fn by_id(analysis: &'a Analysis, id: &str) -> Option<Goal<'a>> {
        let index = |prefix: char| id.strip_prefix(prefix)?.parse::<usize>().ok()?.checked_sub(1);
        let race = index('R').and_then(|index| analysis.races.get(index)).map(Goal::Race);
        race.or_else(|| index('D').and_then(|index| analysis.deadlocks.get(index)).map(Goal::Deadlock))
    }

    /// The events in front of which the threads are to stand.
    pub fn then(&self) -> Vec<EventId> {
        match self {
            Goal::Race(race) => vec![race.first, race.second],
            Goal::Deadlock(deadlock) => deadlock.pending.clone(),
        }
    }

    /// Why no replay can show it, if so.
    pub fn cannot_be_replayed(&self) -> Option<&'static str> {
        let is_order = matches!(self, Goal::Race(race) if race.kind == RaceKind::Order);
        is_order.then_some(
            "in a race by memory order one access comes first in every run; what is wrong is that nothing orders them",
        )
    }

    fn witness(&self) -> (&'a Schedule, &'a [EventId]) {
        match self {
            Goal::Race(race) => (&race.witness, &race.spurious),
            Goal::Deadlock(deadlock) => (&deadlock.witness, &deadlock.spurious),
        }
    }

    /// Runs the program until the threads stand in front of their events.
    pub fn drive(
        &self,
        context: &Context,
        (trace, recorded): (&Trace, &Recorded),
        command: &[OsString],
        prints: Prints,
    ) -> Result<Driven, String> {
        let (witness, spurious) = self.witness();
        let then = self.then();
        let schedule = replay::along_witness(trace, recorded, witness.iter(trace), spurious, &then)?;
        context.detail(&format!("driving the program through {} turns", schedule.len()));
        replay::drive(trace, recorded, command.to_vec(), schedule, &then, prints)
    }
}

/// How often a replay did not do as it was asked, in words.
pub fn diverged(done: u64, all: u64, why: &str) -> String {
    format!("after {done} of {all} turns {why}")
}

/// Replays everything that was found in a recording; what the program prints is not shown again. An interrupt ends the replays.
pub fn all(context: &Context, of: (&Trace, &Recorded), command: &[OsString], analysis: &Analysis) -> Confirmations {
    let bars = context.bars();
    let count = analysis.races.len() + analysis.deadlocks.len();
    bars.phase("replaying", count as u64);
    let mut done = 0;
    let mut one = |goal: Goal| {
        let confirmation = one(context, of, command, &goal);
        done += 1;
        bars.advance(done);
        confirmation
    };
    let races = analysis.races.iter().map(|race| one(Goal::Race(race))).collect();
    let deadlocks = analysis.deadlocks.iter().map(|deadlock| one(Goal::Deadlock(deadlock))).collect();
    bars.clear();
    interrupt::doing(Doing::Work);
    Confirmations { races, deadlocks }
}

fn one(context: &Context, of: (&Trace, &Recorded), command: &[OsString], goal: &Goal) -> Confirmation {
    let not = |why: &str| Confirmation::NotConfirmed(why.to_owned());
    if let Some(why) = goal.cannot_be_replayed() {
        return not(why);
    }
    interrupt::doing(Doing::Program);
    if interrupt::asked() {
        return not("interrupted before it was replayed");
    }
    let driven = goal.drive(context, of, command, Prints::Nowhere);
    match driven {
        Ok(Driven::Confirmed(_)) => Confirmation::Confirmed,
        _ if interrupt::asked() => not("interrupted while it was replayed"),
        Ok(Driven::Diverged { done, all, why }) => Confirmation::NotConfirmed(diverged(done, all, &why)),
        Err(why) => Confirmation::NotConfirmed(why),
    }
}
