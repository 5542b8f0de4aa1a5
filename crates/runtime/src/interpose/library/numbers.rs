//! Numbers: functions that take them apart, and sequences of random ones that the program keeps itself.

use crate::interpose::library::effects::*;
use crate::interpose::library::library;
use core::ffi::{c_int, c_long, c_uint};

// Numbers that are taken apart.
library! {
    frexp "rsi" (x: f64, to: usize) -> f64; fills(to, 4); |_r| writes(to, 4);
    frexpf "rsi" (x: f32, to: usize) -> f32; fills(to, 4); |_r| writes(to, 4);
    modf "rsi" (x: f64, to: usize) -> f64; fills(to, 8); |_r| writes(to, 8);
    modff "rsi" (x: f32, to: usize) -> f32; fills(to, 4); |_r| writes(to, 4);
    remquo "rsi" (x: f64, y: f64, to: usize) -> f64; fills(to, 4); |_r| writes(to, 4);
    remquof "rsi" (x: f32, y: f32, to: usize) -> f32; fills(to, 4); |_r| writes(to, 4);
    lgamma_r "rsi" (x: f64, to: usize) -> f64; fills(to, 4); |_r| writes(to, 4);
    lgammaf_r "rsi" (x: f32, to: usize) -> f32; fills(to, 4); |_r| writes(to, 4);
    sincos "rdx" (x: f64, s: usize, c: usize) -> (); { fills(s, 8); fills(c, 8) }; |_r| { writes(s, 8); writes(c, 8) };
    sincosf "rdx" (x: f32, s: usize, c: usize) -> (); { fills(s, 4); fills(c, 4) };
        |_r| { writes(s, 4); writes(c, 4) };
}

/// Sequences of random numbers of the program's own.
const SHORTS: usize = 6;
const RAND48: usize = 24;
const RANDOM: usize = 48;

/// The words that `random_r` changes: the two places in its table, and there.
fn random(state: usize) {
    changes(state, RANDOM);
}

library! {
    rand_r "rsi" (seed: usize) -> c_int; changes(seed, 4); |_r| writes(seed, 4);
    erand48 "rsi" (x: usize) -> f64; changes(x, SHORTS); |_r| writes(x, SHORTS);
    nrand48 "rsi" (x: usize) -> c_long; changes(x, SHORTS); |_r| writes(x, SHORTS);
    jrand48 "rsi" (x: usize) -> c_long; changes(x, SHORTS); |_r| writes(x, SHORTS);
    seed48 "rsi" (x: usize) -> usize; reads(x, SHORTS); |_r| ();
    lcong48 "rsi" (x: usize) -> (); reads(x, 14); |_r| ();
    drand48_r "rdx" (state: usize, to: usize) -> c_int; { changes(state, RAND48); fills(to, 8) };
        |_r| { writes(state, RAND48); writes(to, 8) };
    lrand48_r "rdx" (state: usize, to: usize) -> c_int; { changes(state, RAND48); fills(to, 8) };
        |_r| { writes(state, RAND48); writes(to, 8) };
    mrand48_r "rdx" (state: usize, to: usize) -> c_int; { changes(state, RAND48); fills(to, 8) };
        |_r| { writes(state, RAND48); writes(to, 8) };
    srand48_r "rdx" (seed: c_long, state: usize) -> c_int; fills(state, RAND48); |_r| writes(state, RAND48);
    random_r "rdx" (state: usize, to: usize) -> c_int; { random(state); fills(to, 4) };
        |_r| { writes(state, 16); writes(to, 4) };
    srandom_r "rdx" (seed: c_uint, state: usize) -> c_int; random(state); |_r| writes(state, 16);
    initstate_r "r8" (seed: c_uint, table: usize, n: usize, state: usize) -> c_int;
        { fills(table, n); fills(state, RANDOM) };
        |r| if r == 0 { writes(table, n.min(256)); writes(state, RANDOM) };
}
