//! Decompression, chosen by a file's first bytes and not by its name.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Bytes of a compressed file that are read at once.
const CHUNK: usize = 1 << 16;

/// The first bytes of what can be read, and of what cannot.
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const UNKNOWN: [(&[u8], &str); 3] = [
    (b"\xfd7zXZ", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
];

/// The content of `reader`, decompressed where it is compressed.
///
/// # Errors
/// It cannot be read, or is compressed in a way that is not known here.
pub(super) fn decoded(mut reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    reader.by_ref().take(6).read_to_end(&mut head)?;
    let unknown = UNKNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, format)) = unknown {
        let why = format!("it is compressed by {format}; decompress it first, or pipe it in as -");
        return Err(io::Error::new(ErrorKind::Unsupported, why));
    }
    let (is_gzip, is_zstd) = (head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole = Cursor::new(head).chain(reader);
    if is_gzip {
        let buffered = BufReader::with_capacity(CHUNK, whole);
        return Ok(Box::new(MultiGzDecoder::new(buffered)));
    }
    if is_zstd {
        return Ok(Box::new(Frames::of(BufReader::with_capacity(CHUNK, whole))));
    }
    Ok(Box::new(whole))
}

/// The frames of a zstd file one after another, as RFC 8878 section 3 has them.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl<R: BufRead> Frames<R> {
    fn of(source: R) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            is_inside: false,
        }
    }

    /// Begins the next frame that holds content; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    /// Holds the content of a frame against the checksum behind it.
    fn end(&self) -> io::Result<()> {
        let written = self.decoder.get_checksum_from_data();
        if written.is_some() && written != self.decoder.get_calculated_checksum() {
            return Err(damaged("its checksum is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.begin()? {
                return Ok(0);
            }
            self.is_inside = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(damaged)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.end()?;
            self.is_inside = false;
        }
    }
}

fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
