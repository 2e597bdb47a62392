//! The faults that are injected while clients work.

use std::time::Duration;

use rustix::process::Signal;

use crate::e2e::servers::Servers;

/// How far a clock steps.
const HOUR_S: i64 = 3_600;

/// What goes wrong in a round.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Nothing reaches the leader, and it reaches nobody.
    LeaderIsolated,
    /// The leader hears nothing.
    LeaderDeaf,
    /// Nobody hears the leader.
    LeaderMute,
    /// The links of the leader come and go.
    LeaderFlaps,
    /// The leader is killed, and started again.
    LeaderKilled,
    /// The leader stands still, and goes on as if nothing had happened.
    LeaderPaused,
    /// The leadership is handed from one to the next.
    LeadershipMoves,
    /// A follower and the leader do not reach each other; the third reaches both.
    Bridge,
    /// Nothing reaches a follower, and it reaches nobody.
    FollowerIsolated,
    /// Bits flip in what the leader says, and in what it hears.
    LeaderGarbled,
    /// What the leader says to a follower, and hears of it, comes byte by byte.
    LeaderTrickles,
    /// The leader's clock goes ahead by an hour, and back.
    LeaderClockSteps,
    /// The clock of a follower goes back by an hour, and ahead again.
    FollowerClockSteps,
}

impl Fault {
    /// The short run has the first of them.
    pub const ALL: [Self; 13] = [
        Self::LeaderKilled,
        Self::LeaderPaused,
        Self::LeaderIsolated,
        Self::LeadershipMoves,
        Self::LeaderFlaps,
        Self::LeaderDeaf,
        Self::LeaderMute,
        Self::Bridge,
        Self::FollowerIsolated,
        Self::LeaderGarbled,
        Self::LeaderTrickles,
        Self::LeaderClockSteps,
        Self::FollowerClockSteps,
    ];

    /// Begins it and ends it, `lasts` later.
    pub async fn strike(self, servers: &mut Servers, lasts: Duration) {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != leader).collect();
        match self {
            Self::LeaderIsolated => servers.links.isolate(leader, others),
            Self::LeaderDeaf => others.iter().for_each(|other| servers.links.cut(*other, leader)),
            Self::LeaderMute => others.iter().for_each(|other| servers.links.cut(leader, *other)),
            Self::Bridge => servers.links.isolate(leader, [others[0]]),
            Self::FollowerIsolated => servers.links.isolate(others[0], [leader, others[1]]),
            Self::LeaderGarbled => others.iter().for_each(|other| {
                servers.links.garble(leader, *other);
                servers.links.garble(*other, leader);
            }),
            Self::LeaderTrickles => {
                servers.links.trickle(leader, others[0]);
                servers.links.trickle(others[0], leader);
            }
            Self::LeaderClockSteps => step_clock(servers, leader, HOUR_S, lasts).await,
            Self::FollowerClockSteps => step_clock(servers, others[0], -HOUR_S, lasts).await,
            Self::LeaderKilled => {
                servers.kill(leader);
                tokio::time::sleep(lasts).await;
                servers.run(leader, &[]);
            }
            Self::LeaderFlaps => {
                for _ in 0..4 {
                    servers.links.isolate(leader, others.clone());
                    tokio::time::sleep(lasts / 8).await;
                    servers.links.heal();
                    tokio::time::sleep(lasts / 8).await;
                }
            }
            Self::LeadershipMoves => {
                for to in others.iter().chain([&leader, &others[0]]) {
                    // Refused when an election has come between: then it has moved too.
                    servers.all[&leader].transfer(*to).await.ok();
                    tokio::time::sleep(lasts / 4).await;
                }
            }
            Self::LeaderPaused => {
                servers.signal(leader, Signal::STOP);
                tokio::time::sleep(lasts).await;
                servers.signal(leader, Signal::CONT);
            }
        }
        if self.is_of_links() {
            tokio::time::sleep(lasts).await;
            servers.links.heal();
        }
    }

    /// Whether it is over once the links are as they were.
    fn is_of_links(self) -> bool {
        !matches!(
            self,
            Self::LeaderKilled
                | Self::LeaderFlaps
                | Self::LeaderPaused
                | Self::LeadershipMoves
                | Self::LeaderClockSteps
                | Self::FollowerClockSteps
        )
    }
}

/// A server's clock is wrong by so much for a while.
async fn step_clock(servers: &Servers, number: u8, seconds: i64, lasts: Duration) {
    let clock = &servers.all[&number].clock;
    clock.set_ahead_s(seconds);
    tokio::time::sleep(lasts).await;
    clock.set_ahead_s(0);
}
