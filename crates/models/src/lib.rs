//! Models: what functions do that nobody sees, because their library is not instrumented.
//!
//! A model is a TOML file. For each function it names an effect: that it takes the lock at its first argument, say, or
//! touches nothing but what its arguments lead to. Some models are [built in](built_in); users write others. The
//! recorder hands all of them to the runtime as one flat table, in which it looks calls up.
//!
//! `docs/models.md` has the format. A mistake in a file is an [`Error`] with its line; what a file does not say is never
//! guessed.

mod effects;
mod parse;
mod table;

pub use effects::{EFFECTS, Shape};
pub use parse::Error;

use snag_wire::models::Entry;
use std::path::{Path, PathBuf};

/// What the functions of a library do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What the library is called.
    pub library: String,
    /// What the model is based on, in words.
    pub about: String,
    /// Names of files that are the library, with a `*` at the end for anything; empty: whatever file has the functions.
    pub files: Vec<String>,
    /// Variables that the program is to have unless the user has set them.
    pub environment: Vec<(String, String)>,
    /// Functions and patterns, in the order of the file.
    pub functions: Vec<Function>,
    /// The file; `None` if it is built in.
    pub path: Option<PathBuf>,
    /// All of the file.
    pub text: String,
}

/// The models that are used together: where several say something about a function, the first one counts.
#[derive(Clone, Debug)]
pub struct Models {
    all: Vec<Model>,
}

impl Default for Models {
    fn default() -> Models {
        Models { all: built_in() }
    }
}

impl Models {
    /// The user's, and then those that are built in.
    pub fn with(users: impl IntoIterator<Item = Model>) -> Models {
        Models { all: users.into_iter().chain(built_in()).collect() }
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[Model] {
        &self.all
    }

    /// The user's.
    pub fn users(&self) -> impl Iterator<Item = &Model> {
        self.all.iter().filter(|model| model.path.is_some())
    }

    /// As the runtime gets them.
    pub fn table(&self) -> Vec<u64> {
        table::table(&self.all)
    }

    /// Variables that the program is to have unless they are set already, each once.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        let mut variables: Vec<(&str, &str)> = Vec::new();
        for (name, value) in self.all.iter().flat_map(|model| &model.environment) {
            if variables.iter().all(|(known, _)| known != name) {
                variables.push((name, value));
            }
        }
        variables
    }

    /// What is said about a function, and by which model.
    pub fn find(&self, name: &str, file: &str) -> Option<(&Model, &Function)> {
        let fits = |pattern: &String| snag_wire::models::fits(pattern.as_bytes(), file.as_bytes());
        let models = || self.all.iter().filter(|model| model.files.is_empty() || model.files.iter().any(fits));
        let named = models().find_map(|model| Some((model, model.function(name)?)));
        let patterns = models().flat_map(|model| model.functions.iter().map(move |function| (model, function)));
        named.or_else(|| {
            let fitting = patterns.filter(|(_, function)| function.is_pattern && function.means(name));
            // Of several the longest, and the first of those.
            fitting.reduce(|best, other| if other.1.name.len() > best.1.name.len() { other } else { best })
        })
    }
}

/// What a function does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol, or a pattern, in which a `*` stands for anything.
    pub name: String,
    /// Whether it is one.
    pub is_pattern: bool,
    /// The line that says so.
    pub line: usize,
    /// What it does; names and library are those of this structure.
    pub entry: Entry,
    /// A function with the same arguments that does the same without waiting, or fails.
    pub attempt: Option<String>,
    /// Of a wait: what gives the lock back.
    pub release: Option<String>,
}

impl Model {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Model, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|error| Error::of_file(path, &format!("cannot read: {error}")))?;
        parse::model(&text, Some(path))
    }

    /// From the text of a file; errors name it.
    pub fn parse(text: &str, path: &Path) -> Result<Model, Error> {
        parse::model(text, Some(path))
    }

    /// What the model says about this name, or pattern, itself.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }
}

impl Function {
    /// Whether a function of this name is meant.
    pub fn means(&self, name: &str) -> bool {
        snag_wire::models::fits(self.name.as_bytes(), name.as_bytes())
    }

    /// What it does, in the words of the file.
    pub fn effect(&self) -> String {
        effects::describe(self)
    }
}

/// The text of each built-in model.
const BUILT_IN: [(&str, &str); 7] = [
    ("glib.toml", include_str!("../library/glib.toml")),
    ("zlib.toml", include_str!("../library/zlib.toml")),
    ("sqlite.toml", include_str!("../library/sqlite.toml")),
    ("libcrypto.toml", include_str!("../library/libcrypto.toml")),
    ("libcurl.toml", include_str!("../library/libcurl.toml")),
    ("tbb.toml", include_str!("../library/tbb.toml")),
    ("abseil.toml", include_str!("../library/abseil.toml")),
];

/// The models that need no file.
pub fn built_in() -> Vec<Model> {
    let read = |&(name, text): &(&str, &str)| match parse::model(text, None) {
        Ok(model) => model,
        Err(error) => panic!("{name}: {error}"),
    };
    BUILT_IN.iter().map(read).collect()
}
