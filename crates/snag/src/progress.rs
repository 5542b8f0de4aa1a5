//! Progress bars on standard error, and the user's wish to stop.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use snag_predict::Progress;
use std::sync::Mutex;
use std::time::Duration;

/// One bar at a time; none at all if nobody watches.
pub struct Bars {
    watched: bool,
    current: Mutex<Option<ProgressBar>>,
}

impl Bars {
    /// Shows bars only if `watched`.
    pub fn new(watched: bool) -> Bars {
        Bars { watched, current: Mutex::new(None) }
    }

    /// Takes the bar off the screen, so that something can be printed.
    pub fn clear(&self) {
        if let Some(bar) = self.lock().take() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
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
        *self.lock() = Some(bar);
    }

    fn advance(&self, done: u64) {
        if self.watched
            && let Some(bar) = &*self.lock()
        {
            bar.set_position(done);
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::interrupted()
    }
}
