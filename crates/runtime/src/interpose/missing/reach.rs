//! What a call can reach: what its integer arguments lead to, over heap blocks, variables and the stack; and, in a
//! function of the program, what the variables lead to that it names.
//!
//! The scan is conservative: each word that could be an address counts as one, and one into the middle of an object
//! leads to the whole object. It looks at memory as it is, so it does not matter who has written there. The variables
//! of the libraries themselves belong to every call and are not looked for.
//!
//! Scans have a budget, so that a flood of calls that reach much costs little: each call adds to it, and each word and
//! each object takes from it. A call for which it does not suffice reaches everything. All of that depends on nothing
//! but the program's own steps, so a replay finds the same.

use crate::base::kernel;
use crate::base::lock::Mutex;
use crate::base::program::Address;
use crate::base::record::put3;
use crate::base::relaxed::Relaxed;
use crate::base::thread::Thread;
use crate::interpose::missing::blocks;
use crate::interpose::missing::globals::Globals;
use crate::wire::{head, op};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use std::collections::BTreeMap;

/// What a call can reach, as records say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Everything.
    Everything,
    /// The set with this number, which is announced by the records before if it is new.
    Set { number: u32, is_new: bool },
}

/// The budget in words: at first, what each call adds to it, and at most. It is gone after some ten milliseconds; a
/// word takes a nanosecond or less.
const FIRST: u64 = 1 << 24;
const EACH_CALL: u64 = 1 << 9;

/// Words that an object counts as, besides its own.
const OBJECT: u64 = 32;

/// Most objects of a set, and of all sets together.
const MOST: usize = 1 << 12;
const MOST_OF_ALL: u64 = 1 << 22;

/// Bytes of another frame, or of another thread's stack, that an address on the stack leads to.
const ON_STACK: usize = 512;

/// What is known of variables; replaced when something is loaded.
static GLOBALS: AtomicPtr<Vec<Globals>> = AtomicPtr::new(core::ptr::null_mut());

/// Parts of blocks may be unreadable: the program has protected memory.
static PROTECTED: Relaxed<bool> = Relaxed::zero();

/// The program protects memory from being read.
pub fn may_be_unreadable() {
    PROTECTED.set(true);
}

/// These are the variables of what is loaded.
pub fn set_globals(globals: Vec<Globals>) {
    // What was there before may be in use, and stays: libraries are loaded seldom.
    GLOBALS.store(Box::into_raw(Box::new(globals)), Release);
}

fn globals() -> &'static [Globals] {
    // SAFETY: `set_globals` leaves what stays there for ever, or there is nothing.
    unsafe { GLOBALS.load(Acquire).as_ref() }.map_or(&[], |globals| globals)
}

/// A scan in progress, and what was found before. Used with the token.
struct Scanner {
    budget: u64,
    /// After a scan that failed: what the budget must be before the next one begins.
    wanted: u64,
    /// Objects that were found.
    found: Vec<Range<usize>>,
    /// Where each of them starts, in a table by hash; and the number of the scan that has found it.
    seen: Vec<(usize, u32)>,
    scan: u32,
    /// By a hash of what is in them.
    sets: BTreeMap<[u64; 2], u32>,
    /// What all sets have together.
    members: u64,
}

static SCANNER: Mutex<Scanner> = Mutex::new(Scanner {
    budget: FIRST,
    wanted: 0,
    found: Vec::new(),
    seen: Vec::new(),
    scan: 0,
    sets: BTreeMap::new(),
    members: 0,
});

/// Where a thread's stack is now, and where its frames are.
pub struct Stack<'thread> {
    /// The stack pointer.
    pub top: usize,
    pub thread: &'thread Thread,
}

/// Finds what these words lead to, and records it if it was not found before.
pub fn find(arguments: &[usize], variables: &[usize], stack: &Stack) -> Reach {
    let mut scanner = SCANNER.lock();
    scanner.budget = (scanner.budget + EACH_CALL).min(FIRST);
    if scanner.budget < scanner.wanted {
        return Reach::Everything;
    }
    let before = scanner.budget;
    if !scanner.scan([arguments, variables], stack) {
        // In vain. It may go better another time, but not at once.
        scanner.wanted = (2 * (before - scanner.budget)).min(FIRST / 2);
        return Reach::Everything;
    }
    scanner.wanted = 0;
    let hash = scanner.hash();
    if let Some(&number) = scanner.sets.get(&hash) {
        return Reach::Set { number, is_new: false };
    }
    if scanner.members + scanner.found.len() as u64 > MOST_OF_ALL {
        return Reach::Everything;
    }
    scanner.members += scanner.found.len() as u64;
    let number = scanner.sets.len() as u32;
    scanner.sets.insert(hash, number);
    for object in &scanner.found {
        put3(head(op::REACHED, 0, 0), object.start as u64, object.len() as u64);
    }
    Reach::Set { number, is_new: true }
}

