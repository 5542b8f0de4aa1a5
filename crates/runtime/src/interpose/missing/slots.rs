//! Leads calls out of instrumented code to the trampoline.
//!
//! The linker makes instrumented code call other objects through words that the dynamic linker fills in: slots of the
//! global offset table, and tables of functions. Where such a word leads to code that nobody sees, it gets the address
//! of a stub instead. Words that are filled in on first use are looked up now if that is possible, and else left alone:
//! what would not resolve is not resolved earlier than it would be. Words that are read-only after relocation are
//! written, and made read-only again.

use crate::base::c::{self, Pointer};
use crate::base::kernel::{self, READ_EXECUTE, number, system};
use crate::base::lock::Mutex;
use crate::base::memory::map_seen;
use crate::base::program::Address;
use crate::base::record::{put_blob, put3};
use crate::interpose::missing::exempt::is_exempt_function;
use crate::interpose::missing::globals::{Globals, writable};
use crate::interpose::missing::loaded::{self, Kind, Object, Slot};
use crate::interpose::missing::targets::Target;
use crate::interpose::missing::trampoline::STUB;
use crate::interpose::missing::{reach, silent, trampoline};
use crate::interpose::modelled::{self, Modelled};
use crate::scheduler::free_running::is_free;
use crate::wire::{BLOB_UNSEEN, OF_LIBRARIES, head, op};
use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions of instrumented objects, by address.
static INSTRUMENTED: AtomicPtr<Vec<Range<usize>>> = AtomicPtr::new(core::ptr::null_mut());

/// Whether an address is one of instrumented code.
pub fn is_instrumented(pc: usize) -> bool {
    // SAFETY: `look_at_what_is_loaded` leaves there what stays for ever, or there is nothing.
    let all = unsafe { INSTRUMENTED.load(Acquire).as_ref() };
    all.is_some_and(|all| all.iter().any(|range| range.contains(&pc)))
}

/// Instructions of libraries that nobody sees, with the names of their files.
static UNSEEN: AtomicPtr<Vec<(Range<usize>, Vec<u8>)>> = AtomicPtr::new(core::ptr::null_mut());

/// The library that nobody sees in which a function is, by the name of its file.
pub fn unseen_library_of(function: usize) -> Option<&'static [u8]> {
    // SAFETY: as in `is_instrumented`.
    let unseen = unsafe { UNSEEN.load(Acquire).as_ref() }?;
    let (_, name) = unseen.iter().find(|(range, _)| range.contains(&function))?;
    Some(name)
}

/// The stub of each function that has one, by its address.
static STUBS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Variables of libraries that records know of.
static KNOWN: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Looks at everything that is loaded, and redirects what is new. With the token, or before there are threads.
pub fn look_at_what_is_loaded() {
    let all = loaded::all();
    let why = match (is_free(), trampoline::works_here()) {
        (true, _) => Some("threads ran freely"),
        (_, false) => Some("the processor cannot save its registers"),
        _ => None,
    };
    if let Some(why) = why {
        silent::tell(why);
        return tell_what_is_called(&all, why);
    }
    let of_kind = |kind: Kind| all.iter().filter(move |object| object.kind == kind);
    let code: Vec<_> = of_kind(Kind::Instrumented).flat_map(|object| object.code.iter().cloned()).collect();
    // What was there before may be in use, and stays: libraries are loaded seldom.
    INSTRUMENTED.store(Box::into_raw(Box::new(code)), Release);
    let has_libraries = of_kind(Kind::Unseen).next().is_some();
    if !silent::lead_to_stubs(silent::program_of(&all), has_libraries) && !has_libraries {
        return;
    }
    let named = |object: &Object, range: &Range<usize>| (range.clone(), object.name().to_vec());
    let code = of_kind(Kind::Unseen).flat_map(|object| object.code.iter().map(move |range| named(object, range)));
    let code: Vec<_> = code.collect();
    UNSEEN.store(Box::into_raw(Box::new(code)), Release);
    reach::set_globals(of_kind(Kind::Instrumented).map(Globals::of).collect());
    let mut known = KNOWN.lock();
    for range in of_kind(Kind::Unseen).flat_map(writable) {
        if !known.contains(&range) {
            put3(head(op::REACHED, OF_LIBRARIES, 0), range.start as u64, range.len() as u64);
            known.push(range);
        }
    }
    drop(known);
    for object in of_kind(Kind::Instrumented) {
        redirect(object, &all);
    }
    of_kind(Kind::Unseen).for_each(redirect_virtual);
}

/// Libraries whose tables of virtual functions lead to stubs, by where they are.
static VIRTUAL: Mutex<Vec<(usize, Vec<u8>)>> = Mutex::new(Vec::new());

