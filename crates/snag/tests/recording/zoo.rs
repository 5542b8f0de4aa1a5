//! Programs without races that synchronise in every way C and C++ offer: whatever is reported about them is a false alarm.

use crate::sturdy::program;
use crate::support::*;

/// Records the program under many schedules; nothing may be found.
fn is_free_of_races(compiler: &str, flags: &[&str], source: &str, says: &str, seeds: std::ops::Range<u64>) {
    if !have(compiler) {
        return;
    }
    let folder = Folder::new(&format!("zoo-{source}-{compiler}{}", flags.concat()));
    let mut all = vec!["-g", "-w", "-fsanitize=thread"];
    all.extend(flags);
    compile(compiler, &all, &program(source), &folder.path("program"));
    if source == "libraries.cpp" {
        all.extend(["-shared", "-fPIC"]);
        compile(compiler, &all, &program("library.cpp"), &folder.path("library.so"));
    }
    for seed in seeds {
        let (quantum, seed) = ((1 + seed % 9).to_string(), seed.to_string());
        let arguments = ["record", "-o", "run.snag", "--seed", &seed, "--quantum", &quantum, "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(text(&output), says, "{source} by {compiler}, seed {seed}: {}", complaint(&output));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "{source} by {compiler}, seed {seed}: {}", text(&checked));
    }
}

/// Found locks that are only tried as parts of deadlocks.
#[test]
fn futures_shared_pointers_and_locks_of_every_kind() {
    is_free_of_races("g++", &["-std=c++20", "-O1"], "futures.cpp", "75 2 12\n", 1..16);
    is_free_of_races("clang++", &["-std=c++20", "-O2"], "futures.cpp", "75 2 12\n", 16..21);
}

#[test]
fn latches_barriers_semaphores_and_waiting_atomics() {
    is_free_of_races("g++", &["-std=c++20", "-O1"], "cpp20.cpp", "144\n", 1..16);
    is_free_of_races("clang++", &["-std=c++20", "-O0"], "cpp20.cpp", "144\n", 16..21);
}

#[test]
fn mutexes_signals_and_descriptors() {
    is_free_of_races("gcc", &["-O1"], "posix.c", "96\n", 1..16);
    is_free_of_races("clang", &["-O2"], "posix.c", "96\n", 16..21);
}

/// Found what servers keep for a connection to race with what they keep for the next one with its number.
#[test]
fn numbers_of_descriptors() {
    is_free_of_races("gcc", &["-O1"], "numbers.c", "120\n", 1..11);
    is_free_of_races("clang", &["-O2"], "numbers.c", "120\n", 11..14);
}

/// Found all that was handed over by signals, timers, readiness without a read, the end of a pipe, streams, queues of the kernel,
/// locks on files and the end of processes to race.
#[test]
fn what_only_the_kernel_hands_over() {
    is_free_of_races("gcc", &["-O1"], "handed_over.c", "24 10\n", 1..9);
    is_free_of_races("clang", &["-O2"], "handed_over.c", "24 10\n", 9..12);
}

/// Missed races of threads that write into the same file, or to where the program's output goes.
#[test]
fn what_is_only_written_orders_nothing() {
    let folder = Folder::new("logging");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("logging.c"), &folder.path("program"));
    for how in ["stream", "printed", "file", "output", "copy"] {
        let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program", how, "log"]);
        assert_eq!(output.status.code(), Some(1), "{how}: {}", complaint(&output));
        assert!(text(&output).contains("data race on written_down"), "{how}: {}", text(&output));
    }
}

