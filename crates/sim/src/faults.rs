//! What goes wrong, and when: drawn before the simulation begins, so that it can be left out again one by one.

use std::fmt;

use crate::random::Random;

/// One thing that goes wrong. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A server is killed; what it wrote is on its disk, synced or not.
    KillServer { server: usize, down_ns: u64 },
    /// The power of a server goes off in the middle of what it writes, after so many writes and syncs.
    CutPower { server: usize, steps: usize, down_ns: u64 },
    /// The machine of a server is gone, and none of its connections is closed.
    VanishServer { server: usize, down_ns: u64 },
    /// A sync fails.
    FailSync { server: usize, down_ns: u64 },
    /// A disk is slow.
    SlowDisk { server: usize, for_ns: u64, pace_ns: u64 },
    /// A disk has no room.
    FillDisk { server: usize, for_ns: u64, room: usize },
    /// A server stands still.
    PauseServer { server: usize, for_ns: u64 },
    /// The wall clock of a server is stepped.
    StepClock { server: usize, by_ns: i64, for_ns: u64 },
    /// A bit of a file changes while a server is down.
    FlipBit { server: usize, file: u64, bit: u64, down_ns: u64 },
    /// Frames between a server and the others do not arrive, in one direction or in both.
    PartitionServer { server: usize, from: bool, to: bool, for_ns: u64 },
    /// Servers are split: those of the bits of `side` reach no other.
    Split { side: u64, for_ns: u64 },
    /// The connections of a server break, those of agents too.
    CutServer { server: usize },
    /// The leader hands over, or tries to, to this server.
    Transfer { server: usize },
    /// A server is taken out, and taken in again later.
    Remove { server: usize, for_ns: u64 },
    /// A server is stopped, and started with the newer version, or with the older one again.
    Upgrade { server: usize, newer: bool, down_ns: u64 },
    /// All servers are killed at once.
    KillServers { down_ns: u64 },
    /// All agents are killed and come back at once, while a server stands still.
    Rush { server: usize, down_ns: u64, for_ns: u64 },
    /// An agent dies, at once or in the middle of what it does next.
    KillAgent { node: usize, steps: Option<u32>, down_ns: u64 },
    /// An agent stands still.
    PauseAgent { node: usize, for_ns: u64 },
    /// A machine restarts.
    Reboot { node: usize, down_ns: u64 },
    /// The connections of a node break.
    CutLinks { node: usize },
    /// Frames between a node and the servers do not arrive, in one direction or in both.
    Partition { node: usize, up: bool, down: bool, for_ns: u64 },
}

/// By then a power cut that was to come in the middle of a write comes anyway.
pub const POWER_NS: u64 = 2_000_000_000;
/// When faults may begin, in nanoseconds.
const WHEN_NS: std::ops::Range<u64> = 2_000_000_000..44_000_000_000;
/// How many of them are of what is between servers, where there are several.
const BETWEEN_SERVERS_PERCENT: u64 = 35;
/// How many servers go back to the older version once.
const GO_BACK_PERCENT: u64 = 40;
/// How long a node may be cut off that is declared lost or disconnected for it, in milliseconds.
const LONG_MS: (u64, u64) = (12_000, 50_000);
/// When the last one begins: what it leaves behind is not mended by another that happens to follow.
const LAST_NS: std::ops::Range<u64> = 43_000_000_000..45_500_000_000;
/// How many simulations end with all servers away for long, in percent, and for how long, in milliseconds.
const OUTAGES_PERCENT: u64 = 8;
/// See [`OUTAGES_PERCENT`].
const OUTAGE_MS: (u64, u64) = (OUTAGE_MIN_NS / 1_000_000, 600_000);
/// All servers away for so long is an outage, of which tasks must notice nothing, in nanoseconds.
pub const OUTAGE_MIN_NS: u64 = 30_000_000_000;
/// How many there are.
const COUNT: std::ops::Range<u64> = 12..30;

/// A time between two numbers of milliseconds, in nanoseconds.
fn ms(random: &mut Random, from: u64, to: u64) -> u64 {
    random.within(from..to) * 1_000_000
}

/// Draws all faults of a simulation, in order of time.
pub fn plan(random: &mut Random, servers: usize, nodes: usize) -> Vec<(u64, Fault)> {
    let count = random.within(COUNT);
    let mut plan: Vec<(u64, Fault)> =
        (0..count).map(|_| (random.within(WHEN_NS), draw(random, servers, nodes))).collect();
    plan.push((random.within(LAST_NS), draw_last(random, servers)));
    plan.sort_by_key(|(at_ns, _)| *at_ns);
    plan
}

