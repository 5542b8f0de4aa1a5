//! Recordings say which events other threads can interfere with: it is so, and what is found is the same.

use crate::support::*;
use serde_json::Value;
use snag_formats::TraceReader;
use snag_formats::snag_format::Contended;
use snag_model::Trace;
use snag_pipeline::{Analysis, Options};
use snag_testkit::contended::{Listed, judge};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A program, where its source is, and what it is called with.
const PROGRAMS: [(&str, &str, &str); 16] = [
    ("bank_account.c", "examples", ""),
    ("bounded_queue.c", "examples", ""),
    ("double_checked.c", "examples", ""),
    ("lazy_initialisation.c", "examples", ""),
    ("non_nested_locks.c", "examples", ""),
    ("reference_count.c", "examples", ""),
    ("relaxed_flag.c", "examples", ""),
    ("state_machine.c", "examples", ""),
    ("worker_pool.cpp", "examples", ""),
    ("churning.c", "programs", ""),
    ("every_primitive.c", "programs", ""),
    ("futures.cpp", "programs", ""),
    ("handed_over.c", "programs", ""),
    ("joined_at_end.c", "programs", ""),
    ("left_behind.c", "programs", ""),
    ("lifetimes.cpp", "programs", ""),
];

fn source(name: &str, place: &str) -> std::path::PathBuf {
    match place {
        "examples" => example(name),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name),
    }
}

fn compiled(folder: &Folder, name: &str, place: &str) {
    let compiler = if name.ends_with(".cpp") { "g++" } else { "gcc" };
    let flags = ["-g", "-w", "-O1", "-fsanitize=thread"];
    compile(compiler, &flags, &source(name, place), &folder.path("program"));
}

/// What was found, by locations.
fn found(trace: &Trace, analysis: &Analysis) -> BTreeSet<String> {
    let places = |events: &mut dyn Iterator<Item = snag_model::EventId>| {
        let mut places: Vec<&str> = events.map(|event| trace.location_of(event)).collect();
        places.sort_unstable();
        places.join(" / ")
    };
    let races = analysis.races.iter().map(|race| {
        let engine = race.engine.name();
        format!("race {engine} {:?} {}", race.kind, places(&mut [race.first, race.second].into_iter()))
    });
    let deadlocks =
        analysis.deadlocks.iter().map(|deadlock| format!("deadlock {}", places(&mut deadlock.pending.iter().copied())));
    let faults =
        analysis.faults.iter().map(|fault| format!("fault {:?} {}", fault.kind, trace.location_of(fault.second)));
    races.chain(deadlocks).chain(faults).collect()
}

/// Analyses all of a recording, and only what others can interfere with.
fn both(path: &Path) -> [BTreeSet<String>; 2] {
    let contended = Contended::open(BufReader::new(File::open(path).unwrap())).unwrap().expect("it says so");
    let (part, _) = TraceReader::new(Box::new(contended), None).read_all().unwrap();
    let (whole, _) = snag_formats::open(path, None).unwrap().read_all().unwrap();
    [whole, part].map(|trace| {
        let options = Options { spurious: true, ..Options::default() };
        let analysis = snag_pipeline::analyse(&trace, &options, &snag_pipeline::Quiet);
        found(&trace, &analysis)
    })
}

#[test]
fn what_is_not_listed_nobody_can_interfere_with_and_nothing_is_found_in_it() {
    let (mut all, mut some, mut findings) = (0, 0, 0);
    for (name, place, argument) in PROGRAMS {
        let folder = Folder::new(&format!("contended-{name}"));
        compiled(&folder, name, place);
        for how in [&[][..], &["--seed", "5"], &["--quantum", "10000"]] {
            let arguments = [&["record", "-o", "run.snag"], how, &["--", "./program", argument]].concat();
            snag(&folder, &arguments);
            let path = folder.path("run.snag");
            let bytes = std::fs::read(&path).unwrap();
            let judged = judge(&bytes).unwrap_or_else(|why| panic!("{name} {how:?}: {why}"));
            let Listed { whole, read } = judged.unwrap_or_else(|| panic!("{name} {how:?}: nothing is listed"));
            (all, some) = (all + whole, some + read);
            let [whole, part] = both(&path);
            assert_eq!(whole, part, "{name} {how:?}");
            findings += whole.len();
        }
    }
    assert!(findings > 20, "{findings}");
    assert!(some < all, "{some} of {all}");
}

