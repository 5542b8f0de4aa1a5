//! Starts a program, records it, writes the trace.

use crate::beside::kind;
use crate::rewriting::Answers;
use crate::ring::{Drain, Ring, Settings};
use crate::runtime::Library;
use crate::seal::{SEAL, Seal};
use crate::selection::Selection;
use crate::symbols::Symbols;
use crate::translate::{Oddities, Translator, Unseen};
use crate::unknown;
use crate::unrecorded;
use crate::wire;
use sha2::{Digest, Sha256};
use snag_formats::OWNER_ONLY;
use snag_formats::snag_format::{RECORDED_EVENTS, RecordingWriter};
use snag_models::Models;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Turns, seed, schedule.
    pub settings: Settings,
    /// Where what it prints goes.
    pub prints: Prints,
    /// What the recording is sealed with, if it is.
    pub seal: Option<Seal>,
}

/// Where what a program prints goes.
#[derive(Clone, Debug, Default)]
pub enum Prints {
    /// Where ours goes.
    #[default]
    AsWeDo,
    /// All of it to our standard error, as our standard output is for something else.
    ToStandardError,
    /// Into a file that is open for reading and writing.
    Into(Arc<File>),
    /// Nowhere: it has been printed before.
    Nowhere,
}

/// Why there is no recording.
#[derive(Clone, Debug)]
pub struct Unrecorded {
    /// In words.
    pub message: String,
    /// How the program ended, if it was run to its end all the same.
    pub ended: Option<Ended>,
}

impl From<String> for Unrecorded {
    fn from(message: String) -> Unrecorded {
        Unrecorded { message, ended: None }
    }
}

/// How a recorded program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exit(i32),
    /// It died of this signal.
    Signal(i32),
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How the program ended.
    pub ended: Ended,
    /// It was ended here because its threads waited for each other for ever.
    pub deadlocked: bool,
    /// Events in the trace.
    pub events: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// What the user should know.
    pub oddities: Oddities,
    /// Functions without callbacks that were called, most often first.
    pub unseen: Vec<Unseen>,
    /// What the user's models say that does not fit the program.
    pub unfit_models: Vec<String>,
    /// What the program itself says about its reports.
    pub wishes: Wishes,
    /// Why the trace could not be written to its end, if so.
    pub unwritten: Option<String>,
    /// Processor time of the program, with all that it started and waited for.
    pub program_time: Duration,
    /// Processor time of recording it in this process.
    pub recorder_time: Duration,
}

/// What a program says about its reports, in functions that ThreadSanitizer calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// What `__tsan_default_options` returns.
    pub options: String,
    /// What `__tsan_default_suppressions` returns.
    pub suppressions: String,
}

/// A program that is being recorded.
pub struct Recorder {
    /// What both processes see.
    pub ring: Ring,
    /// The program.
    pub child: Child,
    _library: Library,
    /// To the program, and to all that it starts.
    _answers: Answers,
    command: Vec<OsString>,
    seal: Option<Seal>,
    /// Whether threads run freely.
    free: bool,
    /// What threads may still do when the program is about to end.
    drain: Drain,
    /// What functions of libraries do that are not instrumented.
    models: Models,
    /// Which functions are left out.
    selection: Selection,
    /// The translation.
    pub translator: Translator,
    /// Processor time of this process and of its children when the program was started.
    before: [Duration; 2],
}

/// Standard input from its beginning if it is a file, for a program that has read it before; else nothing.
fn same_input() -> Stdio {
    const INPUT: &str = "/proc/self/fd/0";
    let is_file = std::fs::metadata(INPUT).is_ok_and(|data| data.is_file());
    let file = is_file.then(|| File::open(INPUT).ok()).flatten();
    file.map_or_else(Stdio::null, Stdio::from)
}

/// Where a program is that is called by name.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

