//! Real servers under partitions, one-way and flapping cuts, pauses of the leader, and while the leadership moves: what
//! clients of all of them saw of one job could have come from a single server that does one thing at a time.

mod e2e;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use berth_api::http::{ApiError, Client, Target};
use e2e::{
    eventually,
    linear::{Register, Timed, Verdict, check},
    servers::Servers,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Rounds, each with a job and a fault of its own.
const ROUNDS: usize = 4;
/// Clients of each server.
const CLIENTS: usize = 2;
/// A client pauses for up to so long between two operations, so that histories stay short enough to be judged.
const PAUSE_MS: u64 = 25;
/// How long a fault lasts.
const FAULT: Duration = Duration::from_millis(1500);
/// How long it is quiet before and after.
const QUIET: Duration = Duration::from_millis(400);

/// How often, if the long run asks for more.
fn rounds() -> usize {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

/// What goes wrong in a round.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Nothing reaches the leader, and it reaches nobody.
    LeaderIsolated,
    /// The leader hears nothing.
    LeaderDeaf,
    /// Nobody hears the leader.
    LeaderMute,
    /// The links of the leader come and go.
    LeaderFlaps,
    /// The leader stands still, and goes on as if nothing had happened.
    LeaderPaused,
    /// The leadership is handed from one to the next.
    LeadershipMoves,
    /// A follower and the leader do not reach each other; the third reaches both.
    Bridge,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::LeaderPaused,
        Self::LeadershipMoves,
        Self::LeaderFlaps,
        Self::LeaderDeaf,
        Self::LeaderMute,
        Self::LeaderIsolated,
        Self::Bridge,
    ];

    async fn strike(self, servers: &Servers) {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != leader).collect();
        match self {
            Self::LeaderIsolated => servers.links.isolate(leader, others),
            Self::LeaderDeaf => others.iter().for_each(|other| servers.links.cut(*other, leader)),
            Self::LeaderMute => others.iter().for_each(|other| servers.links.cut(leader, *other)),
            Self::Bridge => servers.links.isolate(leader, [others[0]]),
            Self::LeaderFlaps => {
                for _ in 0..4 {
                    servers.links.isolate(leader, others.clone());
                    tokio::time::sleep(FAULT / 8).await;
                    servers.links.heal();
                    tokio::time::sleep(FAULT / 8).await;
                }
            }
            Self::LeadershipMoves => {
                for to in others.iter().chain([&leader, &others[0]]) {
                    // Refused when an election has come between: then it has moved too.
                    servers.all[&leader].transfer(*to).await.ok();
                    tokio::time::sleep(FAULT / 4).await;
                }
            }
            Self::LeaderPaused => {
                servers.signal(leader, Signal::STOP);
                tokio::time::sleep(FAULT).await;
                servers.signal(leader, Signal::CONT);
            }
        }
        if !matches!(self, Self::LeaderFlaps | Self::LeaderPaused | Self::LeadershipMoves) {
            tokio::time::sleep(FAULT).await;
            servers.links.heal();
        }
    }
}

/// Small, and the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What all clients of a round share.
struct Round {
    job: String,
    began: Instant,
    stop: AtomicBool,
    /// The last value that somebody writes: each is written once.
    values: AtomicU64,
    history: Mutex<Vec<Timed<Register>>>,
}

/// How an operation ended.
enum End {
    Done(Register),
    /// Nothing was done, or only read.
    Nothing,
    /// It may have been done, or be done later.
    Unknown(Register),
}

