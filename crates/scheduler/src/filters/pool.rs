//! A job runs on the nodes of its pool.

use berth_model::node::{NODE_POOL_ALL, Node};

use super::{Filter, FilterRefusal, FilterRule};

pub(super) const RULE: FilterRule = FilterRule {
    name: "node pool",
    passes: "nodes of the job's pool, or all for the pool `all`",
    is_for_running: true,
    add: |job, _, checks| checks.push(Box::new(PoolFilter::new(&job.node_pool))),
};

#[derive(Debug)]
pub(super) struct PoolFilter(String);

impl PoolFilter {
    pub fn new(pool: &str) -> Self {
        Self(pool.to_owned())
    }
}

impl Filter for PoolFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        if self.0 == NODE_POOL_ALL || self.0 == node.pool { Ok(()) } else { Err(FilterRefusal::NotAvailable) }
    }

    fn remedy(&self, node: &Node, _: &str) -> String {
        format!("set node_pool to {:?}", node.pool)
    }
}
