//! `snag check`: predict on traces, report what was found.

use crate::commands::online;
use crate::context::Context;
use crate::failure::{Failure, Status};
use crate::long;
use crate::output::Output;
use crate::survey::{self, Job};
use crate::tsan_options::TsanOptions;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use snag_formats::globals::Global;
use snag_model::Level;
use snag_pipeline::{Backend, Choice, Options, Settings};
use snag_report::html::Html;
use snag_report::json::Json;
use snag_report::sarif::Sarif;
use snag_report::text::Text;
use snag_report::{Style, Suppressions, Witnesses, live};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `snag check`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag check trace.std                          report races as text
  snag check --engine hb,shb a.std b.std        two engines, two traces
  snag check --format json -o found.json t.std  for scripts; see 'snag verify'
  snag check --format sarif -o found.sarif t.std
  snag check --candidates --engine lockset t.std  also what could not be proved
  snag check trace.snag.zst                     compressed traces as they are
  recorder | snag check -                       a trace from standard input
  recorder | snag check --online -              the same while it comes, for as long as it comes

Exit status: 0 nothing found, 1 races or deadlocks found, 2 error.")]
pub struct Args {
    /// Traces to analyse; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Print each race of a stream as soon as it is known, with bounded memory; --window N is how many events are
    /// kept at least [default: 131072]; engine tlh2, formats text and json
    #[arg(long)]
    online: bool,
    #[command(flatten)]
    analysis: Analysis,
}

/// How traces are analysed and what is reported.
#[derive(Clone, clap::Args)]
pub struct Analysis {
    /// Engines to run, in this order
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',', default_value = "auto", value_parser = engine_parser())]
    engine: Vec<Choice>,
    /// What reads of a witness must see [default: the highest that the trace supports and the engine has]
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    level: Option<Level>,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// File to write the report to, whole or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also list what an engine believes but could not prove
    #[arg(long)]
    candidates: bool,
    /// Look for races inside windows of N events; for cp, up to N events of the reduced trace apart [default: the whole
    /// trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Stop looking for more after so many seconds, and report what was found
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    budget: Option<Duration>,
    /// Leave out what this file suppresses, in ThreadSanitizer's syntax
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    /// One finding per pair of events instead of per pair of locations
    #[arg(long)]
    all_pairs: bool,
    /// cp, wcp: look at all unordered pairs, instead of treating every race as ordered once it is found; what is not
    /// proved is listed, as with --candidates
    #[arg(long)]
    all: bool,
    /// cp, wcp: look at every event, also those that cannot matter
    #[arg(long)]
    no_reduce: bool,
    /// Prove at most N races of each engine, the earliest ones, and count the others
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_races)]
    max_races: usize,
    /// Who answers the questions of the engine mc; z3 needs a build with '--features z3' and is much slower
    #[arg(long, value_name = "SOLVER", default_value = "own", value_parser = solver_parser())]
    solver: Backend,
    /// Engines other than rdit and sb take the trace as if no method were missing, to show what that does: what they
    /// then report may be impossible, and is labelled so
    #[arg(long)]
    ignore_missing: bool,
    /// Leave out what is predicted for a program of which some code was not seen, instead of labelling it
    #[arg(long)]
    strict: bool,
    /// Do not predict with waits on condition variables that end for no reason
    #[arg(long)]
    no_spurious: bool,
    /// A missing method that could also reach this (a variable, lock:NAME, thread:NAME, ...) whatever its arguments; may
    /// be given several times
    #[arg(long, value_name = "METHOD=OBJECT")]
    global: Vec<String>,
    /// Traces of up to N events are kept whole in memory; longer ones, if they are files, are read twice, and only what
    /// threads could have in common is kept [default: 8388608, and more for engines that are quick]
    #[arg(long, value_name = "N")]
    whole: Option<u64>,
    /// How witnesses are written
    #[arg(long, value_name = "FORM", default_value = "compact")]
    witness: Witness,
    /// The same as --witness full
    #[arg(long)]
    full: bool,
    /// Also show lines of source files that lie below this folder; may be given several times [default: sources below the working
    /// directory, and those of the recorded program if it is here, unchanged]
    #[arg(long, value_name = "DIR")]
    source_root: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Witness {
    /// What explains them, and in JSON how far each thread gets
    Compact,
    /// Event by event
    Full,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For scripts: docs/json.md
    Json,
    /// For code review tools: SARIF 2.1.0
    Sarif,
    /// A web page
    Html,
}

fn engine_parser() -> impl TypedValueParser<Value = Choice> {
    PossibleValuesParser::new(Choice::all().map(|choice| PossibleValue::new(choice.name())))
        .try_map(|name| Choice::by_name(&name).ok_or("this is no engine"))
}

fn level_parser() -> impl TypedValueParser<Value = Level> {
    let levels = [Level::Writer, Level::Value, Level::Control, Level::Symbolic];
    PossibleValuesParser::new(levels.map(|level| PossibleValue::new(level.word())))
        .try_map(|word| word.parse::<Level>().map_err(|_| "this is no level"))
}

