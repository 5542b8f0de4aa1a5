//! The family of `printf`: the format is read, and the texts that it names; what comes out may be a text of the
//! program's, as may be the number of characters (`%n`).
//!
//! Functions with any number of arguments cannot be written in Rust. Entry points in assembly put the registers into
//! memory, as a `va_list` wants them, and the rest is that of the functions that take one.

use crate::base::c::{Pointer, standard_output};
use crate::base::program::Address;
use crate::interpose::descriptors;
use crate::interpose::library::effects::*;
use crate::interpose::library::format::{Arguments, Kind, Length, Resolved, for_each};
use crate::interpose::library::{counts, in_turn};
use crate::interpose::streams::{puts_and, puts_into_and};
use crate::pass_on;
use crate::scheduler::free_running::leaving;
use core::ffi::c_int;

/// The arguments of the program's `va_list`, which the call itself uses up.
pub fn list(at: usize) -> Arguments {
    let [registers, overflow, save] = [0, 8, 16].map(|offset| Address(at).plus(offset).read::<usize>());
    Arguments { general: registers as u32, floating: (registers >> 32) as u32, overflow, save }
}

/// A `va_list` whose `named` arguments are taken.
pub fn fresh(named: usize, save: usize, overflow: usize) -> Arguments {
    Arguments { general: 8 * named as u32, floating: 48, overflow, save }
}

fn units(format: usize, is_wide: bool) -> impl Fn(usize) -> u32 {
    move |index| if is_wide { wide_unit(format, index) } else { Address(format + index).byte() as u32 }
}

/// Calls `each` for every directive of a format.
pub fn directives(kind: Kind, format: usize, is_wide: bool, arguments: Arguments, each: impl FnMut(Resolved)) {
    let read = |at: usize| Address(at).read::<u64>();
    for_each(kind, &units(format, is_wide), arguments, &read, each);
}

