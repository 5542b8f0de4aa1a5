//! Asks the tool what to rewrite in this program.
//!
//! Every process that loads this library asks, recorded or not: of several programs that a script starts one is
//! recorded, and all that carry a runtime inside need ours in its place. The question is the process's number, in the
//! shared header; the answer is the number of a descriptor of the tool, for a list that never changes. One process asks
//! at a time. The tool answers within a moment, and if it ends, so does the wait.
//!
//! This runs while the dynamic linker relocates this library, so it calls nothing from elsewhere.

use crate::base::kernel::{self, number, system};
use crate::base::lock::{futex_wait, futex_wake};
use crate::base::relaxed::Relaxed;
use crate::base::shared;
use crate::wire::patches::List;
use crate::wire::{self, ANSWERED, DEAF, Header, NO_LIST, PAGE};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Where the list is and how many words it has; 0 if there is none.
static WORDS: [Relaxed<usize>; 2] = [const { Relaxed::zero() }; 2];

/// What the tool has answered.
pub fn list() -> Option<List<'static>> {
    let [start, count] = [0, 1].map(|i: usize| WORDS[i].get());
    if start == 0 {
        return None;
    }
    // SAFETY: `ask` has mapped a file of so many words there, which nobody can change and which stays mapped.
    List::new(unsafe { core::slice::from_raw_parts(start as *const u64, count) })
}

/// Asks. Afterwards [`list`] has the answer.
pub fn ask() {
    let place = shared::place();
    let descriptor = kernel::open(&place, 2);
    if descriptor < 0 {
        return;
    }
    let is_long = kernel::file_length(descriptor) > PAGE as i64;
    let start = if is_long { map(descriptor, PAGE, SHARED) } else { None };
    kernel::close(descriptor);
    let Some(start) = start else { return };
    // SAFETY: a page of the shared memory is mapped there until the end of this function. What changes is atomic.
    let header = unsafe { &*(start as *const Header) };
    if header.magic == wire::MAGIC
        && header.version == wire::VERSION
        && let Some(answer) = exchange(header, &place)
    {
        WORDS[0].set(answer.start);
        WORDS[1].set(answer.bytes / size_of::<u64>());
    }
    // SAFETY: it was mapped above, and the reference is not used any more.
    unsafe { kernel::unmap(start, PAGE) };
}

/// A list, mapped.
struct Answer {
    start: usize,
    bytes: usize,
}

/// Puts the question, takes the answer, and lets the next one ask.
fn exchange(header: &Header, place: &Place) -> Option<Answer> {
    let asked = this_process()? << 1;
    let answered = asked | ANSWERED;
    let asks = &header.asks;
    wait_until(asks, place, |now| now == 0 && asks.compare_exchange(0, asked, AcqRel, Relaxed).is_ok())?;
    futex_wake(asks, u32::MAX >> 1, true);
    wait_until(asks, place, |now| now == answered)?;
    let answer = take(header.answer.load(Acquire), place);
    let _ = asks.compare_exchange(answered, 0, AcqRel, Relaxed);
    futex_wake(asks, u32::MAX >> 1, true);
    answer
}

/// Waits until a word is as it should be; `None` if the tool does not answer any more.
fn wait_until(word: &AtomicU32, place: &Place, is_right: impl Fn(u32) -> bool) -> Option<()> {
    const PATIENCE: u64 = 100_000_000;
    loop {
        let value = word.load(Acquire);
        if is_right(value) {
            return Some(());
        }
        if value == DEAF {
            return None;
        }
        if futex_wait(word, value, Some(PATIENCE), true) < 0 {
            let descriptor = kernel::open(place, 2);
            if descriptor < 0 {
                return None;
            }
            kernel::close(descriptor);
        }
    }
}

/// Maps the list behind a descriptor of the tool.
fn take(answer: u32, place: &Place) -> Option<Answer> {
    if answer == NO_LIST {
        return None;
    }
    let descriptor = kernel::open(&beside(place, answer), 0);
    if descriptor < 0 {
        return None;
    }
    let bytes = kernel::file_length(descriptor).max(0) as usize;
    let start = map(descriptor, bytes, PRIVATE);
    kernel::close(descriptor);
    Some(Answer { start: start?, bytes })
}

const SHARED: usize = 1;
const PRIVATE: usize = 2;

/// Maps the beginning of a file: for writing, too, if it is shared.
fn map(descriptor: i64, length: usize, how: usize) -> Option<usize> {
    const READ: usize = 1;
    const WRITE: usize = 2;
    let access = if how == SHARED { READ | WRITE } else { READ };
    // SAFETY: the kernel maps the file where nothing is.
    let start = unsafe { system(number::MMAP, [0, length, access, how, descriptor as usize, 0]) };
    (start > 0).then_some(start as usize)
}

type Place = [u8; wire::PLACE.len()];

/// The path of another descriptor of the process that a path is about.
fn beside(place: &Place, descriptor: u32) -> Place {
    let end = place.iter().position(|&byte| byte == 0).unwrap_or(0);
    let slash = place[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let digits = descriptor.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = descriptor;
    let mut path = *place;
    for at in (slash + 1..path.len()).rev() {
        path[at] = 0;
        if at <= slash + digits {
            path[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    path
}

/// The number by which the tool finds this process: the one that `/proc` has for it.
fn this_process() -> Option<u32> {
    const AT_FDCWD: usize = -100isize as usize;
    let mut number = [0u8; 16];
    let path = c"/proc/self".as_ptr() as usize;
    let start = number.as_mut_ptr() as usize;
    // SAFETY: the kernel reads the path up to its zero byte, and writes at most sixteen bytes where there are as many.
    let length = unsafe { system(number::READLINKAT, [AT_FDCWD, path, start, number.len(), 0, 0]) };
    let digits = number.get(..length.max(0) as usize)?;
    let parsed = digits.iter().fold(0u32, |all, digit| all.wrapping_mul(10).wrapping_add((digit - b'0') as u32));
    (parsed != 0 && parsed < DEAF >> 1).then_some(parsed)
}

/// Where the program's headers are, by the kernel.
pub fn program_headers() -> Option<usize> {
    let file = kernel::open(b"/proc/self/auxv\0", 0);
    if file < 0 {
        return None;
    }
    const HEADERS: u64 = 3;
    // One by one: to clear a larger buffer the compiler calls a function from elsewhere.
    let entries = core::iter::from_fn(|| {
        let mut words = [[0u8; 8]; 2];
        let length = kernel::read(file, words.as_flattened_mut());
        (length == 16).then(|| words.map(u64::from_le_bytes))
    });
    let found = entries.take_while(|[kind, _]| *kind != 0).find(|[kind, _]| *kind == HEADERS);
    kernel::close(file);
    found.map(|[_, address]| address as usize)
}
