//! Recordings of programs that do everything, block in unknown ways, race, and die.

use crate::support::*;
use snag_model::{Op, Trace, VarId, Variable};
use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub fn program(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Records a program under 200 schedules, with quanta from 1 to 10 000: each run ends, prints what it should, and is free of
/// races. Most of the time goes into waiting, so some runs go on at the same time.
fn two_hundred_runs(name: &str, flags: &[&str], says: &str) {
    const WORKERS: usize = 4;
    const QUANTA: [u64; 9] = [1, 2, 3, 5, 17, 60, 200, 1000, 10_000];
    let folder = Folder::new(name);
    let path = folder.path("program");
    let mut all = vec!["-g", "-w", "-fsanitize=thread"];
    all.extend(flags);
    compile("gcc", &all, &program(name), &path);
    let run = |folder: &Folder, seed: usize| {
        let (quantum, seed) = (QUANTA[seed % QUANTA.len()].to_string(), seed.to_string());
        let path = path.to_str().unwrap();
        let output = snag(folder, &["record", "-o", "run.snag", "--seed", &seed, "--quantum", &quantum, "--", path]);
        let what = || format!("{name}, seed {seed}: {}", complaint(&output));
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), says), "{}", what());
        let checked = snag(folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "{}{}", what(), text(&checked));
    };
    std::thread::scope(|scope| {
        for worker in 1..=WORKERS {
            let folder = Folder::new(&format!("{name}-{worker}"));
            let run = &run;
            scope.spawn(move || (worker..=200).step_by(WORKERS).for_each(|seed| run(&folder, seed)));
        }
    });
}

#[test]
fn two_hundred_schedules_of_every_primitive_end_and_are_free_of_races() {
    two_hundred_runs("every_primitive.c", &["-O1"], "4080 7 3 4 42\n");
}

#[test]
fn two_hundred_schedules_of_threads_that_sleep_and_spin_unseen_end() {
    two_hundred_runs("unknown_blocking.c", &["-O1"], "shared 3\n");
}

#[test]
fn two_hundred_schedules_of_threads_that_wait_by_hand_end() {
    two_hundred_runs("unknown_waiting.c", &["-O1"], "shared 4\n");
}

