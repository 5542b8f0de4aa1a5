//! What fuzzers do with bytes: read them as a trace, and if they are one, hold the formats to what they promise.
//!
//! Shared by the fuzz targets and the mutation test, so that both test the same. Nothing here returns an error: a broken
//! promise is a panic.

use snag_formats::error::Result;
use snag_formats::open::{Format, read_from};
use snag_formats::reader::{BlockReader, TraceReader};
use snag_formats::snag_format::{
    Batch, Contended, Late, RecordedEvent, RecordingWriter, SnagReader, SnagWriter, Touched, repaired,
};
use snag_formats::std_format::{StdReader, StdWriter};
use snag_formats::text_format::{TextReader, TextWriter};
use snag_model::Trace;
use snag_model::events::Events;
use std::io::Cursor;

/// Reads bytes as a trace in `format`, and checks what can be said of the outcome:
///
/// - STD and Snag's text are written again byte for byte;
/// - after writing to `.snag` and reading again, the trace is the same, compressed or not, also as a recording;
/// - what is written as Snag's text is read again, and written the same.
///
/// The checksums of `.snag` are made right first, so that a fuzzer gets past them.
pub fn trace(format: Format, bytes: &[u8]) {
    let repaired_bytes;
    let bytes = match format {
        Format::Snag => {
            // As they are, only errors are likely; but those are to be tested too.
            let _ = shown(read(format, bytes));
            repaired_bytes = repaired(bytes);
            let _ = shown(read_contended(&repaired_bytes));
            &repaired_bytes
        }
        _ => bytes,
    };
    let Ok(trace) = shown(read(format, bytes)) else { return };
    match format {
        Format::Std => assert_eq!(std_bytes(&trace).expect("STD can be written as STD"), bytes, "STD is kept"),
        Format::Text => assert_eq!(text_bytes(&trace).expect("text can be written as text"), bytes, "text is kept"),
        Format::Snag => {}
    }
    for compress in [false, true] {
        let again = read(Format::Snag, &snag_bytes(&trace, compress)).expect("what was written can be read");
        assert!(again == trace, "a trace is the same after .snag");
    }
    let recording = recording_bytes(&trace);
    let again = read(Format::Snag, &recording).expect("what was recorded can be read");
    assert!(again == trace, "a trace is the same after it was written as a recording");
    let listed = read_contended(&recording).expect("what was listed can be read").expect("it is listed");
    assert!(listed.events.ops() == trace.events.ops(), "all events are listed");
    if let Ok(text) = text_bytes(&trace) {
        let again = read(Format::Text, &text).expect("text that was written can be read");
        assert_eq!(text_bytes(&again).expect("and written again"), text, "text has one spelling");
    }
}

/// Reads bytes as what they seem to be, compressed or not. Only the first blocks, as little input may be a lot of trace.
pub fn unknown(bytes: &[u8]) {
    let reader = read_from(Cursor::new(bytes.to_vec()), None, None);
    let Ok(mut reader) = shown(reader) else { return };
    let mut events = Events::new();
    for _ in 0..32 {
        match shown(reader.next_block(&mut events)) {
            Ok(true) => {}
            _ => return,
        }
    }
}

/// The same outcome; that an error can be shown is part of the test.
fn shown<T>(outcome: Result<T>) -> Result<T> {
    outcome.inspect_err(|error| assert!(!error.to_string().is_empty()))
}

fn read(format: Format, bytes: &[u8]) -> Result<Trace> {
    let input = Cursor::new(bytes.to_vec());
    let reader: Box<dyn BlockReader> = match format {
        Format::Std => Box::new(StdReader::new(input)),
        Format::Text => Box::new(TextReader::new(input)),
        Format::Snag => Box::new(SnagReader::new(input)),
    };
    TraceReader::new(reader, None).as_written().read_all().map(|(trace, _)| trace)
}

/// What a recording lists as open to other threads, if it does.
fn read_contended(bytes: &[u8]) -> Result<Option<Trace>> {
    let Some(contended) = Contended::open(Cursor::new(bytes.to_vec()))? else { return Ok(None) };
    let reader = TraceReader::new(Box::new(contended), None).as_written();
    reader.read_all().map(|(trace, _)| Some(trace))
}

fn std_bytes(trace: &Trace) -> Result<Vec<u8>> {
    let mut writer = StdWriter::new(Vec::new());
    writer.write(&trace.events, &trace.tables)?;
    writer.finish(&trace.tables)
}

fn text_bytes(trace: &Trace) -> Result<Vec<u8>> {
    let mut writer = TextWriter::new(Vec::new());
    writer.write(&trace.events, &trace.tables)?;
    writer.finish(&trace.tables)
}

fn snag_bytes(trace: &Trace, compress: bool) -> Vec<u8> {
    let mut writer = SnagWriter::new(Vec::new(), compress);
    writer.write(&trace.events, &trace.tables).expect("every trace can be written as .snag");
    writer.finish(&trace.tables).expect("every trace can be written as .snag")
}

/// The trace as a recorder writes it, with a list of all events as open to other threads.
pub fn recording_bytes(trace: &Trace) -> Vec<u8> {
    let mut writer = RecordingWriter::new(Vec::new()).expect("there is room for a thread");
    let mut batch = Batch::default();
    trace.events.iter().for_each(|event| batch.event(RecordedEvent::of(&event, &trace.tables)));
    let written = "every trace can be written as a recording";
    writer.with_contended();
    writer.push(&batch, &trace.tables).expect(written);
    writer.late(&[Late { address: 0x1000, size: 0x100, from: 0, to: u32::MAX.into() }]).expect(written);
    writer.touched(Touched { first: 0, lines: vec![0x41, 0x40] }).expect(written);
    let last = (trace.len() as u64).saturating_sub(1);
    writer.end_contended(&[last], &trace.tables).expect(written);
    writer.finish(&trace.tables).expect("every trace can be written as a recording")
}
