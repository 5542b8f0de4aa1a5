//! What a call of unseen code goes through: it begins, the function runs, it ends.
//!
//! The trampoline has a frame of its own, with unwinding information, so exceptions and debuggers pass through it. It
//! keeps every register, vector registers whole, and gives the function a copy of the arguments on the stack.

use crate::interpose::missing::calls::{Frame, begin, end};
use crate::interpose::missing::targets::Target;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::arch::{asm, naked_asm};

/// Vector registers, as `xsave` numbers them: SSE, AVX and AVX-512.
const STATES: u32 = 0xe6;

/// Room for them.
const ROOM: usize = 2752;

/// Whether the processor can save vector registers as the trampoline does.
pub fn works_here() -> bool {
    const SAVES: u32 = 1 << 27;
    if __cpuid(1).ecx & SAVES == 0 {
        return false;
    }
    let enabled: u32;
    // SAFETY: the instruction reads a register, which is there if the processor says that it saves.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nomem, nostack, preserves_flags)) };
    let end = |state: u32| {
        let about = __cpuid_count(0xd, state);
        about.eax as usize + about.ebx as usize
    };
    let states = (2..32).filter(|state| STATES & enabled & 1 << state != 0);
    states.map(end).all(|end| end <= ROOM)
}

/// Bytes of a stub.
pub const STUB: usize = 32;

/// The stub that leads to [`call`] for a target.
pub fn stub(target: &'static Target) -> [u8; STUB] {
    let mut code = [0xcc; STUB];
    // endbr64; call [rip + 14], which is the last word; and the target before that.
    code[..10].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x15, 14, 0, 0, 0]);
    code[16..24].copy_from_slice(&(target as *const Target as usize).to_le_bytes());
    code[24..].copy_from_slice(&(call as *const () as usize).to_le_bytes());
    code
}

/// Calls the function of a stub, between `begin` and `end`. Compilers that know a function's registers rely on the
/// others, so all of them are kept, flags included.
///
/// # Safety
/// Called by a stub that was called in place of that function, as it is.
#[unsafe(naked)]
unsafe extern "C" fn call() {
    naked_asm!(
        ".cfi_startproc",
        // The stub's return address lies on the stack as well.
        ".cfi_def_cfa_offset 16",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -24",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "lea rsp, [rbp - 120]",
        "mov [rbp - 8], r9",
        "mov [rbp - 16], r8",
        "mov [rbp - 24], rcx",
        "mov [rbp - 32], rdx",
        "mov [rbp - 40], rsi",
        "mov [rbp - 48], rdi",
        "mov [rbp - 56], rax",
        "mov [rbp - 64], r10",
        "mov [rbp - 72], r11",
        "pushfq",
        "pop [rbp - 80]",
        "cld",
        // The target, and its function.
        "mov rax, [rbp + 8]",
        "mov rax, [rax + 6]",
        "mov rax, [rax]",
        "mov [rbp - 96], rax",
        "sub rsp, {room}",
        "and rsp, -64",
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, {states}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "lea rdi, [rbp - 48]",
        "call {begin}",
        "mov [rbp - 88], rax",
        "mov eax, {states}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "lea rsp, [rbp - 120]",
        "mov rcx, [rbp - 88]",
        "cmp rcx, -1",
        "je 2f",
        "sub rsp, rcx",
        "lea rsi, [rbp + 24]",
        "mov rdi, rsp",
        "shr rcx, 3",
        "rep movsq",
        "push [rbp - 80]",
        "popfq",
        "mov r9, [rbp - 8]",
        "mov r8, [rbp - 16]",
        "mov rcx, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rsi, [rbp - 40]",
        "mov rdi, [rbp - 48]",
        "mov rax, [rbp - 56]",
        "mov r10, [rbp - 64]",
        "mov r11, [rbp - 72]",
        "call [rbp - 96]",
        "mov [rbp - 8], r9",
        "mov [rbp - 16], r8",
        "mov [rbp - 24], rcx",
        "mov [rbp - 32], rdx",
        "mov [rbp - 40], rsi",
        "mov [rbp - 48], rdi",
        "mov [rbp - 56], rax",
        "mov [rbp - 64], r10",
        "mov [rbp - 72], r11",
        "pushfq",
        "pop [rbp - 80]",
        "lea rsp, [rbp - 120]",
        "sub rsp, {room}",
        "and rsp, -64",
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, {states}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "lea rdi, [rbp - 48]",
        "call {end}",
        "mov eax, {states}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "push [rbp - 80]",
        "popfq",
        "mov r9, [rbp - 8]",
        "mov r8, [rbp - 16]",
        "mov rcx, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rsi, [rbp - 40]",
        "mov rdi, [rbp - 48]",
        "mov rax, [rbp - 56]",
        "mov r10, [rbp - 64]",
        "mov r11, [rbp - 72]",
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 16",
        ".cfi_restore rbp",
        "lea rsp, [rsp + 8]",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_restore_state",
        // The function takes the place of the stub's return address, and runs as if it had been called itself.
        "2:",
        "mov rax, [rbp - 96]",
        "mov [rbp + 8], rax",
        "push [rbp - 80]",
        "popfq",
        "mov r9, [rbp - 8]",
        "mov r8, [rbp - 16]",
        "mov rcx, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rsi, [rbp - 40]",
        "mov rdi, [rbp - 48]",
        "mov rax, [rbp - 56]",
        "mov r10, [rbp - 64]",
        "mov r11, [rbp - 72]",
        "leave",
        ".cfi_def_cfa rsp, 16",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        room = const ROOM,
        states = const STATES,
        begin = sym begin,
        end = sym end,
    )
}

const _: () = assert!(size_of::<Frame>() == 72);
