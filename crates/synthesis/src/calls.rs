//! Which method an event belongs to.
//!
//! A complete trace says so by marks: `begin(m)` and `end(m)`, as RAPID's traces have them, or `call m` and
//! `return m`. Where it has none, its events can be given to methods one by one (by file, by function, by thread); then
//! what a thread does in one of them without interruption is a call.

use snag_model::op::Op;
use snag_model::tables::Space;
use snag_model::{Action, Trace};

/// In place of a call: none.
pub const NO_CALL: u32 = u32::MAX;

/// A call of a method.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Its first event: the mark, or what it does first.
    pub begin: usize,
    /// Its last event, if it has come to that.
    pub end: Option<usize>,
    /// The call that it was made from, or [`NO_CALL`].
    pub parent: u32,
    /// Whether its first and last events are its own, not marks.
    pub is_run: bool,
}

/// The calls of a trace.
#[derive(Debug, Default)]
pub struct Calls {
    /// All of them, by their first event.
    pub all: Vec<Call>,
    /// The innermost call of each event, or [`NO_CALL`]; a mark belongs to the call that it begins or ends.
    pub of_event: Vec<u32>,
}

/// What a mark says about calls.
enum Said<'a> {
    Begin(&'a str),
    End(&'a str),
}

fn read_mark(text: &str) -> Option<Said<'_>> {
    let bracket = |word: &str| text.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')').filter(|m| !m.is_empty());
    let word = |word: &str| text.strip_prefix(word)?.strip_prefix(' ').filter(|m| !m.is_empty());
    None.or_else(|| bracket("begin").or_else(|| word("call")).map(Said::Begin))
        .or_else(|| bracket("end").or_else(|| word("return")).map(Said::End))
}

impl Calls {
    /// Those that the marks of a trace tell of. An end that does not belong to the innermost call is just a mark.
    pub fn marked(trace: &Trace) -> Calls {
        let mut calls = Calls { all: Vec::new(), of_event: vec![NO_CALL; trace.len()] };
        let mut open: Vec<Vec<u32>> = vec![Vec::new(); trace.tables.thread_count()];
        let texts = trace.tables.names(Space::Text);
        for (index, event) in trace.events.iter().enumerate() {
            let stack = &mut open[event.thread.index()];
            let said = match event.action() {
                Action::Mark { text } => read_mark(texts.get(text.index())),
                _ => None,
            };
            if let Some(Said::Begin(method)) = said {
                let parent = stack.last().copied().unwrap_or(NO_CALL);
                stack.push(calls.all.len() as u32);
                calls.all.push(Call { method: method.to_owned(), begin: index, end: None, parent, is_run: false });
            }
            let innermost = stack.last().copied().unwrap_or(NO_CALL);
            calls.of_event[index] = innermost;
            if let Some(Said::End(method)) = said
                && innermost != NO_CALL
                && calls.all[innermost as usize].method == method
            {
                calls.all[innermost as usize].end = Some(index);
                stack.pop();
            }
        }
        calls
    }

    /// Whether the trace tells of any.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What each thread does in one method without interruption is a call. `method` is asked for each event;
    /// forks, joins, begins and ends of threads belong to no method.
    pub fn runs(trace: &Trace, mut method: impl FnMut(usize) -> Option<String>) -> Calls {
        let mut calls = Calls { all: Vec::new(), of_event: vec![NO_CALL; trace.len()] };
        let mut last: Vec<u32> = vec![NO_CALL; trace.tables.thread_count()];
        for index in 0..trace.len() {
            let current = &mut last[trace.events.threads()[index].index()];
            let Some(name) = method(index) else {
                *current = NO_CALL;
                continue;
            };
            if *current == NO_CALL || calls.all[*current as usize].method != name {
                *current = calls.all.len() as u32;
                let call = Call { method: name, begin: index, end: None, parent: NO_CALL, is_run: true };
                calls.all.push(call);
            }
            calls.all[*current as usize].end = Some(index);
            calls.of_event[index] = *current;
        }
        calls
    }

    /// Whether each call itself, not what it calls, synchronises: uses a lock, forks, joins, waits, accesses atomics.
    pub fn synchronising(&self, trace: &Trace) -> Vec<bool> {
        let mut found = vec![false; self.all.len()];
        for (index, &op) in trace.events.ops().iter().enumerate() {
            let silent = op.is_plain_access()
                || op.on_other_side()
                || matches!(op, Op::Begin | Op::End | Op::Alloc | Op::Free | Op::Branch | Op::Let | Op::Mark)
                || matches!(op, Op::MethodBegin | Op::MethodEnd | Op::Reach);
            if !silent && self.of_event[index] != NO_CALL {
                found[self.of_event[index] as usize] = true;
            }
        }
        found
    }
}
