//! Asks a server for a certificate.

use std::io;
use std::time::Duration;

use berth_api::agent::{ENROLLED_BYTES_MAX, Enroll, Enrolled, decode_frame, encode_frame};
use berth_tls::{Connector, Key, Stream};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{Doing, Failure};

/// How long all of it may take: the servers may be looking for a leader.
const TALK_MAX: Duration = Duration::from_secs(40);

/// What a server answers.
pub(super) struct Answer {
    /// In DER.
    pub certificate: Vec<u8>,
    /// The authorities that the cluster believes, in DER.
    pub authorities: Vec<Vec<u8>>,
}

/// By what a server gives a certificate.
pub(super) enum By {
    /// The secret of a join token.
    Token(Vec<u8>),
    /// The certificate that the connector shows, and the node's secret.
    Certificate(Vec<u8>),
}

/// Asks for a certificate for a node and a key.
pub(super) async fn ask(
    server: &str,
    connector: &Connector,
    by: By,
    node_id: [u8; 16],
    key: &Key,
) -> Result<Answer, Failure> {
    let doing = || format!("ask the server {server} for a certificate");
    let public_key = key.public().to_vec();
    let (secret, node_secret) = match by {
        By::Token(secret) => (secret, Vec::new()),
        By::Certificate(node_secret) => (Vec::new(), node_secret),
    };
    let (node_id, signature) = (node_id.to_vec(), Vec::new());
    let mut asked = Enroll { secret, node_id, public_key, signature, node_secret };
    asked.signature = key.sign(&asked.signed()).map_err(|error| Failure::other(doing(), error))?;
    let talk = async {
        let stream = TcpStream::connect(server).await?;
        let stream = connector.connect(stream, server).await?;
        exchange(stream, &asked).await
    };
    let answer = timeout(TALK_MAX, talk).await.map_err(|_| Failure::other(doing(), "no answer in time"))?;
    let answer =
        answer.map_err(|error| berth_tls::explain(&error).map_or(error, io::Error::other)).doing(doing)?;
    if !answer.refused.is_empty() {
        return Err(Failure::other(doing(), answer.refused));
    }
    Ok(Answer { certificate: answer.certificate, authorities: answer.authorities })
}

async fn exchange(mut stream: Stream, asked: &Enroll) -> io::Result<Enrolled> {
    let mut buffer = BytesMut::new();
    encode_frame(asked, &mut buffer);
    stream.write_all(&buffer).await?;
    stream.flush().await?;
    buffer.clear();
    loop {
        if let Some(answer) = decode_frame(&mut buffer, ENROLLED_BYTES_MAX).map_err(io::Error::other)? {
            return Ok(answer);
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
