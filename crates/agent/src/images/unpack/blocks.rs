//! A tar archive block by block: headers, each followed by the data of its entry.
//!
//! The library's own iterator is not used: it holds what extends a header in memory without a limit, and without that it
//! takes the blocks that continue the map of a sparse file for the next entry.

use std::io::{self, Read};

use tar::Header;

const BLOCK_BYTES: usize = 512;

/// The blocks of an archive. Reading gives the data of the entry that [`Self::next`] returned last.
pub(super) struct Blocks<R> {
    source: R,
    /// Bytes of the entry's data that were not read yet.
    left: u64,
    /// Bytes after its data, up to the next header.
    padding: u64,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0 }
    }

    /// The next header; none at the end of the archive, which is a block of zeros or the end of what it is read from.
    ///
    /// # Errors
    /// The archive is cut short or damaged.
    pub(super) fn next(&mut self) -> io::Result<Option<Header>> {
        let rest = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        if io::copy(&mut (&mut self.source).take(rest), &mut io::sink())? < rest {
            return Err(cut());
        }
        let mut header = Header::new_old();
        if !read_block(&mut self.source, header.as_mut_bytes())? || *header.as_bytes() == [0; BLOCK_BYTES] {
            return Ok(None);
        }
        if header.cksum()? != sum(&header) {
            return Err(io::Error::other("the checksum of its header is wrong: the archive is damaged"));
        }
        self.left = header.entry_size()?;
        self.padding = self.left.wrapping_neg() % BLOCK_BYTES as u64;
        Ok(Some(header))
    }

    /// A block that continues the header, ahead of the data.
    pub(super) fn continued(&mut self, block: &mut [u8; BLOCK_BYTES]) -> io::Result<()> {
        if read_block(&mut self.source, block)? { Ok(()) } else { Err(cut()) }
    }

    /// Bytes of the entry's data that were not read yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.source.read(&mut buffer[..length])?;
        self.left -= read as u64;
        Ok(read)
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is cut short")
}

/// False where there is nothing more.
fn read_block(source: &mut impl Read, block: &mut [u8; BLOCK_BYTES]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < BLOCK_BYTES {
        match source.read(&mut block[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(cut()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The sum of all bytes, those of the checksum field counted as spaces.
fn sum(header: &Header) -> u32 {
    let (before, after) = (&header.as_bytes()[..148], &header.as_bytes()[156..]);
    before.iter().chain(after).map(|&byte| u32::from(byte)).sum::<u32>() + 8 * u32::from(b' ')
}
