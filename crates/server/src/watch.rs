//! Blocked readers: each watches what it read, and is woken when that changes.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use berth_model::{AllocId, DeploymentId, EvalId, JobKey, NodeId, variable::VariableKey};
use tokio::sync::{Notify, futures::Notified};

/// Something that a reader can wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchKey {
    /// Any job.
    Jobs,
    /// One job: its desired state or its status.
    Job(JobKey),
    /// The allocations of one job.
    JobAllocs(JobKey),
    /// The evaluations of one job.
    JobEvals(JobKey),
    /// Any allocation.
    Allocs,
    /// One allocation.
    Alloc(AllocId),
    /// Any evaluation.
    Evals,
    /// One evaluation.
    Eval(EvalId),
    /// The allocations that one evaluation placed.
    EvalAllocs(EvalId),
    /// Any deployment.
    Deployments,
    /// One deployment.
    Deployment(DeploymentId),
    /// The deployments of one job.
    JobDeployments(JobKey),
    /// Any node.
    Nodes,
    /// One node.
    Node(NodeId),
    /// Any policy, role or token, and whoever's certificates.
    Acl,
    /// Any policy or role: what of the above gives tasks their rights.
    AclRules,
    /// Any namespace.
    Namespaces,
    /// Any quota.
    Quotas,
    /// Any node pool that was described.
    NodePools,
    /// Any root key.
    Keyring,
    /// Any variable.
    Variables,
    /// Any variable of one namespace.
    VariablesOf(Arc<str>),
    /// One variable.
    Variable(VariableKey),
    /// The allocations of one node.
    NodeAllocs(NodeId),
}

/// The blocked readers of each key. A key without readers takes no memory.
#[derive(Debug, Default)]
pub struct Watchers {
    waiters: Mutex<HashMap<WatchKey, Waiters>>,
}

#[derive(Debug)]
struct Waiters {
    notify: Arc<Notify>,
    count: usize,
}

/// A registration; ends when dropped.
#[derive(Debug)]
pub struct Watch<'a> {
    watchers: &'a Watchers,
    key: WatchKey,
    notify: Arc<Notify>,
}

impl Watchers {
    /// Registers a reader. Register first, then read, then wait: so that no change falls between.
    pub fn watch(&self, key: WatchKey) -> Watch<'_> {
        let mut waiting = self.lock();
        let waiters =
            waiting.entry(key.clone()).or_insert_with(|| Waiters { notify: Arc::default(), count: 0 });
        waiters.count += 1;
        Watch { watchers: self, key, notify: waiters.notify.clone() }
    }

    /// Wakes whoever waits for any of these.
    pub fn wake(&self, keys: impl IntoIterator<Item = WatchKey>) {
        let waiting = self.lock();
        if waiting.is_empty() {
            return;
        }
        for key in keys {
            if let Some(waiters) = waiting.get(&key) {
                waiters.notify.notify_waiters();
            }
        }
    }

    /// Wakes everybody.
    pub fn wake_all(&self) {
        self.lock().values().for_each(|waiters| waiters.notify.notify_waiters());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WatchKey, Waiters>> {
        self.waiters.lock().expect("nothing panics while it holds this lock")
    }
}

impl Watch<'_> {
    /// Completes at the first wake-up after this was called, even before it is polled.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut waiting = self.watchers.lock();
        if let Some(waiters) = waiting.get_mut(&self.key) {
            waiters.count -= 1;
            if waiters.count == 0 {
                waiting.remove(&self.key);
            }
        }
    }
}

/// Waits for changes of several keys. One change may wake thousands of readers that wait for dozens of keys each: only the key that has
/// changed is registered again.
pub(crate) struct Changes<'w> {
    watches: &'w [Watch<'w>],
    next: Vec<Pin<Box<Notified<'w>>>>,
}

impl<'w> Changes<'w> {
    /// Counts from now on.
    pub(crate) fn of(watches: &'w [Watch<'w>]) -> Self {
        let next = watches.iter().map(|watch| Box::pin(watch.changed())).collect();
        Self { watches, next }
    }

    /// Waits for a change that it has not reported yet, including one that came since the last call returned.
    pub(crate) async fn next(&mut self) {
        let Self { watches, next } = self;
        std::future::poll_fn(|context| {
            let changed = next.iter_mut().position(|change| change.as_mut().poll(context).is_ready());
            changed.map_or(Poll::Pending, |at| {
                next[at].set(watches[at].changed());
                Poll::Ready(())
            })
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn each_change_is_reported_once_even_if_it_comes_while_another_is_handled() {
        let watchers = Watchers::default();
        let watches = [WatchKey::Jobs, WatchKey::Nodes].map(|key| watchers.watch(key));
        let mut changes = Changes::of(&watches);
        assert_eq!(changes.next().now_or_never(), None, "nothing has changed");
        watchers.wake([WatchKey::Nodes]);
        assert_eq!(changes.next().now_or_never(), Some(()));
        watchers.wake([WatchKey::Jobs, WatchKey::Nodes, WatchKey::Jobs]);
        assert_eq!(changes.next().now_or_never(), Some(()), "jobs");
        assert_eq!(changes.next().now_or_never(), Some(()), "nodes");
        assert_eq!(changes.next().now_or_never(), None, "both were reported");
        watchers.wake([WatchKey::Jobs]);
        assert_eq!(changes.next().now_or_never(), Some(()), "jobs, again");
    }
}
