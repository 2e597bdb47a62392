//! Connections between servers: length-delimited frames over the same kind of stream as every other connection. Their content is
//! `replication`'s and `cluster`'s.

mod certificates;
mod dial;
mod listen;

pub(crate) use certificates::PeerCertificates;
pub(crate) use dial::TcpDial;
pub(crate) use listen::listen;

use std::{io, sync::Arc, time::Duration};

use berth_replication::peer::{FRAME_BYTES_MAX, PeerChannel};
use futures_util::{SinkExt, StreamExt};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::net::{KeepAlive, NetStream};

/// How long what was sent may stay unacknowledged by the other server's kernel: a link that swallows one direction shows
/// here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// A silent server is probed by keep-alives.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(10), interval: Duration::from_secs(5), retries: 3 };

/// Explains a failed handshake, as a refusal; any other error stays as it is.
fn explain(error: io::Error) -> io::Error {
    match berth_tls::explain(&error) {
        Some(words) => io::Error::new(io::ErrorKind::PermissionDenied, words),
        None => error,
    }
}

/// A channel over a connection, which ends when the certificate of the peer is no longer valid.
pub(crate) fn channel(stream: NetStream, certificates: &Arc<PeerCertificates>) -> io::Result<PeerChannel> {
    let certificate = stream.certificate().cloned();
    stream.set_nodelay()?;
    stream.set_keepalive(KEEP_ALIVE)?;
    stream.set_unacknowledged_max(UNACKNOWLEDGED_MAX)?;
    let codec = LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES_MAX).new_codec();
    let (outgoing, incoming) = Framed::new(stream, codec).split();
    let outgoing = outgoing.sink_map_err(|error: io::Error| error);
    // A refused peer learns of it with its first read.
    let explained = |error: io::Error| explain(error);
    let incoming =
        incoming.map(move |frame| frame.map(tokio_util::bytes::BytesMut::freeze).map_err(explained));
    let channel = PeerChannel::new(outgoing, incoming);
    Ok(match certificate {
        Some(certificate) => certificates.guard(channel, certificate),
        None => channel,
    })
}
