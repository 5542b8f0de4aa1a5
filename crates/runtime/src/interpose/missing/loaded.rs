//! What is loaded where: the objects that the dynamic linker knows, and what they say about themselves.
//!
//! The dynamic linker trusts these tables, and so do we.

use crate::base::c::Pointer;
use crate::base::program::Address;
use crate::interpose::missing::exempt::is_exempt;
use crate::rewrite::apply;
use crate::wire::patches::{Jump, Part};
use core::ffi::{c_char, c_int};
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

/// The beginning of what the C library tells about a loaded object.
#[repr(C)]
pub struct Description {
    pub base: usize,
    pub name: *const c_char,
    pub headers: *const Header,
    pub count: u16,
}

/// A program header.
#[repr(C)]
pub struct Header {
    pub kind: u32,
    flags: u32,
    offset: usize,
    pub address: usize,
    physical: usize,
    in_file: usize,
    in_memory: usize,
    alignment: usize,
}

unsafe extern "C" {
    pub fn dl_iterate_phdr(
        each: unsafe extern "C" fn(*const Description, usize, Pointer) -> c_int,
        data: Pointer,
    ) -> c_int;
}

/// What an object is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It has callbacks.
    Instrumented,
    /// It has none, and its calls are missing methods.
    Unseen,
    /// It has none, and need not have any.
    Exempt,
}

/// A loaded object.
pub struct Object {
    pub base: usize,
    /// Its file; empty for the program itself.
    pub path: Vec<u8>,
    pub kind: Kind,
    /// Its instructions.
    pub code: Vec<Range<usize>>,
    /// What it can write.
    pub data: Vec<Range<usize>>,
    /// What is made read-only after relocation.
    pub sealed: Range<usize>,
    dynamic: Dynamic,
}

#[derive(Clone, Copy, Default)]
struct Dynamic {
    names: usize,
    symbols: usize,
    relocations: (usize, usize),
    plt: (usize, usize),
}

/// Bytes of a relocation, and of a symbol.
const RELOCATION: usize = 24;
const SYMBOL: usize = 24;

/// A relocation that fills in a word with the address of a symbol.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Where the word is.
    pub at: usize,
    /// The symbol's name.
    pub name: &'static [u8],
    /// Whether it may be filled in when it is used for the first time.
    pub is_lazy: bool,
}

impl Object {
    fn of(description: &Description, headers: &[Header]) -> Object {
        let base = description.base;
        const LOAD: u32 = 1;
        const DYNAMIC: u32 = 2;
        const SEALED: u32 = 0x6474_e552;
        const EXECUTABLE: u32 = 1;
        const WRITABLE: u32 = 2;
        let range = |header: &Header| base + header.address..base + header.address + header.in_memory;
        let loaded = |flag: u32| {
            let has = move |header: &&Header| header.kind == LOAD && header.flags & flag != 0;
            headers.iter().filter(has).map(range).collect::<Vec<_>>()
        };
        let sealed = headers.iter().find(|header| header.kind == SEALED).map_or(0..0, range);
        let dynamic = headers.iter().find(|header| header.kind == DYNAMIC);
        let dynamic = dynamic.map_or(Dynamic::default(), |header| read_dynamic(base, base + header.address));
        let path = if description.name.is_null() { &[] } else { bytes(description.name as usize) };
        let code = loaded(EXECUTABLE);
        let mut object =
            Object { base, path: path.to_vec(), kind: Kind::Unseen, code, data: loaded(WRITABLE), sealed, dynamic };
        object.kind = object.kind_of();
        object
    }

    fn kind_of(&self) -> Kind {
        if self.has_code(Object::of as *const () as usize) || is_exempt(&self.path) {
            return Kind::Exempt;
        }
        let carries_runtime = apply::list().is_some_and(|(list, base)| {
            // The program lies at the addresses of its file, or that much further on.
            base == self.base && !list.records::<Jump>(Part::Callbacks).is_empty()
        });
        let mut called = self.slots().map(|slot| slot.name);
        if carries_runtime || called.any(|name| name.starts_with(b"__tsan_")) {
            return Kind::Instrumented;
        }
        // A program that loads what is recorded, such as an interpreter, is not called by it, and neither is the
        // kernel's.
        if self.path.is_empty() || self.dynamic.symbols == 0 { Kind::Exempt } else { Kind::Unseen }
    }

