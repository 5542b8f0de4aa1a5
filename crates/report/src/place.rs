//! Source locations that have the shape `path:line`.

/// A file and a line in it, parsed from the text of a location.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place<'a> {
    /// The file as the trace spells it.
    pub path: &'a str,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1, where the text gives one.
    pub column: Option<u64>,
}

impl<'a> Place<'a> {
    /// `path:line` or `path:line:column`; `None` for any other text.
    pub fn parse(text: &'a str) -> Option<Place<'a>> {
        let (path, last) = split(text)?;
        let place = match split(path) {
            Some((path, line)) => Place { path, line, column: Some(last) },
            None => Place { path, line: last, column: None },
        };
        let sane = !place.path.is_empty() && !place.path.contains(char::is_control) && place.line > 0;
        (sane && place.column != Some(0)).then_some(place)
    }

    /// The path as a URI reference: `/` between the parts, everything else that a URI does not take escaped.
    pub fn uri(&self) -> String {
        let windows = self.path.as_bytes().get(1) == Some(&b':') && self.path.as_bytes()[0].is_ascii_alphabetic();
        let mut uri = String::new();
        if windows {
            uri.push_str("file:///");
        } else if self.path.starts_with('/') {
            uri.push_str("file://");
        }
        for (i, byte) in self.path.bytes().enumerate() {
            match byte {
                b'\\' if windows => uri.push('/'),
                b':' if windows && i == 1 => uri.push(':'),
                b'/' | b'-' | b'.' | b'_' | b'~' | b'$' | b'+' | b',' | b'=' | b'@' | b'!' => uri.push(byte as char),
                byte if byte.is_ascii_alphanumeric() => uri.push(byte as char),
                byte => uri.push_str(&format!("%{byte:02X}")),
            }
        }
        uri
    }
}

fn split(text: &str) -> Option<(&str, u64)> {
    let (before, number) = text.rsplit_once(':')?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    // SARIF's numbers are 32 bits wide.
    let number = number.parse().ok().filter(|&n| digits && n <= i32::MAX as u64)?;
    Some((before, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_path_and_line_is_a_place() {
        let place = |text| Place::parse(text).map(|p| (p.path, p.line, p.column));
        assert_eq!(place("A.c:10"), Some(("A.c", 10, None)));
        assert_eq!(place("src/a b.rs:7:3"), Some(("src/a b.rs", 7, Some(3))));
        assert_eq!(place("C:\\x\\a.c:7"), Some(("C:\\x\\a.c", 7, None)));
        for text in ["", "12", "A.c", "A.c:", ":10", "A.c:0", "A.c:+1", "A.c:9:0", "A.c:99999999999", "f()"] {
            assert_eq!(place(text), None, "{text}");
        }
    }

    #[test]
    fn uris_are_escaped() {
        let uri = |text| Place::parse(text).unwrap().uri();
        assert_eq!(uri("a b/ü%.c:1"), "a%20b/%C3%BC%25.c");
        assert_eq!(uri("/usr/x.c:1"), "file:///usr/x.c");
        assert_eq!(uri("C:\\x\\a.c:7"), "file:///C:/x/a.c");
        assert_eq!(uri("a#b?c.c:7"), "a%23b%3Fc.c");
    }
}
