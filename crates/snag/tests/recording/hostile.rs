//! Programs that mean their recorder no good, files that others could have made, and files that others should not read.

use crate::sturdy::program;
use crate::support::*;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs snag with at most so much memory, in bytes, and so much time; its status and what it said.
fn limited(folder: &Folder, arguments: &[&str], memory: u64, time: Duration) -> (Option<i32>, String) {
    let said = folder.path("said");
    let mut command = Command::new(env!("CARGO_BIN_EXE_snag"));
    command.args(arguments).current_dir(&folder.0).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&said).unwrap()).process_group(0);
    let mut child = command.spawn().unwrap();
    let group = -(child.id() as i32);
    let started = Instant::now();
    let mut most = 0;
    let status = loop {
        let of_process = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident = of_process.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        most = most.max(resident.map_or(0, |size| size.parse::<u64>().unwrap()) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > time || most > memory {
            // SAFETY: a plain system call; the group is ours.
            unsafe { libc::kill(group, libc::SIGKILL) };
            child.wait().unwrap();
            panic!("{arguments:?}: {:?}, {most} bytes: {}", started.elapsed(), std::fs::read_to_string(said).unwrap());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    // SAFETY: as above; what the program has left behind.
    unsafe { libc::kill(group, libc::SIGKILL) };
    (status.code(), std::fs::read_to_string(said).unwrap())
}

/// More of them with `SNAG_SCRIBBLERS=400`.
#[test]
fn programs_that_scribble_over_what_they_share_with_snag_do_it_no_harm() {
    const MEMORY: u64 = 1 << 30;
    const TIME: Duration = Duration::from_secs(10);
    let folder = Folder::new("scribbling");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("scribbling.c"), &folder.path("program"));
    let count = std::env::var("SNAG_SCRIBBLERS").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let (mut noticed, mut cut) = (0, 0);
    for seed in 0..count {
        let number = seed.to_string();
        // Every third runs freely.
        let how: &[&str] = if seed / 20 % 3 == 2 { &["--free-running"] } else { &[] };
        let arguments = [&["record", "-o", "run.snag"], how, &["--", "./program", &number]].concat();
        let (status, said) = limited(&folder, &arguments, MEMORY, TIME);
        assert!(!said.contains("panicked") && !said.contains("memory allocation"), "seed {seed}: {said}");
        let damage = said.contains("the program has damaged what it shares with snag");
        noticed += damage as u32;
        // It ends as it wants to, or dies of what it did to itself; or snag says what it has done.
        let crashed = [128 + libc::SIGSEGV, 128 + libc::SIGBUS].contains(&status.unwrap_or(-1));
        cut += crashed as u32;
        let right = if damage { status == Some(2) } else { status == Some(7) || crashed };
        assert!(right, "seed {seed}: {status:?} {said}");
        let (status, said) = limited(&folder, &["check", "-q", "run.snag"], MEMORY, TIME);
        assert!(matches!(status, Some(0 | 1)), "seed {seed}: {status:?} {said}");
    }
    println!("{count} programs: {noticed} times damage was noticed, {cut} times the program died of it");
    assert!(noticed >= count / 4, "{noticed} of {count}");
}

/// Honest programs, whatever addresses they use: none is accused of anything, all of it is recorded, and it costs snag little.
#[test]
fn memory_that_comes_and_goes_at_rising_addresses_is_no_damage() {
    let folder = Folder::new("churning");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("churning.c"), &folder.path("program"));
    for (how, events) in [("seen", 4), ("part", 4), ("unseen", 3), ("file", 1), ("sparse", 1)] {
        let rounds = 6000;
        let arguments = ["record", "-o", "run.snag", "--", "./program", how, &rounds.to_string()];
        let (status, said) = limited(&folder, &arguments, 1 << 30, Duration::from_secs(60));
        assert_eq!(status, Some(7), "{how}: {said}");
        assert!(!said.contains("ends early") && !said.contains("warning"), "{how}: {said}");
        let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
        assert!(trace.len() > events * rounds, "{how}: {} events", trace.len());
    }
}

