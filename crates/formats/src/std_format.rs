//! RAPID's STD format: one event a line, `thread|op(target)|location`.
//!
//! Read: `r`, `w`, `acq`, `rel`, `fork`, `join`, `branch`, and what RAPID reads
//! but predicts nothing from: any `begin…`, any `end…`, `dummy(…)`. Target and
//! location are free text without `|`; an empty location is none. A line that
//! does not parse is an error with its number. Everything is kept, so that a
//! trace that was read is written again byte for byte.

mod memo;
mod plain;
mod read;
mod write;

pub use read::StdReader;
pub use write::StdWriter;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Position, Result};
    use crate::reader::TraceReader;
    use snag_model::Trace;

    fn read(text: &str) -> Result<(Trace, Vec<String>)> {
        TraceReader::new(Box::new(StdReader::new(std::io::Cursor::new(text.as_bytes().to_vec()))), None).read_all()
    }

    fn rewritten(text: &str) -> String {
        let (trace, _) = read(text).unwrap();
        let mut writer = StdWriter::new(Vec::new());
        writer.write(&trace.events, &trace.tables).unwrap();
        String::from_utf8(writer.finish(&trace.tables).unwrap()).unwrap()
    }

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        for text in [
            "T0|fork(T1)|A.java:1\nT1|w(x)|B.java:2\nT0|join(T1)|\n",
            "T0|fork(1)|a\nT1|r(a(b)c)|x y z\nT1|begin foo|3\nT1|end|4\nT1|dummy(7)|5\nT1|branch|6",
            "T0|acq(l)|1\r\nT0|branch(why)|2\r\nT0|rel(l)|3\r\n",
            "T0|acq(l)|1\r\nT0|rel(l)|3",
            "T0|acq(l)|1\r\r\nT0|rel(l)|\r\r\n",
            "T0|fork(1()|\nT0|r(())|\nT0|branch()|\nT0|dummy()|\n",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn threads_without_their_prefix_are_resolved_with_a_warning() {
        let (trace, warnings) = read("T0|fork(124)|a\nT124|w(x)|b\nT0|join(124)|c\n").unwrap();
        assert_eq!(trace.tables.thread_count(), 2);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("line 1") && warnings[0].contains("T124"), "{warnings:?}");
        let (trace, warnings) = read("0|fork(T1)|a\n1|w(x)|b\n").unwrap();
        assert_eq!((trace.tables.thread_count(), warnings.len()), (2, 1));
        for (text, warned) in [
            ("main|fork(w1)|a\nw1|w(x)|b\n", 0),
            ("T1|fork(2)|a\n2|w(x)|b\n", 0),
            ("main|fork(2)|a\nT2|w(x)|b\n", 1),
            ("T1|fork(T2)|a\n2|w(x)|b\n", 1),
            ("T1|fork(T2)|a\nT1|w(x)|b\nT1|join(T2)|c\n", 0),
        ] {
            let (trace, warnings) = read(text).unwrap();
            assert_eq!((trace.tables.thread_count(), warnings.len()), (2, warned), "{text}");
        }
    }

    #[test]
    fn a_join_of_a_thread_that_nobody_knows_is_pointed_out() {
        let (_, warnings) = read("T1|fork(T2)|1\nT2|w(x)|2\nT1|join(TT)|3\n").unwrap();
        assert!(warnings[0].contains("line 3") && warnings[0].contains("TT"), "{warnings:?}");
    }

    #[test]
    fn errors_name_the_line() {
        let error = read("T0|w(x)|a\nT0|frob(x)|b\n").unwrap_err();
        assert_eq!(error.position, Position::Line(2));
        assert!(error.message.contains("frob"));
        let error = read("T0|w(x)|a\nT0|rel(l)|b\n").unwrap_err();
        assert_eq!(error.position, Position::Line(2));
        assert!(error.message.contains("not held"));
        assert!(read("T0|w(x)|a|b\n").unwrap_err().message.contains("more than two"));
        assert!(read("T0|w(x)|a\nT0|w(x)|a|b\n").is_err());
    }
}
