//! What one thread does before a call comes before what another does after one: no lock, no queue, just an order.

use super::{After, Arguments, Modelled, Pending, later};
use crate::base::record::put3;
use crate::scheduler::{Next, enter};
use crate::wire::models::{GLOBAL, effect};
use crate::wire::{HANDED_OVER, PART, head, op};

/// What the order of calls is about: something at an address, of which there may be several parts.
pub fn key_of(address: usize, part: u64) -> u64 {
    HANDED_OVER | ((part & 0x3fff) * PART) | (address as u64 & (PART - 1))
}

/// The same about something of a library's own. No address is so small.
pub fn key_of_library(library: u8) -> u64 {
    key_of(1 + library as usize, LIBRARY)
}

/// The part of a [`key_of_library`].
const LIBRARY: u64 = 0x3ffb;

pub fn send(key: u64, pc: usize) {
    if enter(Next::call(pc)).is_some() {
        put3(head(op::SYNC_RELEASE, 0, pc), key, 0);
    }
}

pub fn receive(key: u64, pc: usize) {
    if enter(Next::call(pc)).is_some() {
        put3(head(op::SYNC_ACQUIRE, 0, pc), key, 0);
    }
}

pub fn exchange(modelled: &Modelled, arguments: &mut Arguments) -> Pending {
    let (entry, pc) = (&modelled.entry, arguments.pc);
    let key = match entry.flags & GLOBAL {
        0 => key_of(arguments.get(entry.object), 0),
        _ => key_of_library(entry.library),
    };
    if entry.effect != effect::RECEIVE {
        later::note_sent(key);
        send(key, pc);
    }
    match entry.effect {
        effect::SEND => Pending::CALL,
        // It may give memory back, which others have used before they sent.
        effect::EXCHANGE => {
            receive(key, pc);
            Pending::CALL
        }
        _ => Pending::then(After::Receive { key, pc }),
    }
}
