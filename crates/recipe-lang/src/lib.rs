//! A small concurrent language, for tests and teaching.
//!
//! Programs are parsed and compiled ([`compile`]), run under a scheduler into a
//! symbolic trace ([`run()`]), and explored exhaustively ([`explore()`]): what the
//! explorer finds is the truth that predictions from a trace are measured by. The
//! language is described in `docs/rcp.md`.

pub mod ast;
mod compile;
mod error;
mod explore;
mod lexer;
mod live;
pub mod machine;
mod parser;
pub mod program;
pub mod random;
mod run;
mod side;
mod symbols;
mod tracer;

pub use error::{Mistake, Span};
pub use explore::{Access, Explored, RealRace, explore, explore_until};
pub use program::Program;
pub use run::{Plan, Run, Turn, run};
pub use tracer::Failure;

/// Compiles a program; `file` is its name in the locations of traces.
pub fn compile(file: &str, text: &str) -> Result<Program, Mistake> {
    compile::compile(file, &parser::parse(text)?)
}