impl Scanner {
    /// Follows words. Returns whether all of them could be followed to their ends.
    fn scan(&mut self, words: [&[usize]; 2], stack: &Stack) -> bool {
        const SEEN: usize = 4 * MOST;
        if self.seen.is_empty() {
            self.seen = vec![(0, 0); SEEN];
        }
        self.scan = self.scan.wrapping_add(1);
        if self.scan == 0 {
            self.seen.fill((0, 0));
            self.scan = 1;
        }
        self.found.clear();
        if !words.into_iter().flatten().all(|&word| self.follow(word, stack)) {
            return false;
        }
        let mut next = 0;
        while let Some(object) = self.found.get(next).cloned() {
            next += 1;
            if !self.look_into(object, stack) {
                return false;
            }
        }
        true
    }

    /// Follows the words of an object.
    fn look_into(&mut self, object: Range<usize>, stack: &Stack) -> bool {
        let (first, end) = (object.start.next_multiple_of(8), object.end / 8 * 8);
        const PAGE: usize = 4096;
        let has_pages = first / PAGE != end.saturating_sub(1) / PAGE;
        let by_kernel = has_pages && (PROTECTED.get() || blocks::is_mapping(object.start));
        let mut at = first;
        while at < end {
            let to = end.min((at / PAGE + 1) * PAGE);
            let mut page = [0usize; PAGE / 8];
            let words = if by_kernel {
                // SAFETY: the page has room for it, and is ours.
                unsafe { kernel::read_if_there(at, page.as_mut_ptr().cast(), to - at) };
                self.spend(PAGE as u64) && (0..(to - at) / 8).all(|index| self.follow(page[index], stack))
            } else {
                (at..to).step_by(8).all(|at| self.follow(Address(at).read::<usize>(), stack))
            };
            if !words {
                return false;
            }
            at = to;
        }
        true
    }

    fn spend(&mut self, words: u64) -> bool {
        let enough = self.budget >= words;
        self.budget = self.budget.saturating_sub(words);
        enough
    }

    /// Adds what a word leads to. Returns false if it is too much.
    #[inline]
    fn follow(&mut self, word: usize, stack: &Stack) -> bool {
        const LOWEST: usize = 1 << 16;
        const END: usize = 1 << 47;
        if !(LOWEST..END).contains(&word) {
            return self.spend(1);
        }
        match object_at(word, stack) {
            Some(object) => self.spend(OBJECT) && self.add(object),
            None => self.spend(4),
        }
    }

    fn add(&mut self, object: Range<usize>) -> bool {
        let mask = self.seen.len() - 1;
        let mut slot = object.start.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        loop {
            match &mut self.seen[slot & mask] {
                (start, scan) if *scan == self.scan && *start == object.start => return true,
                (_, scan) if *scan == self.scan => slot += 1,
                free => {
                    *free = (object.start, self.scan);
                    break;
                }
            }
        }
        self.found.push(object);
        self.found.len() < MOST
    }

    /// Two numbers that stand for what was found.
    fn hash(&self) -> [u64; 2] {
        let mut hash = [0x243f_6a88_85a3_08d3u64, 0x1319_8a2e_0370_7344];
        for word in self.found.iter().flat_map(|object| [object.start, object.end]) {
            for (hash, odd) in hash.iter_mut().zip([0x9e37_79b9_7f4a_7c15u64, 0xc2b2_ae3d_27d4_eb4f]) {
                let mixed = (*hash ^ word as u64) as u128 * odd as u128;
                *hash = (mixed as u64 ^ (mixed >> 64) as u64).rotate_left(23).wrapping_add(odd);
            }
        }
        hash
    }
}

/// The object that an address lies in.
fn object_at(address: usize, stack: &Stack) -> Option<Range<usize>> {
    if let Some(block) = blocks::find(address) {
        return Some(block);
    }
    if let Some(variable) = globals().iter().find_map(|globals| globals.find(address)) {
        return Some(variable);
    }
    on_stack(address, stack)
}

/// The part of a stack that an address leads to: from there to the end of the frame, or some bytes.
fn on_stack(address: usize, stack: &Stack) -> Option<Range<usize>> {
    const STACK: usize = 8 << 20;
    let distance = address.wrapping_sub(stack.top);
    let end = if distance < STACK {
        match stack.thread.frame_above(address) {
            Some(end) if end - address <= 2 * ON_STACK => end,
            _ => address.saturating_add(ON_STACK),
        }
    } else if crate::interpose::stacks::is_stack(address) {
        address.saturating_add(ON_STACK)
    } else {
        return None;
    };
    // What lies beyond the page need not be there.
    const PAGE: usize = 4096;
    let start = address / 8 * 8;
    let end = end.min((address / PAGE + 1) * PAGE);
    kernel::can_read(start).then_some(start..end)
}
