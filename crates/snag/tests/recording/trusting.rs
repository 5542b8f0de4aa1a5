//! A replay runs what this user has recorded on this machine, and nothing that a file just names.

use crate::support::*;
use std::process::{Command, Output};

/// Snag as a user whose secret lies in `state`.
fn snag_as(folder: &Folder, state: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
    command.args(arguments).current_dir(&folder.0).env("XDG_STATE_HOME", folder.path(state));
    command.output().unwrap()
}

/// A program that leaves a file `ran` behind, and a recording of it.
fn recorded(name: &str) -> Folder {
    let folder = Folder::new(name);
    let source = folder.path("program.c");
    let text = "#include <fcntl.h>\n#include <unistd.h>\nint g;\nint main(void) { g = 1; close(open(\"ran\", O_CREAT, 0600)); }\n";
    std::fs::write(&source, text).unwrap();
    compile("gcc", &["-g", "-fsanitize=thread"], &source, &folder.path("program"));
    let output = snag_as(&folder, "mine", &["record", "-o", "run.snag", "--", "./program", "an argument"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    std::fs::remove_file(folder.path("ran")).unwrap();
    folder
}

fn has_run(folder: &Folder) -> bool {
    std::fs::remove_file(folder.path("ran")).is_ok()
}

/// Refused, with what would have been run and what to do.
fn is_refused(folder: &Folder, output: &Output, command: &str) {
    let said = complaint(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not replayed") && said.contains(command) && said.contains("--trust"), "{said}");
    assert!(!said.contains("snag: running") && !has_run(folder), "{said}");
}

#[test]
fn what_a_replay_runs_is_said_before() {
    let folder = recorded("trust-said");
    let output = snag_as(&folder, "mine", &["-q", "replay", "run.snag"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let place = folder.0.canonicalize().unwrap();
    assert!(complaint(&output).contains(&format!("running ./program 'an argument' in {}", place.display())));
    assert!(has_run(&folder));
}

#[test]
fn a_recording_of_somebody_else_is_replayed_only_if_it_is_trusted() {
    let folder = recorded("trust-other");
    for state in ["nobody", "other"] {
        is_refused(&folder, &snag_as(&folder, state, &["replay", "run.snag"]), "./program 'an argument'");
        is_refused(&folder, &snag_as(&folder, state, &["replay", "run.snag", "--race", "R1"]), "./program");
        assert!(!folder.path(state).exists() || state == "other", "a replay makes no key");
        snag_as(&folder, "other", &["record", "-o", "other.snag", "--", "./program"]);
        assert!(has_run(&folder));
    }
    let trusted = snag_as(&folder, "other", &["replay", "run.snag", "--trust"]);
    assert_eq!(trusted.status.code(), Some(0), "{}", complaint(&trusted));
    assert!(complaint(&trusted).contains("running ./program 'an argument'") && has_run(&folder));
    let given = snag_as(&folder, "other", &["replay", "run.snag", "--", "./program", "an argument"]);
    assert_eq!(given.status.code(), Some(0), "{}", complaint(&given));
    assert!(has_run(&folder));
}

#[test]
fn a_program_of_the_same_name_elsewhere_is_not_the_recorded_one() {
    let folder = recorded("trust-elsewhere");
    let other = Folder(folder.path("elsewhere"));
    std::fs::create_dir(&other.0).unwrap();
    std::fs::copy(folder.path("program"), other.path("program")).unwrap();
    std::fs::copy(folder.path("run.snag"), other.path("run.snag")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
    command.args(["replay", "run.snag"]).current_dir(&other.0).env("XDG_STATE_HOME", folder.path("mine"));
    is_refused(&other, &command.output().unwrap(), "./program");
}

/// What an argument names, or the program reads, is another file in another folder.
#[test]
fn a_recording_is_replayed_in_its_own_folder_only() {
    let folder = recorded("trust-folder");
    let program = folder.path("program");
    let program = program.to_str().unwrap();
    let output = snag_as(&folder, "mine", &["record", "-o", "run.snag", "--", program, "settings"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(has_run(&folder));
    let other = Folder(folder.path("elsewhere"));
    std::fs::create_dir(&other.0).unwrap();
    let replay = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
        command.args(["replay", "../run.snag"]).args(more).current_dir(&other.0);
        command.env("XDG_STATE_HOME", folder.path("mine")).output().unwrap()
    };
    let refused = replay(&[]);
    is_refused(&other, &refused, "program settings");
    let place = format!("it was recorded in {},", folder.0.canonicalize().unwrap().display());
    assert!(complaint(&refused).contains(&place), "{}", complaint(&refused));
    for how in [&["--trust"][..], &["--", program, "settings"]] {
        let trusted = replay(how);
        assert_eq!(trusted.status.code(), Some(0), "{}", complaint(&trusted));
        assert!(has_run(&other));
    }
}

#[test]
fn a_program_that_was_replaced_is_not_the_recorded_one() {
    let folder = recorded("trust-replaced");
    let mut bytes = std::fs::read(folder.path("program")).unwrap();
    // Nothing that matters.
    bytes.push(0);
    std::fs::remove_file(folder.path("program")).unwrap();
    std::fs::write(folder.path("program"), bytes).unwrap();
    std::fs::set_permissions(folder.path("program"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused = snag_as(&folder, "mine", &["replay", "run.snag"]);
    is_refused(&folder, &refused, "./program");
    assert!(complaint(&refused).contains("has changed since it was recorded"), "{}", complaint(&refused));
}

/// Without a key nothing tells who has made a recording.
#[test]
fn a_recording_that_cannot_be_sealed_is_said_to_be_one() {
    let folder = recorded("trust-unsealed");
    let said = |arguments: &[&str]| {
        let output = snag_as(&folder, "program", arguments);
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
        complaint(&output).matches("can be replayed with --trust only").count()
    };
    // Where the folder should be is a file.
    assert_eq!(said(&["record", "-o", "run.snag", "--", "./program"]), 1);
    assert_eq!(said(&["run", "--keep", "run.snag", "--", "./program"]), 1);
    assert_eq!(said(&["run", "--", "./program"]), 0, "nobody can replay what has no name");
}

/// A recording with another first block beside the events, all checksums right: what is said about it.
fn with_about(recording: &[u8], change: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    const HEADER: usize = 24;
    const INDEX: u8 = 4;
    const END: u8 = 5;
    const EXTRA: u8 = 6;
    let mut about = None;
    snag_formats::snag_format::read_extras(std::io::Cursor::new(recording), |_, payload| {
        about.get_or_insert_with(|| payload.to_vec());
        Ok(())
    })
    .unwrap();
    let mut about = about.map(change);
    let mut forged = recording[..16].to_vec();
    let mut at = 16;
    while at < recording.len() {
        let length = u32::from_le_bytes(recording[at + 4..at + 8].try_into().unwrap()) as usize;
        let mut block = recording[at..at + HEADER + length].to_vec();
        at += block.len();
        match block[0] {
            INDEX => continue,
            END => block[HEADER + 8..HEADER + 16].fill(0),
            EXTRA => {
                if let Some(about) = about.take() {
                    block.truncate(HEADER);
                    block[1] = 0;
                    block[4..8].copy_from_slice(&(about.len() as u32).to_le_bytes());
                    block[8..12].copy_from_slice(&(about.len() as u32).to_le_bytes());
                    block.extend(about);
                }
            }
            _ => {}
        }
        forged.extend(block);
    }
    snag_formats::snag_format::repaired(&forged)
}

#[test]
fn a_command_that_was_forged_into_a_recording_made_here_is_not_run() {
    let folder = recorded("trust-forged");
    let recording = std::fs::read(folder.path("run.snag")).unwrap();
    let replaced = |from: &'static str, to: &'static str| {
        with_about(&recording, move |about| {
            let text = String::from_utf8(about).unwrap();
            assert!(text.contains(from));
            text.replacen(from, to, 1).into_bytes()
        })
    };
    // Nothing was changed: the forger's tools are right.
    std::fs::write(folder.path("same.snag"), with_about(&recording, |about| about)).unwrap();
    let same = snag_as(&folder, "mine", &["replay", "same.snag"]);
    assert_eq!(same.status.code(), Some(0), "{}", complaint(&same));
    assert!(has_run(&folder));
    let shell = "argument=/bin/sh\0argument=-c\0argument=touch ran; : \u{1b}[2J";
    let forgeries = [
        (replaced("argument=./program\0argument=an argument", shell), "/bin/sh -c 'touch ran; : \\u{1b}[2J'"),
        (replaced("an argument", "another one"), "./program 'another one'"),
        (replaced("\0seal=", "\0argument=more\0seal="), "./program 'an argument' more"),
        (replaced("folder=", "folder=/tmp"), "./program 'an argument'"),
        (replaced("program=", "program=/tmp"), "./program 'an argument'"),
        (replaced("seal=", "leas="), "./program 'an argument'"),
    ];
    for (forged, command) in forgeries {
        std::fs::write(folder.path("forged.snag"), forged).unwrap();
        is_refused(&folder, &snag_as(&folder, "mine", &["replay", "forged.snag"]), command);
    }
}

#[test]
fn what_runs_print_in_a_replay_leaves_no_file_behind() {
    let folder = Folder::new("trust-output");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    let temporary = folder.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    // Nobody may write there, or it would be seen.
    std::fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
    command
        .args(["replay", "run.snag", "--race", "R1", "--many", "1"])
        .current_dir(&folder.0)
        .env("TMPDIR", &temporary);
    let before = std::fs::metadata(&temporary).unwrap().modified().unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), complaint(&output));
    assert_eq!(std::fs::metadata(&temporary).unwrap().modified().unwrap(), before, "a file was made there");
}