/// Draws one after which all agents come again.
fn draw_last(random: &mut Random, servers: usize) -> Fault {
    let server = random.below(servers as u64) as usize;
    if random.percent(OUTAGES_PERCENT) {
        let (from, to) = OUTAGE_MS;
        return Fault::KillServers { down_ns: ms(random, from, to) };
    }
    match random.below(100) {
        0..40 => Fault::KillServers { down_ns: ms(random, 50, 3_000) },
        40..60 => Fault::CutServer { server },
        _ => Fault::Rush { server, down_ns: ms(random, 1, 500), for_ns: ms(random, 50, 8_000) },
    }
}

/// Draws how servers that begin with the older version are upgraded, some of them only after they went back once.
pub fn upgrades(random: &mut Random, servers: usize) -> Vec<(u64, Fault)> {
    let mut plan = Vec::new();
    for server in 0..servers {
        let upgrades = if random.percent(GO_BACK_PERCENT) { 3 } else { 1 };
        let mut times: Vec<u64> = (0..upgrades).map(|_| random.within(WHEN_NS)).collect();
        times.sort_unstable();
        for (number, at_ns) in times.into_iter().enumerate() {
            let newer = number % 2 == 0;
            plan.push((at_ns, Fault::Upgrade { server, newer, down_ns: ms(random, 50, 2_000) }));
        }
    }
    plan
}

fn draw(random: &mut Random, servers: usize, nodes: usize) -> Fault {
    if servers > 1 && random.percent(BETWEEN_SERVERS_PERCENT) {
        return draw_between_servers(random, servers);
    }
    let server = random.below(servers as u64) as usize;
    let node = random.below(nodes as u64) as usize;
    let down_ns = ms(random, 50, 3_000);
    match random.below(100) {
        0..5 => Fault::KillServer { server, down_ns },
        5..8 => {
            let long = random.percent(30);
            Fault::VanishServer { server, down_ns: ms(random, 500, if long { 30_000 } else { 5_000 }) }
        }
        8..18 => Fault::CutPower { server, steps: 1 + random.below(60) as usize, down_ns },
        18..22 => Fault::FailSync { server, down_ns },
        22..28 => {
            let pace_ns = ms(random, 5, 600);
            Fault::SlowDisk { server, for_ns: ms(random, 500, 6_000), pace_ns }
        }
        28..32 => {
            Fault::FillDisk { server, for_ns: ms(random, 500, 5_000), room: random.below(60_000) as usize }
        }
        32..38 => {
            let long = random.percent(25);
            Fault::PauseServer { server, for_ns: ms(random, 50, if long { 40_000 } else { 8_000 }) }
        }
        38..43 => {
            let far = random.percent(15);
            let by_ns = ms(random, 100, if far { 4_000_000 } else { 30_000 }) as i64;
            let by_ns = if random.percent(50) { by_ns } else { -by_ns };
            Fault::StepClock { server, by_ns, for_ns: ms(random, 500, 10_000) }
        }
        43..46 => Fault::FlipBit { server, file: random.next_u64(), bit: random.next_u64(), down_ns },
        46..48 => Fault::KillServers { down_ns },
        48..52 => Fault::Rush { server, down_ns: ms(random, 1, 500), for_ns: ms(random, 50, 8_000) },
        52..66 => {
            let steps = random.percent(70).then(|| random.below(12) as u32);
            let long = random.percent(15);
            Fault::KillAgent { node, steps, down_ns: ms(random, 50, if long { 50_000 } else { 4_000 }) }
        }
        66..74 => {
            let (from, to) = if random.percent(30) { LONG_MS } else { (100, 4_000) };
            Fault::PauseAgent { node, for_ns: ms(random, from, to) }
        }
        74..80 => Fault::Reboot { node, down_ns: ms(random, 500, 8_000) },
        80..86 => Fault::CutLinks { node },
        _ => {
            let (up, down) = *random.pick(&[(true, false), (false, true), (true, true)]);
            let (from, to) = if random.percent(50) { LONG_MS } else { (500, 8_000) };
            Fault::Partition { node, up, down, for_ns: ms(random, from, to) }
        }
    }
}

