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
