//! How a thread waits for the token, and how it is given to it.
//!
//! Each thread has a word of its own. Whoever has the token writes `GO` into the word of the thread that comes next,
//! and never looks at what the token guards again before it gets it back; that thread takes the word away and goes on.

use super::Word;
use core::sync::atomic::Ordering::*;

/// The thread runs, or looks at the word before it sleeps.
const NOTHING: u32 = 0;
/// It was given the token.
const GO: u32 = 1;
/// It sleeps. Said only where [`Sleepers`] say so.
const ASLEEP: u32 = 2;
/// A signal has come; it looks whether it should go on waiting.
const SIGNALLED: u32 = 3;

/// Whether a thread says that it goes to sleep. Where the token changes hands all the time, mostly before the next
/// thread sleeps, that saves waking it; else it is one step more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sleepers {
    Silent,
    SaySo,
}

pub struct Go<W>(W);

impl<W> From<W> for Go<W> {
    fn from(word: W) -> Go<W> {
        Go(word)
    }
}

impl<W: Word> Go<W> {
    /// Gives the token to the thread whose word this is.
    pub fn give(&self, sleepers: Sleepers) {
        if self.0.swap(GO, AcqRel) == ASLEEP || sleepers == Sleepers::Silent {
            self.0.wake();
        }
    }

    /// The thread goes on without the token, as there is none any more.
    pub fn let_go(&self) {
        self.0.swap(GO, AcqRel);
        self.0.wake();
    }

    /// Whether the token seems to be there: worth a look.
    pub fn is_there(&self) -> bool {
        self.0.load(Relaxed) == GO
    }

    /// Takes the token if it is there.
    pub fn take(&self) -> bool {
        self.0.swap(NOTHING, Acquire) == GO
    }

    /// Sleeps, unless something has come since the thread looked; whether the time was up. It looks again either way.
    pub fn sleep(&self, sleepers: Sleepers, nanoseconds: u64) -> bool {
        let asleep = match sleepers {
            Sleepers::Silent => NOTHING,
            Sleepers::SaySo if self.0.change(NOTHING, ASLEEP, AcqRel) => ASLEEP,
            Sleepers::SaySo => return false,
        };
        self.0.sleep(asleep, Some(nanoseconds))
    }

    /// A signal has come for the thread, which runs this in its handler: if it sleeps, or is about to, it looks.
    pub fn signal(&self) {
        let _ = self.0.change(NOTHING, SIGNALLED, AcqRel) || self.0.change(ASLEEP, SIGNALLED, AcqRel);
    }
}