/// Found a release that was recorded too late, a guard that was read but never written, and a lock of the dynamic linker
/// that stopped everybody.
#[test]
fn initialisation_once_is_ordered_even_after_exceptions() {
    let folder = Folder::new("initialisation");
    compile("g++", &["-g", "-O1", "-fsanitize=thread"], &program("initialisation.cpp"), &folder.path("program"));
    for seed in 1..=100 {
        let (quantum, seed) = ((1 + seed % 7).to_string(), seed.to_string());
        let arguments = ["record", "-o", "run.snag", "--seed", &seed, "--quantum", &quantum, "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(text(&output), "3 2 42\n", "seed {seed}: {}", complaint(&output));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "seed {seed}: {}", text(&checked));
    }
}

/// Found destructors that raced with constructors of threads that nobody waited for, and mappings that raced with those
/// that were at the same addresses before.
#[test]
fn what_only_the_library_or_the_system_orders_is_no_race() {
    let folder = Folder::new("lifetimes");
    compile("g++", &["-g", "-O1", "-fsanitize=thread"], &program("lifetimes.cpp"), &folder.path("program"));
    for seed in 1..=4 {
        let seed = seed.to_string();
        let arguments = ["record", "-o", "run.snag", "--seed", &seed, "--quantum", "50", "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(text(&output), "done\n", "seed {seed}: {}", complaint(&output));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(0), "seed {seed}: {}", text(&checked));
    }
}

/// Found lengths that were taken before another thread got its turn, and contents that were taken after it.
#[test]
fn texts_are_recorded_as_the_string_functions_see_them() {
    let folder = Folder::new("texts");
    compile("gcc", &["-g", "-O0", "-fno-builtin", "-fsanitize=thread"], &program("texts.c"), &folder.path("program"));
    for seed in 1..=5 {
        let seed = seed.to_string();
        let arguments = ["record", "-o", "run.snag", "--seed", &seed, "--quantum", "2", "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "seed {seed}: {}", complaint(&output));
        let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
        // The reads of strlen: all bytes of a text but the last are letters, the last one is zero.
        let mut read = Vec::new();
        let mut texts = 0;
        for event in trace.events.iter() {
            let here = trace.tables.location_name(event.location).contains("texts.c:10");
            if !here || event.op != Op::Read {
                continue;
            }
            let Variable::Range { size, .. } = trace.tables.variable(VarId(event.target)) else { continue };
            let Some(value) = event.value else { continue };
            read.extend_from_slice(&value.to_le_bytes()[..size as usize]);
            if let Some(end) = read.iter().position(|&byte| byte == 0) {
                assert_eq!(end, read.len() - 1, "seed {seed}: {read:?}");
                texts += 1;
                read.clear();
            }
        }
        assert!(read.is_empty() && texts == 200, "seed {seed}: {texts} texts, {read:?}");
    }
}

/// What the trace says must be in memory, byte by byte.
#[derive(Default)]
pub struct Memory(HashMap<u64, u8>);

impl Memory {
    pub fn write(&mut self, address: u64, size: u64, value: Option<i64>) {
        for i in 0..size {
            match value.filter(|_| size <= 8) {
                Some(value) => self.0.insert(address + i, (value >> (8 * i)) as u8),
                None => self.0.remove(&(address + i)),
            };
        }
    }

    pub fn explains(&mut self, address: u64, size: u64, value: i64) -> bool {
        (0..size).all(|i| {
            let byte = (value >> (8 * i)) as u8;
            *self.0.entry(address + i).or_insert(byte) == byte
        })
    }
}

/// Every read finds what was last written, what was there at first, or something that the trace says was written by code that
/// is not instrumented: in the event after it, or for an update before it. How often it says so.
pub fn explained(trace: &snag_model::Trace) -> usize {
    let mut memory = Memory::default();
    let mut told = 0;
    let says = |index: usize, thread| {
        let there = index < trace.len() && trace.events.ops()[index] == Op::MethodBegin;
        there && trace.events.threads()[index] == thread
    };
    for (index, event) in trace.events.iter().enumerate() {
        if !event.op.touches_memory() {
            continue;
        }
        let Variable::Range { address, size } = trace.tables.variable(VarId(event.target)) else { continue };
        if matches!(event.op, Op::Alloc | Op::Free) {
            memory.write(address, size, None);
            continue;
        }
        // Longer ones are recorded without their contents.
        if let Some(value) = event.value.filter(|_| event.op.reads() && size <= 8)
            && !memory.explains(address, size, value)
        {
            let told_before = event.op == Op::Rmw && index >= 2 && says(index - 2, event.thread);
            assert!(told_before || says(index + 1, event.thread), "event {index} reads what nobody wrote");
            memory.write(address, size, Some(value));
            told += 1;
        }
        if event.op.writes() {
            memory.write(address, size, event.value_written());
        }
    }
    told
}

#[test]
fn what_code_that_is_not_instrumented_writes_is_told_and_gives_no_false_races() {
    let folder = Folder::new("foreign");
    for (compiler, flags) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1")] {
        if !have(compiler) {
            continue;
        }
        compile(compiler, &["-g", "-w", flags, "-fsanitize=thread"], &program("foreign.c"), &folder.path("program"));
        for looks in [
            &["-v", "record", "-o", "run.snag", "--quantum", "10000", "--", "./program"][..],
            &["-v", "record", "-o", "run.snag", "--quantum", "10000", "--", "./program", "looks"],
        ] {
            let output = snag(&folder, looks);
            assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), "6\n"), "{}", complaint(&output));
            assert!(
                complaint(&output).contains("reads found that code that is not instrumented had changed memory of")
            );
            let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
            assert!(explained(&trace) >= 1, "{compiler} {flags} {looks:?}");
            let checked = snag(&folder, &["check", "run.snag"]);
            assert_eq!(checked.status.code(), Some(0), "{compiler} {flags} {looks:?}: {}", text(&checked));
        }
    }
}

