//! Agents that shut down and request a drain of their nodes first.

use std::{collections::BTreeMap, time::Duration};

use berth_api::agent::Leaving;
use berth_model::{
    NodeId, Timestamp,
    command::{Command, DrainNode, NewDrain, Refusal},
};
use hyper::StatusCode;

use super::{certificate_audit::ROUTE, listen::ListenContext};
use crate::{
    audit::{AuditCaller, AuditChange, AuditOperation, fields_without_http},
    clock,
    convert::agent::secret_hash,
    shared::{Committed, ProposeError, State},
};

/// How often a request is made again while nobody leads.
const TRIES_MAX: u32 = 30;
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The message of such a drain.
const MESSAGE: &str = "its agent shuts down";

/// Drains the node if the request has the node's secret: its session may not have been accepted yet. Does not wait for the drain.
/// Beyond [`super::listen::LEAVING_MAX`] requests at a time the rest are dropped; agents make them again on their next connection.
///
/// The drain is recorded in the audit log as requested by `by`, and not proposed while it cannot be recorded.
pub(super) fn drain(context: &ListenContext, node: NodeId, by: AuditCaller, request: &Leaving) {
    let Some(state) = context.state() else { return };
    let view = state.view.load();
    let detail = view.store.node(node).and_then(|(slot, _)| view.store.nodes().detail(slot));
    if detail.is_none_or(|detail| detail.node.secret_hash != secret_hash(&request.secret)) {
        return;
    }
    let Ok(permit) = context.leaving.clone().try_acquire_owned() else { return };
    let command = command(node, request, clock::now().max(view.store.at()));
    let state = state.clone();
    tokio::spawn(async move {
        propose(&state, by, command).await;
        drop(permit);
    });
}

fn command(node: NodeId, request: &Leaving, now: Timestamp) -> DrainNode {
    let span_ns = request.deadline_ms.saturating_mul(1_000_000);
    let (deadline, requested_ns) = match (request.force, request.deadline_ms) {
        (true, _) => (Some(now), -1),
        (_, 0) => (None, 0),
        _ => {
            let requested_ns = i64::try_from(span_ns).unwrap_or(i64::MAX);
            (Some(Timestamp(now.0.saturating_add(span_ns))), requested_ns)
        }
    };
    let drain = Some(NewDrain { deadline, ignore_system: request.ignore_system, requested_ns });
    let meta = BTreeMap::from([("message".to_owned(), MESSAGE.to_owned())]);
    DrainNode { node, drain, eligible: false, meta }
}

async fn propose(state: &State, by: AuditCaller, command: DrainNode) {
    let mut why = String::new();
    for attempt in 0..TRIES_MAX {
        if attempt > 0 {
            tokio::time::sleep(RETRY_AFTER).await;
        }
        let line = match &state.server.audit {
            Some(log) => match log.reserve().await {
                Ok(line) => Some(line),
                Err(unrecorded) => {
                    why = unrecorded.to_string();
                    continue;
                }
            },
            None => None,
        };
        let proposed = state.engine.propose(vec![Command::DrainNode(Box::new(command.clone()))]).await;
        if let Err(error @ (ProposeError::NoLeader | ProposeError::Busy(_))) = &proposed {
            why = error.to_string();
            continue;
        }
        if let Some(line) = line {
            line.record(fields(&by, command.node, &proposed));
        }
        match proposed.as_ref().map(refusal) {
            Ok(None) => return,
            Ok(Some(refused)) => why = refused.to_string(),
            Err(error) => why = error.to_string(),
        }
        break;
    }
    tracing::warn!(node = %command.node, why, "could not drain a node whose agent shuts down");
}

/// Why the state did not take it.
fn refusal(committed: &Committed) -> Option<&Refusal> {
    committed.outcomes.iter().find_map(|outcome| outcome.as_ref().err())
}

