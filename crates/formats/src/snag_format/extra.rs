//! The blocks that readers of events pass over.

use super::read::{CutOff, SnagReader};
use super::{BlockHeader, Kind};
use crate::error::{Error, Position, Result};
use std::io::{Read, Seek};

/// Where an extra block stands.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    /// Events in the blocks before it.
    pub events: u64,
    /// Its first byte in the file.
    pub offset: u64,
}

/// Goes over a `.snag` file and hands each extra block to `each`, with the number of events before it. What is cut off is
/// left out; other blocks are not read. What `each` refuses is an error at that block. Whether the recording is whole: not cut off.
pub fn read_extras(
    input: impl Read + Seek,
    mut each: impl FnMut(Extra, &[u8]) -> std::result::Result<(), String>,
) -> Result<bool> {
    let mut reader = SnagReader::new(input);
    reader.read_file_header()?;
    let mut events = 0;
    loop {
        let offset = reader.offset;
        let Ok(header): std::result::Result<BlockHeader, CutOff> = reader.read_header()? else { return Ok(false) };
        match header.kind {
            Kind::Extra => match reader.read_payload(&header)? {
                Ok(payload) => {
                    each(Extra { events, offset }, payload)
                        .map_err(|message| Error::new(Position::Offset(offset), message))?;
                }
                Err(CutOff) => return Ok(false),
            },
            Kind::End => return Ok(true),
            _ => {
                reader.skip_payload(&header)?;
                events += header.events as u64;
            }
        }
        reader.pass(&header);
    }
}
