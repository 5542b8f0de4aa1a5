//! The processes that descend from this one: programs that it runs, and what these have started.

use snag_recorder::wire;
use std::collections::HashMap;
use std::time::Duration;

/// A process that is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    id: i32,
    parent: i32,
    group: i32,
    session: i32,
    stopped: bool,
}

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All of a program that is recorded, also those that have left their parents: daemons.
    All,
    /// Those of a build in our session: it may have started a server that is there for others, too.
    OfSession,
}

/// How often, and how long apart, processes are ended that start others all the while.
const ROUNDS: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// Sends a signal to each; those that are stopped are woken, to notice. Whoever is in our group has it already, if it was sent `to_group`.
/// How many there are.
pub fn send(which: Which, signal: i32, to_group: bool) -> usize {
    // SAFETY: a plain system call.
    let group = unsafe { libc::getpgrp() };
    let processes = descendants(which);
    for process in &processes {
        if !to_group || process.group != group {
            process.send(signal);
        }
        if process.stopped {
            process.send(libc::SIGCONT);
        }
    }
    processes.len()
}

/// Ends all of them, and those that they start meanwhile.
pub fn kill(which: Which) {
    for _ in 0..ROUNDS {
        let processes = descendants(which);
        if processes.is_empty() {
            return;
        }
        processes.iter().for_each(|process| process.send(libc::SIGKILL));
        std::thread::sleep(PAUSE);
    }
}

impl Process {
    fn send(&self, signal: i32) {
        // SAFETY: a plain system call. That the number has been given to another process since we looked is out of reach: numbers
        // are given again only after all others.
        unsafe { libc::kill(self.id, signal) };
    }

    /// From `/proc/ID/stat`; `None` if it is dead.
    fn parse(stat: &str) -> Option<Process> {
        let id = stat.split_once(' ')?.0.parse().ok()?;
        // The name, in parentheses, may contain anything.
        let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = rest.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        let mut number = || rest.next()?.parse().ok();
        Some(Process { id, parent: number()?, group: number()?, session: number()?, stopped: state == "T" })
    }
}

fn descendants(which: Which) -> Vec<Process> {
    let own = std::process::id() as i32;
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let all: HashMap<i32, Process> = ids
        .filter_map(|id| Process::parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
        .map(|process| (process.id, process))
        .collect();
    let descends = |process: &Process| {
        let mut parent = process.parent;
        // Numbers that were read one after the other may form a circle.
        for _ in 0..all.len() {
            match all.get(&parent) {
                _ if parent == own => return true,
                Some(process) => parent = process.parent,
                None => return false,
            }
        }
        false
    };
    let session = all.get(&own).map(|process| process.session);
    let wanted = |process: &&Process| match which {
        Which::All => descends(process) || is_marked(process.id, own),
        Which::OfSession => Some(process.session) == session && (descends(process) || is_of_build(process.id, own)),
    };
    all.values().filter(|process| process.id != own).filter(wanted).copied().collect()
}

/// The environment variable by which what a build has started is known, also when its parents have ended.
pub const BUILD: &str = "SNAG_BUILD";

fn is_of_build(process: i32, builder: i32) -> bool {
    variable(process, BUILD).is_some_and(|value| value == builder.to_string())
}

/// Whether its environment is that of a program which this process records.
fn is_marked(process: i32, recorder: i32) -> bool {
    variable(process, wire::VARIABLE).is_some_and(|path| {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.next() == Some("proc") && parts.next() == Some(&recorder.to_string())
    })
}

/// A variable of the environment with which a process began.
fn variable(process: i32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut entries = environment.split(|&byte| byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_spaces_do_not_confuse() {
        let process = Process::parse("17 (a) Z 1 (b)) S 5 6 7 0 -1 4194304").expect("it is alive");
        assert_eq!(process, Process { id: 17, parent: 5, group: 6, session: 7, stopped: false });
        assert_eq!(Process::parse("17 (a) Z 5 6 7 0"), None);
        assert!(Process::parse("17 (a) T 5 6 7 0").is_some_and(|process| process.stopped));
    }
}
