//! What a call of a modelled function goes through.
//!
//! Either all is done before the function would be called, or nothing comes after it and the trampoline jumps to it, or it
//! calls the function and something comes after. Then the function has at most six arguments.

use super::{After, Arguments, Pending, enter, leave};
use crate::interpose::missing::{STUB, Target};
use crate::scheduler::wipe;
use core::arch::naked_asm;

/// What the trampoline has on its stack.
#[repr(C, align(16))]
struct Frame {
    arguments: Arguments,
    /// Of the call, while the function runs; or its result.
    pending: Pending,
    result: usize,
}

// What the trampoline is to do.
const DONE: usize = 0;
const JUMP: usize = 1;
const CALL: usize = 2;

/// The frame has the target in place of the function.
extern "C" fn before(frame: &mut Frame) -> usize {
    let target = Target::at(frame.arguments.function);
    frame.arguments.function = target.function();
    let Some(modelled) = target.modelled() else { return JUMP };
    let pending = enter(modelled, &mut frame.arguments);
    let what = match pending {
        Pending { result: Some(result), .. } => {
            frame.result = result;
            DONE
        }
        Pending { after: After::Nothing, .. } => JUMP,
        _ => CALL,
    };
    frame.pending = pending;
    wipe();
    what
}

extern "C" fn after(frame: &Frame) {
    leave(frame.pending);
    wipe();
}

/// The stub that leads to [`trampoline`] for a target.
pub fn stub(target: &'static Target) -> [u8; STUB] {
    let mut code = [0x90u8; STUB];
    // endbr64; mov r11, target; jmp [rip]; and the address behind it.
    code[..6].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0x49, 0xbb]);
    code[6..14].copy_from_slice(&(target as *const Target as usize).to_le_bytes());
    code[14..20].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    code[20..28].copy_from_slice(&(trampoline as *const () as usize).to_le_bytes());
    code
}

/// Calls the function of the target in r11, or does what it would do.
///
/// # Safety
/// Called in place of that function, as it is; r11 is what a stub puts there.
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, {room}",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "lea rdi, [rbp + 16]",
        "mov [rsp + 48], rdi",
        "mov rdi, [rbp + 8]",
        "mov [rsp + 56], rdi",
        "mov [rsp + 64], r11",
        "mov [rbp - 8], rax",
        "mov [rbp - 16], r10",
        "movups xmmword ptr [rbp - 32], xmm0",
        "movups xmmword ptr [rbp - 48], xmm1",
        "movups xmmword ptr [rbp - 64], xmm2",
        "movups xmmword ptr [rbp - 80], xmm3",
        "movups xmmword ptr [rbp - 96], xmm4",
        "movups xmmword ptr [rbp - 112], xmm5",
        "movups xmmword ptr [rbp - 128], xmm6",
        "movups xmmword ptr [rbp - 144], xmm7",
        "mov rdi, rsp",
        "call {before}",
        "cmp eax, {done}",
        "je 3f",
        "mov r11d, eax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "mov rax, [rbp - 8]",
        "mov r10, [rbp - 16]",
        "movups xmm0, xmmword ptr [rbp - 32]",
        "movups xmm1, xmmword ptr [rbp - 48]",
        "movups xmm2, xmmword ptr [rbp - 64]",
        "movups xmm3, xmmword ptr [rbp - 80]",
        "movups xmm4, xmmword ptr [rbp - 96]",
        "movups xmm5, xmmword ptr [rbp - 112]",
        "movups xmm6, xmmword ptr [rbp - 128]",
        "movups xmm7, xmmword ptr [rbp - 144]",
        "cmp r11d, {call}",
        "je 2f",
        "mov r11, [rsp + 64]",
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp r11",
        ".cfi_restore_state",
        "2:",
        "call [rsp + 64]",
        "mov [rbp - 8], rax",
        "mov [rbp - 16], rdx",
        "movups xmmword ptr [rbp - 32], xmm0",
        "mov rdi, rsp",
        "call {after}",
        "movups xmm0, xmmword ptr [rbp - 32]",
        "mov rdx, [rbp - 16]",
        "mov rax, [rbp - 8]",
        "jmp 4f",
        "3:",
        "mov rax, [rsp + {result}]",
        "4:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        room = const ROOM,
        result = const core::mem::offset_of!(Frame, result),
        done = const DONE,
        call = const CALL,
        before = sym before,
        after = sym after,
    )
}

/// The frame, and the registers above it.
const ROOM: usize = size_of::<Frame>() + 144;

const _: () = assert!(size_of::<Frame>().is_multiple_of(16) && JUMP != CALL && JUMP != DONE);
