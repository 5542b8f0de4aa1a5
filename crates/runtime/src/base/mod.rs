//! What all other rooms stand on: the C library and the kernel ([`c`]), the runtime's own memory and locks ([`memory`]),
//! what it knows about each thread ([`thread`]), and records in the memory that it shares with the tool ([`record`]).

pub mod c;
pub mod memory;
pub mod record;
pub mod thread;
