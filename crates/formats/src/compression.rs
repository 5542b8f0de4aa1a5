//! Streams compressed with gzip, zstd or LZ4, told apart by their first bytes.
//!
//! Guarantees: everything streams, so that no input needs more memory than the window of its format; several members
//! or frames one after the other are one stream; data that is damaged or cut off is an error that names the
//! compression, never a quiet end.

use std::io::{self, Read, Write};

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Compression {
    Gzip,
    Zstd,
    Lz4,
}

/// As many first bytes as [`Compression::of_bytes`] looks at.
pub(crate) const SNIFFED: usize = 6;

impl Compression {
    const ALL: [Compression; 3] = [Compression::Gzip, Compression::Zstd, Compression::Lz4];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
        }
    }

    /// The last part of the names of files that are compressed so.
    pub fn extension(self) -> &'static str {
        match self {
            Compression::Gzip => "gz",
            Compression::Zstd => "zst",
            Compression::Lz4 => "lz4",
        }
    }

    /// The compression with this extension.
    pub fn by_extension(extension: &str) -> Option<Compression> {
        Compression::ALL.into_iter().find(|c| c.extension() == extension)
    }

    /// The compression of a stream that starts with these bytes; the name of one that cannot be read is an error.
    pub fn of_bytes(first: &[u8]) -> Result<Option<Compression>, &'static str> {
        match first {
            [0x1f, 0x8b, ..] => Ok(Some(Compression::Gzip)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Some(Compression::Zstd)),
            [0x04, 0x22, 0x4d, 0x18, ..] => Ok(Some(Compression::Lz4)),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => Err("bzip2"),
            [b'P', b'K', 3, 4, ..] => Err("zip"),
            _ => Ok(None),
        }
    }

    /// A stream of what `input` holds compressed.
    pub fn reader(self, input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let inner: Box<dyn Read + Send> = match self {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
            Compression::Lz4 => Box::new(Lz4Frames::new(input)),
        };
        Ok(Box::new(Named { inner, compression: self }))
    }

    /// A writer that compresses into `out`, with a checksum of everything.
    pub fn writer<W: Write>(self, out: W) -> io::Result<Compressor<W>> {
        Ok(match self {
            Compression::Gzip => Compressor::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, 3)?;
                encoder.include_checksum(true)?;
                Compressor::Zstd(encoder)
            }
            Compression::Lz4 => {
                use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
                let frame = FrameInfo::new().block_size(BlockSize::Max256KB).content_checksum(true);
                Compressor::Lz4(FrameEncoder::with_frame_info(frame, out))
            }
        })
    }
}

/// Says in every error which compression failed.
struct Named {
    inner: Box<dyn Read + Send>,
    compression: Compression,
}

impl Read for Named {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => {
                let what = if kind == io::ErrorKind::UnexpectedEof { "is cut off" } else { "is damaged" };
                io::Error::new(kind, format!("the {} data {what}: {error}", self.compression.name()))
            }
        })
    }
}

/// LZ4 frames one after the other, each with a decoder of its own, as the library's cannot go from one size of blocks
/// to another. The library takes the end of its input between two blocks for the end of a frame; here that is an error.
struct Lz4Frames {
    /// Always there, but for the moment in which one frame is replaced by the next.
    frame: Option<lz4_flex::frame::FrameDecoder<Counted>>,
}

/// Counts what was taken from the input since the last frame ended.
struct Counted {
    input: Box<dyn Read + Send>,
    taken: u64,
    /// Whether the end of the input was met.
    ended: bool,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.taken += n as u64;
        self.ended |= n == 0 && !buffer.is_empty();
        Ok(n)
    }
}

impl Lz4Frames {
    fn new(input: Box<dyn Read + Send>) -> Lz4Frames {
        let input = Counted { input, taken: 0, ended: false };
        Lz4Frames { frame: Some(lz4_flex::frame::FrameDecoder::new(input)) }
    }
}

impl Read for Lz4Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let mut frame = self.frame.take().expect("a frame is being read");
            let n = frame.read(buffer);
            let Counted { taken, ended, .. } = *frame.get_ref();
            if taken > 0 && !ended && matches!(n, Ok(0)) {
                let input = Counted { taken: 0, ..frame.into_inner() };
                self.frame = Some(lz4_flex::frame::FrameDecoder::new(input));
                continue;
            }
            self.frame = Some(frame);
            // A frame that ends says so before the end of the input is met.
            return match n {
                Ok(0) if taken > 0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no end of the frame")),
                n => n,
            };
        }
    }
}

/// Compresses what is written to it.
#[allow(missing_docs)]
pub enum Compressor<W: Write> {
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Lz4(lz4_flex::frame::FrameEncoder<W>),
}

impl<W: Write> Compressor<W> {
    /// Writes the end of the compressed stream and hands out the writer.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Zstd(encoder) => encoder.finish(),
            Compressor::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressor::Gzip(encoder) => encoder.write(bytes),
            Compressor::Zstd(encoder) => encoder.write(bytes),
            Compressor::Lz4(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressor::Gzip(encoder) => encoder.flush(),
            Compressor::Zstd(encoder) => encoder.flush(),
            Compressor::Lz4(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(compression: Compression, data: &[u8]) -> Vec<u8> {
        let mut writer = compression.writer(Vec::new()).unwrap();
        writer.write_all(data).unwrap();
        writer.finish().unwrap()
    }

    fn unpacked(compression: Compression, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut reader = compression.reader(Box::new(io::Cursor::new(data.to_vec()))).unwrap();
        // In pieces, as the library's own loops behave differently.
        let mut piece = [0; 1000];
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(out),
                n => out.extend_from_slice(&piece[..n]),
            }
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        (0..length)
            .map(|i| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if i % 3 == 0 { (state >> 56) as u8 } else { b'a' }
            })
            .collect()
    }

    #[test]
    fn streams_come_back_alone_and_one_after_the_other() {
        for compression in Compression::ALL {
            let (one, two) = (noise(200_000), noise(1234));
            let mut both = packed(compression, &one);
            assert_eq!(Compression::of_bytes(&both), Ok(Some(compression)));
            assert_eq!(unpacked(compression, &both).unwrap(), one);
            both.extend(packed(compression, &two));
            assert_eq!(unpacked(compression, &both).unwrap(), [one, two].concat());
        }
    }

    #[test]
    fn every_cut_and_every_garbage_at_the_end_is_an_error() {
        for compression in Compression::ALL {
            let whole = packed(compression, &noise(200_000));
            let cuts = (1..60).chain((60..whole.len()).step_by(501)).chain(whole.len() - 20..whole.len());
            for cut in cuts {
                let error = unpacked(compression, &whole[..cut]).unwrap_err();
                assert!(error.to_string().contains(compression.name()), "{error}");
            }
            let mut garbage = whole.clone();
            garbage.extend_from_slice(b"garbage that is no frame");
            assert!(unpacked(compression, &garbage).is_err(), "{compression:?}");
        }
    }
}
