//! The family of `scanf`: the format and the text are read, and each conversion that succeeds writes.

use crate::base::c::Pointer;
use crate::interpose::blocking::{around_with, by_errno};
use crate::interpose::library::effects::*;
use crate::interpose::library::format::{Arguments, Directive, Kind, Resolved};
use crate::interpose::library::printing::{directives, fresh, list, variadic};
use crate::interpose::library::{counts, in_turn, row};
use crate::interpose::streams::takes_stream;
use crate::pass_on;
use crate::scheduler::free_running::leaving;
use core::ffi::c_int;

/// A format: for whom, where, and whether it is wide.
#[derive(Clone, Copy)]
struct Format {
    kind: Kind,
    at: usize,
    is_wide: bool,
}

/// A conversion of a stream of unknown length may write so much.
const UNKNOWN: usize = 4096;

/// The bytes of a character of a conversion.
fn character(directive: Directive) -> usize {
    if directive.is_wide() { WIDE } else { 1 }
}

/// Before the call: what it reads of the program's, and where it may write.
fn given(format: Format, arguments: Arguments) {
    if format.at == 0 {
        return;
    }
    if format.is_wide {
        wide(format.at)
    } else {
        text(format.at)
    }
    directives(format.kind, format.at, format.is_wide, arguments, |found| {
        let Resolved { directive, width, argument, .. } = found;
        if directive.suppressed {
            return;
        }
        let length = match directive.stored() {
            Some(length) => length,
            None if directive.allocates => 8,
            None => character(directive) * width.map_or(UNKNOWN, |width| width.saturating_add(1)),
        };
        fills(argument as usize, length);
    });
}

/// After it: what so many conversions have written.
fn taken(format: Format, arguments: Arguments, conversions: c_int) {
    let mut left = conversions.max(0);
    // Whether the call has come to the next directive for certain.
    let mut arrives = true;
    if format.at == 0 || conversions < 0 {
        return;
    }
    directives(format.kind, format.at, format.is_wide, arguments, |found| {
        let Resolved { directive, width, argument, .. } = found;
        let at = argument as usize;
        arrives &= left > 0 || directive.adjacent;
        if directive.conversion == b'n' {
            if arrives && !directive.suppressed {
                writes(at, directive.stored().unwrap_or(0));
            }
        } else if directive.suppressed {
            arrives &= left > 0;
        } else if left > 0 {
            left -= 1;
            arrives = true;
            stores(directive, width, at);
        } else {
            arrives = false;
        }
    });
}

fn stores(directive: Directive, width: Option<usize>, at: usize) {
    if let Some(length) = directive.stored() {
        return writes(at, length);
    }
    let to = if directive.allocates { word(at) } else { at };
    if directive.allocates {
        appeared(to);
        writes(at, 8);
    }
    match (directive.conversion, directive.is_wide()) {
        (b'c' | b'C', _) => writes(to, character(directive) * width.unwrap_or(1)),
        (_, true) => writes_wide(to),
        (_, false) => writes_text(to),
    }
}

/// So much of a text is noted: a program that goes through a long one with many calls is not to pay for the rest of it
/// each time.
const MOST: usize = 4096;

/// A call that scans a text of the program's.
fn of_text(pc: usize, from: usize, format: Format, arguments: Arguments, call: impl FnOnce() -> c_int) -> c_int {
    let before = || {
        if format.is_wide {
            wide_up_to(from, MOST)
        } else {
            text_up_to(from, MOST)
        }
        given(format, arguments);
    };
    in_turn(pc, before, call, |&conversions| taken(format, arguments, conversions))
}

/// A call that scans a stream, which may have to wait.
fn of_stream(pc: usize, from: usize, format: Format, arguments: Arguments, call: impl FnOnce() -> c_int) -> c_int {
    if !counts(pc) {
        return call();
    }
    around_with(
        pc,
        Some(by_errno),
        || given(format, arguments),
        call,
        |&conversions| {
            takes_stream(from as Pointer);
            taken(format, arguments, conversions);
        },
    )
}

macro_rules! scanf {
    ($is_wide:literal $kind:ident; $($list:ident $register:literal, $any:ident ($($from:ident)?; $format:ident);
       $how:ident $stream:expr;)*) => {$(
        const _: () = {
            fn either(
                $($from: usize,)? $format: usize, pc: usize, arguments: Arguments, call: impl FnOnce() -> c_int,
            ) -> c_int {
                let format = Format { kind: Kind::$kind, at: $format, is_wide: $is_wide };
                let from: usize = [$($from,)? $stream()][0];
                $how(pc, from, format, arguments, call)
            }

            extern "C" fn with_list($($from: usize,)? $format: usize, arguments: usize, pc: usize) -> c_int {
                let call = || pass_on!($list($($from: usize,)? $format: usize, arguments: usize) -> c_int);
                either($($from,)? $format, pc, list(arguments), call)
            }
            row! { $list $register with_list }

            extern "C" fn with_any(save: usize, overflow: usize, pc: usize) -> c_int {
                $(let $from = word(save);)?
                let named = <[&str]>::len(&[$(stringify!($from))?]);
                let $format = word(save + 8 * named);
                let arguments = fresh(named + 1, save, overflow);
                let mut list = arguments;
                let given = &mut list;
                let call = move || pass_on!($list($($from: usize,)? $format: usize, given: &mut Arguments) -> c_int);
                leaving(|| either($($from,)? $format, pc, arguments, call))
            }
            variadic! { $any with_any }
        };
    )*};
}

fn input() -> usize {
    crate::base::c::standard_input()
}

fn none() -> usize {
    0
}

scanf! {
    false OldScan;
    vsscanf "rcx", sscanf (s; format); of_text none;
    vfscanf "rcx", fscanf (f; format); of_stream none;
    vscanf "rdx", scanf (; format); of_stream input;
}

scanf! {
    false Scan;
    __isoc99_vsscanf "rcx", __isoc99_sscanf (s; format); of_text none;
    __isoc99_vfscanf "rcx", __isoc99_fscanf (f; format); of_stream none;
    __isoc99_vscanf "rdx", __isoc99_scanf (; format); of_stream input;
    __isoc23_vsscanf "rcx", __isoc23_sscanf (s; format); of_text none;
    __isoc23_vfscanf "rcx", __isoc23_fscanf (f; format); of_stream none;
    __isoc23_vscanf "rdx", __isoc23_scanf (; format); of_stream input;
}

scanf! {
    true OldScan;
    vswscanf "rcx", swscanf (s; format); of_text none;
    vfwscanf "rcx", fwscanf (f; format); of_stream none;
    vwscanf "rdx", wscanf (; format); of_stream input;
}

scanf! {
    true Scan;
    __isoc99_vswscanf "rcx", __isoc99_swscanf (s; format); of_text none;
    __isoc99_vfwscanf "rcx", __isoc99_fwscanf (f; format); of_stream none;
    __isoc99_vwscanf "rdx", __isoc99_wscanf (; format); of_stream input;
    __isoc23_vswscanf "rcx", __isoc23_swscanf (s; format); of_text none;
    __isoc23_vfwscanf "rcx", __isoc23_fwscanf (f; format); of_stream none;
    __isoc23_vwscanf "rdx", __isoc23_wscanf (; format); of_stream input;
}
