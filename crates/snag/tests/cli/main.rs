//! The program as a whole, run from outside. One test binary, because each one
//! links everything.

mod check;
mod commands;
mod incomplete;
#[cfg(unix)]
mod interrupts;
mod json;
mod long;
mod memory_order;
mod online;
mod options;
mod programs;
mod support;
mod traces;
mod verify;
