//! The README and the guide show what the program prints, and name the commands that work.

use std::path::Path;
use std::process::{Command, Stdio};

/// A file of the repository.
fn file(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("a workspace")
}

/// The blocks between lines of three backticks, without these lines.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (line.starts_with("```"), &mut open) {
            (true, None) => open = Some(String::new()),
            (true, Some(_)) => blocks.extend(open.take()),
            (false, Some(block)) => *block += &format!("{line}\n"),
            (false, None) => {}
        }
    }
    assert_eq!(open, None, "a block is not closed");
    blocks
}

/// The text without blanks at line ends and with every time (`0.12 s`) made the same.
fn without_times(text: &str) -> String {
    let strip = |line: &str| match line.trim_end().rsplit_once(", ") {
        Some((head, time)) if time.ends_with(" s") => format!("{head}, TIME"),
        _ => line.trim_end().to_owned(),
    };
    text.lines().map(|line| strip(line) + "\n").collect()
}

/// What the program prints on both of its streams, and its exit status.
fn snag(arguments: &str) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_snag"))
        .args(arguments.split(' '))
        .current_dir(root())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let printed = [output.stderr, output.stdout].concat();
    (String::from_utf8(printed).expect("output is text"), output.status.code())
}

/// Addresses and columns depend on the compiler, times on the machine; everything else is as shown.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_first_command_of_the_readme_prints_what_the_readme_shows() {
    let blocks = blocks(&file("README.md"));
    assert_eq!(blocks[0], "examples/first_race.sh\n");
    let output = Command::new(root().join("examples/first_race.sh"))
        .env("SNAG", env!("CARGO_BIN_EXE_snag"))
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("output is text");
    assert_eq!(without_places(&blocks[1]), without_places(&printed));
}

/// The text without columns of places, marks under them, and addresses.
fn without_places(text: &str) -> String {
    let mut kept = String::new();
    for line in without_times(text).lines().filter(|line| !line.trim().starts_with("| ")) {
        let words = line.split_ascii_whitespace().map(|word| match word.split_once(".c:") {
            Some((file, place)) => format!("{file}.c:{}", place.split(':').next().unwrap_or_default()),
            None if word.starts_with("0x") => "ADDRESS".to_owned(),
            None => word.to_owned(),
        });
        // Where a paragraph breaks depends on the width of places.
        kept += &words.collect::<Vec<_>>().join(" ");
        kept.push(' ');
    }
    kept
}

#[test]
fn the_trace_of_the_readme_gives_what_the_readme_shows() {
    let blocks = blocks(&file("README.md"));
    let at = blocks.iter().position(|block| block.starts_with("cargo run --release -p snag -- ")).expect("a command");
    let arguments = blocks[at].trim().split_once(" -- ").expect("arguments").1;
    let (printed, status) = snag(arguments);
    assert_eq!(status, Some(1), "the example has a race");
    assert_eq!(without_times(&blocks[at + 1]), without_times(&printed));
}

/// Only commands that take nothing but the examples and write no file; `compare` prints speeds.
#[test]
fn the_guide_shows_what_the_program_prints() {
    let mut tried = 0;
    for block in blocks(&file("GUIDE.md")) {
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
            let elsewhere =
                ["|", ">", "/tmp/", " -o ", ".supp", ".snag", ".json", " compare ", " convert ", " generate "];
            let Some(arguments) = command.strip_prefix("snag ") else { continue };
            if elsewhere.iter().any(|word| command.contains(word)) {
                continue;
            }
            let printed = snag(arguments).0;
            assert_eq!(without_times(shown).trim_end(), without_times(&printed).trim_end(), "{command}");
            tried += 1;
        }
    }
    assert!(tried >= 5, "only {tried} commands were tried");
}

/// The commands of the guide that compile a C program and record it, in a folder of their own instead of /tmp.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_guide_records_what_it_shows() {
    let folder = std::env::temp_dir().join(format!("snag-guide-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let block = blocks(&file("GUIDE.md")).into_iter().find(|block| block.starts_with("$ gcc ")).expect("a block");
    for step in format!("\n{block}").split("\n$ ").skip(1) {
        let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
        let command = command.replace("/tmp/", &format!("{}/", folder.display()));
        let command = match command.strip_prefix("snag ") {
            Some(arguments) => format!("'{}' -q {arguments}", env!("CARGO_BIN_EXE_snag")),
            None => command,
        };
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &command]).current_dir(root()).env("LC_ALL", "C.UTF-8").env_remove("COLUMNS");
        let output = shell.stdin(Stdio::null()).output().expect("a shell");
        let printed = String::from_utf8(output.stdout).expect("output is text");
        // Without the summary of the engines: that says how long they took.
        let shown: String =
            shown.lines().filter(|line| !line.contains(" threads, ")).map(|l| format!("{l}\n")).collect();
        assert_eq!(without_places(&shown).trim_end(), without_places(&printed).trim_end(), "{command}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn the_second_command_of_the_readme_is_the_first_of_continuous_integration() {
    let command = blocks(&file("README.md"))[2].clone();
    assert_eq!(command, "cargo test --workspace\n");
    let script = file(".ci/run");
    assert_eq!(script.lines().find(|line| line.starts_with("cargo ")), Some(command.trim()));
}

#[test]
fn the_locations_of_the_bank_are_lines_of_its_source() {
    let source = file("examples/bank.c");
    let lines: Vec<&str> = source.lines().collect();
    for event in file("examples/bank.stx").lines().filter(|line| line.contains('|')) {
        let line: usize = event.rsplit_once("bank.c:").expect("a location").1.parse().expect("a line");
        let operation = event.split('|').nth(1).expect("an operation").split(['(', ')']).collect::<Vec<_>>();
        let word = match operation[0] {
            "acq" => "pthread_mutex_lock",
            "rel" => "pthread_mutex_unlock",
            "fork" => "pthread_create",
            "join" => "pthread_join",
            _ => operation[1],
        };
        assert!(lines[line - 1].contains(word), "{event}: {}", lines[line - 1]);
    }
}
