//! Rust programs, built with the compiler that built the tests and the standard library that came with it: its locks,
//! channels and threads are seen, though it is not instrumented.

use crate::sturdy::{explained, program};
use crate::support::*;
use std::path::Path;
use std::process::Command;

/// Compiles a Rust program; false, with the reason, if this compiler cannot.
pub fn rustc(source: &Path, flags: &[&str], program: &Path) -> bool {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "-g", "-A", "warnings", "--target", "x86_64-unknown-linux-gnu"])
        .args(["-Zsanitizer=thread", "-Cunsafe-allow-abi-mismatch=sanitizer", "-o"])
        .arg(program)
        .arg(source)
        .args(flags)
        .env("RUSTC_BOOTSTRAP", "1")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: rustc cannot be run: {error}");
            return false;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // An older compiler, or one without the runtime of the sanitizer. Whatever else is wrong, is wrong with the test.
    if said.contains("unknown codegen option") || said.contains("rt.tsan") {
        eprintln!("skipped: this rustc cannot build for ThreadSanitizer: {said}");
        return false;
    }
    assert!(output.status.success(), "{said}");
    true
}

fn is_free_of_races(name: &str, says: &str, seeds: std::ops::Range<u64>) {
    for optimisation in ["0", "3"] {
        let folder = Folder::new(&format!("rust-{name}-{optimisation}"));
        let optimise = format!("-Copt-level={optimisation}");
        if !rustc(&program(&format!("rust/{name}.rs")), &[&optimise], &folder.path("program")) {
            return;
        }
        for seed in seeds.clone() {
            let (quantum, seed) = ((1 + seed % 9).to_string(), seed.to_string());
            let arguments = ["record", "-o", "run.snag", "--seed", &seed, "--quantum", &quantum, "--", "./program"];
            let output = snag(&folder, &arguments);
            assert_eq!(text(&output), says, "{name} -O{optimisation}, seed {seed}: {}", complaint(&output));
            let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
            explained(&trace);
            let checked = snag(&folder, &["check", "run.snag"]);
            assert_eq!(checked.status.code(), Some(0), "{name} -O{optimisation}, seed {seed}: {}", text(&checked));
        }
    }
}

#[test]
fn locks_of_the_standard_library_are_seen() {
    is_free_of_races("locks", "77 18 12 2\n", 1..26);
}

#[test]
fn threads_and_channels_of_the_standard_library_are_seen() {
    is_free_of_races("threads", "9 24 42 1 5 true true true\n", 1..26);
}

/// Backtraces are made under a lock of the standard library, by code that is left alone otherwise.
#[test]
fn panics_that_show_where_they_were_are_seen() {
    let folder = Folder::new("rust-panics");
    if !rustc(&program("rust/panics.rs"), &["-Copt-level=1"], &folder.path("program")) {
        return;
    }
    for seed in ["1", "2", "3"] {
        let command = ["record", "-o", "run.snag", "--seed", seed, "--", "sh", "-c", "RUST_BACKTRACE=1 ./program"];
        let output = snag(&folder, &command);
        assert_eq!(text(&output), "3 panics, 3 counted\n", "seed {seed}: {}", complaint(&output));
        assert!(complaint(&output).contains("panics.rs:8"), "seed {seed}: {}", complaint(&output));
        let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
        explained(&trace);
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "seed {seed}: {}", text(&checked));
    }
}

#[test]
fn the_race_of_the_rust_example_is_found_and_confirmed() {
    let folder = Folder::new("rust-example");
    for (fixed, flags) in [(false, &["-Copt-level=1"][..]), (true, &["-Copt-level=1", "--cfg", "fixed"])] {
        if !rustc(&example("work_queue.rs"), flags, &folder.path("program")) {
            return;
        }
        let output = snag(&folder, &["run", "--keep", "run.snag", "--", "./program"]);
        let report = text(&output);
        if fixed {
            assert_eq!(output.status.code(), Some(0), "{report}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert!(report.contains("data race on work_queue::BUSIEST"), "{report}");
        let races = report.lines().filter(|line| line.starts_with('R')).count();
        for race in (1..=races).map(|number| format!("R{number}")) {
            let driven = snag(&folder, &["replay", "run.snag", "--race", &race]);
            assert!(text(&driven).contains(&format!("{race} confirmed")), "{race}: {}", text(&driven));
        }
        let repeated = snag(&folder, &["replay", "run.snag"]);
        assert!(text(&repeated).contains("repeated: all"), "{}", text(&repeated));
    }
}

#[test]
fn cargo_snag_runs_programs_and_tests() {
    let folder = Folder::new("rust-cargo");
    if !rustc(&example("work_queue.rs"), &[], &folder.path("program")) {
        return;
    }
    std::fs::create_dir(folder.path("src")).unwrap();
    let manifest = "[package]\nname = \"pool\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(folder.path("Cargo.toml"), manifest).unwrap();
    let source = std::fs::read_to_string(example("work_queue.rs")).unwrap();
    let test = "#[test]\nfn channels_work() {\n    let (sender, receiver) = channel();\n    thread::spawn(move || sender.send(5));\n    \
                assert_eq!(receiver.recv(), Ok(5));\n}\n";
    std::fs::write(folder.path("src/main.rs"), format!("#![allow(static_mut_refs)]\n{source}\n{test}")).unwrap();
    let cargo = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_cargo-snag"))
            .arg("snag")
            .args(arguments)
            .current_dir(&folder.0)
            .env("CARGO_TARGET_DIR", folder.path("target"))
            .env_remove("RUSTFLAGS")
            .output()
            .unwrap()
    };
    let output = cargo(&["--keep", "run.snag", "run", "--offline"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), complaint(&output));
    assert!(text(&output).contains("data race on pool::BUSIEST"), "{}", text(&output));
    assert!(folder.path("run.snag").exists());
    let output = cargo(&["test", "--offline", "--", "channels"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output), complaint(&output));
    assert!(text(&output).contains("test channels_work ... ok"), "{}", text(&output));
    let output = cargo(&["run", "--bin", "nothing", "--offline"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("cargo could not build it"), "{}", complaint(&output));
}