fn draw_between_servers(random: &mut Random, servers: usize) -> Fault {
    let server = random.below(servers as u64) as usize;
    match random.below(100) {
        0..40 => {
            let (from, to) = *random.pick(&[(true, false), (false, true), (true, true)]);
            let long = random.percent(30);
            Fault::PartitionServer {
                server,
                from,
                to,
                for_ns: ms(random, 100, if long { 30_000 } else { 6_000 }),
            }
        }
        40..55 => {
            let side = 1 + random.below((1 << servers) - 2);
            let long = random.percent(30);
            Fault::Split { side, for_ns: ms(random, 100, if long { 30_000 } else { 10_000 }) }
        }
        55..75 => Fault::CutServer { server },
        75..90 => Fault::Transfer { server },
        _ => Fault::Remove { server, for_ns: ms(random, 500, 8_000) },
    }
}

impl Fault {
    /// When all servers come back that are away for long, if it begins at that time, in nanoseconds.
    pub fn outage_until_ns(&self, at_ns: u64) -> Option<u64> {
        match *self {
            Self::KillServers { down_ns } if down_ns >= OUTAGE_MIN_NS => Some(at_ns + down_ns),
            _ => None,
        }
    }

    /// Whether it is of nodes and their agents, not of servers.
    pub fn is_of_nodes(&self) -> bool {
        self.node().is_some()
    }

    /// The node that it is of, counted from 0.
    pub fn node(&self) -> Option<usize> {
        match *self {
            Self::KillAgent { node, .. }
            | Self::PauseAgent { node, .. }
            | Self::Reboot { node, .. }
            | Self::CutLinks { node }
            | Self::Partition { node, .. } => Some(node),
            _ => None,
        }
    }

    /// How long what it does goes on, in nanoseconds, but for what somebody else has to do then.
    pub fn lasts_ns(&self) -> u64 {
        match *self {
            Self::KillServer { down_ns, .. }
            | Self::KillServers { down_ns }
            | Self::VanishServer { down_ns, .. }
            | Self::FlipBit { down_ns, .. }
            | Self::Upgrade { down_ns, .. }
            | Self::KillAgent { down_ns, .. }
            | Self::Reboot { down_ns, .. } => down_ns,
            // It may be a while until there is a write in the middle of which it comes.
            Self::CutPower { down_ns, .. } | Self::FailSync { down_ns, .. } => POWER_NS + down_ns,
            Self::SlowDisk { for_ns, .. }
            | Self::FillDisk { for_ns, .. }
            | Self::PauseServer { for_ns, .. }
            | Self::StepClock { for_ns, .. }
            | Self::Rush { for_ns, .. }
            | Self::PartitionServer { for_ns, .. }
            | Self::Split { for_ns, .. }
            | Self::Remove { for_ns, .. }
            | Self::PauseAgent { for_ns, .. }
            | Self::Partition { for_ns, .. } => for_ns,
            Self::CutServer { .. } | Self::Transfer { .. } | Self::CutLinks { .. } => 0,
        }
    }

    /// The word under which it is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::KillServer { .. } => "fault: server killed",
            Self::KillServers { down_ns } if *down_ns >= OUTAGE_MIN_NS => "fault: all servers away for long",
            Self::KillServers { .. } => "fault: all servers killed",
            Self::Rush { .. } => "fault: all agents come back at once",
            Self::VanishServer { .. } => "fault: server vanished",
            Self::CutPower { .. } => "fault: power cut",
            Self::FailSync { .. } => "fault: sync failed",
            Self::SlowDisk { .. } => "fault: slow disk",
            Self::FillDisk { .. } => "fault: full disk",
            Self::PauseServer { .. } => "fault: server paused",
            Self::StepClock { .. } => "fault: clock stepped",
            Self::FlipBit { .. } => "fault: bit flipped",
            Self::PartitionServer { .. } => "fault: server partitioned",
            Self::Split { .. } => "fault: servers split",
            Self::CutServer { .. } => "fault: server's connections broken",
            Self::Transfer { .. } => "fault: leadership handed over",
            Self::Remove { .. } => "fault: server removed",
            Self::Upgrade { newer: true, .. } => "fault: server upgraded",
            Self::Upgrade { newer: false, .. } => "fault: server gone back to the older version",
            Self::KillAgent { .. } => "fault: agent killed",
            Self::PauseAgent { .. } => "fault: agent paused",
            Self::Reboot { .. } => "fault: machine restarted",
            Self::CutLinks { .. } => "fault: connections broken",
            Self::Partition { .. } => "fault: partition",
        }
    }
}

