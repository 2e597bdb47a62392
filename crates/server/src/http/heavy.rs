//! Work that would hold up others if it were done between two awaits: on threads of its own, a few at a time. What
//! waits for its turn ends with its client; what has begun is bounded, a piece of a list, or looks now and then whether its client is still there.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use berth_scheduler::Cancelled;
use tokio::sync::Semaphore;

use super::failure::Failure;

/// The threads that may work at a time.
#[derive(Debug, Clone)]
pub(crate) struct Heavy(Arc<Semaphore>);

impl Heavy {
    /// As many threads as that, at least one.
    pub fn new(threads_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(threads_max.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Does the work once it is its turn. Whoever waits for a turn and goes away has not cost anything.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.0.clone().acquire_owned().await.expect("nobody closes it");
        let done = tokio::task::spawn_blocking(move || {
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

/// Goes through what there is for as long as the client does not leave.
pub(crate) fn while_waited_for<'c, I: Iterator + 'c>(
    left: &'c AtomicBool,
    items: I,
) -> impl Iterator<Item = I::Item> + 'c {
    items.take_while(|_| !left.load(Ordering::Relaxed))
}

/// What was found, unless the client has left before all was gone through.
pub(crate) fn unless_left<T>(left: &AtomicBool, found: T) -> Result<T, Cancelled> {
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
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_is_told_that_its_client_has_left() {
        let (heavy, (began, begun), (told, ended)) = (Heavy::new(1), mpsc::channel(), mpsc::channel());
        let work = heavy.run_for_client(move |left| {
            began.send(()).expect("the test waits");
            while !left.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            told.send(()).expect("the test waits");
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
        ended.recv().expect("it has ended");
    }
}
