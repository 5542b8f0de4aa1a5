//! Functions of a program that have no callbacks: those of static libraries that were built without them, those with
//! `no_sanitize_thread`, and those that the user excludes.
//!
//! What they do nobody sees, so calls of them are missing methods, like those of libraries without callbacks. The places
//! that name such a function (calls, jumps to its start, addresses that are taken, words of data) are made to name a
//! stub instead. A function counts if it, or what it calls, may touch memory that others see, or calls other objects.
//! One that only computes, or reads constants, is left alone: compilers put no callbacks there either.
//!
//! A function with callbacks for its frame alone may be one that has nothing else to tell, or one of clang's with
//! `no_sanitize("thread")`. It counts if its own instructions touch memory other than the stack and constants.
//!
//! What a function touches besides what its arguments lead to are the variables that it names, and those that the
//! functions name that it calls. If it calls by a pointer, that may be any function without callbacks whose address is
//! taken.

use crate::code::{Code, displacement_offset, memory_operand};
use crate::image::{Function, Image, Words};
use crate::plt;
use crate::registers::{Registers, named_address};
use crate::traps::is_rust;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};
use object::ReadRef;
use snag_wire::patches::{Muted, Naming, Silent, Site, silent, word_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What was found.
#[derive(Debug, Default)]
pub struct SilentFunctions<'a> {
    /// By address, with their names.
    pub functions: Vec<(Silent, &'a [u8])>,
    /// Of all functions, one behind the other.
    pub variables: Vec<u64>,
    pub sites: Vec<Site>,
    /// By address.
    pub muted: Vec<Muted>,
}

impl SilentFunctions<'_> {
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.muted.is_empty()
    }

    /// Whether the call at an address is left out.
    pub fn is_muted(&self, at: u64) -> bool {
        self.muted.binary_search_by_key(&at, |muted| muted.at).is_ok()
    }
}

/// The code that symbols name.
struct Body<'a> {
    size: u64,
    name: &'a [u8],
    /// No calls of it are led elsewhere.
    is_exempt: bool,
    is_excluded: bool,
}

/// What a function does without callbacks.
#[derive(Default)]
struct Facts {
    touches: bool,
    leaves: bool,
    /// It calls by pointers.
    open: bool,
    /// It has callbacks for its frame.
    has_frame: bool,
    variables: BTreeSet<u64>,
    calls: Vec<u64>,
}

/// What a callback is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callback {
    /// An access that the program itself makes as well.
    Access,
    /// A function's begin or end.
    Frame,
    /// Something that the callback does in place of the program.
    Other,
}

fn callback(name: &[u8]) -> Option<Callback> {
    let rest = name.strip_prefix(b"__tsan_")?;
    let accesses: [&[u8]; 4] = [b"read", b"write", b"unaligned_", b"vptr_"];
    let is_access = accesses.iter().any(|access| rest.starts_with(access));
    Some(match rest {
        b"func_entry" | b"func_exit" => Callback::Frame,
        _ if is_access => Callback::Access,
        _ => Callback::Other,
    })
}

/// What an instruction calls, or jumps to.
enum Callee {
    Callback(Callback),
    Import,
    Inside(u64),
    Unknown,
}

/// A program, as far as calls are concerned.
struct Program<'i, 'a, R: ReadRef<'a>> {
    image: &'i Image<'a, R>,
    words: &'i Words<'i, 'a, R>,
    bodies: BTreeMap<u64, Body<'a>>,
    stubs: HashMap<u64, &'a [u8]>,
    callbacks: HashMap<u64, Callback>,
}

/// Passes on a call of a virtual function.
fn is_thunk(name: &[u8]) -> bool {
    [b"_ZTh", b"_ZTv", b"_ZTc"].iter().any(|thunk| name.starts_with(*thunk))
}

