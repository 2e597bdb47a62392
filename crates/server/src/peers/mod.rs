//! Connections between servers: frames with their length before them, over the same kind of stream as every other
//! connection. What is said on them is `replication`'s and `cluster`'s.

mod dial;
mod listen;

pub(crate) use dial::TcpDial;
pub(crate) use listen::listen;

use std::{io, time::Duration};

use berth_replication::peer::{Channel, FRAME_BYTES_MAX};
use futures_util::{SinkExt, StreamExt};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::net::{KeepAlive, Stream};

/// How long what was sent may stay unacknowledged by the other server's kernel: a link that swallows one direction shows
/// here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// A silent server is asked whether it is still there.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(10), interval: Duration::from_secs(5), retries: 3 };

/// A channel over a connection.
pub(crate) fn channel(stream: Stream) -> io::Result<Channel> {
    stream.set_nodelay()?;
    stream.set_keepalive(KEEP_ALIVE)?;
    stream.set_unacknowledged_max(UNACKNOWLEDGED_MAX)?;
    let codec = LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES_MAX).new_codec();
    let (outgoing, incoming) = Framed::new(stream, codec).split();
    let outgoing = outgoing.sink_map_err(|error: io::Error| error);
    Ok(Channel::new(outgoing, incoming.map(|frame| frame.map(tokio_util::bytes::BytesMut::freeze))))
}
