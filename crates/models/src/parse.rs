//! From TOML to a model. Every mistake is an error with file, line and what is expected there; of several the first.

use crate::effects::{EFFECTS, Key, LIMITS, SUCCESS, Shape};
use crate::{Function, Model};
use snag_wire::models::{self as wire, Entry};
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most arguments that are counted.
const MOST_ARGUMENTS: u8 = 32;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    path: Option<PathBuf>,
    /// 0 if it is about no line.
    line: usize,
    message: String,
}

impl Error {
    /// It is about the file as a whole.
    pub(crate) fn of_file(path: &Path, message: &str) -> Error {
        Error { path: Some(path.to_owned()), line: 0, message: message.to_owned() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("built-in model")?,
        }
        match self.line {
            0 => write!(f, ": {}", self.message),
            line => write!(f, ":{line}: {}", self.message),
        }
    }
}

impl std::error::Error for Error {}

/// A message and the byte that it is about.
type Problem = (usize, String);
type Parsed<T> = Result<T, Problem>;
type Value<'a> = Spanned<DeValue<'a>>;

fn wrong<T>(value: &Value, expected: &str) -> Parsed<T> {
    Err((value.span().start, format!("{expected} is expected, not {}", shown(value))))
}

fn shown(value: &Value) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}

fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// A whole file.
pub(crate) fn model(text: &str, path: Option<&Path>) -> Result<Model, Error> {
    let error = |(at, message): Problem| {
        let line = 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        Error { path: path.map(Path::to_owned), line, message }
    };
    let document = DeTable::parse(text)
        .map_err(|wrong| error((wrong.span().map_or(0, |span| span.start), wrong.message().to_owned())))?;
    let ends: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let line_of = |at: usize| 1 + ends.partition_point(|&end| end < at);
    let mut model = read(document.get_ref(), &line_of).map_err(error)?;
    model.path = path.map(Path::to_owned);
    model.text = text.to_owned();
    Ok(model)
}

fn read(document: &DeTable, line_of: &dyn Fn(usize) -> usize) -> Parsed<Model> {
    const KEYS: [&str; 5] = ["library", "about", "files", "environment", "functions"];
    let mut model = Model {
        library: String::new(),
        about: String::new(),
        files: Vec::new(),
        environment: Vec::new(),
        functions: Vec::new(),
        path: None,
        text: String::new(),
    };
    for (key, value) in document {
        match &**key.get_ref() {
            "library" => model.library = name(value)?,
            "about" => model.about = text(value)?,
            "files" => model.files = list(value)?,
            "environment" => {
                for (key, value) in table(value, "a table of variables")? {
                    model.environment.push((key.get_ref().clone().into_owned(), text(value)?));
                }
            }
            "functions" => {
                for (key, value) in table(value, "a table of functions")? {
                    let line = line_of(key.span().start);
                    model.functions.push(function(key, value, line)?);
                }
            }
            other => {
                let message = format!("'{other}' means nothing here; expected is one of {}", one_of(KEYS));
                return Err((key.span().start, message));
            }
        }
    }
    if model.library.is_empty() {
        return Err((0, "'library = \"NAME\"' is missing".to_owned()));
    }
    if model.functions.is_empty() {
        return Err((0, "the model says nothing about any function: '[functions]' is missing, or empty".to_owned()));
    }
    // Tables have no order of their own.
    model.functions.sort_by_key(|function| function.line);
    let companions: Vec<Problem> =
        model.functions.iter().flat_map(|function| check_companions(&model, function, document)).collect();
    if let Some(problem) = companions.into_iter().min() {
        return Err(problem);
    }
    let tried: Vec<u8> = model.functions.iter().map(|function| attempt_success(&model, function)).collect();
    for (function, success) in model.functions.iter_mut().zip(tried) {
        function.entry.attempt_success = success;
    }
    Ok(model)
}

fn text(value: &Value) -> Parsed<String> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => wrong(value, "a text in quotation marks"),
    }
}

fn name(value: &Value) -> Parsed<String> {
    match text(value)? {
        name if name.is_empty() || name.chars().any(char::is_control) => wrong(value, "a name"),
        name => Ok(name),
    }
}

fn list(value: &Value) -> Parsed<Vec<String>> {
    match value.get_ref().as_array() {
        Some(entries) => entries.iter().map(name).collect(),
        None => wrong(value, "a list of file names such as [\"libz.so*\"]"),
    }
}

