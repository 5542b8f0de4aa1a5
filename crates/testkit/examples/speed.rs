//! How long the oracle takes: traces of so many events, all three levels, one core.
//!
//! `cargo run --release -p snag-testkit --example speed -- 16 20000`

use snag_testkit::{Level, Rng, Shape, races, random_trace};
use std::time::Instant;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let events = numbers.next().unwrap_or(16);
    let count = numbers.next().unwrap_or(20_000) as u64;
    let mut slowest = (0.0, 0);
    let mut found = 0;
    let start = Instant::now();
    for seed in 0..count {
        let mut rng = Rng::new(seed);
        let shape = Shape { events, ..Shape::any(&mut rng) };
        let trace = random_trace(&shape, &mut rng);
        let one = Instant::now();
        found += [Level::Writer, Level::Value, Level::Control].map(|level| races(&trace, level).len())[2];
        let time = one.elapsed().as_secs_f64();
        if time > slowest.0 {
            slowest = (time, seed);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} traces of {events} events: {seconds:.1} s, {:.0} µs each", 1e6 * seconds / count as f64);
    println!("slowest: {:.1} ms (seed {}); {found} races at control", 1e3 * slowest.0, slowest.1);
}
