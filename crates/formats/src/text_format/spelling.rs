//! How names, ranges and numbers are spelled inside brackets: in exactly one way each.

use snag_model::tables::{Object, Space, Tables, Variable};
use std::borrow::Cow;

/// Prefixes of what is not a variable in the set of a missing method.
const LOCK: &str = "lock:";
const THREAD: &str = "thread:";
const CONDITION: &str = "condition:";
const SEMAPHORE: &str = "semaphore:";
const BARRIER: &str = "barrier:";

/// Whether a name stands without quotes. It does unless it is empty, holds a blank, a control character or one of
/// `( ) { } , = | " \`, looks like an address range (`0x`, and a colon further on), or starts as a member of a set that is no variable does
/// (`lock:`, `thread:`, `condition:`, `semaphore:`, `barrier:`).
pub fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_bare_char) && !looks_like_range(name) && !has_prefix(name)
}

fn is_bare_char(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '{' | '}' | ',' | '=' | '|' | '"' | '\\'))
}

fn looks_like_range(name: &str) -> bool {
    name.starts_with("0x") && name.contains(':')
}

fn has_prefix(name: &str) -> bool {
    [LOCK, THREAD, CONDITION, SEMAPHORE, BARRIER].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a byte is a letter, a digit or one of a few signs, none of which means anything in a name.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'-' | b'/')
}

/// A name as it is written: bare if it can be, else in quotes with escapes.
pub fn spelled(name: &str) -> Cow<'_, str> {
    if is_bare(name) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for c in name.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '|' => quoted.push_str("\\p"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// A variable as it is written.
pub(super) fn spelled_variable(variable: Variable, tables: &Tables) -> Cow<'_, str> {
    match variable {
        Variable::Named(name) => spelled(tables.names(Space::VariableName).get(name as usize)),
        Variable::Range { address, size } => Cow::Owned(format!("{address:#x}:{size}")),
    }
}

/// A member of a missing method's set as it is written.
pub(super) fn spelled_object(object: Object, tables: &Tables) -> Cow<'_, str> {
    let other = |prefix, space, id| Cow::Owned(format!("{prefix}{}", spelled(tables.names(space).get(id as usize))));
    match object {
        Object::Variable(id) => spelled_variable(tables.variable(id), tables),
        Object::Lock(id) => Cow::Owned(format!("{LOCK}{}", spelled(tables.lock_name(id)))),
        Object::Thread(id) => Cow::Owned(format!("{THREAD}{}", spelled(tables.thread_name(id)))),
        Object::Condition(id) => other(CONDITION, Space::Condition, id.0),
        Object::Semaphore(id) => other(SEMAPHORE, Space::Semaphore, id.0),
        Object::Barrier(id) => other(BARRIER, Space::Barrier, id.0),
    }
}

/// A variable as it stands in the text, before it is looked up.
pub(super) enum Place<'a> {
    Named(Cow<'a, str>),
    Range { address: u64, size: u64 },
}

