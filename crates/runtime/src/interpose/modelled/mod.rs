//! Functions of libraries without callbacks of which a model says what they do.
//!
//! The tool hands over a table of them (`wire::models`). Whoever stands in for a call into such a library looks the
//! function up, once, with [`find`]; before each call there is [`enter`], after it [`leave`]. A lock that a model names
//! becomes a lock of the trace, as a `pthread_mutex_t` does, so that prediction can swap its sections: threads wait for
//! it in the scheduler, and the library's own try-function takes it (`locks`). Conditions (`conditions`), semaphores
//! (`semaphores`), queues (`queues`), initialisation (`once`), atomics (`atomics`) and functions that another thread
//! calls later (`later`) are the other files; `companions` finds the functions that a model refers to.
//!
//! What a model says is believed. A wrong model gives wrong findings, as a wrong annotation does.

mod atomics;
mod companions;
mod conditions;
mod later;
mod locks;
mod once;
mod order;
mod queues;
mod semaphores;
mod trampoline;

pub use trampoline::stub;

use crate::base::program::Address;
use crate::base::shared;
use crate::interpose::blocking::around_with;
use crate::scheduler::free_running::leaving;
use crate::wire::models::{Entry, Table, effect, meant, success};
use companions::Function;
use std::sync::OnceLock;

/// What the tool has handed over, in memory of our own.
static WORDS: OnceLock<Vec<u64>> = OnceLock::new();

fn table() -> Table<'static> {
    WORDS.get().and_then(|words| Table::new(words)).unwrap_or(Table::EMPTY)
}

/// Copies the table, before the program itself starts.
pub fn prepare() {
    WORDS.get_or_init(|| shared::models().to_vec());
}

/// What a model says about a function, with the functions that it refers to.
#[derive(Clone, Copy)]
pub struct Modelled {
    entry: Entry,
    /// Does the same without waiting, or fails.
    attempt: Option<Function>,
    /// Gives a lock back.
    release: Option<Function>,
}

/// How a call of a modelled function looks to whoever stands in for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is no call of a missing method. [`enter`] and [`leave`] do what has to be done.
    Known,
    /// It is one that reaches what its arguments lead to, and nothing of its library. [`enter`] and [`leave`] do
    /// nothing.
    Arguments,
}

fn named(name: &[u8], meant: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = name.split(|&byte| byte == b'*').collect();
    parts.join(meant)
}

/// What a model says about a function that is in a file of this name (its last part), wherever that is not known.
pub fn find(name: &[u8], file: Option<&[u8]>) -> Option<Modelled> {
    let table = table();
    let entry = table.find(name, file)?;
    // A pattern's companions have a `*` where the name has what the pattern's stands for.
    let meant = meant(table.text(entry.name), name).unwrap_or(&[]);
    let companion = |text| companions::find(&named(table.text(text), meant), file);
    Some(Modelled { entry, attempt: companion(entry.attempt), release: companion(entry.release) })
}

impl Modelled {
    /// Whether calls of it may be left alone altogether.
    pub fn is_pure(&self) -> bool {
        self.entry.effect == effect::PURE
    }

    pub fn kind(&self) -> Kind {
        if self.entry.effect == effect::ARGUMENTS { Kind::Arguments } else { Kind::Known }
    }
}

/// The arguments of a call, and what else is known about it.
#[repr(C)]
pub struct Arguments {
    /// rdi, rsi, rdx, rcx, r8, r9. [`enter`] may put something else there, for the real function to get.
    pub registers: [usize; 6],
    /// Where the arguments are that did not fit into registers.
    pub stack: usize,
    /// The place to which the call returns.
    pub pc: usize,
    /// The function that is called.
    pub function: usize,
}

impl Arguments {
    /// An argument, numbered from 1.
    fn get(&self, number: u8) -> usize {
        match self.registers.get((number as usize).wrapping_sub(1)) {
            Some(&register) => register,
            None if number == 0 => 0,
            None => Address(self.stack).plus(8 * (number as usize - 7)).read(),
        }
    }

    fn set(&mut self, number: u8, value: usize) {
        if let Some(register) = self.registers.get_mut((number as usize).wrapping_sub(1)) {
            *register = value;
        }
    }

    /// The function that is called, with its arguments.
    fn call(&self) -> usize {
        Function(self.function).call(self)
    }
}

