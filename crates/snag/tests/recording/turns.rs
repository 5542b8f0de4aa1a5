//! How long threads run before others do.

use crate::sturdy::program;
use crate::support::*;
use snag_model::Trace;

fn compiled(name: &str) -> Folder {
    let folder = Folder::new(name);
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("spins.c"), &folder.path("program"));
    folder
}

fn recorded(folder: &Folder, how: &[&str], kind: &str) -> Trace {
    let record = [&["record", "-o", "run.snag"], how, &["--", "./program", kind]].concat();
    let output = snag(folder, &record);
    assert_eq!(output.status.code(), Some(0), "{kind} {how:?}: {}", complaint(&output));
    snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap().0
}

/// How often the thread changes from one event to the next.
fn changes(trace: &Trace) -> usize {
    trace.events.threads().windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Else it would have some ten million events.
#[test]
fn a_thread_that_reads_the_same_again_and_again_rests() {
    let folder = compiled("turns-spinning");
    for kind in ["plain", "volatile", "two", "atomic", "exchange", "locked"] {
        for how in [&[][..], &["--quantum", "10000"], &["--seed", "2"]] {
            let events = recorded(&folder, how, kind).len();
            assert!(events < 2_500_000, "{kind} {how:?}: {events} events");
            let repeated = snag(&folder, &["replay", "run.snag"]);
            assert!(text(&repeated).contains("as recorded"), "{kind} {how:?}: {}", text(&repeated));
        }
    }
}

/// At first they change often, and then seldom.
#[test]
fn threads_that_work_on_memory_of_their_own_have_long_turns() {
    let folder = compiled("turns-long");
    let trace = recorded(&folder, &[], "work");
    assert!((2_000_000..2_010_000).contains(&trace.len()), "{}", trace.len());
    let changes = changes(&trace);
    assert!((1000..5000).contains(&changes), "{changes}");
}

#[test]
fn seeds_give_turns_of_other_lengths() {
    let folder = compiled("turns-seeds");
    let mut counts: Vec<usize> = ["1", "2", "3", "4"]
        .map(|seed| {
            let trace = recorded(&folder, &["--seed", seed], "work");
            trace.events.threads()[..10_000].windows(2).filter(|pair| pair[0] != pair[1]).count()
        })
        .to_vec();
    counts.sort();
    assert!(counts[0] * 10 < counts[3] && counts.windows(2).all(|pair| pair[0] != pair[1]), "{counts:?}");
}
