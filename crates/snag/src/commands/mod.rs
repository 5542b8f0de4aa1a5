//! One file per command: its options and what it does with them.

pub mod cargo;
pub mod check;
pub mod compare;
pub mod compile;
pub mod convert;
pub mod explore;
pub mod generate;
pub mod incomplete;
pub mod models;
pub mod online;
pub mod pages;
pub mod punch;
pub mod record;
pub mod replay;
pub mod run;
pub mod stats;
pub mod trace;
pub mod verify;
