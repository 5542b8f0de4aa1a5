//! What is written is what was read: STD and Snag's text byte for byte, also by way of `.snag`, and every trace equal
//! after `.snag`, whatever the pieces in which a stream arrives.

mod common;

use common::{Drip, EVERY_EVENT, random_trace, read_as, snag_bytes, write_as};
use snag_formats::open::Format;
use snag_formats::snag_format::{BLOCK_EVENTS, SnagFile, SnagReader, SnagWriter};
use snag_formats::std_format::StdReader;
use snag_formats::text_format::TextReader;
use snag_formats::{BlockReader, TraceReader, read_from};
use snag_model::tables::Object;
use snag_model::{Events, Op, ReachId, Trace};
use snag_synthesis::generate;
use snag_testkit::exercise::recording_bytes;
use std::io::Cursor;

const STD: &[&str] = &[
    "T0|fork(T1)|A.java:1\nT1|w(x)|B.java:2\nT0|join(T1)|\n",
    "T0|fork(1)|a\nT1|r(a(b)c)|x y z\nT1|begin foo|3\nT1|end|4\nT1|dummy(7)|5\nT1|branch|6",
    "T0|acq(l)|1\r\nT0|branch(why)|2\r\nT0|rel(l)|3\r\n",
    "T0|acq(l)|1\r\nT0|rel(l)|3",
    "T0|r(0x10:4)|\nT0|w(lock:l)|\nT0|w(a,b)|\nT0|w(\"q\\\")|\nT0|branch()|\nT0|r(\u{0}\t)|\u{0}\n",
];

const TEXT: &[&str] = &[
    EVERY_EVENT,
    "%snag 1\nT|w(x)|\n",
    "%snag 1\nT|w(x)|",
    "%snag 1\r\n\r\n# c\r\nT|w(x)|\r\n \t \r\n#end\r\n",
    "%snag 1\r\nT|w(x)|a\r\nT|w(x)|b",
    "%snag 1\n# first\n%init x 5\n%lock \"a b\" plain\n\n%semaphore s 0\n%init 0x10:8 -1\n# last\nT|w(x)|\n",
    "%snag 1\n%init x 5\n%lock l plain\nT|w(x)|\n",
    "%snag 1\n%lock l plain\n%lock k plain\n%init x 5\n# c\nT|w(x)|\n#end",
    "%snag 1\nT|w(x)|\n   ",
];

#[test]
fn std_comes_back_byte_for_byte_by_way_of_each_format() {
    for text in STD {
        let trace = read_as(Format::Std, text.as_bytes()).unwrap();
        assert_eq!(write_as(Format::Std, &trace).unwrap(), text.as_bytes());
        for compress in [false, true] {
            let snag = read_as(Format::Snag, &snag_bytes(&trace, compress)).unwrap();
            assert_eq!(snag, trace);
            assert_eq!(write_as(Format::Std, &snag).unwrap(), text.as_bytes());
        }
        let own = write_as(Format::Text, &trace).unwrap();
        let from_own = read_as(Format::Text, &own).unwrap();
        assert_eq!(from_own, trace, "{}", String::from_utf8_lossy(&own));
        assert_eq!(write_as(Format::Std, &from_own).unwrap(), text.as_bytes());
    }
}

#[test]
fn text_comes_back_byte_for_byte_also_by_way_of_snag() {
    for text in TEXT {
        let trace = read_as(Format::Text, text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let again = write_as(Format::Text, &trace).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), *text);
        for bytes in [snag_bytes(&trace, false), snag_bytes(&trace, true), recording_bytes(&trace)] {
            let snag = read_as(Format::Snag, &bytes).unwrap();
            assert_eq!(snag, trace);
            assert_eq!(write_as(Format::Text, &snag).unwrap(), text.as_bytes());
        }
    }
}

