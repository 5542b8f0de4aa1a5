//! Making text fit columns of a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns a text takes.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// The text and as many blanks as fill `width` columns.
pub fn pad_right(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(display_width(text))))
}

/// As many blanks as fill `width` columns, and the text.
pub fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(display_width(text))))
}

/// The text in at most `width` columns: its middle is left out where it is too
/// long, because names differ at their ends.
pub fn shorten(text: &str, width: usize, ellipsis: &str) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(display_width(ellipsis)).filter(|&room| room > 0) else {
        return take(text.chars(), width).into_iter().collect();
    };
    let tail: Vec<char> = take(text.chars().rev(), room.div_ceil(2));
    let used: usize = tail.iter().map(|&c| c.width().unwrap_or(0)).sum();
    let head: String = take(text.chars(), room - used).into_iter().collect();
    let tail: String = tail.into_iter().rev().collect();
    format!("{head}{ellipsis}{tail}")
}

/// A text in lines of at most `width` columns, unless a word is longer.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if display_width(line) + 1 + display_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn take(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("abcdef", 6, "…"), "abcdef");
        assert_eq!(shorten("abcdefgh", 5, "…"), "ab…gh");
        assert_eq!(shorten("abcdefgh", 6, "..."), "a...gh");
        assert_eq!(shorten("abcdefgh", 2, "..."), "ab");
        assert_eq!(shorten("名前名前名前", 7, "…"), "名前…前");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("a bc def g", 4), ["a bc", "def", "g"]);
        assert_eq!(wrap("a verylongword b", 5), ["a", "verylongword", "b"]);
    }

    #[test]
    fn whatever_the_width_the_result_fits() {
        for text in ["", "a", "src/very/long/path/to/file.c:100", "名前名前名前", "e\u{301}e\u{301}e\u{301}"] {
            for width in 0..40 {
                for ellipsis in ["…", "..."] {
                    assert!(display_width(&shorten(text, width, ellipsis)) <= width);
                }
            }
        }
        assert_eq!((pad_left("é", 3), pad_right("名", 3)), ("  é".to_owned(), "名 ".to_owned()));
    }
}
