//! What was decided, as the words that the runtime reads.

use crate::callbacks::Callbacks;
use crate::silent::SilentFunctions;
use crate::traps::Traps;
use snag_wire::patches::{Call, HEAD, Head, Jump, PARTS, Part, Record, Silent, Span, word_of};
use std::ops::Range;

/// Everything that was decided about a program.
#[derive(Debug, Default)]
pub struct Found<'a> {
    pub headers: u64,
    pub hooks: [u64; 4],
    pub code: Vec<Range<u64>>,
    pub runtime: Vec<Jump>,
    pub callbacks: Callbacks<'a>,
    pub writes: Vec<Call>,
    pub traps: Traps,
    pub silent: SilentFunctions<'a>,
}

impl Found<'_> {
    /// The list; `None` if there is nothing to do.
    pub fn words(self) -> Option<Vec<u64>> {
        if self.runtime.is_empty() && self.callbacks.ours.is_empty() && self.silent.is_empty() {
            return None;
        }
        let mut names = Vec::new();
        let mut place_of = |name: &[u8]| {
            let place = names.len() as u64;
            names.extend_from_slice(name);
            names.push(0);
            place
        };
        let libraries = self.callbacks.libraries.iter();
        let libraries: Vec<Jump> = libraries.map(|(jump, name)| Jump { target: place_of(name), ..*jump }).collect();
        let silent = self.silent.functions.iter();
        let silent: Vec<Silent> = silent.map(|(silent, name)| Silent { name: place_of(name), ..*silent }).collect();
        let code: Vec<Span> =
            self.code.iter().map(|code| Span { start: code.start, length: code.end - code.start }).collect();
        let mut parts: [(Part, Vec<u64>); PARTS] = [
            (Part::Code, records(&code)),
            (Part::Callbacks, records(&self.callbacks.ours)),
            (Part::Libraries, records(&libraries)),
            (Part::Runtime, records(&self.runtime)),
            (Part::Writes, records(&self.writes)),
            (Part::Traps, records(&self.traps.traps)),
            (Part::Unseen, self.traps.unseen),
            (Part::Names, names.chunks(8).map(word_of).collect()),
            (Part::Silent, records(&silent)),
            (Part::Variables, self.silent.variables),
            (Part::Sites, records(&self.silent.sites)),
            (Part::Muted, records(&self.silent.muted)),
        ];
        let mut head =
            Head { headers: self.headers, unseen: self.traps.first, hooks: self.hooks, parts: [(0, 0); PARTS] };
        let mut end = HEAD as u64;
        for (part, words) in &parts {
            head.parts[*part as usize] = (end, words.len() as u64);
            end += words.len() as u64;
        }
        let mut list = head.words().to_vec();
        parts.iter_mut().for_each(|(_, words)| list.append(words));
        Some(list)
    }
}

fn records<R: Record>(records: &[R]) -> Vec<u64> {
    records.iter().flat_map(|record| record.words().as_ref().to_vec()).collect()
}
