//! Threads that panic, at the same time, and show where they were.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

fn one(total: &Mutex<u32>) {
    let _held = total.lock().map(|mut total| *total += 1);
    panic!("as it should");
}

fn main() {
    let total = Arc::new(Mutex::new(0));
    let threads = (0..3).map(|_| {
        let total = total.clone();
        thread::spawn(move || one(&total))
    }).collect::<Vec<_>>();
    let panics = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    let _ = total.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{panics} panics");
}
