//! The servers that an agent dials: those that it was given, and those that it learned of from its cluster.

use berth_api::agent::{REVOKED_SERVERS_MAX, RevokedServer, SERVERS_MAX};
use berth_tls::{RevokedServers, now_secs};
use tokio::sync::watch;

/// The longest address of a server, in bytes.
const ADDRESS_BYTES_MAX: usize = 262;
/// The longest name of a server, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// A revocation may be said to be so much later than this machine's clock, and no later: a certificate that is made after it is
/// to be good, whoever says what.
const AHEAD_SECS_MAX: u64 = 300;

/// The learned addresses that can be dialed.
pub(super) fn usable(mut addresses: Vec<String>) -> Vec<String> {
    addresses.retain(|address| address.len() <= ADDRESS_BYTES_MAX && address.contains(':'));
    addresses.truncate(SERVERS_MAX);
    addresses
}

/// Adds revoked servers, up to the limit. Whether any of them is new.
pub(super) fn add_revoked(known: &RevokedServers, received: Vec<RevokedServer>) -> bool {
    let (all, latest) = (known.all(), now_secs() + AHEAD_SECS_MAX);
    let mut slots_left = REVOKED_SERVERS_MAX.saturating_sub(all.len());
    let received = received.into_iter().filter(|one| one.name.len() <= NAME_BYTES_MAX).filter(|one| {
        let is_known = all.contains_key(&one.name.to_ascii_lowercase());
        let fits = is_known || slots_left > 0;
        slots_left -= usize::from(fits && !is_known);
        fits
    });
    known.add(received.map(|one| (one.name, one.at_secs.min(latest))))
}

/// The known servers.
#[derive(Debug)]
pub struct Servers {
    configured: Vec<String>,
    /// What the cluster reported last, to this run of the agent or to an earlier one.
    learned: watch::Receiver<Vec<String>>,
    /// Of those that were given, the ones that are dialed before any that an earlier run learned of: whoever starts an agent
    /// with other servers wants those.
    first: Vec<String>,
    /// Those that were dialed since one let the agent in, or since all had been dialed.
    dialed: Vec<String>,
}

impl Servers {
    /// Those that the agent was given, and those that it learns of.
    pub fn new(configured: Vec<String>, learned: watch::Receiver<Vec<String>>) -> Self {
        Self { first: configured.clone(), configured, learned, dialed: Vec::new() }
    }

    /// The server to dial next: any but the one before, so that a dead server's agents spread over the others, and none again
    /// before all were dialed, so that one that lives is found however many do not; `random` is any well-mixed number. What the
    /// agent was given stays known: all that it learned of may be lost at once.
    pub fn next(&mut self, random: u64) -> Option<String> {
        if self.learned.has_changed().unwrap_or(false) {
            self.learned.mark_unchanged();
            self.first.clear();
        }
        let any = |count: usize| (random % count as u64) as usize;
        let next = match self.first.len() {
            0 => self.not_dialed(any)?,
            count => self.first.swap_remove(any(count)),
        };
        self.dialed.push(next.clone());
        Some(next)
    }

    /// The server that was dialed last has let the agent in.
    pub fn reached(&mut self) {
        self.start_round();
    }

    /// All but the one that was dialed last may be dialed.
    fn start_round(&mut self) {
        self.dialed.drain(..self.dialed.len().saturating_sub(1));
    }

    /// How many are known, at least one.
    pub fn count(&self) -> usize {
        self.known().len().max(1)
    }

    fn known(&self) -> Vec<String> {
        let learned = self.learned.borrow();
        let configured = self.configured.iter().filter(|one| !learned.contains(one));
        learned.iter().chain(configured).cloned().collect()
    }

