//! Which files a report quotes: a recording may name any.

use crate::blocks::{put_together, settle, take_apart};
use crate::running::{Folder, Ran, snag};
use crate::seeds::recorded_from;
use std::path::{Path, PathBuf};

const SECRET: &str = "TOP-SECRET";
const SOURCE: &str = "counter++";

/// A recording with the whole path of its source, which is long enough for any other.
struct Case {
    outer: Folder,
    elsewhere: Folder,
    source: PathBuf,
    recording: Vec<u8>,
}

impl Case {
    fn new(name: &str) -> Option<Case> {
        let (outer, elsewhere) = (Folder::new(name), Folder::new(&format!("{name}-elsewhere")));
        let deep = Folder(outer.path("a-folder-whose-name-is-long-enough-for-every-other-path/and-one-more"));
        std::fs::create_dir_all(&deep.0).unwrap();
        let recording = recorded_from(&deep, &elsewhere.0, &[], "victim.snag");
        let source = deep.path("victim.c");
        // The outer folder is removed with all that is in it.
        std::mem::forget(deep);
        Some(Case { outer, elsewhere, source, recording: std::fs::read(recording?).unwrap() })
    }

    /// The recording with another source file.
    fn with_source(&self, path: &Path) -> PathBuf {
        let (from, to) = (self.source.to_str().unwrap(), path.to_str().unwrap());
        let to = "/".repeat(from.len() - to.len()) + to;
        let mut blocks = take_apart(&self.recording);
        for block in &mut blocks {
            for at in (0..block.payload.len().saturating_sub(from.len() - 1)).rev() {
                if block.payload[at..].starts_with(from.as_bytes()) {
                    block.payload[at..at + from.len()].copy_from_slice(to.as_bytes());
                }
            }
        }
        settle(&mut blocks);
        self.outer.file("changed.snag", put_together(&blocks, true))
    }

    /// What all forms of the report show, run in a folder.
    fn reports(&self, here: &Path, recording: &Path, options: &[&str]) -> String {
        let forms = ["text", "html", "json", "sarif"].map(|form| {
            let mut arguments = vec!["check", "--format", form, recording.to_str().unwrap()];
            arguments.extend(options);
            let Ran { stdout, .. } = snag(here, &arguments).expect(1);
            stdout
        });
        forms.concat()
    }
}

#[test]
fn a_file_that_is_no_source_of_the_program_is_not_quoted() {
    let Some(case) = Case::new("secret") else { return };
    let secret = case.outer.file("secret.txt", format!("{SECRET}\n").repeat(100));
    let changed = case.with_source(&secret);
    for here in [&case.elsewhere.0, &case.outer.0, Path::new("/")] {
        let shown = case.reports(here, &changed, &[]);
        assert!(!shown.contains(SECRET) && shown.contains("secret.txt:"), "the place alone, in {}", here.display());
    }
    // Neither by way of a link below the working directory.
    std::os::unix::fs::symlink(&secret, case.elsewhere.path("link.c")).unwrap();
    let by_link = case.with_source(&case.elsewhere.path("link.c"));
    assert!(!case.reports(&case.elsewhere.0, &by_link, &[]).contains(SECRET));
    // Unless the user says so.
    let root = case.outer.0.to_str().unwrap();
    assert!(case.reports(&case.elsewhere.0, &changed, &["--source-root", root]).contains(SECRET));
}

#[test]
fn devices_and_pipes_are_no_sources() {
    let Some(case) = Case::new("devices") else { return };
    let pipe = case.outer.path("pipe.c");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for path in [Path::new("/dev/zero"), &pipe] {
        let changed = case.with_source(path);
        for options in [&[][..], &["--source-root", "/"]] {
            let shown = case.reports(&case.outer.0, &changed, options);
            assert!(shown.contains("R1") && !shown.contains(SOURCE), "{}", path.display());
        }
    }
    // So is a file that is too long.
    let long = case.outer.file("long.c", format!("{SECRET}\n").repeat(2 << 20));
    assert!(!case.reports(&case.outer.0, &case.with_source(&long), &[]).contains(SECRET));
}

#[test]
fn sources_are_quoted_below_the_working_directory_and_roots_and_of_the_program_that_is_here() {
    let Some(case) = Case::new("quoted") else { return };
    let recording = case.outer.file("victim.snag", &case.recording);
    let program = case.source.with_file_name("victim");
    let root = case.outer.0.to_str().unwrap();
    // The program is here as it was recorded, and says what it was compiled from.
    assert!(case.reports(&case.elsewhere.0, &recording, &[]).contains(SOURCE));
    // It is another one now.
    let mut bytes = std::fs::read(&program).unwrap();
    bytes.push(0);
    std::fs::write(&program, bytes).unwrap();
    assert!(!case.reports(&case.elsewhere.0, &recording, &[]).contains(SOURCE));
    assert!(case.reports(&case.outer.0, &recording, &[]).contains(SOURCE));
    assert!(
        case.reports(&case.elsewhere.0, &recording, &["--source-root", "/usr", "--source-root", root]).contains(SOURCE)
    );
    let arguments = ["check", "--source-root", "/nowhere", recording.to_str().unwrap()];
    let Ran { stderr, .. } = snag(&case.outer.0, &arguments).expect(2);
    assert!(stderr.contains("--source-root /nowhere"), "{stderr}");
}

#[test]
fn a_program_that_is_no_file_is_not_read() {
    let Some(case) = Case::new("program") else { return };
    let program = case.source.with_file_name("victim");
    let name = program.to_str().unwrap();
    let zero = "/".repeat(name.len() - 9) + "/dev/zero";
    let mut blocks = take_apart(&case.recording);
    let about = blocks.iter_mut().find(|block| block.kind == crate::blocks::EXTRA && block.payload[0] == 4).unwrap();
    let text = String::from_utf8(about.payload.clone()).unwrap();
    assert!(text.contains(&format!("program={name}")));
    about.payload = text.replace(&format!("program={name}"), &format!("program={zero}")).into_bytes();
    settle(&mut blocks);
    let changed = case.outer.file("changed.snag", put_together(&blocks, true));
    let shown = case.reports(&case.elsewhere.0, &changed, &[]);
    assert!(shown.contains("R1") && !shown.contains(SOURCE));
}