/// Redirects the virtual functions of a library that nobody sees: instrumented code finds them by objects.
fn redirect_virtual(library: &Object) {
    let mut known = VIRTUAL.lock();
    if known.iter().any(|(base, path)| (*base, path) == (library.base, &library.path)) {
        return;
    }
    known.push((library.base, library.path.clone()));
    let words = library.virtual_functions();
    if words.is_empty() {
        return;
    }
    let unnamed: &'static [u8] = Box::leak([b"a virtual function of ", library.name()].concat().into_boxed_slice());
    let mut stubs = STUBS.lock();
    let mut new: Vec<New> = Vec::new();
    let mut found: Vec<(usize, usize)> = Vec::with_capacity(words.len());
    let mut is_new = BTreeSet::new();
    for (at, name) in words {
        let (function, name) = (Address(at).read::<usize>(), name.unwrap_or(unnamed));
        let modelled = modelled::find(name, Some(library.name()));
        if is_exempt_function(name) || modelled.is_some_and(|modelled| modelled.is_pure()) {
            continue;
        }
        if !stubs.contains_key(&function) && is_new.insert(function) {
            new.push(New { function, name, modelled });
        }
        found.push((at, function));
    }
    make_stubs(&new, &mut stubs);
    for (at, function) in found {
        let stub = stubs.get(&function);
        if !stub.is_some_and(|&stub| fill_in(library, at, function, stub)) {
            tell_unseen(library.name(), "its virtual functions could not be redirected");
        }
    }
}

/// Libraries, and the program itself, of which records say already that nobody sees them.
static TOLD: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Records that nobody sees what this library does, and why.
pub fn tell_unseen(library: &[u8], why: &str) {
    let text = [library, b" (", why.as_bytes(), b")"].concat();
    let mut told = TOLD.lock();
    if !told.contains(&text) {
        put_blob(BLOB_UNSEEN, &text);
        told.push(text);
    }
}

/// Records which libraries instrumented code calls, where these calls are not captured.
fn tell_what_is_called(all: &[Object], why: &str) {
    for object in all.iter().filter(|object| object.kind == Kind::Instrumented) {
        called_by(object, all).iter().for_each(|call| tell_unseen(call.library.name(), why));
    }
}

/// A call by which instrumented code may reach code that nobody sees.
struct Call<'all> {
    slot: Slot,
    function: usize,
    library: &'all Object,
    modelled: Option<Modelled>,
}

/// Those of an object.
fn called_by<'all>(object: &Object, all: &'all [Object]) -> Vec<Call<'all>> {
    let unseen = |address: usize| all.iter().find(|other| other.kind == Kind::Unseen && other.has_code(address));
    let mut itself = Itself { object, handle: None };
    let call = |slot: Slot| {
        let filled = Address(slot.at).read::<usize>();
        // A word that is not filled in yet leads back into its own object.
        let function = if slot.is_lazy && object.has_code(filled) { itself.look_up(slot.name) } else { filled };
        let library = unseen(function)?;
        let modelled = modelled::find(slot.name, Some(library.name()));
        // Calls of a function that has no effect are left alone.
        let is_pure = modelled.is_some_and(|modelled| modelled.is_pure());
        (!is_pure).then_some(Call { slot, function, library, modelled })
    };
    object.slots().filter(|slot| !is_exempt_function(slot.name)).filter_map(call).collect()
}

/// Redirects the words of an object that lead into code that nobody sees.
fn redirect(object: &Object, all: &[Object]) {
    for slot in object.slots().filter(|slot| slot.name == b"dlsym") {
        let found = Address(slot.at).read();
        fill_in(object, slot.at, found, dlsym_for_program as *const () as usize);
    }
    let found = called_by(object, all);
    let mut stubs = STUBS.lock();
    let mut new: Vec<New> = Vec::new();
    for &Call { slot, function, modelled, .. } in &found {
        if !stubs.contains_key(&function) && !new.iter().any(|known| known.function == function) {
            new.push(New { function, name: slot.name, modelled });
        }
    }
    make_stubs(&new, &mut stubs);
    for call in found {
        let stub = stubs.get(&call.function);
        if !stub.is_some_and(|&stub| fill_in(object, call.slot.at, Address(call.slot.at).read(), stub)) {
            tell_unseen(call.library.name(), "its calls could not be redirected");
        }
    }
}

/// What the program's `dlsym` leads to: functions that nobody sees are called through stubs here as well. Where the
/// answer depends on who asks, the program asks itself.
#[unsafe(naked)]
unsafe extern "C" fn dlsym_for_program() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "je 2f",
        "ret",
        "2:",
        "jmp {really}",
        ".cfi_endproc",
        find = sym find_for_program,
        really = sym c::dlsym,
    )
}

