//! What the log runs on: threads and clocks in a server, an executor with a clock of its own in a simulation.

mod channel;
mod threads;

use std::{fmt::Debug, future::Future, io, time::Duration};

pub use openraft::async_runtime as engine;

pub use self::{
    channel::{Channel, Receiver, Sender, WeakSender},
    threads::{Engine, Tokio},
};

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
