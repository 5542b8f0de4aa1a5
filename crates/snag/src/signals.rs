//! SIGINT (Ctrl-C), SIGTERM and SIGHUP, received: the handler only notes them in a pipe, and a thread takes them from there.

use std::io::Read;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// A signal that asks a program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// The kernel sent it, because of the terminal: to the whole group of processes that has the terminal.
    pub to_group: bool,
    /// The process that sent it, if it was one.
    pub sender: i32,
}

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Bytes by which the handler notes a signal: few enough to be written at once.
const NOTE: usize = 6;

/// Where the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The process that reads there. A child has the same handler until it becomes another program.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A signal has come, even if nobody has taken it yet.
static CAME: AtomicBool = AtomicBool::new(false);

/// Whether a signal has come that asks us to end.
pub fn has_come() -> bool {
    CAME.load(Ordering::SeqCst)
}

/// From now on `each` is called, in a thread of its own, for each signal that asks us to end.
pub fn receive(mut each: impl FnMut(Signal) + Send + 'static) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot handle interrupts: {error}");
    let (mut reader, writer) = std::io::pipe().map_err(cannot)?;
    let writer = OwnedFd::from(writer);
    // SAFETY: a plain system call on a descriptor of ours. The handler must never wait.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let take = move || {
        let mut noted = [0; NOTE];
        while reader.read_exact(&mut noted).is_ok() {
            let [number, to_group, sender @ ..] = noted;
            each(Signal { number: number as i32, to_group: to_group != 0, sender: i32::from_ne_bytes(sender) });
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(take).map_err(cannot)?;
    OWNER.store(std::process::id() as i32, Ordering::SeqCst);
    PIPE.store(writer.into_raw_fd(), Ordering::SeqCst);
    for signal in ENDING {
        // SAFETY: all zeroes is a valid sigaction, and the handler only calls what handlers may call.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut now) == 0;
            // Who started us under nohup wants us to go on. Shells ignore SIGINT for what they start in the background; who
            // sends it there all the same means it.
            if known && (signal == libc::SIGINT || now.sa_sigaction != libc::SIG_IGN) {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
                let mut ours: libc::sigaction = std::mem::zeroed();
                ours.sa_sigaction = handler as usize;
                ours.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
                libc::sigaction(signal, &ours, std::ptr::null_mut());
            }
        }
    }
    Ok(())
}

extern "C" fn note(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: plain system calls; whoever is interrupted finds `errno` as it was; the kernel hands over a whole siginfo.
    unsafe {
        let errno = *libc::__errno_location();
        if libc::getpid() == OWNER.load(Ordering::SeqCst) {
            CAME.store(true, Ordering::SeqCst);
            let to_group = (*about).si_code == libc::SI_KERNEL;
            let [a, b, c, d] = if to_group { 0 } else { (*about).si_pid() }.to_ne_bytes();
            let noted: [u8; NOTE] = [signal as u8, to_group as u8, a, b, c, d];
            libc::write(PIPE.load(Ordering::SeqCst), noted.as_ptr().cast(), noted.len());
        } else {
            // A child that is about to become another program: it ends as that would have.
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        *libc::__errno_location() = errno;
    }
}
