//! The machines of servers, and what goes wrong with them.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use berth_model::command::ENTRY_VERSION;
use berth_replication::disk::memory::MemoryDisk;

use super::{Settings, Simulation, TimedEvent};
use crate::{
    bugs::Bug,
    disk::SimDisk,
    executor::{self, DiskPace, Owner, PACE, now_ns},
    faults::{Fault, POWER_NS},
    invariants::{CheckResult, r04_confirmed},
    network::{Host, Network},
    random::Random,
    server::{CheckpointDisk, MemberRole, Server, ServerEnv, WallClock, wire},
    truth::Truth,
};

/// Between two tries to take a server in.
const LOOK_NS: u64 = 300_000_000;
/// How soon a server that ended itself is started again.
const RESTART_NS: u64 = 300_000_000;
/// The version of the log before the newest.
const OLDER: u8 = ENTRY_VERSION - 1;
/// How a server says that its program is too old for its log.
const TOO_OLD: &str = "start the newer version again";

/// All of them.
pub struct ServerMachines {
    all: Vec<ServerMachine>,
    network: Network,
    truth: Truth,
    bug: Option<Bug>,
    owners: u64,
}

struct ServerMachine {
    /// How often it was set up again.
    generation: u64,
    /// No membership has named it yet since then.
    is_new: bool,
    disk: Arc<SimDisk>,
    checkpoint: CheckpointDisk,
    clock: WallClock,
    snapshot_entries: u64,
    /// The newest version of the log that its program knows.
    entries: u8,
    /// A fault that ends the present run is on its way: why a server that fails is no surprise.
    doomed: Option<PlannedEnd>,
    /// What was changed on its disk, to be put right when it is found.
    flipped: Option<FlippedByte>,
}

/// A byte that was changed.
struct FlippedByte {
    path: PathBuf,
    at: usize,
    was: u8,
    is: u8,
}

impl FlippedByte {
    /// Changes a bit of a file; none where the file has none.
    fn flip(disk: &MemoryDisk, path: PathBuf, bit: u64) -> Option<Self> {
        let mut changed = None;
        disk.tamper(&path, |bytes| {
            if !bytes.is_empty() {
                let at = (bit / 8 % bytes.len() as u64) as usize;
                let (was, is) = (bytes[at], bytes[at] ^ 1 << (bit % 8));
                bytes[at] = is;
                changed = Some((at, was, is));
            }
        });
        changed.map(|(at, was, is)| Self { path, at, was, is })
    }

    /// Puts it right, unless the server has written or removed the file since: then it is no reason for anything any more.
    fn mend(self, disk: &MemoryDisk) -> bool {
        let mut is_there = false;
        if disk.paths().contains(&self.path) {
            disk.tamper(&self.path, |bytes| {
                let byte = bytes.get_mut(self.at).filter(|byte| **byte == self.is);
                is_there = byte.map(|byte| *byte = self.was).is_some();
            });
        }
        is_there
    }
}

#[derive(Clone, Copy)]
struct PlannedEnd {
    down_ns: u64,
}

