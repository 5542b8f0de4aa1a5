//! OpenMP as gcc compiles it: calls of GNU's runtime library, which synchronises where no instrumentation is.
//!
//! What a parallel region does comes after what its caller did, and before what that does next ([`regions`]). Barriers,
//! critical sections and [`locks`] are events of their own. A task comes after its creation, and before whoever waits
//! for tasks, whichever these are; one with dependences comes after all tasks that have ended before it starts
//! ([`tasks`]). Pieces of work that threads fetch are [`shares`].
//!
//! A thread lets go of the token when it goes to where the library mostly makes it wait, and takes it again when it
//! comes back to the program's code, also if that is another part of it: the library has threads that wait do tasks.
//! Where it waits elsewhere (a task that is not put off and has dependences, the next of ordered iterations), the
//! watchdog takes the token.

mod locks;
mod regions;
mod shares;
mod tasks;

pub use regions::Region;

use crate::base::c::Pointer;
use crate::base::record::put3;
use crate::base::thread::inside;
use crate::scheduler::free_running::leave;
use crate::scheduler::{Next, enter, release};
use crate::wire::head;

/// A function that the compiler has made of a part of the program's.
type Function = unsafe extern "C" fn(Pointer);

fn put(code: u8, object: *const u8, detail: u64) {
    put3(head(code, 0, 0), object as u64, detail);
}

/// Something happens to an object. Free threads let go of the token.
fn note(code: u8, object: *const u8) {
    if enter(Next::on(code, 0, object as usize)).is_some() {
        put(code, object, 0);
    }
    leave();
}

/// The same before the library may make the thread wait.
fn note_and_let_go(code: u8, object: *const u8) {
    if let Some(thread) = enter(Next::on(code, 0, object as usize)) {
        put(code, object, 0);
        inside(thread, || release(thread));
    }
}

fn let_go() {
    if let Some(thread) = enter(Next::call(0)) {
        inside(thread, || release(thread));
    }
}
