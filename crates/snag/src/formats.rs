//! Formats of traces as option values, and writing traces.

use crate::failure::{Failure, Status};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use snag_formats::{Error, Format};

/// Parses the name of a format.
pub fn parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|format| {
        let help = match format {
            Format::Std => "RAPID's STD",
            Format::Text => "Snag's text format",
            Format::Snag => "Snag's binary format",
        };
        PossibleValue::new(format.name()).help(help)
    });
    PossibleValuesParser::new(names).try_map(|name| Format::by_name(&name).ok_or("no such format"))
}

/// An error of a trace writer. Such an error is text, so a closed pipe is known by its words.
pub fn writing(error: Error) -> Failure {
    const BROKEN_PIPE: i32 = 32;
    let words = std::io::Error::from_raw_os_error(BROKEN_PIPE).to_string();
    if cfg!(unix) && error.message.contains(&words) {
        return Failure::OutputClosed(Status::Clean);
    }
    Failure::from(error)
}
