//! From text to tokens.

use crate::error::{Mistake, Span};

/// A word of the language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number.
    Number(i128),
    /// A sign of one or more characters.
    Sign(&'static str),
    /// The end of the text.
    End,
}

impl Token {
    /// The token in a message.
    pub fn text(&self) -> String {
        match self {
            Token::Word(word) => format!("'{word}'"),
            Token::Number(number) => format!("'{number}'"),
            Token::Sign(sign) => format!("'{sign}'"),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

/// Longer signs stand before their beginnings.
const SIGNS: [&str; 42] = [
    "<<=", ">>=", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "+", "-", "*", "/", "%", "<", ">", "=", "!", "~", "&", "|", "^", "?", ":", ";", ",", ".", "(", ")", "{", "}",
];

const BRACKETS: [&str; 2] = ["[", "]"];

/// The tokens of a text with their places; the last one is the end.
pub fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Mistake> {
    let mut all = Vec::new();
    let mut inside_comment: Option<Span> = None;
    let mut line = 0;
    for source in text.split('\n') {
        line += 1;
        let chars: Vec<char> = source.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let span = |from: usize, to: usize| Span { line, column: from as u32 + 1, length: (to - from) as u32 };
            let pair = (chars[at], chars.get(at + 1).copied().unwrap_or(' '));
            if inside_comment.is_some() {
                if pair == ('*', '/') {
                    inside_comment = None;
                    at += 1;
                }
                at += 1;
                continue;
            }
            match pair {
                ('/', '/') => break,
                ('/', '*') => {
                    inside_comment = Some(span(at, at + 2));
                    at += 2;
                    continue;
                }
                (c, _) if c.is_whitespace() => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let from = at;
            let c = chars[at];
            if c.is_ascii_alphabetic() || c == '_' {
                while at < chars.len() && (chars[at].is_ascii_alphanumeric() || chars[at] == '_') {
                    at += 1;
                }
                all.push((Token::Word(chars[from..at].iter().collect()), span(from, at)));
            } else if c.is_ascii_digit() {
                while at < chars.len() && chars[at].is_ascii_alphanumeric() {
                    at += 1;
                }
                let digits: String = chars[from..at].iter().collect();
                let number = match digits.strip_prefix("0x") {
                    Some(hex) => i128::from_str_radix(hex, 16).ok(),
                    None => digits.parse().ok(),
                };
                match number.filter(|&number| number <= u64::MAX as i128) {
                    Some(number) => all.push((Token::Number(number), span(from, at))),
                    None => {
                        let message = format!("'{digits}' is not a number of at most 64 bits");
                        return Err(Mistake::new(span(from, at), message));
                    }
                }
            } else {
                let rest: String = chars[at..].iter().take(3).collect();
                let sign = SIGNS.into_iter().chain(BRACKETS).find(|sign| rest.starts_with(sign));
                let Some(sign) = sign else {
                    return Err(Mistake::new(span(at, at + 1), format!("'{c}' means nothing here")));
                };
                at += sign.len();
                all.push((Token::Sign(sign), span(from, at)));
            }
        }
    }
    if let Some(span) = inside_comment {
        return Err(Mistake::new(span, "this comment does not end").help("a comment ends with */"));
    }
    let column = text.split('\n').next_back().unwrap_or("").chars().count() as u32 + 1;
    all.push((Token::End, Span { line, column, length: 1 }));
    Ok(all)
}
