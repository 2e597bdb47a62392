//! Long computations, on threads of their own, a few at a time: between two awaits they would block other requests. One that
//! waits for a thread is dropped with its client; one that runs is bounded, or checks now and then whether its client is still
//! there.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use berth_scheduler::Cancelled;
use rustix::process::{getpriority_process, setpriority_process};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::failure::Failure;

/// Niceness added to threads that yield: they get about a tenth of a processor that others need as well.
const NICE: i32 = 10;

/// The threads that may work at a time.
#[derive(Debug, Clone)]
pub(crate) struct Heavy {
    turns: Arc<Semaphore>,
    threads: Threads,
}

impl Heavy {
    /// As many threads as that, at least one.
    pub fn new(threads_max: usize) -> Self {
        let turns = Arc::new(Semaphore::new(threads_max.clamp(1, Semaphore::MAX_PERMITS)));
        Self { turns, threads: Threads::default() }
    }

    /// The same with threads of a lower priority: for work that clients can request in any amount, and that nobody else waits for.
    pub fn yielding(threads_max: usize) -> Self {
        let heavy = Self::new(threads_max);
        Self { threads: Threads::yielding(heavy.turns.available_permits()), ..heavy }
    }

    /// Does the work once a thread is free. Dropped while it waits for one, it never begins.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.turns.clone().acquire_owned().await.expect("nobody closes it");
        let task = self.threads.spawn(move || {
            let _turn = turn;
            work()
        });
        match task.await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Does work that is given a flag, which is set when its client has left, so that it can end early.
    pub async fn run_for_client<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> Result<T, Cancelled> + Send + 'static,
    ) -> Result<T, Failure> {
        let client = Client::default();
        let has_left = client.0.clone();
        // The error is never seen: it means that the client has left.
        self.run(move || work(&has_left)).await.map_err(|error| Failure::busy(error.to_string()))
    }
}

/// Where work is done: on the threads of the runtime for what blocks, or on some with a lower priority.
#[derive(Debug, Clone, Default)]
struct Threads(Option<Arc<BlockingRuntime>>);

/// A runtime of which only the threads for what blocks are used.
#[derive(Debug)]
struct BlockingRuntime(Option<tokio::runtime::Runtime>);

impl Threads {
    fn yielding(threads_max: usize) -> Self {
        let mut threads = tokio::runtime::Builder::new_current_thread();
        threads.max_blocking_threads(threads_max).thread_name("yielding").on_thread_start(yield_processor);
        match threads.build() {
            Ok(runtime) => Self(Some(Arc::new(BlockingRuntime(Some(runtime))))),
            Err(error) => {
                tracing::warn!(%error, "no threads of a lower priority: what they would do has the priority of everything else");
                Self(None)
            }
        }
    }

    fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        match self.0.as_ref().and_then(|yielding| yielding.0.as_ref()) {
            Some(runtime) => runtime.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }
}

/// Lowers the priority of the thread that calls it, and of no other. Where that is not allowed, it has that of the others.
fn yield_processor() {
    let now = getpriority_process(None).unwrap_or_default();
    let _ = setpriority_process(None, now.saturating_add(NICE));
}

impl Drop for BlockingRuntime {
    fn drop(&mut self) {
        // Nobody waits for its remaining work, and a runtime must not be dropped where that would block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The items, until the client leaves.
pub(crate) fn while_client_waits<'c, I: Iterator + 'c>(
    client_has_left: &'c AtomicBool,
    items: I,
) -> impl Iterator<Item = I::Item> + 'c {
    items.take_while(|_| !client_has_left.load(Ordering::Relaxed))
}

/// The result of a search, unless the client left before it was complete.
pub(crate) fn unless_disconnected<T>(client_has_left: &AtomicBool, value: T) -> Result<T, Cancelled> {
    if client_has_left.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(value) }
}

/// Whoever waits for the work; the flag is set once that is dropped.
#[derive(Debug, Default)]
struct Client(Arc<AtomicBool>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    use super::*;

    fn own_priority() -> i32 {
        getpriority_process(None).expect("a thread may ask for its own")
    }

    #[tokio::test]
    async fn threads_that_yield_have_a_lower_priority_and_no_others() {
        let before = own_priority();
        let yielding = Heavy::yielding(1);
        assert_eq!(yielding.run(own_priority).await, (before + NICE).min(19));
        assert_eq!(Heavy::new(1).run(own_priority).await, before);
        assert_eq!(own_priority(), before);
        // The last one may go in the midst of other work: nothing waits for its threads.
        drop(yielding);
    }

    #[tokio::test]
    async fn work_is_told_that_its_client_has_left() {
        let (heavy, (start_sender, start), (end_sender, end)) =
            (Heavy::new(1), mpsc::channel(), mpsc::channel());
        let work = heavy.run_for_client(move |left| {
            start_sender.send(()).expect("the test waits");
            let deadline = Instant::now() + Duration::from_secs(20);
            while !left.load(Ordering::Relaxed) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            end_sender.send(left.load(Ordering::Relaxed)).expect("the test waits");
            Err::<(), _>(Cancelled)
        });
        let client = async {
            while start.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = work => panic!("it ended by itself: {answer:?}"),
            () = client => {}
        }
        assert!(end.recv().expect("it has ended"), "nobody told it");
    }
}
