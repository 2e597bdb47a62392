//! Real servers under partitions, one-way and flapping cuts, kills and pauses of the leader, and transfers of the leadership: what
//! clients of all of them saw of one job, or of one variable, could have come from a single server that does one thing at a time.

#[path = "linearizability/checker.rs"]
mod checker;
mod e2e;
#[path = "linearizability/faults.rs"]
mod faults;
#[path = "linearizability/registers.rs"]
mod registers;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use berth_api::http::Client;
use e2e::{
    eventually,
    linear::{Register, Timed, Verdict, check},
    servers::Servers,
};
use faults::Fault;
use registers::{End, Place, Seen};

/// Rounds, each with a job and a fault of its own.
const ROUNDS: usize = 4;
/// Clients of each server.
const CLIENTS: usize = 2;
/// A client pauses for up to so long between two operations, so that histories stay short enough to be judged.
const PAUSE_MS: u64 = 25;
/// How long a fault lasts: about as long as it takes to elect another leader, and much longer.
const LASTS: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(4)];
/// How long it is quiet before and after.
const QUIET: Duration = Duration::from_millis(400);

/// How often, if the long run asks for more.
fn rounds() -> usize {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
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
    register: Place,
    began: Instant,
    stop: AtomicBool,
    /// The last value that somebody writes: each is written once.
    values: AtomicU64,
    history: Mutex<Vec<Timed<Register>>>,
}

impl Round {
    fn new(register: Place) -> Self {
        Self {
            register,
            began: Instant::now(),
            stop: AtomicBool::new(false),
            values: AtomicU64::new(0),
            history: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn next_value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn work(&self, client: Client, mut random: Random) {
        let mut seen = Seen::default();
        while !self.stop.load(Ordering::Relaxed) {
            let called = self.now();
            let end = match random.below(10) {
                0..5 => self.register.read(&client, &mut seen).await,
                5..7 => self.register.write(&client, self.next_value(), None).await,
                _ => self.register.write(&client, self.next_value(), Some(seen)).await,
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_is_linearizable() {
    let mut servers = Servers::start(3).await;
    let (mut operations, mut unknown) = (0, 0);
    for number in 0..rounds() {
        let fault = Fault::ALL[number % Fault::ALL.len()];
        let lasts = LASTS[number / Fault::ALL.len() % 2];
        let round = Arc::new(Round::new(Place::of_round(number)));
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
        fault.strike(&mut servers, lasts).await;
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