/// A member of a missing method's set, before it is looked up.
pub(super) enum Member<'a> {
    Variable(Place<'a>),
    Lock(Cow<'a, str>),
    Thread(Cow<'a, str>),
    Condition(Cow<'a, str>),
    Semaphore(Cow<'a, str>),
    Barrier(Cow<'a, str>),
}

type Parsed<T> = Result<T, String>;

/// What is left of an operation or directive.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { rest: text }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// The text if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Whether the text comes next.
    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// The text, which must come next.
    pub(super) fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { Err(format!("expected '{text}' before '{}'", self.shown())) }
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Parsed<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("unexpected '{}' at the end", self.shown())) }
    }

    /// All that is left.
    pub(super) fn remainder(&mut self) -> &'a str {
        self.take(self.rest.len())
    }

    /// What is left, short enough for a message.
    fn shown(&self) -> String {
        if self.rest.is_empty() { "the end".to_owned() } else { shortened(self.rest) }
    }

    /// A word of lower-case letters and hyphens, possibly empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_lowercase() || c == '-')
    }

    /// A name.
    pub(super) fn name(&mut self) -> Parsed<Cow<'a, str>> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let name = self.take_while(is_bare_char);
        if name.is_empty() {
            return Err(format!("expected a name before '{}'", self.shown()));
        }
        if !is_bare(name) {
            return Err(format!("'{}' is not a bare name: write {}", shortened(name), spelled(&shortened(name))));
        }
        Ok(Cow::Borrowed(name))
    }

    fn quoted(&mut self) -> Parsed<Cow<'a, str>> {
        let text = self.rest;
        let mut name = String::new();
        let mut chars = text.char_indices().skip(1);
        let end = loop {
            match chars.next() {
                None => return Err("a quoted name lacks its closing '\"'".to_owned()),
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => name.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, 'r')) => '\r',
                    Some((_, 't')) => '\t',
                    Some((_, 'p')) => '|',
                    Some((_, c @ ('"' | '\\'))) => c,
                    Some((at, 'u')) => {
                        let digits = text[at + 1..].strip_prefix('{').and_then(|r| r.split_once('}'));
                        let code = digits.filter(|(d, _)| d.len() <= 6).map(|(d, _)| d);
                        let c = code.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
                        let Some(c) = c else { return Err("a '\\u' in a quoted name lacks its {code}".to_owned()) };
                        chars.nth(code.map_or(0, str::len) + 1);
                        c
                    }
                    _ => {
                        return Err(
                            "unknown escape in a quoted name: known are \\\" \\\\ \\p \\n \\r \\t \\u{…}".to_owned()
                        );
                    }
                }),
                Some((_, c)) => name.push(c),
            }
        };
        let raw = self.take(end);
        // Bare names in quotes, needless escapes and unescaped control characters all show here.
        if spelled(&name) != raw {
            return Err(format!("{} must be written {}", shortened(raw), shortened(&spelled(&name))));
        }
        Ok(Cow::Owned(name))
    }

    /// A variable: a name or an address range.
    pub(super) fn variable(&mut self) -> Parsed<Place<'a>> {
        let end = self.rest.find(|c| !is_bare_char(c)).unwrap_or(self.rest.len());
        if !looks_like_range(&self.rest[..end]) {
            return Ok(Place::Named(self.name()?));
        }
        let text = self.take(end);
        let wrong = |why: &str| Err(format!("'{}' is no address range: {why}", shortened(text)));
        let (address, size) = text[2..].split_once(':').expect("a range has a colon");
        let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.parse::<u64>()) else {
            return wrong("expected a hexadecimal address and a decimal size, as in 0x7f00:8");
        };
        if format!("{address:#x}:{size}") != text {
            return wrong(&format!("it must be written {address:#x}:{size}"));
        }
        if size == 0 {
            return wrong("its size is 0");
        }
        if address.checked_add(size - 1).is_none() {
            return wrong("it reaches over the end of the address space");
        }
        Ok(Place::Range { address, size })
    }

    /// The name of a variable that stands here without quotes, if that can be told at a glance: it consists of letters,
    /// digits and other characters that mean nothing, and does not start like something else. Most members of
    /// large sets are like that.
    #[inline]
    pub(super) fn plain_name(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let end = bytes.iter().position(|&byte| !is_plain(byte))?;
        // What starts with a digit may be a range; what has a colon, something else than a variable.
        if end == 0 || bytes[0].is_ascii_digit() || !matches!(bytes[end], b',' | b'}') {
            return None;
        }
        Some(self.take(end))
    }

    /// A member of a missing method's set.
    pub(super) fn member(&mut self) -> Parsed<Member<'a>> {
        if self.eat(LOCK) {
            return Ok(Member::Lock(self.name()?));
        }
        if self.eat(THREAD) {
            return Ok(Member::Thread(self.name()?));
        }
        if self.eat(CONDITION) {
            return Ok(Member::Condition(self.name()?));
        }
        if self.eat(SEMAPHORE) {
            return Ok(Member::Semaphore(self.name()?));
        }
        if self.eat(BARRIER) {
            return Ok(Member::Barrier(self.name()?));
        }
        Ok(Member::Variable(self.variable()?))
    }

    /// An integer in its only spelling.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let sign = self.rest.starts_with(['-', '+']) as usize;
        let digits = self.rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let digits = self.take(sign + digits);
        match snag_model::expr::parse_integer(digits) {
            Some(value) => Ok(value),
            None if digits.is_empty() => Err(format!("expected an integer before '{}'", self.shown())),
            None => Err(format!(
                "'{}' is not a value: integers are decimal, of 64 bits, without '+' or leading zeros",
                shortened(digits)
            )),
        }
    }

    /// A number that is not negative.
    pub(super) fn number(&mut self, what: &str, least: u32, most: u32) -> Parsed<u32> {
        let value = self.integer()?;
        let fits = u32::try_from(value).ok().filter(|v| (least..=most).contains(v));
        fits.ok_or_else(|| format!("{value} is no {what}: expected {least} to {most}"))
    }
}

/// The beginning of a text, for messages.
pub(super) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_spelling_and_is_read_from_it() {
        let all = ["x", "a.b$c", "0x7f00", "é", "lock", "a:b", "[I@12", "-", "#", "%", "<init>", "12"];
        for name in all {
            assert_eq!(spelled(name), name);
        }
        let quoted = [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("0x10:4", r#""0x10:4""#),
            ("0xtext:", r#""0xtext:""#),
            ("lock:l", r#""lock:l""#),
            ("thread:", r#""thread:""#),
            ("a|b", r#""a\pb""#),
            ("\"\\\n\r\t\0\u{7f}\u{85}", r#""\"\\\n\r\t\u{0}\u{7f}\u{85}""#),
            ("\u{a0}", "\"\u{a0}\""),
            ("f(int, {x})", r#""f(int, {x})""#),
        ];
        for (name, text) in quoted {
            assert_eq!(spelled(name), text);
        }
        for name in all.into_iter().chain(quoted.iter().map(|q| q.0)) {
            let text = spelled(name).into_owned() + ",";
            let mut cursor = Cursor::new(&text);
            assert_eq!(cursor.name().unwrap(), name);
            assert_eq!(cursor.rest, ",");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            r#""x""#,
            r#""a b"#,
            r#""\u{61} b""#,
            "\"a\tb\"",
            r#""\q""#,
            r#""\u{110000}""#,
            r#""\u61""#,
            r#""\u{0A}""#,
            "lock:x",
            "",
            "(",
            r#""\"#,
            r#""\u{+9}""#,
            r#""a\u{""#,
        ] {
            assert!(Cursor::new(text).name().is_err(), "{text}");
        }
        for text in [
            "0x10:0",
            "0x010:4",
            "0x1F:4",
            "0xffffffffffffffff:2",
            "0x:1",
            "0x1:",
            "0x1:+1",
            "0x1:01",
            "0x1:1:1",
            "0x+1:1",
        ] {
            assert!(Cursor::new(text).variable().is_err(), "{text}");
        }
        for text in ["01", "+1", "-0", "9223372036854775808", "", "-", "x"] {
            assert!(Cursor::new(text).integer().is_err(), "{text}");
        }
    }
}