/// For people: which direction is blocked.
fn direction(from: bool, to: bool) -> &'static str {
    match (from, to) {
        (true, true) => "to and from",
        (true, false) => "from",
        _ => "to",
    }
}

/// For people: seconds of a time.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0 as f64 / 1e9)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::KillServer { server, down_ns } => {
                write!(f, "server {} is killed, for {}", server + 1, Seconds(down_ns))
            }
            Self::CutPower { server, steps, down_ns } => {
                write!(
                    f,
                    "the power of server {} will go off after {steps} writes, for {}",
                    server + 1,
                    Seconds(down_ns)
                )
            }
            Self::VanishServer { server, down_ns } => {
                write!(f, "the machine of server {} is gone, for {}", server + 1, Seconds(down_ns))
            }
            Self::KillServers { down_ns } => write!(f, "all servers are killed, for {}", Seconds(down_ns)),
            Self::Rush { server, for_ns, .. } => {
                let (server, time) = (server + 1, Seconds(for_ns));
                write!(
                    f,
                    "all agents are killed and come back, while server {server} stands still for {time}"
                )
            }
            Self::FailSync { server, .. } => write!(f, "the next sync of server {} fails", server + 1),
            Self::SlowDisk { server, for_ns, pace_ns } => {
                write!(
                    f,
                    "the disk of server {} takes up to {} for {}",
                    server + 1,
                    Seconds(pace_ns),
                    Seconds(for_ns)
                )
            }
            Self::FillDisk { server, for_ns, room } => {
                write!(f, "the disk of server {} has {room} bytes left for {}", server + 1, Seconds(for_ns))
            }
            Self::PauseServer { server, for_ns } => {
                write!(f, "server {} stands still for {}", server + 1, Seconds(for_ns))
            }
            Self::StepClock { server, by_ns, for_ns } => {
                write!(
                    f,
                    "the clock of server {} is off by {:.1} s for {}",
                    server + 1,
                    by_ns as f64 / 1e9,
                    Seconds(for_ns)
                )
            }
            Self::FlipBit { server, down_ns, .. } => {
                write!(
                    f,
                    "server {} is killed and a bit on its disk changes, for {}",
                    server + 1,
                    Seconds(down_ns)
                )
            }
            Self::PartitionServer { server, from, to, for_ns } => {
                let (way, time) = (direction(from, to), Seconds(for_ns));
                write!(f, "nothing of other servers arrives {way} server {} for {time}", server + 1)
            }
            Self::Split { side, for_ns } => {
                write!(f, "the servers of {side:#b} and the others are apart for {}", Seconds(for_ns))
            }
            Self::CutServer { server } => write!(f, "the connections of server {} break", server + 1),
            Self::Transfer { server } => write!(f, "the leader is to hand over to server {}", server + 1),
            Self::Remove { server, for_ns } => {
                write!(f, "server {} is taken out, for {}", server + 1, Seconds(for_ns))
            }
            Self::Upgrade { server, newer, down_ns } => {
                let version = if newer { "newer" } else { "older" };
                let (server, time) = (server + 1, Seconds(down_ns));
                write!(f, "server {server} is stopped, and started with the {version} version after {time}")
            }
            Self::KillAgent { node, steps: None, down_ns } => {
                write!(f, "the agent of node {} is killed, for {}", node + 1, Seconds(down_ns))
            }
            Self::KillAgent { node, steps: Some(steps), down_ns } => {
                write!(
                    f,
                    "the agent of node {} will die after {steps} more actions, for {}",
                    node + 1,
                    Seconds(down_ns)
                )
            }
            Self::PauseAgent { node, for_ns } => {
                write!(f, "the agent of node {} stands still for {}", node + 1, Seconds(for_ns))
            }
            Self::Reboot { node, down_ns } => {
                write!(f, "node {} restarts, in {}", node + 1, Seconds(down_ns))
            }
            Self::CutLinks { node } => write!(f, "the connections of node {} break", node + 1),
            Self::Partition { node, up, down, for_ns } => {
                let way = direction(up, down);
                write!(f, "nothing arrives {way} node {} for {}", node + 1, Seconds(for_ns))
            }
        }
    }
}
