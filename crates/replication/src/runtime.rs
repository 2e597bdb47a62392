//! What the log runs on: threads and clocks in a server, an executor with a clock of its own in a simulation.

use std::{
    fmt::Debug,
    future::Future,
    io,
    pin::pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

pub use openraft::async_runtime as engine;

/// Names a way to run; a value of it says nothing.
pub trait Runtime: Debug + Copy + Default + Ord + Send + Sync + 'static {
    /// Tasks, timers and channels, as the consensus engine knows them.
    type Async: engine::AsyncRuntime;

    /// Carries out work that waits for a disk, where it holds nobody up.
    ///
    /// # Errors
    /// When it has panicked, or there is nobody left to carry it out.
    fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send;

    /// Drives work of which every step waits for a disk, beside everything else and to its end.
    ///
    /// # Errors
    /// When it cannot be begun.
    fn drive(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()>;

    /// The time since some moment of the past, by a clock that never goes back.
    fn now() -> Duration;
}

/// Threads of the operating system, and tokio's tasks and timers: what a server runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokio;

impl Runtime for Tokio {
    type Async = openraft::impls::TokioRuntime;

    async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        // What a panic says of itself may hold secrets, and stays on standard error.
        tokio::task::spawn_blocking(work).await.map_err(|_| io::Error::other("it has panicked"))
    }

    fn drive(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        thread::Builder::new().name(name.to_owned()).spawn(move || wait_for(work)).map(drop)
    }

    fn now() -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}

/// Wakes a thread that drives a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on this thread, which sleeps while the future waits.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