#[test]
fn a_program_that_takes_the_shared_memory_away_runs_on_and_is_told_of() {
    let folder = Folder::new("unmapping");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("scribbling.c"), &folder.path("program"));
    for seed in ["9", "10", "11", "12"] {
        let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program", seed]);
        assert_eq!(output.status.code(), Some(2), "seed {seed}: {}", complaint(&output));
        assert!(complaint(&output).contains("has taken away, or protected, the memory"), "{}", complaint(&output));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(1), "seed {seed}: {}", complaint(&checked));
    }
}

#[test]
fn a_program_that_forbids_itself_system_calls_ends_as_without_snag() {
    let folder = Folder::new("forbidding");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("forbidding.c"), &folder.path("program"));
    for (how, ends) in [("strict", true), ("filter", true), ("call", true), ("harmless", false), ("none", false)] {
        let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program", how]);
        assert_eq!(output.status.code(), Some(7), "{how}: {}", complaint(&output));
        assert_eq!(complaint(&output).contains("(seccomp)"), ends, "{how}: {}", complaint(&output));
        let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
        // What comes after it is there if it is recorded.
        assert_eq!(trace.len() > 100, !ends, "{how}: {} events", trace.len());
    }
}

#[test]
fn a_thread_that_leaves_by_a_system_call_keeps_nobody_waiting() {
    let folder = Folder::new("leaving");
    compile("gcc", &["-g", "-w", "-O1", "-fsanitize=thread"], &program("leaving.c"), &folder.path("program"));
    for how in ["call", "instruction", "first"] {
        let (status, said) =
            limited(&folder, &["record", "-o", "run.snag", "--", "./program", how], 1 << 30, Duration::from_secs(10));
        assert_eq!(status, Some(7), "{how}: {said}");
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(1), "{how}: {}", complaint(&checked));
    }
}

#[test]
fn a_program_that_cuts_its_own_library_off_ends_the_recording_with_a_word() {
    let folder = Folder::new("cutting");
    let flags = ["-g", "-w", "-O1", "-fsanitize=thread"];
    let library = [&flags[..], &["-shared", "-fPIC", "-DLIBRARY"]].concat();
    compile("gcc", &library, &program("cutting.c"), &folder.path("cut.so"));
    compile("gcc", &[&flags[..], &["-ldl"]].concat(), &program("cutting.c"), &folder.path("program"));
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    assert!(complaint(&output).contains("was cut off while snag was reading it"), "{}", complaint(&output));
    assert!(snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().is_ok());
    // The same in a replay of a run in which nothing was cut off.
    compile("gcc", &library, &program("cutting.c"), &folder.path("cut.so"));
    std::fs::write(folder.path("whole"), "").unwrap();
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    assert_eq!(output.status.code(), Some(7), "{}", complaint(&output));
    std::fs::remove_file(folder.path("whole")).unwrap();
    let output = snag(&folder, &["replay", "run.snag"]);
    assert_eq!(output.status.code(), Some(2), "{:?} {}", output.status, complaint(&output));
    assert!(complaint(&output).contains("a file was cut off while snag was reading it"), "{}", complaint(&output));
}

/// A file of another user, if this one can make one.
fn of_another_user(path: &std::path::Path) -> bool {
    std::fs::write(path, "theirs").unwrap();
    std::os::unix::fs::chown(path, Some(65534), None).is_ok()
}

