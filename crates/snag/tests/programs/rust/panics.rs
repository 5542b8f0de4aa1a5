//! Threads that panic, at the same time, and show where they were.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

fn one(total: &Mutex<u32>) {
    *total.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    panic!("as it should");
}

fn main() {
    let total = Arc::new(Mutex::new(0));
    let start = |_| {
        let total = total.clone();
        thread::spawn(move || one(&total))
    };
    let threads: Vec<_> = (0..3).map(start).collect();
    let panics = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    println!("{panics} panics, {} counted", total.lock().unwrap());
}
