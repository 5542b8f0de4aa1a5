//! `docs/library-calls.md` has all rows of the table, word for word, and says why others have none.
//!
//! `SNAG_UPDATE_DOCS=1 cargo test -p snag-runtime --test table` writes the generated part anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources with rows, in the order of the page.
const SOURCES: [&str; 16] = [
    "ranges.rs",
    "library/words.rs",
    "library/wide.rs",
    "library/encodings.rs",
    "library/numbers.rs",
    "library/printing.rs",
    "library/scanning.rs",
    "streams.rs",
    "library/time.rs",
    "library/paths.rs",
    "library/structures.rs",
    "library/attributes.rs",
    "library/names.rs",
    "library/users.rs",
    "library/sorting.rs",
    "library/fortified.rs",
];

/// In these, calls do more than touch memory; only what they touch is on the page.
const OTHERS: [&str; 2] = ["calls.rs", "descriptors.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source without its comments, and the words of its first comment.
fn source(name: &str) -> (String, String) {
    let path = root().join("crates/runtime/src/interpose").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let title: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//! ")).collect();
    let title = title.join(" ").split(". ").next().unwrap().trim_end_matches('.').to_owned();
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
    (title, code.join("\n"))
}

/// The parts of a text between separators that are in no bracket.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        depth += "([{".contains(letter) as i32;
        depth -= ")]}".contains(letter) as i32;
        if letter == separator && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(letter);
        }
    }
    parts.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The statements of every use of a macro: its name, and what stands between the semicolons.
fn uses(code: &str) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("! {") {
        let name: String = rest[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
        let (mut depth, mut end) = (0, at + 2);
        for (offset, letter) in rest[at + 2..].char_indices() {
            depth += "([{".contains(letter) as i32;
            depth -= ")]}".contains(letter) as i32;
            end = at + 2 + offset;
            if depth == 0 {
                break;
            }
        }
        let statements: Vec<String> = split(&rest[at + 3..end], ';').into_iter().filter(|s| !s.is_empty()).collect();
        // What stands in the definition of another macro is no use of it.
        if !name.is_empty() && !statements.iter().any(|statement| statement.contains('$')) {
            all.push((name, statements));
        }
        rest = &rest[end..];
    }
    all
}

/// A row: the function with its arguments, what is noted before the call, and after it.
struct Row {
    name: String,
    arguments: String,
    before: String,
    after: String,
}

/// `name "register" (arguments) -> result`
fn signature(text: &str) -> Option<(String, String)> {
    let (name, rest) = text.split_once(' ')?;
    let (_, rest) = rest.split_once('(')?;
    let (arguments, _) = rest.split_once(')')?;
    let names: Vec<&str> = arguments.split(',').filter_map(|one| one.split(':').next()).map(str::trim).collect();
    Some((name.to_owned(), names.join(", ")))
}

/// Code as the page shows it.
fn shown(code: &str) -> String {
    let code = match code.strip_prefix('|') {
        Some(rest) => rest.split_once('|').unwrap().1.trim(),
        None => code,
    };
    let inner = code.strip_prefix('{').and_then(|code| code.strip_suffix('}')).unwrap_or(code).trim();
    match inner {
        "()" | "" => String::new(),
        inner => format!("`{}`", inner.replace("as usize", "").replace(" ,", ",").replace(" )", ")").replace('|', "¦")),
    }
}

