//! From the pairs that an engine believes in to findings.
//!
//! Provers propose schedules, one after the other; the checker judges each. What it accepts is filed; what it refuses, or
//! what nobody has a schedule for, goes to the next prover, and is in the end a candidate.

mod order;
mod search;
mod shb;

use crate::analysis::NOT_CHECKED;
use crate::filing::{Filing, refused};
use crate::time::GRACE;
pub(crate) use order::in_other_schedules;
pub(crate) use search::standoffs;
use snag_checker::Series;
use snag_engines::watch::{Watch, on_all_cores, watched};
use snag_engines::{Context, Found, Host, LocationPair, Prover, Subject, TOO_MANY};
use snag_model::{EventId, RaceKind, Schedule};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A pair on its way to become a finding.
struct Claim {
    pair: LocationPair,
    /// What the schedule is to show.
    kind: RaceKind,
    /// A schedule to try.
    proposal: Option<Schedule>,
    state: State,
}

/// How far a claim is.
enum State {
    /// Not proved, and why.
    Open(String),
    /// There was no time to decide about it.
    TooLate,
    Proved,
}

impl Claim {
    fn is_open(&self) -> bool {
        !matches!(self.state, State::Proved)
    }

    /// The recorded run is to show it, as a race by memory order.
    fn as_observed(&mut self) {
        self.kind = RaceKind::Order;
        self.proposal = Some(Schedule::up_to(self.pair.second));
    }

    /// Behind all events that matter: a schedule may go beyond the later event of its pair.
    fn end(&self) -> EventId {
        let last = EventId(self.pair.second.0 + 1);
        self.proposal.as_ref().map_or(last, |schedule| last.max(end_of(schedule)))
    }
}

/// Behind all events of a schedule.
pub(crate) fn end_of(schedule: &Schedule) -> EventId {
    let behind = |events: &[EventId]| events.iter().max().map_or(EventId(0), |event| EventId(event.0 + 1));
    match schedule {
        Schedule::Prefixes(ends) => ends.iter().copied().max().unwrap_or(EventId(0)),
        Schedule::List(events) => behind(events),
        Schedule::Continued { as_observed, then } => behind(then).max(*as_observed),
        Schedule::Turns { ends, turns } => ends.iter().copied().fold(behind(turns), EventId::max),
    }
}

/// Proves what an engine has found, as far as it can be proved.
pub(crate) fn prove(filing: &Filing, context: &Context, found: &mut Found) {
    let most = context.settings.max_races;
    let mut pairs = std::mem::take(&mut found.pairs);
    filing.leave(Subject::LocationPair, TOO_MANY, pairs.len().saturating_sub(most));
    // The earliest ones, which have the shortest schedules.
    pairs.sort_by_key(|pair| (pair.second, pair.first));
    pairs.truncate(most);
    let kind = RaceKind::Predictable;
    let open = |pair| Claim { pair, kind, proposal: None, state: State::Open(found.otherwise.to_owned()) };
    let mut claims: Vec<Claim> = pairs.into_iter().map(open).collect();
    for prover in &mut found.provers {
        let mut open: Vec<&mut Claim> = claims.iter_mut().filter(|claim| claim.is_open()).collect();
        if open.is_empty() {
            break;
        }
        match prover {
            Prover::Own(propose) => {
                let pairs: Vec<LocationPair> = open.iter().map(|claim| claim.pair.clone()).collect();
                for (claim, proposal) in open.iter_mut().zip(propose(&pairs)) {
                    if proposal.is_none() && filing.is_over() {
                        claim.state = State::TooLate;
                    }
                    claim.proposal = proposal;
                }
            }
            Prover::Shb => shb::propose(context, &mut open),
            Prover::Observed => open.iter_mut().for_each(|claim| claim.as_observed()),
            Prover::Search => search::propose(filing, context, &mut open),
        }
        judge(filing, &mut open);
    }
    for Claim { pair, state, .. } in claims {
        match state {
            State::Proved => {}
            State::Open(reason) => filing.file_unproved(&pair, &reason),
            State::TooLate => filing.not_checked(&pair),
        }
    }
}

/// Has the checker judge the proposals, on all cores. Those whose schedules begin alike are judged together.
fn judge(filing: &Filing, claims: &mut [&mut Claim]) {
    let level = filing.level();
    let Some(end) = claims.iter().filter(|claim| claim.proposal.is_some()).map(|claim| claim.end()).max() else {
        return;
    };
    let checker = filing.checker(end);
    let mut in_order: Vec<usize> = (0..claims.len()).filter(|&at| claims[at].proposal.is_some()).collect();
    filing.phase(&format!("{}: proving", filing.engine.name()), in_order.len() as u64);
    in_order.sort_by_cached_key(|&at| claims[at].proposal.as_ref().map(|schedule| checker.as_observed(schedule)));
    let verdicts: Vec<Mutex<State>> = claims.iter().map(|_| Mutex::new(State::TooLate)).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shared: &[&mut Claim] = claims;
    let worker = || {
        let mut series = checker.series(level);
        while let Some(&at) = in_order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if filing.is_over() {
                break;
            }
            let state = verdict(filing, &mut series, shared[at]);
            *verdicts[at].lock().expect("no judge panics") = state;
            filing.advance(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        }
    };
    let stop = AtomicBool::new(false);
    let total = in_order.len();
    let watch = Watch { stop: &stop, done: &done, total, grace: GRACE, reason: NOT_CHECKED };
    watched(filing, &watch, || on_all_cores(filing.options.settings.jobs, in_order.len(), worker));
    for at in in_order {
        claims[at].state = std::mem::replace(&mut *verdicts[at].lock().expect("no judge panics"), State::TooLate);
        claims[at].proposal = None;
    }
}

fn verdict(filing: &Filing, series: &mut Series, claim: &Claim) -> State {
    let Claim { pair, kind, proposal, .. } = claim;
    let Some(schedule) = proposal else { return State::Open(NOT_CHECKED.to_owned()) };
    match series.check(*kind, schedule, pair.first, pair.second) {
        Ok(()) => {
            filing.file(pair, *kind, filing.level(), schedule.clone());
            State::Proved
        }
        Err(violation) => State::Open(refused(violation)),
    }
}
