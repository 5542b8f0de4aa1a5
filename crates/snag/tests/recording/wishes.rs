//! What a program has built in for ThreadSanitizer counts here as well.

use crate::sturdy::program;
use crate::support::*;

fn compiled(folder: &Folder, compiler: &str, options: &[&str]) {
    let flags = ["-g", "-O1", "-fno-inline", "-fsanitize=thread", "-pthread"];
    let flags: Vec<&str> = flags.iter().chain(options).copied().collect();
    compile(compiler, &flags, &program("wishes.c"), &folder.path("program"));
}

fn both_compilers(name: &str, test: impl Fn(&Folder, &str)) {
    for compiler in ["gcc", "clang"] {
        if have(compiler) {
            test(&Folder::new(&format!("wishes-{name}-{compiler}")), compiler);
        }
    }
}

#[test]
fn options_that_are_built_in_count_before_those_of_the_environment() {
    both_compilers("options", |folder, compiler| {
        compiled(folder, compiler, &["-DOPTIONS=\"exitcode=17:history_size=3\""]);
        let run = snag(folder, &["run", "--", "./program"]);
        assert!(text(&run).contains("started 1"), "{}", text(&run));
        assert!(text(&run).contains("data race on wanted"), "{}", text(&run));
        assert_eq!(run.status.code(), Some(17));
        assert!(complaint(&run).contains("TSAN_OPTIONS: without effect here: history_size"), "{}", complaint(&run));
        compiled(folder, compiler, &["-DOPTIONS=\"report_bugs=0\""]);
        let run = snag(folder, &["run", "--", "./program"]);
        assert_eq!((run.status.code(), text(&run).contains("data race")), (Some(0), false));
    });
}

#[test]
fn suppressions_that_are_built_in_stand_beside_those_of_the_user() {
    both_compilers("suppressions", |folder, compiler| {
        compiled(folder, compiler, &["-DSUPPRESSIONS=\"race:touch_unwanted\""]);
        let run = snag(folder, &["run", "--", "./program"]);
        assert!(text(&run).contains("data race on wanted"), "{}", text(&run));
        assert!(!text(&run).contains("data race on unwanted"), "{}", text(&run));
        std::fs::write(folder.path("more.supp"), "race:worker\n").unwrap();
        let run = snag(folder, &["run", "--suppressions", "more.supp", "--", "./program"]);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run));
        compiled(folder, compiler, &["-DSUPPRESSIONS=\"rase:touch_unwanted\""]);
        let run = snag(folder, &["run", "--", "./program"]);
        assert_eq!(run.status.code(), Some(2));
        assert!(complaint(&run).contains("__tsan_default_suppressions: line 1: "), "{}", complaint(&run));
    });
}