impl Recorder {
    /// Starts the program.
    pub fn start(options: &Options) -> Result<Recorder, String> {
        let Some(name) = options.command.first() else { return Err("no program to record".to_owned()) };
        let shown = Path::new(name).display();
        let program = find_program(Path::new(name)).ok_or_else(|| format!("{shown}: no such program"))?;
        if options.settings.free && !has_shared_clock() {
            return Err("threads cannot be recorded freely here: that needs a clock which all processors share \
                        (constant_tsc and nonstop_tsc in /proc/cpuinfo, tsc among the available clock sources)"
                .to_owned());
        }
        if let Some(why) = unrecorded::cannot_be_recorded(&program) {
            return Err(format!("{shown}: cannot be recorded: {why}"));
        }
        let ring = Ring::new(&options.settings).map_err(|error| format!("cannot share memory: {error}"))?;
        let cannot_record = |error: io::Error| format!("cannot record: {error}");
        let library = Library::for_program(&program, &ring.path()).map_err(cannot_record)?;
        let selection = options.settings.selection.clone();
        let answers = Answers::give(ring.mapping(), program.clone(), selection.clone()).map_err(cannot_record)?;
        let mut preload = OsString::from(library.path());
        for other in other_libraries() {
            preload.push(":");
            preload.push(other);
        }
        let mut command = Command::new(&program);
        command.args(&options.command[1..]).env("LD_PRELOAD", preload).env(wire::VARIABLE, ring.path());
        for (name, value) in options.settings.models.environment() {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command.env(PADDING, padding(&program, &command));
        match &options.prints {
            Prints::AsWeDo => {}
            Prints::ToStandardError => {
                let out = std::io::stderr().as_fd().try_clone_to_owned();
                command.stdout(out.map_err(|error| format!("cannot share standard error: {error}"))?);
            }
            Prints::Into(file) => {
                let files = file.try_clone().and_then(|file| Ok((file.try_clone()?, file)));
                let (out, err) = files.map_err(|error| format!("cannot share what is printed: {error}"))?;
                command.stdin(same_input()).stdout(out).stderr(err);
            }
            Prints::Nowhere => _ = command.stdin(same_input()).stdout(Stdio::null()).stderr(Stdio::null()),
        }
        without_randomisation(&mut command);
        let before = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(processor_time);
        let child = command.spawn().map_err(|error| format!("{shown}: cannot be started: {error}"))?;
        ring.started(child.id());
        let mut translator = Translator::new(Symbols::new(std::env::current_dir().ok()));
        if let Some(chunks) = ring.own_chunks() {
            translator.run_freely(chunks);
        }
        let (command, seal) = (options.command.clone(), options.seal.clone());
        let Settings { free, drain, ref models, .. } = options.settings;
        let models = models.clone();
        Ok(Recorder {
            ring,
            child,
            _library: library,
            _answers: answers,
            command,
            free,
            drain,
            models,
            selection,
            seal,
            translator,
            before,
        })
    }

    /// Starts a program and records it into a file. The file is opened first: if that fails, nothing has happened, and
    /// what was in it is there until the program runs.
    pub fn record_into(options: &Options, path: &Path, started: impl FnOnce(u32)) -> Result<Summary, Unrecorded> {
        let new = !path.exists();
        let cannot =
            |error: io::Error| format!("{}: cannot create: {}", path.display(), snag_formats::why_not_created(&error));
        let file = File::options().write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path);
        let file = file.map_err(cannot)?;
        // Of a file that was there before.
        make_private(&file).map_err(cannot)?;
        let recorder = Recorder::start(options).inspect_err(|_| {
            if new {
                remove(path);
            }
        })?;
        started(recorder.child.id());
        // A pipe or a device has no length.
        let _ = file.set_len(0);
        recorder.record(file, path)
    }

    /// Looks at what the program has not handed over yet, and writes what was translated: if this process is killed, that can be
    /// read.
    fn keep_up(&mut self, output: &mut Output) {
        let translator = &mut self.translator;
        let mut take = |translator: &mut Translator| output.take(translator);
        self.ring.peek(|words| translator.part(words, &mut take));
        if translator.count() as u64 > output.told || translator.has_many_turns() {
            output.end_block(translator);
        }
    }

