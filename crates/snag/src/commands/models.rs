//! `snag models`: what is known about libraries that are not instrumented.

use crate::failure::{Failure, Status};
use crate::output::Output;
use snag_models::{EFFECTS, Model, Models};
use std::io::Write;
use std::path::Path;

/// Options of `snag models`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  snag models                       the libraries that are known
  snag models GLib                  what is known about one, as a file that --model takes
  snag models --effects             what a model can say about a function
  snag models --model lib.toml      check a file
  snag record --model lib.toml -- ./prog")]
pub struct Args {
    /// The library to show, as the list calls it
    #[arg(value_name = "LIBRARY", conflicts_with = "effects")]
    library: Option<String>,
    /// List what a model can say about a function
    #[arg(long)]
    effects: bool,
    /// Read this model as well; may be repeated
    #[arg(long = "model", value_name = "FILE", value_parser = read)]
    models: Vec<Model>,
}

/// Reads a model that an option names.
pub fn read(path: &str) -> Result<Model, String> {
    Model::read(Path::new(path)).map_err(|error| error.to_string())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Status, Failure> {
    let models = Models::with(args.models.iter().cloned());
    let mut output = Output::open(None)?;
    match &args.library {
        Some(name) => {
            let known = |model: &&Model| model.library.eq_ignore_ascii_case(name);
            let Some(model) = models.all().iter().find(known) else {
                let names: Vec<&str> = models.all().iter().map(|model| &*model.library).collect();
                return Err(format!("there is no model of '{name}'; known are {}", names.join(", ")).into());
            };
            output.write_all(model.text.as_bytes())?;
        }
        None if args.effects => effects(&mut output)?,
        None => list(&mut output, &models)?,
    }
    output.commit()?;
    Ok(Status::Clean)
}

fn list(output: &mut Output, models: &Models) -> std::io::Result<()> {
    for model in models.all() {
        let files = if model.files.is_empty() { "any file".to_owned() } else { model.files.join(", ") };
        let (patterns, functions): (Vec<_>, Vec<_>) = model.functions.iter().partition(|function| function.is_pattern);
        write!(output, "{} ({files}): {} functions", model.library, functions.len())?;
        if !patterns.is_empty() {
            write!(output, " and {} patterns", patterns.len())?;
        }
        writeln!(output)?;
        if !model.about.is_empty() {
            writeln!(output, "    {}", model.about)?;
        }
        if let Some(path) = &model.path {
            writeln!(output, "    from {}", path.display())?;
        }
    }
    Ok(())
}

fn effects(output: &mut Output) -> std::io::Result<()> {
    for effect in EFFECTS {
        writeln!(output, "{}: {}", effect.name, effect.about)?;
        let keys = effect.keys();
        if !keys.is_empty() {
            writeln!(output, "    takes {}", keys.join(", "))?;
        }
    }
    Ok(())
}