#[test]
fn random_traces_with_every_kind_of_event_survive_text_and_snag() {
    let mut ops = std::collections::HashSet::new();
    for seed in 0..600 {
        let trace = random_trace(seed, 20 + seed as usize % 200);
        ops.extend(trace.events.ops().iter().copied());
        let text = write_as(Format::Text, &trace).unwrap();
        let from_text = read_as(Format::Text, &text)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", String::from_utf8_lossy(&text)));
        assert_eq!(write_as(Format::Text, &from_text).unwrap(), text);
        let snag = read_as(Format::Snag, &snag_bytes(&trace, seed % 2 == 0)).unwrap();
        assert_eq!(snag, trace);
        assert_eq!(write_as(Format::Text, &snag).unwrap(), text);
        let recorded = read_as(Format::Snag, &recording_bytes(&trace)).unwrap();
        assert_eq!(recorded, trace);
        assert_eq!(write_as(Format::Text, &recorded).unwrap(), text);
    }
    assert_eq!(ops.len(), snag_model::Op::ALL.len(), "not every operation occurs: {ops:?}");
}

#[test]
fn arguments_mean_the_same_in_each_block() {
    // What the first call was given leads to a set that no file lists; the sets of later calls are listed after it was read.
    let mut text = String::from(
        "%snag 1\nT|reach(o,{o.f,p})|a\nT|reach(p,{})|a\nT|reach(q,{})|a\nT|method-begin(m,o)|b\nT|method-end(m)|c\n",
    );
    (0..BLOCK_EVENTS).for_each(|_| text.push_str("T|w(x)|d\n"));
    text.push_str("T|method-begin(m,p,q)|e\nT|method-end(m)|f\nT|method-begin(m,{q})|g\nT|method-end(m)|h\n");
    // This is what the first one leads to.
    text.push_str("T|method-begin(m,{o,o.f,p})|i\nT|method-end(m)|j\nT|reach(q,{o})|k\nT|method-begin(m,q)|l\n");
    let reached = |format, bytes: &[u8]| {
        let trace = read_from(Cursor::new(bytes.to_vec()), Some(format), None).unwrap().read_all().unwrap().0;
        let begins = trace.events.iter().filter(|event| event.op == Op::MethodBegin);
        let names = |object: &Object| match *object {
            Object::Variable(id) => trace.tables.variable_text(id),
            ref other => format!("{other:?}"),
        };
        begins.map(|begin| trace.tables.reach_objects(ReachId(begin.aux)).iter().map(names).collect()).collect()
    };
    let expected: Vec<Vec<String>> = reached(Format::Text, text.as_bytes());
    assert_eq!(expected.len(), 5);
    let written = read_as(Format::Text, text.as_bytes()).unwrap();
    let by_blocks = streamed(Box::new(TextReader::new(Drip::new(text.as_bytes(), 1000))), true);
    for bytes in [by_blocks, recording_bytes(&written)] {
        assert_eq!(reached(Format::Snag, &bytes), expected);
        assert!(read_as(Format::Snag, &bytes).unwrap() == written);
    }
}

#[test]
fn generated_std_traces_survive() {
    for seed in 0..5 {
        let shape = generate::Shape { events: 5000, seed, ..Default::default() };
        let trace = TraceReader::new(Box::new(generate::Generator::new(shape)), None).read_all().unwrap().0;
        let text = write_as(Format::Std, &trace).unwrap();
        let read = read_as(Format::Std, &text).unwrap();
        assert_eq!(write_as(Format::Std, &read).unwrap(), text);
        assert_eq!(read_as(Format::Snag, &snag_bytes(&read, true)).unwrap(), read);
    }
}

/// Reads from a stream that hands out a few bytes at a time and writes each block at once.
fn streamed(reader: Box<dyn BlockReader>, compress: bool) -> Vec<u8> {
    let mut reader = TraceReader::new(reader, None).as_written();
    let mut writer = SnagWriter::new(Vec::new(), compress);
    let mut events = Events::new();
    while reader.next_block(&mut events).unwrap() {
        writer.write(&events, &reader.tables).unwrap();
        if events.first % 7 == 3 {
            writer.flush(&reader.tables).unwrap();
        }
    }
    writer.finish(&reader.tables).unwrap()
}

#[test]
fn streams_in_tiny_pieces_give_the_same_trace() {
    for text in STD.iter().chain(TEXT) {
        let own = text.starts_with("%snag");
        let format = if own { Format::Text } else { Format::Std };
        let trace = read_as(format, text.as_bytes()).unwrap();
        for step in [1, 2, 3, 5, 8, 13, 100] {
            let drip = Drip::new(text.as_bytes(), step);
            let reader: Box<dyn BlockReader> =
                if own { Box::new(TextReader::new(drip)) } else { Box::new(StdReader::new(drip)) };
            let bytes = streamed(reader, step % 2 == 0);
            let back = TraceReader::new(Box::new(SnagReader::new(Drip::new(&bytes, step))), None);
            let (back, warnings) = back.as_written().read_all().unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            assert_eq!(back, trace, "step {step}\n{text}");
            assert_eq!(write_as(format, &back).unwrap(), text.as_bytes());
        }
    }
}

