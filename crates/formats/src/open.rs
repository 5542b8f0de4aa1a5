//! Opening and creating trace files of any format and compression.
//!
//! Guarantees: what is opened is recognised by its bytes, not by its name; a file appears under its name only when it
//! is complete, as it is written beside and renamed at the end; everything streams.

use crate::compression::{Compression, Compressor, SNIFFED};
use crate::error::{Error, Position, Result};
use crate::reader::{BlockReader, TraceReader};
use crate::snag_format::{SnagReader, SnagWriter};
use crate::std_format::{StdReader, StdWriter};
use crate::text_format::{TextReader, TextWriter};
use snag_model::events::Events;
use snag_model::room::{DEFAULT_MEMORY, Room};
use snag_model::tables::Tables;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The formats of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// RAPID's STD.
    Std,
    /// Snag's own text.
    Text,
    /// Snag's binary format.
    Snag,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 3] = [Format::Std, Format::Text, Format::Snag];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Std => "std",
            Format::Text => "text",
            Format::Snag => "snag",
        }
    }

    /// The format of that name.
    pub fn by_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.name() == name)
    }

    /// The last part of the names of its files, without that of a compression.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Std => "std",
            Format::Text => "stx",
            Format::Snag => "snag",
        }
    }

    /// The format that a file's name tells: `.std`, `.stx` or `.snag`, before `.gz`, `.zst` or `.lz4` if it has that.
    pub fn by_extension(path: &Path) -> Option<Format> {
        let extension = |path: &Path| path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        let mut last = extension(path)?;
        if Compression::by_extension(&last).is_some() {
            last = extension(Path::new(path.file_stem()?))?;
        }
        Format::ALL.into_iter().find(|f| f.extension() == last)
    }

    /// The format of a trace that starts with these bytes; what is neither of Snag's own formats is taken for STD.
    pub fn of_bytes(first: &[u8]) -> Format {
        if first.starts_with(b"SNAG\r") || first.starts_with(b"SNAG\n") {
            Format::Snag
        } else if first.starts_with(b"%snag") && first.get(5) != Some(&b'|') {
            Format::Text
        } else {
            Format::Std
        }
    }
}

fn whole(message: impl Into<String>) -> Error {
    Error::new(Position::Whole, message)
}

/// Why a file cannot be opened, read or written, in the words that every message has for it.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// The same of a file that need not be there: if something is missing, it is the folder.
pub fn why_not_created(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        _ => why(error),
    }
}

/// Opens a trace; `-` is the standard input. The format is found out unless it is given.
pub fn open(path: &Path, format: Option<Format>) -> Result<TraceReader> {
    open_within(DEFAULT_MEMORY, path, format)
}

/// The same; names, comments and declarations may take so many bytes of memory: see [`Room`].
pub fn open_within(memory: u64, path: &Path, format: Option<Format>) -> Result<TraceReader> {
    if path == Path::new("-") {
        return read_within(memory, io::stdin(), format, Some(Path::new("standard input")));
    }
    let cannot_open = |e: io::Error| whole(format!("cannot open: {}", why(&e))).in_file(path);
    let file = File::open(path).map_err(cannot_open)?;
    if file.metadata().map_err(cannot_open)?.is_dir() {
        return Err(whole("is a directory, not a trace").in_file(path));
    }
    read_within(memory, file, format, Some(path))
}

/// Reads a trace, possibly compressed, from a stream; `path` only serves error messages.
pub fn read_from(
    input: impl Read + Send + 'static,
    format: Option<Format>,
    path: Option<&Path>,
) -> Result<TraceReader> {
    read_within(DEFAULT_MEMORY, input, format, path)
}

/// The same; names, comments and declarations may take so many bytes of memory: see [`Room`].
pub fn read_within(
    memory: u64,
    input: impl Read + Send + 'static,
    format: Option<Format>,
    path: Option<&Path>,
) -> Result<TraceReader> {
    let located = |e: Error| match path {
        Some(path) => e.in_file(path),
        None => e,
    };
    let read = Arc::new(AtomicU64::new(0));
    let input = Measured { input, read: read.clone() };
    let blocks = read_blocks(Box::new(input), format).map_err(located)?;
    Ok(TraceReader::new(blocks, path).within(Room::new(memory).with_read(read)))
}

/// Counts the bytes of a file as it is stored.
struct Measured<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

