//! Where the content of a cell comes from, in one word: there is one per read of
//! the trace and one per cell of a running check.

use snag_model::EventId;

/// The last write of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source(u32);

impl Source {
    /// Nobody wrote; zero, so that fresh memory is zeroed memory.
    pub const INITIAL: Source = Source(0);

    /// A write of a thread that has read something else: what it leaves is not
    /// known. No read of the trace saw it, so it equals nothing a read has to see.
    pub const UNKNOWN: Source = Source(u32::MAX);

    /// That write. Traces are shorter than 2³² − 2, so it is none of the above.
    #[inline(always)]
    pub fn write(event: EventId) -> Source {
        Source(event.0 + 1)
    }

    /// The write, if it is known which.
    pub fn event(self) -> Option<EventId> {
        let known = self != Source::INITIAL && self != Source::UNKNOWN;
        known.then(|| EventId(self.0 - 1))
    }
}

/// The last write of every cell.
#[derive(Clone)]
pub(crate) struct Sources {
    /// Bare numbers, because zeroed numbers come from the system for free: a short
    /// check of a trace with many cells touches few of them.
    last: Vec<u32>,
    /// What was there before each write since it was asked for, if it was.
    noted: Option<Vec<(usize, u32)>>,
}

impl Sources {
    /// Memory that nobody has written.
    pub fn new(cells: usize) -> Sources {
        Sources { last: vec![0; cells], noted: None }
    }

    /// The last write of a cell.
    #[inline(always)]
    pub fn get(&self, cell: usize) -> Source {
        Source(self.last[cell])
    }

    /// A cell is written.
    #[inline(always)]
    pub fn set(&mut self, cell: usize, source: Source) {
        let before = std::mem::replace(&mut self.last[cell], source.0);
        if let Some(noted) = &mut self.noted {
            note(noted, cell, before);
        }
    }

    /// From now on what is written can be taken back.
    pub fn note(&mut self) {
        self.noted = Some(Vec::new());
    }

    /// Memory is as it was when that was asked for.
    pub fn take_back(&mut self) {
        for (cell, before) in self.noted.take().into_iter().flatten().rev() {
            self.last[cell] = before;
        }
    }
}

/// Beside the path of an ordinary check.
#[cold]
#[inline(never)]
fn note(noted: &mut Vec<(usize, u32)>, cell: usize, before: u32) {
    noted.push((cell, before));
}