fn solver_parser() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(["own", "z3"]).try_map(|name| match name.as_str() {
        "own" => Ok(Backend::Own),
        #[cfg(feature = "z3")]
        "z3" => Ok(Backend::Z3),
        _ => Err("this program was built without Z3: build it with '--features z3'"),
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a number of seconds".to_owned())
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<Status, Failure> {
    if args.online {
        return follow(context, args);
    }
    analyse(context, &args.analysis, &args.traces)
}

/// Events that the window of a stream has at least, unless the user says otherwise.
const WINDOW: u64 = 1 << 17;

/// Analyses one stream while it comes.
fn follow(context: &Context, args: &Args) -> Result<Status, Failure> {
    let Args { analysis, .. } = args;
    let [path] = args.traces.as_slice() else { return Err("--online takes one stream".to_owned().into()) };
    let fits = [Choice::Auto, snag_pipeline::online::ENGINE.into()];
    if !matches!(analysis.engine.as_slice(), [engine] if fits.contains(engine)) {
        return Err("--online works with the engine tlh2 only".to_owned().into());
    }
    if analysis.level.is_some_and(|level| level != Level::Writer) {
        return Err("--online proves races at level 'writer' only".to_owned().into());
    }
    let unsupported = [
        (analysis.budget.is_some(), "--budget"),
        (analysis.suppressions.is_some(), "--suppressions"),
        (analysis.all_pairs, "--all-pairs"),
        (analysis.all, "--all"),
        (analysis.full, "--full"),
        (analysis.witness == Witness::Full, "--witness full"),
        (analysis.no_reduce, "--no-reduce"),
        (analysis.ignore_missing, "--ignore-missing"),
        (analysis.strict, "--strict"),
        (!analysis.global.is_empty(), "--global"),
        (analysis.whole.is_some(), "--whole"),
        (!analysis.source_root.is_empty(), "--source-root"),
    ];
    if let Some((_, option)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(format!("{option} does not go with --online").into());
    }
    let window = usize::try_from(analysis.window.unwrap_or(WINDOW)).unwrap_or(usize::MAX);
    let wishes = online::Wishes { window, most: analysis.max_races, candidates: analysis.candidates };
    survey::replaces_none(analysis.output.as_deref(), &args.traces)?;
    if !matches!(analysis.format, Format::Text | Format::Json) {
        return Err("--online writes text or JSON".to_owned().into());
    }
    let mut output = Output::open(analysis.output.as_deref())?;
    let to_file = analysis.output.as_deref().is_some_and(|path| path != Path::new("-"));
    let status = match analysis.format {
        Format::Text => {
            let mut report = live::Text::new(&mut output, context.style(to_file));
            online::run(context, path, &wishes, &mut report)?
        }
        Format::Json => {
            let mut report = live::Json::new(&mut output, &crate::input::name(path));
            online::run(context, path, &wishes, &mut report)?
        }
        Format::Sarif | Format::Html => unreachable!("refused above"),
    };
    output.commit().map_err(|failure| failure.with_status(status))?;
    Ok(status)
}

/// Analyses traces and reports.
pub fn analyse(context: &Context, args: &Analysis, traces: &[PathBuf]) -> Result<Status, Failure> {
    survey::replaces_none(args.output.as_deref(), traces)?;
    args.prepare()?.analyse(context, traces)
}

/// An analysis whose options are known to be good: their files can be read, that of the report can be written.
pub struct Prepared<'a> {
    args: &'a Analysis,
    confirm: Option<&'a [OsString]>,
    suppressions: Option<Suppressions>,
    globals: Vec<Global>,
    output: Output,
}

impl Analysis {
    /// Everything that can be said about the options before there is a trace.
    pub fn prepare(&self) -> Result<Prepared<'_>, Failure> {
        if !self.engine.iter().any(|engine| engine.reduces()) {
            let idle = [(self.all, "--all"), (self.no_reduce, "--no-reduce")];
            if let Some((_, option)) = idle.iter().find(|(given, _)| *given) {
                return Err(format!("{option} is for the engines cp and wcp, and none of them is to run").into());
            }
        }
        for folder in &self.source_root {
            folder_is_there(folder)?;
        }
        Ok(Prepared {
            args: self,
            confirm: None,
            suppressions: self.suppressions.as_deref().map(read_suppressions).transpose()?,
            globals: snag_formats::globals::parse(&self.global)?,
            output: Output::open(self.output.as_deref())?,
        })
    }

    /// The same with what `TSAN_OPTIONS` says and no flag does.
    pub fn or(&self, options: &TsanOptions) -> Analysis {
        let mut analysis = self.clone();
        analysis.suppressions = analysis.suppressions.or_else(|| options.suppressions.clone());
        analysis.output = analysis.output.or_else(|| options.report_file());
        if options.halt_on_error {
            analysis.max_races = analysis.max_races.min(1);
        }
        analysis
    }

    /// The same once the program has said what it has built in: its options apply where nobody else has said anything.
    pub fn with_built_in(&self, options: &TsanOptions) -> Analysis {
        Analysis { output: self.output.clone(), ..self.or(options) }
    }

    /// The same for an analysis of a recording.
    pub fn prepare_for_recording(&self) -> Result<Prepared<'_>, Failure> {
        if self.level == Some(Level::Symbolic) {
            return Err("level 'symbolic' needs expressions, and recordings of programs have none".to_owned().into());
        }
        self.prepare()
    }

    /// The same analysis if another folder becomes the current one.
    pub fn seen_from_here(self) -> Result<Analysis, String> {
        let absolute = |path: PathBuf| match path == Path::new("-") {
            true => Ok(path),
            false => std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display())),
        };
        let source_root = self.source_root.into_iter().map(absolute).collect::<Result<_, _>>()?;
        let output = self.output.map(absolute).transpose()?;
        let suppressions = self.suppressions.map(absolute).transpose()?;
        Ok(Analysis { source_root, output, suppressions, ..self })
    }

    /// Where the report goes, if not to standard output.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Whether standard output is for scripts: nothing else may be printed there.
    pub fn owns_stdout(&self) -> bool {
        self.file().is_none() && self.format != Format::Text
    }
}