fn read_blocks(input: Box<dyn Read + Send>, format: Option<Format>) -> Result<Box<dyn BlockReader>> {
    let cannot_read = |e: io::Error| whole(format!("cannot read: {e}"));
    let (first, mut input) = peek(input).map_err(cannot_read)?;
    if first.is_empty() {
        return Err(whole("the file is empty; a trace has at least one event"));
    }
    let mut first = first;
    match Compression::of_bytes(&first) {
        Err(name) => return Err(whole(format!("compressed with {name}, which snag does not read"))),
        Ok(None) => {}
        Ok(Some(compression)) => {
            let plain = compression.reader(input).map_err(cannot_read)?;
            (first, input) = peek(plain).map_err(cannot_read)?;
            if first.is_empty() {
                let name = compression.name();
                return Err(whole(format!("the file holds nothing but {name}; a trace has at least one event")));
            }
            if let Ok(Some(_)) | Err(_) = Compression::of_bytes(&first) {
                return Err(whole("the file is compressed twice"));
            }
        }
    }
    Ok(match format.unwrap_or(Format::of_bytes(&first)) {
        Format::Std => Box::new(StdReader::new(input)),
        Format::Text => Box::new(TextReader::new(input)),
        Format::Snag => Box::new(SnagReader::new(input)),
    })
}

/// The first bytes of a stream, and the stream from its beginning. Of an error in the first bytes the stream tells
/// again when it is read, so that it has a position.
fn peek(mut input: Box<dyn Read + Send>) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut first = [0; SNIFFED];
    let mut filled = 0;
    while filled < first.len() {
        match input.read(&mut first[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if filled == 0 => return Err(e),
            Err(e) => {
                let first = first[..filled].to_vec();
                return Ok((first.clone(), Box::new(Cursor::new(first).chain(Fails(Some(e))))));
            }
        }
    }
    let first = first[..filled].to_vec();
    Ok((first.clone(), Box::new(Cursor::new(first).chain(input))))
}

/// A stream of which nothing can be read.
struct Fails(Option<io::Error>);

impl Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Writes a trace in some format.
pub trait TraceWriter {
    /// Writes the next events. The tables are those of the trace so far; they may only grow from call to call.
    fn write(&mut self, events: &Events, tables: &Tables) -> Result<()>;

    /// Completes the trace. Without this there is no file.
    fn finish(self: Box<Self>, tables: &Tables) -> Result<()>;
}

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// Whether `.snag` compresses its blocks where that pays. Reading them is slower then; see `docs/formats.md`.
    pub compress: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { compress: true }
    }
}

/// Creates a trace file; `-` is the standard output. The format is that of the file's name unless it is given; a name
/// that ends in `.gz`, `.zst` or `.lz4` has it compressed.
pub fn create(path: &Path, format: Option<Format>, options: WriteOptions) -> Result<Box<dyn TraceWriter>> {
    create_unnamed(path, format, options).map_err(|e| e.in_file(path))
}

fn create_unnamed(path: &Path, format: Option<Format>, options: WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let Some(format) = format.or_else(|| Format::by_extension(path)) else {
        return Err(whole(
            "the name does not tell the format: expected .std, .stx or .snag (also followed by .gz, .zst or .lz4)",
        ));
    };
    let compression = path.extension().and_then(|e| e.to_str()).and_then(Compression::by_extension);
    let cannot_create = |e: io::Error| whole(format!("cannot create: {}", why_not_created(&e)));
    let file = BufWriter::with_capacity(1 << 16, Destination::create(path).map_err(cannot_create)?);
    let out = match compression {
        None => Output::Plain(file),
        Some(compression) => Output::Compressed(compression.writer(file).map_err(cannot_create)?),
    };
    Ok(match format {
        Format::Std => Box::new(Writer { format: StdWriter::new(out), path: path.to_owned(), empty: true }),
        Format::Text => Box::new(Writer { format: TextWriter::new(out), path: path.to_owned(), empty: true }),
        Format::Snag => {
            let format = SnagWriter::new(out, options.compress && compression.is_none());
            Box::new(Writer { format, path: path.to_owned(), empty: true })
        }
    })
}

/// Where a trace goes, behind its format.
enum Output {
    Plain(BufWriter<Destination>),
    Compressed(Compressor<BufWriter<Destination>>),
}

