//! How text looks. Whoever calls decides; nothing here asks the terminal.

use anstyle::{AnsiColor, Effects};
use std::fmt;

/// Choices for text output.
#[derive(Clone, Debug)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Colours and bold.
    pub colour: bool,
    /// Signs outside ASCII.
    pub unicode: bool,
    /// Witnesses in full, event by event.
    pub full: bool,
    /// Findings alone, no summary.
    pub quiet: bool,
    /// A heading before each trace, for when there are several.
    pub headings: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style { width: 100, colour: false, unicode: true, full: false, quiet: false, headings: false }
    }
}

impl Style {
    /// Something found.
    pub(crate) fn alarm(&self, text: fmt::Arguments) -> String {
        self.paint(AnsiColor::Red.on_default() | Effects::BOLD, text)
    }

    /// Something to be careful about.
    pub(crate) fn warn(&self, text: fmt::Arguments) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// What is read first.
    pub(crate) fn bold(&self, text: fmt::Arguments) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    /// What may be skipped.
    pub(crate) fn dim(&self, text: fmt::Arguments) -> String {
        self.paint(anstyle::Style::new().dimmed(), text)
    }

    /// The sign for something left out.
    pub(crate) fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    /// The sign that points at a row.
    pub(crate) fn arrow(&self) -> &'static str {
        if self.unicode { "◀" } else { "<==" }
    }

    fn paint(&self, style: anstyle::Style, text: fmt::Arguments) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