/// The fields of its audit record.
fn fields(by: &AuditCaller, node: NodeId, proposed: &Result<Committed, ProposeError>) -> Vec<u8> {
    let mut change = AuditChange::new("drain_node", "", [node.to_string()]);
    let status = match proposed {
        Ok(committed) if refusal(committed).is_some() => {
            change.error = Some("refused");
            StatusCode::CONFLICT
        }
        Ok(committed) => {
            change.index = Some(committed.index.0);
            StatusCode::OK
        }
        Err(ProposeError::Unknown(_)) => {
            change.error = Some("unknown");
            StatusCode::INTERNAL_SERVER_ERROR
        }
        Err(_) => {
            change.error = Some("refused");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let what = AuditOperation {
        method: "DRAIN".to_owned(),
        route: ROUTE,
        capability: "agent",
        ..AuditOperation::default()
    };
    fields_without_http(by, &what, &[change], status, Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{node::Node, resources::Resources};

    use super::*;
    use crate::{
        agents::listen::LEAVING_MAX,
        audit::{AuditConfig, AuditLog},
        nomad::tests::fake_engine::FakeEngine,
        shared::ServerInfo,
    };

    #[test]
    fn the_drain_has_the_deadline_that_the_agent_requested() {
        let request = |deadline_ms, force| {
            let request = Leaving { deadline_ms, force, ..Leaving::default() };
            command(NodeId(1), &request, Timestamp(5)).drain.map(|drain| (drain.deadline, drain.requested_ns))
        };
        assert_eq!(request(0, false), Some((None, 0)));
        assert_eq!(request(2, false), Some((Some(Timestamp(2_000_005)), 2_000_000)));
        assert_eq!(request(2, true), Some((Some(Timestamp(5)), -1)));
        assert_eq!(request(u64::MAX, false), Some((Some(Timestamp(u64::MAX)), i64::MAX)));
    }
    #[tokio::test]
    async fn so_many_nodes_at_a_time_are_drained_for_their_agents_and_no_more() {
        let engine = Arc::new(FakeEngine::default());
        let secret = b"sixteen bytes and more".to_vec();
        let ids: Vec<NodeId> = (1..=LEAVING_MAX as u128 + 1).map(NodeId).collect();
        let node = |id: &NodeId| {
            let room = Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 };
            let node = Node { secret_hash: secret_hash(&secret), ..Node::new(*id, "n", room) };
            Command::RegisterNode(Box::new(node))
        };
        engine.apply(ids.iter().map(node).collect());
        let (inputs, _inputs) = crossbeam_channel::bounded(1);
        let context = ListenContext::new(inputs).with_state(engine.state());
        let request = Leaving { secret: secret.clone(), ..Leaving::default() };
        let is_drained = |id: &NodeId| {
            let view = engine.view.load();
            view.store.node(*id).is_some_and(|(_, row)| !row.eligible)
        };
        let all_done = async || {
            while context.leaving.available_permits() < LEAVING_MAX {
                tokio::task::yield_now().await;
            }
        };
        let (last, others) = ids.split_last().expect("there are many");

        // Nothing is proposed before this waits.
        ids.iter().for_each(|id| drain(&context, *id, AuditCaller::default(), &request));
        all_done().await;
        assert!(others.iter().all(is_drained));
        assert!(!is_drained(last), "it was one too many");

        drain(
            &context,
            *last,
            AuditCaller::default(),
            &Leaving { secret: b"another one".to_vec(), ..Leaving::default() },
        );
        all_done().await;
        assert!(!is_drained(last), "somebody else asks");
        drain(&context, *last, AuditCaller::default(), &request);
        all_done().await;
        assert!(is_drained(last), "it asked again");
    }

    #[tokio::test]
    async fn a_drain_requested_by_an_agent_is_not_proposed_before_it_can_be_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = AuditConfig {
            dir: dir.path().join("audit"),
            file_bytes_max: 64 << 20,
            files_max: 4,
            keep: Duration::ZERO,
            all_reads: false,
        };
        let log = AuditLog::open(config, "s1").expect("it begins");
        let engine = Arc::new(FakeEngine::default());
        let secret = b"sixteen bytes and more".to_vec();
        let room = Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 };
        let node = Node { secret_hash: secret_hash(&secret), ..Node::new(NodeId(7), "n", room) };
        engine.apply(vec![Command::RegisterNode(Box::new(node))]);
        let mut state = engine.state();
        state.server = Arc::new(ServerInfo { audit: Some(log.clone()), ..ServerInfo::clone(&state.server) });
        let (inputs, _inputs) = crossbeam_channel::bounded(1);
        let context = ListenContext::new(inputs).with_state(state);
        let by = AuditCaller {
            address: "10.0.0.1:5".to_owned(),
            certificate: "the agent of node 7".to_owned(),
            ..AuditCaller::default()
        };
        let is_drained = || engine.view.load().store.node(NodeId(7)).is_some_and(|(_, row)| !row.eligible);
        let hang = log.hang();
        let reservations = log.reserve_all();
        drain(&context, NodeId(7), by.clone(), &Leaving { secret: secret.clone(), ..Leaving::default() });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!is_drained(), "there is no room for its line");
        drop((reservations, hang));
        let all_done = async {
            while context.leaving.available_permits() < LEAVING_MAX {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all_done).await.expect("it is tried again");
        assert!(is_drained());
        log.close();
        let text =
            std::fs::read_to_string(dir.path().join("audit/audit-00000001.jsonl")).expect("it is there");
        let line = text.lines().find(|line| line.contains("drain_node")).expect("it is recorded");
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["who"]["certificate"], "the agent of node 7");
        assert_eq!((&line["what"]["method"], &line["status"]), (&"DRAIN".into(), &200.into()));
        assert_eq!(line["changes"][0]["objects"][0], NodeId(7).to_string());
        assert_eq!(line["changes"][0]["index"], engine.view.load().index.0);
        assert!(!text.contains("sixteen bytes"), "no secret is told");
    }
}
