//! Functions of the program itself that have no callbacks, by the list of what to rewrite: whoever names one of them
//! gets a stub.
//!
//! The functions that the user excludes lose their callbacks first.

use crate::base::lock::Mutex;
use crate::interpose::missing::loaded::Object;
use crate::interpose::missing::slots::{fill_in, tell_unseen};
use crate::interpose::missing::targets::Target;
use crate::interpose::missing::trampoline::{STUB, stub};
use crate::rewrite::apply::{self, Room, Writable};
use crate::wire::patches::silent::{LEAVES, TOUCHES};
use crate::wire::patches::{List, Muted, Naming, Part, Silent, Site};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Those of the program whose calls count.
struct Functions {
    /// By address.
    all: Vec<(Range<usize>, &'static Target)>,
    /// Where the stubs are, in the same order.
    stubs: Range<usize>,
}

/// Null before they are known.
static FUNCTIONS: AtomicPtr<Functions> = AtomicPtr::new(core::ptr::null_mut());

fn functions() -> Option<&'static Functions> {
    // SAFETY: `prepare` leaves there what stays for ever, or there is nothing.
    unsafe { FUNCTIONS.load(Acquire).as_ref() }
}

/// Whether an address is one of an instruction of such a function.
pub fn is_silent(address: usize) -> bool {
    functions().is_some_and(|functions| functions.find(address).is_some())
}

impl Functions {
    fn find(&self, address: usize) -> Option<&(Range<usize>, &'static Target)> {
        let before = self.all.partition_point(|(range, _)| range.start <= address).checked_sub(1)?;
        Some(&self.all[before]).filter(|(range, _)| range.contains(&address))
    }
}

/// The function that begins at an address, if it is one of these.
pub fn target(function: usize) -> Option<&'static Target> {
    let (range, target) = functions()?.find(function)?;
    (range.start == function).then_some(target)
}

/// The stub of the function that begins at an address, if it is one of these.
pub fn stub_of(function: usize) -> Option<usize> {
    let functions = functions()?;
    let index = functions.all.binary_search_by_key(&function, |(range, _)| range.start).ok()?;
    (!functions.all[index].0.is_empty()).then_some(functions.stubs.start + index * STUB)
}

/// The function that the program means by an address: not our stub of it.
pub fn meant_by(function: usize) -> usize {
    match functions() {
        Some(Functions { all, stubs }) if stubs.contains(&function) => {
            all.get((function - stubs.start) / STUB).map_or(function, |(range, _)| range.start)
        }
        _ => function,
    }
}

/// Records that calls of such functions are not captured, and why.
pub fn tell(why: &str) {
    let Some((list, _)) = apply::list() else { return };
    if list.records::<Silent>(Part::Silent).iter().any(|silent| silent.flags & TOUCHES != 0) {
        tell_unseen(b"functions of the program", why);
    }
}

/// The program itself, among what is loaded.
pub fn program_of(all: &[Object]) -> Option<&Object> {
    let (_, base) = apply::list()?;
    all.iter().find(|object| object.base == base)
}

/// Whether the list was followed.
static IS_DONE: Mutex<bool> = Mutex::new(false);

/// Has whoever names such a function name a stub, once, while nothing of the program runs. Returns whether there are
/// any.
pub fn lead_to_stubs(program: Option<&Object>, has_libraries: bool) -> bool {
    let mut done = IS_DONE.lock();
    if !*done {
        *done = true;
        if let (Some((list, base)), Some(program)) = (apply::list(), program) {
            prepare(list, base, program, has_libraries);
        }
    }
    functions().is_some()
}

fn name_of(list: List<'static>, place: u64) -> Vec<u8> {
    let names = list.part(Part::Names);
    let byte = |at: usize| names.get(at / 8).map_or(0, |word| (word >> (8 * (at % 8))) as u8);
    (place as usize..).map(byte).take_while(|&byte| byte != 0).collect()
}

fn prepare(list: List<'static>, base: usize, program: &Object, has_libraries: bool) {
    mute(list, base);
    let all = list.records::<Silent>(Part::Silent);
    let Some(first) = all.get(0) else { return };
    let variables = list.part(Part::Variables);
    let Some(mut room) = Room::near(base.wrapping_add(first.at as usize), all.len() * STUB) else {
        return tell("there is no room near their calls");
    };
    let mut found = Functions { all: Vec::with_capacity(all.len()), stubs: room.start..room.start + all.len() * STUB };
    let mut counts = Vec::with_capacity(all.len());
    for silent in all.iter() {
        let at = base.wrapping_add(silent.at as usize);
        let (first, count) = (silent.variables.0 as usize, silent.variables.1 as usize);
        let own = variables.get(first..first.saturating_add(count)).unwrap_or(&[]);
        let own = own.iter().map(|&variable| base.wrapping_add(variable as usize)).collect();
        let target = Target::of_program(at, &name_of(list, silent.name), own, silent.flags);
        room.put(stub(target));
        found.all.push((at..at + silent.length.max(1) as usize, target));
        // What only calls other objects is no concern where all of these are seen.
        counts.push(silent.flags & TOUCHES != 0 || has_libraries && silent.flags & LEAVES != 0);
    }
    room.close();
    let stubs = found.stubs.clone();
    let function = |site: &Site| {
        let index = site.function as usize;
        let function = found.all.get(index).filter(|_| counts[index]);
        function.map(|(range, _)| (range.start, stubs.start + index * STUB))
    };
    let sites = list.records::<Site>(Part::Sites);
    let mut missed = false;
    let writable = Writable::during(apply::code(list, base), |code| {
        for site in sites.iter() {
            let Some((function, stub)) = function(&site) else { continue };
            let at = base.wrapping_add(site.at as usize);
            missed |= !match site.naming {
                Naming::Relative => code.rename(at, function.wrapping_sub(at + 4), stub.wrapping_sub(at + 4)),
                Naming::Absolute => code.rename(at, function, stub),
                Naming::Word => fill_in(program, at, function, stub),
            };
        }
    });
    if missed || !writable {
        tell("their calls could not be redirected");
    }
    // What does not count is seen, as far as it matters; but the places of stubs stay.
    for ((range, _), _) in found.all.iter_mut().zip(&counts).filter(|(_, counts)| !**counts) {
        range.end = range.start;
    }
    FUNCTIONS.store(Box::into_raw(Box::new(found)), Release);
}

/// Leaves out callbacks.
fn mute(list: List<'static>, base: usize) {
    let all = list.records::<Muted>(Part::Muted);
    if all.is_empty() {
        return;
    }
    let mut missed = false;
    let writable = Writable::during(apply::code(list, base), |code| {
        for muted in all.iter() {
            missed |= !code.mute(base.wrapping_add(muted.at as usize), &muted);
        }
    });
    if missed || !writable {
        tell_unseen(b"excluded functions", "some of their callbacks could not be left out");
    }
}
