//! The smallest parts of expressions, as text: symbols and integers.
//!
//! An expression is an integer, a symbol, or an operator applied to expressions
//! in prefix form: `(+ a 1)`, `(< (* a b) 10)`. Types and meaning belong to
//! [`crate::symbolic`].

/// Nesting beyond this is refused, so that no input can exhaust the stack.
pub const DEEPEST: usize = 256;

/// Whether `text` is a symbol: a letter or `_`, then letters, digits, `_`, `.` or `$`.
pub fn is_symbol(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
}

/// An integer in its only spelling: no plus sign, no leading zero, no `-0`.
pub fn parse_integer(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}
