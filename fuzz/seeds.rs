//! Writes seeds for the fuzz targets into `fuzz/corpus/`: one trace with every event, and a small one, in every format
//! and compression.

use snag_formats::compression::Compression;
use snag_formats::open::Format;
use snag_formats::snag_format::SnagWriter;
use snag_formats::text_format::TextReader;
use snag_formats::TraceReader;
use snag_model::Trace;
use std::io::{Cursor, Write};
use std::path::Path;

const STD: &str = "T0|fork(1)|a.java:1\nT1|acq(l)|x\nT1|w(a(b)c)|x y\nT1|r(v)|\nT1|rel(l)|x\nT1|begin foo|3\n\
                   T1|end|4\nT0|branch|6\nT0|branch(why)|6\nT0|join(1)|7\nT0|dummy(3)|\n";
const SMALL: &str = "%snag 1\n%init x 1\n# c\nT|r(x)=1->v|\nT|branch((< v 3))|\nT|acq(l)|a\nT|rel(l)|\n";
const EVERY: &str = include_str!("../crates/formats/tests/every.stx");

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut seeds = vec![(Format::Std, STD.as_bytes().to_vec())];
    for text in [SMALL, EVERY] {
        seeds.push((Format::Text, text.as_bytes().to_vec()));
        let (trace, _) =
            TraceReader::new(Box::new(TextReader::new(Cursor::new(text))), None).read_all().expect("sound");
        seeds.extend([false, true].map(|compress| (Format::Snag, snag(&trace, compress))));
        seeds.push((Format::Snag, snag_testkit::exercise::recording_bytes(&trace)));
    }
    for (number, (format, bytes)) in seeds.iter().enumerate() {
        let put = |target: &str, name: String, bytes: &[u8]| {
            let directory = corpus.join(target);
            std::fs::create_dir_all(&directory).expect("a directory for seeds");
            std::fs::write(directory.join(name), bytes).expect("a seed");
        };
        put(format.name(), format!("seed-{number}"), bytes);
        put("compressed", format!("seed-{number}"), bytes);
        for compression in [Compression::Gzip, Compression::Zstd, Compression::Lz4] {
            let mut writer = compression.writer(Vec::new()).expect("a compressor");
            writer.write_all(bytes).expect("compressed");
            let bytes = writer.finish().expect("compressed");
            put("compressed", format!("seed-{number}.{}", compression.extension()), &bytes);
        }
    }
}

fn snag(trace: &Trace, compress: bool) -> Vec<u8> {
    let mut writer = SnagWriter::new(Vec::new(), compress);
    writer.write(&trace.events, &trace.tables).expect("written");
    writer.finish(&trace.tables).expect("written")
}
