//! Functions that a library calls later, maybe in another thread.
//!
//! The library gets the address of a *thunk* in their place, a few instructions of ours, of which there is a fixed
//! number. A thunk does what a hand-over needs before the function and after it: the function comes after the call that
//! has passed it, and after whatever was sent by its first argument; and who awaits the library's calls comes after it.
//! Such a function has at most six arguments, all of them integers, pointers or floating-point numbers.

use super::once::{self, Once};
use super::order::{key_of, key_of_library, send};
use super::{After, Arguments, Modelled, Pending};
use crate::base::kernel;
use crate::base::lock::Mutex;
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::thread;
use crate::scheduler::free_running::leaving;
use crate::scheduler::{Next, enter};
use crate::wire::{head, op};
use core::arch::global_asm;
use std::collections::{BTreeMap, BTreeSet};

/// How many thunks there are.
const THUNKS: usize = 1024;

/// Bytes from one thunk to the next, and from its begin to the address that it passes on.
const LENGTH: usize = 16;
const PASSED: usize = 7;

global_asm!(
    ".balign 16",
    ".hidden snag_thunks",
    ".globl snag_thunks",
    ".type snag_thunks,@function",
    "snag_thunks:",
    ".cfi_startproc",
    ".rept 1024",
    ".balign 16",
    "lea r11, [rip]",
    "jmp snag_thunk",
    ".endr",
    ".cfi_endproc",
    ".size snag_thunks, . - snag_thunks",
    ".type snag_thunk,@function",
    "snag_thunk:",
    ".cfi_startproc",
    "push r11",
    ".cfi_adjust_cfa_offset 8",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push rax",
    ".cfi_adjust_cfa_offset 56",
    "sub rsp, 136",
    ".cfi_adjust_cfa_offset 136",
    "movups xmmword ptr [rsp], xmm0",
    "movups xmmword ptr [rsp + 16], xmm1",
    "movups xmmword ptr [rsp + 32], xmm2",
    "movups xmmword ptr [rsp + 48], xmm3",
    "movups xmmword ptr [rsp + 64], xmm4",
    "movups xmmword ptr [rsp + 80], xmm5",
    "movups xmmword ptr [rsp + 96], xmm6",
    "movups xmmword ptr [rsp + 112], xmm7",
    "mov rsi, rdi",
    "mov rdi, r11",
    "call {begin}",
    "mov r11, rax",
    "movups xmm0, xmmword ptr [rsp]",
    "movups xmm1, xmmword ptr [rsp + 16]",
    "movups xmm2, xmmword ptr [rsp + 32]",
    "movups xmm3, xmmword ptr [rsp + 48]",
    "movups xmm4, xmmword ptr [rsp + 64]",
    "movups xmm5, xmmword ptr [rsp + 80]",
    "movups xmm6, xmmword ptr [rsp + 96]",
    "movups xmm7, xmmword ptr [rsp + 112]",
    "add rsp, 136",
    ".cfi_adjust_cfa_offset -136",
    "pop rax",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    ".cfi_adjust_cfa_offset -56",
    "call r11",
    "pop rdi", // the thunk
    ".cfi_adjust_cfa_offset -8",
    "push rax",
    "push rdx",
    "sub rsp, 24",
    ".cfi_adjust_cfa_offset 40",
    "movups xmmword ptr [rsp], xmm0",
    "call {end}",
    "movups xmm0, xmmword ptr [rsp]",
    "add rsp, 24",
    "pop rdx",
    "pop rax",
    ".cfi_adjust_cfa_offset -40",
    "ret",
    ".cfi_endproc",
    ".size snag_thunk, . - snag_thunk",
    begin = sym begin,
    end = sym end,
);

unsafe extern "C" {
    static snag_thunks: u8;
}

/// What a thunk stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub function: usize,
    pub library: u8,
    /// For what the function is called once; `None` if it may be called at any time from now on.
    pub once: Option<Once>,
    /// It was, of those that are called once.
    pub ran: bool,
}

struct Known {
    slots: [Option<Slot>; THUNKS],
    /// What functions were passed with, or without, that may be called now.
    sent: BTreeSet<u64>,
    /// What those have sent that have returned, by library.
    done: BTreeSet<(u8, u64)>,
}

/// The lock is held for a look or a change.
static KNOWN: Mutex<Known> = Mutex::new(Known { slots: [None; THUNKS], sent: BTreeSet::new(), done: BTreeSet::new() });

// What keys are about, beside parts of queues.
const PASSED_ALONE: u64 = 0x3ffe;
const PASSED_WITH: u64 = 0x3ffd;
const DONE: u64 = 0x3ffc;

/// A thunk for a function; `None` if there are none left.
pub fn reserve(slot: Slot) -> Option<usize> {
    let mut known = KNOWN.lock();
    let same = |other: &Option<Slot>| slot.once.is_none() && *other == Some(slot);
    let free = known.slots.iter().position(same).or_else(|| known.slots.iter().position(Option::is_none))?;
    known.slots[free] = Some(slot);
    Some(free)
}

