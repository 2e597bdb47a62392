//! Applying node pools.

use super::Store;
use crate::{
    command::{Outcome, Refusal},
    event::StateChange,
    namespace::is_tenant_name,
    node_pool::{NodePool, is_built_in_pool},
    store::JobStatus,
};

impl Store {
    pub(super) fn put_node_pool(&mut self, pool: NodePool, events: &mut Vec<StateChange>) -> Outcome {
        let refuse = |why: &str| Err(Refusal::BadNodePool(pool.name.clone(), why.to_owned()));
        if !is_tenant_name(&pool.name) {
            return refuse("a name has 1 to 128 letters, digits, dashes and underscores");
        }
        if is_built_in_pool(&pool.name) {
            return refuse("it is always there, and cannot be changed");
        }
        let name = pool.name.clone();
        self.node_pools.put(pool, self.index);
        events.push(StateChange::NodePoolChanged(name));
        Ok(())
    }

    /// Takes away a pool that nothing uses. Looks at every node and job: this is rare.
    pub(super) fn delete_node_pool(&mut self, name: &str, events: &mut Vec<StateChange>) -> Outcome {
        let refuse = |why: String| Err(Refusal::NodePoolInUse(name.to_owned(), why));
        if is_built_in_pool(name) {
            return refuse("it is always there".to_owned());
        }
        let mut nodes = self.nodes.iter().filter_map(|(slot, _)| self.nodes.detail(slot));
        if let Some(detail) = nodes.find(|detail| detail.node.pool == name) {
            // Clients know by these words that it may work later.
            return refuse(format!("it has nodes, as {}", detail.node.id));
        }
        if self.node_pools.get(name).is_none() {
            return Err(Refusal::NoNodePool(name.to_owned()));
        }
        let mut jobs = self.jobs.iter().map(|(_, row)| row);
        if let Some(job) = jobs.find(|row| row.job().node_pool == name && row.status() != JobStatus::Dead) {
            let (namespace, name) = (&job.key.namespace, job.key.name());
            return refuse(format!("it has non-terminal jobs, as {namespace}/{name}: stop those first"));
        }
        self.node_pools.remove(name, self.index);
        events.push(StateChange::NodePoolChanged(name.to_owned()));
        Ok(())
    }
}
