//! Predictive data race detection from one run
fn main() {}
