//! What is recorded beside the events: calls, turns, names.

use super::Translator;
use crate::beside::{kind, put, put_text};
use crate::wire;

impl Translator {
    /// What belongs beside the events since the last time.
    pub fn take_beside(&mut self) -> Vec<Vec<u8>> {
        self.name_data();
        let mut blocks = Vec::new();
        let mut block = Vec::new();
        if self.calls.names(&mut block) {
            blocks.push(std::mem::take(&mut block));
        }
        self.calls.stretch(&mut block);
        blocks.push(std::mem::take(&mut block));
        if !self.turns.is_empty() {
            block.push(kind::SCHEDULE);
            put(&mut block, self.turns.len() as u64);
            for (thread, timed_out, steps) in self.turns.drain(..) {
                put(&mut block, (thread as u64) << 1 | timed_out as u64);
                put(&mut block, steps);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_data.is_empty() {
            block.push(kind::DATA);
            put(&mut block, self.new_data.len() as u64);
            for variable in self.new_data.drain(..) {
                put(&mut block, variable.address);
                put(&mut block, variable.size);
                put_text(&mut block, &variable.name);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_names.is_empty() {
            block.push(kind::THREADS);
            put(&mut block, self.new_names.len() as u64);
            for (thread, name) in self.new_names.drain(..) {
                put(&mut block, thread as u64);
                put_text(&mut block, &name);
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_sites.is_empty() {
            block.push(kind::SITES);
            put(&mut block, self.new_sites.len() as u64);
            for (location, frames) in self.new_sites.drain(..) {
                put(&mut block, location.0 as u64);
                put(&mut block, frames.len() as u64);
                for frame in frames {
                    put_text(&mut block, &frame.function);
                    put_text(&mut block, &frame.place);
                }
            }
            blocks.push(std::mem::take(&mut block));
        }
        if !self.new_unseen.is_empty() {
            block.push(kind::UNSEEN);
            put(&mut block, self.new_unseen.len() as u64);
            self.new_unseen.drain(..).for_each(|text| put_text(&mut block, &text));
            blocks.push(std::mem::take(&mut block));
        }
        self.new_code.take(&self.symbols, &mut block);
        if !block.is_empty() {
            blocks.push(block);
        }
        self.calls.begin_stretch(self.count() as u64);
        blocks
    }

    /// Whether so many turns have been noted that they should be taken, events or not.
    pub fn has_many_turns(&self) -> bool {
        const MANY: usize = 1 << 16;
        self.turns.len() >= MANY
    }

    /// What the variables of the program consist of that are near what the trace touches. Asked for when the program has
    /// ended: debug information can be long.
    pub fn layouts(&mut self) -> Vec<u8> {
        let mut block = vec![kind::LAYOUTS];
        self.symbols.layouts(&self.data).write(&mut block);
        block
    }

    /// Remembers the variables of the program in regions that the trace touches for the first time.
    #[cold]
    pub(super) fn name_data(&mut self) {
        for region in std::mem::take(&mut self.heap.fresh) {
            for variable in self.symbols.data_in(region) {
                if self.data.insert(variable.address) {
                    self.new_data.push(variable);
                }
            }
        }
    }

    pub(super) fn blob(&mut self, blob_kind: u64, length: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
        match blob_kind {
            wire::BLOB_MAPS => {
                // Pieces end in the middle of lines; only a whole file ends in a line end.
                self.maps.extend_from_slice(&bytes);
                if length < wire::CHUNK / 4 {
                    let maps = std::mem::take(&mut self.maps);
                    self.symbols.map(&String::from_utf8_lossy(&maps));
                    self.heap.touch_again();
                }
            }
            wire::BLOB_THREAD_NAME => {
                let Some((number, name)) = bytes.split_first_chunk() else { return };
                let thread = self.threads.get(u32::from_le_bytes(*number) as usize).filter(|thread| thread.known);
                if let Some(id) = thread.map(|thread| thread.id).filter(|_| !name.is_empty()) {
                    self.new_names.push((id.0, String::from_utf8_lossy(name).into_owned()));
                }
            }
            // Pieces may end inside a letter; what is no text is none of our options.
            wire::BLOB_OPTIONS => self.wishes.options.push_str(&String::from_utf8_lossy(&bytes)),
            wire::BLOB_SUPPRESSIONS => self.wishes.suppressions.push_str(&String::from_utf8_lossy(&bytes)),
            wire::BLOB_UNSEEN => self.new_unseen.push(String::from_utf8_lossy(&bytes).into_owned()),
            wire::BLOB_METHOD => self.method_named(&bytes),
            _ => {}
        }
    }
}