fn table<'a, 'b>(value: &'a Value<'b>, expected: &str) -> Parsed<&'a DeTable<'b>> {
    value.get_ref().as_table().map_or_else(|| wrong(value, expected), Ok)
}

fn argument(value: &Value) -> Parsed<u8> {
    let number =
        value.get_ref().as_integer().and_then(|number| u8::from_str_radix(number.as_str(), number.radix()).ok());
    match number {
        Some(number @ 1..=MOST_ARGUMENTS) => Ok(number),
        _ => wrong(value, &format!("the number of an argument, from 1 to {MOST_ARGUMENTS},")),
    }
}

fn choice(value: &Value, names: &[(&str, u8)]) -> Parsed<u8> {
    let text = text(value)?;
    match names.iter().find(|(name, _)| *name == text) {
        Some(&(_, code)) => Ok(code),
        None => wrong(value, &format!("one of {}", one_of(names.iter().map(|(name, _)| *name)))),
    }
}

/// One function: its effect alone, or a table of the effect and what it takes.
fn function(key: &Spanned<toml::de::DeString>, value: &Value, line: usize) -> Parsed<Function> {
    let symbol = &**key.get_ref();
    let stars = symbol.bytes().filter(|&byte| byte == b'*').count();
    const LONGEST: usize = 4096;
    if symbol.is_empty() || symbol.len() > LONGEST || symbol.chars().any(char::is_control) || stars > 1 {
        let message = "the symbol of a function is expected, or a pattern with one '*'".to_owned();
        return Err((key.span().start, message));
    }
    let is_pattern = stars == 1;
    let nothing = DeTable::new();
    let (effect, parameters) = match value.get_ref() {
        DeValue::String(_) => (value, &nothing),
        DeValue::Table(parameters) => match parameters.get("effect") {
            Some(effect) => (effect, parameters),
            None => {
                return Err((value.span().start, format!("'{symbol}' has no effect: 'effect = \"...\"' is missing")));
            }
        },
        _ => return wrong(value, "an effect, or a table with one,"),
    };
    let effect_name = text(effect)?;
    let Some(shape) = EFFECTS.iter().find(|shape| shape.name == effect_name) else {
        return wrong(effect, &format!("one of the effects {}", one_of(EFFECTS.iter().map(|shape| shape.name))));
    };
    let entry = Entry { effect: shape.code, flags: shape.flags, ..Entry::default() };
    let mut function = Function { name: symbol.to_owned(), is_pattern, line, entry, attempt: None, release: None };
    for (key, value) in parameters.iter().filter(|(key, _)| *key.get_ref() != "effect") {
        parameter(&mut function, shape, key, value)?;
    }
    let entry = &function.entry;
    let is_missing =
        |key: &Option<&'static str>, number: u8| key.filter(|_| number == 0 && entry.flags & wire::GLOBAL == 0);
    let second = shape.second.filter(|(_, required)| *required).map(|(key, _)| key);
    if let Some(key) = is_missing(&shape.object, entry.object).or(second.filter(|_| entry.second == 0)) {
        let message = format!("'{}' needs '{key} = N', the number of an argument of '{symbol}'", shape.name);
        return Err((value.span().start, message));
    }
    if shape.options.contains(&Key::Bytes) && entry.size == 0 && shape.code != wire::effect::ONCE {
        return Err((value.span().start, format!("'{}' needs 'bytes = N'", shape.name)));
    }
    if shape.options.contains(&Key::Done) && (entry.size == 0) != (entry.part == 0) {
        return Err((value.span().start, "'bytes' and 'done' go together".to_owned()));
    }
    if shape.options.contains(&Key::Entries) && entry.size == 0 {
        return Err((value.span().start, format!("'{}' needs 'entries = N'", shape.name)));
    }
    if shape.options.contains(&Key::Release) && function.attempt.is_some() != function.release.is_some() {
        return Err((value.span().start, "'try' and 'release' go together".to_owned()));
    }
    if shape.code == wire::effect::POP && entry.second != 0 && function.attempt.is_none() {
        return Err((value.span().start, "'lock' needs 'try', a function that does not give the lock back".to_owned()));
    }
    Ok(function)
}

