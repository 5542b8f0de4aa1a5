//! Decides which machine code of a program the runtime rewrites before the program starts.
//!
//! [`decide`] reads the program's file and makes a [list](snag_wire::patches) out of it, which the runtime applies
//! without looking at instructions or symbols itself. There are four kinds of decisions:
//!
//! | module | question |
//! |---|---|
//! | `callbacks` | which functions of a ThreadSanitizer runtime inside the program become jumps to ours |
//! | `traps` | which instructions of Rust's standard library, which has no callbacks, become traps |
//! | `elided` | which writes count as reads, too, because LLVM has elided a read before them |
//! | `silent` | which functions have no callbacks, and where they are called |
//!
//! They depend on the file alone, so a list can be kept as long as the file is the same, and a replay gets the list
//! that its recording had. Whatever is in the file, nothing here panics: a damaged program has a list of fewer things.
//!
//! Reading ELF files is left to `object`, decoding instructions to `iced-x86`.

mod callbacks;
mod code;
mod elided;
mod image;
mod list;
mod plt;
mod registers;
mod silent;
mod traps;

#[cfg(test)]
mod tests;

use image::Image;
use object::ReadRef;
use snag_wire::patches::{HOOKS, JUMP, Jump, WRITES, word_of};
use std::collections::{HashMap, HashSet};

/// The runtime library, as far as programs are made to jump into it.
pub struct Runtime {
    /// Where its functions are.
    functions: HashMap<Vec<u8>, u64>,
    /// Jumps that have writes count as reads, too.
    writes_that_read: Vec<Jump>,
}

impl Runtime {
    /// Reads the runtime's file.
    pub fn read(library: &[u8]) -> Runtime {
        let Some(image) = Image::read(library) else {
            return Runtime { functions: HashMap::new(), writes_that_read: Vec::new() };
        };
        let functions =
            image.dynamic_functions().into_iter().map(|function| (function.name.to_vec(), function.address));
        let functions: HashMap<Vec<u8>, u64> = functions.collect();
        let jump = |&(write, both): &(&str, &str)| {
            let [at, target] = [write, both].map(|name| functions.get(name.as_bytes()).copied());
            let bytes = word_of(image.instructions(at?, JUMP as u64)?);
            Some(Jump { at: at?, bytes, target: target? })
        };
        let writes_that_read = WRITES.iter().filter_map(jump).collect();
        Runtime { functions, writes_that_read }
    }
}

/// What to rewrite in a program, as the words of a list; `None` if there is nothing. `is_excluded` says of the name of a
/// function whether it is to lose its callbacks.
pub fn decide<'a, R: ReadRef<'a>>(
    program: R,
    runtime: &Runtime,
    is_excluded: &dyn Fn(&[u8]) -> bool,
) -> Option<Vec<u64>> {
    let image = Image::read(program)?;
    let mut found = list::Found { headers: image.headers()?, code: image.code().collect(), ..list::Found::default() };
    let may_be_elided = elided::may_be_elided(&image);
    if may_be_elided {
        found.runtime = runtime.writes_that_read.clone();
    }
    let words = image.relocations();
    // With the runtime inside. If the full table is gone, the one for the dynamic linker may do.
    let carries = |functions: &Vec<image::Function>| functions.iter().any(|function| function.name == b"__tsan_init");
    let functions = Some(image.functions()).filter(carries);
    if let Some(functions) = functions.or_else(|| Some(image.dynamic_functions()).filter(carries)) {
        let address = |name: &str| functions.iter().find(|function| function.name == name.as_bytes());
        found.hooks = HOOKS.map(|name| address(name).map_or(0, |function| function.address));
        found.callbacks = callbacks::decide(&image, &functions, &runtime.functions);
        found.traps = traps::decide(&image, &words, &functions);
        if may_be_elided {
            found.writes = elided::writes_alone(&image, &functions);
        }
        let replaced = found.callbacks.places();
        found.silent = silent::decide(&image, &words, &functions, &replaced, is_excluded);
    } else if words.imports(b"__tsan_") {
        found.silent = silent::decide(&image, &words, &image.functions(), &HashSet::new(), is_excluded);
    }
    found.writes.retain(|call| !found.silent.is_muted(call.at));
    found.words()
}