    /// Translates the next chunk, if one is full before long; else false.
    pub fn next(&mut self, patience: Duration, take: &mut dyn FnMut(&mut Translator)) -> bool {
        let Recorder { ring, translator, .. } = self;
        translator.extent.is_of(ring.owner());
        let full = ring.next(patience, |words| translator.chunk(words, false, take));
        if translator.oddities.damaged.is_some() {
            ring.abandon();
        }
        full
    }

    /// What the program has done to what it shares with the recorder, if something is known.
    pub fn damage(&mut self) -> Option<String> {
        self.note_trouble();
        self.translator.oddities.damaged.as_ref().map(|what| format!("{DAMAGED}: {what}"))
    }

    /// Why nothing, or no more, is to be concluded from what was recorded so far, if that is so.
    pub fn trouble(&mut self) -> Option<String> {
        let damage = self.damage();
        let Oddities { limit, broken, .. } = &self.translator.oddities;
        damage.or_else(|| limit.clone()).or_else(|| broken.clone())
    }

    /// Records until the program has ended, into a file that is readable up to its last block at any time.
    fn record(mut self, file: File, path: &Path) -> Result<Summary, Unrecorded> {
        let writer = match RecordingWriter::new(BufWriter::new(file)) {
            Ok(writer) => writer,
            Err(error) => {
                let _ = self.child.kill().and_then(|()| self.child.wait());
                return Err(error.to_string().into());
            }
        };
        let readable = writer.readable();
        let mut writer = writer;
        writer.with_contended();
        let mut output = Output { writer, told: 0, unwritten: None };
        output.extra(self.about());
        let mut written = (Instant::now(), 0);
        let (mut deadlocked, mut stalls) = (false, 0);
        let ended = loop {
            let full = self.next(Duration::from_millis(50), &mut |translator| output.take(translator));
            if output.told != written.1 {
                written = (Instant::now(), output.told);
            }
            // While chunks come, blocks fill up by themselves, and are smaller for being whole.
            if written.0.elapsed() > if full { 5 * LONGEST } else { LONGEST } {
                self.keep_up(&mut output);
                self.translator.extent.look();
                // A stall that lasts is one that nobody ends.
                let is_stalled = self.ring.header().stalled.load(Acquire) != 0;
                stalls = if is_stalled && self.translator.is_deadlocked() { stalls + 1 } else { 0 };
                if stalls > STALLS && !deadlocked {
                    deadlocked = self.child.kill().is_ok();
                }
                written = (Instant::now(), output.told);
            }
            if full {
                continue;
            }
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => break status.into(),
                Err(error) => return Err(format!("cannot wait for the program: {error}").into()),
            }
        };
        self.translator.extent.ended();
        self.drain(&mut output);
        self.translator.end_waits();
        output.take(&mut self.translator);
        self.note_trouble();
        let is_recorded = self.ring.owner() != 0 || self.translator.count() > 0;
        if !is_recorded && !self.translator.oddities.has_ended() {
            remove(path);
            let program = find_program(Path::new(&self.command[0])).unwrap_or_default();
            let why = unrecorded::nothing_recorded(&program);
            let message = format!("{}: nothing was recorded: {why}", self.command[0].display());
            return Err(Unrecorded { message, ended: Some(ended) });
        }
        if self.translator.count() == 0 {
            self.translator.begin();
        }
        let events = self.translator.count() as u64;
        output.end_block(&mut self.translator);
        output.end_contended(&mut self.translator);
        output.extra(self.translator.layouts());
        let Output { writer, mut unwritten, .. } = output;
        if unwritten.is_none() {
            unwritten = writer.finish(&self.translator.tables).err().map(|error| error.to_string());
        } else {
            drop(writer);
        }
        let has_nothing = || readable.load(Acquire) == 0 && has_nothing(path);
        if let Some(why) = unwritten.as_ref().filter(|_| has_nothing()) {
            remove(path);
            let why = why.strip_prefix("cannot write: ").unwrap_or(why);
            return Err(Unrecorded { message: cannot_write(path, why), ended: Some(ended) });
        }
        let bytes = std::fs::metadata(path).map_or(0, |data| data.len());
        let [recorder_time, program_time] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(processor_time);
        Ok(Summary {
            ended,
            deadlocked,
            events,
            bytes,
            unseen: self.translator.unseen(),
            unfit_models: unknown::warnings(&self.models, &self.translator.symbols),
            oddities: self.translator.oddities,
            wishes: self.translator.wishes,
            unwritten,
            program_time: program_time.saturating_sub(self.before[1]),
            recorder_time: recorder_time.saturating_sub(self.before[0]),
        })
    }

    /// What the program says about why there is not more, or what shows that it is not to be relied on.
    fn note_trouble(&mut self) {
        let oddities = &mut self.translator.oddities;
        let damage = match self.ring.header().trouble.load(Acquire) {
            0 => None,
            wire::TOO_MANY_THREADS => {
                oddities.broken.get_or_insert_with(|| "the program has too many threads".to_owned());
                None
            }
            wire::FORBIDDEN => {
                let why = "the program has forbidden itself system calls that recording needs (seccomp)";
                oddities.broken.get_or_insert_with(|| why.to_owned());
                None
            }
            wire::OTHER_CODE => {
                let why = "some of the program's code could not be rewritten: in memory it is not what its file says, or \
                           the system forbids it";
                oddities.broken.get_or_insert_with(|| why.to_owned());
                None
            }
            wire::UNMAPPED => Some("the program has taken away, or protected, the memory that it shares with snag"),
            _ => Some("the program has written over the memory that it shares with snag"),
        };
        if let Some(damage) = damage.or(self.ring.damage()) {
            oddities.damaged.get_or_insert_with(|| damage.to_owned());
        }
    }

    /// Translates what a program that is dead has left.
    fn drain(&mut self, output: &mut Output) {
        let translator = &mut self.translator;
        let mut take = |translator: &mut Translator| output.take(translator);
        while self.ring.next(Duration::ZERO, |words| translator.chunk(words, false, &mut take)) {}
        translator.chunk(self.ring.rest(), true, &mut take);
    }

    fn about(&self) -> Vec<u8> {
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut say = |key: &str, value: &str| entries.push((key.to_owned(), value.replace('\0', " ")));
        for argument in &self.command {
            say("argument", &argument.to_string_lossy());
        }
        if let Ok(folder) = std::env::current_dir() {
            say("folder", &folder.to_string_lossy());
        }
        if let Some(program) = find_program(Path::new(&self.command[0])) {
            if let Some(digest) = digest(&program) {
                say("digest", &digest);
            }
            say("program", &program.canonicalize().unwrap_or(program).to_string_lossy());
        }
        say("environment", &environment());
        say("drain", &self.drain.to_string());
        for model in self.models.users() {
            say(MODEL, &model.text);
        }
        for (key, patterns) in [(WITHOUT, &self.selection.without), (ONLY, &self.selection.only)] {
            patterns.iter().for_each(|pattern| say(key, &pattern.to_string()));
        }
        if self.free {
            say("threads", FREELY);
        }
        if let Some(seal) = &self.seal {
            entries.push((SEAL.to_owned(), seal.of(&entries)));
        }
        let mut block = vec![kind::ABOUT];
        for (key, value) in entries {
            block.extend_from_slice(format!("{key}={value}\0").as_bytes());
        }
        block
    }
}