/// Whether calls of a function with this name are left alone.
fn is_exempt(function: &Function, has_rust: bool) -> bool {
    let name = function.name;
    // Runtimes for callbacks; what the compiler makes: thunks, parts of functions, initialisation; what unwinds.
    const BEGINNINGS: [&[u8]; 19] = [
        b"__tsan_",
        b"__sanitizer_",
        b"__interceptor_",
        b"___interceptor_",
        b"__ubsan_",
        b"_ZN6__tsan",
        b"_ZN11__sanitizer",
        b"_ZN14__interception",
        b"_ZN7__ubsan",
        b"_ZTW",
        b"_ZTH",
        b"_GLOBAL__",
        b"_sub_",
        b"__cxa_",
        b"__gxx_",
        b"_Unwind_",
        b"__gcc_",
        b"__clang_call_terminate",
        b"__x86.get_pc_thunk",
    ];
    const LIBRARY: [&[u8]; 4] = [b"_ZNSt", b"_ZNKSt", b"_ZSt", b"_ZN9__gnu_cxx"];
    const RUST: [&[u8]; 4] = [b"rust_", b"__rust", b"__rdl_", b"__rg_"];
    const START: [&[u8]; 5] = [b"_start", b"_init", b"_fini", b"main", b"_dl_relocate_static_pie"];
    let begins = |with: &[&[u8]]| with.iter().any(|with| name.starts_with(with));
    let ends = name.ends_with(b".cold") || name.windows(6).any(|window| window == b".cold.");
    // The library's own synchronise by functions of the C library; what the program has of its templates is weak.
    let of_library = begins(&LIBRARY) && !function.is_weak;
    let of_rust = has_rust && (is_rust(name) || begins(&RUST));
    begins(&BEGINNINGS) || is_thunk(name) || ends || of_library || of_rust || START.contains(&name)
}

/// Decides which functions have no callbacks and where they are named. `replaced` are those that become jumps.
pub fn decide<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    words: &Words<'_, 'a, R>,
    functions: &[Function<'a>],
    replaced: &HashSet<u64>,
    is_excluded: &dyn Fn(&[u8]) -> bool,
) -> SilentFunctions<'a> {
    let program = Program::new(image, words, functions, replaced, is_excluded);
    let (facts, muted) = program.facts();
    let targets = program.targets(&facts);
    let starts: BTreeSet<u64> = targets.keys().copied().collect();
    let places = program.places(&starts, &facts);
    // What may be called by pointers.
    let taken = places.iter().filter(|place| place.is_taken).map(|place| place.target);
    let taken = closure(taken.collect(), &facts);
    let mut found = SilentFunctions { muted, ..SilentFunctions::default() };
    let mut indices: HashMap<u64, u32> = HashMap::new();
    let named: HashSet<u64> = places.iter().map(|place| place.target).collect();
    // The callbacks of those that have some for their frames are no sign that code is seen.
    let is_of_interest = |at: &u64| named.contains(at) || facts[at].has_frame;
    for (&at, all) in targets.iter().filter(|(at, _)| is_of_interest(at)) {
        let mut variables = all.variables.clone();
        if all.open {
            variables.extend(&taken.variables);
        }
        const MOST: usize = 64;
        let is_open = variables.len() > MOST;
        if is_open {
            variables.clear();
        }
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(all.touches, silent::TOUCHES)
            | flag(all.leaves || all.open && taken.leaves, silent::LEAVES)
            | flag(is_open, silent::OPEN);
        let body = &program.bodies[&at];
        let own = (found.variables.len() as u32, variables.len() as u32);
        indices.insert(at, found.functions.len() as u32);
        found.functions.push((Silent { at, length: body.size, name: 0, variables: own, flags }, body.name));
        found.variables.extend(variables);
    }
    let site = |place: Place| Some(Site { at: place.at, function: *indices.get(&place.target)?, naming: place.naming });
    found.sites = places.into_iter().filter_map(site).collect();
    found
}

