//! What operators do: they close and drain nodes, judge and undo versions, forget what has ended, and restore older states.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use berth_controller::ProposalOutcome;
use berth_model::{
    EvalId, JobKey, NodeId,
    command::{Command, DrainNode, NewDrain, RegisterJob, RestorePart},
    deployment::{Deployment, DeploymentStatus, PromoteDeployment, SetDeployment},
    job::Job,
    store::{Store, snapshot},
};
use berth_replication::runtime::{
    Runtime,
    engine::{AsyncRuntime, Select2},
};
use berth_server::nomad::collectable;

use super::{Client, PATIENCE_NS};
use crate::{
    executor::{Simulated, now_ns, sleep_ns},
    random::Random,
    server::Server,
    servers::Servers,
    truth::Truth,
};

/// Between two looks at what is still closed, drained or held once faults have ended, in nanoseconds.
const LOOK_NS: u64 = 300_000_000;

impl Client {
    fn node(&mut self, server: &Server) -> Option<NodeId> {
        let view = server.view();
        let nodes: Vec<_> = view.store.nodes().iter().map(|(_, node)| node.id).collect();
        if nodes.is_empty() { None } else { Some(*self.random.pick(&nodes)) }
    }

    pub(super) fn eligibility(&mut self, server: &Server) -> Option<Command> {
        let node = self.node(server)?;
        Some(Command::SetNodeEligibility(node, self.random.percent(70)))
    }

    /// A node is drained, with time or at once, or a drain is called off.
    pub(super) fn drain(&mut self, server: &Server) -> Option<Command> {
        let node = self.node(server)?;
        let drain = self.random.percent(70).then(|| {
            let within = self.random.percent(80).then(|| Duration::from_millis(self.random.below(15_000)));
            NewDrain {
                deadline: within.map(|within| server.time().after(within)),
                ignore_system: self.random.percent(30),
                requested_ns: within.map_or(0, |within| within.as_nanos() as i64),
            }
        });
        let eligible = drain.is_none() && self.random.percent(80);
        Some(Command::DrainNode(Box::new(DrainNode { node, drain, eligible, meta: [].into() })))
    }

    /// Somebody holds a deployment, goes on with it, promotes it or makes it fail.
    pub(super) fn change_deployment(&mut self, server: &Server, eval: EvalId) -> Option<Command> {
        let view = server.view();
        let active: Vec<&Arc<Deployment>> =
            view.store.deployments().iter().filter(|of| of.is_active()).collect();
        if active.is_empty() {
            return None;
        }
        let of = *self.random.pick(&active);
        let set = |status, description: String, revert_to| {
            let set = SetDeployment { id: of.id, status, description, revert_to, eval: Some(eval) };
            Some(Command::SetDeployment(Box::new(set)))
        };
        match self.random.below(6) {
            0 => set(DeploymentStatus::Paused, "held".to_owned(), None),
            1 => set(DeploymentStatus::Running, "goes on".to_owned(), None),
            2 => {
                let row = view.store.job(&of.job)?;
                let (why, revert_to) = of.undone_by(row, "somebody has had enough of it".to_owned());
                set(DeploymentStatus::Failed, why, revert_to)
            }
            what => {
                let names: Vec<String> = of.groups.iter().map(|group| group.name.clone()).collect();
                let groups = (what > 3).then(|| vec![self.random.pick(&names).clone()]);
                let promote = PromoteDeployment { id: of.id, groups, eval };
                Some(Command::PromoteDeployment(Box::new(promote)))
            }
        }
    }

