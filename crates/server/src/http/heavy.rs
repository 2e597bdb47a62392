//! Work that would hold up others if it were done between two awaits: on threads of its own, a few at a time. What
//! waits for its turn ends with its client; what has begun is bounded, a piece of a list or one plan.

use std::sync::Arc;

use tokio::sync::Semaphore;

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
}
