//! The way of what happens into the controller.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, Sender};

use super::Input;

/// Events for the controller that may wait.
pub(crate) const INPUTS_MAX: usize = 1 << 16;
/// Of other servers, which are few, and bounded in bytes besides.
const OF_SERVERS_MAX: usize = 1 << 12;

/// What comes in for the controller.
#[derive(Clone)]
pub(crate) struct Senders {
    pub inputs: Sender<Input>,
    /// What other servers tell. It goes first: agents that come back all at once would otherwise make this server deaf for who leads,
    /// and the leader for its followers, until each took the other for dead.
    pub of_servers: Sender<Input>,
}

/// Where it comes out.
pub(crate) struct Receivers {
    inputs: Receiver<Input>,
    of_servers: Receiver<Input>,
}

impl Receivers {
    /// The next input, if one comes in time; an error once nobody can send any more.
    pub fn next_within(&self, time: Duration) -> Result<Option<Input>, RecvError> {
        if let Some(input) = self.next() {
            return Ok(Some(input));
        }
        crossbeam_channel::select! {
            recv(self.of_servers) -> input => input.map(Some),
            recv(self.inputs) -> input => input.map(Some),
            default(time) => Ok(None),
        }
    }

    /// The next input, if there is one.
    pub fn next(&self) -> Option<Input> {
        self.of_servers.try_recv().or_else(|_| self.inputs.try_recv()).ok()
    }
}

/// The way to the controller.
pub(crate) fn inputs() -> (Senders, Receivers) {
    let (inputs, received) = crossbeam_channel::bounded(INPUTS_MAX);
    let (of_servers, received_of_servers) = crossbeam_channel::bounded(OF_SERVERS_MAX);
    (Senders { inputs, of_servers }, Receivers { inputs: received, of_servers: received_of_servers })
}

#[cfg(test)]
mod tests {
    use berth_controller::{Event, SessionId};

    use super::*;

    /// Which it is: a session that has ended, or none.
    fn session(input: Option<Input>) -> Option<u64> {
        match input {
            Some(Input::Event(Event::SessionClosed(SessionId(number)), _)) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn what_other_servers_tell_goes_first_and_each_keeps_its_order() {
        let (senders, receivers) = inputs();
        let closed = |number| Input::event(Event::SessionClosed(SessionId(number)));
        [1, 2].into_iter().for_each(|number| senders.inputs.send(closed(number)).unwrap());
        [11, 12].into_iter().for_each(|number| senders.of_servers.send(closed(number)).unwrap());
        let soon = || receivers.next_within(Duration::ZERO).unwrap();
        let order = [soon(), receivers.next(), soon(), receivers.next(), soon()].map(session);
        assert_eq!(order, [Some(11), Some(12), Some(1), Some(2), None]);
        drop(senders);
        assert!(receivers.next_within(Duration::ZERO).is_err(), "nobody can send any more");
    }
}
