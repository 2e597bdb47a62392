//! The way back from the apply loop to whoever proposed an entry.

use openraft::raft::responder::Responder;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    runtime::Runtime,
    types::{LogId, Types},
};

/// Carries one answer, and gives back the space that its entry took among those in flight.
pub(crate) struct ResultSender<T> {
    to: oneshot::Sender<T>,
    _room: OwnedSemaphorePermit,
}

impl<T> ResultSender<T> {
    /// An answer and where it arrives.
    pub fn new(permit: OwnedSemaphorePermit) -> (Self, oneshot::Receiver<T>) {
        let (to, from) = oneshot::channel();
        (Self { to, _room: permit }, from)
    }
}

impl<R: Runtime, T: Send + 'static> Responder<Types<R>, T> for ResultSender<T> {
    fn on_commit(&mut self, _: LogId) {}

    fn on_complete(self, result: T) {
        // Whoever proposed may have stopped waiting.
        self.to.send(result).ok();
    }
}