    /// The words that are filled in with addresses of symbols by name.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let Dynamic { names, symbols, relocations, plt } = self.dynamic;
        let base = self.base;
        let all = [(relocations, false), (plt, true)].into_iter().flat_map(|((start, size), is_lazy)| {
            (start..start + size).step_by(RELOCATION).map(move |at| (at, is_lazy))
        });
        all.filter_map(move |(at, is_lazy)| {
            let [offset, info] = Address(at).read::<[usize; 2]>();
            let addend = Address(at + 16).read::<usize>();
            const WORD: usize = 1;
            const ENTRY: usize = 6;
            const JUMP: usize = 7;
            let (kind, symbol) = (info & 0xffff_ffff, info >> 32);
            let wanted = matches!(kind, ENTRY | JUMP) || kind == WORD && addend == 0;
            (wanted && symbol != 0).then(|| {
                let name = names + Address(symbols + symbol * SYMBOL).read::<u32>() as usize;
                Slot { at: base + offset, name: bytes(name), is_lazy: is_lazy && kind == JUMP }
            })
        })
    }

    /// All relocations: where they are, what kind they are, and the number of their symbol.
    fn relocations(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let Dynamic { relocations: (start, size), .. } = self.dynamic;
        let base = self.base;
        (start..start + size).step_by(RELOCATION).map(move |at| {
            let [offset, info] = Address(at).read::<[usize; 2]>();
            (base + offset, info & 0xffff_ffff, info >> 32)
        })
    }

    /// The name of a symbol.
    fn symbol(&self, number: usize) -> &'static [u8] {
        let Dynamic { names, symbols, .. } = self.dynamic;
        bytes(names + Address(symbols + number * SYMBOL).read::<u32>() as usize)
    }

    /// The words of tables of virtual functions that lead to functions of this object: where they are, and what the
    /// functions are called if that is known.
    ///
    /// By the ABI of C++ a table has the address of its type's information first, which begins with the address of one
    /// of the tables of the C++ library.
    pub fn virtual_functions(&self) -> Vec<(usize, Option<&'static [u8]>)> {
        const WORD: usize = 1;
        const RELATIVE: usize = 8;
        const OF_TYPES: &[u8] = b"_ZTVN10__cxxabiv1";
        let mut words: BTreeMap<usize, Option<&'static [u8]>> = BTreeMap::new();
        let mut types: BTreeSet<usize> = BTreeSet::new();
        for (at, kind, symbol) in self.relocations() {
            let name = match kind {
                WORD => Some(self.symbol(symbol)),
                RELATIVE => None,
                _ => continue,
            };
            if name.is_some_and(|name| name.starts_with(OF_TYPES)) {
                types.insert(at);
            }
            words.insert(at, name);
        }
        let mut found = Vec::new();
        if types.is_empty() {
            return found;
        }
        let leads_to = |at: usize| Address(at).read::<usize>();
        for &table in words.keys().filter(|&&at| types.contains(&leads_to(at))) {
            let entries = (1..).map(|index| table + index * size_of::<usize>());
            let entries = entries.map_while(|at| words.get(&at).map(|name| (at, *name)));
            // A table ends where something else begins: whatever is no code.
            found.extend(
                entries
                    .take_while(|&(at, _)| !types.contains(&leads_to(at)))
                    .filter(|&(at, _)| self.has_code(leads_to(at))),
            );
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether an address is one of an instruction.
    pub fn has_code(&self, address: usize) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    /// The file's name without its folder.
    pub fn name(&self) -> &[u8] {
        let slash = self.path.iter().rposition(|&byte| byte == b'/');
        slash.map_or(&self.path, |slash| &self.path[slash + 1..])
    }
}

/// A text that ends in a zero byte, in tables that stay.
fn bytes(at: usize) -> &'static [u8] {
    let length = Address(at).text_length(usize::MAX);
    // SAFETY: so many bytes were read there just now, in the tables of an object that is loaded; what is kept of them
    // is used while that is so.
    unsafe { core::slice::from_raw_parts(at as *const u8, length) }
}

fn read_dynamic(base: usize, at: usize) -> Dynamic {
    let mut found = Dynamic::default();
    let mut entry = Address(at);
    // The dynamic linker has made addresses of them, but not in what the kernel brings along.
    let address = |value: usize| if value < base { base + value } else { value };
    loop {
        match entry.read::<[usize; 2]>() {
            [0, _] => return found,
            [2, size] => found.plt.1 = size,
            [5, names] => found.names = address(names),
            [6, symbols] => found.symbols = address(symbols),
            [7, relocations] => found.relocations.0 = address(relocations),
            [8, size] => found.relocations.1 = size,
            [23, plt] => found.plt.0 = address(plt),
            _ => {}
        }
        entry = entry.plus(16);
    }
}

unsafe extern "C" fn add(description: *const Description, _size: usize, all: Pointer) -> c_int {
    // SAFETY: the library passes its description of an object, with as many headers as it says, all of which are there
    // during the call; and `all` is the vector that we have given it for us.
    unsafe {
        let description = &*description;
        let headers = core::slice::from_raw_parts(description.headers, description.count as usize);
        (*all.cast::<Vec<Object>>()).push(Object::of(description, headers));
    }
    0
}

/// All that is loaded.
pub fn all() -> Vec<Object> {
    let mut all: Vec<Object> = Vec::new();
    // SAFETY: the library calls `add` with the vector, which lives until the call returns.
    unsafe { dl_iterate_phdr(add, (&raw mut all).cast()) };
    all
}
