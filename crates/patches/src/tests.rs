//! The decisions about real programs, compared with what a disassembler says about them, and damaged files.
//!
//! The programs are the test programs of the command line, built for ThreadSanitizer by whatever compilers there are,
//! and for plain decoding the C library and this test itself. Without `objdump` or a compiler a test says what it
//! skipped.

use crate::code::Code;
use crate::image::Image;
use crate::traps::{is_rust, is_symboliser};
use crate::{Runtime, decide};
use snag_wire::patches::silent::TOUCHES;
use snag_wire::patches::{Call, Effect, Jump, List, Memory, Muted, Naming, Part, Silent, Site, Trap, WRITES};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An instruction as `objdump` shows it.
#[derive(Clone, Debug)]
struct Shown {
    bytes: Vec<u8>,
    text: String,
}

/// The instructions of a file by address; `None`, with a message, if there is no `objdump`.
fn disassemble(file: &Path) -> Option<BTreeMap<u64, Shown>> {
    let output = match Command::new("objdump").args(["-d", "-w"]).arg(file).output() {
        Ok(output) if output.status.success() => output,
        other => {
            eprintln!("skipped: no objdump: {other:?}");
            return None;
        }
    };
    let line = |line: &str| {
        let mut parts = line.split('\t');
        let address = u64::from_str_radix(parts.next()?.trim().strip_suffix(':')?, 16).ok()?;
        let bytes = parts.next()?.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
        let text = parts.next().unwrap_or("").split(" #").next().unwrap_or("").trim().to_owned();
        Some((address, Shown { bytes: bytes.collect::<Result<_, _>>().ok()?, text }))
    };
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(line).collect())
}

/// A folder that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("snag-patches-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds a test program of the command line; `None`, with a message, if that cannot be done here.
fn build(folder: &Folder, compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snag/tests/programs").join(source);
    let program = folder.0.join(format!("program-{compiler}-{}", flags.concat().replace(['/', '='], "-")));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&program).arg(&source).env("RUSTC_BOOTSTRAP", "1");
    match command.output() {
        Ok(output) if output.status.success() => Some(program),
        other => {
            eprintln!("skipped: {compiler} {flags:?} {}: {other:?}", source.display());
            None
        }
    }
}

const RUST: [&str; 7] = [
    "--edition=2024",
    "-g",
    "-Awarnings",
    "-Zsanitizer=thread",
    "-Cunsafe-allow-abi-mismatch=sanitizer",
    "--target=x86_64-unknown-linux-gnu",
    "-Cdebuginfo=1",
];

/// Programs that carry a runtime inside.
fn programs(folder: &Folder) -> Vec<PathBuf> {
    let rust = |source: &str, level: &str| build(folder, "rustc", source, &[&RUST[..], &[level]].concat());
    let c = |compiler: &str, flags: &[&str]| {
        build(folder, compiler, "every_primitive.c", &[&["-g", "-fsanitize=thread"], flags].concat())
    };
    let all = [
        rust("rust/locks.rs", "-Copt-level=0"),
        rust("rust/threads.rs", "-Copt-level=3"),
        c("clang", &["-O0"]),
        c("clang", &["-O2"]),
        c("clang", &["-O1", "-no-pie"]),
        c("gcc", &["-O2", "-static-libtsan"]),
    ];
    all.into_iter().flatten().collect()
}

/// A runtime that offers these functions, one behind the other.
fn runtime(names: &[&str]) -> Runtime {
    let functions = names.iter().enumerate().map(|(i, name)| (name.as_bytes().to_vec(), 16 * i as u64));
    Runtime { functions: functions.collect(), writes_that_read: Vec::new() }
}

fn words_of(program: &Path, runtime: &Runtime) -> Vec<u64> {
    let bytes = std::fs::read(program).unwrap();
    decide(&bytes[..], runtime, &|_| false).unwrap_or_else(|| panic!("{}: nothing to do", program.display()))
}