/// A call of a modelled function between [`enter`] and [`leave`].
#[derive(Clone, Copy)]
pub struct Pending {
    /// What the call returns. If it is there, all is done: the real function is not to be called.
    pub result: Option<usize>,
    after: After,
}

/// What is to be done after the real function has returned.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    Receive { key: u64, pc: usize },
    Awaited { library: u8, pc: usize },
    BeginOnce { object: usize, pc: usize },
    Once(once::Running),
}

impl Pending {
    /// The real function is to be called, and nothing comes after it.
    const CALL: Pending = Pending { result: None, after: After::Nothing };

    fn done(result: usize) -> Pending {
        Pending { result: Some(result), after: After::Nothing }
    }

    fn then(after: After) -> Pending {
        Pending { result: None, after }
    }
}

/// Before a call of a modelled function. Records what comes before it, waits if it has to wait, and does the whole call
/// where that is better done in one piece.
pub fn enter(modelled: Modelled, arguments: &mut Arguments) -> Pending {
    let entry = &modelled.entry;
    leaving(|| match entry.effect {
        effect::ACQUIRE => locks::acquire(&modelled, arguments),
        effect::RELEASE => locks::release(&modelled, arguments),
        effect::CREATE_LOCK | effect::DESTROY_LOCK => locks::renew(&modelled, arguments),
        effect::WAIT => conditions::wait(&modelled, arguments),
        effect::NOTIFY | effect::NOTIFY_ALL => conditions::notify(&modelled, arguments),
        effect::CREATE_CONDITION | effect::DESTROY_CONDITION => conditions::renew(&modelled, arguments),
        effect::TAKE => semaphores::take(&modelled, arguments),
        effect::POST => semaphores::post(&modelled, arguments),
        effect::CREATE_SEMAPHORE | effect::DESTROY_SEMAPHORE => semaphores::renew(&modelled, arguments),
        effect::ONCE => once::call(&modelled, arguments),
        effect::BEGIN_ONCE => once::begin(&modelled, arguments),
        effect::END_ONCE => once::end(&modelled, arguments),
        effect::ATOMIC_READ | effect::ATOMIC_WRITE | effect::ATOMIC_UPDATE | effect::ATOMIC_COMPARE => {
            atomics::access(&modelled, arguments)
        }
        effect::PUSH => queues::push(&modelled, arguments),
        effect::POP => queues::pop(&modelled, arguments),
        effect::LOOK | effect::REARRANGE => queues::look(&modelled, arguments),
        effect::SEND | effect::RECEIVE | effect::EXCHANGE | effect::RUN => order::exchange(&modelled, arguments),
        effect::CALL_LATER => later::hand_over(&modelled, arguments),
        effect::CALL_TABLE => later::hand_over_table(&modelled, arguments),
        effect::AWAIT_CALLS => later::await_calls(&modelled, arguments),
        _ => Pending::CALL,
    })
}

/// After the real function has returned.
pub fn leave(pending: Pending) {
    leaving(|| match pending.after {
        After::Nothing => {}
        After::Receive { key, pc } => order::receive(key, pc),
        After::Awaited { library, pc } => later::awaited(library, pc),
        After::BeginOnce { object, pc } => once::begun(object, pc),
        After::Once(running) => once::called(running),
    });
}

/// Whether a result says that the function did what it is there for.
fn is_success(kind: u8, result: usize) -> bool {
    match kind {
        success::NONZERO => result as u32 != 0,
        success::ZERO => result as u32 == 0,
        success::TRUE => result as u8 != 0,
        success::POINTER => result != 0,
        _ => true,
    }
}

/// The result of a function that did, or did not do, what it is there for.
fn result_of(kind: u8, succeeded: bool) -> usize {
    match (kind, succeeded) {
        (success::ZERO, false) => crate::base::c::ETIMEDOUT as usize,
        (success::ZERO, true) => 0,
        (_, succeeded) => succeeded as usize,
    }
}

/// Makes the real call where it may wait in a way that nobody sees, without the token. `after` gets its result, with the
/// token.
fn without_token(arguments: &Arguments, before: impl FnOnce(), after: impl FnOnce(usize)) -> Pending {
    Pending::done(around_with(arguments.pc, None, before, || arguments.call(), |&result| after(result)))
}
