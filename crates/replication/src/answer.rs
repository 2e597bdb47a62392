//! The way back from the apply loop to whoever proposed an entry.

use openraft::raft::responder::Responder;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    runtime::Runtime,
    types::{LogId, Types},
};

/// Carries one answer, and gives back the room that its entry took among those in flight.
pub(crate) struct Answer<T> {
    to: oneshot::Sender<T>,
    _room: OwnedSemaphorePermit,
}

impl<T> Answer<T> {
    /// An answer and where it arrives.
    pub fn new(room: OwnedSemaphorePermit) -> (Self, oneshot::Receiver<T>) {
        let (to, from) = oneshot::channel();
        (Self { to, _room: room }, from)
    }
}

impl<R: Runtime, T: Send + 'static> Responder<Types<R>, T> for Answer<T> {
    fn on_commit(&mut self, _: LogId) {}

    fn on_complete(self, result: T) {
        // Whoever proposed may have stopped waiting.
        self.to.send(result).ok();
    }
}
