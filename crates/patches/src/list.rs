//! What was decided, as the words that the runtime reads.

use crate::callbacks::Callbacks;
use crate::traps::Traps;
use snag_wire::patches::{Call, HEAD, Head, Jump, PARTS, Part, Record, Span, word_of};
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
}

impl Found<'_> {
    /// The list; `None` if there is nothing to do.
    pub fn words(self) -> Option<Vec<u64>> {
        if self.runtime.is_empty() && self.callbacks.ours.is_empty() {
            return None;
        }
        let mut names = Vec::new();
        let libraries: Vec<Jump> = self
            .callbacks
            .libraries
            .iter()
            .map(|(jump, name)| {
                let target = names.len() as u64;
                names.extend_from_slice(name);
                names.push(0);
                Jump { target, ..*jump }
            })
            .collect();
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