/// The functions of a list that have no callbacks, and whether each may touch what others see.
fn silent(words: &[u64]) -> BTreeMap<String, u64> {
    let list = List::new(words).unwrap();
    let names: Vec<u8> = list.part(Part::Names).iter().flat_map(|word| word.to_le_bytes()).collect();
    let name = |place: u64| {
        let name = names[place as usize..].split(|&byte| byte == 0).next().unwrap();
        // Copies that gcc makes have its name for them behind.
        String::from_utf8(name.split(|&byte| byte == b'.').next().unwrap().to_vec()).unwrap()
    };
    list.records::<Silent>(Part::Silent).iter().map(|silent| (name(silent.name), silent.flags)).collect()
}

#[test]
fn functions_count_that_have_no_callbacks_and_touch_what_others_see() {
    let folder = Folder::new("silent");
    let levels = [&["-O0"][..], &["-O1"], &["-O2"], &["-O3", "-no-pie"], &["-O0", "-no-pie"], &["-Os"]];
    for compiler in ["gcc", "clang"] {
        for level in levels {
            let flags = [&["-g", "-fsanitize=thread"], level].concat();
            let Some(program) = build(&folder, compiler, "silent.c", &flags) else { continue };
            let found = silent(&words_of(&program, &runtime(&OURS)));
            let touching = |name: &str| found.get(name).is_some_and(|flags| flags & TOUCHES != 0);
            for name in ["store", "load", "by_pointer"] {
                assert!(touching(name), "{compiler} {level:?}: {name} of {found:?}");
            }
            // Clang has callbacks for its frame, so the calls are seen that it makes.
            assert!(touching("through") || compiler == "clang" && touching("hide"), "{compiler} {level:?}: {found:?}");
            for name in ["twice", "word", "chosen", "digits", "work", "seen", "first", "second", "third", "main"] {
                assert!(!touching(name), "{compiler} {level:?}: {name} of {found:?}");
            }
        }
    }
}

#[test]
fn who_names_a_function_without_callbacks_does_so_where_the_disassembler_says() {
    let folder = Folder::new("sites");
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1")] {
        let Some(program) = build(&folder, compiler, "silent.c", &["-g", "-fsanitize=thread", level]) else { continue };
        let Some(shown) = disassemble(&program) else { return };
        let words = words_of(&program, &runtime(&OURS));
        let own = silent(&words);
        assert!(own.len() < 10, "{compiler} {level}: {own:?}");
        let list = List::new(&words).unwrap();
        let functions = list.records::<Silent>(Part::Silent);
        let all: BTreeMap<u64, Silent> = functions.iter().map(|silent| (silent.at, silent)).collect();
        let is_silent =
            |at: u64| all.range(..=at).next_back().is_some_and(|(_, silent)| at < silent.at + silent.length);
        let by_address = |(&at, shown): (&u64, &Shown)| {
            let target = shown.text.split_whitespace().nth(1).and_then(|text| u64::from_str_radix(text, 16).ok())?;
            let is_call = shown.text.starts_with("call") || shown.text.starts_with("jmp");
            let is_seen = is_call && all.contains_key(&target) && !is_silent(at);
            is_seen.then_some((at + shown.bytes.len() as u64 - 4, target))
        };
        let expected: BTreeSet<(u64, u64)> = shown.iter().filter_map(by_address).collect();
        let site = |site: Site| (site.at, functions.get(site.function as usize).unwrap().at);
        let sites: Vec<Site> = list.records::<Site>(Part::Sites).iter().collect();
        let calls = sites.iter().filter(|site| site.naming == Naming::Relative);
        let calls: BTreeSet<(u64, u64)> = calls.map(|&one| site(one)).collect();
        assert!(expected.len() >= 2, "{compiler} {level}: {expected:x?}");
        assert!(expected.is_subset(&calls), "{compiler} {level}: {expected:x?}, {calls:x?}");
        // The rest are addresses that are taken; the table of pointers has two.
        let taken = sites.iter().filter(|site| site.naming == Naming::Word).count();
        assert!(taken >= 1, "{compiler} {level}: {sites:x?}");
    }
}