#[test]
fn every_read_of_every_program_is_explained() {
    let folder = Folder::new("explained");
    for (compiler, name) in [
        ("gcc", "every_primitive.c"),
        ("gcc", "posix.c"),
        ("gcc", "texts.c"),
        ("gcc", "members.c"),
        ("g++", "lifetimes.cpp"),
        ("g++", "initialisation.cpp"),
    ] {
        compile(compiler, &["-g", "-w", "-O1", "-fsanitize=thread"], &program(name), &folder.path("program"));
        let arguments = ["record", "-o", "run.snag", "--seed", "3", "--quantum", "20", "--", "./program"];
        let output = snag(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", complaint(&output));
        let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
        explained(&trace);
    }
}

#[test]
fn every_value_of_a_racy_program_is_right() {
    let folder = Folder::new("values");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("racy_values.c"), &folder.path("program"));
    let arguments = ["record", "-o", "run.snag", "--quantum", "7", "--seed", "5", "--", "./program", "notes"];
    let output = snag(&folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let (trace, _) = snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap();
    let notes = std::fs::read(folder.path("notes")).unwrap();
    let notes: Vec<i64> = notes.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let each = notes.len() / 4;
    let mut next = [0; 4];
    let (mut reads, mut accesses) = (0, 0);
    let mut memory = Memory::default();
    for event in trace.events.iter() {
        if !event.op.touches_memory() {
            continue;
        }
        let Variable::Range { address, size } = trace.tables.variable(VarId(event.target)) else { continue };
        if event.op == Op::Free {
            memory.write(address, size, None);
            continue;
        }
        accesses += 1;
        if event.op == Op::Read
            && let Some(value) = event.value
        {
            let name = trace.tables.thread_name(event.thread);
            assert!(memory.explains(address, size, value), "a read of {address:#x} by {name} sees what nobody wrote");
            let worker = name.strip_prefix('T').map(|number| number.parse::<usize>().unwrap() - 1);
            // Only the shared variables of the workers; their notes are in the order of their reads.
            if let Some(worker) = worker
                && next[worker] < each
                && is_shared(address)
            {
                let noted = notes[worker * each + next[worker]];
                let mask = if size == 8 { -1 } else { (1 << (8 * size)) - 1 };
                assert_eq!(noted & mask, value & mask, "value {} of {name}", next[worker]);
                next[worker] += 1;
                reads += 1;
            }
        }
        if event.op.writes() {
            memory.write(address, size, event.value_written());
        }
    }
    assert_eq!(next, [each; 4], "every read is in the trace");
    assert!(accesses >= 4_000_000 && reads == 2_000_000, "{accesses} {reads}");
}

/// Position-independent programs are loaded here when addresses are not random; stacks and heaps are far away.
pub fn is_shared(address: u64) -> bool {
    (0x5555_5555_4000..0x5555_5556_0000).contains(&address)
}

/// A recorder of a program that works until it is killed, in a group of processes of its own.
fn record_endless(folder: &Folder, how: &[&str]) -> std::process::Child {
    let _ = std::fs::remove_file(folder.path("run.snag"));
    Command::new(env!("CARGO_BIN_EXE_snag"))
        .args(["record", "-q", "-o", "run.snag"])
        .args(how)
        .args(["--", "./program"])
        .current_dir(&folder.0)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn kill(process: i32) {
    // SAFETY: a plain system call; the processes are ours.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0, "process {process}");
}

/// Records until there is something to read and a while longer; then, by turns, both are killed, the program, or the recorder.
pub fn record_and_kill(folder: &Folder, how: &[&str], round: usize, later: Duration) {
    let trace = folder.path("run.snag");
    let mut recorder = record_endless(folder, how);
    let there = || snag_formats::open(&trace, None).is_ok_and(|file| file.read_all().is_ok());
    let started = Instant::now();
    while !there() {
        assert!(started.elapsed() < PATIENCE, "round {round}: nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(later);
    let started = program_of(recorder.id());
    match round % 3 {
        0 => kill(-(recorder.id() as i32)),
        1 => kill(started),
        _ => kill(recorder.id() as i32),
    }
    recorder.wait().unwrap();
    if round % 3 == 2 {
        // It runs on unrecorded.
        kill(started);
    }
}

/// Of fifty recordings the program, the recorder or both are killed at random moments after the first block. What there is of
/// each is read and checked from its first event to its last, and has the program's race.
#[test]
fn a_recording_that_is_killed_at_any_moment_is_analysed_up_to_there() {
    let folder = Folder::new("killed");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("endless.c"), &folder.path("program"));
    let mut random = snag_synthesis::Rng::new(11);
    for round in 0..50 {
        record_and_kill(&folder, &[], round, Duration::from_micros(random.below(60_000) as u64));
        let stats = snag(&folder, &["stats", "run.snag"]);
        assert_eq!(stats.status.code(), Some(0), "round {round}: {}", complaint(&stats));
        let checked = snag(&folder, &["check", "run.snag"]);
        assert_eq!(checked.status.code(), Some(1), "round {round}: {}", complaint(&checked));
        assert!(text(&checked).contains("data race on counters"), "round {round}: {}", text(&checked));
        let cut_off = complaint(&checked).contains("the recording is cut off after event");
        assert_eq!(cut_off, round % 3 != 1, "round {round}: {}", complaint(&checked));
    }
}

/// Before the first block there may be nothing to read, and that is said.
#[test]
fn a_recording_that_is_killed_at_its_start_is_readable_or_said_to_be_empty() {
    let folder = Folder::new("killed-early");
    compile("gcc", &["-g", "-O1", "-fsanitize=thread"], &program("endless.c"), &folder.path("program"));
    for round in 0..10 {
        let mut recorder = record_endless(&folder, &[]);
        std::thread::sleep(Duration::from_millis(3 * round));
        kill(-(recorder.id() as i32));
        recorder.wait().unwrap();
        if !folder.path("run.snag").exists() {
            continue;
        }
        let checked = snag(&folder, &["check", "run.snag"]);
        let said = complaint(&checked);
        match checked.status.code() {
            Some(1) => assert!(said.contains("the recording is cut off after event"), "round {round}: {said}"),
            Some(2) => assert!(said.contains("a trace has at least one event"), "round {round}: {said}"),
            other => panic!("round {round}: {other:?} {said}"),
        }
    }
}

/// The process that a recorder started.
fn program_of(recorder: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children")).unwrap();
    children.split_ascii_whitespace().next().expect("it has started the program").parse().unwrap()
}

/// What each byte or word of memory that is not of a stack went through: reads or writes, size, and value.
fn histories(trace: &Trace) -> HashMap<u64, Vec<(Op, u64, Option<i64>)>> {
    let mut all: HashMap<u64, Vec<_>> = HashMap::new();
    for event in trace.events.iter().filter(|event| matches!(event.op, Op::Read | Op::Write)) {
        const STACKS: u64 = 0x7fff_ff00_0000;
        if let Variable::Range { address, size } = trace.tables.variable(VarId(event.target))
            && address < STACKS
        {
            all.entry(address).or_default().push((event.op, size, event.value));
        }
    }
    all
}

#[test]
fn reads_that_clang_leaves_out_are_found() {
    if !have("clang") {
        return;
    }
    let folder = Folder::new("left-out");
    let source = program("left_out.c");
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let traces = [true, false].map(|all| {
            let flags = ["-g", "-w", level, "-fsanitize=thread", "-mllvm", "-tsan-instrument-read-before-write=1"];
            let count = if all { flags.len() } else { 4 };
            let mark = if all { "-Wl,--defsym=__snag_all_reads=0" } else { "-Wl,--defsym=nothing_is_said=0" };
            let flags = [&flags[..count], &[mark]].concat();
            compile("clang", &flags, &source, &folder.path("program"));
            let output = snag(&folder, &["record", "-o", "run.snag", "--", "./program"]);
            assert!(output.status.success(), "{}", complaint(&output));
            snag_formats::open(&folder.path("run.snag"), None).unwrap().read_all().unwrap().0
        });
        let [told, found] = traces.each_ref().map(histories);
        for (address, told) in &told {
            let mut found = found[address].iter();
            let is_there = told.iter().all(|one| found.any(|other| one == other));
            assert!(is_there, "{level}: {address:#x} {told:?} {:?}", traces[1].len());
        }
        // And few that are not there, though there is hardly a line without one that may be.
        let reads = traces.each_ref().map(|trace| trace.events.ops().iter().filter(|op| **op == Op::Read).count());
        assert!(reads[1] <= reads[0] + reads[0] / 7, "{level}: {reads:?}");
    }
}