impl Round {
    fn new(job: String) -> Self {
        Self {
            job,
            began: Instant::now(),
            stop: AtomicBool::new(false),
            values: AtomicU64::new(0),
            history: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    async fn work(&self, client: Client, mut random: Random) {
        // What was read last, and at which index.
        let mut seen = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let called = self.now();
            let end = match random.below(10) {
                0..5 => self.read(&client, &mut seen).await,
                5..7 => self.write(&client, None).await,
                _ => self.write(&client, Some(seen)).await,
            };
            let answered = self.now();
            let timed = match end {
                End::Done(operation) => Some(Timed { operation, called, answered: Some(answered) }),
                End::Unknown(operation) => Some(Timed { operation, called, answered: None }),
                End::Nothing => None,
            };
            self.history.lock().unwrap().extend(timed);
            tokio::time::sleep(Duration::from_millis(random.below(PAUSE_MS))).await;
        }
    }

    async fn read(&self, client: &Client, seen: &mut (u64, u64)) -> End {
        match client.get::<Value>(&Target::new("/v1/job").part(&self.job)).await {
            Ok(answer) => {
                let value = answer.value["Meta"]["value"].as_str().and_then(|value| value.parse().ok());
                let index = answer.value["JobModifyIndex"].as_u64();
                *seen = (value.expect("it was written"), index.expect("a job has one"));
                End::Done(Register::Read(seen.0))
            }
            Err(error) if error.status() == Some(404) => {
                *seen = (0, 0);
                End::Done(Register::Read(0))
            }
            Err(_) => End::Nothing,
        }
    }

    /// Writes the next value, on condition that the last one seen is still there if that is given.
    async fn write(&self, client: &Client, seen: Option<(u64, u64)>) -> End {
        let value = self.values.fetch_add(1, Ordering::Relaxed) + 1;
        let job = json!({
            "ID": self.job, "Name": self.job, "Type": "service", "Meta": {"value": value.to_string()},
            "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}]}],
        });
        let mut body = json!({ "Job": job });
        if let Some((_, index)) = seen {
            body["EnforceIndex"] = true.into();
            body["JobModifyIndex"] = index.into();
        }
        let operation = |done| match seen {
            Some((from, _)) => Register::Cas(from, value, done),
            None => Register::Write(value),
        };
        match client.put::<Value>(&Target::new("/v1/jobs"), &body).await {
            Ok(_) => End::Done(operation(true)),
            Err(error) if error.status() == Some(409) && seen.is_some() => End::Done(operation(false)),
            // The server says that nothing was written, or was never reached.
            Err(error) if matches!(error.status(), Some(429 | 503)) => End::Nothing,
            Err(ApiError::Unreachable { .. }) => End::Nothing,
            Err(_) => End::Unknown(operation(true)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_of_a_job_is_linearizable() {
    let servers = Arc::new(Servers::start(3).await);
    let (mut operations, mut unknown) = (0, 0);
    for number in 0..rounds() {
        let fault = Fault::ALL[number % Fault::ALL.len()];
        let round = Arc::new(Round::new(format!("register-{number}")));
        let clients = servers.all.values().flat_map(|server| (0..CLIENTS).map(|_| server.client.clone()));
        let tasks: Vec<_> = clients
            .enumerate()
            .map(|(at, client)| {
                let (round, seed) = (round.clone(), (number * 100 + at + 1) as u64);
                tokio::spawn(async move {
                    round.work(client, Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))).await
                })
            })
            .collect();
        tokio::time::sleep(QUIET).await;
        fault.strike(&servers).await;
        tokio::time::sleep(QUIET).await;
        round.stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("clients do not panic");
        }
        let history = std::mem::take(&mut *round.history.lock().unwrap());
        operations += history.len();
        unknown += history.iter().filter(|timed| timed.answered.is_none()).count();
        let reads =
            history.iter().filter(|timed| matches!(timed.operation, Register::Read(value) if value > 0));
        assert!(reads.count() > 3, "round {number}, {fault:?}: hardly anything was read");
        match check(&history) {
            Verdict::Linearizable => {}
            Verdict::Violation(why) => panic!("round {number}, {fault:?}: {why}"),
            Verdict::Undecided => {
                panic!("round {number}, {fault:?}: {} operations are too many", history.len())
            }
        }
        eventually("all is well again", async || {
            servers.all[&1].register(&format!("well-{number}")).await.ok()
        })
        .await;
    }
    println!("{} rounds, {operations} operations, {unknown} of unknown outcome", rounds());
}

mod checker {
    use super::*;

    fn history(timed: &[(Register, u64, u64)]) -> Vec<Timed<Register>> {
        let timed = timed.iter().cloned();
        timed
            .map(|(operation, called, answered)| Timed {
                operation,
                called,
                answered: (answered > 0).then_some(answered),
            })
            .collect()
    }

    fn is_linearizable(timed: &[(Register, u64, u64)]) -> bool {
        match check(&history(timed)) {
            Verdict::Linearizable => true,
            Verdict::Violation(_) => false,
            Verdict::Undecided => panic!("undecided"),
        }
    }

    use Register::{Cas, Read, Write};

    #[test]
    fn one_after_the_other() {
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[(Read(0), 1, 2), (Write(1), 3, 4), (Read(1), 5, 6)]));
        assert!(!is_linearizable(&[(Write(1), 1, 2), (Read(0), 3, 4)]), "a stale read");
        assert!(!is_linearizable(&[(Read(1), 1, 2), (Write(1), 3, 4)]), "read before it was written");
        assert!(
            !is_linearizable(&[(Write(1), 1, 2), (Write(2), 3, 4), (Read(1), 5, 6)]),
            "a write is undone"
        );
    }

