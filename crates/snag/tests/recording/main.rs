//! Real programs, compiled on the spot, recorded and analysed. Nothing here depends on time: a test passes however busy
//! the machine is, and only hanging for minutes makes it fail.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod asked;
mod attempts;
mod confirming;
mod contended;
mod draining;
mod endings;
mod examples;
mod faults;
mod freely;
mod hostile;
mod interrupts;
mod library;
mod litmus;
mod missing;
mod models;
mod no_reason;
mod replaying;
mod reports;
mod rust;
mod standing;
mod sturdy;
mod support;
mod trusting;
mod turns;
mod ways_in;
mod wishes;
mod zoo;
