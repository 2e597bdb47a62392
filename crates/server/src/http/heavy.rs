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

/// How far threads that yield stand behind others: they get about a tenth of a processor that others want as well.
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

    /// The same, of threads that leave the processors to everything else of this machine that is short of them: for work of which
    /// there may be as much as anybody asks for, and which nothing but its own client waits for.
    pub fn yielding(threads_max: usize) -> Self {
        let heavy = Self::new(threads_max);
        Self { threads: Threads::yielding(heavy.turns.available_permits()), ..heavy }
    }

    /// Does the work once it is its turn. Whoever waits for a turn and goes away has not cost anything.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.turns.clone().acquire_owned().await.expect("nobody closes it");
        let done = self.threads.spawn(move || {
            let _turn = turn;
            work()
        });
        match done.await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Does work that learns from a flag when its client has left, and may end then.
    pub async fn run_for_client<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> Result<T, Cancelled> + Send + 'static,
    ) -> Result<T, Failure> {
        let client = Client::default();
        let left = client.0.clone();
        // Only a client that is not there any more would read of it.
        self.run(move || work(&left)).await.map_err(|error| Failure::busy(error.to_string()))
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
        // Nobody waits for what it still does.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Goes through what there is for as long as the client does not leave.
pub(crate) fn while_client_waits<'c, I: Iterator + 'c>(
    left: &'c AtomicBool,
    items: I,
) -> impl Iterator<Item = I::Item> + 'c {
    items.take_while(|_| !left.load(Ordering::Relaxed))
}

/// What was found, unless the client has left before all was gone through.
pub(crate) fn unless_disconnected<T>(left: &AtomicBool, found: T) -> Result<T, Cancelled> {
    if left.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(found) }
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
        let (heavy, (began, begun), (sender, ended)) = (Heavy::new(1), mpsc::channel(), mpsc::channel());
        let work = heavy.run_for_client(move |left| {
            began.send(()).expect("the test waits");
            let patience = Instant::now() + Duration::from_secs(20);
            while !left.load(Ordering::Relaxed) && Instant::now() < patience {
                std::thread::yield_now();
            }
            sender.send(left.load(Ordering::Relaxed)).expect("the test waits");
            Err::<(), _>(Cancelled)
        });
        let client = async {
            while begun.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = work => panic!("it ended by itself: {answer:?}"),
            () = client => {}
        }
        assert!(ended.recv().expect("it has ended"), "nobody told it");
    }
}
