//! What a user's model says about functions that are not there: misspelt names, mostly.

use crate::symbols::Symbols;
use object::{Object, ObjectSymbol};
use snag_models::{Model, Models};
use std::collections::HashSet;
use std::path::Path;

/// Most functions that are named.
const MOST: usize = 5;

/// One warning for each model of the user's that does not fit what the program has loaded.
pub fn warnings(models: &Models, symbols: &Symbols) -> Vec<String> {
    models.users().filter_map(|model| warning(model, symbols)).collect()
}

fn warning(model: &Model, symbols: &Symbols) -> Option<String> {
    let path = model.path.as_ref()?.display();
    let mut files: Vec<_> = symbols.mapped().map(|mapped| mapped.path).collect();
    files.retain(|file| is_of(model, file));
    if files.is_empty() {
        let library = &model.library;
        return Some(format!("{path}: the program has loaded no file that is {library} ({})", model.files.join(", ")));
    }
    let exported: HashSet<String> = files.iter().flat_map(|file| exported(file)).collect();
    // A name with a space in it is no function's.
    let named = model.functions.iter().filter(|function| !function.name.contains(' '));
    let unknown: Vec<String> = named
        .filter(|function| match function.is_pattern {
            true => !exported.iter().any(|name| function.means(name)),
            false => !exported.contains(&function.name),
        })
        .map(|function| format!("{} (line {})", function.name, function.line))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let more = match unknown.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    let shown = unknown[..unknown.len().min(MOST)].join(", ");
    Some(format!("{path}: {} has no function {shown}{more}", model.library))
}

fn is_of(model: &Model, file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |pattern: &String| snag_wire::models::fits(pattern.as_bytes(), name.as_bytes());
    model.files.is_empty() || model.files.iter().any(fits)
}

fn exported(file: &Path) -> Vec<String> {
    let Ok(file) = std::fs::File::open(file).map(object::ReadCache::new) else { return Vec::new() };
    let Ok(file) = object::File::parse(&file) else { return Vec::new() };
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect()
}
