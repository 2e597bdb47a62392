//! Queues of agents' connections by address: first come, first served within one address, independent of all others.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::net::{AGENT_HANDSHAKES_OF_ADDRESS, RateExceeded, host};

/// How long a connection waits in its queue before it is refused: no longer than an agent waits for its welcome, so that few are
/// queued whose agents have left, and longer than the most connections of one address take to be served.
pub(super) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(20);
/// Below so many queues, empty ones are not removed.
const QUEUES_SWEPT: usize = 1_024;
/// Bounds of the time between two attempts to begin; timers are no finer than the lower one.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A queue for each address. Empty ones are removed from time to time.
#[derive(Debug, Default)]
pub(super) struct AddressQueues(Mutex<QueueMap>);

#[derive(Debug)]
struct QueueMap {
    queues: HashMap<IpAddr, Weak<AddressQueue>>,
    /// With so many queues the empty ones are removed. It is twice what was left the last time, so that looking through all of
    /// them costs each newcomer the same on average, also when none is empty.
    sweep_at: usize,
}

impl Default for QueueMap {
    fn default() -> Self {
        Self { queues: HashMap::new(), sweep_at: QUEUES_SWEPT }
    }
}

impl QueueMap {
    fn sweep(&mut self) {
        if self.queues.len() >= self.sweep_at {
            self.queues.retain(|_, queue| queue.strong_count() > 0);
            self.sweep_at = QUEUES_SWEPT.max(2 * self.queues.len());
        }
    }
}

#[derive(Debug)]
struct AddressQueue {
    /// How many are served at a time.
    turns: Arc<Semaphore>,
    /// Whoever is next waits here until its address may begin another one.
    head: Semaphore,
}

/// Lasts until whoever had it was served.
#[derive(Debug)]
pub(super) struct QueuePermit {
    _turn: OwnedSemaphorePermit,
    /// Keeps the queue alive while it is in use: the map holds it weakly, and later connections must enter the same one.
    _queue: Arc<AddressQueue>,
}

/// How fast an address may begin.
pub(super) struct StartRate<F> {
    /// On average; 0 for any number.
    pub per_second: u32,
    /// Takes one from the rate limit of the address.
    pub begin: F,
}

impl<F: Fn() -> Result<(), RateExceeded>> StartRate<F> {
    /// Waits until there may be another one; none once `is_gone` says that nobody wants it any more, and then none is counted.
    async fn wait(&self, is_gone: impl Fn() -> bool) -> Option<()> {
        let pause = Duration::from_secs(1).checked_div(self.per_second).unwrap_or_default();
        loop {
            if is_gone() {
                return None;
            }
            if (self.begin)().is_ok() {
                return Some(());
            }
            tokio::time::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
    }
}

impl AddressQueues {
    /// Waits for a turn to be served; none for one that is gone by then.
    pub async fn turn(
        &self,
        address: IpAddr,
        pace: StartRate<impl Fn() -> Result<(), RateExceeded>>,
        is_gone: impl Fn() -> bool,
    ) -> Option<QueuePermit> {
        let queue = self.of(address);
        // Semaphores are fair, and never closed.
        let turn = queue.turns.clone().acquire_owned().await.ok()?;
        let head = queue.head.acquire().await.ok()?;
        pace.wait(is_gone).await?;
        drop(head);
        Some(QueuePermit { _turn: turn, _queue: queue })
    }

    /// Waits until an address may begin another one.
    pub async fn begin(&self, address: IpAddr, pace: StartRate<impl Fn() -> Result<(), RateExceeded>>) {
        let queue = self.of(address);
        let _head = queue.head.acquire().await;
        pace.wait(|| false).await;
    }

    fn of(&self, address: IpAddr) -> Arc<AddressQueue> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.sweep();
        let entry = all.queues.entry(host(address)).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let turns = Arc::new(Semaphore::new(AGENT_HANDSHAKES_OF_ADDRESS.of(address)));
            let queue = Arc::new(AddressQueue { turns, head: Semaphore::new(1) });
            *entry = Arc::downgrade(&queue);
            queue
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures_util::{future::join_all, poll};

    use super::*;

