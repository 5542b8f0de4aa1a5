//! The SAT solver with the ordering theory attached.
//!
//! `batsat` was chosen over CaDiCaL by measurement (docs/maximal.md): so few queries come to this stage that the two take the
//! same time, and it is pure Rust, builds in two seconds and has the theory as a trait.

use crate::maximal::order::{Implied, Node, Order};
use batsat::{BasicSolver, Lit, SolverInterface, Theory, TheoryArg, Var, lbool};
use std::collections::HashMap;
use std::ops::Not;
use std::sync::Arc;

/// A variable or its negation; variables count from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Literal(i32);

impl Literal {
    pub fn of_variable(variable: usize) -> Literal {
        Literal(variable as i32)
    }

    pub fn variable(self) -> usize {
        self.0.unsigned_abs() as usize
    }

    pub fn is_positive(self) -> bool {
        self.0 > 0
    }
}

impl Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        Literal(-self.0)
    }
}

/// Something that is known, or up to the solver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Truth {
    Known(bool),
    Open(Literal),
}

impl Not for Truth {
    type Output = Truth;

    fn not(self) -> Truth {
        match self {
            Truth::Known(known) => Truth::Known(!known),
            Truth::Open(literal) => Truth::Open(!literal),
        }
    }
}

/// Asked now and then whether to give up.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a solver says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Outcome {
    Satisfiable,
    Unsatisfiable,
    /// It was told to stop.
    Stopped,
}

pub(crate) struct Solver {
    sat: BasicSolver,
    theory: Attached,
    /// Known to be unsatisfiable.
    refuted: bool,
    buffer: Vec<Lit>,
}

/// The theory in the form that the solver wants.
struct Attached {
    order: Order,
    /// How many literals of the solver's trail the order knows, and how many at the start of each level.
    known: usize,
    levels: Vec<usize>,
    /// Which variables the solver knows by their negation. It tries false first, and a preference given to it would
    /// switch off its own memory of what was good; so the preferred value is stored as false.
    negated: Vec<bool>,
    /// Why the order implied a literal.
    because: HashMap<Literal, Vec<Literal>>,
    implied: Vec<Implied>,
    buffer: Vec<Lit>,
}

impl Attached {
    fn outward(&self, literal: Literal) -> Lit {
        let variable = literal.variable() - 1;
        Lit::new(Var::unsafe_from_idx(variable as u32), literal.is_positive() != self.negated[variable])
    }

    fn inward(&self, lit: Lit) -> Literal {
        let variable = lit.var().idx() as usize;
        let literal = Literal::of_variable(variable + 1);
        if lit.sign() != self.negated[variable] { literal } else { !literal }
    }
}

impl Theory for Attached {
    fn final_check(&mut self, arguments: &mut TheoryArg) {
        self.partial_check(arguments);
    }

    fn create_level(&mut self) {
        self.levels.push(self.known);
        self.order.push_level();
    }

    fn pop_levels(&mut self, count: usize) {
        let keep = self.levels.len() - count;
        if count > 0 {
            self.known = self.levels[keep];
        }
        self.levels.truncate(keep);
        self.order.pop_levels(count);
    }

    fn n_levels(&self) -> usize {
        self.levels.len()
    }

    fn partial_check(&mut self, arguments: &mut TheoryArg) {
        while self.known < arguments.model().len() {
            let literal = self.inward(arguments.model()[self.known]);
            self.implied.clear();
            let mut implied = std::mem::take(&mut self.implied);
            if let Err(cycle) = self.order.assert(literal, &mut implied) {
                self.buffer.clear();
                for literal in cycle {
                    let lit = !self.outward(literal);
                    self.buffer.push(lit);
                }
                self.buffer.sort_unstable();
                self.buffer.dedup();
                arguments.raise_conflict(&self.buffer, false);
                self.implied = implied;
                return;
            }
            self.known += 1;
            for Implied { literal, because } in implied.drain(..) {
                let lit = self.outward(literal);
                if arguments.value(lit.var()) == lbool::UNDEF {
                    self.because.insert(literal, because);
                    arguments.propagate(lit);
                }
            }
            self.implied = implied;
        }
    }

    fn explain_propagation(&mut self, lit: Lit) -> &[Lit] {
        let literal = self.inward(lit);
        let lits: Vec<Lit> = self.because[&literal].iter().map(|&reason| self.outward(reason)).collect();
        self.buffer = lits;
        &self.buffer
    }
}

impl Solver {
    pub fn new(stop: Option<Stop>) -> Solver {
        let mut sat = BasicSolver::default();
        if let Some(stop) = stop {
            sat.cb_mut().set_stop(move || stop());
        }
        let theory = Attached {
            order: Order::new(),
            known: 0,
            levels: Vec::new(),
            negated: Vec::new(),
            because: HashMap::new(),
            implied: Vec::new(),
            buffer: Vec::new(),
        };
        Solver { sat, theory, refuted: false, buffer: Vec::new() }
    }

    /// The graph, to add to between searches.
    pub fn order(&mut self) -> &mut Order {
        debug_assert_eq!(self.theory.order.level(), 0);
        &mut self.theory.order
    }

    /// A new variable, about the order of two nodes or about something else, and the value to try first.
    pub fn add_variable(&mut self, atom: Option<(Node, Node)>, preferred: bool) -> Literal {
        self.new_variable(atom, preferred, true)
    }

    /// A new variable that follows from others: the solver never has to guess its value.
    pub fn add_derived(&mut self) -> Literal {
        self.new_variable(None, false, false)
    }

    fn new_variable(&mut self, atom: Option<(Node, Node)>, preferred: bool, decide: bool) -> Literal {
        let variable = self.sat.new_var(lbool::UNDEF, decide);
        self.theory.negated.push(preferred);
        self.theory.order.add_atom(atom);
        Literal::of_variable(variable.idx() as usize + 1)
    }

    /// How many variables there are.
    pub fn variables(&self) -> usize {
        self.theory.negated.len()
    }

    /// At least one of these literals is true.
    pub fn add_clause(&mut self, clause: &[Literal]) {
        self.buffer.clear();
        self.buffer.extend(clause.iter().map(|&literal| self.theory.outward(literal)));
        self.refuted |= !self.sat.add_clause_reuse(&mut self.buffer);
    }

    /// Looks for values that satisfy all clauses and the order, with literals that are true for this time.
    pub fn solve_assuming(&mut self, assumed: &[Literal]) -> Outcome {
        if self.refuted {
            return Outcome::Unsatisfiable;
        }
        self.buffer.clear();
        self.buffer.extend(assumed.iter().map(|&literal| self.theory.outward(literal)));
        match self.sat.solve_limited_th(&mut self.theory, &self.buffer) {
            result if result == lbool::TRUE => Outcome::Satisfiable,
            result if result == lbool::FALSE => {
                self.refuted = self.sat.unsat_core().is_empty();
                Outcome::Unsatisfiable
            }
            _ => Outcome::Stopped,
        }
    }

    /// Whether an assumed literal is in the unsatisfiable core of the last contradiction.
    pub fn is_in_core(&self, assumed: Literal) -> bool {
        !self.refuted && self.sat.unsat_core_contains_var(self.theory.outward(assumed).var())
    }

    /// The value of a literal in what was found.
    pub fn is_true(&self, literal: Literal) -> bool {
        self.sat.value_lit(self.theory.outward(literal)) == lbool::TRUE
    }
}
