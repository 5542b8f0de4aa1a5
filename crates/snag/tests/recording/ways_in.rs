//! The ways in which a program can come by ThreadSanitizer's runtime, each replaced by ours.

use crate::examples::check;
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
