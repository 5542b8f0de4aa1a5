//! What a call of unseen code goes through: it begins, the function runs, it ends.
//!
//! The trampoline has a frame of its own, with unwinding information, so exceptions and debuggers pass through it. It
//! keeps every register that an argument or a result may be in, vector registers whole, and gives the function a copy
//! of the arguments on the stack.

use crate::interpose::missing::calls::{Frame, begin, end};
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

/// Calls the function of the target in r11, between `begin` and `end`.
///
/// # Safety
/// Called in place of that function, as it is; r11 is what [`crate::interpose::missing::slots`] puts there.
#[unsafe(naked)]
pub unsafe extern "C" fn call() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 96",
        "mov [rbp - 8], r11",
        "mov [rbp - 16], rdi",
        "mov [rbp - 24], rsi",
        "mov [rbp - 32], rdx",
        "mov [rbp - 40], rcx",
        "mov [rbp - 48], r8",
        "mov [rbp - 56], r9",
        // The number of vector registers of a variadic call, and the static chain of a nested function.
        "mov [rbp - 64], rax",
        "mov [rbp - 72], r10",
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
        "lea rdi, [rbp - 56]",
        "call {begin}",
        "mov [rbp - 80], rax",
        "mov eax, {states}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "lea rsp, [rbp - 96]",
        "mov rcx, [rbp - 80]",
        "cmp rcx, -1",
        "je 2f",
        "sub rsp, rcx",
        "lea rsi, [rbp + 16]",
        "mov rdi, rsp",
        "shr rcx, 3",
        "rep movsq",
        "mov rdi, [rbp - 16]",
        "mov rsi, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]",
        "mov r8, [rbp - 48]",
        "mov r9, [rbp - 56]",
        "mov rax, [rbp - 64]",
        "mov r10, [rbp - 72]",
        "mov r11, [rbp - 8]",
        "call [r11]",
        "mov [rbp - 64], rax",
        "mov [rbp - 72], rdx",
        "lea rsp, [rbp - 96]",
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
        "lea rdi, [rbp - 56]",
        "call {end}",
        "mov eax, {states}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rax, [rbp - 64]",
        "mov rdx, [rbp - 72]",
        // What is left there must not differ in a replay.
        "xor ecx, ecx",
        "xor esi, esi",
        "xor edi, edi",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_restore_state",
        "2:",
        "mov rdi, [rbp - 16]",
        "mov rsi, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]",
        "mov r8, [rbp - 48]",
        "mov r9, [rbp - 56]",
        "mov rax, [rbp - 64]",
        "mov r10, [rbp - 72]",
        "mov r11, [rbp - 8]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp [r11]",
        ".cfi_endproc",
        room = const ROOM,
        states = const STATES,
        begin = sym begin,
        end = sym end,
    )
}

const _: () = assert!(size_of::<Frame>() == 72);
