//! Names and addresses of the network, and entries of folders.

use crate::base::program::Address;
use crate::interpose::library::effects::*;
use crate::interpose::library::library;
use core::ffi::{c_int, c_uint};

/// Bytes of an address of a family.
fn size_of(family: c_int) -> usize {
    if family == 10 { 16 } else { 4 }
}

/// An entry of a folder says how long it is.
fn writes_entry(entry: usize) {
    if entry != 0 {
        writes(entry, Address(entry).plus(16).read::<u16>() as usize);
    }
}

/// Most bytes of an entry.
const ENTRY: usize = 280;

fn read_into(to: usize, result: usize) {
    fills(to, ENTRY);
    fills(result, 8);
}

fn was_read(to: usize, result: usize) {
    if word(result) != 0 {
        writes_entry(to);
    }
    writes(result, 8);
}

library! {
    inet_aton "rdx" (s: usize, to: usize) -> c_int; { text(s); fills(to, 4) }; |r| if r != 0 { writes(to, 4) };
    inet_addr "rsi" (s: usize) -> c_uint; text(s); |_r| ();
    inet_network "rsi" (s: usize) -> c_uint; text(s); |_r| ();
    inet_ntoa "rsi" (a: c_uint) -> usize; (); |r| writes_text(r);
    inet_ntop "r8" (family: c_int, from: usize, to: usize, n: c_uint) -> usize;
        { reads(from, size_of(family)); fills(to, n as usize) };
        |r| writes_text(r);
    inet_pton "rcx" (family: c_int, s: usize, to: usize) -> c_int; { text(s); fills(to, size_of(family)) };
        |r| if r == 1 { writes(to, size_of(family)) };
    ether_aton_r "rdx" (s: usize, to: usize) -> usize; { text(s); fills(to, 6) }; |r| writes(r, 6);
    ether_aton "rsi" (s: usize) -> usize; text(s); |r| writes(r, 6);
    ether_ntoa_r "rdx" (from: usize, to: usize) -> usize; { reads(from, 6); fills(to, 18) }; |r| writes_text(r);
    ether_ntoa "rsi" (from: usize) -> usize; reads(from, 6); |r| writes_text(r);
    ether_line "rcx" (s: usize, to: usize, host: usize) -> c_int; { text(s); fills(to, 6) };
        |r| if r == 0 { writes(to, 6); writes_text(host) };
    if_indextoname "rdx" (k: c_uint, to: usize) -> usize; fills(to, 16); |r| writes_text(r);
    if_nametoindex "rsi" (s: usize) -> c_uint; text(s); |_r| ();
    readdir "rsi" (folder: usize) -> usize; (); |r| writes_entry(r);
    readdir64 "rsi" (folder: usize) -> usize; (); |r| writes_entry(r);
    readdir_r "rcx" (folder: usize, to: usize, result: usize) -> c_int; read_into(to, result);
        |r| if r == 0 { was_read(to, result) };
    readdir64_r "rcx" (folder: usize, to: usize, result: usize) -> c_int; read_into(to, result);
        |r| if r == 0 { was_read(to, result) };
}
