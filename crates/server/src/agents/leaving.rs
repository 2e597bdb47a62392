//! Agents that shut down and ask for their nodes to be drained first.

use std::{collections::BTreeMap, time::Duration};

use berth_api::agent::Leaving;
use berth_model::{
    NodeId, Timestamp,
    command::{Command, DrainNode, NewDrain},
};

use super::listen::Context;
use crate::{
    clock,
    convert::agent::secret_hash,
    state::{ProposeError, State},
};

/// How often a request is made again while nobody leads.
const TRIES_MAX: u32 = 30;
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// What is said of such a drain.
const MESSAGE: &str = "its agent shuts down";

/// Drains the node, unless it is not its agent who asks: the session that it was said in may not be open yet. What goes
/// on is not waited for; of more requests at a time than connections have sessions the rest is left out, and made again by
/// the agents on their next connection.
pub(super) fn drain(context: &Context, node: NodeId, asked: &Leaving) {
    let Some(state) = context.state() else { return };
    let view = state.view.load();
    let known = view.store.node(node).and_then(|(slot, _)| view.store.nodes().detail(slot));
    if known.is_none_or(|detail| detail.node.secret_hash != secret_hash(&asked.secret)) {
        return;
    }
    let Ok(permit) = context.leaving.clone().try_acquire_owned() else { return };
    let command = command(node, asked, clock::now().max(view.store.at()));
    let state = state.clone();
    tokio::spawn(async move {
        propose(&state, command).await;
        drop(permit);
    });
}

fn command(node: NodeId, asked: &Leaving, now: Timestamp) -> DrainNode {
    let span_ns = asked.deadline_ms.saturating_mul(1_000_000);
    let (deadline, asked_ns) = match (asked.force, asked.deadline_ms) {
        (true, _) => (Some(now), -1),
        (_, 0) => (None, 0),
        _ => {
            let asked_ns = i64::try_from(span_ns).unwrap_or(i64::MAX);
            (Some(Timestamp(now.0.saturating_add(span_ns))), asked_ns)
        }
    };
    let drain = Some(NewDrain { deadline, ignore_system: asked.ignore_system, asked_ns });
    let meta = BTreeMap::from([("message".to_owned(), MESSAGE.to_owned())]);
    DrainNode { node, drain, eligible: false, meta }
}

async fn propose(state: &State, command: DrainNode) {
    for _ in 0..TRIES_MAX {
        let proposed = state.engine.propose(vec![Command::DrainNode(Box::new(command.clone()))]).await;
        match proposed {
            Ok(_) => return,
            Err(ProposeError::NoLeader | ProposeError::Busy(_)) => tokio::time::sleep(AGAIN_AFTER).await,
            Err(error) => {
                tracing::warn!(node = %command.node, %error, "could not drain a node whose agent shuts down");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{node::Node, resources::Resources};

    use super::*;
    use crate::{agents::listen::LEAVING_MAX, nomad::tests::fake_engine::FakeEngine};

    #[test]
    fn how_long_it_may_take_is_as_the_agent_says() {
        let asked = |deadline_ms, force| {
            let asked = Leaving { deadline_ms, force, ..Leaving::default() };
            command(NodeId(1), &asked, Timestamp(5)).drain.map(|drain| (drain.deadline, drain.asked_ns))
        };
        assert_eq!(asked(0, false), Some((None, 0)));
        assert_eq!(asked(2, false), Some((Some(Timestamp(2_000_005)), 2_000_000)));
        assert_eq!(asked(2, true), Some((Some(Timestamp(5)), -1)));
        assert_eq!(asked(u64::MAX, false), Some((Some(Timestamp(u64::MAX)), i64::MAX)));
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
        let context = Context::new(inputs).with_state(engine.state());
        let asked = Leaving { secret: secret.clone(), ..Leaving::default() };
        let is_drained = |id: &NodeId| {
            let view = engine.view.load();
            view.store.node(*id).is_some_and(|(_, row)| !row.eligible)
        };
        let done = async || {
            while context.leaving.available_permits() < LEAVING_MAX {
                tokio::task::yield_now().await;
            }
        };
        let (last, others) = ids.split_last().expect("there are many");

        // Nothing is proposed before this waits.
        ids.iter().for_each(|id| drain(&context, *id, &asked));
        done().await;
        assert!(others.iter().all(is_drained));
        assert!(!is_drained(last), "it was one too many");

        drain(&context, *last, &Leaving { secret: b"another one".to_vec(), ..Leaving::default() });
        done().await;
        assert!(!is_drained(last), "somebody else asks");
        drain(&context, *last, &asked);
        done().await;
        assert!(is_drained(last), "it asked again");
    }
}
