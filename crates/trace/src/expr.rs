//! Expressions of symbolic traces, as text.
//!
//! An expression is an integer, a symbol, or an operator applied to expressions
//! in prefix form: `(+ a 1)`, `(< (* a b) 10)`. This file knows their syntax and
//! which symbols they use; evaluation belongs to the symbolic engine.

/// Operators and how many operands they take.
const OPERATORS: &[(&str, std::ops::RangeInclusive<usize>)] = &[
    ("+", 2..=usize::MAX),
    ("-", 1..=usize::MAX),
    ("*", 2..=usize::MAX),
    ("/", 2..=2),
    ("%", 2..=2),
    ("=", 2..=2),
    ("!=", 2..=2),
    ("<", 2..=2),
    ("<=", 2..=2),
    (">", 2..=2),
    (">=", 2..=2),
    ("and", 2..=usize::MAX),
    ("or", 2..=usize::MAX),
    ("not", 1..=1),
    ("ite", 3..=3),
    ("bitand", 2..=2),
    ("bitor", 2..=2),
    ("bitxor", 2..=2),
    ("bitnot", 1..=1),
    ("shl", 2..=2),
    ("shr", 2..=2),
];

/// Nesting beyond this is refused, so that no input can exhaust the stack.
const DEEPEST: usize = 256;

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

/// Calls `used` for every symbol of an expression, or says what is wrong with it.
/// Exactly one blank separates operator and operands.
pub fn symbols(text: &str, mut used: impl FnMut(&str)) -> Result<(), String> {
    let rest = expression(text, 0, &mut used)?;
    if rest.is_empty() { Ok(()) } else { Err(format!("unexpected '{rest}' after the expression")) }
}

fn expression<'a>(text: &'a str, depth: usize, used: &mut impl FnMut(&str)) -> Result<&'a str, String> {
    if depth > DEEPEST {
        return Err(format!("expression nested deeper than {DEEPEST}"));
    }
    let Some(inner) = text.strip_prefix('(') else {
        let end = text.find([' ', ')', '(']).unwrap_or(text.len());
        let atom = &text[..end];
        if is_symbol(atom) {
            used(atom);
        } else if parse_integer(atom).is_none() {
            return Err(format!("'{atom}' is neither a symbol nor an integer"));
        }
        return Ok(&text[end..]);
    };
    let end = inner.find([' ', ')']).ok_or("unclosed '('")?;
    let operator = &inner[..end];
    let (_, operands) =
        OPERATORS.iter().find(|(name, _)| *name == operator).ok_or(format!("unknown operator '{operator}'"))?;
    let mut rest = &inner[end..];
    let mut count = 0;
    while let Some(next) = rest.strip_prefix(' ') {
        rest = expression(next, depth + 1, used)?;
        count += 1;
    }
    if !operands.contains(&count) {
        return Err(format!("'{operator}' does not take {count} operands"));
    }
    rest.strip_prefix(')').ok_or_else(|| "missing ')'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(text: &str) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        symbols(text, |s| all.push(s.to_owned()))?;
        Ok(all)
    }

    #[test]
    fn symbols_are_listed_in_order() {
        assert_eq!(used("(+ a (ite (< b.1 3) a -4))"), Ok(vec!["a".into(), "b.1".into(), "a".into()]));
        assert_eq!(used("7"), Ok(vec![]));
    }

    #[test]
    fn what_is_not_an_expression_is_named() {
        for (text, wrong) in [
            ("", "neither"),
            ("01", "neither"),
            ("-0", "neither"),
            ("(+ a)", "does not take 1"),
            ("(frob a b)", "unknown operator"),
            ("(+ a 1", "missing ')'"),
            ("(+ a 1) 2", "after the expression"),
            ("(+  a 1)", "neither"),
            ("(", "unclosed"),
        ] {
            let error = used(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
        let deep = "(not ".repeat(300) + "a" + &")".repeat(300);
        assert!(used(&deep).unwrap_err().contains("deeper"));
    }
}