    /// An earlier version becomes the newest, unless that is another one by then.
    pub(super) fn revert(
        &mut self,
        server: &Server,
        key: &JobKey,
        eval: EvalId,
    ) -> Option<(String, Vec<Command>)> {
        let view = server.view();
        let row = view.store.job(key)?;
        let earlier: Vec<_> = row.versions.iter().skip(1).collect();
        if earlier.is_empty() {
            return None;
        }
        let version = *self.random.pick(&earlier);
        let job = Arc::new(Job { stop: false, ..Job::clone(&version.job) });
        let register = RegisterJob { job, eval, only_if: Some(row.current().index), submission: None };
        let what = format!("revert {key} to version {}", version.version);
        Some((what, vec![Command::RegisterJob(Box::new(register))]))
    }

    /// All that has ended is forgotten at once.
    pub(super) fn collect(&mut self, server: &Server) -> Option<Command> {
        let collect = collectable(&server.view().store, &AtomicBool::new(false));
        (!collect.is_empty()).then(|| Command::Collect(Box::new(collect)))
    }
}

/// An operator: saves the state, and puts it in place of another one later.
pub async fn restore(mut random: Random, servers: Servers, truth: Truth, save_ns: u64, restore_ns: u64) {
    sleep_ns(save_ns).await;
    let Some(server) = servers.open(&mut random) else { return };
    let saved = server.view();
    if saved.store.is_restoring() || saved.store.cluster().id == 0 {
        return;
    }
    sleep_ns(restore_ns.saturating_sub(now_ns())).await;
    let Some(server) = servers.open(&mut random) else { return };
    let mut bytes = Vec::new();
    snapshot::write_records(&saved.store, &mut bytes).expect("memory does not fail");
    let granted = saved.store.granted().max(saved.store.index());
    truth.log_line(&format!("an operator restores the state of index {}", saved.index));
    truth.count("restores");
    let size = bytes.len() / 2 + 1;
    for (number, part) in bytes.chunks(size).enumerate() {
        let part = RestorePart { number: number as u32, bytes: part.to_vec(), granted, revives_tokens: None };
        let answer = server.request(vec![Command::RestorePart(part)]);
        let answer = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
        if !matches!(answer, Select2::First(Ok(ProposalOutcome::Committed(..)))) {
            return;
        }
    }
}

/// Faults have ended: nodes are open to work again, and nothing is drained or held.
pub async fn come_to_rest(mut random: Random, servers: Servers) {
    loop {
        sleep_ns(LOOK_NS).await;
        let Some(server) = servers.open(&mut random) else { continue };
        let Some(command) = unrest(&server.view().store, random.next_u64()) else { continue };
        let answer = server.request(vec![command]);
        let _ = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
    }
}

/// What ends the first thing that is closed, drained or held, or waits for its promotion.
fn unrest(store: &Store, number: u64) -> Option<Command> {
    let nodes = store.nodes();
    let is_draining = |slot| nodes.detail(slot).is_some_and(|detail| detail.draining().is_some());
    if let Some((_, row)) = nodes.iter().find(|(slot, _)| is_draining(*slot)) {
        let drain = DrainNode { node: row.id, drain: None, eligible: true, meta: [].into() };
        return Some(Command::DrainNode(Box::new(drain)));
    }
    if let Some((_, row)) = nodes.iter().find(|(_, row)| !row.eligible) {
        return Some(Command::SetNodeEligibility(row.id, true));
    }
    let eval = EvalId(u128::from(number) << 64 | u128::from(now_ns()));
    if let Some(held) = store.deployments().iter().find(|of| of.status == DeploymentStatus::Paused) {
        let (status, description) = (DeploymentStatus::Running, "goes on".to_owned());
        let set = SetDeployment { id: held.id, status, description, revert_to: None, eval: Some(eval) };
        return Some(Command::SetDeployment(Box::new(set)));
    }
    // Where one group waits for another, each of them is promoted on its own.
    let ready = store.deployments().active().find_map(|of| {
        let group = of.groups.iter().find(|group| store.has_healthy_canaries(group))?;
        Some(PromoteDeployment { id: of.id, groups: Some(vec![group.name.clone()]), eval })
    });
    ready.map(|promote| Command::PromoteDeployment(Box::new(promote)))
}