fn long_trace() -> Trace {
    let shape = generate::Shape { events: 200_000, values: true, ..Default::default() };
    TraceReader::new(Box::new(generate::Generator::new(shape)), None).read_all().unwrap().0
}

/// A file of which names and events alternate.
fn long_file(trace: &Trace, piece: usize) -> Vec<u8> {
    let text = write_as(Format::Text, trace).unwrap();
    let mut reader = TraceReader::new(Box::new(TextReader::new(Drip::new(&text, piece))), None);
    let mut writer = SnagWriter::new(Vec::new(), true);
    let mut events = Events::new();
    while reader.next_block(&mut events).unwrap() {
        writer.write(&events, &reader.tables).unwrap();
        writer.flush(&reader.tables).unwrap();
    }
    writer.finish(&reader.tables).unwrap()
}

#[test]
fn every_event_can_be_gone_to_with_and_without_index() {
    let trace = long_trace();
    let directory = tempfile();
    let count = trace.len() as u64;
    let files = [
        ("blocks", long_file(&trace, 100_000)),
        ("full", snag_bytes(&trace, false)),
        ("recorded", recording_bytes(&trace)),
    ];
    for (name, bytes) in files {
        let path = directory.join(name);
        // Without the end block there is no way to the index.
        for cut in [0, 1] {
            std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            let mut file = SnagFile::open(&path).unwrap();
            assert_eq!(file.has_index(), cut == 0);
            assert_eq!(file.event_count(), (cut == 0).then_some(count));
            let mut events = Events::new();
            let near = [BLOCK_EVENTS as u64 - 1, BLOCK_EVENTS as u64, BLOCK_EVENTS as u64 + 1];
            for number in [0, 1, 5, count - 1, 77, count / 2, 3].into_iter().chain(near) {
                file.seek_to_event(number).unwrap();
                assert!(file.next_block(&mut events).unwrap());
                assert_eq!(events.first as u64, number);
                let mut at = number as usize;
                // Two blocks, or to the end.
                for _ in 0..2 {
                    for event in events.iter() {
                        let shown = |e: &snag_model::events::Event, t: &snag_model::Tables| {
                            (
                                t.thread_name(e.thread).to_owned(),
                                e.op,
                                e.value,
                                e.written,
                                t.location_name(e.location).to_owned(),
                            )
                        };
                        assert_eq!(shown(&event, &file.tables), shown(&trace.events.get(at), &trace.tables));
                        at += 1;
                    }
                    file.next_block(&mut events).unwrap();
                }
            }
            file.seek_to_event(count).unwrap();
            assert!(!file.next_block(&mut events).unwrap());
            assert_eq!(file.take_warnings().len(), cut);
            let error = file.seek_to_event(count + 1).unwrap_err();
            assert!(error.message.contains("there is no event"), "{error}");
            file.seek_to_event(0).unwrap();
            let mut read = 0;
            while file.next_block(&mut events).unwrap() {
                read += events.len();
            }
            assert_eq!(read as u64, count);
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_recording_that_is_cut_off_is_read_up_to_its_last_whole_block() {
    let trace = long_trace();
    let bytes = long_file(&trace, 300_000);
    let whole = |n: usize| bytes.len() * n / 100;
    for cut in [whole(100) - 1, whole(99), whole(80), whole(50), whole(30)] {
        let reader = TraceReader::new(Box::new(SnagReader::new(Drip::new(&bytes[..cut], 5000))), None);
        let (part, warnings) = reader.read_all().unwrap();
        assert!(!part.is_empty() && part.len() <= trace.len());
        assert_eq!(warnings.len(), 1);
        let start = format!("the recording is cut off after event {} (byte ", part.len() - 1);
        assert!(warnings[0].starts_with(&start), "{warnings:?}");
        let at: usize = warnings[0][start.len()..].split(')').next().unwrap().parse().unwrap();
        assert!(at <= cut);
    }
}

fn tempfile() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("snag-round-trips-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}
