//! Whom an agent dials: the servers that it was given, and those that the last one told it of.

use berth_api::agent::SERVERS_MAX;

/// Of an address.
const ADDRESS_BYTES_MAX: usize = 262;

/// The known servers.
#[derive(Debug)]
pub(super) struct Servers {
    given: Vec<String>,
    learned: Vec<String>,
    /// The one that was dialed last.
    last: Option<String>,
}

impl Servers {
    /// Those that the agent was given.
    pub fn new(given: Vec<String>) -> Self {
        Self { given, learned: Vec::new(), last: None }
    }

    /// A server has told who there is, unless it has said nothing. What the agent was given stays known: all others may be
    /// lost at once.
    pub fn learn(&mut self, mut servers: Vec<String>) {
        servers.retain(|server| server.len() <= ADDRESS_BYTES_MAX && server.contains(':'));
        servers.truncate(SERVERS_MAX);
        if !servers.is_empty() {
            self.learned = servers;
        }
    }

    /// The server to dial next: any but the one before, so that a dead server's agents spread over the others; `random` is
    /// any well-mixed number.
    pub fn next(&mut self, random: u64) -> Option<String> {
        let known = || self.learned.iter().chain(self.given.iter().filter(|one| !self.learned.contains(one)));
        let others: Vec<&String> = known().filter(|one| Some(*one) != self.last.as_ref()).collect();
        let next = match others.len() {
            0 => known().next(),
            count => Some(others[(random % count as u64) as usize]),
        };
        self.last = next.cloned();
        self.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_dialed_each_time_if_there_is_one() {
        let mut one = Servers::new(vec!["a:1".into()]);
        assert_eq!([one.next(0), one.next(1)].map(Option::unwrap), ["a:1", "a:1"]);
        one.learn(vec!["a:1".into(), "b:1".into(), "c:1".into()]);
        let dialed: Vec<String> = (0..100).filter_map(|random| one.next(random * 7)).collect();
        assert!(dialed.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(["a:1", "b:1", "c:1"].iter().all(|server| dialed.iter().any(|one| one == server)));
    }

    #[test]
    fn what_was_given_stays_known_and_nonsense_is_not_learned() {
        let mut servers = Servers::new(vec!["a:1".into()]);
        servers.learn(vec!["b:1".into(), "no port".into(), "x".repeat(300) + ":1"]);
        servers.learn(Vec::new());
        let mut dialed: Vec<String> = (0..4).filter_map(|random| servers.next(random)).collect();
        dialed.sort_unstable();
        dialed.dedup();
        assert_eq!(dialed, ["a:1", "b:1"]);
        assert_eq!(Servers::new(Vec::new()).next(3), None);
    }
}
