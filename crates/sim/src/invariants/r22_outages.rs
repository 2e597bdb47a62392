//! R22: while all servers are away, for minutes, no task that is wanted is touched. That all is reconciled afterwards is what the rules
//! at rest say.

use std::collections::BTreeMap;

use berth_agent::lifecycle::TaskRef;
use berth_model::{AllocId, store::Store};

use super::CheckResult;
use crate::node::Machine;

const RULE: &str = "R22 tasks outlive an outage of all servers";

/// What ran when the servers went away, by the numbers of nodes, but for what ends by itself meanwhile: since when it has, and in which
/// start of its machine.
#[derive(Default)]
pub struct Outage(BTreeMap<(usize, TaskRef), (u64, u32)>);

impl Outage {
    pub fn begin(
        &mut self,
        store: &Store,
        machines: &[Machine],
        until_ns: u64,
        is_stopped: impl Fn(AllocId) -> bool,
    ) {
        for (node, machine) in machines.iter().enumerate() {
            let content = machine.content();
            let runs = content.processes.iter().filter(|(_, process)| process.until_ns > until_ns);
            let desired = runs.filter(|(of, _)| {
                let id = AllocId(u128::from_be_bytes(of.alloc.0));
                !is_stopped(id) && store.alloc(id).is_some_and(|(_, row)| row.is_desired())
            });
            self.0.extend(desired.map(|(of, process)| ((node, *of), (process.from_ns, content.boots))));
        }
    }

    /// All of it goes on, but for what a restart of its machine has ended and what is to end where no server is heard.
    pub fn end(&mut self, machines: &[Machine]) -> CheckResult {
        for ((node, of), (from_ns, boots)) in std::mem::take(&mut self.0) {
            let content = machines[node].content();
            let goes_on = content
                .processes
                .get(&of)
                .is_some_and(|process| process.from_ns == from_ns && process.is_alive());
            let is_excused = content.boots > boots || content.deserted.contains(&of.alloc);
            if !goes_on && !is_excused {
                let what =
                    format!("{} on node {} did not outlive an outage of all servers", of.alloc, node + 1);
                return Err((RULE, what));
            }
        }
        Ok(())
    }
}
