//! Words for the user, on standard error. Nobody may be there to read them: it may be closed, or a pipe that is full. So a thread
//! of its own writes them, nothing of it is an error, and once the user wants to stop nobody waits long for that.

use crate::interrupt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

/// What is to be written, and whom to tell when it is.
type Words = (String, Option<SyncSender<()>>);

/// To the thread that writes; none if there can be no such thread.
static WRITER: OnceLock<Option<Sender<Words>>> = OnceLock::new();
/// Words were not written in time: for those that follow nobody waits at all.
static BLOCKED: AtomicBool = AtomicBool::new(false);

/// How often somebody who waits looks whether the user wants to stop, and how long it takes from then on at the most.
const GLANCE: Duration = Duration::from_millis(20);
const MOMENT: Duration = Duration::from_millis(200);

/// Says a line and waits until it is written.
pub fn line(text: &str) {
    say(format!("{text}\n"), interrupt::asked);
}

/// The same for a text that has its ends of lines.
pub fn text(text: String) {
    say(text, interrupt::asked);
}

/// Says a line before the program ends: nobody waits long for it.
pub fn last_line(text: &str) {
    say(format!("{text}\n"), || true);
}

/// Says a line without waiting.
pub fn soon(text: &str) {
    write((format!("{text}\n"), None));
}

/// Waits for what was said without waiting.
pub fn everything() {
    if WRITER.get().is_some() {
        say(String::new(), interrupt::asked);
    }
}

fn say(text: String, in_a_hurry: fn() -> bool) {
    let (sender, written) = mpsc::sync_channel(1);
    write((text, Some(sender)));
    let mut hurried: Option<Instant> = None;
    while let Err(RecvTimeoutError::Timeout) = written.recv_timeout(GLANCE) {
        if !in_a_hurry() {
            continue;
        }
        if BLOCKED.load(Ordering::Relaxed) || hurried.get_or_insert_with(Instant::now).elapsed() >= MOMENT {
            BLOCKED.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// Hands words to the thread that writes; writes them here if there is none.
fn write(words: Words) {
    match WRITER.get_or_init(start) {
        Some(writer) => _ = writer.send(words),
        None => put(&words.0),
    }
}

fn start() -> Option<Sender<Words>> {
    let (sender, words) = mpsc::channel::<Words>();
    let write_all = move || {
        for (text, written) in words {
            put(&text);
            // Whoever waited may have given up.
            let _ = written.map(|written| written.send(()));
        }
    };
    std::thread::Builder::new().name("words".to_owned()).spawn(write_all).ok().map(|_| sender)
}

fn put(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