/// The address of a thunk.
pub fn thunk(slot: usize) -> usize {
    &raw const snag_thunks as usize + LENGTH * slot
}

/// The thunk of a function that is called once is not needed any more. Returns whether it was called.
pub fn give_back(slot: usize) -> bool {
    KNOWN.lock().slots[slot].take().is_some_and(|slot| slot.ran)
}

/// The address that a thunk has passed on says which one it is.
fn slot_of(passed: usize) -> (usize, Option<Slot>) {
    let number = (passed - PASSED - &raw const snag_thunks as usize) / LENGTH;
    (number, KNOWN.lock().slots[number])
}

/// What a function was passed with; the function itself as well, as many are passed with nothing.
fn passed_with(function: usize, data: usize) -> u64 {
    key_of(function.rotate_left(20) ^ data, PASSED_WITH)
}

/// Whether something was sent by this key, to a function that is called later.
fn was_sent(key: u64) -> bool {
    KNOWN.lock().sent.contains(&key)
}

/// A call sends something that a function may receive.
pub fn note_sent(key: u64) {
    KNOWN.lock().sent.insert(key);
}

extern "C" fn begin(passed: usize, argument: usize) -> usize {
    let (_, Some(slot)) = slot_of(passed) else {
        // A library that calls it long after the recording has forgotten it: none is ever forgotten.
        return 0;
    };
    if slot.once.is_none() {
        let keys = [
            key_of(slot.function, PASSED_ALONE),
            passed_with(slot.function, argument),
            key_of(argument, 0),
            key_of_library(slot.library),
        ];
        leaving(|| {
            if enter(Next::call(slot.function)).is_some() {
                for key in keys.into_iter().filter(|&key| was_sent(key)) {
                    put3(head(op::SYNC_ACQUIRE, 0, slot.function), key, 0);
                }
            }
        });
    }
    slot.function
}

extern "C" fn end(passed: usize) {
    let (number, slot) = slot_of(passed);
    let Some(slot) = slot else { return };
    leaving(|| match slot.once {
        Some(done) => {
            once::ran(done);
            KNOWN.lock().slots[number] = Some(Slot { ran: true, ..slot });
        }
        None => {
            let Some(thread) = thread::current() else { return };
            // Each thread has its own: they do not order each other.
            let key = key_of(number << 16 | thread.number.get() as usize, DONE);
            send(key, slot.function);
            KNOWN.lock().done.insert((slot.library, key));
        }
    });
}

pub fn hand_over(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let function = arguments.get(entry.object);
    if function == 0 {
        return Pending::CALL;
    }
    if let Some(slot) = reserve(Slot { function, library: entry.library, once: None, ran: false }) {
        arguments.set(entry.object, thunk(slot));
        let key = match entry.second {
            0 => key_of(function, PASSED_ALONE),
            data => passed_with(function, arguments.get(data)),
        };
        note_sent(key);
        send(key, pc);
    }
    Pending::CALL
}

/// Tables of functions, by the program's address: the library gets a copy with thunks, always the same one.
static TABLES: Mutex<BTreeMap<usize, &'static [usize]>> = Mutex::new(BTreeMap::new());

/// A table may have more entries than those that are functions: they are copied as they are.
const MORE: usize = 8;

pub fn hand_over_table(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let table = arguments.get(entry.object);
    if table == 0 {
        return Pending::CALL;
    }
    let mut tables = TABLES.lock();
    let copy = tables.entry(table).or_insert_with(|| {
        let functions = entry.size as usize;
        let entries = (0..functions + MORE).map(|index| {
            let at = Address(table).plus(8 * index);
            let function = if index < functions || kernel::can_read(at.0) { at.read::<usize>() } else { 0 };
            if index >= functions || function == 0 {
                return function;
            }
            let slot = Slot { function, library: entry.library, once: None, ran: false };
            reserve(slot).map_or(function, thunk)
        });
        Vec::leak(entries.collect())
    });
    arguments.set(entry.object, copy.as_ptr() as usize);
    drop(tables);
    let key = key_of_library(entry.library);
    note_sent(key);
    send(key, pc);
    Pending::CALL
}

pub fn await_calls(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let entry = &modelled.entry;
    match entry.object != 0 && arguments.get(entry.object) as u32 == 0 {
        true => Pending::CALL,
        false => Pending::then(After::Awaited { library: entry.library, pc: arguments.pc }),
    }
}

/// The library's calls have been awaited.
pub fn awaited(library: u8, pc: usize) {
    if enter(Next::call(pc)).is_some() {
        let done: Vec<u64> = KNOWN.lock().done.iter().filter(|(of, _)| *of == library).map(|&(_, key)| key).collect();
        for key in done {
            put3(head(op::SYNC_ACQUIRE, 0, pc), key, 0);
        }
    }
}
