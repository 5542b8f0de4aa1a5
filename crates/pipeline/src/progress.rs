//! How far the work is, for whoever watches.

/// Told how far the work is; asked whether to stop.
pub trait Progress: Sync {
    /// A phase begins; `total` in its own units.
    fn phase(&self, name: &str, total: u64);
    /// So much of the phase is done.
    fn advance(&self, done: u64);
    /// Whether the user wants to stop; what was found until then is kept.
    fn cancelled(&self) -> bool;
}

/// Nobody is watching.
pub struct Quiet;

impl Progress for Quiet {
    fn phase(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn cancelled(&self) -> bool {
        false
    }
}
