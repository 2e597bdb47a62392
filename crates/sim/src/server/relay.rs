//! What the controllers of servers send each other, on its way. Connections keep frames in order; here they are lost,
//! doubled and overtaken besides, which controllers are to make up for.

use std::{collections::VecDeque, sync::Mutex};

use berth_controller::{Event, ServerId, ServerMessage};
use berth_replication::Replication;
use bytes::Bytes;
use tokio::sync::Notify;

use super::{Input, Server, lock, members::member_id, wire};
use crate::executor::{Simulated, random_u64};

/// Messages that wait for one server, beyond which its controller keeps the rest, as differences.
const WAITING_MAX: usize = 16;
/// How many in a thousand messages are lost, how many come twice, and how many are overtaken by the next.
const LOST_PER_MILLE: u64 = 4;
const DOUBLED_PER_MILLE: u64 = 4;
const OVERTAKEN_PER_MILLE: u64 = 4;

/// The way to one server.
#[derive(Default)]
pub struct RelayQueue {
    messages: Mutex<VecDeque<Bytes>>,
    came: Notify,
}

impl RelayQueue {
    /// Whether a message would be on its way soon.
    pub fn has_room(&self) -> bool {
        lock(&self.messages).len() < WAITING_MAX
    }

    /// Sends a message, or what chance makes of it.
    pub fn enqueue(&self, message: &ServerMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let bytes = Bytes::from(bytes);
        let mut messages = lock(&self.messages);
        let chance = random_u64() % 1_000;
        let doubled = LOST_PER_MILLE + DOUBLED_PER_MILLE;
        match chance {
            _ if chance < LOST_PER_MILLE => return,
            _ if chance < doubled => messages.extend([bytes.clone(), bytes]),
            _ if chance < doubled + OVERTAKEN_PER_MILLE => messages.push_front(bytes),
            _ => messages.push_back(bytes),
        }
        self.came.notify_one();
    }
}

/// Carries messages to a server, counted from 0.
pub async fn carry(server: Server, replication: Replication<Simulated>, to: usize) {
    let relay = &server.0.relays[to];
    loop {
        let (was_full, message) = {
            let mut messages = lock(&relay.messages);
            (messages.len() == WAITING_MAX, messages.pop_front())
        };
        if was_full {
            server.enqueue(Input::Event(Event::ServersCanReceive));
        }
        let Some(message) = message else {
            relay.came.notified().await;
            continue;
        };
        // What cannot be sent is lost.
        if let Some(id) = member_id(&replication, to) {
            replication.peers().send_message(id, &wire::address(to), &message).await.ok();
        }
    }
}

/// Takes in what a server reports.
pub fn take(server: &Server, from: u64, message: &Bytes) {
    if !server.is_open() {
        return;
    }
    match ServerMessage::decode(message) {
        Ok(message) => server.enqueue(Input::Event(Event::Message(ServerId(from), Box::new(message)))),
        Err(error) => server.env().truth.violated("protocol", format!("servers misunderstand: {error}")),
    }
}
