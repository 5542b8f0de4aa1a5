//! Which memory an access touches, known before the trace is: a named variable is a cell; an address range is
//! the pieces of eight bytes it lies in. Two ranges in one piece need not overlap; that is asked for each pair.

use snag_model::{Tables, VarId, Variable};
use std::collections::HashMap;
use std::ops::Range;

const PIECE: u64 = 8;

/// The cells of the variables met so far.
#[derive(Default)]
pub struct Pieces {
    /// Per variable where its cells are listed.
    spans: Vec<Range<u32>>,
    listed: Vec<u32>,
    of_address: HashMap<u64, u32>,
    count: u32,
}

impl Pieces {
    /// The cells of a variable.
    pub fn of(&mut self, variable: VarId, tables: &Tables) -> &[u32] {
        while self.spans.len() <= variable.index() {
            self.meet(tables.variable(VarId::new(self.spans.len())));
        }
        let Range { start, end } = self.spans[variable.index()];
        &self.listed[start as usize..end as usize]
    }

    fn meet(&mut self, variable: Variable) {
        let start = self.listed.len() as u32;
        match variable {
            Variable::Named(_) => {
                self.listed.push(self.count);
                self.count += 1;
            }
            Variable::Range { address, size } => {
                for piece in address / PIECE..=(address + (size.max(1) - 1)) / PIECE {
                    let count = &mut self.count;
                    let cell = *self.of_address.entry(piece).or_insert_with(|| {
                        *count += 1;
                        *count - 1
                    });
                    self.listed.push(cell);
                }
            }
        }
        self.spans.push(start..self.listed.len() as u32);
    }
}

/// Whether two variables that share a cell share memory.
pub fn overlap(tables: &Tables, a: VarId, b: VarId) -> bool {
    match (tables.variable(a), tables.variable(b)) {
        (Variable::Range { address: a, size: m }, Variable::Range { address: b, size: n }) => {
            a < b.saturating_add(n) && b < a.saturating_add(m)
        }
        _ => a == b,
    }
}
