//! Every example has the race that its comment promises, and its fixed variant has none.

use crate::support::*;

/// Records an example that is compiled in some way and checks what is found.
pub fn check(compiler: &str, flags: &[&str], source: &str, found: &[&str]) {
    if !have(compiler) {
        return;
    }
    let name = format!("{source}-{compiler}{}", flags.concat());
    let folder = Folder::new(&name);
    for fixed in [false, true] {
        let mut arguments = vec!["-g", "-fsanitize=thread"];
        arguments.extend(flags);
        if fixed {
            arguments.push("-DFIXED");
        }
        compile(compiler, &arguments, &example(source), &folder.path("program"));
        let output = snag(&folder, &["run", "--", "./program"]);
        let (report, status) = (text(&output), output.status.code());
        if fixed {
            assert_eq!(status, Some(0), "{name}, fixed: {report}{}", complaint(&output));
            assert!(report.contains("no races"), "{name}, fixed: {report}");
        } else {
            assert_eq!(status, Some(1), "{name}: {report}{}", complaint(&output));
            for variable in found {
                assert!(report.contains(&format!("data race on {variable}")), "{name}: no {variable} in {report}");
            }
        }
    }
}

macro_rules! examples {
    ($($test:ident $compiler:literal $source:literal $found:expr;)*) => {$(
        #[test]
        fn $test() {
            for optimisation in ["-O0", "-O2"] {
                check($compiler, &[optimisation], $source, &$found);
            }
        }
    )*};
}

examples! {
    bank_account "gcc" "bank_account.c" ["balance"];
    double_checked "gcc" "double_checked.c" ["instance"];
    spinning_flag "gcc" "spinning_flag.c" ["ready"];
    bounded_queue "gcc" "bounded_queue.c" ["longest"];
    lazy_initialisation "gcc" "lazy_initialisation.c" ["filled"];
    reference_count "gcc" "reference_count.c" [""];
    non_nested_locks "gcc" "non_nested_locks.c" ["length"];
    state_machine "gcc" "state_machine.c" ["buffer"];
    worker_pool "g++" "worker_pool.cpp" ["failures"];
}
