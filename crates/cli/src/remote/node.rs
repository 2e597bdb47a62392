//! Requests about nodes and their pools.

use berth_api::http::{
    AllocationStub, HostStats, JobStub, Node, NodeDrain, NodeEligibility, NodeEligibilityChanged,
    NodeMetaApply, NodeMetaRead, NodePool, NodeStub, NodeToken, NodeTokenRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Page, Remote, note_next_page};
use crate::failure::Failure;

/// Where metadata of nodes is read and changed.
const METADATA: &str = "/v1/client/metadata";

/// What is read of an allocation that comes with its job. That alone has the job's type, which those of lists have beside
/// it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WholeAllocation {
    #[serde(flatten)]
    alloc: AllocationStub,
    job: Option<JobOfAllocation>,
}

#[derive(Deserialize)]
struct JobOfAllocation {
    #[serde(rename = "Type")]
    job_type: String,
}

impl From<WholeAllocation> for AllocationStub {
    fn from(whole: WholeAllocation) -> Self {
        match whole.job {
            Some(job) => Self { job_type: job.job_type, ..whole.alloc },
            None => whole.alloc,
        }
    }
}

impl Remote {
    pub async fn nodes(&self) -> Result<Vec<NodeStub>, Failure> {
        self.get(&self.list(self.target("/v1/nodes"))).await
    }

    /// A node by its whole id.
    pub async fn node(&self, id: &str) -> Result<Node, Failure> {
        self.get(&self.target("/v1/node").part(id)).await
    }

    /// The allocations on a node. They come whole; a list needs less.
    pub async fn node_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        let whole: Vec<WholeAllocation> =
            self.get(&self.target("/v1/node").part(id).part("allocations")).await?;
        Ok(whole.into_iter().map(AllocationStub::from).collect())
    }

    /// What a node's machine uses.
    pub async fn node_usage(&self, id: &str) -> Result<HostStats, Failure> {
        self.get(&self.target("/v1/client/stats").param("node_id", id)).await
    }

    /// Where servers take agents.
    pub async fn servers_of_agents(&self) -> Result<Vec<String>, Failure> {
        self.get(&self.target("/v1/agent/servers")).await
    }

    /// A node's metadata, as its agent has it.
    pub async fn node_meta(&self, id: &str) -> Result<NodeMetaRead, Failure> {
        self.get(&self.target(METADATA).param("node_id", id)).await
    }

    /// Sets and unsets keys of a node's metadata.
    pub async fn apply_node_meta(&self, request: &NodeMetaApply) -> Result<NodeMetaRead, Failure> {
        self.put(&self.target(METADATA), request).await
    }

    /// Opens a node to new work, or closes it.
    pub async fn set_eligibility(&self, id: &str, eligible: bool) -> Result<NodeEligibilityChanged, Failure> {
        let eligibility = if eligible { "eligible" } else { "ineligible" }.to_owned();
        let body = NodeEligibility { node_id: id.to_owned(), eligibility };
        self.put(&self.target("/v1/node").part(id).part("eligibility"), &body).await
    }

    /// Drains a node, or calls that off.
    pub async fn drain_node(&self, id: &str, request: &NodeDrain) -> Result<NodeEligibilityChanged, Failure> {
        self.put(&self.target("/v1/node").part(id).part("drain"), request).await
    }

    /// Forgets a node that is down.
    pub async fn purge_node(&self, id: &str) -> Result<(), Failure> {
        self.put::<Value>(&self.target("/v1/node").part(id).part("purge"), &json!({})).await.map(drop)
    }

    /// Makes a token with which one agent joins; an empty node is one that is not there yet.
    pub async fn node_token(&self, node: &str, ttl: &str) -> Result<NodeToken, Failure> {
        let node_id = if node.is_empty() { String::new() } else { self.find_node(node).await? };
        let request = NodeTokenRequest { node_id, ttl: ttl.to_owned() };
        self.put(&self.target("/v1/nodes/token"), &request).await
    }

    /// Makes a node's certificates good for nothing.
    pub async fn revoke_node(&self, id: &str) -> Result<(), Failure> {
        self.put::<Value>(&self.target("/v1/node").part(id).part("revoke"), &json!({})).await.map(drop)
    }
    pub async fn node_pools(&self) -> Result<Vec<NodePool>, Failure> {
        // Servers send this list whole.
        let whole = self.paged(Page::default());
        let mut pools: Vec<NodePool> = whole.get(&whole.list(self.target("/v1/node/pools"))).await?;
        if let Some(next) = self.page.cut(&mut pools, |pool| &pool.name) {
            note_next_page(&next);
        }
        Ok(pools)
    }

    /// A node pool by its name.
    pub async fn node_pool(&self, name: &str) -> Result<NodePool, Failure> {
        let read = self.get(&self.target("/v1/node/pool").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("node pool", name, "node pool list"))
    }
    pub async fn nodes_of_pool(&self, name: &str) -> Result<Vec<NodeStub>, Failure> {
        self.get(&self.list(self.target("/v1/node/pool").part(name).part("nodes"))).await
    }

    /// The jobs that use a node pool.
    pub async fn jobs_of_pool(&self, name: &str) -> Result<Vec<JobStub>, Failure> {
        self.get(&self.list(self.target("/v1/node/pool").part(name).part("jobs"))).await
    }

    /// Describes a node pool.
    pub async fn put_node_pool(&self, pool: &NodePool) -> Result<(), Failure> {
        self.put(&self.target("/v1/node/pool").part(&pool.name), pool).await
    }

    /// Takes away a node pool that nothing uses.
    pub async fn delete_node_pool(&self, name: &str) -> Result<(), Failure> {
        self.delete(&self.target("/v1/node/pool").part(name)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_that_comes_with_its_job_has_the_job_s_type() {
        let read =
            |value: Value| AllocationStub::from(WholeAllocation::deserialize(value).expect("an allocation"));
        let whole = read(json!({ "ID": "a1", "JobID": "sum", "Job": { "ID": "sum", "Type": "batch" } }));
        assert_eq!((&*whole.id, &*whole.job_type), ("a1", "batch"));
        let listed = read(json!({ "ID": "a1", "JobID": "sum", "JobType": "system" }));
        assert_eq!(&*listed.job_type, "system");
    }
}
