//! `snag generate`: synthetic well-formed traces for tests and benchmarks.

use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::formats;
use crate::input::Source;
use crate::interrupt;
use snag_formats::{Format, TraceReader, WriteOptions};
use snag_synthesis::generate::{Generator, Shape};
use std::path::{Path, PathBuf};

/// Options of `snag generate`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag generate --events 1000000 -o big.snag
  snag generate --threads 3 --locks 2 --racy 0.01 --seed 7 > small.std
  snag generate --values --branches 0.2 -o trace.stx

The same options give the same trace on every machine.")]
pub struct Args {
    /// File to write; its extension tells the format [default: standard output, in STD]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the trace [default: by the extension of the file]
    #[arg(long, value_name = "FORMAT", value_parser = formats::parser())]
    to: Option<Format>,
    /// Do not compress the blocks of a .snag file
    #[arg(long)]
    no_compress: bool,
    /// Number of events, about
    #[arg(long, value_name = "N", default_value_t = Shape::default().events)]
    events: usize,
    /// Number of threads; the first one forks and joins the others
    #[arg(long, value_name = "N", default_value_t = Shape::default().threads, value_parser = at_least_one)]
    threads: usize,
    /// Number of locks
    #[arg(long, value_name = "N", default_value_t = Shape::default().locks)]
    locks: usize,
    /// Number of variables that a lock protects
    #[arg(long, value_name = "N", default_value_t = Shape::default().variables)]
    variables: usize,
    /// Number of variables of each thread's own
    #[arg(long, value_name = "N", default_value_t = Shape::default().local_variables)]
    local_variables: usize,
    /// How deep critical sections nest at the most
    #[arg(long, value_name = "N", default_value_t = Shape::default().nesting)]
    nesting: usize,
    /// Accesses in a critical section, on average
    #[arg(long, value_name = "N", default_value_t = Shape::default().section, value_parser = at_least_one)]
    section: usize,
    /// Share of accesses that read, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Shape::default().reads, value_parser = share)]
    reads: f64,
    /// Share of accesses that nothing protects, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Shape::default().racy, value_parser = share)]
    racy: f64,
    /// Number of source locations
    #[arg(long, value_name = "N", default_value_t = Shape::default().locations, value_parser = at_least_one)]
    locations: usize,
    /// Give accesses values; STD cannot express them
    #[arg(long)]
    values: bool,
    /// Share of reads that a branch follows, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Shape::default().branches, value_parser = share)]
    branches: f64,
    /// Number of variables that nothing protects
    #[arg(long, value_name = "N", default_value_t = Shape::default().racy_variables, value_parser = at_least_one)]
    racy_variables: usize,
    /// Share of accesses that are atomic, to flags that all threads share, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Shape::default().atomics, value_parser = share)]
    atomics: f64,
    /// Mark which method does what, for 'snag punch'
    #[arg(long)]
    calls: bool,
    /// Say what is part of one object: a lock and what it protects, for 'snag punch --reach arguments'
    #[arg(long)]
    objects: bool,
    /// Everything random comes from this
    #[arg(long, value_name = "N", default_value_t = Shape::default().seed)]
    seed: u64,
}

/// Parses a number that is not 0.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "not a number from 1 on".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n| (0.0..=1.0).contains(n)).ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    let shape = shape(args)?;
    interrupt::listen(interrupt::Then::WriteNothing)?;
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let format = args.to.or((path == Path::new("-")).then_some(Format::Std));
    let mut writer = snag_formats::create(path, format, WriteOptions { compress: !args.no_compress })?;
    let reader = TraceReader::new(Box::new(Generator::new(shape)), None);
    let mut source = Source::new("generated trace", reader);
    source.stream(context, "generating", |events, tables| writer.write(events, tables).map_err(formats::writing))?;
    writer.finish(source.tables()).map_err(formats::writing)?;
    Ok(Status::Clean)
}

fn shape(args: &Args) -> Result<Shape, String> {
    let sections = args.locks > 0 && args.nesting > 0;
    let per_thread = args.threads.saturating_mul(args.local_variables.saturating_add(1));
    let shared = args.variables.saturating_add(args.locks).saturating_add(args.locations);
    let shared = shared.saturating_add(args.racy_variables.saturating_mul(4));
    if per_thread.saturating_add(shared) > 100_000_000 {
        return Err("more than 100 million threads, locks, variables and locations".to_owned());
    }
    let least = args.threads.saturating_mul(2) - 1;
    if args.events < least {
        return Err(format!(
            "{} events are too few for {} threads: to fork and join them takes {}, and something should happen",
            args.events,
            args.threads,
            least - 1
        ));
    }
    if !sections && args.local_variables == 0 && args.racy == 0.0 {
        return Err("nothing to generate: no locks, no variables of threads' own and no racy accesses".to_owned());
    }
    Ok(Shape {
        events: args.events,
        threads: args.threads,
        locks: args.locks,
        variables: args.variables,
        local_variables: args.local_variables,
        nesting: args.nesting,
        section: args.section,
        reads: args.reads,
        racy: args.racy,
        locations: args.locations,
        values: args.values,
        branches: args.branches,
        racy_variables: args.racy_variables,
        atomics: args.atomics,
        calls: args.calls,
        objects: args.objects,
        seed: args.seed,
    })
}
