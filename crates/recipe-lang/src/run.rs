//! One run of a program under a scheduler, as a trace.

use crate::machine::{State, Status};
use crate::program::Program;
use crate::tracer::{Failure, Tracer};
use snag_model::Trace;
use snag_synthesis::Rng;

/// A part of a schedule: a thread, and how many steps it makes; `None`: all that it can.
pub type Turn = (usize, Option<usize>);

/// How threads take turns.
#[derive(Clone, Debug)]
pub struct Plan {
    /// First these turns.
    pub turns: Vec<Turn>,
    /// Then any thread that can, by chance.
    pub seed: u64,
    /// No more than so many events.
    pub most_events: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { turns: Vec::new(), seed: 0, most_events: 1_000_000 }
    }
}

impl Plan {
    /// Reads turns: names of threads with commas in between, each with `*n` for n steps or without for all that it can.
    pub fn parse_turns(program: &Program, text: &str) -> Result<Vec<Turn>, String> {
        let mut turns = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, steps) = match part.split_once('*') {
                None => (part, None),
                Some((name, steps)) => {
                    let steps = steps.parse().map_err(|_| format!("'{steps}' in '{part}' is no number of steps"))?;
                    (name, Some(steps))
                }
            };
            let Some(thread) = program.threads.iter().position(|thread| thread.name == name) else {
                let names: Vec<&str> = program.threads.iter().map(|thread| thread.name.as_str()).collect();
                return Err(format!("there is no thread '{name}'; there are {}", names.join(", ")));
            };
            turns.push((thread, steps));
        }
        Ok(turns)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Everything that happened.
    pub trace: Trace,
    /// Threads that failed.
    pub failures: Vec<Failure>,
    /// Threads that could not go on at the end, and where they stand.
    pub stuck: Vec<(String, String)>,
    /// Whether the run was cut off because it became too long.
    pub cut_off: bool,
}

/// Runs a program. An error if the plan has a thread make a step that it cannot make.
pub fn run(program: &Program, plan: &Plan) -> Result<Run, String> {
    let mut tracer = Tracer::new(program);
    let mut state = State::start(program, &mut tracer);
    let mut random = Rng::new(plan.seed);
    let mut cut_off = false;
    'turns: for &(thread, steps) in &plan.turns {
        for step in 0..steps.unwrap_or(usize::MAX) {
            if !state.can_step(program, thread) {
                match steps {
                    Some(steps) => {
                        let name = &program.threads[thread].name;
                        return Err(format!(
                            "thread {name} cannot make step {} of {steps}: {}",
                            step + 1,
                            why(program, &state, thread)
                        ));
                    }
                    None if step == 0 => {
                        let name = &program.threads[thread].name;
                        return Err(format!("thread {name} cannot run here: {}", why(program, &state, thread)));
                    }
                    None => break,
                }
            }
            state.step(program, thread, 0, &mut tracer);
            if tracer.trace.len() >= plan.most_events {
                cut_off = true;
                break 'turns;
            }
        }
    }
    while !cut_off {
        let able: Vec<usize> = (0..program.threads.len()).filter(|&t| state.can_step(program, t)).collect();
        if able.is_empty() {
            break;
        }
        let thread = random.pick(&able);
        let choice = random.below(state.choices(program, thread));
        state.step(program, thread, choice, &mut tracer);
        cut_off = tracer.trace.len() >= plan.most_events;
    }
    let mut stuck = Vec::new();
    for (thread, code) in program.threads.iter().enumerate() {
        if !matches!(state.threads[thread].status, Status::Done | Status::Failed | Status::NotForked) && !cut_off {
            let line = state.instruction(program, thread).map_or(0, |(_, line)| line);
            stuck.push((code.name.clone(), format!("{}:{line}: {}", program.file, why(program, &state, thread))));
        }
    }
    Ok(Run { trace: tracer.trace, failures: tracer.failures, stuck, cut_off })
}

/// Why a thread cannot make a step.
pub(crate) fn why(program: &Program, state: &State, thread: usize) -> String {
    match state.threads[thread].status {
        Status::NotForked => "it was not forked".to_owned(),
        Status::Done => "it has ended".to_owned(),
        Status::Failed => "it has failed".to_owned(),
        Status::Waiting { condition, .. } => format!("it waits for {}", program.conditions[condition]),
        Status::Running | Status::Woken { .. } => match state.wanted_lock(program, thread) {
            Some(lock) => {
                let holder = state.holder(thread, lock).map_or("nobody", |holder| &program.threads[holder].name);
                format!("it needs {}, which {holder} holds", program.locks[lock])
            }
            None => "it joins a thread that has not ended".to_owned(),
        },
    }
}
