//! Functions whose calls are missing methods.

use crate::base::lock::Mutex;
use crate::base::record::put_blob;
use crate::base::relaxed::Relaxed;
use crate::interpose::missing::silent;
use crate::interpose::missing::slots::unseen_library_of;
use crate::interpose::modelled::{self, Modelled};
use crate::wire::BLOB_METHOD;
use crate::wire::patches::silent::{LEAVES, OPEN};

/// A function that is called through a stub. It lives for ever, as stubs and frames lead to it.
#[repr(C)]
pub struct Target {
    /// Where it is. First, because the trampolines read it.
    function: usize,
    name: &'static [u8],
    is_of: Of,
    /// What records call it, plus one; 0 before the first call.
    number: Relaxed<u32>,
}

/// Where a function is.
enum Of {
    /// In a library, and this is what a model says about it.
    Library(Option<Modelled>),
    /// In the program, and these are variables that it names, and its flags.
    Program(Vec<usize>, u64),
}

/// What models call the function with which a library starts its threads.
const THREAD: &[u8] = b"a thread";

/// Numbers that were given out. Changed with the token.
static NUMBERS: Relaxed<u32> = Relaxed::zero();

/// What stands for functions with which libraries start threads.
static OF_THREADS: Mutex<Vec<(usize, &'static Target)>> = Mutex::new(Vec::new());

impl Target {
    fn new(function: usize, name: &[u8], is_of: Of) -> &'static Target {
        // The name may be in a table of an object that is unloaded one day.
        let name = Box::leak(name.to_vec().into_boxed_slice());
        Box::leak(Box::new(Target { function, name, is_of, number: Relaxed::zero() }))
    }

    /// A function of a library.
    pub fn of_library(function: usize, name: &[u8], modelled: Option<Modelled>) -> &'static Target {
        Target::new(function, name, Of::Library(modelled))
    }

    /// A function of the program, with the variables that it names.
    pub fn of_program(function: usize, name: &[u8], variables: Vec<usize>, flags: u64) -> &'static Target {
        Target::new(function, name, Of::Program(variables, flags))
    }

    /// Where the function is.
    pub fn function(&self) -> usize {
        self.function
    }

    /// What a model says about it.
    pub fn modelled(&self) -> Option<Modelled> {
        match self.is_of {
            Of::Library(modelled) => modelled,
            Of::Program(..) => None,
        }
    }

    /// Whether it may touch the data of libraries that nobody sees.
    pub fn shares_with_libraries(&self) -> bool {
        match self.is_of {
            Of::Library(modelled) => modelled.is_none(),
            Of::Program(_, flags) => flags & LEAVES != 0,
        }
    }

    /// Variables of the program that it may touch whatever its arguments are; nothing if that is unknown.
    pub fn variables(&self) -> Option<&[usize]> {
        match &self.is_of {
            Of::Library(_) => Some(&[]),
            Of::Program(variables, flags) => (flags & OPEN == 0).then_some(variables),
        }
    }

    /// The target that a stub has left in a frame.
    pub fn at(address: usize) -> &'static Target {
        // SAFETY: a stub puts the address of its target into the register that the trampoline saves there.
        unsafe { &*(address as *const Target) }
    }

    /// The target of a stub, by where its call returns to.
    pub fn of_stub(place: usize) -> &'static Target {
        const BEFORE_TARGET: usize = 6;
        // SAFETY: behind its call a stub has the address of its target, which lives for ever.
        unsafe { *((place + BEFORE_TARGET) as *const &'static Target) }
    }

    /// The target that stands for a function in which a thread begins; nothing if that function is seen.
    pub fn of_thread(function: usize) -> Option<&'static Target> {
        if let Some(target) = silent::target(function) {
            return Some(target);
        }
        let library = unseen_library_of(function)?;
        let modelled = modelled::find(THREAD, Some(library));
        if modelled.is_some_and(|modelled| modelled.is_pure()) {
            return None;
        }
        let mut targets = OF_THREADS.lock();
        if let Some(&(_, target)) = targets.iter().find(|&&(known, _)| known == function) {
            return Some(target);
        }
        let target = Target::of_library(function, &[b"a thread of ", library].concat(), modelled);
        targets.push((function, target));
        Some(target)
    }

    /// Its number in records. With the token.
    pub fn tell(&self) -> u32 {
        if self.number.get() == 0 {
            NUMBERS.add(1);
            self.number.set(NUMBERS.get());
            put_blob(BLOB_METHOD, self.name);
        }
        self.number.get() - 1
    }
}