fn rows(name: &str, statements: &[String]) -> Vec<Row> {
    let first = statements.iter().position(|statement| signature(statement).is_some()).unwrap_or(statements.len());
    let statements = &statements[first..];
    let row = |signed: &str, before: &str, after: &str| {
        let (name, arguments) = signature(signed).unwrap_or_else(|| panic!("no row: {signed}"));
        Row { name, arguments, before: shown(before), after: shown(after) }
    };
    match name {
        "library" | "kernel" | "calls_out" | "calls" => {
            statements.chunks(3).map(|parts| row(&parts[0], &parts[1], &parts[2])).collect()
        }
        "write" => statements.chunks(3).map(|parts| row(&parts[0], &parts[2], "")).collect(),
        "make" => {
            let parts = statements.iter().map(|statement| statement.split_once(" |").unwrap());
            parts.map(|(signed, then)| row(signed, "", &format!("|{then}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// The names of functions whose rows say less than the code.
fn names(name: &str, statements: &[String]) -> Vec<String> {
    let word = |text: &str| text.split_whitespace().next().unwrap().trim_end_matches(',').to_owned();
    match name {
        "stubs" => statements
            .iter()
            .filter(|statement| statement.contains('"') && !statement.starts_with('$'))
            .map(|statement| word(statement.split("=>").last().unwrap()))
            .collect(),
        "printf" | "scanf" => {
            let both = statements.iter().filter(|statement| statement.contains('"') || statement.contains(" stack,"));
            both.flat_map(|statement| {
                let (list, rest) = statement.split_once(", ").unwrap();
                [word(list), word(rest)]
            })
            .collect()
        }
        "of_attributes" | "write_only" | "within" => statements.iter().map(|statement| word(statement)).collect(),
        _ => Vec::new(),
    }
}

/// A paragraph in lines that are not too long.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if lines.last().unwrap().len() + word.len() >= 118 {
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        line.push_str(if line.is_empty() { "" } else { " " });
        line.push_str(word);
    }
    lines.join("\n")
}

/// The generated part of the page.
fn page() -> String {
    let mut page = String::new();
    for (number, file) in SOURCES.iter().chain(&OTHERS).enumerate() {
        let (title, code) = source(file);
        let (mut table, mut others) = (String::new(), Vec::new());
        for (name, statements) in uses(&code) {
            for Row { name, arguments, before, after } in rows(&name, &statements) {
                writeln!(table, "| `{name}({arguments})` | {before} | {after} |").unwrap();
            }
            others.extend(names(&name, &statements));
        }
        let title = if number < SOURCES.len() { title } else { format!("Others: {}", title.to_lowercase()) };
        write!(page, "\n### {}\n\nIn `{file}`.\n", title.replace(['[', ']'], "")).unwrap();
        if !others.is_empty() && number < SOURCES.len() {
            others.retain(|name| name != "$name");
            let list: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
            write!(page, "\n{}\n", wrapped(&format!("Written out by hand: {}.", list.join(", ")))).unwrap();
        }
        if !table.is_empty() {
            write!(page, "\n| call | reads, may fill | has written |\n|---|---|---|\n{table}").unwrap();
        }
    }
    page
}

const START: &str = "<!-- generated: see crates/runtime/tests/table.rs -->\n";

fn documented() -> String {
    std::fs::read_to_string(root().join("docs/library-calls.md")).unwrap()
}

#[test]
fn the_page_of_library_calls_has_every_row() {
    let text = documented();
    let (before, after) = text.split_once(START).unwrap();
    let page = page();
    if std::env::var_os("SNAG_UPDATE_DOCS").is_some() {
        std::fs::write(root().join("docs/library-calls.md"), format!("{before}{START}{page}")).unwrap();
        return;
    }
    for (line, wanted) in after.lines().zip(page.lines()) {
        assert_eq!(line, wanted, "docs/library-calls.md is old: SNAG_UPDATE_DOCS=1 brings it up to date");
    }
    assert_eq!(after.lines().count(), page.lines().count(), "docs/library-calls.md is old");
}

/// The functions that a shared library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.split('@').next()?.to_owned())).collect()
}

#[test]
fn every_interceptor_of_thread_sanitizer_has_a_counterpart_or_a_reason() {
    let found = Command::new("gcc").arg("-print-file-name=libtsan.so").output();
    let Some(theirs) = found.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        return eprintln!("skipped: there is no gcc on this machine");
    };
    if !Path::new(&theirs).is_absolute() || Command::new("nm").arg("--version").output().is_err() {
        return eprintln!("skipped: gcc has no runtime of ThreadSanitizer here, or there is no nm");
    }
    let ours = std::env::temp_dir().join(format!("snag-table-{}.so", std::process::id()));
    std::fs::write(&ours, snag_runtime::LIBRARY).unwrap();
    let exported_by_us = exported(&ours);
    std::fs::remove_file(&ours).unwrap();
    let text = documented();
    let (reasons, _) = text.split_once(START).unwrap();
    let reasons: BTreeSet<&str> = reasons.split('`').skip(1).step_by(2).collect();
    let missing: Vec<String> = exported(Path::new(&theirs))
        .iter()
        .filter_map(|name| name.strip_prefix("__interceptor_"))
        .filter(|name| !exported_by_us.contains(*name) && !reasons.contains(name))
        .map(str::to_owned)
        .collect();
    assert_eq!(missing, [""; 0], "neither interposed nor explained in docs/library-calls.md");
}