/// Two threads work on memory of their own for long, and hand some of it over: by a lock, and by nothing.
const LONG: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *handed, *volatile forgotten, done;
int counter;
static void *work(void *x) {
    int *own = malloc(4096 * sizeof *own);
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < 4096; i++)
            own[i] = round ? own[i] + i : i;
    counter++;
    pthread_mutex_lock(&lock);
    handed = own;
    pthread_mutex_unlock(&lock);
    return x;
}
static void *more(void *x) {
    int *own = malloc(4096 * sizeof *own), sum = 0;
    forgotten = own;
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < 4096; i++)
            own[i] = round ? own[i] - i : i;
    counter++;
    pthread_mutex_lock(&lock);
    if (handed)
        for (int i = 0; i < 4096; i++)
            sum += handed[i];
    pthread_mutex_unlock(&lock);
    done = sum;
    return x;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, 0);
    pthread_create(&b, 0, more, 0);
    int *late;
    while (!(late = forgotten))
        sched_yield();
    late[17] = 3;
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%d\n", done != 0);
    return 0;
}
"#;

/// Locations of what a report lists.
fn places(report: &str) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(report).unwrap();
    let races = document["traces"][0]["races"].as_array().unwrap();
    let place = |access: &Value| access["location"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let pair = |race: &Value| {
        let mut pair = [place(&race["first"]), place(&race["second"])];
        pair.sort();
        pair.join(" / ")
    };
    races.iter().map(pair).collect()
}

#[test]
fn long_recordings_are_checked_without_what_nobody_can_interfere_with() {
    let folder = Folder::new("contended-long");
    std::fs::write(folder.path("long.c"), LONG).unwrap();
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &folder.path("long.c"), &folder.path("program"));
    let recorded = snag(&folder, &["record", "-o", "run.snag", "--quantum", "5000", "--", "./program"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", complaint(&recorded));
    let bytes = std::fs::read(folder.path("run.snag")).unwrap();
    let Listed { whole, read } = judge(&bytes).unwrap().expect("it is listed");
    // What one thread has handed over counts from the beginning, what the other one has kept does not.
    assert!(whole > 700_000 && read < whole * 2 / 3, "{read} of {whole}");
    let json = ["-v", "check", "--format", "json"];
    let part = snag(&folder, &[&json[..], &["run.snag"]].concat());
    assert!(complaint(&part).contains(&format!("{read} were read")), "{}", complaint(&part));
    // The same events, of which nothing more is said.
    assert_eq!(snag(&folder, &["convert", "run.snag", "plain.snag"]).status.code(), Some(0));
    let plain = std::fs::read(folder.path("plain.snag")).unwrap();
    assert!(judge(&plain).unwrap().is_none());
    let all = snag(&folder, &[&json[..], &["plain.snag"]].concat());
    assert_eq!((part.status.code(), all.status.code()), (Some(1), Some(1)), "{}", complaint(&part));
    assert_eq!(places(&text(&part)), places(&text(&all)));
    assert!(places(&text(&part)).len() >= 3, "{}", text(&part));
    // Proofs are about the whole recording.
    std::fs::write(folder.path("found.json"), text(&part)).unwrap();
    let verified = snag(&folder, &["verify", "run.snag", "found.json"]);
    assert_eq!(verified.status.code(), Some(0), "{}{}", text(&verified), complaint(&verified));
    // Cut off, it says nothing about what is missing.
    std::fs::write(folder.path("cut.snag"), &bytes[..bytes.len() - 40]).unwrap();
    assert!(judge(&bytes[..bytes.len() - 40]).is_ok_and(|judged| judged.is_none()));
    let cut = snag(&folder, &[&json[..], &["cut.snag"]].concat());
    assert_eq!(places(&text(&cut)), places(&text(&part)), "{}", complaint(&cut));
}
