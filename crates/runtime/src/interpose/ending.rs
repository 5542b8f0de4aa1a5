//! What ends the program, or may: the return from `main`, `exit` and its kin, `abort`, a failed assertion, and becoming
//! another program. Before it happens, the other threads get their chance: see [`crate::scheduler::drain`].

use crate::base::c::{self, Pointer};
use crate::base::program::Address;
use crate::base::relaxed::Relaxed;
use crate::base::shared::wanted;
use crate::base::thread::inside;
use crate::interpose::signals;
use crate::real;
use crate::scheduler::free_running::leaving;
use crate::scheduler::{Next, claim_end, drain, enter, forgive_end, is_on, step};
use core::ffi::c_int;

/// Set when the program has forbidden itself some system calls, though none that recording needs: it may not allow
/// those by which a drain is made safe.
static RESTRICTED: Relaxed<bool> = Relaxed::zero();

/// The program has forbidden itself system calls.
pub fn is_restricted() {
    RESTRICTED.set(true);
}

/// What is about to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The program ends.
    Surely,
    /// It may also go on.
    Perhaps,
}

/// The program is about to end. Takes two steps, whether anybody else runs between them or not.
fn before_end(end: End, pc: usize) {
    if !is_on() || wanted().drain_steps == 0 || RESTRICTED.get() {
        return;
    }
    let error = c::errno();
    leaving(|| {
        let Some(thread) = enter(Next::call(pc)) else { return };
        inside(thread, || {
            if claim_end(thread) {
                signals::catch_deadly();
                drain(thread);
                if end == End::Perhaps {
                    forgive_end();
                }
            }
        });
        if is_on() {
            step(thread, Next::call(pc));
        }
    });
    c::set_errno(error);
}

/// Before a system call that the program makes by its number, and that ends it.
pub fn before_exit_group() {
    before_end(End::Surely, 0);
}

/// Exports functions that call [`before_end`] and then the function of the C library, with whatever arguments they have.
macro_rules! ends {
    ($($end:ident: $($name:ident)*;)*) => {$($(
        const _: () = {
            extern "C" fn before(_first: usize, pc: usize) -> usize {
                before_end(End::$end, pc);
                real!($name, fn() -> ()) as usize
            }

            ends! { stub $name before }
        };
    )*)*};
    (stub $name:ident $before:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "sub rsp, 128",
                ".cfi_adjust_cfa_offset 184",
                "movups [rsp], xmm0",
                "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2",
                "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4",
                "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6",
                "movups [rsp + 112], xmm7",
                "mov rsi, qword ptr [rsp + 184]",
                "call {before}",
                "mov r11, rax",
                "movups xmm0, [rsp]",
                "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]",
                "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]",
                "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]",
                "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -184",
                "jmp r11",
                ".cfi_endproc",
                before = sym $before,
            )
        }
    };
}

ends! {
    Surely: exit _exit _Exit quick_exit abort __assert_fail __assert_perror_fail __assert err errx verr verrx;
    Perhaps: execve execv execvp execvpe execl execlp execle fexecve execveat;
}

/// These two end the program unless the status is 0.
const _: () = {
    extern "C" fn before_error(status: usize, pc: usize) -> usize {
        if status as c_int != 0 {
            before_end(End::Surely, pc);
        }
        real!(error, fn() -> ()) as usize
    }

    extern "C" fn before_error_at_line(status: usize, pc: usize) -> usize {
        if status as c_int != 0 {
            before_end(End::Surely, pc);
        }
        real!(error_at_line, fn() -> ()) as usize
    }

    ends! { stub error before_error }
    ends! { stub error_at_line before_error_at_line }
};

/// The program's `main`; 0 before it is known.
static MAIN: Relaxed<usize> = Relaxed::zero();

/// Takes its place: when it returns, the program ends.
extern "C" fn main_and_end(count: c_int, arguments: Pointer, environment: Pointer) -> c_int {
    // SAFETY: the program has passed it to the C library as its `main`, to be called once with these arguments.
    let main: extern "C" fn(c_int, Pointer, Pointer) -> c_int = unsafe { core::mem::transmute(MAIN.get()) };
    let status = main(count, arguments, environment);
    before_end(End::Surely, 0);
    status
}

extern "C" fn before_main(main: usize) -> usize {
    MAIN.set(main);
    real!(__libc_start_main, fn() -> ()) as usize
}

/// The seventh argument is on the stack, and stays where it is.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn __libc_start_main() {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "lea rdi, [rip + {main}]",
        "jmp rax",
        before = sym before_main,
        main = sym main_and_end,
    )
}

/// Whether a signal comes from this process: what `siginfo_t` says.
pub fn comes_from_us(information: Pointer, process: u32) -> bool {
    if information.is_null() {
        return false;
    }
    let [code, sender] = [8, 16].map(|offset| Address::from(information).plus(offset).read::<u32>());
    code as i32 <= 0 && sender == process
}