    fn address(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn any() -> StartRate<impl Fn() -> Result<(), RateExceeded>> {
        StartRate { per_second: 0, begin: || Ok(()) }
    }

    #[tokio::test]
    async fn connections_beyond_the_share_of_an_address_wait_without_delaying_other_addresses() {
        let queues = AddressQueues::default();
        let mut turns = Vec::new();
        for _ in 0..AGENT_HANDSHAKES_OF_ADDRESS.per_address_max {
            turns.push(queues.turn(address(1), any(), || false).await.expect("it is its turn"));
        }
        let mut next = std::pin::pin!(queues.turn(address(1), any(), || false));
        assert!(poll!(&mut next).is_pending());
        assert!(queues.turn(address(2), any(), || false).await.is_some());
        turns.pop();
        assert!(next.await.is_some());
        turns.clear();
        for number in 0..2 * QUEUES_SWEPT as u32 {
            queues.turn(IpAddr::from(number.to_be_bytes()), any(), || false).await;
        }
        assert!(queues.0.lock().unwrap().queues.len() <= QUEUES_SWEPT, "those that are gone take no room");
    }

    #[tokio::test]
    async fn lines_that_are_not_empty_are_looked_through_only_as_often_as_their_number_doubles() {
        const ADDRESSES: usize = 10 * QUEUES_SWEPT;
        let queues = AddressQueues::default();
        let sweep_at = || queues.0.lock().unwrap().sweep_at;
        let (mut turns, mut swept) = (Vec::new(), vec![sweep_at()]);
        for number in 0..ADDRESSES as u32 {
            turns.push(queues.turn(IpAddr::from(number.to_be_bytes()), any(), || false).await);
            if swept.last() != Some(&sweep_at()) {
                swept.push(sweep_at());
            }
        }
        assert_eq!(swept, [1, 2, 4, 8, 16].map(|times| times * QUEUES_SWEPT));
        turns.clear();
        for number in 0..ADDRESSES as u32 {
            queues.turn(IpAddr::from((u32::MAX - number).to_be_bytes()), any(), || false).await;
        }
        assert_eq!(sweep_at(), QUEUES_SWEPT);
        assert!(queues.0.lock().unwrap().queues.len() <= QUEUES_SWEPT, "those that are gone take no room");
    }

    #[tokio::test]
    async fn all_of_a_long_line_are_served_in_the_order_in_which_they_came() {
        const CONNECTIONS: u32 = 10_000;
        let (queues, served, attempts) =
            (AddressQueues::default(), RefCell::new(Vec::new()), Cell::new(0_u32));
        // One of a hundred has to wait.
        let begin = || {
            attempts.set(attempts.get() + 1);
            if attempts.get() % 100 == 0 { Err(RateExceeded) } else { Ok(()) }
        };
        let each = (0..CONNECTIONS).map(|number| {
            let (queues, served, begin) = (&queues, &served, &begin);
            async move {
                let turn = queues.turn(address(1), StartRate { per_second: 10_000, begin }, || false).await;
                served.borrow_mut().push(number);
                tokio::task::yield_now().await;
                turn.is_some()
            }
        });
        assert!(join_all(each).await.into_iter().all(|turn| turn));
        let served = served.into_inner();
        assert_eq!(served.len(), CONNECTIONS as usize);
        // Whoever is served at the same time may be the first to be done.
        let at_once = AGENT_HANDSHAKES_OF_ADDRESS.per_address_max;
        for (place, number) in served.into_iter().enumerate() {
            assert!(place.abs_diff(number as usize) <= at_once, "{number} was served as number {place}");
        }
    }

    #[tokio::test]
    async fn connections_that_hung_up_in_the_queue_do_not_count_against_the_rate() {
        let (queues, starts) = (AddressQueues::default(), Cell::new(0));
        let begin = || {
            starts.set(starts.get() + 1);
            Ok(())
        };
        let pace = || StartRate { per_second: 1, begin };
        for _ in 0..10_000 {
            assert!(queues.turn(address(1), pace(), || true).await.is_none());
        }
        assert!(queues.turn(address(1), pace(), || false).await.is_some());
        assert_eq!(starts.get(), 1);
    }
}