#[test]
fn a_recording_goes_into_no_file_of_another_user() {
    let folder = Folder::new("theirs");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    if !of_another_user(&folder.path("theirs.snag")) {
        return eprintln!("skipped: only the superuser can give files away");
    }
    for arguments in [
        &["record", "-o", "theirs.snag", "--", "./program"][..],
        &["run", "--keep", "theirs.snag", "--", "./program"],
        &["convert", "mine.snag", "theirs.snag"],
        &["punch", "--random", "0.5", "mine.snag", "theirs.snag"],
    ] {
        snag(&folder, &["record", "-o", "mine.snag", "--", "./program"]);
        let output = snag(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", complaint(&output));
        let why = "theirs.snag: cannot create: the file that is there belongs to another user";
        assert!(complaint(&output).contains(why), "{arguments:?}: {}", complaint(&output));
        assert_eq!(std::fs::read(folder.path("theirs.snag")).unwrap(), b"theirs", "{arguments:?}");
    }
}

#[test]
fn every_trace_that_is_written_is_for_its_owner_alone() {
    let folder = Folder::new("private-traces");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    assert_eq!(snag(&folder, &["record", "-o", "run.snag", "--", "./program"]).status.code(), Some(0));
    std::fs::write(folder.path("old.stx"), "").unwrap();
    std::fs::set_permissions(folder.path("old.stx"), PermissionsExt::from_mode(0o666)).unwrap();
    let written: [(&[&str], &str); 6] = [
        (&["convert", "run.snag", "new.stx"], "new.stx"),
        (&["convert", "run.snag", "new.snag.zst"], "new.snag.zst"),
        (&["convert", "run.snag", "old.stx"], "old.stx"),
        (&["punch", "--random", "0.5", "run.snag", "holes.snag"], "holes.snag"),
        (&["generate", "-o", "made.std", "--events", "100"], "made.std"),
        (&["record", "-o", "again.snag", "--", "./program"], "again.snag"),
    ];
    for (arguments, name) in written {
        let output = snag(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", complaint(&output));
        assert_eq!(mode(&folder.path(name)), 0o600, "{arguments:?}");
    }
    // What is no file stays as it is, and is written to.
    let before = mode(std::path::Path::new("/dev/null"));
    for arguments in [
        &["convert", "--to", "text", "run.snag", "/dev/null"][..],
        &["record", "-o", "/dev/null", "--", "./program"],
        &["convert", "--to", "text", "run.snag", "/dev/stdout"],
    ] {
        let output = snag(&folder, arguments);
        let is_record = arguments[0] == "record";
        assert!(is_record || output.status.code() == Some(0), "{arguments:?}: {}", complaint(&output));
    }
    assert_eq!(mode(std::path::Path::new("/dev/null")), before);
    let pipe = std::ffi::CString::new(folder.path("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o644) }, 0);
    let path = folder.path("pipe");
    let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
    let output = snag(&folder, &["convert", "--to", "text", "run.snag", "pipe"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(reader.join().unwrap().starts_with(b"%snag"));
    assert_eq!(mode(&folder.path("pipe")), 0o644);
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_recording_is_for_its_owner_alone_and_a_report_for_whom_the_umask_says() {
    let folder = Folder::new("private");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    snag(&folder, &["record", "-o", "new.snag", "--", "./program"]);
    assert_eq!(mode(&folder.path("new.snag")), 0o600);
    std::fs::write(folder.path("old.snag"), "").unwrap();
    std::fs::set_permissions(folder.path("old.snag"), PermissionsExt::from_mode(0o666)).unwrap();
    snag(&folder, &["record", "-o", "old.snag", "--", "./program"]);
    assert_eq!(mode(&folder.path("old.snag")), 0o600);
    let output =
        snag(&folder, &["run", "--keep", "kept.snag", "--format", "json", "-o", "found.json", "--", "./program"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    assert_eq!(mode(&folder.path("kept.snag")), 0o600);
    assert_eq!(mode(&folder.path("found.json")) & 0o044, 0o666 & !umask() & 0o044);
}

fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(umask.trim(), 8).unwrap()
}

/// Runs snag with a folder of its own for temporary files; what is there meanwhile, and afterwards.
#[test]
fn the_recording_of_a_run_has_no_name_that_others_could_know_or_keep_it_by() {
    let folder = Folder::new("nameless");
    std::fs::create_dir(folder.path("temporary")).unwrap();
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("endless.c"), &folder.path("program"));
    let inside = || std::fs::read_dir(folder.path("temporary")).unwrap().count();
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_snag"))
            .args(["run", "--", "./program"])
            .current_dir(&folder.0)
            .env("TMPDIR", folder.path("temporary"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(inside(), 0);
        // SAFETY: plain system calls; the processes are ours.
        unsafe { libc::kill(-(child.id() as i32), signal) };
        std::thread::sleep(Duration::from_millis(100));
        // SAFETY: as above.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        child.wait().unwrap();
        assert_eq!(inside(), 0);
    }
}

#[test]
fn what_was_recorded_of_a_small_program_can_be_read_though_snag_was_killed() {
    let folder = Folder::new("small");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("waiting.c"), &folder.path("program"));
    for how in [&["--quantum", "10"][..], &["--free-running"]] {
        let _ = std::fs::remove_file(folder.path("run.snag"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_snag"))
            .args(["record", "-q", "-o", "run.snag"])
            .args(how)
            .args(["--", "./program"])
            .current_dir(&folder.0)
            .process_group(0)
            .spawn()
            .unwrap();
        let there = || snag_formats::open(&folder.path("run.snag"), None).is_ok_and(|file| file.read_all().is_ok());
        let started = Instant::now();
        while !there() {
            assert!(started.elapsed() < PATIENCE, "nothing is written");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(500));
        // SAFETY: a plain system call; the processes are ours.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        child.wait().unwrap();
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(1), "{how:?}: {}", complaint(&checked));
        assert!(text(&checked).contains("data race on shared"), "{how:?}: {}", text(&checked));
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_is_said_to_be() {
    let folder = Folder::new("full");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &example("bank_account.c"), &folder.path("program"));
    std::os::unix::fs::symlink("/dev/full", folder.path("full.snag")).unwrap();
    for arguments in
        [&["record", "-o", "full.snag", "--", "./program"][..], &["run", "--keep", "full.snag", "--", "./program"]]
    {
        let output = snag(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
        assert!(complaint(&output).contains("No space left on device"), "{}", complaint(&output));
        assert!(complaint(&output).contains("nothing was recorded"), "{}", complaint(&output));
    }
}

#[test]
fn a_program_without_events_has_no_races() {
    let folder = Folder::new("empty");
    std::fs::write(folder.path("empty.c"), "int main(void) { return 0; }\n").unwrap();
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &folder.path("empty.c"), &folder.path("program"));
    let output = snag(&folder, &["run", "--", "./program"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(text(&output).contains("no races"), "{}", text(&output));
    let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let output = snag(&folder, &["check", "run.snag"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
}

#[test]
fn what_cannot_be_recorded_is_told_apart() {
    let folder = Folder::new("unrecordable");
    let says = |name: &str, what: &str| {
        let output = snag(&folder, &["record", "-o", "run.snag", "--", &format!("./{name}")]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", complaint(&output));
        assert!(complaint(&output).contains(what), "{name}: {}", complaint(&output));
        assert!(!folder.path("run.snag").exists(), "{name}");
    };
    let executable = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path(name), bytes).unwrap();
        std::fs::set_permissions(folder.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    };
    std::fs::write(folder.path("empty.c"), "int main(void) { return 0; }\n").unwrap();
    let source = folder.path("empty.c");
    compile("gcc", &["-O1"], &source, &folder.path("plain"));
    says("plain", "it is not built with -fsanitize=thread");
    compile("gcc", &["-O1", "-s"], &source, &folder.path("stripped"));
    says("stripped", "or it is stripped");
    compile("gcc", &["-O1", "-static"], &source, &folder.path("static"));
    says("static", "it is linked statically,");
    compile("gcc", &["-O1", "-static", "-s"], &source, &folder.path("static-stripped"));
    says("static-stripped", "it is linked statically and stripped");
    executable("script", b"#!/bin/sh\nexit 0\n");
    says("script", "it is a script");
    executable("text", b"exit 0\n");
    says("text", "or some other text");
    let mut foreign = std::fs::read(folder.path("plain")).unwrap();
    // The number of AArch64.
    foreign[18..20].copy_from_slice(&[183, 0]);
    executable("foreign", &foreign);
    says("foreign", "it is a program for AArch64");
    foreign[4] = 1;
    foreign[18..20].copy_from_slice(&[40, 0]);
    executable("narrow", &foreign);
    says("narrow", "it is a 32-bit program for ARM");
    foreign[18..20].copy_from_slice(&[3, 0]);
    executable("narrow-native", &foreign);
    says("narrow-native", "it is a 32-bit program for x86;");
    // Only the superuser can give a file to somebody else.
    compile("gcc", &["-O1", "-fsanitize=thread"], &source, &folder.path("privileged"));
    if std::os::unix::fs::chown(folder.path("privileged"), Some(65534), Some(65534)).is_ok() {
        for (mode, what) in [(0o4755, "(setuid)"), (0o2755, "(setgid)")] {
            std::fs::set_permissions(folder.path("privileged"), PermissionsExt::from_mode(mode)).unwrap();
            says("privileged", what);
        }
    }
}
