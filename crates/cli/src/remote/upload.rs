//! What is written while it is sent.

use std::{
    io::{self, Write},
    thread,
};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Sent at once.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait to be sent.
const PIECES_WAITING_MAX: usize = 4;

/// What `write` writes, on a thread of its own, piece by piece.
pub(super) fn pieces(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> mpsc::Receiver<io::Result<Bytes>> {
    let (pieces, body) = mpsc::channel(PIECES_WAITING_MAX);
    thread::spawn(move || {
        let mut out = io::BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            // What it holds back would come after the error.
            drop(out.into_parts());
            // A server that refuses reads no further; its answer says why.
            let _ = pieces.blocking_send(Err(error));
        }
    });
    body
}

struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(PIECE_BYTES)]);
        let sent = piece.len();
        self.0.blocking_send(Ok(piece)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_comes_in_order_and_an_error_comes_last() {
        let mut body = pieces(|out| {
            out.write_all(&[1; PIECE_BYTES + 1])?;
            out.write_all(&[2])?;
            Err(io::Error::other("broken"))
        });
        let (mut bytes, mut told) = (Vec::new(), None);
        while let Some(piece) = body.blocking_recv() {
            match piece {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(error) => told = Some(error.to_string()),
            }
        }
        assert_eq!(told.as_deref(), Some("broken"));
        assert!(bytes == vec![1; PIECE_BYTES + 1], "{} bytes came, and nothing after the error", bytes.len());
    }

    #[test]
    fn who_is_not_read_ends() {
        let body = pieces(|out| out.write_all(&[0; PIECE_BYTES * (PIECES_WAITING_MAX + 4)]));
        drop(body);
    }
}
