//! What a program's calls of other objects go through: the stubs of its procedure linkage table.

use crate::image::{Image, Words};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::ReadRef;
use std::collections::HashMap;

/// The stubs by address, with the names of what they lead to.
pub fn stubs<'a, R: ReadRef<'a>>(image: &Image<'a, R>, words: &Words<'_, 'a, R>) -> HashMap<u64, &'a [u8]> {
    // Bytes of a stub, by the psABI.
    const TABLES: [(&[u8], u64); 3] = [(b".plt", 16), (b".plt.sec", 16), (b".plt.got", 8)];
    let mut stubs = HashMap::new();
    for (table, step) in TABLES {
        let Some((start, bytes)) = image.loaded_section(table) else { continue };
        // Where calls are protected, stubs are longer.
        for offset in (0..bytes.len() as u64).step_by(step as usize) {
            let at = start.wrapping_add(offset);
            let mut decoder = Decoder::with_ip(64, &bytes[offset as usize..], at, DecoderOptions::NONE);
            const MOST: usize = 2;
            let jump = (0..MOST).map(|_| decoder.decode()).find(|i| i.flow_control() == FlowControl::IndirectBranch);
            if let Some(jump) = jump.filter(|jump| jump.is_ip_rel_memory_operand())
                && let Some(name) = words.import(jump.ip_rel_memory_address())
            {
                stubs.insert(at, name);
            }
        }
    }
    stubs
}
