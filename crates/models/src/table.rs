//! Models as the runtime gets them: see [`snag_wire::models`].

use crate::{Function, Model};
use snag_wire::models::{ENTRY, Entry, Text};
use std::collections::{HashMap, HashSet};

/// All functions of all models. Where two models name the same function of a library, the one that comes first counts.
pub fn table(models: &[Model]) -> Vec<u64> {
    let mut texts = Texts::default();
    let mut named = Vec::new();
    let mut patterns = Vec::new();
    let mut libraries = Vec::new();
    // What was said already: the symbol, whether it is a pattern, and the library's files.
    let mut known: HashSet<(&str, bool, &[String])> = HashSet::new();
    for model in models.iter().take(u8::MAX as usize) {
        let library = libraries.len() as u8;
        let files = texts.add(&model.files.join("\n"));
        libraries.push(Entry { name: files, ..Entry::default() });
        for function in &model.functions {
            if !known.insert((&function.name, function.is_pattern, &model.files)) {
                continue;
            }
            let entry = entry(function, library, &mut texts);
            if function.is_pattern { patterns.push(entry) } else { named.push((&*function.name, entry)) }
        }
    }
    // Functions of the same name stay in the order of the models.
    named.sort_by_key(|(name, _)| *name);
    let counts = [named.len(), patterns.len(), libraries.len(), texts.bytes.len()].map(|count| count as u64);
    let mut words = counts.to_vec();
    let entries = named.into_iter().map(|(_, entry)| entry).chain(patterns).chain(libraries);
    words.extend(entries.flat_map(Entry::to_words));
    debug_assert_eq!(words.len() % ENTRY, 0);
    words.extend(texts.bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    words
}

fn entry(function: &Function, library: u8, texts: &mut Texts) -> Entry {
    let mut companion = |name: &Option<String>| name.as_ref().map_or(Text::default(), |name| texts.add(name));
    let (attempt, release) = (companion(&function.attempt), companion(&function.release));
    Entry { name: texts.add(&function.name), library, attempt, release, ..function.entry }
}

/// The texts of a table, each once, and a zero byte behind each, so that they can be passed on to C.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    known: HashMap<String, Text>,
}

impl Texts {
    fn add(&mut self, text: &str) -> Text {
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        let added = Text { at: self.bytes.len() as u32, length };
        self.bytes.extend_from_slice(&text.as_bytes()[..length as usize]);
        self.bytes.push(0);
        self.known.insert(text.to_owned(), added);
        added
    }
}
