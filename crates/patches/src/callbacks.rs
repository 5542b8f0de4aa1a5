//! Programs that carry ThreadSanitizer's runtime inside: clang's default, gcc's `-static-libtsan`, Rust.
//!
//! Such a program never asks for a library that ours could replace. So the start of its own callbacks and interceptors
//! becomes a jump to ours; interceptors for which we have no replacement jump to the function of the C library that
//! they intercept.

use crate::image::{Function, Image};
use object::ReadRef;
use snag_wire::patches::{JUMP, Jump, NOTHING, word_of};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What becomes of one function of the runtime inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate<'a> {
    /// A jump to a function of our runtime.
    Ours(u64),
    /// A jump to a function of another library.
    Library(&'a [u8]),
}

/// What a function of the runtime in the program stands for: a callback, or a function of the C library.
fn stands_for(name: &[u8]) -> Option<&[u8]> {
    // A compiler's name for a part or a copy of a function.
    if name.contains(&b'.') {
        return None;
    }
    if let Some(original) = name.strip_prefix(b"___interceptor_") {
        return Some(original);
    }
    if let Some(original) = name.strip_prefix(b"__interceptor_") {
        return (!original.starts_with(b"trampoline_")).then_some(original);
    }
    // These have no other name.
    let exact: [&[u8]; 7] = [
        b"setjmp",
        b"_setjmp",
        b"sigsetjmp",
        b"__sigsetjmp",
        b"RunningOnValgrind",
        b"ValgrindSlowdown",
        b"ThreadSanitizerQuery",
    ];
    let ours: [&[u8]; 9] =
        [b"__tsan_", b"__sanitizer_", b"Annotate", b"WTFAnnotate", b"__cxa_guard_", b"_Znw", b"_Zna", b"_Zdl", b"_Zda"];
    (exact.contains(&name) || ours.iter().any(|prefix| name.starts_with(prefix))).then_some(name)
}

/// Whether a function is the runtime's for the program to call, and not the program's for the runtime.
fn is_interface(name: &[u8]) -> bool {
    match name.strip_prefix(b"__tsan_") {
        Some(rest) => !rest.starts_with(b"default_") && !rest.starts_with(b"on_"),
        None => name.starts_with(b"__sanitizer_"),
    }
}

/// Jumps to our runtime, and jumps to other libraries with the names of what they go to.
#[derive(Debug, Default)]
pub struct Callbacks<'a> {
    pub ours: Vec<Jump>,
    pub libraries: Vec<(Jump, &'a [u8])>,
}

impl Callbacks<'_> {
    /// Where the functions begin.
    pub fn places(&self) -> HashSet<u64> {
        self.ours.iter().chain(self.libraries.iter().map(|(jump, _)| jump)).map(|jump| jump.at).collect()
    }
}

/// Decides about every function of the runtime inside. `ours` are the functions that our runtime offers.
pub fn decide<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    functions: &[Function<'a>],
    ours: &HashMap<Vec<u8>, u64>,
) -> Callbacks<'a> {
    let mut starts: Vec<u64> = functions.iter().map(|function| function.address).collect();
    starts.sort_unstable();
    // A jump must not reach into what comes next.
    let has_room = |function: &Function| {
        let next = starts.get(starts.partition_point(|&start| start <= function.address));
        next.is_none_or(|next| next - function.address >= JUMP as u64)
    };
    let mut fates: BTreeMap<u64, Fate<'a>> = BTreeMap::new();
    for function in functions.iter().filter(|function| has_room(function)) {
        let Some(name) = stands_for(function.name) else { continue };
        let fate = match ours.get(name) {
            Some(&target) => Fate::Ours(target),
            // What is left of the interface must not wake the runtime that is never started.
            None if is_interface(name) && function.size >= JUMP as u64 => Fate::Ours(NOTHING),
            None => Fate::Library(name),
        };
        // Functions may have several names, and functions with the same code may be one: a replacement of ours that
        // does something comes first.
        let rank = |fate: &Fate| match fate {
            Fate::Ours(NOTHING) => 1,
            Fate::Ours(_) => 2,
            Fate::Library(_) => 0,
        };
        let known = fates.entry(function.address).or_insert(fate);
        if rank(&fate) > rank(known) {
            *known = fate;
        }
    }
    let mut callbacks = Callbacks::default();
    for (at, fate) in fates {
        let Some(bytes) = image.instructions(at, JUMP as u64).map(word_of) else { continue };
        match fate {
            Fate::Ours(target) => callbacks.ours.push(Jump { at, bytes, target }),
            Fate::Library(name) => callbacks.libraries.push((Jump { at, bytes, target: 0 }, name)),
        }
    }
    callbacks
}
