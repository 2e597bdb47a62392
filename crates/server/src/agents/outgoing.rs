//! What sessions are told, as frames.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use berth_api::agent::{
    self as wire, Down, DownFrame, FRAME_BYTES_MAX, PortBinding, RunAlloc, StopAlloc, encode_frame,
};
use berth_controller::{ToNode, WelcomeMode};
use berth_model::{
    AllocId, JobKey,
    store::{AllocRow, AllocSlot, Store},
};
use bytes::{Bytes, BytesMut};
use prost::Message;

use super::listen::Context;
use crate::convert::agent as convert;

/// Encoded group specs kept.
const SPECS_MAX: usize = 4096;
/// Bytes of allocations in one frame.
const DESIRED_BYTES_MAX: usize = FRAME_BYTES_MAX / 4;

/// A message to one session.
pub(crate) enum Outgoing {
    /// From the controller.
    ToNode(ToNode),
    /// As it goes over the wire.
    Wire(Down),
    /// Ends the connection's session; the agent opens another.
    Close,
}

/// Encoded group specs, shared by all allocations of a group and job version, and told apart by whether memory is
/// oversubscribed.
#[derive(Default)]
pub(crate) struct GroupSpecs(Mutex<HashMap<(JobKey, u64, u16, bool), Bytes>>);

impl GroupSpecs {
    fn get(&self, store: &Store, row: &AllocRow) -> Option<Bytes> {
        let (job, group) = store.job_of(row)?;
        let oversubscribed = store.scheduler_config().memory_oversubscription(&job.node_pool);
        let key = (job.key.clone(), row.job_version, row.group, oversubscribed);
        let mut specs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spec) = specs.get(&key) {
            return Some(spec.clone());
        }
        let spec = Bytes::from(convert::group_spec(job, group, oversubscribed).encode_to_vec());
        if specs.len() >= SPECS_MAX {
            specs.clear();
        }
        specs.insert(key, spec.clone());
        Some(spec)
    }
}

/// How many messages with desired state each of a connection's sessions was sent.
#[derive(Default)]
pub(super) struct DesiredSeqs(HashMap<u32, u64>);

impl DesiredSeqs {
    fn begin(&mut self, number: u32) {
        self.0.insert(number, 0);
    }

    fn next(&mut self, number: u32) -> u64 {
        let seq = self.0.entry(number).or_default();
        *seq += 1;
        *seq
    }
}

/// Appends a message's frames; false when the connection is to end after them.
pub(super) fn encode(
    number: u32,
    message: Outgoing,
    context: &Context,
    seqs: &mut DesiredSeqs,
    out: &mut BytesMut,
) -> bool {
    let mut put = |message| encode_frame(&DownFrame { session: number, message: Some(message) }, out);
    match message {
        Outgoing::Close => {
            put(Down::Refused(wire::Refused {
                reason: "session was replaced or given up".into(),
                retry: true,
            }));
        }
        Outgoing::Wire(message) => put(message),
        Outgoing::ToNode(ToNode::Welcome { mode, heartbeat_ms }) => {
            let (mode, observed_seq) = match mode {
                WelcomeMode::Equal => (wire::WelcomeMode::Equal, 0),
                WelcomeMode::FromSeq(seq) => (wire::WelcomeMode::FromSeq, seq),
                WelcomeMode::Full => (wire::WelcomeMode::Full, 0),
            };
            seqs.begin(number);
            // Until the cluster has an id, the server does not say which it is.
            let (cluster_id, restored) = (vec![0; 16], false);
            let mode = mode.into();
            put(Down::Welcome(wire::Welcome { mode, observed_seq, heartbeat_ms, cluster_id, restored }));
        }
        Outgoing::ToNode(ToNode::Refused { reason, retry }) => {
            put(Down::Refused(wire::Refused { reason, retry }))
        }
        Outgoing::ToNode(ToNode::HeartbeatEvery { heartbeat_ms }) => {
            put(Down::HeartbeatEvery(wire::HeartbeatEvery { heartbeat_ms }));
        }
        Outgoing::ToNode(ToNode::Ack { seq }) => put(Down::Ack(wire::Ack { seq })),
        Outgoing::ToNode(ToNode::Desired { term, index, full, run, stop, forget, purge }) => {
            let empty = || wire::Desired { term, index: index.0, ..wire::Desired::default() };
            let stop = stop.into_iter().map(|(id, reason)| StopAlloc {
                alloc_id: id.to_bytes().to_vec(),
                reason: reason.as_str().to_owned(),
            });
            let bytes = |ids: Vec<AllocId>| ids.into_iter().map(|id| id.to_bytes().to_vec()).collect();
            let first = wire::Desired {
                full,
                stop: stop.collect(),
                forget: bytes(forget),
                purge: bytes(purge),
                ..empty()
            };
            let mut frame = first;
            let mut size = 0;
            let store = &context.view.load().store;
            for (mut run, spec) in run.into_iter().filter_map(|slot| run_alloc(store, slot, &context.specs)) {
                let groups = frame.groups.len();
                run.group_ref = frame.group_ref(&spec);
                size += run.encoded_len() + if frame.groups.len() > groups { spec.len() } else { 0 };
                frame.run.push(run);
                if size > DESIRED_BYTES_MAX {
                    let next = wire::Desired { full, ..empty() };
                    let part = std::mem::replace(&mut frame, next);
                    put(Down::Desired(wire::Desired { seq: seqs.next(number), more: full, ..part }));
                    size = 0;
                }
            }
            put(Down::Desired(wire::Desired { seq: seqs.next(number), ..frame }));
        }
    }
    true
}

/// An allocation that should run, and its encoded group.
fn run_alloc(store: &Store, slot: AllocSlot, specs: &GroupSpecs) -> Option<(RunAlloc, Bytes)> {
    let row = store.allocs().row(slot).filter(|row| row.is_wanted())?;
    let (_, group) = store.job_of(row)?;
    let extra = store.allocs().extra(slot);
    let ports = extra.map_or(&[][..], |extra| &extra.ports);
    let bindings = group.ports().zip(ports).map(|(port, host)| PortBinding {
        label: port.label.clone(),
        host_port: u32::from(*host),
        to: u32::from(port.to),
    });
    let after = extra.into_iter().flat_map(|extra| &extra.after);
    let after = after.filter(|(id, _)| store.alloc(*id).is_some_and(|(_, before)| !before.is_terminal()));
    let run = RunAlloc {
        alloc_id: row.id.to_bytes().to_vec(),
        name_index: row.name_index,
        group_ref: 0,
        ports: bindings.collect(),
        after: after.map(|(id, _)| id.to_bytes().to_vec()).collect(),
        job_version: row.job_version,
        devices: extra
            .map_or_else(Vec::new, |extra| convert::task_devices(group, &extra.devices, &extra.cores)),
        previous: extra.and_then(|e| e.previous).map_or(Vec::new(), |id| id.to_bytes().to_vec()),
    };
    Some((run, specs.get(store, row)?))
}
