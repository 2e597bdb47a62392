//! R4: once faults are over, every node that is up soon has confirmed what runs on it, whichever server is asked. A node that has not
//! gets no work, and its agent may believe that it owes nothing.

use std::{collections::BTreeMap, sync::Arc};

use super::CheckResult;
use crate::{executor::now_ns, node::number_of, server::View};

const RULE: &str = "R4 every node is confirmed";
/// How long that may take, in nanoseconds: the longest pause between two tries, a server that is dialed and says nothing, two
/// heartbeats until a session is found to be stuck, and the pause before the next hello.
const WITHIN_NS: u64 = 40_000_000_000;

/// Since when each server, counted from 0, shows nodes that have not confirmed what runs on them, in nanoseconds.
#[derive(Default)]
pub struct Confirmed {
    since_ns: BTreeMap<usize, u64>,
}

impl Confirmed {
    /// Looks at what servers show, none of which anything has kept from its work since `able_ns`; none while something does.
    pub fn on_time(
        &mut self,
        able_ns: Option<u64>,
        servers: impl Iterator<Item = (usize, Arc<View>)>,
    ) -> CheckResult {
        let Some(able_ns) = able_ns else {
            self.since_ns.clear();
            return Ok(());
        };
        for (server, view) in servers {
            let Err((rule, what)) = at_rest(server, &view) else {
                self.since_ns.remove(&server);
                continue;
            };
            let since_ns = able_ns.max(*self.since_ns.entry(server).or_insert(now_ns()));
            if now_ns() - since_ns > WITHIN_NS {
                return Err((rule, format!("{what} after {} s", WITHIN_NS / 1_000_000_000)));
            }
        }
        Ok(())
    }
}

/// All nodes that are up by a server's view have confirmed what runs on them, and its leader says so.
pub fn at_rest(server: usize, view: &View) -> CheckResult {
    let up = view.store.nodes().iter().filter(|(_, row)| !row.purged && !row.status.is_silent());
    let lacking = up.filter(|(slot, row)| {
        view.observed.reported(*slot, row.id).is_none_or(|reported| !reported.confirmed)
    });
    let lacking: Vec<String> = lacking.map(|(_, row)| format!("node {}", number_of(row.id) + 1)).collect();
    let counted = view.recovery.unconfirmed;
    if lacking.is_empty() && counted == 0 {
        return Ok(());
    }
    let named = if lacking.is_empty() { "none".to_owned() } else { lacking.join(", ") };
    let what = format!(
        "server {} counts {counted} nodes that have not confirmed what they run, and shows as such {named}",
        server + 1
    );
    Err((RULE, what))
}