#[test]
fn a_function_that_is_excluded_loses_its_callbacks_and_no_other_does() {
    let folder = Folder::new("excluded");
    for compiler in ["gcc", "clang"] {
        let flags = ["-g", "-fsanitize=thread", "-O0"];
        let Some(program) = build(&folder, compiler, "silent.c", &flags) else { continue };
        let bytes = std::fs::read(&program).unwrap();
        let words = decide(&bytes[..], &runtime(&OURS), &|name| name == b"work").unwrap();
        assert!(silent(&words).contains_key("work"), "{compiler}: {:?}", silent(&words));
        let Some(shown) = disassemble(&program) else { return };
        let image = Image::read(&bytes[..]).unwrap();
        let functions = image.functions();
        let work = functions.iter().find(|function| function.name == b"work").unwrap();
        let calls = |(_, shown): &(&u64, &Shown)| {
            let callbacks = ["__tsan_read", "__tsan_write", "__tsan_unaligned", "__tsan_func"];
            callbacks.iter().any(|callback| shown.text.contains(callback))
        };
        let inside = shown.range(work.address..work.address + work.size).filter(calls).map(|(&at, _)| at);
        let expected: Vec<u64> = inside.collect();
        let list = List::new(&words).unwrap();
        let muted: Vec<u64> = list.records::<Muted>(Part::Muted).iter().map(|muted| muted.at).collect();
        assert!(expected.len() >= 3, "{compiler}: {expected:x?}");
        assert_eq!(muted, expected, "{compiler}");
    }
}

const OURS: [&str; 4] = ["__tsan_init", "__tsan_write4", "pthread_mutex_lock", "malloc"];

/// The place in memory that an operand of `objdump` means.
fn shown_memory(text: &str) -> Option<Memory> {
    let open = text.find('(')?;
    let close = open + text[open..].find(')')?;
    let before = text[..open].rsplit([' ', ',', '*']).next()?;
    let displacement = match before.strip_prefix('-') {
        Some(number) => -i64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?,
        None if before.is_empty() => 0,
        None => i64::from_str_radix(before.strip_prefix("0x")?, 16).ok()?,
    };
    let names = [
        "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11", "%r12", "%r13",
        "%r14", "%r15",
    ];
    let number = |name: &str| names.iter().position(|other| *other == name).map(|number| number as u8);
    let parts: Vec<&str> = text[open + 1..close].split(',').collect();
    Some(Memory {
        base: number(parts[0]),
        index: parts.get(1).and_then(|name| number(name)).map(|index| {
            let scale: u8 = parts.get(2).map_or(1, |scale| scale.parse().unwrap());
            (index, scale.ilog2() as u8)
        }),
        displacement: displacement as i32,
        relative: (parts[0] == "%rip").then_some(0),
    })
}

