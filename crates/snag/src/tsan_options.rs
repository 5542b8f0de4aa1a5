//! `TSAN_OPTIONS`: what users of ThreadSanitizer have there and means something here. What a flag of ours says goes
//! before it; the rest is named once.

use crate::context::Context;
use std::path::PathBuf;
use std::sync::Once;

/// What the variable says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TsanOptions {
    /// `suppressions`
    pub suppressions: Option<PathBuf>,
    /// `exitcode`: the status if something was found; 0 is that of the program.
    pub exit_code: Option<u8>,
    /// `log_path`: the start of the name of the file for the report.
    pub log_path: Option<PathBuf>,
    /// `halt_on_error`: the first finding is enough.
    pub halt_on_error: bool,
    /// `report_bugs=0`: nobody wants to know.
    pub silent: bool,
    /// Options without a meaning here, and values that are none.
    ignored: Vec<String>,
}

impl TsanOptions {
    /// Those of the environment. What has no meaning here is said.
    pub fn of_environment(context: &Context) -> TsanOptions {
        let text = std::env::var_os("TSAN_OPTIONS").unwrap_or_default();
        TsanOptions::of(context, &text.to_string_lossy())
    }

    /// The same after those that the recorded program has built in.
    pub fn after(context: &Context, built_in: &str) -> TsanOptions {
        let text = std::env::var_os("TSAN_OPTIONS").unwrap_or_default();
        TsanOptions::of(context, &format!("{built_in} {}", text.to_string_lossy()))
    }

    fn of(context: &Context, text: &str) -> TsanOptions {
        let options = TsanOptions::parse(text);
        static SAID: Once = Once::new();
        if !options.ignored.is_empty() {
            SAID.call_once(|| {
                context.note(&format!("TSAN_OPTIONS: without effect here: {}", options.ignored.join(", ")))
            });
        }
        options
    }

    fn parse(text: &str) -> TsanOptions {
        let mut options = TsanOptions::default();
        for (name, value) in pairs(text) {
            if !options.take(&name, &value) {
                options.ignored.push(name);
            }
        }
        options
    }

    fn take(&mut self, name: &str, value: &str) -> bool {
        match (name, value) {
            ("suppressions", _) if !value.is_empty() => self.suppressions = Some(value.into()),
            ("exitcode", _) => match value.parse() {
                Ok(code) => self.exit_code = Some(code),
                Err(_) => return false,
            },
            // The report goes to standard output here, as that of any other command.
            ("log_path", "stdout" | "stderr") => self.log_path = None,
            ("log_path", _) if !value.is_empty() => self.log_path = Some(value.into()),
            ("halt_on_error", _) => match switch(value) {
                Some(on) => self.halt_on_error = on,
                None => return false,
            },
            ("report_bugs", _) => match switch(value) {
                Some(on) => self.silent = !on,
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// The file for the report. Each process has its own.
    pub fn report_file(&self) -> Option<PathBuf> {
        let mut name = self.log_path.clone()?.into_os_string();
        name.push(format!(".{}", std::process::id()));
        Some(name.into())
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "1" | "true" | "yes" => Some(true),
        "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// `name=value`, one after the other, between blanks, commas and colons. A value may be quoted.
fn pairs(text: &str) -> Vec<(String, String)> {
    let is_between = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ':');
    let mut all = Vec::new();
    let mut rest = text.trim_start_matches(is_between);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter == '=' || is_between(letter)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        let value;
        (value, rest) = match rest[end..].strip_prefix('=') {
            None => ("", &rest[end..]),
            Some(after) => match after.chars().next().filter(|letter| matches!(letter, '"' | '\'')) {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => after.split_at(after.find(is_between).unwrap_or(after.len())),
            },
        };
        all.push((name, value.to_owned()));
        rest = rest.trim_start_matches(is_between);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_here_is_taken() {
        let options = TsanOptions::parse("suppressions=a/b.supp exitcode=7,halt_on_error=1:log_path='my log'");
        assert_eq!(options.suppressions, Some("a/b.supp".into()));
        assert_eq!((options.exit_code, options.halt_on_error, options.silent), (Some(7), true, false));
        assert_eq!(options.log_path, Some("my log".into()));
        assert_eq!(options.ignored, [""; 0]);
        let name = options.report_file().unwrap();
        assert_eq!(name, PathBuf::from(format!("my log.{}", std::process::id())));
        assert!(TsanOptions::parse("report_bugs=0").silent);
    }

    #[test]
    fn the_rest_is_named() {
        let options =
            TsanOptions::parse(" history_size=7 exitcode=many second_deadlock_stack=1 halt_on_error=2 verbose");
        assert_eq!(options.ignored, ["history_size", "exitcode", "second_deadlock_stack", "halt_on_error", "verbose"]);
        let ignored = options.ignored;
        assert_eq!(TsanOptions { ignored, ..TsanOptions::default() }.exit_code, None);
    }

    #[test]
    fn nothing_and_separators_alone_say_nothing() {
        for text in ["", " ", ":,\n"] {
            assert_eq!(TsanOptions::parse(text), TsanOptions::default(), "{text:?}");
        }
        assert_eq!(pairs("a='b:c'd=\"x"), [("a".into(), "b:c".into()), ("d".into(), "x".into())]);
    }
}