fn parameter(function: &mut Function, shape: &Shape, key: &Spanned<toml::de::DeString>, value: &Value) -> Parsed<()> {
    let Function { entry, attempt, release, .. } = function;
    let name_of_key = &**key.get_ref();
    let has = |option: Key| shape.options.contains(&option);
    match name_of_key {
        object if Some(object) == shape.object => {
            if has(Key::OfLibrary) && value.get_ref().as_str() == Some("library") {
                entry.flags |= wire::GLOBAL;
            } else {
                entry.object = argument(value)?;
            }
        }
        second if shape.second.is_some_and(|(key, _)| key == second) => entry.second = argument(value)?,
        "mode" if has(Key::Mode) => {
            entry.flags |= choice(value, &[("read", wire::READS | wire::SHARED), ("write", wire::SHARED)])?;
        }
        "done" if has(Key::Done) => entry.part = argument(value).or_else(|_| wrong(value, "a number from 1 to 32"))?,
        "entries" if has(Key::Entries) => entry.size = argument(value)?,
        "when" if has(Key::When) => entry.object = argument(value)?,
        "bit" if has(Key::Bit) => entry.part = argument(value)?,
        "success" if has(Key::Success) => entry.success = choice(value, &SUCCESS)?,
        "try" if has(Key::Try) => *attempt = Some(name(value)?),
        "release" if has(Key::Release) => *release = Some(name(value)?),
        "bytes" if has(Key::Bytes) => {
            entry.size = match argument(value) {
                Ok(bytes) if matches!(bytes, 1 | 2 | 4 | 8) => bytes,
                _ => return wrong(value, "1, 2, 4 or 8"),
            };
        }
        limit if has(Key::Limit) && LIMITS.iter().any(|(name, _)| *name == limit) => {
            if entry.limit != 0 {
                return Err((key.span().start, "there is a limit already".to_owned()));
            }
            entry.limit = argument(value)?;
            entry.unit = LIMITS.iter().find(|(name, _)| *name == limit).map_or(0, |(_, code)| *code);
        }
        other => {
            let keys = shape.keys();
            let expected = match keys.is_empty() {
                true => "nothing".to_owned(),
                false => one_of(keys),
            };
            let message = format!("'{other}' means nothing for '{}', which takes {expected}", shape.name);
            return Err((key.span().start, message));
        }
    }
    Ok(())
}

/// What a function is to be used with has to be described as well, and to do what is expected of it.
fn check_companions(model: &Model, function: &Function, document: &DeTable) -> Vec<Problem> {
    let at = || {
        let functions = document.get("functions").and_then(|value| value.get_ref().as_table());
        let known = |functions: &DeTable| functions.get(function.name.as_str()).map(|value| value.span().start);
        functions.and_then(known).unwrap_or(0)
    };
    let effect_of = |name: &str| model.function(name).map(|known| (known.entry.effect, known.entry.flags));
    let mut problems = Vec::new();
    let companions = function.attempt.iter().chain(&function.release);
    if companions.into_iter().any(|name| name.contains('*') && !function.is_pattern) {
        problems.push((at(), "a function alone has no pattern to go with it".to_owned()));
    }
    if let Some(attempt) = &function.attempt {
        let wanted = match function.entry.effect {
            wire::effect::WAIT => wire::effect::ACQUIRE,
            same => same,
        };
        let is_right = |(effect, flags): (u8, u8)| {
            effect == wanted && flags & wire::NEVER_WAITS != 0 && (flags ^ function.entry.flags) & wire::READS == 0
        };
        if !effect_of(attempt).is_some_and(is_right) {
            let shape = EFFECTS.iter().find(|shape| shape.code == wanted && shape.flags & wire::NEVER_WAITS != 0);
            let expected = shape.map_or("", |shape| shape.name);
            problems
                .push((at(), format!("'{attempt}' is to be described here, too, as '{expected}' of the same mode")));
        }
    }
    if let Some(release) = &function.release
        && effect_of(release).is_none_or(|(effect, _)| effect != wire::effect::RELEASE)
    {
        problems.push((at(), format!("'{release}' is to be described here, too, as 'release'")));
    }
    problems
}

/// Which result of a function's companion means that it did what it is there for.
fn attempt_success(model: &Model, function: &Function) -> u8 {
    let companion = function.attempt.as_deref().and_then(|name| model.function(name));
    companion.map_or(wire::success::ALWAYS, |companion| match companion.entry.effect {
        wire::effect::POP => wire::success::POINTER,
        _ => companion.entry.success,
    })
}
