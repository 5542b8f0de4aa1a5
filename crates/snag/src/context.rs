//! What the global options and the terminal decide, and messages to the user.

use crate::cli::{Global, When};
use crate::progress::Bars;
use crate::say;
use anstream::{AutoStream, ColorChoice};
use snag_report::{Style, printable};
use std::io::{self, IsTerminal};

/// Columns of text that does not go to a terminal.
const PIPED_WIDTH: usize = 100;

/// Bytes of memory that a trace may take beside its events, unless the user says otherwise.
const MEMORY: u64 = 512 << 20;

/// One invocation's surroundings.
#[derive(Clone)]
pub struct Context {
    /// No warnings, progress or summaries.
    pub quiet: bool,
    /// Say more.
    pub verbose: bool,
    /// Threads to use.
    pub jobs: usize,
    /// Bytes of memory that a trace may take beside its events.
    pub memory: u64,
    /// Bytes of memory that this process may take in all, if the user says so.
    pub most_memory: Option<u64>,
    colour: Colour,
    bars: bool,
}

#[derive(Clone, Copy)]
enum Colour {
    Auto,
    Always,
    Never,
}

impl Context {
    /// From the options that every command takes.
    pub fn new(global: &Global) -> Context {
        let colour = match global.color {
            When::Auto => Colour::Auto,
            When::Always => Colour::Always,
            When::Never => Colour::Never,
        };
        let watched = global.progress.is_auto() && !global.quiet && io::stderr().is_terminal();
        let jobs = global.jobs.map(usize::from);
        let jobs = jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
        let Global { quiet, verbose, memory, .. } = *global;
        let (memory, most_memory) = (memory.unwrap_or(MEMORY), memory);
        Context { quiet, verbose, jobs, memory, most_memory, colour, bars: watched }
    }

    /// How text looks: `to_file` if it goes to a file instead of standard output.
    pub fn style(&self, to_file: bool) -> Style {
        let stdout = io::stdout();
        let colour = match self.colour {
            Colour::Always => true,
            Colour::Never => false,
            // Looks at NO_COLOR, TERM and whether this is a terminal.
            Colour::Auto => !to_file && AutoStream::choice(&stdout) != ColorChoice::Never,
        };
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let terminal = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0 as usize);
        let width = match to_file {
            true => PIPED_WIDTH,
            false => columns.or_else(terminal).filter(|&width| width > 0).unwrap_or(PIPED_WIDTH),
        };
        Style { width, colour, unicode: to_file || speaks_unicode(), quiet: self.quiet, ..Style::default() }
    }

    /// Progress bars, if anybody watches.
    pub fn bars(&self) -> Bars {
        Bars::new(self.bars)
    }

    /// Something is wrong.
    pub fn error(&self, message: &str) {
        say::line(&format!("snag: error: {}", printable(message)));
    }

    /// Something may be wrong.
    pub fn warn(&self, message: &str) {
        if !self.quiet {
            self.insist(message);
        }
    }

    /// Something is missing, which even those want to know who want to hear little.
    pub fn insist(&self, message: &str) {
        say::line(&format!("snag: warning: {}", printable(message)));
    }

    /// What was done.
    pub fn note(&self, message: &str) {
        if !self.quiet {
            say::line(&format!("snag: {}", printable(message)));
        }
    }

    /// Something for those who asked for more.
    pub fn detail(&self, message: &str) {
        if self.verbose && !self.quiet {
            say::line(&format!("snag: {}", printable(message)));
        }
    }
}

/// Whether the locale is one in which UTF-8 can be shown; the first variable that is set decides.
fn speaks_unicode() -> bool {
    let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| set(name));
    let locale = locale.and_then(|name| std::env::var(name).ok()).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
