//! A function of a stack as JSON.

use crate::background::Frame;
use crate::emit::Emitter;
use crate::place::Place;
use std::io::{self, Write};

/// Writes an object with everything that is known of a frame; what is not known is `null`.
pub(crate) fn stack_frame<W: Write>(json: &mut Emitter<W>, frame: &Frame) -> io::Result<()> {
    let source = Place::parse(&frame.place);
    let binary = if source.is_some() { None } else { in_binary(&frame.place) };
    // A place of another form says where, in its own way.
    let other = (source.is_none() && binary.is_none()).then_some(frame.place.as_str());
    let known = |text: &&str| !text.is_empty();
    json.object()?;
    text(json, "function", Some(frame.function.as_str()).filter(known))?;
    text(json, "file", source.map(|place| place.path).or(other).filter(known))?;
    number(json, "line", source.map(|place| place.line))?;
    number(json, "column", source.and_then(|place| place.column))?;
    text(json, "module", binary.and_then(|(module, _)| module))?;
    number(json, "offset", binary.map(|(_, offset)| offset))?;
    json.end()
}

/// Code without debugging information is called by its file and the offset in it, or by its address alone.
fn in_binary(place: &str) -> Option<(Option<&str>, u64)> {
    let hexadecimal = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match place.rsplit_once('+') {
        Some((module, offset)) => Some((Some(module).filter(|module| !module.is_empty()), hexadecimal(offset)?)),
        None => Some((None, hexadecimal(place)?)),
    }
}

fn text<W: Write>(json: &mut Emitter<W>, key: &str, text: Option<&str>) -> io::Result<()> {
    json.key(key)?;
    match text {
        Some(text) => json.string(text),
        None => json.null(),
    }
}

fn number<W: Write>(json: &mut Emitter<W>, key: &str, number: Option<u64>) -> io::Result<()> {
    json.key(key)?;
    match number {
        Some(number) => json.integer(number),
        None => json.null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_place_is_taken_apart() {
        let written = |function: &str, place: &str| {
            let mut out = Vec::new();
            let frame = Frame { function: function.to_owned(), place: place.to_owned() };
            stack_frame(&mut Emitter::new(&mut out, 0), &frame).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written("main", "src/a.c:7:3"),
            r#"{"function": "main", "file": "src/a.c", "line": 7, "column": 3, "module": null, "offset": null}"#
        );
        assert_eq!(
            written("", "libx.so.1+0x1f"),
            r#"{"function": null, "file": null, "line": null, "column": null, "module": "libx.so.1", "offset": 31}"#
        );
        assert!(written("f", "0x10").contains(r#""module": null, "offset": 16"#));
        assert!(written("f", "Main.java").contains(r#""file": "Main.java", "line": null"#));
        assert!(written("f", "a+b").contains(r#""file": "a+b""#));
    }
}