/// The bytes that a wide character becomes.
fn encoded(unit: u32) -> usize {
    match unit {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

/// The wide characters that fit into so many bytes.
fn reads_wide_text(at: usize, most: usize) {
    let (mut bytes, mut length) = (0, 0);
    loop {
        let unit = wide_unit(at, length);
        bytes += encoded(unit);
        length += (bytes <= most) as usize;
        if unit == 0 || bytes >= most {
            break;
        }
    }
    reads(at, WIDE * length);
}

/// What a format reads: itself, and texts.
fn read_by(format: usize, is_wide: bool, arguments: Arguments) {
    if format == 0 {
        return;
    }
    if is_wide {
        wide(format)
    } else {
        text(format)
    }
    directives(Kind::Print, format, is_wide, arguments, |found| {
        let at = found.argument as usize;
        match (found.directive.conversion, found.directive.is_wide(), found.precision) {
            (b'n', ..) => fills(at, stored_by(found.directive.length)),
            (b's' | b'S', ..) if at == 0 => {}
            (b's' | b'S', true, None) => wide(at),
            (b's' | b'S', true, Some(most)) if is_wide => wide_up_to(at, most),
            (b's' | b'S', true, Some(most)) => reads_wide_text(at, most),
            (b's', false, precision) => text_up_to(at, precision.unwrap_or(usize::MAX)),
            _ => {}
        }
    });
}

fn stored_by(length: Length) -> usize {
    match length {
        Length::Char => 1,
        Length::Short => 2,
        Length::Plain => 4,
        Length::Long | Length::LongLong => 8,
    }
}

/// What `%n` has stored. The texts of the arguments may be gone by now; only the format and its arguments are looked at.
fn written_by(format: usize, is_wide: bool, arguments: Arguments) {
    if format != 0 {
        directives(Kind::Print, format, is_wide, arguments, |found| {
            if found.directive.conversion == b'n' {
                writes(found.argument as usize, stored_by(found.directive.length));
            }
        });
    }
}

/// A call that prints into memory.
fn into_memory(
    pc: usize,
    format: (usize, bool),
    arguments: Arguments,
    may_fill: impl FnOnce(),
    call: impl FnOnce() -> c_int,
    writes: impl FnOnce(usize),
) -> c_int {
    let before = || {
        read_by(format.0, format.1, arguments);
        may_fill();
    };
    in_turn(pc, before, call, |&printed| {
        if printed >= 0 {
            writes(printed as usize);
            written_by(format.0, format.1, arguments);
        }
    })
}

/// A call that prints into a stream or a descriptor. What it writes there is noted by `puts`.
fn into_stream(
    pc: usize,
    format: (usize, bool),
    arguments: Arguments,
    puts: impl FnOnce(usize, &dyn Fn()),
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !counts(pc) {
        return call();
    }
    puts(pc, &|| read_by(format.0, format.1, arguments));
    let printed = call();
    if printed >= 0 && stores(format, arguments) && descriptors::begins(pc).is_some() {
        written_by(format.0, format.1, arguments);
    }
    printed
}

/// Whether there is a `%n`.
fn stores(format: (usize, bool), arguments: Arguments) -> bool {
    let mut found = false;
    if format.0 != 0 {
        directives(Kind::Print, format.0, format.1, arguments, |directive| {
            found |= directive.directive.conversion == b'n';
        });
    }
    found
}

/// A call without a limit may write so much, and more.
const UNKNOWN: usize = 4096;

/// A text of at most `n` units with its end.
fn cut(to: usize, n: usize, printed: usize, size: usize) {
    if n > 0 {
        writes(to, size * (printed + 1).min(n));
    }
}

/// A pointer to a new block with the text.
fn allocated(to: usize, printed: usize) {
    appeared(word(to));
    writes(word(to), printed + 1);
    writes(to, 8);
}

/// An entry point for any number of arguments behind the named ones. The registers are saved, in the order of a
/// `va_list`; the target gets where they are, where the other arguments are, and the place of the call.
macro_rules! variadic {
    ($name:ident $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 184",
                ".cfi_adjust_cfa_offset 184",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "movups [rsp + 48], xmm0",
                "movups [rsp + 64], xmm1",
                "movups [rsp + 80], xmm2",
                "movups [rsp + 96], xmm3",
                "movups [rsp + 112], xmm4",
                "movups [rsp + 128], xmm5",
                "movups [rsp + 144], xmm6",
                "movups [rsp + 160], xmm7",
                "mov rdi, rsp",
                "lea rsi, [rsp + 192]",
                "mov rdx, [rsp + 184]",
                "call {target}",
                "add rsp, 184",
                ".cfi_adjust_cfa_offset -184",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    };
}
pub(crate) use variadic;

/// The function with a `va_list`, and the one with any number of arguments, which has the same named ones.
macro_rules! printf {
    ($($list:ident $register:tt, $any:ident ($($argument:ident: $type:ty),*);
       |$pc:ident, $arguments:ident, $call:ident| $body:expr;)*) => {$(
        const _: () = {
            #[allow(clippy::too_many_arguments, reason = "those of the function and three more")]
            fn either($($argument: $type,)* $pc: usize, $arguments: Arguments, $call: impl FnOnce() -> c_int) -> c_int {
                $body
            }

            extern "C" fn with_list($($argument: $type,)* arguments: usize, pc: usize) -> c_int {
                let call = || pass_on!($list($($argument: $type,)* arguments: usize) -> c_int);
                either($($argument,)* pc, list(arguments), call)
            }
            $crate::interpose::library::row! { $list $register with_list }

            extern "C" fn with_any(save: usize, overflow: usize, pc: usize) -> c_int {
                let mut named = 0;
                $(
                    let $argument = Address(save + 8 * named).read::<$type>();
                    named += 1;
                )*
                let arguments = fresh(named, save, overflow);
                let mut list = arguments;
                let given = &mut list;
                let call = move || pass_on!($list($($argument: $type,)* given: &mut Arguments) -> c_int);
                leaving(|| either($($argument,)* pc, arguments, call))
            }
            variadic! { $any with_any }
        };
    )*};
}

printf! {
    vsnprintf "r8", snprintf (to: usize, n: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, n), call, |r| cut(to, n, r, 1));
    __vsnprintf_chk stack, __snprintf_chk (to: usize, n: usize, _k: c_int, _m: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, n), call, |r| cut(to, n, r, 1));
    vsprintf "rcx", sprintf (to: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, UNKNOWN), call, |r| writes(to, r + 1));
    __vsprintf_chk "r9", __sprintf_chk (to: usize, _k: c_int, _m: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, UNKNOWN), call, |r| writes(to, r + 1));
    vasprintf "rcx", asprintf (to: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, 8), call, |r| allocated(to, r));
    __vasprintf_chk "r8", __asprintf_chk (to: usize, _k: c_int, format: usize);
        |pc, a, call| into_memory(pc, (format, false), a, || fills(to, 8), call, |r| allocated(to, r));
    vswprintf "r8", swprintf (to: usize, n: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, true), a, || fills(to, WIDE * n), call, |r| cut(to, n, r, WIDE));
    __vswprintf_chk stack, __swprintf_chk (to: usize, n: usize, _k: c_int, _m: usize, format: usize);
        |pc, a, call| into_memory(pc, (format, true), a, || fills(to, WIDE * n), call, |r| cut(to, n, r, WIDE));
    vprintf "rdx", printf (format: usize);
        |pc, a, call| into_stream(
            pc, (format, false), a, |pc, note| puts_and(standard_output() as Pointer, pc, note), call);
    __vprintf_chk "rcx", __printf_chk (_k: c_int, format: usize);
        |pc, a, call| into_stream(
            pc, (format, false), a, |pc, note| puts_and(standard_output() as Pointer, pc, note), call);
    vfprintf "rcx", fprintf (f: usize, format: usize);
        |pc, a, call| into_stream(
            pc, (format, false), a, |pc, note| puts_and(f as Pointer, pc, note), call);
    __vfprintf_chk "r8", __fprintf_chk (f: usize, _k: c_int, format: usize);
        |pc, a, call| into_stream(
            pc, (format, false), a, |pc, note| puts_and(f as Pointer, pc, note), call);
    vwprintf "rdx", wprintf (format: usize);
        |pc, a, call| into_stream(
            pc, (format, true), a, |pc, note| puts_and(standard_output() as Pointer, pc, note), call);
    vfwprintf "rcx", fwprintf (f: usize, format: usize);
        |pc, a, call| into_stream(
            pc, (format, true), a, |pc, note| puts_and(f as Pointer, pc, note), call);
    __vwprintf_chk "rcx", __wprintf_chk (_k: c_int, format: usize);
        |pc, a, call| into_stream(
            pc, (format, true), a, |pc, note| puts_and(standard_output() as Pointer, pc, note), call);
    __vfwprintf_chk "r8", __fwprintf_chk (f: usize, _k: c_int, format: usize);
        |pc, a, call| into_stream(
            pc, (format, true), a, |pc, note| puts_and(f as Pointer, pc, note), call);
    vdprintf "rcx", dprintf (fd: c_int, format: usize);
        |pc, a, call| into_stream(pc, (format, false), a, |pc, note| puts_into_and(fd, pc, note), call);
    __vdprintf_chk "r8", __dprintf_chk (fd: c_int, _k: c_int, format: usize);
        |pc, a, call| into_stream(pc, (format, false), a, |pc, note| puts_into_and(fd, pc, note), call);
}