impl Output {
    fn finish(self) -> io::Result<()> {
        let buffered = match self {
            Output::Plain(buffered) => buffered,
            Output::Compressed(compressor) => compressor.finish()?,
        };
        buffered.into_inner().map_err(|e| e.into_error())?.finish()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(out) => out.write(bytes),
            Output::Compressed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(out) => out.flush(),
            // To flush a compressor costs compression, and nothing can be read before it is finished.
            Output::Compressed(_) => Ok(()),
        }
    }
}

/// The methods that the writers of all formats have.
trait FormatWriter {
    fn write(&mut self, events: &Events, tables: &Tables) -> Result<()>;
    fn finish(self, tables: &Tables) -> Result<Output>;
}

macro_rules! format_writers {
    ($($writer:ident)*) => {$(
        impl FormatWriter for $writer<Output> {
            fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
                $writer::write(self, events, tables)
            }

            fn finish(self, tables: &Tables) -> Result<Output> {
                $writer::finish(self, tables)
            }
        }
    )*};
}

format_writers!(StdWriter TextWriter SnagWriter);

struct Writer<F> {
    format: F,
    path: PathBuf,
    /// Whether no event was written yet.
    empty: bool,
}

impl<F: FormatWriter> TraceWriter for Writer<F> {
    fn write(&mut self, events: &Events, tables: &Tables) -> Result<()> {
        self.empty &= events.is_empty();
        self.format.write(events, tables).map_err(|e| e.in_file(&self.path))
    }

    fn finish(self: Box<Self>, tables: &Tables) -> Result<()> {
        let Writer { format, path, empty } = *self;
        let finish = || {
            if empty {
                return Err(whole("there is nothing to write; a trace has at least one event"));
            }
            format.finish(tables)?.finish().map_err(|e| whole(format!("cannot write: {e}")))
        };
        finish().map_err(|e| e.in_file(path))
    }
}

/// Who may read a trace, as with a core: it has what a program had in its memory.
pub const OWNER_ONLY: u32 = 0o600;

/// How a new trace is created.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
    options
}

/// A trace goes into no file of somebody else, who has not asked for it and may take it for the own.
#[cfg(unix)]
fn may_replace(existing: &fs::Metadata, new: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match existing.uid() == new.uid() {
        true => Ok(()),
        false => Err(io::Error::other(ANOTHER_USERS)),
    }
}

#[cfg(not(unix))]
fn may_replace(_: &fs::Metadata, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Why a trace does not go into a file.
pub const ANOTHER_USERS: &str = "the file that is there belongs to another user";

/// A file that appears under its name when it is finished and vanishes when it is dropped before.
enum Destination {
    /// The standard output, a pipe or a device: what is written is gone.
    Stream(Box<dyn Write>),
    Beside(Beside),
}

struct Beside {
    file: File,
    /// The name it has while it is written; empty once it was renamed.
    temporary: PathBuf,
    name: PathBuf,
}

impl Destination {
    fn create(path: &Path) -> io::Result<Destination> {
        if path == Path::new("-") {
            return Ok(Destination::Stream(Box::new(io::stdout())));
        }
        let existing = fs::metadata(path).ok();
        match &existing {
            Some(metadata) if metadata.is_dir() => return Err(io::Error::other("it is a directory")),
            Some(metadata) if !metadata.is_file() => {
                return Ok(Destination::Stream(Box::new(OpenOptions::new().write(true).open(path)?)));
            }
            _ => {}
        }
        // A link stays; what it points to is replaced.
        let name = if existing.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
        let Some(last) = name.file_name() else { return Err(io::Error::other("it has no name")) };
        let (mut number, mut tries) = (std::process::id(), 0);
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(last);
            hidden.push(format!(".{number}.partial"));
            let temporary = name.with_file_name(hidden);
            match private().open(&temporary) {
                Ok(file) => {
                    let beside = Beside { file, temporary, name };
                    if let Some(existing) = existing {
                        may_replace(&existing, &beside.file.metadata()?)?;
                    }
                    return Ok(Destination::Beside(beside));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 100 => {
                    tries += 1;
                    number = number.wrapping_add(0x9e37_79b9);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Destination::Stream(mut out) => out.flush(),
            Destination::Beside(mut beside) => {
                fs::rename(&beside.temporary, &beside.name)?;
                beside.temporary = PathBuf::new();
                Ok(())
            }
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Stream(out) => out.write(bytes),
            Destination::Beside(beside) => beside.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Stream(out) => out.flush(),
            Destination::Beside(beside) => beside.file.flush(),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