/// The stub of a function that the program looks up; 0 if it is to look itself.
extern "C" fn find_for_program(library: Pointer, name: *const u8) -> usize {
    if library == c::RTLD_NEXT || name.is_null() {
        return 0;
    }
    // SAFETY: the program has passed a handle, or null for everything, and a name.
    let found = unsafe { c::dlsym(library, name) } as usize;
    let Some(file) = unseen_library_of(found) else { return silent::stub_of(found).unwrap_or(0) };
    let length = Address::from(name).text_length(usize::MAX);
    // SAFETY: so many bytes were read there just now; the name is copied before it is kept.
    let name: &'static [u8] = unsafe { core::slice::from_raw_parts(name, length) };
    if is_exempt_function(name) {
        return 0;
    }
    let modelled = modelled::find(name, Some(file));
    if modelled.is_some_and(|modelled| modelled.is_pure()) {
        return 0;
    }
    let mut stubs = STUBS.lock();
    if !stubs.contains_key(&found) {
        make_stubs(&[New { function: found, name, modelled }], &mut stubs);
    }
    stubs.get(&found).copied().unwrap_or(0)
}

/// An object, where its symbols are looked up.
struct Itself<'object> {
    object: &'object Object,
    /// Once it was asked for.
    handle: Option<Pointer>,
}

impl Itself<'_> {
    /// Where a function is that the object refers to; 0 if there is none.
    fn look_up(&mut self, name: &[u8]) -> usize {
        const ANYWHERE: Pointer = core::ptr::null_mut();
        let name = [name, b"\0"].concat();
        let find = |handle: Pointer| {
            // SAFETY: the name ends in a zero byte; the handle is null, for everything, or comes from `dlopen`.
            unsafe { c::dlsym(handle, name.as_ptr()) as usize }
        };
        match find(ANYWHERE) {
            0 if !self.object.path.is_empty() => {
                let handle = *self.handle.get_or_insert_with(|| open_again(&self.object.path));
                if handle.is_null() { 0 } else { find(handle) }
            }
            found => found,
        }
    }
}

impl Drop for Itself<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.filter(|handle| !handle.is_null()) {
            let close = crate::real!(dlclose, fn(Pointer) -> c_int);
            // SAFETY: `open_again` has opened it once more than the program.
            unsafe { close(handle) };
        }
        // The program must not find our failures.
        c::dlerror();
    }
}

/// A handle of an object that is loaded.
fn open_again(path: &[u8]) -> Pointer {
    const LAZY_LOADED_ALREADY: c_int = 1 | 4;
    let path = [path, b"\0"].concat();
    let open = crate::real!(dlopen, fn(*const u8, c_int) -> Pointer);
    // SAFETY: the path ends in a zero byte, and nothing is loaded that is not there already.
    unsafe { open(path.as_ptr(), LAZY_LOADED_ALREADY) }
}

/// A function that gets a stub.
struct New {
    function: usize,
    name: &'static [u8],
    modelled: Option<Modelled>,
}

/// Makes a stub for each function.
fn make_stubs(functions: &[New], stubs: &mut BTreeMap<usize, usize>) {
    if functions.is_empty() {
        return;
    }
    let length = (functions.len() * STUB).next_multiple_of(4096);
    let memory = map_seen(length) as usize;
    for (index, &New { function, name, modelled }) in functions.iter().enumerate() {
        let target = Target::of_library(function, name, modelled);
        let stub = memory + index * STUB;
        let code = match modelled.map(|modelled| modelled.kind()) {
            Some(modelled::Kind::Known) => modelled::stub(target),
            _ => trampoline::stub(target),
        };
        // SAFETY: the memory was mapped for this, and is as long as that.
        unsafe { (stub as *mut [u8; STUB]).write(code) };
        stubs.insert(function, stub);
    }
    if !kernel::protect_code(memory, length, READ_EXECUTE) {
        functions.iter().for_each(|new| _ = stubs.remove(&new.function));
    }
}

/// Has a word that leads to one place lead to another. Returns false if it does not lead there, or the system does not let
/// us.
pub fn fill_in(object: &Object, at: usize, before: usize, after: usize) -> bool {
    const PAGE: usize = 4096;
    const READ: usize = 1;
    const READ_WRITE: usize = 3;
    if Address(at).read::<usize>() != before {
        return false;
    }
    let page = at / PAGE * PAGE;
    // Where the pages of what is sealed end within one, that one can be written.
    let sealed = object.sealed.start / PAGE * PAGE..object.sealed.end / PAGE * PAGE;
    let is_constant = !object.data.iter().any(|range| range.contains(&at)) || sealed.contains(&page);
    let protect = |protection: usize| {
        // SAFETY: the page stays where it is, and can be read before and after.
        unsafe { system(number::MPROTECT, [page, PAGE, protection, 0, 0, 0]) >= 0 }
    };
    if is_constant && !protect(READ_WRITE) {
        return false;
    }
    // SAFETY: the dynamic linker fills in this word by the same table, or the list of what to rewrite says that it names
    // a function. A thread that reads it meanwhile finds the one address or the other, and both lead to the function.
    unsafe { (at as *mut usize).write_volatile(after) };
    if is_constant {
        protect(READ);
    }
    true
}