impl<'a> Prepared<'a> {
    /// The same with replays of this program that confirm what is found.
    pub fn confirming(self, command: Option<&'a [OsString]>) -> Prepared<'a> {
        Prepared { confirm: command, ..self }
    }

    /// The same with what a recorded program says about its reports: its options, and suppressions beside the user's.
    pub fn with_wishes(self, args: &'a Analysis, suppressions: &str) -> Result<Prepared<'a>, Failure> {
        let Prepared { args: before, confirm, suppressions: known, globals, output } = self;
        let mut known = match known {
            None if args.suppressions != before.suppressions => {
                args.suppressions.as_deref().map(read_suppressions).transpose()?
            }
            known => known,
        };
        if !suppressions.trim().is_empty() {
            let built_in = Suppressions::parse(suppressions)
                .map_err(|(line, message)| format!("__tsan_default_suppressions: line {line}: {message}"))?;
            known.get_or_insert_default().add(built_in);
        }
        Ok(Prepared { args, confirm, suppressions: known, globals, output })
    }

    /// Analyses traces and reports.
    pub fn analyse(self, context: &Context, traces: &[PathBuf]) -> Result<Status, Failure> {
        let Prepared { args, confirm, suppressions, globals, output } = self;
        let full = args.full || args.witness == Witness::Full;
        let style = Style { full, headings: traces.len() > 1, ..context.style(!output.is_stdout()) };
        let job = Job {
            traces,
            options: options(context, args),
            one_by_one: false,
            suppressions,
            globals,
            whole: args.whole.unwrap_or_else(|| match args.budget {
                None => long::whole_for(context, &args.engine),
                Some(_) => long::whole_in_a_hurry(context),
            }),
            source_roots: &args.source_root,
            strict: args.strict,
            confirm,
        };
        survey::run(context, &job, output, |out| match args.format {
            Format::Text => Box::new(Text::new(out, style)),
            Format::Json => Box::new(Json::new(out, if full { Witnesses::Full } else { Witnesses::Compact })),
            Format::Sarif => Box::new(Sarif::new(out)),
            Format::Html => Box::new(Html::new(out, full)),
        })
    }
}

fn options(context: &Context, args: &Analysis) -> Options {
    let mut engines = Vec::new();
    for &engine in &args.engine {
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    Options {
        engines,
        candidates: args.candidates || args.all,
        memory: context.most_memory,
        ignore_missing: args.ignore_missing,
        spurious: !args.no_spurious,
        settings: Settings {
            level: args.level,
            window: args.window.map(|events| usize::try_from(events).unwrap_or(usize::MAX)),
            budget: args.budget,
            all_pairs: args.all_pairs,
            all: args.all,
            reduce: !args.no_reduce,
            anew: false,
            max_races: args.max_races,
            solver: args.solver,
            jobs: context.jobs,
            ..Settings::default()
        },
        ..Options::default()
    }
}

/// Refuses a folder of sources that is none.
pub fn folder_is_there(folder: &Path) -> Result<(), String> {
    match std::fs::metadata(folder) {
        Ok(data) if data.is_dir() => Ok(()),
        Ok(_) => Err(format!("--source-root {}: it is no folder", folder.display())),
        Err(error) => Err(format!("--source-root {}: {}", folder.display(), snag_formats::why_not_created(&error))),
    }
}

fn read_suppressions(path: &Path) -> Result<Suppressions, String> {
    let cannot = |error| format!("{}: cannot read: {}", path.display(), snag_formats::why(&error));
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    Suppressions::parse(&text).map_err(|(line, message)| format!("{}: line {line}: {message}", path.display()))
}
