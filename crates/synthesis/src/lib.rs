//! Traces that nobody recorded: synthetic ones of any size ([`generate`]), and incomplete ones made out of complete
//! ones ([`punch`]), with the random numbers for both ([`Rng`]).

pub mod arguments;
pub mod calls;
pub mod generate;
pub mod punch;
mod rng;

pub use rng::Rng;