impl ServerMachines {
    pub fn new(
        settings: &Settings,
        is_upgraded: bool,
        random: &mut Random,
        network: &Network,
        truth: &Truth,
    ) -> Self {
        // What is wrong with the installation of snapshots shows where there are many.
        let entries = if settings.bug == Some(Bug::IgnoresSnapshots) { 2..10 } else { 20..400 };
        let machine = |_| ServerMachine {
            generation: 0,
            is_new: false,
            disk: Arc::new(SimDisk::new(settings.bug)),
            checkpoint: CheckpointDisk::default(),
            clock: WallClock::default(),
            snapshot_entries: random.within(entries.clone()),
            entries: if is_upgraded { OLDER } else { ENTRY_VERSION },
            doomed: None,
            flipped: None,
        };
        let all = (0..settings.servers).map(machine).collect();
        Self { all, network: network.clone(), truth: truth.clone(), bug: settings.bug, owners: 1 }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

impl Simulation {
    pub(super) fn start_server(&mut self, number: usize) {
        if self.servers.all()[number].is_some() {
            return;
        }
        if now_ns() < self.outage_until_ns {
            return self.at(self.outage_until_ns, TimedEvent::StartServer(number));
        }
        let machines = &mut self.machines;
        machines.owners += 1;
        let owner = Owner(machines.owners << 16);
        let machine = &machines.all[number];
        self.truth.log_line(&format!("server {} is started", number + 1));
        let env = ServerEnv {
            number,
            id: wire::id(number, machine.generation),
            servers: machines.all.len(),
            owner,
            disk: machine.disk.clone(),
            checkpoint: machine.checkpoint.clone(),
            network: machines.network.clone(),
            truth: machines.truth.clone(),
            clock: machine.clock.clone(),
            snapshot_entries: machine.snapshot_entries,
            entries: machine.entries,
            bug: machines.bug,
        };
        self.servers.all()[number] = Some(Server::start(env));
    }

    /// A server that may have been taken out is to vote again.
    pub(super) fn take_in(&mut self, number: usize) {
        let id = wire::id(number, self.machines.all[number].generation);
        match self.servers.standing(id) {
            Some((MemberRole::Voter, _)) => return,
            Some((MemberRole::Stranger, _)) if !self.machines.all[number].is_new => self.rebuild(number),
            Some((standing, leader)) => {
                self.machines.all[number].is_new = standing == MemberRole::Stranger;
                leader.take_in(id);
            }
            None => {}
        }
        self.after(LOOK_NS, TimedEvent::TakeIn(number));
    }

    /// A server begins with nothing, under another id: under the old one the others hear it no more.
    fn rebuild(&mut self, number: usize) {
        self.truth.log_line(&format!("server {} is set up again", number + 1));
        self.end_server(number);
        self.truth.facts().invariants.on_rebuilt(number);
        let machine = &mut self.machines.all[number];
        machine.disk = Arc::new(SimDisk::new(self.machines.bug));
        machine.checkpoint = CheckpointDisk::default();
        machine.generation += 1;
        machine.is_new = true;
        machine.flipped = None;
        self.start_server(number);
    }

    /// Ends the present runs of all.
    pub(super) fn end_servers(&mut self) {
        for number in 0..self.machines.len() {
            self.end_server(number);
        }
    }

    /// Ends the present run of a server; false when it is down.
    fn end_server(&mut self, number: usize) -> bool {
        self.judge_promises(number);
        let Some(server) = self.servers.all()[number].take() else { return false };
        executor::end(server.owner());
        server.let_go();
        self.network.crash(Host::Server(number));
        let machine = &mut self.machines.all[number];
        machine.doomed = None;
        machine.disk.end_faults();
        true
    }

    fn kill_server(&mut self, number: usize, down_ns: u64) {
        if self.end_server(number) {
            let machine = &mut self.machines.all[number];
            machine.disk = Arc::new(machine.disk.after_kill());
            machine.checkpoint = machine.checkpoint.after_kill();
            self.after(down_ns, TimedEvent::StartServer(number));
        }
    }

    fn pause_server(&mut self, number: usize, for_ns: u64) {
        let owner = self.servers.all()[number].as_ref().map(Server::owner);
        if let Some(owner) = owner {
            executor::pause(owner);
            self.after(for_ns, TimedEvent::Resume(owner));
        }
    }

    /// The machine of a server is gone, with its power and its network: nobody hears that its connections have ended before
    /// it is back.
    fn vanish_server(&mut self, number: usize, down_ns: u64) {
        self.network.vanish(Host::Server(number));
        self.cut_power(number, down_ns);
    }

    fn cut_power(&mut self, number: usize, down_ns: u64) {
        if self.end_server(number) {
            self.truth.log_line(&format!("the power of server {} goes off", number + 1));
            self.truth.count("power cuts that came");
            let machine = &mut self.machines.all[number];
            machine.disk = Arc::new(machine.disk.after_power_cut(&mut self.random));
            machine.checkpoint = machine.checkpoint.after_power_cut(&mut self.random);
            self.after(down_ns, TimedEvent::StartServer(number));
        }
    }

    /// A server ended itself, which it may only do for a reason.
    pub(super) fn server_failed(&mut self, number: usize, why: &str) {
        if let Some(doom) = self.machines.all[number].doomed {
            return self.cut_power(number, doom.down_ns);
        }
        if let Some(path) = self.put_right(number) {
            self.truth.log_line(&format!("server {}: {} is put right again", number + 1, path.display()));
            self.truth.count("damage that was found");
            return self.after(RESTART_NS, TimedEvent::StartServer(number));
        }
        if self.machines.all[number].entries == OLDER && why.contains(TOO_OLD) {
            self.truth.count("servers that could not go back");
            return self.change_version(number, true, RESTART_NS);
        }
        self.truth.violated("R4 servers serve", format!("server {} ended itself: {why}", number + 1));
    }

    /// What was changed on the disk of a server that has ended is as it was: which file, if it was one.
    fn put_right(&mut self, number: usize) -> Option<PathBuf> {
        let flipped = self.machines.all[number].flipped.take()?;
        let path = flipped.path.clone();
        let disk = Arc::new(self.machines.all[number].disk.after_kill());
        if !flipped.mend(disk.memory()) {
            return None;
        }
        self.end_server(number);
        self.machines.all[number].disk = disk;
        Some(path)
    }

    pub(super) fn server_fault(&mut self, fault: Fault) {
        match fault {
            Fault::KillServer { server, down_ns } => self.kill_server(server, down_ns),
            Fault::KillServers { down_ns } => {
                if let Some(until_ns) = fault.outage_until_ns(now_ns()) {
                    self.begin_outage(until_ns);
                }
                (0..self.machines.len()).for_each(|server| self.kill_server(server, down_ns));
            }
            Fault::Rush { server, down_ns, for_ns } => {
                self.pause_server(server, for_ns);
                self.restart_agents(down_ns);
            }
            Fault::CutPower { server, .. } | Fault::FailSync { server, .. }
                if self.servers.all()[server].is_none() => {}
            Fault::CutPower { server, steps, down_ns } => {
                let faults = self.machines.all[server].disk.memory().faults();
                faults.power_off_after.store(faults.steps.load(SeqCst) + steps, SeqCst);
                self.doom(server, down_ns);
            }
            Fault::FailSync { server, down_ns } => {
                self.machines.all[server].disk.memory().faults().no_sync.store(true, SeqCst);
                self.doom(server, down_ns);
            }
            Fault::SlowDisk { server, for_ns, pace_ns } => {
                if let Some(run) = &self.servers.all()[server] {
                    executor::set_pace(run.owner(), DiskPace { min_ns: pace_ns / 10, max_ns: pace_ns });
                }
                self.after(for_ns, TimedEvent::Calm(server));
            }
            Fault::FillDisk { server, for_ns, room } => {
                let memory = self.machines.all[server].disk.memory();
                memory.faults().capacity.store(memory.used() + room, SeqCst);
                self.after(for_ns, TimedEvent::Calm(server));
            }
            Fault::PauseServer { server, for_ns } => self.pause_server(server, for_ns),
            Fault::StepClock { server, by_ns, for_ns } => {
                self.machines.all[server].clock.step(by_ns);
                self.after(for_ns, TimedEvent::Calm(server));
            }
            Fault::FlipBit { server, file, bit, down_ns } => self.flip_bit(server, file, bit, down_ns),
            Fault::PartitionServer { server, from, to, for_ns } => {
                let others = (0..self.machines.len()).filter(|other| *other != server);
                let (own, mut blocked) = (Host::Server(server), Vec::new());
                for other in others.map(Host::Server) {
                    blocked.extend(from.then_some((own, other)));
                    blocked.extend(to.then_some((other, own)));
                }
                self.block(blocked, for_ns);
            }
            Fault::Split { side, for_ns } => {
                let is_there = |server: usize| side >> server & 1 == 1;
                let all = 0..self.machines.len();
                let pairs = all.clone().flat_map(|one| all.clone().map(move |other| (one, other)));
                let apart = pairs.filter(|(one, other)| is_there(*one) != is_there(*other));
                let blocked = apart.map(|(one, other)| (Host::Server(one), Host::Server(other)));
                self.block(blocked.collect(), for_ns);
            }
            Fault::VanishServer { server, down_ns } => self.vanish_server(server, down_ns),
            Fault::CutServer { server } => self.network.cut(Host::Server(server)),
            Fault::Transfer { server } => self.servers.hand_over(server),
            Fault::Remove { server, for_ns } => {
                self.servers.remove(server);
                self.after(for_ns, TimedEvent::TakeIn(server));
            }
            Fault::Upgrade { server, newer, down_ns } => self.change_version(server, newer, down_ns),
            _ => unreachable!("a node's"),
        }
    }

    /// No server comes back before that time.
    fn begin_outage(&mut self, until_ns: u64) {
        self.outage_until_ns = until_ns;
        let machines = self.nodes.machines();
        self.truth.facts().invariants.on_outage_begun(&machines, until_ns);
        self.at(until_ns, TimedEvent::EndOutage);
    }

    /// The servers come back at once, and tasks have noticed nothing.
    pub(super) fn end_outage(&mut self) {
        let machines = self.nodes.machines();
        let facts = &mut *self.truth.facts();
        let result = facts.invariants.on_outage_ended(&machines);
        facts.judge(result);
    }

    /// A server is started with another version, at which it is stopped for a while.
    fn change_version(&mut self, server: usize, newer: bool, down_ns: u64) {
        self.kill_server(server, down_ns);
        self.machines.all[server].entries = if newer { ENTRY_VERSION } else { OLDER };
    }

    /// Those that are too old for what the others have written since reach nobody: an operator upgrades them.
    pub(super) fn upgrade_those_left(&mut self) {
        let written = self.truth.facts().invariants.history.store().version();
        for server in 0..self.machines.len() {
            if self.machines.all[server].entries < written {
                self.change_version(server, true, RESTART_NS);
            }
        }
    }

    fn doom(&mut self, server: usize, down_ns: u64) {
        self.machines.all[server].doomed = Some(PlannedEnd { down_ns });
        self.after(POWER_NS, TimedEvent::Calm(server));
    }

    fn flip_bit(&mut self, server: usize, file: u64, bit: u64, down_ns: u64) {
        if self.machines.all[server].flipped.is_some() {
            return;
        }
        self.kill_server(server, down_ns);
        let machine = &mut self.machines.all[server];
        let paths = machine.disk.memory().paths();
        if paths.is_empty() || self.servers.all()[server].is_some() {
            return;
        }
        let path = paths[(file % paths.len() as u64) as usize].clone();
        machine.flipped = FlippedByte::flip(machine.disk.memory(), path, bit);
    }

    /// The machine of a server has no troubles any more.
    pub(super) fn calm(&mut self, server: usize) {
        if let Some(doom) = self.machines.all[server].doomed {
            return self.cut_power(server, doom.down_ns);
        }
        let machine = &self.machines.all[server];
        machine.disk.memory().faults().capacity.store(0, SeqCst);
        machine.clock.set_right();
        if let Some(run) = &self.servers.all()[server] {
            executor::set_pace(run.owner(), PACE);
            if self.faults_ended {
                executor::resume(run.owner());
            }
        }
    }

    pub(super) fn servers_at_rest(&self) -> CheckResult {
        for (number, server) in self.servers.all().iter().enumerate() {
            let Some(server) = server.as_ref().filter(|server| server.is_open()) else {
                return Err(("R4 servers serve", format!("server {} does not serve", number + 1)));
            };
            if server.claims_room() {
                return Err(("R4 nothing is claimed for ever", format!("on server {}", number + 1)));
            }
            let view = server.view();
            r04_confirmed::at_rest(number, &view)?;
            self.observed_at_rest(number, &view)?;
            self.truth.facts().invariants.followers_agree_at_rest(number, &view.observations())?;
        }
        Ok(())
    }
}
