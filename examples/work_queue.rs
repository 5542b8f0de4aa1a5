// A pool of workers takes jobs from a channel and counts what it has done.
//
// To be found: a data race on BUSIEST. The workers update it under a lock, after they have handed in their results. The main
// thread looks at it without the lock once all results are in; mostly the workers are through by then, and nothing
// shows. (Safe Rust would not compile this: the variable is a `static mut`, as in code that was carried over from C.)
//
// With `rustc --cfg fixed` the main thread takes the lock, and there is no race.
//
//     RUSTC_BOOTSTRAP=1 rustc -g -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer examples/work_queue.rs
//     snag run -- ./work_queue
//
// or, in a package, `cargo snag run`.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

struct Results {
    sums: Mutex<Vec<u64>>,
    more: Condvar,
}

static BUSY: Mutex<()> = Mutex::new(());
static mut BUSIEST: u64 = 0;

fn work(jobs: Arc<Mutex<Receiver<Vec<u64>>>>, results: Arc<Results>) {
    loop {
        let job = match jobs.lock().unwrap().recv() {
            Ok(job) => job,
            Err(_) => return,
        };
        let sum = job.iter().sum();
        results.sums.lock().unwrap().push(sum);
        results.more.notify_one();
        let _guard = BUSY.lock().unwrap();
        unsafe {
            if sum > BUSIEST {
                BUSIEST = sum;
            }
        }
    }
}

fn main() {
    let (sender, receiver) = channel();
    let jobs = Arc::new(Mutex::new(receiver));
    let results = Arc::new(Results { sums: Mutex::new(Vec::new()), more: Condvar::new() });
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (jobs, results) = (jobs.clone(), results.clone());
            thread::spawn(move || work(jobs, results))
        })
        .collect();
    for job in 0..4u64 {
        sender.send((job..job + 3).collect()).unwrap();
    }
    drop(sender);
    let sums = results.more.wait_while(results.sums.lock().unwrap(), |sums| sums.len() < 4).unwrap();
    println!("total {}", sums.iter().sum::<u64>());
    drop(sums);
    let guard = cfg!(fixed).then(|| BUSY.lock().unwrap());
    let busiest = unsafe { BUSIEST };
    drop(guard);
    println!("busiest so far {busiest}");
    for worker in workers {
        worker.join().unwrap();
    }
}
