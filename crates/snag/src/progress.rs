//! Progress bars on standard error, and the user's wish to stop.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use snag_pipeline::Progress;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One bar at a time; none at all if nobody watches.
pub struct Bars {
    watched: bool,
    current: Mutex<Shown>,
    /// Whose work this was, nobody waits for it any more.
    closed: AtomicBool,
    /// What was found is being read again, which is not to be stopped.
    held: AtomicBool,
}

#[derive(Default)]
struct Shown {
    bar: Option<ProgressBar>,
    /// There will be no more.
    closed: bool,
}

impl Bars {
    /// Shows bars only if `watched`.
    pub fn new(watched: bool) -> Bars {
        Bars { watched, current: Mutex::default(), closed: AtomicBool::new(false), held: AtomicBool::new(false) }
    }

    /// Takes the bar off the screen, so that something can be printed.
    pub fn clear(&self) {
        if let Some(bar) = self.lock().bar.take() {
            bar.finish_and_clear();
        }
    }

    /// The same for ever: whoever still works for nobody shows nothing, and is told to stop.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.lock().closed = true;
        self.clear();
    }

    /// Does something that ends by itself in time; meanwhile nobody is told to stop.
    pub fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        self.clear();
        self.held.store(true, Ordering::Relaxed);
        let result = work();
        self.held.store(false, Ordering::Relaxed);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Progress for Bars {
    /// A total of 0 is one that nobody knows.
    fn phase(&self, name: &str, total: u64) {
        if !self.watched {
            return;
        }
        self.clear();
        let mut shown = self.lock();
        if shown.closed {
            return;
        }
        let bar = if total > 0 { ProgressBar::new(total) } else { ProgressBar::new_spinner() };
        let shape = match total {
            0 => "{msg} {spinner} {human_pos}",
            _ => "{msg} [{bar:30}] {percent} %  {eta} left",
        };
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        shown.bar = Some(bar);
    }

    fn advance(&self, done: u64) {
        if self.watched
            && let Some(bar) = &self.lock().bar
        {
            bar.set_position(done);
        }
    }

    fn cancelled(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || interrupt::interrupted() && !self.held.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_for_nobody_shows_nothing_and_is_told_to_stop() {
        let bars = Bars::new(true);
        bars.phase("looking", 10);
        assert!(bars.lock().bar.is_some() && !bars.cancelled());
        bars.close();
        bars.phase("looking on", 10);
        bars.advance(5);
        assert!(bars.lock().bar.is_none() && bars.cancelled());
    }
}
