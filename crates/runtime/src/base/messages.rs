//! Messages that the runtime itself prints.

use crate::base::kernel;

pub fn say(parts: &[&str]) {
    let mut line = [0u8; 512];
    let mut length = 0;
    for part in ["snag: "].iter().chain(parts).chain(&["\n"]) {
        for &byte in part.as_bytes() {
            if length < line.len() {
                line[length] = byte;
                length += 1;
            }
        }
    }
    kernel::write(2, &line[..length]);
}

/// Only before the program itself has started: later, recording ends and the program goes on.
pub fn die(why: &str) -> ! {
    say(&["the runtime cannot start: ", why]);
    kernel::exit_process(2)
}
