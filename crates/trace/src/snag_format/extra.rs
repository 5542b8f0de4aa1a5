//! The blocks that readers of events pass over.

use super::read::{CutOff, SnagReader};
use super::{BlockHeader, Kind};
use crate::error::Result;
use std::io::{Read, Seek};

/// Goes over a `.snag` file and hands each extra block to `each`, with the number of events before it. What is cut off is
/// left out; other blocks are not read.
pub fn read_extras(input: impl Read + Seek, mut each: impl FnMut(u64, &[u8])) -> Result<()> {
    let mut reader = SnagReader::new(input);
    reader.read_file_header()?;
    let mut events = 0;
    loop {
        let Ok(header): std::result::Result<BlockHeader, CutOff> = reader.read_header()? else { return Ok(()) };
        match header.kind {
            Kind::Extra => match reader.read_payload(&header)? {
                Ok(payload) => each(events, payload),
                Err(CutOff) => return Ok(()),
            },
            Kind::End => return Ok(()),
            _ => {
                reader.skip_payload(&header)?;
                events += header.events as u64;
            }
        }
        reader.pass(&header);
    }
}
