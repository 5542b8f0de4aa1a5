//! What a recording knows beside its events, for reports.

use snag_model::events::Event;
use snag_model::{Action, Cells, EventId, LockId, Namer, Op, ThreadId, Trace, Variable};
use snag_recorder::recorded::Part;
use snag_recorder::{Recorded, Sources};
use snag_report::{Background, Frame};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A recording and what was worked out about its trace.
pub struct Recording {
    recorded: Arc<Recorded>,
    sources: Sources,
    /// Made when the first question is about memory.
    cells: OnceLock<Cells>,
}

impl Recording {
    /// Reads it; `None` if the trace was not recorded by us. Gives variables of the program their names. Source files below `roots` may
    /// be shown.
    pub fn read(
        path: &Path,
        trace: &mut Trace,
        part: Part,
        roots: &[PathBuf],
    ) -> snag_formats::Result<Option<Recording>> {
        let recorded = Recording::name_variables(path, trace, part)?;
        let with = |recorded| Recording { recorded, sources: Sources::new(roots), cells: OnceLock::new() };
        Ok(recorded.map(with))
    }

    /// The same for a trace that an engine may still look at which was given up: then it is copied.
    pub fn read_shared(
        path: &Path,
        trace: &mut Arc<Trace>,
        part: Part,
        roots: &[PathBuf],
    ) -> snag_formats::Result<Option<Recording>> {
        Recording::read(path, Arc::make_mut(trace), part, roots)
    }

    /// Gives variables of the program their names, if the trace was recorded by us.
    pub fn name_variables(path: &Path, trace: &mut Trace, part: Part) -> snag_formats::Result<Option<Arc<Recorded>>> {
        let Some(recorded) = Recorded::read(path, trace, part)?.map(Arc::new) else { return Ok(None) };
        let names = recorded.clone();
        trace.tables.namer = Some(Namer(Arc::new(move |address, size| names.part(address, size))));
        Ok(Some(recorded))
    }

    /// What was recorded beside the events.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Code of the program that nobody saw, and why.
    pub fn unseen(&self) -> &[String] {
        &self.recorded.unseen
    }

    /// Where the locks were in memory.
    pub fn locks(&self) -> impl Iterator<Item = (LockId, u64)> {
        self.recorded.code.locks()
    }

    /// Where the program itself was at an event, not a library of its language.
    fn place(&self, trace: &Trace, event: EventId) -> String {
        let own = self.stack(trace, event).into_iter().find(Frame::is_own);
        own.map_or_else(|| trace.location_of(event).to_owned(), |frame| frame.place)
    }
}

impl Background for Recording {
    fn stack(&self, trace: &Trace, event: EventId) -> Vec<Frame> {
        let frames = self.recorded.stack(trace, event).into_iter();
        // What lies below the program's own functions tells nobody anything.
        let own =
            |frame: &snag_recorder::Frame| !frame.place.starts_with("libc.so") && !frame.place.starts_with("memfd:");
        let program = |frame: &snag_recorder::Frame| !frame.function.contains("__rust_begin_short_backtrace");
        let frames = frames.take_while(program).filter(own);
        frames.map(|frame| Frame { function: frame.function, place: frame.place }).collect()
    }

    fn memory(&self, trace: &Trace, event: EventId) -> Option<String> {
        let id = trace.action(event).variable()?;
        let Variable::Range { address, size } = trace.tables.variable(id) else { return None };
        let text = trace.tables.variable_text(id);
        if let Some((name, _)) = self.recorded.data(address) {
            let whole = self.recorded.data_size(address)?;
            return Some(format!("{name} is a variable of {whole} bytes at {:#x}", self.recorded.data_start(address)?));
        }
        let block = self.cells.get_or_init(|| Cells::of(trace)).block_of_event(event.index())?;
        let whole = trace.tables.variable(trace.action(block).variable()?);
        let Variable::Range { address: start, size: whole } = whole else { return None };
        let place = match self.place(trace, block) {
            place if place.is_empty() => String::new(),
            place => format!(" at {place}"),
        };
        Some(format!(
            "{text}: {size} bytes at offset {} of a heap block of {whole} bytes, allocated by {}{place}",
            address - start,
            trace.tables.thread_name(trace.thread_of(block)),
        ))
    }

    fn thread(&self, trace: &Trace, thread: ThreadId) -> Option<(String, Vec<Frame>)> {
        let starts = |event: &Event| matches!(event.action(), Action::Fork { thread: child, .. } if child == thread);
        let (fork, _) = trace.events_of(&[Op::Fork]).find(|(_, event)| starts(event))?;
        let name = self.recorded.thread_name(thread).map_or(String::new(), |name| format!(" ('{name}')"));
        let created = format!(
            "{}{name} was created by {}",
            trace.tables.thread_name(thread),
            trace.tables.thread_name(trace.thread_of(fork)),
        );
        match Frame::own(self.stack(trace, fork)) {
            stack if stack.len() > 1 => Some((format!("{created}:"), stack)),
            _ => Some((format!("{created} at {}", self.place(trace, fork)), Vec::new())),
        }
    }

    fn source(&self, path: &str, line: u64) -> Option<String> {
        self.sources.line(&self.recorded, path, line)
    }
}
