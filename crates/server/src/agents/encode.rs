//! Encodes messages to sessions as frames. Desired state is encoded immediately from the state that it was derived from, in parts
//! of bounded size.

use std::collections::HashMap;

use berth_api::agent::{
    self as wire, Down, DownFrame, GroupEntry, PortBinding, RunAlloc, StopAlloc, encode_frame,
};
use berth_controller::{DesiredState, NodeMessage, WelcomeMode};
use berth_model::{
    AllocId,
    job::Group,
    store::{AllocRow, AllocSlot, Store},
};
use bytes::{Bytes, BytesMut};
use prost::Message;

use super::specs::{GroupSpecs, SpecKey};
use crate::convert::desired;

/// About how large a part of desired state may be: far below a frame's limit, which one specification comes close to.
const PART_BYTES_MAX: usize = 1 << 20;
/// Bytes that an id, a reason and their field headers take, about.
const NAMED_BYTES: usize = 48;

/// One message of any kind as a frame.
pub(crate) fn frame(session: u32, message: Down) -> Bytes {
    let mut out = BytesMut::new();
    encode_frame(&DownFrame { session, message: Some(message) }, &mut out);
    out.freeze()
}

/// What the controller sends a session, as frames.
pub fn frames(session: u32, message: NodeMessage, specs: &mut GroupSpecs) -> Vec<Bytes> {
    let message = match message {
        NodeMessage::Desired(desired) => return DesiredEncoder::of(session, *desired, specs),
        NodeMessage::Welcome { cluster, restored, mode, heartbeat_ms } => {
            let (mode, observed_seq) = match mode {
                WelcomeMode::Equal => (wire::WelcomeMode::Equal, 0),
                WelcomeMode::FromSeq(seq) => (wire::WelcomeMode::FromSeq, seq),
                WelcomeMode::Full => (wire::WelcomeMode::Full, 0),
            };
            let cluster_id = cluster.to_be_bytes().to_vec();
            Down::Welcome(wire::Welcome {
                mode: mode.into(),
                observed_seq,
                heartbeat_ms,
                cluster_id,
                restored,
            })
        }
        NodeMessage::Refused { reason, retry } => Down::Refused(wire::SessionRefused { reason, retry }),
        NodeMessage::HeartbeatEvery { heartbeat_ms } => {
            Down::HeartbeatEvery(wire::HeartbeatEvery { heartbeat_ms })
        }
        NodeMessage::Ack { seq, delay_ms } => Down::Ack(wire::Ack { seq, delay_ms }),
    };
    vec![frame(session, message)]
}

/// Desired state on its way into frames.
struct DesiredEncoder {
    session: u32,
    term: u64,
    index: u64,
    seq: u64,
    full: bool,
    part: wire::Desired,
    part_bytes: usize,
    refs: HashMap<SpecKey, u32>,
    frames: Vec<Bytes>,
}

impl DesiredEncoder {
    fn of(session: u32, desired: DesiredState, specs: &mut GroupSpecs) -> Vec<Bytes> {
        let DesiredState { term, store, seq, full, run, stop, forget, purge, .. } = desired;
        let index = store.index().0;
        let mut parts = Self {
            session,
            term,
            index,
            seq,
            full,
            part: wire::Desired::default(),
            part_bytes: 0,
            refs: HashMap::new(),
            frames: Vec::new(),
        };
        for (id, reason) in stop {
            let stop = StopAlloc { alloc_id: bytes_of(id), reason: reason.as_str().to_owned() };
            parts.reserve(NAMED_BYTES).stop.push(stop);
        }
        forget.into_iter().for_each(|id| parts.reserve(NAMED_BYTES).forget.push(bytes_of(id)));
        purge.into_iter().for_each(|id| parts.reserve(NAMED_BYTES).purge.push(bytes_of(id)));
        run.into_iter().for_each(|slot| parts.run(&store, slot, specs));
        parts.finish(false);
        parts.frames
    }

    fn run(&mut self, store: &Store, slot: AllocSlot, specs: &mut GroupSpecs) {
        let Some(row) = store.allocs().row(slot) else { return };
        let (Some((key, spec)), Some((_, group))) = (specs.get(store, row), store.job_of(row)) else {
            return;
        };
        let mut run = run_alloc(store, slot, row, group);
        let run_bytes = run.encoded_len() + NAMED_BYTES;
        let with_spec = run_bytes + spec.len() + NAMED_BYTES;
        self.reserve(if self.refs.contains_key(&key) { run_bytes } else { with_spec });
        // Reserving bytes may have begun a part that has no specifications yet.
        run.group_ref = match self.refs.get(&key) {
            Some(group_ref) => *group_ref,
            None => {
                let group_ref = u32::try_from(self.refs.len()).expect("a part is of bounded size");
                self.refs.insert(key, group_ref);
                self.part.groups.push(GroupEntry { group_ref, spec });
                group_ref
            }
        };
        self.part.run.push(run);
    }

    /// The part to add so many bytes to.
    fn reserve(&mut self, bytes: usize) -> &mut wire::Desired {
        if self.part_bytes > 0 && self.part_bytes + bytes > PART_BYTES_MAX {
            self.finish(true);
        }
        self.part_bytes += bytes;
        &mut self.part
    }

    fn finish(&mut self, more: bool) {
        let mut part = std::mem::take(&mut self.part);
        (part.term, part.index, part.seq) = (self.term, self.index, self.seq);
        (part.full, part.more) = (self.full, more);
        self.refs.clear();
        self.part_bytes = 0;
        self.frames.push(frame(self.session, Down::Desired(part)));
    }
}

fn run_alloc(store: &Store, slot: AllocSlot, row: &AllocRow, group: &Group) -> RunAlloc {
    let extra = store.allocs().extra(slot);
    let ports = extra.map_or(&[][..], |extra| &extra.ports);
    let node = store.nodes().detail(row.node);
    let bindings = group.ports().zip(ports).map(|(port, host)| {
        let network = port.named_network();
        let address = network.and_then(|network| node?.node.address_in(network));
        PortBinding {
            label: port.label.clone(),
            host_port: u32::from(*host),
            to: u32::from(port.to),
            host_network: network.unwrap_or_default().to_owned(),
            host_ip: address.unwrap_or_default().to_owned(),
        }
    });
    RunAlloc {
        alloc_id: bytes_of(row.id),
        name_index: row.name_index,
        group_ref: 0,
        ports: bindings.collect(),
        after: store.waits_for(slot).into_iter().map(bytes_of).collect(),
        job_version: row.job_version,
        revision: row.revision(),
        devices: extra
            .map_or_else(Vec::new, |extra| desired::task_devices(group, &extra.devices, &extra.cores)),
        previous: extra.and_then(|extra| extra.previous).map_or(Vec::new(), bytes_of),
        health: extra.filter(|extra| extra.watched).and_then(|_| desired::migrated_health(group)),
    }
}

fn bytes_of(id: AllocId) -> Vec<u8> {
    id.to_bytes().to_vec()
}

#[cfg(test)]
mod tests;
