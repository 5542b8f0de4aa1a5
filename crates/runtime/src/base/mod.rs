//! What all other rooms stand on: the C library ([`c`]) and the functions in it that ours replace ([`real`]), system
//! calls ([`kernel`]), the runtime's own memory ([`memory`]) and locks ([`lock`]), words that threads share
//! ([`relaxed`]), the program's memory ([`program`]), what is known about each thread ([`thread`]) and its calls
//! ([`frames`]), and records ([`record`], [`chunk`]) in the memory that the tool reads ([`shared`]).
//!
//! Nothing here decides what is an event or which thread runs.

pub mod c;
pub mod chunk;
pub mod frames;
pub mod kernel;
pub mod lock;
pub mod memory;
pub mod messages;
pub mod program;
pub mod real;
pub mod record;
pub mod relaxed;
pub mod shared;
pub mod stubs;
pub mod thread;
