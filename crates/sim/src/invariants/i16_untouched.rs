//! I16: tasks outlive their agent and all servers: nobody ends what is wanted.

use berth_agent::lifecycle::TaskRef;
use berth_model::{AllocId, NodeId, store::Store};

use super::Check;
use crate::node::node_id;

/// An agent asks a task to end: the state does not want it there any more.
pub fn on_signalled(store: &Store, node: usize, of: TaskRef) -> Check {
    let id = AllocId(u128::from_be_bytes(of.alloc.0));
    let Some((_, row)) = store.alloc(id) else { return Ok(()) };
    let here =
        store.nodes().row(row.node).is_some_and(|row| row.id == NodeId(u128::from_be_bytes(node_id(node))));
    if row.is_wanted() && here {
        return Err(("I16 what is wanted is not touched", format!("node {} ends {id}", node + 1)));
    }
    Ok(())
}