/// Traps are where a disassembler sees the instruction that they stand for, with the same bytes, operands and effect.
#[test]
fn every_trap_is_an_instruction_that_a_disassembler_shows() {
    let folder = Folder::new("traps");
    for program in programs(&folder) {
        let Some(shown) = disassemble(&program) else { return };
        let words = words_of(&program, &runtime(&OURS));
        let list = List::new(&words).unwrap();
        let is_rust = program.to_string_lossy().contains("rustc");
        let traps = list.records::<Trap>(Part::Traps);
        assert_eq!(is_rust, traps.len() > 500, "{}: {} traps", program.display(), traps.len());
        let mut last = 0;
        for trap in traps.iter() {
            assert!(trap.at > last, "by address, each once");
            last = trap.at;
            let says = shown.get(&trap.at).unwrap_or_else(|| panic!("{:#x}: no instruction", trap.at));
            let context = format!("{:#x}: {}: {trap:?}", trap.at, says.text);
            assert_eq!(&trap.bytes[..trap.length as usize], &says.bytes[..], "{context}");
            let mut words = says.text.split_whitespace().filter(|word| !word.starts_with("cs") && *word != "data16");
            let first = words.next().unwrap();
            let fits = match trap.effect {
                Effect::Modify => first == "lock" || first.starts_with("xchg"),
                Effect::Compare => first == "lock" && words.next().unwrap().starts_with("cmpxchg"),
                Effect::Read => ["mov", "cmp", "test"].iter().any(|name| first.starts_with(name)),
                Effect::Write => first.starts_with("mov"),
            };
            assert!(fits, "{context}");
            // Where an instruction writes, memory is the last operand; where it only reads, the one that is there.
            let is_last = says.text.ends_with(')');
            match trap.effect {
                Effect::Write => assert!(is_last, "{context}"),
                Effect::Read if first.starts_with("mov") => assert!(!is_last, "{context}"),
                _ => {}
            }
            let mut expected = shown_memory(&says.text).unwrap_or_else(|| panic!("{context}"));
            if expected.relative.is_some() {
                // Where the displacement stands in the instruction: `objdump` shows its value alone.
                let place = trap.memory.relative.expect("relative") as usize;
                assert_eq!(&says.bytes[place..place + 4], &expected.displacement.to_le_bytes(), "{context}");
                expected.relative = trap.memory.relative;
            }
            assert_eq!(trap.memory, expected, "{context}");
            let size = says.text.split_whitespace().find_map(register_size).or_else(|| {
                let name = says.text.split_whitespace().find(|word| !["lock", "xacquire"].contains(word))?;
                Some(match name.chars().last()? {
                    'b' => 1,
                    'w' => 2,
                    'l' => 4,
                    _ => 8,
                })
            });
            if !first.starts_with("movz") && !first.starts_with("movs") {
                assert_eq!(Some(1 << trap.log), size, "{context}");
            }
        }
    }
}

/// The size of the first register among the operands that is no part of an address.
fn register_size(operands: &str) -> Option<u64> {
    let mut depth = 0;
    let plain: String = operands
        .chars()
        .filter(|&c| {
            depth += (c == '(') as i32 - (c == ')') as i32;
            depth == 0
        })
        .collect();
    let name = plain.split(',').find_map(|operand| operand.trim().strip_prefix('%'))?.to_owned();
    let numbered = name.strip_prefix('r').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(match (numbered, name.as_str()) {
        (Some(rest), _) => match rest.chars().last()? {
            'b' => 1,
            'w' => 2,
            'd' => 4,
            _ => 8,
        },
        (None, name) if name.ends_with('l') || name.ends_with('h') => 1,
        (None, name) if name.starts_with('r') => 8,
        (None, name) if name.starts_with('e') => 4,
        _ => 2,
    })
}

/// No atomic instruction of Rust's functions without callbacks is missed, and none of those with callbacks is taken.
#[test]
fn every_atomic_instruction_of_functions_without_callbacks_is_a_trap() {
    let folder = Folder::new("atomics");
    for program in programs(&folder).into_iter().filter(|program| program.to_string_lossy().contains("rustc")) {
        let Some(shown) = disassemble(&program) else { return };
        let bytes = std::fs::read(&program).unwrap();
        let image = Image::read(&bytes[..]).unwrap();
        let words = words_of(&program, &runtime(&OURS));
        let list = List::new(&words).unwrap();
        let traps: BTreeSet<u64> = list.records::<Trap>(Part::Traps).iter().map(|trap| trap.at).collect();
        let (mut seen, mut unseen) = (0, 0);
        for function in image.functions().iter().filter(|function| is_rust(function.name) && function.size > 0) {
            let code: Vec<(&u64, &Shown)> = shown.range(function.address..function.address + function.size).collect();
            let is_instrumented = code.iter().any(|(_, shown)| {
                shown.text.starts_with("call") && shown.text.contains("<__tsan_")
                    || shown.text.starts_with("jmp") && shown.text.contains("<__tsan_")
            });
            for (at, shown) in code {
                let names_memory = shown.text.contains('(') && !shown.text.contains("(%rsp");
                let is_atomic = shown.text.starts_with("lock ") || shown.text.starts_with("xchg ");
                let is_wide = shown.text.contains("cmpxchg16b") || shown.text.contains("cmpxchg8b");
                // `lock or` on the stack is a fence.
                if !is_atomic || !names_memory || is_wide || shown.text.contains("%fs:") {
                    continue;
                }
                if is_symboliser(function.name) {
                    assert!(!traps.contains(at), "{at:#x}: {}", shown.text);
                    continue;
                }
                seen += is_instrumented as u32;
                unseen += !is_instrumented as u32;
                assert_eq!(traps.contains(at), !is_instrumented, "{at:#x}: {}", shown.text);
            }
        }
        assert!(unseen > 100, "{seen} and {unseen}");
    }
}

