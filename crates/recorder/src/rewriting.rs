//! Answers the processes of a recording that ask what to rewrite in their programs.
//!
//! Which programs will be instrumented is not known when a recording starts: what is started may be a script, and what
//! it starts may replace itself. So every process that loads the runtime asks, before anything of its program runs
//! ([`Header::asks`]), and waits for the answer, which a thread of its own gives here: translating what others record
//! keeps nobody waiting. The file that a process runs is the one that `/proc` names, whatever has become of its path.
//!
//! What was decided about a file is kept while this process runs, as replays start the same program again and again.

use crate::futex;
use crate::ring::{Mapping, is_dead, memory_file, seal};
use crate::selection::Selection;
use crate::wire::{ANSWERED, DEAF, Header, NO_LIST};
use snag_patches::Runtime;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Gives answers as long as it lives.
pub struct Answers {
    mapping: Arc<Mapping>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// Starts to answer. The program that is probably asked about first is looked at while it is being started.
    pub fn give(mapping: Arc<Mapping>, program: PathBuf, selection: Selection) -> io::Result<Answers> {
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, end) = (mapping.clone(), ends.clone());
        let thread = std::thread::Builder::new().name("rewriting".to_owned()).spawn(move || {
            decide(&program, &selection);
            answer_all(shared.header(), &selection, &end);
        })?;
        Ok(Answers { mapping, ends, thread: Some(thread) })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.ends.store(true, Release);
        let asks = &self.mapping.header().asks;
        asks.store(DEAF, Release);
        futex::wake(asks);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long a process that takes its answer, or does not ask, is left alone before somebody looks whether it is there.
const PATIENCE: Duration = Duration::from_millis(100);

fn answer_all(header: &Header, selection: &Selection, ends: &AtomicBool) {
    let asks = &header.asks;
    // Kept until it is taken.
    let mut given: Option<OwnedFd> = None;
    while !ends.load(Acquire) {
        let now = asks.load(Acquire);
        let process = now >> 1;
        if now == 0 || now == DEAF {
            drop(given.take());
        } else if now & ANSWERED == 0 {
            let file = format!("/proc/{process}/exe");
            given = decide(Path::new(&file), selection).and_then(|list| file_of(&list).ok());
            header.answer.store(given.as_ref().map_or(NO_LIST, |list| list.as_raw_fd() as u32), Relaxed);
            let _ = asks.compare_exchange(now, now | ANSWERED, AcqRel, Relaxed);
            futex::wake(asks);
            continue;
        } else if is_dead(process) {
            // Before it could make room for the next one.
            let _ = asks.compare_exchange(now, 0, AcqRel, Relaxed);
            futex::wake(asks);
            continue;
        }
        futex::wait(asks, now, PATIENCE);
    }
}

/// A list as a file in memory that nobody can change.
fn file_of(list: &[u64]) -> io::Result<OwnedFd> {
    let bytes: Vec<u8> = list.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut file = File::from(memory_file("snag-rewriting")?);
    file.write_all(&bytes)?;
    let file = OwnedFd::from(file);
    seal(&file, true)?;
    Ok(file)
}

/// What tells a file from another one, and from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let data = file.metadata()?;
        Ok(Identity {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: [data.mtime(), data.mtime_nsec()],
            changed: [data.ctime(), data.ctime_nsec()],
        })
    }
}

type List = Option<Arc<[u64]>>;

/// So many files are known; those that were looked at first are forgotten.
const MOST: usize = 64;

static KNOWN: Mutex<Vec<(Identity, Selection, List)>> = Mutex::new(Vec::new());

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::read(snag_runtime::LIBRARY));

/// What to rewrite in a program: nothing if its file cannot be read.
fn decide(program: &Path, selection: &Selection) -> List {
    let file = File::open(program).ok()?;
    let identity = Identity::of(&file).ok()?;
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., list)) = known().iter().find(|(file, chosen, _)| *file == identity && chosen == selection) {
        return list.clone();
    }
    let is_excluded = |symbol: &[u8]| selection.leaves_out(symbol);
    let list = snag_patches::decide(&object::ReadCache::new(file), &RUNTIME, &is_excluded).map(Arc::from);
    let mut known = known();
    if known.len() == MOST {
        known.remove(0);
    }
    known.push((identity, selection.clone(), list.clone()));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Ring, Settings};
    use crate::wire::patches::List as Patches;
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    /// As the runtime does it, except that what it waits for comes before long.
    fn wait_until(header: &Header, is_right: impl Fn(u32) -> bool) {
        let start = Instant::now();
        while !is_right(header.asks.load(Acquire)) {
            assert!(start.elapsed() < Duration::from_secs(60), "asks is {}", header.asks.load(Acquire));
            std::thread::yield_now();
        }
    }

    fn ask(header: &Header, process: u32) -> u32 {
        let asked = process << 1;
        wait_until(header, |now| now == 0 && header.asks.compare_exchange(0, asked, AcqRel, Relaxed).is_ok());
        futex::wake(&header.asks);
        wait_until(header, |now| now == asked | ANSWERED);
        header.answer.load(Acquire)
    }

    fn take(header: &Header) {
        header.asks.store(0, Release);
        futex::wake(&header.asks);
    }

    #[test]
    fn whoever_asks_is_answered_one_after_the_other() {
        let ring = Ring::new(&Settings::default()).unwrap();
        let (program, mapping) = (std::env::current_exe().unwrap(), ring.mapping());
        let answers = Answers::give(ring.mapping(), program.clone(), Selection::default()).unwrap();
        let header = mapping.header();
        let this = std::process::id();
        // This test was compiled by LLVM, so its writes may count as reads.
        let expected = decide(&program, &Selection::default()).expect("a list");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let descriptor = ask(header, this);
                        let mut list = File::open(format!("/proc/self/fd/{descriptor}")).unwrap();
                        let mut bytes = Vec::new();
                        list.read_to_end(&mut bytes).unwrap();
                        assert!(list.write_at(b"x", 0).is_err(), "nobody can change it");
                        take(header);
                        let (words, _) = bytes.as_chunks();
                        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
                        assert_eq!(words[..], expected[..]);
                        assert!(Patches::new(&words).is_some());
                    }
                });
            }
        });
        // A process that dies before it has taken its answer keeps nobody waiting.
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let asked = dead.id() << 1;
        wait_until(header, |now| now == 0 && header.asks.compare_exchange(0, asked, AcqRel, Relaxed).is_ok());
        futex::wake(&header.asks);
        ask(header, this);
        // One that still waits when the recording ends waits no longer.
        drop(answers);
        assert_eq!(header.asks.load(Acquire), DEAF);
    }

    #[test]
    fn a_file_that_has_changed_is_another_one() {
        let path = std::env::temp_dir().join(format!("snag-rewriting-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        assert!(decide(&path, &Selection::default()).is_some());
        let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_ne!(Identity::of(&File::open(&path).unwrap()).unwrap(), identity);
        assert!(decide(&path, &Selection::default()).is_none());
        std::fs::remove_file(&path).unwrap();
    }
}
