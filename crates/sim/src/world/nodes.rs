//! The nodes, and what goes wrong with them.

use berth_api::agent::AllocId;
use berth_model::alloc::ClientStatus;

use super::{Settings, Simulation, TimedEvent};
use crate::{
    bugs::Bug,
    executor::{self, Owner, now_ns},
    faults::Fault,
    invariants::CheckResult,
    network::{Host, Network},
    node::{self, Machine, NodeEnv},
    server::View,
    truth::Truth,
};

/// How soon an agent that died is started again when nobody has said how soon.
const RESTART_NS: u64 = 500_000_000;
/// What happened within this time may not have been reported, in nanoseconds.
const JUST_NS: u64 = 4_000_000_000;

/// All of them.
pub struct Nodes {
    machines: Vec<Machine>,
    /// How long an agent stays away once it has died.
    down_ns: Vec<u64>,
    paused: Vec<Owner>,
    network: Network,
    truth: Truth,
    servers: usize,
    bug: Option<Bug>,
    owners: u64,
}

impl Nodes {
    pub fn new(count: usize, settings: &Settings, network: &Network, truth: &Truth) -> Self {
        Self {
            machines: (0..count).map(|_| Machine::default()).collect(),
            down_ns: vec![RESTART_NS; count],
            paused: Vec::new(),
            network: network.clone(),
            truth: truth.clone(),
            servers: settings.servers,
            bug: settings.bug,
            owners: 1,
        }
    }

    pub fn len(&self) -> usize {
        self.machines.len()
    }

    pub fn machines(&self) -> Vec<Machine> {
        self.machines.clone()
    }
}

impl Simulation {
    pub(super) fn start_agent(&mut self, number: usize) {
        let nodes = &mut self.nodes;
        if nodes.machines[number].content().agent.is_some() {
            return;
        }
        nodes.owners += 1;
        let env = NodeEnv {
            number,
            owner: Owner(nodes.owners),
            machine: nodes.machines[number].clone(),
            network: nodes.network.clone(),
            truth: nodes.truth.clone(),
            servers: nodes.servers,
            bug: nodes.bug,
        };
        self.truth.log_line(&format!("node {}: its agent is started", number + 1));
        node::start(env);
    }

    /// An agent has died by itself, as it was meant to.
    pub(super) fn agent_died(&mut self, number: usize) {
        self.network.cut(Host::Node(number));
        self.die_with_agent(number);
        let down_ns = std::mem::replace(&mut self.nodes.down_ns[number], RESTART_NS);
        self.node_hindered(number, down_ns);
        self.after(down_ns, TimedEvent::StartAgent(number));
    }

    /// Something keeps the agent of a node from its servers for a while.
    pub(super) fn node_hindered(&self, number: usize, for_ns: u64) {
        self.truth.facts().invariants.on_node_hindered(number, now_ns() + for_ns);
    }

    fn die_with_agent(&self, number: usize) {
        if self.nodes.bug == Some(Bug::TasksDieWithAgent) {
            let machine = &self.nodes.machines[number];
            let tasks: Vec<_> = machine.content().processes.keys().copied().collect();
            tasks.into_iter().for_each(|of| machine.kill(of));
        }
    }

    /// Ends an agent now; false when there is none.
    fn end_agent(&mut self, number: usize) -> bool {
        let owner = {
            let mut content = self.nodes.machines[number].content();
            content.dies_after = None;
            content.agent.take()
        };
        let Some(owner) = owner else { return false };
        executor::end(owner);
        self.network.cut(Host::Node(number));
        true
    }

    fn kill_agent(&mut self, number: usize, down_ns: u64) {
        if self.end_agent(number) {
            self.die_with_agent(number);
            self.after(down_ns, TimedEvent::StartAgent(number));
        }
    }

    /// All agents are killed, and come back at the same time.
    pub(super) fn restart_agents(&mut self, down_ns: u64) {
        for number in 0..self.nodes.len() {
            self.node_hindered(number, down_ns);
            self.kill_agent(number, down_ns);
        }
    }

    pub(super) fn node_fault(&mut self, fault: Fault) {
        match fault {
            Fault::KillAgent { node, steps: None, down_ns } => self.kill_agent(node, down_ns),
            Fault::KillAgent { node, steps, down_ns } => {
                self.nodes.machines[node].content().dies_after = steps;
                self.nodes.down_ns[node] = down_ns;
            }
            Fault::PauseAgent { node, for_ns } => {
                let owner = self.nodes.machines[node].content().agent;
                if let Some(owner) = owner {
                    executor::pause(owner);
                    self.nodes.paused.push(owner);
                    self.after(for_ns, TimedEvent::Resume(owner));
                }
            }
            Fault::Reboot { node, down_ns } => {
                self.end_agent(node);
                self.nodes.machines[node].reboot();
                self.truth.rebooted(node);
                self.after(down_ns, TimedEvent::StartAgent(node));
            }
            Fault::CutLinks { node } => self.network.cut(Host::Node(node)),
            Fault::Partition { node, up, down, for_ns } => {
                let mut blocked = Vec::new();
                for server in (0..self.machines.len()).map(Host::Server) {
                    blocked.extend(up.then_some((Host::Node(node), server)));
                    blocked.extend(down.then_some((server, Host::Node(node))));
                }
                self.block(blocked, for_ns);
            }
            _ => unreachable!("a server's"),
        }
    }

    pub(super) fn end_node_faults(&mut self) {
        std::mem::take(&mut self.nodes.paused).into_iter().for_each(executor::resume);
        for number in 0..self.nodes.len() {
            let mut content = self.nodes.machines[number].content();
            content.dies_after = None;
            let dead = content.agent.is_none();
            drop(content);
            if dead {
                self.after(RESTART_NS, TimedEvent::StartAgent(number));
            }
        }
    }

    /// What a server shows of allocations is what their machines do.
    pub(super) fn observed_at_rest(&self, server: usize, view: &View) -> CheckResult {
        for (slot, row) in view.store.allocs().iter().filter(|(_, row)| !row.is_terminal()) {
            let seen = view.observed.get(slot, row.id).map(|observation| observation.alloc.status);
            let number = view.store.nodes().row(row.node).map(|node| node::number_of(node.id));
            let Some(machine) = number.and_then(|number| self.nodes.machines.get(number)) else { continue };
            let content = machine.content();
            let id = row.id.to_bytes();
            let mut processes = content.processes.iter().filter(|(of, _)| of.alloc.0 == id);
            // Between two starts of a task, an allocation counts as running; and what has just happened is on its way.
            let known = content.records.contains_key(&AllocId(id));
            let runs =
                processes.any(|(_, process)| process.is_alive() && process.from_ns + JUST_NS < now_ns());
            let fine = if runs { seen == Some(ClientStatus::Running) } else { known || seen.is_none() };
            if !fine {
                let what = format!("server {} shows {} as {seen:?}, it runs: {runs}", server + 1, row.id);
                return Err(("R4 what is observed is so", what));
            }
        }
        Ok(())
    }
}
