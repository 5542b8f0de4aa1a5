//! Running snag under a watchdog for time and memory.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More time of the processor is a hang.
pub const MOST_SECONDS: u64 = 10;

/// So long a machine that does ten other things may take for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// More memory is too much.
pub const MOST_MEMORY: u64 = 1 << 30;

/// A folder that is gone after the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("snag-damaged-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How an invocation ended.
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Of the processor.
    pub seconds: f64,
    /// Bytes that were in memory at most.
    pub memory: u64,
    signal: Option<i32>,
    hung: bool,
}

impl Ran {
    /// What is wrong with it, whatever the input was.
    pub fn complaint(&self) -> Option<String> {
        if self.hung || self.signal == Some(libc::SIGXCPU) || self.seconds > MOST_SECONDS as f64 {
            return Some(format!("hangs: {:.1} s", self.seconds));
        }
        if self.stderr.contains("panicked") || self.signal.is_some() {
            return Some(format!("died of {:?}: {}", self.signal, self.stderr));
        }
        if self.memory > MOST_MEMORY {
            return Some(format!("took {} MB", self.memory >> 20));
        }
        match self.status {
            Some(0 | 1) => None,
            Some(2) if self.stderr.contains("error: ") => None,
            other => Some(format!("ended with {other:?}: {}", self.stderr)),
        }
    }

    /// Fails the test unless it ended with this status, in time.
    pub fn expect(self, status: i32) -> Ran {
        assert_eq!(self.complaint(), None);
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Runs snag in a folder: the one that was built, or another one that `SNAG_UNDER_TEST` names.
pub fn snag(folder: &Path, arguments: &[&str]) -> Ran {
    let unique = format!("{:?}", std::thread::current().id());
    let at = |name: &str| folder.join(format!(".{name}-{unique}"));
    let (out, err) = (at("stdout"), at("stderr"));
    let program = std::env::var_os("SNAG_UNDER_TEST").unwrap_or_else(|| env!("CARGO_BIN_EXE_snag").into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    command.env("LC_ALL", "C.UTF-8").env_remove("RUST_BACKTRACE");
    // SAFETY: the child sets limits of its own, which is a system call.
    unsafe {
        command.pre_exec(|| {
            let seconds = libc::rlimit { rlim_cur: MOST_SECONDS + 1, rlim_max: MOST_SECONDS + 2 };
            libc::setrlimit(libc::RLIMIT_CPU, &seconds);
            let bytes = libc::rlimit { rlim_cur: 6 * MOST_MEMORY, rlim_max: 6 * MOST_MEMORY };
            libc::setrlimit(libc::RLIMIT_AS, &bytes);
            Ok(())
        });
    }
    // It is waited for below, for the sake of what it used.
    #[allow(clippy::zombie_processes)]
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    let (status, usage, hung) = loop {
        if let Some((status, usage)) = ended(child.id() as i32) {
            break (status, usage, false);
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            break loop {
                if let Some((status, usage)) = ended(child.id() as i32) {
                    break (status, usage, true);
                }
            };
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ran {
        status: status.code(),
        stdout: read(&out),
        stderr: read(&err),
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        memory: usage.ru_maxrss as u64 * 1024,
        signal: status.signal(),
        hung,
    }
}

/// How a child ended and what it used, if it has.
fn ended(child: i32) -> Option<(ExitStatus, libc::rusage)> {
    // SAFETY: both outlive the call, and all zeros is a rusage.
    unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed());
        (libc::wait4(child, &mut status, libc::WNOHANG, &mut usage) == child)
            .then(|| (ExitStatus::from_raw(status), usage))
    }
}