    #[test]
    fn at_the_same_time_any_order_will_do() {
        assert!(is_linearizable(&[(Write(1), 1, 10), (Read(0), 2, 3), (Read(1), 4, 5)]));
        assert!(!is_linearizable(&[(Write(1), 1, 10), (Read(1), 2, 3), (Read(0), 4, 5)]), "there and back");
        assert!(is_linearizable(&[
            (Write(1), 1, 10),
            (Write(2), 1, 10),
            (Read(2), 11, 12),
            (Read(2), 13, 14)
        ]));
        assert!(!is_linearizable(&[
            (Write(1), 1, 10),
            (Write(2), 1, 10),
            (Read(2), 11, 12),
            (Read(1), 13, 14)
        ]));
    }

    #[test]
    fn what_is_not_known_may_happen_at_any_time_or_never() {
        assert!(is_linearizable(&[(Write(1), 1, 0), (Read(0), 2, 3), (Read(0), 4, 5)]));
        assert!(is_linearizable(&[(Write(1), 1, 0), (Read(0), 2, 3), (Read(1), 4, 5)]));
        assert!(!is_linearizable(&[(Write(1), 1, 0), (Read(1), 2, 3), (Read(0), 4, 5)]), "but only once");
        assert!(!is_linearizable(&[(Read(1), 1, 2), (Write(1), 3, 0)]), "and not before it was called");
    }

    #[test]
    fn of_two_conditional_writes_one_wins() {
        let both = |first: bool, second: bool| {
            is_linearizable(&[(Cas(0, 1, first), 1, 10), (Cas(0, 2, second), 2, 9)])
        };
        assert!(both(true, false) && both(false, true));
        assert!(!both(true, true), "a lost update");
        assert!(!both(false, false), "nobody was in the way");
        assert!(!is_linearizable(&[(Write(5), 1, 2), (Cas(5, 6, false), 3, 4)]), "refused without a reason");
        assert!(is_linearizable(&[(Cas(0, 1, true), 1, 0), (Cas(0, 2, false), 2, 3), (Read(1), 4, 5)]));
    }

    /// Every history of few operations, judged by trying every order.
    #[test]
    fn it_agrees_with_trying_everything() {
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut counts = [0; 2];
        for _ in 0..4000 {
            let timed: Vec<_> = (0..6)
                .map(|_| {
                    let operation = match random.below(4) {
                        0 => Write(random.below(3)),
                        1 => Cas(random.below(3), random.below(3), random.below(2) == 0),
                        _ => Read(random.below(3)),
                    };
                    let called = 1 + random.below(12);
                    let unknown = matches!(operation, Write(_)) && random.below(4) == 0;
                    (operation, called, if unknown { 0 } else { called + 1 + random.below(6) })
                })
                .collect();
            let expected = fits_somehow(&history(&timed), 0, 0);
            assert_eq!(is_linearizable(&timed), expected, "{timed:?}");
            counts[usize::from(expected)] += 1;
        }
        assert!(counts[0] > 500 && counts[1] > 500, "{counts:?}");
    }

    fn fits_somehow(history: &[Timed<Register>], done: u32, state: u64) -> bool {
        use crate::e2e::linear::Operation;
        let open = || (0..history.len()).filter(|at| done & (1 << at) == 0);
        let Some(first) = open().filter_map(|at| history[at].answered).min() else { return true };
        let may_be_next = |at: &usize| history[*at].called <= first;
        open().filter(may_be_next).any(|at| {
            let next = history[at].operation.step(&state);
            next.is_some_and(|next| fits_somehow(history, done | 1 << at, next))
        })
    }
}
