//! What a thread is about to do, or is doing.

use crate::base::record::put3;
use crate::base::relaxed::Relaxed;
use crate::base::shared::wanted;
use crate::scheduler::dispatch::following;
use crate::wire::{self, op};

/// What a thread is about to do, as far as that is known before it is done: what a replay looks at when it stops there.
#[derive(Clone, Copy)]
pub struct Next {
    /// As in [`op`]; `STEP` for a call that says what it touches only when it is made.
    code: u8,
    /// Where it is called from; 0 if that is not known.
    pc: usize,
    address: usize,
    size: usize,
}

impl Next {
    /// An operation on something at an address.
    #[inline(always)]
    pub const fn on(code: u8, pc: usize, address: usize) -> Next {
        Next { code, pc, address, size: 0 }
    }

    /// An access to `size` bytes.
    #[inline(always)]
    pub const fn access(code: u8, pc: usize, address: usize, size: usize) -> Next {
        Next { code, pc, address, size }
    }

    /// A call.
    #[inline(always)]
    pub const fn call(pc: usize) -> Next {
        Next { code: op::STEP, pc, address: 0, size: 0 }
    }

    /// The same, on something else.
    pub fn at(self, address: usize) -> Next {
        Next { address, ..self }
    }

    /// Tells the tool, if it wants to know. `waits`: the thread has begun, and has to wait.
    pub fn tell(&self, waits: bool) {
        if wanted().stop_at_end && following() {
            let detail = self.code | if waits { wire::WAITS } else { 0 };
            put3(wire::head(op::STOPPED, detail, self.pc), self.address as u64, self.size as u64);
        }
    }
}

/// What a thread is doing, as announced when it began.
pub struct Doing {
    code: Relaxed<u8>,
    pc: Relaxed<usize>,
    address: Relaxed<usize>,
    size: Relaxed<usize>,
}

impl Doing {
    #[inline(always)]
    pub fn set(&self, next: Next) {
        self.code.set(next.code);
        self.pc.set(next.pc);
        self.address.set(next.address);
        self.size.set(next.size);
    }

    pub fn get(&self) -> Next {
        Next { code: self.code.get(), pc: self.pc.get(), address: self.address.get(), size: self.size.get() }
    }
}
