//! The faults of one node, and of its server as the node sees it.

use rustix::process::Signal;

use super::{AGENT, Cluster, SERVER};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The agent hears nothing of its server.
    HearsNothing,
    /// Nothing of what the agent says arrives.
    SaysNothing,
    CutOff,
    /// Bits flip in both directions.
    Garbled,
    /// Bytes come one by one in both directions.
    Trickled,
    Paused,
    /// The agent is killed, and started again at the end.
    Killed,
    DiskFull,
    /// Its clock is ahead, or behind.
    ClockAhead,
    ClockBehind,
    /// The server is killed and started again at once.
    ServerRestarts,
}

/// All of them.
pub const KINDS: [FaultKind; 11] = [
    FaultKind::HearsNothing,
    FaultKind::SaysNothing,
    FaultKind::CutOff,
    FaultKind::Garbled,
    FaultKind::Trickled,
    FaultKind::Paused,
    FaultKind::Killed,
    FaultKind::DiskFull,
    FaultKind::ClockAhead,
    FaultKind::ClockBehind,
    FaultKind::ServerRestarts,
];

const CLOCK_STEP_S: i64 = 3_600;

/// A fault of a node.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub node: u8,
    pub kind: FaultKind,
}

impl Fault {
    /// Has it begin.
    pub fn begin(self, cluster: &mut Cluster) {
        let links = &cluster.links[&self.node];
        match self.kind {
            FaultKind::HearsNothing => links.cut(SERVER, AGENT),
            FaultKind::SaysNothing => links.cut(AGENT, SERVER),
            FaultKind::CutOff => links.isolate(AGENT, [SERVER]),
            FaultKind::Garbled => {
                links.garble(AGENT, SERVER);
                links.garble(SERVER, AGENT);
            }
            FaultKind::Trickled => {
                links.trickle(AGENT, SERVER);
                links.trickle(SERVER, AGENT);
            }
            FaultKind::Paused => cluster.nodes.signal(self.node, Signal::STOP),
            FaultKind::Killed => cluster.nodes.kill(self.node),
            FaultKind::DiskFull => {
                if let Some(disk) = cluster.disks.get(&self.node) {
                    disk.fill();
                }
            }
            FaultKind::ClockAhead => cluster.nodes.clock(self.node).set_ahead_s(CLOCK_STEP_S),
            FaultKind::ClockBehind => cluster.nodes.clock(self.node).set_ahead_s(-CLOCK_STEP_S),
            FaultKind::ServerRestarts => {
                cluster.servers.kill(1);
                cluster.servers.run(1, &[]);
            }
        }
    }

    /// Has it end.
    pub fn end(self, cluster: &mut Cluster) {
        match self.kind {
            FaultKind::HearsNothing
            | FaultKind::SaysNothing
            | FaultKind::CutOff
            | FaultKind::Garbled
            | FaultKind::Trickled => cluster.links[&self.node].heal(),
            FaultKind::Paused => cluster.nodes.signal(self.node, Signal::CONT),
            FaultKind::Killed => cluster.start_agent(self.node),
            FaultKind::DiskFull => {
                if let Some(disk) = cluster.disks.get(&self.node) {
                    disk.make_room();
                }
            }
            FaultKind::ClockAhead | FaultKind::ClockBehind => cluster.nodes.clock(self.node).set_ahead_s(0),
            FaultKind::ServerRestarts => {}
        }
    }
}