/// What functions do, together with all that they call.
fn closure(starts: Vec<u64>, facts: &BTreeMap<u64, Facts>) -> Facts {
    let mut all = Facts::default();
    let mut seen: HashSet<u64> = starts.iter().copied().collect();
    let mut next = starts;
    while let Some(at) = next.pop() {
        let Some(own) = facts.get(&at) else { continue };
        all.touches |= own.touches;
        all.leaves |= own.leaves;
        all.open |= own.open;
        all.variables.extend(&own.variables);
        next.extend(own.calls.iter().filter(|&&call| seen.insert(call)));
    }
    // Whatever it calls by a pointer may touch anything.
    all.touches |= all.open;
    all
}

/// Where a function without callbacks is named.
struct Place {
    at: u64,
    target: u64,
    naming: Naming,
    /// Its address is taken.
    is_taken: bool,
}

impl<'i, 'a, R: ReadRef<'a>> Program<'i, 'a, R> {
    fn new(
        image: &'i Image<'a, R>,
        words: &'i Words<'i, 'a, R>,
        functions: &[Function<'a>],
        replaced: &HashSet<u64>,
        is_excluded: &dyn Fn(&[u8]) -> bool,
    ) -> Self {
        let has_rust = functions.iter().any(|function| is_rust(function.name));
        let mut bodies: BTreeMap<u64, Body<'a>> = BTreeMap::new();
        let mut callbacks = HashMap::new();
        for function in functions {
            let is_exempt = is_exempt(function, has_rust) || replaced.contains(&function.address);
            let new = Body { size: 0, name: function.name, is_exempt: false, is_excluded: false };
            let body = bodies.entry(function.address).or_insert(new);
            body.size = body.size.max(function.size);
            body.is_exempt |= is_exempt;
            body.is_excluded |= !is_exempt && is_excluded(function.name);
            if let Some(callback) = callback(function.name) {
                callbacks.insert(function.address, callback);
            }
        }
        let stubs = plt::stubs(image, words);
        callbacks.extend(stubs.iter().filter_map(|(&at, name)| Some((at, callback(name)?))));
        // Of assembly the symbols may not say how long it is.
        const MOST: u64 = 4096;
        let starts: Vec<u64> = bodies.keys().copied().collect();
        for (at, next) in starts.iter().zip(starts.iter().skip(1)) {
            if let Some(body) = bodies.get_mut(at).filter(|body| body.size == 0) {
                body.size = (next - at).min(MOST);
            }
        }
        let mut program = Program { image, words, bodies, stubs, callbacks };
        program.leave_runtime_alone(functions);
        program
    }

    /// A runtime for callbacks inside the program is one stretch of code, and calls itself under all sorts of names.
    fn leave_runtime_alone(&mut self, functions: &[Function<'a>]) {
        const NAMES: [&[u8]; 3] = [b"_ZN11__sanitizer", b"__interceptor_", b"___interceptor_"];
        let is_runtime = |function: &&Function| NAMES.iter().any(|name| function.name.starts_with(name));
        let places = || functions.iter().filter(is_runtime).map(|function| function.address);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { return };
        let calls_back = |(&at, body): (&u64, &Body)| self.calls_back(at, body, &[Callback::Access]);
        if !self.bodies.range(first..=last).any(calls_back) {
            self.bodies.range_mut(first..=last).for_each(|(_, body)| body.is_exempt = true);
        }
    }

    /// Whether code looks as if it called one of these callbacks.
    fn calls_back(&self, at: u64, body: &Body, which: &[Callback]) -> bool {
        self.image.instructions(at, body.size).is_some_and(|bytes| self.may_call_back(at, bytes, which))
    }

    /// What a call or a jump out of its function leads to.
    fn callee(&self, i: &Instruction) -> Callee {
        let near = i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64;
        let target = if near {
            Some(i.near_branch64())
        } else if i.is_ip_rel_memory_operand() {
            let word = i.ip_rel_memory_address();
            if let Some(name) = self.words.import(word) {
                return callback(name).map_or(Callee::Import, Callee::Callback);
            }
            // A word that never changes.
            (!self.image.may_change(word)).then(|| self.words.at(word)).flatten()
        } else {
            None
        };
        let Some(target) = target else { return Callee::Unknown };
        if let Some(&callback) = self.callbacks.get(&target) {
            return Callee::Callback(callback);
        }
        match self.stubs.contains_key(&target) {
            true => Callee::Import,
            false => Callee::Inside(target),
        }
    }

    /// Whether bytes of code look as if they called one of these callbacks.
    fn may_call_back(&self, at: u64, bytes: &[u8], which: &[Callback]) -> bool {
        let is_one = |callback: Option<Callback>| callback.is_some_and(|callback| which.contains(&callback));
        let near = |(i, window): (usize, &[u8])| {
            let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            let target = at.wrapping_add(i as u64 + 5).wrapping_add_signed(distance.into());
            matches!(window[0], 0xe8 | 0xe9) && is_one(self.callbacks.get(&target).copied())
        };
        let by_word = |(i, window): (usize, &[u8])| {
            let distance = i32::from_le_bytes([window[2], window[3], window[4], window[5]]);
            let word = at.wrapping_add(i as u64 + 6).wrapping_add_signed(distance.into());
            matches!(window[..2], [0xff, 0x15 | 0x25]) && is_one(self.words.import(word).and_then(callback))
        };
        bytes.windows(5).enumerate().any(near) || bytes.windows(6).enumerate().any(by_word)
    }

    /// What each function does that has no callbacks, or loses them; and the callbacks that are lost.
    fn facts(&self) -> (BTreeMap<u64, Facts>, Vec<Muted>) {
        let (mut facts, mut muted) = (BTreeMap::new(), Vec::new());
        for (&at, body) in &self.bodies {
            if body.is_exempt && !body.name.ends_with(b".cold") {
                continue;
            }
            let has_callbacks = self.calls_back(at, body, &[Callback::Access]);
            if has_callbacks && !body.is_excluded {
                continue;
            }
            let Some(code) = Code::of(self.image, at, body.size) else { continue };
            let frame =
                |i: &Instruction| matches!(self.callee_of(i, at, body), Some(Callee::Callback(Callback::Frame)));
            let has_frame = code.instructions.iter().any(frame);
            let own = Facts { has_frame, ..self.look_at(at, body, &code) };
            if body.is_excluded {
                muted.extend(code.instructions.iter().filter_map(|i| self.mute(i, at, body)));
            } else if has_frame && !own.touches {
                continue;
            }
            facts.insert(at, own);
        }
        muted.sort_unstable_by_key(|muted| muted.at);
        (facts, muted)
    }

    /// What an instruction calls, or jumps to outside of its function.
    fn callee_of(&self, i: &Instruction, at: u64, body: &Body) -> Option<Callee> {
        let is_inside = |target: u64| target > at && target < at.saturating_add(body.size);
        match i.flow_control() {
            FlowControl::Call => Some(self.callee(i)),
            FlowControl::IndirectCall => Some(self.callee(i)),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                (!is_inside(i.near_branch_target())).then(|| self.callee(i))
            }
            FlowControl::IndirectBranch if memory_operand(i).is_some() => Some(self.callee(i)),
            _ => None,
        }
    }

    fn mute(&self, i: &Instruction, at: u64, body: &Body) -> Option<Muted> {
        let Some(Callee::Callback(Callback::Access | Callback::Frame)) = self.callee_of(i, at, body) else {
            return None;
        };
        let returns = match i.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => false,
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => true,
            _ => return None,
        };
        let bytes = self.image.instructions(i.ip(), i.len() as u64).filter(|bytes| matches!(bytes.len(), 5 | 6))?;
        Some(Muted { at: i.ip(), bytes: word_of(bytes), length: bytes.len() as u32, returns })
    }

    /// What a function's own instructions do.
    fn look_at(&self, at: u64, body: &Body, code: &Code) -> Facts {
        let mut facts = Facts { touches: !code.is_whole, open: !code.is_whole, ..Facts::default() };
        let mut registers = Registers::of(self.image, &code.instructions);
        let mut information = InstructionInfoFactory::new();
        for i in &code.instructions {
            registers.arrive(i.ip());
            match self.callee_of(i, at, body) {
                Some(Callee::Inside(target)) => facts.calls.push(target),
                Some(Callee::Import) => facts.leaves = true,
                Some(Callee::Unknown) => facts.open = true,
                Some(Callee::Callback(_)) | None => {}
            }
            // A jump by a register is one within the function if there is a table of constants to take it from.
            facts.open |= i.flow_control() == FlowControl::IndirectBranch
                && i.op0_kind() == OpKind::Register
                && !registers.has_table;
            facts.variables.extend(self.variable(i));
            facts.touches |= registers.touches(self.image, i);
            registers.step(self.image, i, &mut information);
        }
        facts
    }

    /// The variable that an instruction names, directly or by a word that holds its address.
    fn variable(&self, i: &Instruction) -> Option<u64> {
        let named = named_address(self.image, i);
        let immediate = || match i.op_kind(i.op_count().checked_sub(1)?) {
            OpKind::Immediate32 | OpKind::Immediate32to64 if !self.image.is_movable() => Some(i.immediate32() as u64),
            OpKind::Immediate64 => Some(i.immediate64()),
            _ => None,
        };
        let address = named.or_else(immediate)?;
        if self.image.variable(address) {
            return Some(address);
        }
        let is_code = self.image.code().any(|code| code.contains(&address));
        let held = named.filter(|_| !is_code).and_then(|word| self.words.at(word))?;
        self.image.variable(held).then_some(held)
    }

    /// The functions whose calls matter, with what they do all in all.
    fn targets(&self, facts: &BTreeMap<u64, Facts>) -> BTreeMap<u64, Facts> {
        let matter = facts.keys().filter(|at| self.bodies.get(at).is_some_and(|body| !body.is_exempt));
        let all = matter.map(|&at| (at, closure(vec![at], facts)));
        all.filter(|(_, all)| all.touches || all.leaves).collect()
    }

    /// Where functions are named: by code, except that functions without callbacks may call each other, and by data.
    fn places(&self, targets: &BTreeSet<u64>, facts: &BTreeMap<u64, Facts>) -> Vec<Place> {
        let mut places = Vec::new();
        if targets.is_empty() {
            return places;
        }
        let near = Filter::of(targets);
        for (&at, body) in &self.bodies {
            let Some(bytes) = self.image.instructions(at, body.size) else { continue };
            let looks_like = |(i, window): (usize, &[u8])| {
                let four = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
                let end = at.wrapping_add(i as u64 + 4);
                near.may_have(end.wrapping_add_signed(four as i32 as i64))
                    || !self.image.is_movable() && near.may_have(four as u64)
            };
            if !bytes.windows(4).enumerate().any(looks_like) {
                continue;
            }
            let Some(code) = Code::of(self.image, at, body.size) else { continue };
            let is_silent = facts.contains_key(&at);
            const ALL: [Callback; 3] = [Callback::Access, Callback::Frame, Callback::Other];
            if !is_silent && !self.may_call_back(at, bytes, &ALL) && !is_thunk(body.name) {
                // Nobody's concern: runtimes and what the compiler has made.
                continue;
            }
            places.extend(code.instructions.iter().filter_map(|i| self.place(i, is_silent, targets)));
        }
        places.extend(self.words_of_data(targets));
        places.sort_unstable_by_key(|place| place.at);
        places.dedup_by_key(|place| place.at);
        places
    }

    /// How an instruction names one of these functions.
    fn place(&self, i: &Instruction, is_silent: bool, targets: &BTreeSet<u64>) -> Option<Place> {
        let end = i.next_ip();
        let is_near = i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64;
        if is_near {
            let target = i.near_branch64();
            // A short jump stays within its function.
            let is_named = !is_silent && i.len() >= 5 && targets.contains(&target);
            return is_named.then_some(Place { at: end - 4, target, naming: Naming::Relative, is_taken: false });
        }
        if i.mnemonic() == Mnemonic::Lea && i.is_ip_rel_memory_operand() {
            let target = i.ip_rel_memory_address();
            let bytes = self.image.instructions(i.ip(), i.len() as u64)?;
            let offset = displacement_offset(bytes, i)?;
            let at = i.ip() + offset as u64;
            // Nothing behind the displacement: it is relative to the end of the instruction.
            let is_named = targets.contains(&target) && at + 4 == end;
            return is_named.then_some(Place { at, target, naming: Naming::Relative, is_taken: true });
        }
        let last = i.op_count().checked_sub(1)?;
        let is_immediate = matches!(i.op_kind(last), OpKind::Immediate32 | OpKind::Immediate32to64);
        if !self.image.is_movable() && is_immediate && matches!(i.mnemonic(), Mnemonic::Mov | Mnemonic::Push) {
            let target = i.immediate32() as u64;
            return targets.contains(&target).then_some(Place {
                at: end - 4,
                target,
                naming: Naming::Absolute,
                is_taken: true,
            });
        }
        None
    }

    /// Words of data that hold the address of one of these functions.
    fn words_of_data(&self, targets: &BTreeSet<u64>) -> Vec<Place> {
        let place = |at: u64, target: u64| {
            targets.contains(&target).then_some(Place { at, target, naming: Naming::Word, is_taken: true })
        };
        let mut places: Vec<Place> = self.words.of_data().filter_map(|(at, target)| place(at, target)).collect();
        // Where the program is loaded at fixed addresses, nothing else says that a word is one.
        const SECTIONS: [&[u8]; 3] = [b".rodata", b".data.rel.ro", b".data"];
        if !self.image.is_movable() {
            for (start, bytes) in SECTIONS.iter().filter_map(|section| self.image.loaded_section(section)) {
                let skipped = (start.next_multiple_of(8) - start) as usize;
                let words = bytes.get(skipped..).unwrap_or(&[]).as_chunks().0;
                let all = words.iter().enumerate().map(|(i, word)| (i, u64::from_le_bytes(*word)));
                places.extend(all.filter_map(|(i, word)| place(start + skipped as u64 + 8 * i as u64, word)));
            }
        }
        places
    }
}

/// Which addresses may be among a few.
struct Filter {
    first: u64,
    bits: Vec<u64>,
}

impl Filter {
    const GRANULE: u64 = 4;

    fn of(targets: &BTreeSet<u64>) -> Filter {
        // What is further away is not named by four bytes.
        const FURTHEST: u64 = 1 << 30;
        let first = targets.first().copied().unwrap_or(0);
        let last = targets.iter().rev().find(|&&last| last - first <= FURTHEST).copied().unwrap_or(first);
        let mut filter = Filter { first, bits: vec![0; ((last - first) / Self::GRANULE / 64 + 1) as usize] };
        for &target in targets {
            let granule = (target - first) / Self::GRANULE;
            if let Some(word) = filter.bits.get_mut(granule as usize / 64) {
                *word |= 1 << (granule % 64);
            }
        }
        filter
    }

    fn may_have(&self, address: u64) -> bool {
        let granule = address.wrapping_sub(self.first) / Self::GRANULE;
        self.bits.get((granule / 64) as usize).is_some_and(|word| word & 1 << (granule % 64) != 0)
    }
}
