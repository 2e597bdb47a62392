//! Recognizes connections to the ports for agents and servers that speak another protocol. A browser, a probe or a client of the HTTP API
//! gets an HTTP response that names the port, instead of a connection that closes without any.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a connection may be silent at its beginning.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Bytes that tell an HTTP request from a frame.
const OPENING_BYTES: usize = 4;
/// The first line of the answer to HTTP: whoever asks has the wrong address.
const STATUS: &str = "HTTP/1.1 421 Misdirected Request";
/// How long the answer may take to be written.
const WRITE_MAX: Duration = Duration::from_secs(1);
/// How long the client may take to close the connection, and how much it may send until then.
const READ_MAX: Duration = Duration::from_secs(1);
const DRAINED_BYTES_MAX: u64 = 64 << 10;

/// A port that speaks a protocol of Berth's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPort {
    Agents,
    Servers,
}

impl OwnPort {
    /// What it is called, with the setting that moves it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agents => "the port for agents (--agent-addr)",
            Self::Servers => "the port for servers (--server-addr)",
        }
    }
}

/// What a connection to such a port speaks instead of its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    Http,
    /// A TLS handshake where the port has no certificates.
    Tls,
}

impl Foreign {
    /// Waits for the first bytes of a connection, and leaves them to be read; none where they may be of the port's own protocol. A
    /// connection of which fewer come at once says nothing of its protocol.
    ///
    /// # Errors
    /// When none come in time, or the other side hangs up.
    pub async fn of(stream: &TcpStream, is_encrypted: bool) -> io::Result<Option<Self>> {
        let mut opening = [0; OPENING_BYTES];
        let read = timeout(SILENCE_MAX, stream.peek(&mut opening)).await;
        match read.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it has sent nothing"))?? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Self::recognize(&opening, is_encrypted)),
        }
    }

    /// Both of our protocols begin with the length of a frame, which is far below what these bytes are as a number.
    fn recognize(opening: &[u8], is_encrypted: bool) -> Option<Self> {
        match opening {
            b"GET " | b"HEAD" | b"POST" | b"PUT " | b"OPTI" | b"DELE" | b"PATC" => Some(Self::Http),
            [0x16, 0x03, ..] if !is_encrypted => Some(Self::Tls),
            _ => None,
        }
    }

    /// Why it is refused, for the server's own log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Http => "it sent an HTTP request",
            Self::Tls => "it speaks TLS, for which this server has no certificates (--tls-dir)",
        }
    }

    /// Answers in the protocol that was recognized, where there is an answer, and ends the connection.
    pub async fn answer(self, port: OwnPort, mut stream: TcpStream) {
        if self == Self::Http {
            let _ = timeout(WRITE_MAX, stream.write_all(http_answer(port).as_bytes())).await;
            let _ = timeout(READ_MAX, drain(&mut stream)).await;
        }
    }
}

fn http_answer(port: OwnPort) -> String {
    let port = port.name();
    let text = format!(
        "this is {port}; the HTTP API is at the address that --http-addr names, port 4646 unless set\n"
    );
    let length = text.len();
    format!(
        "{STATUS}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    )
}

/// Reads what the client still sends: an answer is lost where its connection is closed with bytes unread.
async fn drain(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(DRAINED_BYTES_MAX), &mut tokio::io::sink()).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use berth_api::agent::{FRAME_BYTES_MAX, HELLO_BYTES_MAX};

    use super::*;

    #[test]
    fn no_length_of_a_frame_is_taken_for_another_protocol() {
        for length in [0, 1, HELLO_BYTES_MAX, FRAME_BYTES_MAX] {
            let opening = u32::try_from(length).expect("frames are small").to_be_bytes();
            assert_eq!(Foreign::recognize(&opening, false), None, "{length}");
        }
    }

    #[test]
    fn a_handshake_is_foreign_only_where_there_are_no_certificates() {
        assert_eq!(Foreign::recognize(&[0x16, 0x03, 0x01, 0x02], true), None);
        assert_eq!(Foreign::recognize(&[0x16, 0x03, 0x01, 0x02], false), Some(Foreign::Tls));
        assert_eq!(Foreign::recognize(b"GET ", true), Some(Foreign::Http));
    }
}
