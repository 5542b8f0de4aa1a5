//! The ways in which a program can come by ThreadSanitizer's runtime, each replaced by ours.

use crate::examples::check;
use crate::sturdy::program;
use crate::support::*;
use std::process::Command;

#[test]
fn gcc_with_the_runtime_inside() {
    check("gcc", &["-O1", "-static-libtsan"], "bank_account.c", &["balance"]);
    check("g++", &["-O1", "-static-libtsan"], "worker_pool.cpp", &["failures"]);
}

#[test]
fn clang_with_the_runtime_inside() {
    check("clang", &["-O0"], "bank_account.c", &["balance"]);
    check("clang", &["-O2"], "bounded_queue.c", &["longest"]);
    check("clang++", &["-O2"], "worker_pool.cpp", &["failures"]);
}

#[test]
fn clang_with_the_runtime_as_a_library() {
    check("clang", &["-O0", "-shared-libsan"], "bank_account.c", &["balance"]);
    check("clang", &["-O2", "-shared-libsan"], "spinning_flag.c", &["ready"]);
}

#[test]
fn programs_that_are_not_position_independent() {
    check("gcc", &["-O1", "-no-pie"], "bank_account.c", &["balance"]);
}

#[test]
fn the_compiler_wrapped_by_snag() {
    for (variable, compiler, source, found) in [
        ("SNAG_CC", "gcc", "bank_account.c", "balance"),
        ("SNAG_CC", "clang", "double_checked.c", "instance"),
        ("SNAG_CXX", "g++", "worker_pool.cpp", "failures"),
        ("SNAG_CXX", "clang++", "worker_pool.cpp", "failures"),
    ] {
        if !have(compiler) {
            continue;
        }
        let folder = Folder::new(&format!("wrapped-{compiler}"));
        let name = if variable == "SNAG_CC" { "cc" } else { "c++" };
        for (fixed, optimisation) in [("-DRACY", "-O0"), ("-DRACY", "-O2"), ("-DFIXED", "-O0"), ("-DFIXED", "-O2")] {
            let built = Command::new(env!("CARGO_BIN_EXE_snag"))
                .env(variable, compiler)
                .args([name, optimisation, fixed])
                .arg(example(source))
                .arg("-o")
                .arg(folder.path("program"))
                .arg("-lpthread")
                .status();
            assert!(built.is_ok_and(|status| status.success()), "{compiler} {optimisation}");
            let output = snag(&folder, &["run", "--", "./program"]);
            let report = text(&output);
            let racy = fixed == "-DRACY";
            assert_eq!(output.status.code(), Some(racy as i32), "{compiler} {optimisation} {fixed}: {report}");
            assert_eq!(report.contains(&format!("data race on {found}")), racy, "{compiler} {optimisation}: {report}");
        }
    }
}

#[test]
fn a_program_that_is_not_instrumented_is_refused_with_the_reason() {
    let folder = Folder::new("plain");
    compile("gcc", &["-g"], &example("bank_account.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "--", "./program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("not built with -fsanitize=thread"), "{}", complaint(&output));
    assert!(!folder.path("program.snag").exists());
    let output = snag(&folder, &["record", "--", "./nothing-here"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("no such program"), "{}", complaint(&output));
}

/// A script says nothing about what it starts. The first program is recorded; in the others, too, our runtime takes the
/// place of the one that they carry inside, which would report races of its own.
#[test]
fn of_several_programs_that_a_script_starts_none_runs_its_own_runtime() {
    if !have("clang") {
        return;
    }
    let folder = Folder::new("several");
    compile("clang", &["-g", "-DRACY", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("one"));
    compile("clang", &["-g", "-O2", "-DRACY", "-fsanitize=thread"], &example("spinning_flag.c"), &folder.path("two"));
    let script = "./one && ./two && ./one & ./two && wait && exec ./one";
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(!complaint(&output).contains("ThreadSanitizer"), "{}", complaint(&output));
    let checked = text(&snag(&folder, &["check", "run.snag"]));
    assert!(checked.contains("data race on"), "{checked}");
}

/// What is in memory need not be what was decided about: then it stays, and nothing is recorded.
#[test]
fn code_that_is_not_that_of_the_file_is_left_alone() {
    if !have("clang") {
        return;
    }
    let folder = Folder::new("differing");
    let flags = ["-g", "-no-pie", "-fsanitize=thread"];
    compile("clang", &flags, &example("bank_account.c"), &folder.path("program"));
    let listed = Command::new("nm").arg(folder.path("program")).output();
    let Ok(listed) = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()) else {
        return eprintln!("skipped: no nm");
    };
    let line = listed.lines().find(|line| line.ends_with(" __tsan_vptr_read")).expect("a callback");
    let address = format!("-DADDRESS=0x{}", line.split(' ').next().unwrap());
    compile("gcc", &["-shared", "-fPIC", &address], &program("differing.c"), &folder.path("library.so"));
    let output = Command::new(env!("CARGO_BIN_EXE_snag"))
        .args(["record", "-o", "run.snag", "--", "./program"])
        .env("LD_PRELOAD", folder.path("library.so"))
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    let said = complaint(&output);
    assert!(said.contains("some of the program's code could not be rewritten"), "{said}");
    let checked = snag(&folder, &["check", "run.snag"]);
    assert!(!text(&checked).contains("data race on"), "{}", text(&checked));
}
