//! Which instructions of a function touch memory that is neither its stack nor constant.
//!
//! Instructions are looked at in the order in which they stand. Where a jump may arrive, only those registers are known
//! whose every value in the function is such an address; in doubt memory counts as touched.

use crate::code::{is_of_thread, memory_operand};
use crate::image::Image;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use object::ReadRef;
use std::collections::HashSet;

/// The fixed address that an instruction's operand in memory has, without its index.
pub fn named_address<'a, R: ReadRef<'a>>(image: &Image<'a, R>, i: &Instruction) -> Option<u64> {
    memory_operand(i)?;
    if is_of_thread(i) {
        return None;
    }
    if i.is_ip_rel_memory_operand() {
        return Some(i.ip_rel_memory_address());
    }
    // An offset from a register is smaller, or negative.
    const LOWEST: u64 = 1 << 16;
    const END: u64 = 1 << 31;
    let is_fixed = !image.is_movable() && (LOWEST..END).contains(&i.memory_displacement64());
    (is_fixed && !matches!(i.memory_base(), Register::RSP | Register::RBP)).then(|| i.memory_displacement64())
}

/// Which registers hold addresses on the stack, or of constants, where an instruction stands.
pub struct Registers {
    quiet: [bool; 16],
    /// In the whole function.
    always: [bool; 16],
    /// Where jumps within the function lead.
    labels: HashSet<u64>,
    /// The function takes the address of constants.
    pub has_table: bool,
}

const STACK: usize = 4;

fn index(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

impl Registers {
    pub fn of<'a, R: ReadRef<'a>>(image: &Image<'a, R>, code: &[Instruction]) -> Registers {
        let mut information = InstructionInfoFactory::new();
        let mut always = [true; 16];
        // Arguments: the caller has put something there.
        const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
        ARGUMENTS.iter().for_each(|&argument| always[argument] = false);
        let mut stack_only = [false; 16];
        stack_only[STACK] = true;
        let start = Registers { quiet: stack_only, always: stack_only, labels: HashSet::new(), has_table: false };
        for i in code {
            for (register, quiet) in start.effects(image, i, &mut information) {
                // A register that is moved on by a number stays what it was; one that is given back is not used again.
                always[register] &= quiet || is_shift(i) || matches!(i.mnemonic(), Mnemonic::Pop | Mnemonic::Leave);
            }
        }
        // What nothing has ever put an address into holds none of ours.
        let mut defined = [false; 16];
        for i in code {
            start
                .effects(image, i, &mut information)
                .into_iter()
                .for_each(|(register, quiet)| defined[register] |= quiet);
        }
        (0..16).for_each(|register| always[register] &= defined[register]);
        always[STACK] = true;
        let is_jump = |i: &&Instruction| i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64;
        let labels = code.iter().filter(is_jump).map(Instruction::near_branch64).collect();
        let is_table = |i: &Instruction| match named_address(image, i) {
            Some(address) => !image.may_change(address),
            None => false,
        };
        Registers { quiet: always, always, labels, has_table: code.iter().any(is_table) }
    }

    /// Comes to an instruction.
    pub fn arrive(&mut self, at: u64) {
        if self.labels.contains(&at) {
            self.quiet = self.always;
        }
    }

    /// The registers that an instruction changes, and whether they are quiet then.
    fn effects<'a, R: ReadRef<'a>>(
        &self,
        image: &Image<'a, R>,
        i: &Instruction,
        information: &mut InstructionInfoFactory,
    ) -> Vec<(usize, bool)> {
        let quiet = |register: Register| index(register).is_some_and(|register| self.quiet[register]);
        let is_register = |operand: u32| i.op_kind(operand) == OpKind::Register;
        let stays = match i.mnemonic() {
            Mnemonic::Lea if i.is_ip_rel_memory_operand() => !image.may_change(i.ip_rel_memory_address()),
            Mnemonic::Lea => quiet(i.memory_base()),
            Mnemonic::Mov if is_register(0) && is_register(1) => quiet(i.op1_register()),
            Mnemonic::Add if is_register(0) && is_register(1) => quiet(i.op0_register()) || quiet(i.op1_register()),
            _ if is_shift(i) => quiet(i.op0_register()),
            _ => false,
        };
        let is_written = |access: OpAccess| !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead);
        let used = information.info(i).used_registers();
        let written = used.iter().filter(|used| is_written(used.access())).filter_map(|used| index(used.register()));
        let target = if i.op_count() > 0 && is_register(0) { index(i.op0_register()) } else { None };
        let mut changed: Vec<_> = written.map(|register| (register, Some(register) == target && stays)).collect();
        if matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            // Those that a function need not keep.
            const CHANGED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
            changed.extend(CHANGED.map(|register| (register, false)));
        }
        changed.retain(|(register, _)| *register != STACK);
        changed
    }

    pub fn step<'a, R: ReadRef<'a>>(
        &mut self,
        image: &Image<'a, R>,
        i: &Instruction,
        information: &mut InstructionInfoFactory,
    ) {
        for (register, quiet) in self.effects(image, i, information) {
            self.quiet[register] = quiet;
        }
        use FlowControl::{IndirectBranch, Return, UnconditionalBranch};
        if matches!(i.flow_control(), UnconditionalBranch | IndirectBranch | Return) {
            self.quiet = self.always;
        }
    }

    /// Whether an instruction touches memory that is neither the stack nor constant.
    pub fn touches<'a, R: ReadRef<'a>>(&self, image: &Image<'a, R>, i: &Instruction) -> bool {
        use Mnemonic::*;
        if i.is_string_instruction() {
            const SOURCE: usize = 6;
            const TARGET: usize = 7;
            let reads_only = matches!(i.mnemonic(), Lodsb | Lodsw | Lodsd | Lodsq);
            let writes_only = matches!(i.mnemonic(), Stosb | Stosw | Stosd | Stosq);
            return !(reads_only || self.quiet[TARGET]) || !(writes_only || self.quiet[SOURCE]);
        }
        let is_hint = matches!(
            i.mnemonic(),
            Lea | Nop | Prefetch | Prefetchnta | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchw | Prefetchwt1
        );
        if is_hint || memory_operand(i).is_none() || is_of_thread(i) {
            return false;
        }
        // A call by a word that never changes.
        if let Some(address) = named_address(image, i) {
            return image.may_change(address);
        }
        let is_quiet = |register: Register| index(register).is_some_and(|register| self.quiet[register]);
        !(is_quiet(i.memory_base()) || i.memory_index_scale() == 1 && is_quiet(i.memory_index()))
    }
}

/// Whether an instruction moves an address within what it is of.
fn is_shift(i: &Instruction) -> bool {
    let by_number = || i.op_count() == 2 && i.op1_kind() != OpKind::Register && i.op1_kind() != OpKind::Memory;
    let is_register = i.op_count() > 0 && i.op0_kind() == OpKind::Register;
    is_register
        && match i.mnemonic() {
            Mnemonic::Inc | Mnemonic::Dec => true,
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And => by_number(),
            _ => false,
        }
}
