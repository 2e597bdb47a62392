//! The command that garbage-collects.

use minicbor::{Decode, Encode};

use crate::ids::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId};

/// What is garbage-collected. Whatever is in use again, or has changed, by the time it is applied stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Collect {
    /// Jobs that are dead, with their allocations and evaluations.
    #[n(0)]
    pub jobs: Vec<JobKey>,
    /// Allocations that have ended.
    #[n(1)]
    pub allocs: Vec<AllocId>,
    /// Evaluations that are done.
    #[n(2)]
    pub evals: Vec<EvalId>,
    /// Nodes that are down and on which nothing lives.
    #[n(3)]
    pub nodes: Vec<NodeId>,
    /// The index of the state on which this was decided; none in entries of version 1, which did not say.
    #[n(4)]
    pub decided_on: Option<Index>,
    /// Deployments that are over, but for the last one of a job. Not in entries before version 3.
    #[n(5)]
    #[cbor(default)]
    pub deployments: Vec<DeploymentId>,
}

impl Collect {
    /// Whether nothing is to be garbage-collected.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.allocs.is_empty()
            && self.evals.is_empty()
            && self.nodes.is_empty()
            && self.deployments.is_empty()
    }
}
