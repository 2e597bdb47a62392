//! A connection of an agent: frames in become events.

use std::sync::Arc;

use berth_api::agent::{AllocStatus, FRAME_BYTES_MAX, Up, UpFrame, Update, decode_frame};
use berth_controller::{Event, SessionId};
use berth_model::NodeId;
use berth_server::protocol;
use bytes::BytesMut;
use prost::Message;

use super::{Input, Server};
use crate::{bugs::Bug, executor::random_u64, network::ConnectionEnd};

/// Serves a connection until it ends.
pub async fn serve(server: Server, end: ConnectionEnd) {
    let end = Arc::new(end);
    let mut session = None;
    while let Some(bytes) = end.recv().await {
        let mut bytes = BytesMut::from(&bytes[..]);
        let Ok(Some(UpFrame { message: Some(message), .. })) = decode_frame(&mut bytes, FRAME_BYTES_MAX)
        else {
            break;
        };
        if take_in(&server, message, &mut session, &end).is_none() {
            break;
        }
    }
    if let Some((session, _)) = session {
        server.enqueue(Input::Event(Event::SessionClosed(session)));
    }
}

/// None when the peer breaks the protocol.
fn take_in(
    server: &Server,
    message: Up,
    session: &mut Option<(SessionId, NodeId)>,
    end: &Arc<ConnectionEnd>,
) -> Option<()> {
    match message {
        Up::Hello(hello) => {
            let mut hello = Box::new(protocol::hello(hello).ok()?);
            hello.checkpoint = server.checkpoint(hello.node_id());
            // Never used twice: chance does not give the same number again.
            let id = SessionId(random_u64());
            if let Some((old, _)) = session.replace((id, hello.node_id())) {
                server.enqueue(Input::Event(Event::SessionClosed(old)));
            }
            server.enqueue(Input::Open { session: id, hello, end: end.clone() });
        }
        Up::Heartbeat(heartbeat) => {
            let (session, mut heartbeat) = ((*session)?.0, protocol::heartbeat(&heartbeat));
            if server.env().bug == Some(Bug::CountsHeartbeatsAsReports) {
                let desired_seq = heartbeat.desired_seq;
                let (allocs, resync_done) = (Vec::new(), false);
                let report = Event::Observed { session, seq: 0, desired_seq, allocs, resync_done };
                server.enqueue(Input::Event(report));
                heartbeat.seq += 1;
            }
            server.enqueue(Input::Event(Event::Heartbeat(session, heartbeat)));
        }
        Up::Update(update) => update_of(server, update, (*session)?.0)?,
        Up::Changed(changed) => {
            let (session, node) = (*session)?;
            let node = protocol::node_changed(node, changed).ok()?;
            server.enqueue(Input::Event(Event::NodeChanged(session, Box::new(node))));
        }
        Up::FileChunk(_)
        | Up::Answer(_)
        | Up::Exec(_)
        | Up::Leaving(_)
        | Up::Sign(_)
        | Up::Secrets(_)
        | Up::Watch(_)
        | Up::TaskApi(_)
        | Up::Renewed(_) => {}
    }
    Some(())
}

fn update_of(server: &Server, update: Update, session: SessionId) -> Option<()> {
    let mut allocs = Vec::with_capacity(update.allocs.len());
    for encoded in &update.allocs {
        let status = AllocStatus::decode(encoded.clone()).ok()?;
        allocs.push(Arc::new(protocol::observed(status, encoded).ok()?));
    }
    let Update { seq, desired_seq, resync_done, .. } = update;
    server.enqueue(Input::Event(Event::Observed { session, seq, desired_seq, allocs, resync_done }));
    Some(())
}
