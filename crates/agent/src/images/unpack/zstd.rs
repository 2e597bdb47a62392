//! Zstandard (RFC 8878): several frames one after the other, as tools that compress in parallel write them, and skippable frames, in
//! which some tools put tables of their own.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::refused;

/// How far back a frame may refer, which is kept in memory. Tools ask for 8 MiB, and for 128 MiB only where they are made to.
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// Whether what begins so is compressed with it.
pub(super) fn begins(start: &[u8]) -> bool {
    let is_skipped = matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    is_skipped || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// What is in the frames of `source`.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    /// A frame has begun, and not all of it has been read.
    is_within: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self { source, decoder, is_within: false }
    }

    /// Begins the next frame, or leaves out one that says nothing.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.is_within = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(bad(error)),
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            } else if self.decoder.is_finished() {
                self.is_within = false;
            } else {
                // A block is at most 128 KiB.
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(bad)?;
            }
        }
    }
}

fn bad(error: FrameDecoderError) -> io::Error {
    match error {
        FrameDecoderError::WindowSizeTooBig { requested, .. } => refused(&format!(
            "its zstd frames refer {requested} bytes back, and {WINDOW_BYTES_MAX} are the most"
        )),
        FrameDecoderError::DictNotProvided { .. } => {
            refused("it is compressed with zstd and a dictionary of its own: compress it without")
        }
        error => io::Error::other(format!("its zstd compression is damaged: {error}")),
    }
}
