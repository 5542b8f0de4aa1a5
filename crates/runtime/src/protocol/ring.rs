//! The program's side of the ring of chunks: it fills one after the other and waits while the tool has not emptied the
//! one that would come next.

use super::Word;
use core::sync::atomic::Ordering::*;

/// A chunk is full: `filled` have been, with this one. Whoever sees the number sees all that is in them.
pub fn hand_over<W: Word>(filled: u32, in_header: &W) {
    in_header.store(filled, Release);
    in_header.wake();
}

/// Waits until fewer chunks are full than the ring has, so that the next one is empty. `is_over` is asked when nothing
/// has happened for a while; false if it says so, and nobody empties chunks any more.
pub fn await_empty<W: Word>(filled: u32, chunks: u32, emptied: &W, pause: u64, is_over: impl Fn() -> bool) -> bool {
    loop {
        let before = emptied.load(Acquire);
        // Both count for ever, and wrap.
        if filled.wrapping_sub(before) < chunks {
            return true;
        }
        if emptied.sleep(before, Some(pause)) && is_over() {
            return false;
        }
    }
}