/// The code that names the frames of a panic's backtrace has atomics, and no traps; the lock around it has some.
#[test]
fn the_symboliser_of_panics_has_no_traps() {
    let folder = Folder::new("symboliser");
    let Some(program) = build(&folder, "rustc", "rust/locks.rs", &RUST) else { return };
    let Some(shown) = disassemble(&program) else { return };
    let bytes = std::fs::read(&program).unwrap();
    let functions = Image::read(&bytes[..]).unwrap().functions();
    let words = words_of(&program, &runtime(&OURS));
    let traps: BTreeSet<u64> =
        List::new(&words).unwrap().records::<Trap>(Part::Traps).iter().map(|trap| trap.at).collect();
    let (mut spared, mut locks) = (0, 0);
    for function in functions.iter().filter(|function| is_rust(function.name)) {
        let code = function.address..function.address + function.size;
        let name = String::from_utf8_lossy(function.name);
        let trapped = traps.range(code.clone()).count();
        let module = ["12backtrace_rs", "4read5dwarf", "9addr2line4unit"].iter().any(|part| name.contains(part));
        if module && !name.ends_with("9addr2line4unit") {
            assert_eq!(trapped, 0, "{name}");
            spared += shown.range(code).filter(|(_, shown)| shown.text.starts_with("lock ")).count();
        } else if name.contains("3std3sys9backtrace") {
            locks += trapped;
        }
    }
    assert!(spared > 0 && locks > 0, "{spared} and {locks}");
}

/// A write that is recorded alone is a call of the callback that the list names.
#[test]
fn every_write_that_is_alone_is_a_call_of_its_callback() {
    let folder = Folder::new("writes");
    for program in programs(&folder) {
        let Some(shown) = disassemble(&program) else { return };
        let words = words_of(&program, &runtime(&OURS));
        let list = List::new(&words).unwrap();
        let calls = list.records::<Call>(Part::Writes);
        let is_llvm = !program.to_string_lossy().contains("gcc");
        assert_eq!(!calls.is_empty(), is_llvm, "{}", program.display());
        for call in calls.iter() {
            let says = &shown[&call.at];
            assert_eq!(says.bytes, call.bytes.to_le_bytes()[..5], "{:#x}: {}", call.at, says.text);
            let name = format!("<{}>", WRITES[call.write as usize].0);
            assert!(says.text.starts_with("call") && says.text.ends_with(&name), "{:#x}: {}", call.at, says.text);
        }
    }
}