/// Found such blocks taken for what was freed there before.
#[test]
fn blocks_that_the_library_makes_are_not_freed_ones() {
    let folder = Folder::new("library-blocks");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("library_blocks.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    assert_eq!(text(&output), "16\n");
    assert!(!complaint(&output).contains("freed memory"), "{}", complaint(&output));
}

/// Found initialisation of libraries to be ordered by a lock that nobody sees.
#[test]
fn libraries_that_come_and_go() {
    is_free_of_races("g++", &["-O1"], "libraries.cpp", "18\n", 1..16);
}

#[test]
fn atomics_of_sixteen_bytes() {
    is_free_of_races("gcc", &["-O1", "-mcx16", "-latomic"], "wide_atomics.c", "200 200\n5\n", 1..6);
    is_free_of_races("clang", &["-O1", "-mcx16"], "wide_atomics.c", "200 200\n5\n", 6..11);
}

/// Found a first thread whose end nobody noticed, so that all others waited for it, and a program that did not end with its
/// last thread.
#[test]
fn threads_that_are_cancelled_wherever_they_are() {
    let says = "14 cleaned up, 1 destroyed, 1 done\n";
    is_free_of_races("gcc", &["-O1"], "cancel.c", says, 1..16);
    is_free_of_races("clang", &["-O2"], "cancel.c", says, 16..21);
    is_free_of_races("g++", &["-O1"], "cancel.cpp", "5 destroyed, 1 caught\n", 1..11);
}

/// Found annotations in programs that carry ThreadSanitizer's runtime to be left to that runtime, which was never started, and
/// locks to be lost, or waited for in vain, while accesses were ignored.
#[test]
fn what_programs_say_about_themselves() {
    let says = "43 15 15 7 0\n";
    is_free_of_races("gcc", &["-O1"], "annotated.c", says, 1..6);
    is_free_of_races("gcc", &["-O1", "-static-libtsan"], "annotated.c", says, 6..8);
    is_free_of_races("clang", &["-O2"], "annotated.c", says, 8..12);
}

/// Found handlers around a fork to wait for a lock that another thread held while all others were kept from running, and
/// threads that left a barrier which was no longer there.
#[test]
fn handlers_around_forks_and_barriers_that_are_destroyed_at_once() {
    is_free_of_races("gcc", &["-O1"], "forks.c", "120 4 4 4\n", 1..11);
    is_free_of_races("clang", &["-O2"], "forks.c", "120 4 4 4\n", 11..16);
}

/// Found programs that say which fiber they run to die for the want of somebody to say it to.
#[test]
fn fibers_that_go_from_thread_to_thread() {
    is_free_of_races("gcc", &["-O1"], "fibers.c", "4 1\n", 1..6);
    is_free_of_races("clang", &["-O1"], "fibers.c", "4 1\n", 6..11);
    let folder = Folder::new("zoo-racing-fibers");
    compile("gcc", &["-g", "-w", "-O1", "-DRACE", "-fsanitize=thread"], &program("fibers.c"), &folder.path("program"));
    let output = snag(&folder, &["run", "--seed", "3", "--quantum", "3", "--", "./program"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    // The calls that led to it, and none that a fiber has made.
    assert!(text(&output).contains("data race on racy"), "{}", text(&output));
    let calls = ["conflict", "first", "conflict", "second"];
    let report = text(&output);
    let mut rest = &*report;
    for call in calls {
        let at = rest.find(&format!("      {call} at ")).unwrap_or_else(|| panic!("no {call} in {}", text(&output)));
        rest = &rest[at + 1..];
    }
    assert!(!text(&output).contains("travel at"), "{}", text(&output));
}

/// Found waits that no signal could reach, handlers to race with whoever had installed them or sent the signal, a fault in the
/// handler of a fault, and children that wrote into the recording of their parent.
#[test]
fn signals_wherever_they_come_and_processes_made_by_hand() {
    let says = "1 63, 4 jumped, 42 mended, 7 7\n";
    is_free_of_races("gcc", &["-O1"], "handlers.c", says, 1..11);
    is_free_of_races("clang", &["-O2"], "handlers.c", says, 11..16);
}

/// Found whole turns to be spent in waiting, so that programs which hand something over by a flag came to no end.
#[test]
fn threads_that_wait_in_loops_end_their_turns() {
    is_free_of_races("gcc", &["-O1"], "spinning.c", "499500 2000\n", 1..4);
    let folder = Folder::new("zoo-spinning");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("spinning.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    assert_eq!(text(&output), "499500 2000\n", "{}", complaint(&output));
    let statistics = snag(&folder, &["stats", "--format", "json", "run.snag"]);
    let events = text(&statistics).split("\"events\":").nth(1).map(|rest| {
        rest.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap()
    });
    // A turn has ten thousand steps, and every hand-over would take two.
    assert!(events.is_some_and(|events| events < 2_000_000), "{}", text(&statistics));
}

/// Found a box to be freed by who had taken another one with its address.
#[test]
fn memory_that_is_used_again_is_not_what_it_was() {
    is_free_of_races("gcc", &["-O1"], "same_address.c", "taken\n", 1..16);
    is_free_of_races("clang", &["-O2"], "same_address.c", "taken\n", 16..21);
}

/// Found every two parallel regions to race.
#[test]
fn what_openmp_orders() {
    is_free_of_races("gcc", &["-O1", "-fopenmp"], "openmp.c", "2016 3 3 3 1 8 6 11\n", 1..9);
    let folder = Folder::new("openmp-race");
    let flags = ["-g", "-O1", "-fopenmp", "-fsanitize=thread"];
    compile("gcc", &flags, &program("openmp_race.c"), &folder.path("program"));
    let output = snag(&folder, &["run", "--", "./program"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    for race in ["data race on values[", "data race on sum"] {
        assert!(text(&output).contains(race), "{}", text(&output));
    }
}

/// Found flags that only `strtol` and its like look at not to be looked at, and locks of threads that have ended to be free. Waited for
/// ever for other processes, and called versions of functions that nobody wants any more.
#[test]
fn functions_that_look_at_texts_and_processes_that_share() {
    is_free_of_races("gcc", &["-O1"], "looks.c", "78 8 0 /\n", 1..9);
    is_free_of_races("clang", &["-O0"], "looks.c", "78 8 0 /\n", 9..12);
}

#[test]
fn objects_that_wait_in_their_destructors() {
    is_free_of_races("g++", &["-O1"], "destroyed.cpp", "5\n", 1..9);
    is_free_of_races("clang++", &["-O1"], "destroyed.cpp", "5\n", 9..12);
}

/// Never ended when turns ended where a thread had the lock, each time.
#[test]
fn threads_that_poll_under_a_lock() {
    let folder = Folder::new("polling");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("polling.c"), &folder.path("program"));
    for quantum in ["10000", "9999", "5000", "1000", "777", "100", "64", "10"] {
        let output = snag(&folder, &["record", "-o", "run.snag", "--quantum", quantum, "--", "./program"]);
        assert_eq!(text(&output), "0\n", "{quantum}: {}", complaint(&output));
    }
}

/// Never ended when turns were so long that each thread found the other with its lock, each time.
#[test]
fn threads_that_back_off() {
    let folder = Folder::new("backing-off");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("backing_off.c"), &folder.path("program"));
    for quantum in 1..16 {
        let arguments = ["record", "-o", "run.snag", "--quantum", &quantum.to_string(), "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(text(&output), "40\n", "{quantum}: {}", complaint(&output));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "{quantum}: {}", text(&checked));
    }
}
