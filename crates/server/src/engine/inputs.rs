//! The input queues of the controller.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, Sender};

use super::EngineInput;

/// Events for the controller that may wait.
pub(crate) const INPUTS_MAX: usize = 1 << 16;
/// Of other servers, which are few, and bounded in bytes besides.
const OF_SERVERS_MAX: usize = 1 << 12;
/// Other inputs that are taken between two messages of servers, if there are any, so that messages of servers do not starve the agents
/// of this one.
const BETWEEN: u32 = 64;

/// The senders of the controller's queues.
#[derive(Clone)]
pub(crate) struct Senders {
    pub inputs: Sender<EngineInput>,
    /// Messages of other servers, which overtake the rest. Behind the hellos of thousands of agents that reconnect at once, messages
    /// between leader and followers would be so late that each takes the other for dead.
    pub of_servers: Sender<EngineInput>,
}

/// The receivers of the controller's queues.
pub(crate) struct Receivers {
    inputs: Receiver<EngineInput>,
    of_servers: Receiver<EngineInput>,
    /// Other inputs that may still be taken before the next message of a server.
    between: u32,
}

impl Receivers {
    /// The next input, if one comes in time; an error once nobody can send any more.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<EngineInput>, RecvError> {
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
    pub fn next(&mut self) -> Option<EngineInput> {
        if self.between > 0
            && let Ok(input) = self.inputs.try_recv()
        {
            self.between -= 1;
            return Some(input);
        }
        let Ok(input) = self.of_servers.try_recv() else { return self.inputs.try_recv().ok() };
        self.between = BETWEEN;
        Some(input)
    }
}

/// Creates the queues.
pub(crate) fn inputs() -> (Senders, Receivers) {
    let (inputs, inputs_receiver) = crossbeam_channel::bounded(INPUTS_MAX);
    let (of_servers, of_servers_receiver) = crossbeam_channel::bounded(OF_SERVERS_MAX);
    let receivers = Receivers { inputs: inputs_receiver, of_servers: of_servers_receiver, between: 0 };
    (Senders { inputs, of_servers }, receivers)
}

#[cfg(test)]
mod tests {
    use berth_controller::{Event, SessionId};

    use super::*;

    /// Which it is: a session that has ended, or none.
    fn session(input: Option<EngineInput>) -> Option<u64> {
        match input {
            Some(EngineInput::Event(Event::SessionClosed(SessionId(number)), _)) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn messages_of_servers_overtake_other_inputs_without_starving_them() {
        let (senders, mut receivers) = inputs();
        let (agents, between) = (200, u64::from(BETWEEN));
        let closed = |number| EngineInput::event(Event::SessionClosed(SessionId(number)));
        (0..agents).for_each(|number| senders.inputs.send(closed(number)).unwrap());
        (1_000..1_003).for_each(|number| senders.of_servers.send(closed(number)).unwrap());
        let mut order = vec![session(receivers.next_within(Duration::ZERO).unwrap())];
        order.extend(std::iter::from_fn(|| receivers.next()).map(|input| session(Some(input))));
        let order: Vec<u64> = order.into_iter().flatten().collect();
        let of_servers = |at: usize| order[at] >= 1_000;
        let turns: Vec<usize> = (0..order.len()).filter(|at| of_servers(*at)).collect();
        assert_eq!(turns, [0, between as usize + 1, 2 * between as usize + 2]);
        let (first, rest): (Vec<u64>, Vec<u64>) = order.iter().partition(|number| **number >= 1_000);
        assert!(first.is_sorted() && rest == (0..agents).collect::<Vec<u64>>(), "each keeps its order");
        drop(senders);
        assert!(receivers.next_within(Duration::ZERO).is_err(), "nobody can send any more");
    }
}
