//! Models: what a library does that is not instrumented is known as if it were. GLib's primitives, used rightly, race
//! nowhere; used wrongly, they race where they should, predictions through swapped sections included.

use crate::sturdy::program;
use crate::support::*;
use std::process::Command;

/// What the compiler needs for GLib, if it is installed.
fn glib() -> Option<Vec<String>> {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "glib-2.0"]).output().ok()?;
    let flags = String::from_utf8(flags.stdout).ok().filter(|_| flags.status.success())?;
    Some(flags.split_whitespace().map(str::to_owned).collect())
}

/// What was found, without numbers and places.
fn found(text: &str) -> Vec<String> {
    let is_finding = |line: &&str| {
        let (letter, rest) = line.split_at(line.len().min(1));
        !letter.is_empty() && "RDFPU".contains(letter) && rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let what =
        |line: &str| line.split_once("  ").map_or("", |(_, rest)| rest).split(':').next().unwrap_or("").to_owned();
    let mut all: Vec<String> = text.lines().filter(is_finding).map(what).collect();
    all.sort();
    all.dedup();
    all
}

/// Runs all modes of the GLib program, right and wrong, with seeds from `SEEDS` on; 0 is none.
fn glib_program(name: &str, compiler: &str, seeds: std::ops::Range<u32>) {
    let Some(flags) = glib().filter(|_| have(compiler)) else {
        eprintln!("skipped: no GLib to build with");
        return;
    };
    let folder = Folder::new(name);
    // Libraries come after what needs them.
    let object = folder.path("glib.o");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let to_compile = [&["-g", "-w", "-O1", "-fsanitize=thread", "-c"], &flags[..]].concat();
    compile(compiler, &to_compile, &program("glib.c"), &object);
    let script = Command::new(compiler)
        .args(["-g", "-fsanitize=thread", "-o"])
        .arg(folder.path("program"))
        .arg(&object)
        .args(&flags)
        .status();
    assert!(script.is_ok_and(|status| status.success()), "it can be linked");
    let modes = Command::new(folder.path("program")).output().expect("it lists its modes").stdout;
    let modes = String::from_utf8(modes).expect("names");
    assert!(modes.lines().count() > 30, "{modes}");
    for mode in modes.lines() {
        for (kind, expected) in [("safe", &[][..]), ("racy", &["data race on z"])] {
            for seed in seeds.clone() {
                let seed = seed.to_string();
                let how: &[&str] = if seed == "0" { &[] } else { &["--seed", &seed] };
                let run = [&["run"], how, &["--", "./program", mode, kind]].concat();
                let run = snag(&folder, &run);
                let found = found(&text(&run));
                assert_eq!(found, expected, "{mode} {kind}, seed {seed}: {}{}", text(&run), complaint(&run));
            }
        }
    }
}

#[test]
fn glib_synchronises_as_its_model_says() {
    let seeds = std::env::var("GLIB_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2);
    glib_program("glib", "gcc", 0..seeds);
}

#[test]
fn glib_synchronises_as_its_model_says_in_programs_of_clang() {
    glib_program("glib-clang", "clang", 0..1);
}

/// The program, its library and a model of it.
fn own_library(folder: &Folder, model: &str) {
    let library = folder.path("libown.so");
    compile("gcc", &["-O2", "-fPIC", "-shared"], &program("modelled_library.c"), &library);
    let object = folder.path("program.o");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread", "-c"], &program("modelled.c"), &object);
    let path = format!("-L{}", folder.0.display());
    let flags = ["-fsanitize=thread", &path, "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-lown"];
    compile("gcc", &flags, &object, &folder.path("program"));
    std::fs::write(folder.path("own.toml"), model).expect("it can be written");
}

const OWN: &str = "library = \"own\"
files = [\"libown.so\"]
[functions]
own_take = { effect = \"acquire\", lock = 1, try = \"own_try\" }
own_try = { effect = \"try-acquire\", lock = 1, success = \"nonzero\" }
own_give = { effect = \"release\", lock = 1 }
own_put = { effect = \"send\", object = \"library\" }
own_get = { effect = \"receive\", object = \"library\" }
";

#[test]
fn a_model_of_the_users_makes_sections_that_prediction_can_swap() {
    let folder = Folder::new("models-own");
    own_library(&folder, OWN);
    let with = snag(&folder, &["run", "--keep", "run.snag", "--model", "own.toml", "--", "./program"]);
    assert_eq!(found(&text(&with)), ["data race on z"], "{}{}", text(&with), complaint(&with));
    // The model is part of the recording: a replay needs no file.
    std::fs::remove_file(folder.path("own.toml")).expect("it is there");
    let whole = snag(&folder, &["replay", "run.snag"]);
    assert_eq!(whole.status.code(), Some(0), "{}{}", text(&whole), complaint(&whole));
    let driven = snag(&folder, &["replay", "run.snag", "--race", "R1"]);
    let said = text(&driven) + &complaint(&driven);
    assert!(driven.status.code() == Some(1) && said.contains("R1 confirmed"), "{said}");
}

#[test]
fn record_says_which_functions_nobody_sees_were_called_and_what_is_known_about_them() {
    let folder = Folder::new("models-verbose");
    own_library(&folder, "library = \"own\"\nfiles = [\"libown.so\"]\n[functions]\nown_put = \"arguments\"\n");
    let recorded = snag(&folder, &["-v", "record", "--model", "own.toml", "-o", "run.snag", "--", "./program"]);
    let said = complaint(&recorded);
    assert!(said.contains("own_take: 2 calls, no model"), "{said}");
    assert!(said.contains("own_put: 1 calls, arguments"), "{said}");
}

#[test]
fn a_model_that_does_not_fit_is_said_to_once() {
    let folder = Folder::new("models-unfit");
    own_library(&folder, &OWN.replace("own_put", "own_push"));
    let recorded = snag(&folder, &["record", "--model", "own.toml", "-o", "run.snag", "--", "./program"]);
    let said = complaint(&recorded);
    assert_eq!(said.matches("own.toml: own has no function own_push (line 7)").count(), 1, "{said}");
    own_library(&folder, &OWN.replace("libown.so", "libother.so"));
    let recorded = snag(&folder, &["record", "--model", "own.toml", "-o", "run.snag", "--", "./program"]);
    let said = complaint(&recorded);
    assert!(said.contains("own.toml: the program has loaded no file that is own (libother.so)"), "{said}");
}

#[test]
fn a_model_with_a_mistake_is_refused_before_the_program_runs() {
    let folder = Folder::new("models-mistake");
    own_library(&folder, &OWN.replace("\"release\"", "\"releases\""));
    let run = snag(&folder, &["run", "--model", "own.toml", "--", "./program"]);
    let said = complaint(&run);
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("own.toml:6: one of the effects") && said.contains("not \"releases\""), "{said}");
    let absent = snag(&folder, &["record", "--model", "absent.toml", "--", "./program"]);
    let said = complaint(&absent);
    assert!(absent.status.code() == Some(2) && said.contains("absent.toml: cannot read"), "{said}");
}
