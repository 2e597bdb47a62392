//! A request body that is written while it is sent.

use std::{
    io::{self, Write},
    thread,
};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Largest chunk of the body that is sent at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait to be sent.
const CHUNKS_QUEUED_MAX: usize = 4;

/// What `write` writes, on a thread of its own, chunk by chunk.
pub(super) fn chunks(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> mpsc::Receiver<io::Result<Bytes>> {
    let (chunks, body) = mpsc::channel(CHUNKS_QUEUED_MAX);
    thread::spawn(move || {
        let mut out = io::BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter(chunks.clone()));
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            // What it holds back would come after the error.
            drop(out.into_parts());
            // A server that refuses reads no further; its answer says why.
            let _ = chunks.blocking_send(Err(error));
        }
    });
    body
}

struct ChunkWriter(mpsc::Sender<io::Result<Bytes>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = Bytes::copy_from_slice(&bytes[..bytes.len().min(CHUNK_BYTES)]);
        let sent = chunk.len();
        self.0.blocking_send(Ok(chunk)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
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
        let mut body = chunks(|out| {
            out.write_all(&[1; CHUNK_BYTES + 1])?;
            out.write_all(&[2])?;
            Err(io::Error::other("broken"))
        });
        let (mut bytes, mut error_text) = (Vec::new(), None);
        while let Some(chunk) = body.blocking_recv() {
            match chunk {
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(error) => error_text = Some(error.to_string()),
            }
        }
        assert_eq!(error_text.as_deref(), Some("broken"));
        assert!(bytes == vec![1; CHUNK_BYTES + 1], "{} bytes came, and nothing after the error", bytes.len());
    }

    #[test]
    fn who_is_not_read_ends() {
        let body = chunks(|out| out.write_all(&[0; CHUNK_BYTES * (CHUNKS_QUEUED_MAX + 4)]));
        drop(body);
    }
}
