//! What is wrong with a program, and where.

use std::fmt;

/// A place in the text: line and column from 1, and how many characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Characters.
    pub length: u32,
}

/// A mistake in a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What would be right, where that is known.
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake without advice.
    pub fn new(span: Span, message: impl Into<String>) -> Mistake {
        Mistake { span, message: message.into(), help: None }
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Mistake {
        self.help = Some(help.into());
        self
    }

    /// As a compiler shows it: file, line and column, the line itself, and a caret under the place.
    pub fn show<'a>(&'a self, file: &'a str, text: &'a str) -> Shown<'a> {
        Shown { mistake: self, file, text }
    }
}

/// What is shown of a line that is too long to be shown, and the column in that.
fn excerpt(line: &str, column: u32) -> (String, u32) {
    const WIDTH: usize = 120;
    if line.chars().count() <= WIDTH {
        return (line.to_owned(), column);
    }
    let from = (column as usize - 1).saturating_sub(WIDTH / 2);
    let part: String = line.chars().skip(from).take(WIDTH).collect();
    (part, column - from as u32)
}

/// A mistake with its surroundings; see [`Mistake::show`].
pub struct Shown<'a> {
    mistake: &'a Mistake,
    file: &'a str,
    text: &'a str,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { line, column, length } = self.mistake.span;
        writeln!(f, "{}:{line}:{column}: {}", self.file, self.mistake.message)?;
        let (source, column) = excerpt(self.text.lines().nth(line as usize - 1).unwrap_or(""), column);
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs, so that the caret stands under its place whatever their width.
        let before: String =
            source.chars().take(column as usize - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {source}")?;
        write!(f, "{margin} | {before}{}", "^".repeat(length.max(1) as usize))?;
        if let Some(help) = &self.mistake.help {
            write!(f, "\n{margin} = {help}")?;
        }
        Ok(())
    }
}
