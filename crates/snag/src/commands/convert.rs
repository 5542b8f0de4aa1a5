//! `snag convert`: from one format to another, event for event.
//!
//! Streams. The new file appears when it is complete; what the new format cannot
//! express is an error, never left out.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::formats;
use crate::input::{self, Source};
use crate::interrupt;
use snag_formats::{Format, WriteOptions};
use std::path::PathBuf;

/// Options of `snag convert`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag convert trace.std trace.snag        formats by extension: .std, .stx (Snag's text), .snag
  snag convert trace.snag.zst trace.stx    compressed files (.gz, .zst, .lz4) as they are
  snag convert --to std trace.snag -       to standard output
  snag convert --no-compress t.std t.snag  larger, and faster to read")]
pub struct Args {
    /// The trace to read; - is standard input
    #[arg(value_name = "IN")]
    from_path: PathBuf,
    /// The file to write; - is standard output
    #[arg(value_name = "OUT")]
    to_path: PathBuf,
    /// Format of IN [default: found out from its first bytes]
    #[arg(long, value_name = "FORMAT", value_parser = formats::parser())]
    from: Option<Format>,
    /// Format of OUT [default: by its extension]
    #[arg(long, value_name = "FORMAT", value_parser = formats::parser())]
    to: Option<Format>,
    /// Do not compress the blocks of a .snag file
    #[arg(long)]
    no_compress: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    interrupt::listen(interrupt::Then::WriteNothing)?;
    let source = Source::open(context, &args.from_path, args.from).map_err(|problem| input::message(&problem))?;
    let mut source = source.for_writing();
    let options = WriteOptions { compress: !args.no_compress };
    let mut writer = snag_formats::create(&args.to_path, args.to, options)?;
    source.stream(context, "converting", |events, tables| writer.write(events, tables).map_err(formats::writing))?;
    writer.finish(source.tables()).map_err(formats::writing)?;
    Ok(Status::Clean)
}
