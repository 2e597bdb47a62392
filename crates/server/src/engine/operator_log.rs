//! Log records for operators at level INFO: registered and stopped jobs, and nodes that come and go. Only the leader writes them,
//! so that the logs of all servers together have each line once.

use std::time::{Duration, Instant};

use berth_controller::Event;
use berth_model::{
    event::{NodeChange, StateChange as Logged},
    node::NodeStatus,
    store::{JobSlot, NodeSlot, Store},
};
use tracing::Level;

/// Lines logged in one second: thousands of registered jobs would make the log unreadable.
const LINES_A_SECOND: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Writes the log records.
#[derive(Debug, Default)]
pub(super) struct OperatorLog {
    leads: bool,
    budget: LineLimit,
}

/// Lines that were written since a time.
#[derive(Debug, Default)]
struct LineLimit {
    since: Option<Instant>,
    lines: u32,
}

/// Whether one more line may be written.
#[derive(Debug, PartialEq, Eq)]
enum LineAllowance {
    Enough,
    /// This is the first that is left out.
    Over,
    None,
}

impl OperatorLog {
    /// Follows the leadership.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::LeadershipGained { .. } => self.leads = true,
            Event::LeadershipLost | Event::Follows { .. } => self.leads = false,
            _ => {}
        }
    }

    /// Logs those changes that operators look for.
    pub fn on_changes<'c>(
        &mut self,
        store: &Store,
        changes: impl IntoIterator<Item = &'c Logged>,
        now: Instant,
    ) {
        if !self.leads || !tracing::enabled!(Level::INFO) {
            return;
        }
        for change in changes {
            let write: fn(&Store, &Logged) = match change {
                Logged::JobRegistered(_) | Logged::JobDeregistered(_) => write_job,
                Logged::NodeChanged(_, NodeChange::Status) => write_node,
                _ => continue,
            };
            match self.budget.take(now) {
                LineAllowance::Enough => write(store, change),
                LineAllowance::Over => tracing::info!(
                    lines = LINES_A_SECOND,
                    "more jobs and nodes change than are logged in a second: `berth event stream` has all"
                ),
                LineAllowance::None => {}
            }
        }
    }
}

impl LineLimit {
    fn take(&mut self, now: Instant) -> LineAllowance {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= SECOND) {
            *self = Self { since: Some(now), lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines.checked_sub(LINES_A_SECOND) {
            None | Some(0) => LineAllowance::Enough,
            Some(1) => LineAllowance::Over,
            Some(_) => LineAllowance::None,
        }
    }
}

fn write_job(store: &Store, change: &Logged) {
    let (Logged::JobRegistered(slot) | Logged::JobDeregistered(slot)) = change else { return };
    let Some((job, namespace, version)) = job(store, *slot) else { return };
    match change {
        Logged::JobRegistered(_) => tracing::info!(job, namespace, version, "job registered"),
        _ => tracing::info!(job, namespace, "job stopped"),
    }
}

fn job(store: &Store, slot: JobSlot) -> Option<(&str, &str, u64)> {
    let row = store.jobs().row(slot)?;
    let key = &row.job().key;
    Some((&*key.id, &*key.namespace, row.current().version))
}

fn write_node(store: &Store, change: &Logged) {
    let Logged::NodeChanged(slot, _) = change else { return };
    let Some((node, name, status)) = node(store, *slot) else { return };
    match status {
        NodeStatus::Ready => tracing::info!(%node, name, "node is ready"),
        NodeStatus::Initializing => {
            tracing::info!(%node, name, "node is initializing: its agent reports what runs there")
        }
        NodeStatus::Down => {
            tracing::warn!(%node, name, "node is down: its agent has been silent for too long")
        }
        NodeStatus::Disconnected => {
            tracing::warn!(%node, name, "node is disconnected: its agent is silent, and its allocations wait for it");
        }
    }
}

fn node(store: &Store, slot: NodeSlot) -> Option<(berth_model::NodeId, &str, NodeStatus)> {
    let row = store.nodes().row(slot)?;
    Some((row.id, &store.nodes().detail(slot)?.node.name, row.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_of_a_second_are_replaced_by_one_notice() {
        let (mut budget, started_at) = (LineLimit::default(), Instant::now());
        let first: Vec<LineAllowance> = (0..LINES_A_SECOND + 3).map(|_| budget.take(started_at)).collect();
        let (enough, rest) = first.split_at(LINES_A_SECOND as usize);
        assert!(enough.iter().all(|room| *room == LineAllowance::Enough));
        assert_eq!(rest, [LineAllowance::Over, LineAllowance::None, LineAllowance::None]);
        assert_eq!(budget.take(started_at + Duration::from_millis(999)), LineAllowance::None);
        assert_eq!(budget.take(started_at + SECOND), LineAllowance::Enough);
    }
}