/// Jumps replace whole functions of the runtime inside, each once, and go where the names say.
#[test]
fn callbacks_of_a_runtime_inside_become_jumps() {
    let folder = Folder::new("callbacks");
    for program in programs(&folder) {
        let bytes = std::fs::read(&program).unwrap();
        let image = Image::read(&bytes[..]).unwrap();
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for function in image.functions() {
            names.entry(function.address).or_default().push(String::from_utf8_lossy(function.name).into_owned());
        }
        let words = words_of(&program, &runtime(&OURS));
        let list = List::new(&words).unwrap();
        let ours: Vec<Jump> = list.records::<Jump>(Part::Callbacks).iter().collect();
        let goes = |function: &str, target: u64| {
            let jump = ours.iter().find(|jump| names[&jump.at].iter().any(|name| name == function));
            assert_eq!(jump.map(|jump| jump.target), Some(target), "{}: {function}", program.display());
        };
        goes("__tsan_init", 0);
        goes("__tsan_write4", 16);
        goes("__interceptor_pthread_mutex_lock", 32);
        goes("__interceptor_malloc", 48);
        goes("__tsan_read4", snag_wire::patches::NOTHING);
        let libraries: Vec<Jump> = list.records::<Jump>(Part::Libraries).iter().collect();
        let text: Vec<u8> = list.part(Part::Names).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut others = BTreeSet::new();
        for jump in &libraries {
            let name = text[jump.target as usize..].split(|&byte| byte == 0).next().unwrap();
            let name = String::from_utf8_lossy(name).into_owned();
            let is_called = |function: &String| {
                *function == name
                    || function.trim_start_matches('_') == format!("interceptor_{name}").trim_start_matches('_')
            };
            assert!(names[&jump.at].iter().any(is_called), "{name}: {:?}", names[&jump.at]);
            others.insert(name);
        }
        assert!(others.contains("pthread_create") && !others.contains("malloc"), "{others:?}");
        let mut starts: Vec<u64> = ours.iter().chain(&libraries).map(|jump| jump.at).collect();
        let count = starts.len();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), count, "each function once");
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 5), "no jump reaches into the next");
    }
}

/// The decoder and a disassembler agree where the instructions of large libraries and programs begin.
#[test]
fn instructions_begin_where_a_disassembler_sees_them_begin() {
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"].map(PathBuf::from);
    let files = libc.into_iter().find(|path| path.exists()).into_iter().chain(std::env::current_exe());
    for file in files {
        let Some(shown) = disassemble(&file) else { return };
        let bytes = std::fs::read(&file).unwrap();
        let image = Image::read(&bytes[..]).unwrap();
        let (mut functions, mut instructions) = (0, 0);
        for function in image.functions().into_iter().chain(image.dynamic_functions()) {
            let code: Vec<(&u64, &Shown)> = shown.range(function.address..function.address + function.size).collect();
            // Data among code, as in assembly.
            if code.iter().any(|(_, shown)| shown.text.contains("(bad)")) {
                continue;
            }
            let Some(found) = Code::of(&image, function.address, function.size) else { continue };
            assert!(found.is_whole, "{}", String::from_utf8_lossy(function.name));
            let starts: Vec<u64> = found.instructions.iter().map(|instruction| instruction.ip()).collect();
            assert!(
                starts.iter().eq(code.iter().map(|(at, _)| *at)),
                "{} in {}",
                String::from_utf8_lossy(function.name),
                file.display()
            );
            functions += 1;
            instructions += starts.len();
        }
        assert!(functions > 500 && instructions > 50_000, "{}: {functions}, {instructions}", file.display());
    }
}

/// A program that is damaged anywhere has a list or none; nothing panics.
#[test]
fn damaged_programs_make_no_trouble() {
    let folder = Folder::new("damaged");
    let Some(program) = build(&folder, "gcc", "posix.c", &["-g", "-fsanitize=thread", "-static-libtsan"]) else {
        return;
    };
    let bytes = std::fs::read(program).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    // Headers of the file and of sections, the dynamic section and relocations are most interesting.
    let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let ranges = [0..1024, sections..bytes.len(), 0..bytes.len()];
    for round in 0..150 {
        let mut damaged = bytes.clone();
        let range = ranges[round % 3].clone();
        for _ in 0..1 + random(20) {
            let at = range.start + random(range.len());
            damaged[at] = [0, 0xff, 0x80, random(256) as u8][random(4)];
        }
        if round % 10 == 0 {
            damaged.truncate(random(bytes.len()));
        }
        if let Some(words) = decide(&damaged[..], &runtime(&OURS), &|_| false) {
            let list = List::new(&words).unwrap();
            assert!(list.records::<Trap>(Part::Traps).iter().all(|trap| trap.length <= 15));
        }
    }
}
