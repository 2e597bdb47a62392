//! Requests a certificate from a server.

use std::io;
use std::time::Duration;

use berth_api::agent::{ENROLLED_BYTES_MAX, Enroll, Enrolled, decode_frame, encode_frame};
use berth_tls::{Connector, Key, Stream};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{Failure, FailureContext};

/// How long all of it may take: the servers may be looking for a leader.
const EXCHANGE_MAX: Duration = Duration::from_secs(40);

/// The certificate that a server has issued.
pub(super) struct IssuedCertificate {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// The authorities that the cluster trusts, in DER.
    pub authorities: Vec<Vec<u8>>,
}

/// The proof for which a server issues a certificate.
pub(super) enum EnrollProof {
    /// The secret of a join token.
    Token(Vec<u8>),
    /// The certificate that the connector shows, and the node's secret.
    Certificate(Vec<u8>),
}

/// Requests a certificate for a node and a key.
pub(super) async fn request_certificate(
    server: &str,
    connector: &Connector,
    by: EnrollProof,
    node_id: [u8; 16],
    key: &Key,
) -> Result<IssuedCertificate, Failure> {
    let doing = || format!("ask the server {server} for a certificate");
    let public_key = key.public().to_vec();
    let (secret, node_secret) = match by {
        EnrollProof::Token(secret) => (secret, Vec::new()),
        EnrollProof::Certificate(node_secret) => (Vec::new(), node_secret),
    };
    let (node_id, signature) = (node_id.to_vec(), Vec::new());
    let mut request = Enroll { secret, node_id, public_key, signature, node_secret };
    request.signature = key.sign(&request.signed()).map_err(|error| Failure::other(doing(), error))?;
    let exchanging = async {
        let stream = TcpStream::connect(server).await?;
        let stream = connector.connect(stream, server).await?;
        exchange(stream, &request).await
    };
    let answer =
        timeout(EXCHANGE_MAX, exchanging).await.map_err(|_| Failure::other(doing(), "no answer in time"))?;
    let answer =
        answer.map_err(|error| berth_tls::explain(&error).map_or(error, io::Error::other)).doing(doing)?;
    if !answer.refused.is_empty() {
        return Err(Failure::other(doing(), answer.refused));
    }
    Ok(IssuedCertificate { certificate: answer.certificate, authorities: answer.authorities })
}

async fn exchange(mut stream: Stream, request: &Enroll) -> io::Result<Enrolled> {
    let mut buffer = BytesMut::new();
    encode_frame(request, &mut buffer);
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
