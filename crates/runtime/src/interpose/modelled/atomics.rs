//! Atomic accesses that a library makes for its caller. The token is held meanwhile, so what is there before and after
//! is what was read and written.

use super::{Arguments, Modelled, Pending, is_success};
use crate::base::program::Address;
use crate::base::record::{put3, put4};
use crate::base::thread::inside;
use crate::rewrite::words;
use crate::scheduler::spin::unchanged;
use crate::scheduler::{Next, enter};
use crate::tsan::atomic::{ACQUIRE, ACQUIRE_RELEASE, RELEASE, detail};
use crate::wire::models::effect;
use crate::wire::{head, op};

pub fn access(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let at = arguments.get(entry.object);
    let log = entry.size.trailing_zeros() as u8 & 3;
    let code = match entry.effect {
        effect::ATOMIC_READ => op::ATOMIC_READ,
        effect::ATOMIC_WRITE => op::ATOMIC_WRITE,
        _ => op::RMW,
    };
    let Some(thread) = enter(Next::access(code, pc, at, 1 << log)) else { return Pending::CALL };
    let before = Address(at).operand(log);
    let result = inside(thread, || arguments.call());
    let after = Address(at).operand(log);
    let code = match entry.effect {
        effect::ATOMIC_COMPARE if !is_success(entry.success, result) => op::ATOMIC_READ,
        _ => code,
    };
    record(code, at, log, before, after, pc);
    if code == op::ATOMIC_READ || before == after {
        unchanged(thread, at, before);
    }
    Pending::done(result)
}

/// Records an access that the library makes, or has made.
pub fn record(code: u8, at: usize, log: u8, before: u64, after: u64, pc: usize) {
    match code {
        op::ATOMIC_READ => put3(head(code, detail(log, ACQUIRE), pc), at as u64, before),
        op::ATOMIC_WRITE => put3(head(code, detail(log, RELEASE), pc), at as u64, after),
        _ => put4(head(code, detail(log, ACQUIRE_RELEASE), pc), at as u64, before, after),
    };
    words::note(at);
}
