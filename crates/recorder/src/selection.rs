//! Which functions of a program are left out of a recording, although they have callbacks.

use std::fmt;
use std::str::FromStr;

/// What functions are called: a name as the linker or as the source has it, in which a `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        match text {
            "" => Err("a function's name is expected, which may have a '*'".to_owned()),
            _ => Ok(Pattern(text.to_owned())),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or("");
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// Which functions are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Functions that are left out.
    pub without: Vec<Pattern>,
    /// If there are any, all others are left out.
    pub only: Vec<Pattern>,
}

impl Selection {
    /// Whether all functions are recorded.
    pub fn is_all(&self) -> bool {
        self.without.is_empty() && self.only.is_empty()
    }

    /// Whether the function with this symbol is left out.
    pub fn leaves_out(&self, symbol: &[u8]) -> bool {
        if self.is_all() {
            return false;
        }
        let symbol = String::from_utf8_lossy(symbol);
        let whole = crate::symbols::demangle(&symbol);
        let names = [&*symbol, &whole, without_hash(&whole), without_parameters(&whole)];
        let is_in =
            |patterns: &[Pattern]| patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)));
        is_in(&self.without) || !self.only.is_empty() && !is_in(&self.only)
    }
}

/// A name of Rust's without what tells it from others of that name.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// A name of C++ without its parameters.
fn without_parameters(name: &str) -> &str {
    if !name.ends_with([')', 't']) {
        return name;
    }
    let mut depth = 0;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 1 => return &name[..at],
            b'(' => depth -= 1,
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(without: &[&str], only: &[&str]) -> Selection {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Selection { without: patterns(without), only: patterns(only) }
    }

    #[test]
    fn a_star_stands_for_anything() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        for (pattern, name) in [("f", "f"), ("*", "f"), ("f*", "f"), ("*f", "of"), ("a*b*c", "abbc"), ("a*b*", "axb")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("f", "ff"), ("f*g", "f"), ("ab*ba", "aba"), ("a*b*c", "acb"), ("*f", "fo")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!("".parse::<Pattern>().is_err());
    }

    #[test]
    fn functions_are_named_as_the_linker_or_the_source_has_them() {
        let out = |selection: &Selection, symbol: &str| selection.leaves_out(symbol.as_bytes());
        let symbol = "_ZN2ns1fEi";
        for pattern in ["_ZN2ns1fEi", "ns::f", "ns::f(int)", "ns::*", "*f*"] {
            assert!(out(&selection(&[pattern], &[]), symbol), "{pattern}");
            assert!(!out(&selection(&[], &[pattern]), symbol), "{pattern}");
        }
        assert!(!out(&selection(&["f"], &[]), symbol) && out(&selection(&[], &["f"]), symbol));
        assert!(out(&selection(&["ns::g"], &[]), "_ZNK2ns1gEPFvvE") && !out(&Selection::default(), symbol));
        assert!(out(&selection(&["one::two"], &[]), "_ZN3one3two17h0123456789abcdefE"));
        // What is left out is left out of what is chosen, too.
        assert!(out(&selection(&["ns::f"], &["ns::*"]), symbol));
    }
}