/// What the environment wants to have preloaded, except for a runtime of ours: if this process is itself recorded, two
/// runtimes must not both rewrite the program.
fn other_libraries() -> Vec<String> {
    let wanted = std::env::var("LD_PRELOAD").unwrap_or_default();
    let shared = std::env::var(wire::VARIABLE).unwrap_or_default();
    let folder = shared.rfind('/').map(|end| &shared[..=end]);
    let is_ours = |library: &str| folder.is_some_and(|folder| library.starts_with(folder));
    let libraries = wanted.split([':', ' ']).filter(|library| !library.is_empty() && !is_ours(library));
    libraries.map(str::to_owned).collect()
}

/// Whether the clock of the processors goes on at one pace, sleep or not, and the system has not found them to differ.
pub fn has_shared_clock() -> bool {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| processors.split_ascii_whitespace().any(|word| word == flag);
    let sources = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    let is_trusted = sources.map_or(true, |sources| sources.split_ascii_whitespace().any(|source| source == "tsc"));
    has("constant_tsc") && has("nonstop_tsc") && is_trusted
}

/// What is said of a program that has done what [`Ring::damage`] is about.
pub const DAMAGED: &str = "the program has damaged what it shares with snag";

/// By what a recording has the text of each model that was not built in.
pub const MODEL: &str = "model";

