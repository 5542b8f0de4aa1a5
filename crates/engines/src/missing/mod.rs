//! Missing methods: what they could reach, and the order that they force (docs/model.md, rule 3).

pub(crate) mod clocks;
mod objects;
mod order;

pub use objects::{Missing, Objects};
pub use order::MissingOrder;
