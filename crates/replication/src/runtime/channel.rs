//! A channel that keeps nothing once its receiver is gone.
//!
//! Tokio's keeps a message that is sent at the very moment at which its receiver goes, until the last sender is gone, too.
//! The engine's senders live as long as anybody has a handle to the log, and whoever asked the engine would wait that long
//! for the answer that such a message was to carry.

use std::{future::Future, thread};

use openraft::async_runtime::{Mpsc, MpscReceiver, MpscSender, MpscWeakSender, SendError, TryRecvError};
use tokio::sync::mpsc::{self, error};

/// Makes channels with space for a set number of messages.
#[derive(Debug)]
pub struct Channel;

/// Where messages are sent.
#[derive(Debug)]
pub struct Sender<T>(mpsc::Sender<T>);

/// A sender that does not keep its channel open.
#[derive(Debug)]
pub struct WeakSender<T>(mpsc::WeakSender<T>);

/// Where messages arrive.
#[derive(Debug)]
pub struct Receiver<T>(mpsc::Receiver<T>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Mpsc for Channel {
    type Sender<T: Send> = Sender<T>;
    type Receiver<T: Send> = Receiver<T>;
    type WeakSender<T: Send> = WeakSender<T>;

    fn channel<T: Send>(messages: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::channel(messages);
        (Sender(sender), Receiver(receiver))
    }
}

impl<T: Send> MpscSender<Channel, T> for Sender<T> {
    fn send(&self, message: T) -> impl Future<Output = Result<(), SendError<T>>> + Send {
        let sent = self.0.send(message);
        async move { sent.await.map_err(|error::SendError(message)| SendError(message)) }
    }

    fn downgrade(&self) -> WeakSender<T> {
        WeakSender(self.0.downgrade())
    }
}

impl<T: Send> MpscWeakSender<Channel, T> for WeakSender<T> {
    fn upgrade(&self) -> Option<Sender<T>> {
        self.0.upgrade().map(Sender)
    }
}

impl<T: Send> MpscReceiver<T> for Receiver<T> {
    fn recv(&mut self) -> impl Future<Output = Option<T>> + Send {
        self.0.recv()
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            error::TryRecvError::Empty => TryRecvError::Empty,
            error::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }
}

impl<T> Drop for Receiver<T> {
    /// Nobody gets space any more. A sender that has space already puts its message there within the same few instructions,
    /// on another thread.
    fn drop(&mut self) {
        self.0.close();
        while !matches!(self.0.try_recv(), Err(error::TryRecvError::Disconnected)) {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn what_is_sent_while_the_receiver_goes_is_dropped() {
        let (sender, receiver) = Channel::channel::<oneshot::Sender<()>>(4);
        let (waits, mut first) = oneshot::channel();
        sender.0.try_send(waits).unwrap();
        let (late, mut answer) = oneshot::channel();
        let room = sender.0.clone();
        let room = room.try_reserve().unwrap();
        thread::scope(|threads| {
            let dropping = threads.spawn(|| drop(receiver));
            while !sender.0.is_closed() {
                thread::yield_now();
            }
            // Time to go for a receiver that waits for nobody.
            (0..1000).for_each(|_| thread::yield_now());
            room.send(late);
            dropping.join().unwrap();
        });
        let closed = Err(oneshot::error::TryRecvError::Closed);
        assert_eq!((first.try_recv(), answer.try_recv()), (closed.clone(), closed));
        let refused = sender.0.try_send(oneshot::channel().0);
        assert!(matches!(refused, Err(error::TrySendError::Closed(_))));
    }
}