/// By what a recording has each pattern of functions that were left out.
pub const WITHOUT: &str = "without";
/// By what it has each pattern of functions that alone were recorded.
pub const ONLY: &str = "only";

/// What a recording says of threads that ran at the same time.
pub const FREELY: &str = "free";

fn cannot_write(path: &Path, why: &str) -> String {
    format!("{}: cannot write: {why}; nothing was recorded, the program was run to its end", path.display())
}

/// Whether there is not even one event in a file that could not be written to its end. What went into a pipe cannot be looked at.
fn has_nothing(path: &Path) -> bool {
    const BLOCK: u64 = 1 << 22;
    let Ok(data) = std::fs::metadata(path) else { return true };
    !data.is_file() || data.len() < BLOCK && !snag_formats::open(path, None).is_ok_and(|file| file.read_all().is_ok())
}

/// Removes a recording of nothing; a device stays.
fn remove(path: &Path) {
    if path.is_file() {
        let _ = std::fs::remove_file(path);
    }
}

/// Makes sure that nobody but this user can read what comes into a file. A pipe or a device is as it is.
fn make_private(file: &File) -> io::Result<()> {
    let data = file.metadata()?;
    if !data.is_file() {
        return Ok(());
    }
    // SAFETY: it cannot fail.
    if data.uid() != unsafe { libc::geteuid() } {
        return Err(io::Error::other(snag_formats::ANOTHER_USERS));
    }
    if data.mode() & 0o777 == OWNER_ONLY {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))
        .map_err(|error| io::Error::other(format!("others can read what is in it, which cannot be changed: {error}")))
}

/// So often in a row threads are seen to wait for each other, and nobody else to run, before the program is ended.
const STALLS: u32 = 3;

/// What was recorded is written at least as often as this, as long as it is little.
const LONGEST: Duration = Duration::from_millis(200);

fn usage(whose: libc::c_int) -> libc::rusage {
    // SAFETY: all zeroes is a valid rusage, and it outlives the call.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    }
}

