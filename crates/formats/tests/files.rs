//! Files are recognised by their bytes, written by their names, and appear only when they are complete.

mod common;

use common::{EVERY_EVENT, read_as, write_as};
use snag_formats::open::Format;
use snag_formats::*;
use snag_model::*;
use std::fs;
use std::path::{Path, PathBuf};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("snag-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn entries(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, format: Option<Format>, trace: &Trace) -> Result<()> {
    let mut writer = create(path, format, WriteOptions::default())?;
    writer.write(&trace.events, &trace.tables)?;
    writer.finish(&trace.tables)
}

fn read(path: &Path, format: Option<Format>) -> Result<Trace> {
    Ok(open(path, format)?.as_written().read_all()?.0)
}

#[test]
fn every_format_in_every_compression_is_written_by_name_and_read_by_content() {
    let directory = Directory::new("files");
    let everything = read_as(Format::Text, EVERY_EVENT.as_bytes()).unwrap();
    let plain = read_as(Format::Std, b"T0|fork(T1)|a\nT1|w(x)|b\nT0|r(x)|c\n").unwrap();
    for (format, trace) in [(Format::Std, &plain), (Format::Text, &everything), (Format::Snag, &everything)] {
        for compression in ["", ".gz", ".zst", ".lz4"] {
            let name = format!("trace.{}{compression}", format.extension());
            let path = directory.0.join(&name);
            assert_eq!(Format::by_extension(&path), Some(format));
            write(&path, None, trace).unwrap();
            assert_eq!(read(&path, None).unwrap(), *trace, "{name}");
            assert_eq!(read(&path, Some(format)).unwrap(), *trace, "{name}");
            // The name says nothing to the reader.
            let other = directory.0.join("other.std.zst");
            fs::copy(&path, &other).unwrap();
            assert_eq!(read(&other, None).unwrap(), *trace, "{name}");
            fs::remove_file(other).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(compression.is_empty(), compression::Compression::of_bytes(&bytes) == Ok(None));
        }
    }
    assert_eq!(directory.entries().len(), 12);
    assert!(directory.entries().iter().all(|name| name.starts_with("trace.")));
    for format in Format::ALL {
        assert_eq!(Format::by_name(format.name()), Some(format));
    }
    assert_eq!(Format::by_name("csv"), None);
    for name in ["x", "x.txt", "x.gz", "x.txt.gz", "std", ".snag"] {
        assert_eq!(Format::by_extension(Path::new(name)), None, "{name}");
    }
}

#[test]
fn an_unfinished_file_leaves_nothing_and_an_old_one_untouched() {
    let directory = Directory::new("unfinished");
    let trace = read_as(Format::Std, b"T0|w(x)|a\n").unwrap();
    for name in ["a.std", "a.stx.gz", "a.snag", "a.snag.zst", "a.snag.lz4"] {
        let path = directory.0.join(name);
        let mut writer = create(&path, None, WriteOptions::default()).unwrap();
        writer.write(&trace.events, &trace.tables).unwrap();
        assert!(!path.exists());
        drop(writer);
        assert_eq!(directory.entries(), [""; 0]);
    }
    let path = directory.0.join("old.std");
    write(&path, None, &trace).unwrap();
    let unwritable = read_as(Format::Text, b"%snag 1\nT|w(x)=1|\n").unwrap();
    let error = write(&path, None, &unwritable).unwrap_err();
    assert_eq!(error.path, Some(path.clone()));
    let empty = Trace::default();
    for format in Format::ALL {
        assert!(write(&path, Some(format), &empty).unwrap_err().message.contains("at least one event"));
    }
    assert_eq!(fs::read(&path).unwrap(), b"T0|w(x)|a\n");
    assert_eq!(directory.entries(), ["old.std"]);
    // A file that is there is replaced, also by reading from it.
    let mut reader = open(&path, None).unwrap();
    let mut writer = create(&path, None, WriteOptions::default()).unwrap();
    let mut events = Events::new();
    while reader.next_block(&mut events).unwrap() {
        writer.write(&events, &reader.tables).unwrap();
    }
    writer.finish(&reader.tables).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"T0|w(x)|a\n");
    assert_eq!(directory.entries(), ["old.std"]);
}

#[cfg(unix)]
#[test]
fn links_stay_links_and_devices_are_written_to() {
    let directory = Directory::new("links");
    let trace = read_as(Format::Std, b"T0|w(x)|a\n").unwrap();
    let (target, link) = (directory.0.join("target.std"), directory.0.join("link.std"));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write(&link, None, &trace).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&target).unwrap(), write_as(Format::Std, &trace).unwrap());
    write(Path::new("/dev/null"), Some(Format::Snag), &trace).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn several_members_are_one_trace() {
    let mut bytes = Vec::new();
    for line in ["T0|w(x)|a\n", "T0|w(y)|b\n", "T1|w(x)|c\n"] {
        let mut writer = compression::Compression::Gzip.writer(Vec::new()).unwrap();
        std::io::Write::write_all(&mut writer, line.as_bytes()).unwrap();
        bytes.extend(writer.finish().unwrap());
    }
    let trace = read_from(std::io::Cursor::new(bytes), None, None).unwrap().read_all().unwrap().0;
    assert_eq!(write_as(Format::Std, &trace).unwrap(), b"T0|w(x)|a\nT0|w(y)|b\nT1|w(x)|c\n");
}
