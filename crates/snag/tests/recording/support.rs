//! Programs, compiled on the spot, and snag on them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder that is gone after the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("snag-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Whether a compiler is there; says so if not.
pub fn have(compiler: &str) -> bool {
    let there = Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: there is no {compiler} on this machine");
    }
    there
}

/// Compiles a program; panics with the compiler's words if it does not compile.
pub fn compile(compiler: &str, arguments: &[&str], source: &Path, program: &Path) {
    let output = Command::new(compiler).args(arguments).arg(source).arg("-o").arg(program).arg("-lpthread").output();
    let output = output.unwrap_or_else(|error| panic!("{compiler} cannot be run: {error}"));
    assert!(output.status.success(), "{compiler} {arguments:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Longer than anything takes on a machine that does ten other things.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Runs snag in a folder; panics if it hangs.
pub fn snag(folder: &Folder, arguments: &[&str]) -> Output {
    let out = std::fs::File::create(folder.path("stdout")).unwrap();
    let err = std::fs::File::create(folder.path("stderr")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_snag"))
        .args(arguments)
        .current_dir(&folder.0)
        .env_remove("RUSTC_BOOTSTRAP")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("snag {arguments:?} hangs: {}", std::fs::read_to_string(folder.path("stderr")).unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |name: &str| std::fs::read(folder.path(name)).unwrap();
    Output { status, stdout: read("stdout"), stderr: read("stderr") }
}

/// Standard output as text.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Processes that were started for a test, found by their environment, also if they have left their parents.
pub struct Mark(String);

impl Mark {
    const NAME: &str = "SNAG_TEST_MARK";

    pub fn new(name: &str) -> Mark {
        Mark(format!("{}-{name}", std::process::id()))
    }

    /// Snag in a folder, in a group of processes of its own, with the signals that end programs as a shell gives them.
    pub fn command(&self, folder: &Folder, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
        self.prepare(&mut command, folder, arguments);
        command
    }

    /// The same for any command.
    pub fn prepare(&self, command: &mut Command, folder: &Folder, arguments: &[&str]) {
        std::fs::create_dir_all(folder.path("temporary")).unwrap();
        command
            .args(arguments)
            .current_dir(&folder.0)
            .env(Self::NAME, &self.0)
            .env("TMPDIR", folder.path("temporary"))
            .env_remove("RUSTFLAGS")
            // Tests that fail on purpose need not say where at length.
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .process_group(0);
        // SAFETY: plain system calls in the child before it becomes the program.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            })
        };
    }

    /// Those that are alive.
    pub fn processes(&self) -> Vec<i32> {
        let mark = format!("{}={}", Self::NAME, self.0).into_bytes();
        let is_ours = |id: &i32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark)
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        let ids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok());
        ids.filter(is_ours).collect()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for process in self.processes() {
            // SAFETY: a plain system call; the process is ours.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
    }
}