/// User and system time so far.
fn processor_time(whose: libc::c_int) -> Duration {
    let usage = usage(whose);
    let duration = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// A digest of a program, to tell whether it has changed: nobody can make another program that has the same.
fn digest(program: &Path) -> Option<String> {
    std::fs::read(program).ok().map(|bytes| digest_of(&bytes))
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a program is the one of which a recording says this.
pub fn has_digest(program: &Path, digest: &str) -> bool {
    std::fs::read(program).is_ok_and(|bytes| is_digest_of(&bytes, digest))
}

/// The same of what is in the file.
pub fn is_digest_of(bytes: &[u8], digest: &str) -> bool {
    const CHECKSUM: usize = 16;
    match digest.len() {
        // Older recordings have a checksum.
        CHECKSUM => digest == format!("{:016x}", checksum(bytes)),
        _ => digest == digest_of(bytes),
    }
}

/// A checksum of the environment, but for what differs from shell to shell.
pub fn environment() -> String {
    let own = ["LD_PRELOAD", "_", "OLDPWD", "SHLVL", PADDING, wire::VARIABLE];
    let mut all: Vec<_> = std::env::vars_os().filter(|(name, _)| !own.iter().any(|own| name == own)).collect();
    all.sort();
    let mut text = Vec::new();
    for (name, value) in &all {
        text.extend_from_slice(name.as_encoded_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_encoded_bytes());
        text.push(0);
    }
    format!("{:016x}", checksum(&text))
}

/// Like FNV-1a, but of eight bytes at a time: programs have many.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let all = words.chain(rest.iter().map(|&byte| byte as u64)).chain([bytes.len() as u64]);
    // The highest bits reach the lowest ones, too.
    all.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

/// The variable that makes environments equally long.
const PADDING: &str = "SNAG_PADDING";

/// Arguments and environment lie below the first thread's stack: unless they take the same room in every run, a run cannot
/// be repeated from another shell.
fn padding(program: &Path, command: &Command) -> String {
    const ROOM: usize = 1 << 15;
    const POINTER: usize = 8;
    let set = |name: &std::ffi::OsStr| command.get_envs().any(|(other, _)| other == name);
    let inherited = std::env::vars_os().filter(|(name, _)| !set(name) && name != PADDING);
    let own = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let variables: usize = inherited.chain(own).map(|(name, value)| name.len() + value.len() + 2 + POINTER).sum();
    // The program's name is there twice.
    let arguments: usize = command.get_args().map(|argument| argument.len() + 1 + POINTER).sum();
    let used = variables + arguments + 2 * (program.as_os_str().len() + 1) + PADDING.len() + 2 + 2 * POINTER;
    "-".repeat(used.next_multiple_of(ROOM) - used)
}

/// The same addresses in every run, so that a run can be repeated.
fn without_randomisation(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    const NO_RANDOMISATION: libc::c_ulong = 0x0040000;
    // SAFETY: a plain system call in the child before it becomes the program.
    unsafe {
        command.pre_exec(|| {
            let now = libc::personality(0xffff_ffff);
            // Where this is not allowed, the recording is as good; only its replay may differ.
            let _ = libc::personality(now as libc::c_ulong | NO_RANDOMISATION);
            Ok(())
        });
    }
}

/// The trace file. When it cannot be written any more, the program still runs to its end.
struct Output {
    writer: RecordingWriter<BufWriter<File>>,
    /// Events in blocks with what belongs beside them.
    told: u64,
    unwritten: Option<String>,
}

impl Output {
    /// Takes the events that were translated. When they fill a block, what belongs beside it follows.
    fn take(&mut self, translator: &mut Translator) {
        if self.unwritten.is_none() {
            let written = self.writer.push(&translator.batch, &translator.tables);
            self.note(written);
        }
        translator.taken();
        translator.begin_block(self.writer.block());
        let full = match self.unwritten {
            None => self.writer.handed_over(),
            // Nobody wants it, but it must not become too much.
            Some(_) => (translator.count() / RECORDED_EVENTS * RECORDED_EVENTS) as u64,
        };
        if full > self.told {
            self.told = full;
            self.beside(translator);
        }
    }

    /// Writes all events that were taken, and what belongs beside them.
    fn end_block(&mut self, translator: &mut Translator) {
        self.take(translator);
        if self.unwritten.is_none() {
            let written = self.writer.end_block(&translator.tables);
            self.note(written);
            translator.begin_block(self.writer.block());
            self.told = self.writer.handed_over();
        }
        self.beside(translator);
    }

    /// Says that it is known of all events whether others can interfere with them, if it is.
    fn end_contended(&mut self, translator: &mut Translator) {
        let last = translator.end_contended();
        self.contention(translator);
        if let Some(last) = last.filter(|_| self.unwritten.is_none()) {
            let written = self.writer.end_contended(&last, &translator.tables);
            self.note(written);
        }
    }

    /// What was found out about memory that others can interfere with.
    fn contention(&mut self, translator: &mut Translator) {
        let (late, touched) = translator.take_contention();
        if !translator.knows_contended() {
            self.writer.without_contended();
        }
        if self.unwritten.is_none() {
            let written = self
                .writer
                .late(&late)
                .and_then(|()| touched.into_iter().try_for_each(|touched| self.writer.touched(touched)));
            self.note(written);
        }
    }

    fn beside(&mut self, translator: &mut Translator) {
        self.contention(translator);
        for block in translator.take_beside() {
            self.extra(block);
        }
        if self.unwritten.is_none() {
            let written = self.writer.flush();
            self.note(written);
        }
    }

    fn extra(&mut self, block: Vec<u8>) {
        if self.unwritten.is_none() {
            let written = self.writer.extra(block);
            self.note(written);
        }
    }

    fn note(&mut self, written: snag_formats::Result<()>) {
        if let Err(error) = written {
            self.unwritten = Some(error.to_string());
        }
    }
}
