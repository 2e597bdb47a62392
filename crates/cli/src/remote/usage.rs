//! The usage of allocations, requested from all their nodes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::http::{AllocResourceUsage, AllocationStub};
use futures_util::stream::{self, StreamExt};

use super::Remote;
use crate::{failure::Failure, output::eprint_line};

/// Requests to nodes at the same time.
const CONCURRENT_REQUESTS: usize = 16;
/// Most nodes of a command: each is a request through the server to its agent.
const NODES_MAX: usize = 256;

impl Remote {
    /// What allocations use, by their ids; nothing of those whose node does not answer.
    pub async fn usage_of(
        &self,
        allocs: &[AllocationStub],
    ) -> Result<BTreeMap<String, AllocResourceUsage>, Failure> {
        let nodes: BTreeSet<&str> = allocs.iter().map(|alloc| alloc.node_id.as_str()).collect();
        if nodes.len() > NODES_MAX {
            eprint_line(&format!("of {} nodes {NODES_MAX} are asked: name a job or a node", nodes.len()));
        }
        let request = nodes.into_iter().take(NODES_MAX).map(|node| self.node_alloc_usage(node));
        let answers: Vec<_> = stream::iter(request).buffer_unordered(CONCURRENT_REQUESTS).collect().await;
        let mut usage = BTreeMap::new();
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(of_node) => usage.extend(of_node),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            // A node that is silent for once costs its own numbers, and not everybody's.
            Some(failure) if usage.is_empty() && !allocs.is_empty() => Err(failure),
            _ => Ok(usage),
        }
    }

    async fn node_alloc_usage(&self, node: &str) -> Result<BTreeMap<String, AllocResourceUsage>, Failure> {
        self.get(&self.target("/v1/client/stats/allocations").param("node_id", node)).await
    }
}