    /// Any that was not dialed yet; once all were, any but the last one, unless there is no other.
    fn not_dialed(&mut self, any: impl Fn(usize) -> usize) -> Option<String> {
        let mut left = self.known();
        left.retain(|one| !self.dialed.contains(one));
        if left.is_empty() {
            self.start_round();
            left = self.known();
            left.retain(|one| !self.dialed.contains(one));
        }
        match left.len() {
            0 => self.known().into_iter().next(),
            count => Some(left.swap_remove(any(count))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{name}:1")).collect()
    }

    /// The servers that are dialed in so many attempts.
    fn dialed(servers: &mut Servers, attempts: u64) -> Vec<String> {
        let random = |attempt: u64| (attempt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        (0..attempts).filter_map(|attempt| servers.next(random(attempt))).collect()
    }

    fn unique(mut dialed: Vec<String>) -> Vec<String> {
        dialed.sort_unstable();
        dialed.dedup();
        dialed
    }

    #[test]
    fn another_server_is_dialed_each_time_if_there_is_one() {
        let (learned, receiver) = watch::channel(Vec::new());
        let mut servers = Servers::new(names(&["a"]), receiver);
        assert_eq!(dialed(&mut servers, 2), names(&["a", "a"]));
        learned.send_replace(names(&["a", "b", "c"]));
        let dialed = dialed(&mut servers, 100);
        assert!(dialed.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(unique(dialed), names(&["a", "b", "c"]));
        let (_learned, receiver) = watch::channel(Vec::new());
        assert_eq!(Servers::new(Vec::new(), receiver).next(3), None);
    }

    #[test]
    fn of_many_servers_each_is_dialed_before_one_is_dialed_again() {
        let (learned, receiver) = watch::channel(Vec::new());
        let mut servers = Servers::new(names(&["a"]), receiver);
        learned.send_replace(names(&["a", "b", "c", "d", "e"]));
        assert_eq!(servers.count(), 5);
        let unlucky: Vec<String> = (0..21).filter_map(|_| servers.next(0)).collect();
        assert_eq!(unique(unlucky[..5].to_vec()), names(&["a", "b", "c", "d", "e"]));
        let rounds = unlucky[5..].chunks(4).zip(unlucky[4..].chunks(4));
        assert!(rounds.into_iter().all(|(round, before)| unique([round, &before[..1]].concat()).len() == 5));
        servers.reached();
        let after: Vec<String> = (0..4).filter_map(|_| servers.next(u64::MAX)).collect();
        assert_eq!(
            unique([&after[..], &unlucky[20..]].concat()).len(),
            5,
            "the one that was lost comes last"
        );
    }

    #[test]
    fn those_that_were_given_are_dialed_before_those_of_an_earlier_run_and_stay_known() {
        let (learned, receiver) = watch::channel(names(&["b", "c"]));
        let mut servers = Servers::new(names(&["x", "y"]), receiver);
        assert_eq!(unique(dialed(&mut servers, 2)), names(&["x", "y"]));
        assert_eq!(unique(dialed(&mut servers, 50)), names(&["b", "c", "x", "y"]), "none of them answers");
        learned.send_replace(names(&["d"]));
        assert_eq!(unique(dialed(&mut servers, 50)), names(&["d", "x", "y"]));
    }

    #[test]
    fn a_server_that_answers_ends_the_preference_for_those_that_were_given() {
        let (learned, receiver) = watch::channel(Vec::new());
        let mut servers = Servers::new(names(&["a", "b", "c"]), receiver);
        let first = servers.next(0);
        learned.send_replace(names(&["d"]));
        let dialed: Vec<String> = (0..20).map(|_| servers.next(0).expect("one is known")).collect();
        assert!(dialed.contains(&"d:1".to_owned()) && Some(&dialed[0]) != first.as_ref());
    }

    #[test]
    fn revocations_of_servers_are_bounded_and_never_withdrawn() {
        let revoked = |name: &str, at_secs| RevokedServer { name: name.into(), at_secs };
        let known = RevokedServers::default();
        assert!(add_revoked(&known, vec![revoked("S1", 7), revoked(&"x".repeat(129), 7)]));
        assert!(!add_revoked(&known, vec![revoked("s1", 6)]) && !add_revoked(&known, Vec::new()));
        assert_eq!(known.all().into_iter().collect::<Vec<_>>(), [("s1".to_owned(), 7)]);
        assert!(add_revoked(&known, vec![revoked("s1", u64::MAX)]));
        assert!(known.all()["s1"] <= now_secs() + AHEAD_SECS_MAX, "a later certificate is good");
        assert!(add_revoked(&known, (0..1_000).map(|number| revoked(&format!("n{number}"), 1)).collect()));
        assert_eq!(known.all().len(), REVOKED_SERVERS_MAX);
        assert!(add_revoked(&known, vec![revoked("n1", 2), revoked("another", 2)]));
        assert!(!known.all().contains_key("another") && known.all()["n1"] == 2);
    }

    #[test]
    fn what_cannot_be_dialed_is_not_learned() {
        let nonsense = [names(&["b"]), vec!["no port".into(), "x".repeat(300) + ":1"]].concat();
        assert_eq!(usable(nonsense), names(&["b"]));
        assert_eq!(usable(vec!["a:1".into(); 1000]).len(), SERVERS_MAX);
    }
}
