//! CPU time and peak memory of one process.

use std::process::{Command, Stdio};

/// What a process took.
#[derive(Clone, Copy)]
pub struct Measured {
    /// User and system seconds.
    pub cpu: f64,
    /// Bytes resident at the most.
    pub peak_memory: u64,
}

/// Runs a command to its end; it may find races, but not fail.
pub fn run(command: &mut Command) -> Measured {
    // Waited for below, where its usage is told as well.
    #[allow(clippy::zombie_processes)]
    let child = command.stdout(Stdio::null()).spawn().expect("the command starts");
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the child is ours and not waited for elsewhere; `status` and `usage` outlive the call,
    // and all zeroes is a valid rusage.
    let (waited, usage) =
        unsafe { (libc::wait4(child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()), usage.assume_init()) };
    assert_eq!(waited, child.id() as libc::pid_t, "the child can be waited for");
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) < 2, "{command:?} failed");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Measured { cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime), peak_memory: usage.ru_maxrss as u64 * 1024 }
}

/// The fastest of several runs.
pub fn fastest(runs: usize, mut run: impl FnMut() -> Measured) -> Measured {
    let all = (0..runs.max(1)).map(|_| run());
    all.min_by(|a, b| a.cpu.total_cmp(&b.cpu)).expect("at least one run")
}
