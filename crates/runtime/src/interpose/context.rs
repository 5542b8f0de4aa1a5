//! What the kernel keeps of a thread that a signal has interrupted.

use crate::base::c::Pointer;
use crate::base::program::Address;
use core::ffi::c_int;

/// The thread's state when a signal came, which it takes up again when the handler returns: a `ucontext_t`.
#[derive(Clone, Copy)]
pub struct Context(Address);

impl Context {
    /// What a handler was called with, by the kernel.
    pub fn new(context: Pointer) -> Context {
        Context(Address::from(context))
    }

    const REGISTERS: usize = 40;

    fn instruction_at(self) -> Address {
        self.0.plus(Context::REGISTERS + 16 * 8)
    }

    /// The instruction at which the signal came.
    pub fn instruction(self) -> usize {
        self.instruction_at().read()
    }

    /// The thread goes on there.
    pub fn go_on_at(self, instruction: usize) {
        self.instruction_at().write(instruction);
    }

    /// A register, by the processor's number.
    pub fn register(self, number: u8) -> usize {
        const PLACES: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
        self.0.plus(Context::REGISTERS + 8 * PLACES[number as usize & 15]).read()
    }

    /// Has a signal blocked when the thread goes on.
    pub fn block(self, signal: c_int) {
        const MASK: usize = Context::REGISTERS + 256;
        let mask = self.0.plus(MASK);
        mask.write(mask.read::<u64>() | 1 << (signal - 1));
    }
}

/// The instruction at which a signal came.
pub fn interrupted_at(context: Pointer) -> usize {
    Context::new(context).instruction()
}
