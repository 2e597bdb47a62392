//! What an agent logs of the servers that it dials: each finding once for a server, and again when it is another one.

use std::collections::BTreeMap;

use berth_api::agent::SERVERS_MAX;

/// Servers of which something is remembered: those that were given, and those that were learned, may each be so many.
const REMEMBERED_MAX: usize = 2 * SERVERS_MAX;

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The other side closed it, or the network did.
    HungUp,
    /// The agent closed it.
    Dropped,
    /// What is wrong with it.
    Because(String),
}

impl ConnectionEnd {
    /// What it says of a server that has not let the agent in.
    pub(super) fn without_a_session(self) -> String {
        let port = "is it another program's port, or one of servers among themselves? agents connect to the port of \
                    --agent-addr, 4647 by default";
        match self {
            Self::HungUp => format!("it hangs up without an answer: {port}"),
            Self::Dropped => format!("it takes the connection and does not answer: {port}"),
            Self::Because(why) => why,
        }
    }
}

/// What was found last at each server that has not let the agent in.
#[derive(Debug, Default)]
pub(super) struct DialLog(BTreeMap<String, String>);

impl DialLog {
    /// Notes that a server did not let the agent in, and why. Whether that is to be logged: it is another reason than before.
    pub(super) fn is_new(&mut self, server: &str, why: &str) -> bool {
        if self.0.get(server).is_some_and(|before| before == why) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(server.to_owned(), why.to_owned());
        true
    }

    /// A server has let the agent in: whatever keeps it out next is new.
    pub(super) fn accepted(&mut self, server: &str) {
        self.0.remove(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_new_once_for_each_server_until_it_changes() {
        let mut log = DialLog::default();
        assert!(log.is_new("a:1", "http") && log.is_new("b:1", "http"));
        assert!(!log.is_new("a:1", "http"));
        assert!(log.is_new("a:1", "tls") && log.is_new("a:1", "http"));
        log.accepted("a:1");
        assert!(log.is_new("a:1", "http") && !log.is_new("b:1", "http"));
        for at in 0..REMEMBERED_MAX {
            log.is_new(&at.to_string(), "http");
        }
        assert!(log.0.len() <= REMEMBERED_MAX);
    }
}
