//! Rate limits of requests: by address, and by token.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use berth_model::{AllocId, acl::SecretHash};

use super::{caller::Caller, failure::Failure, limits::RequestRates};
use crate::{
    access::Identity,
    net::{RateExceeded, Rates},
};

/// Whose requests are counted. Tokens of tasks change often: those of an allocation count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RateOwner {
    Token(SecretHash),
    Tasks(AllocId),
}

impl RateOwner {
    /// None without a token.
    pub fn of(identity: &Identity) -> Option<Self> {
        match identity {
            Identity::Anonymous => None,
            Identity::Token(secret) => Some(Self::Token(*secret)),
            Identity::Workload(workload) => Some(Self::Tasks(workload.alloc)),
        }
    }
}

/// Where requests come from. Those by sockets of tasks have their node's address, but do not count as the node's, so that no task can
/// use up the rate of other programs there.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Origin {
    Address(IpAddr),
    Sockets(AllocId),
}

impl Origin {
    fn of(caller: &Caller) -> Self {
        match &caller.of_task {
            Some(task) => Self::Sockets(task.alloc()),
            None => Self::Address(caller.host()),
        }
    }

    fn whose(&self) -> &'static str {
        match self {
            Self::Address(_) => "your address",
            Self::Sockets(_) => "your allocation's tasks",
        }
    }
}

/// The rate limits of callers.
#[derive(Debug)]
pub(crate) struct CallerRates {
    rates: RequestRates,
    /// Times are counted from here.
    started_at: Instant,
    origins: Rates<Origin>,
    tokens: Rates<RateOwner>,
    /// Requests refused for their address.
    pub of_address: AtomicU64,
    /// Requests refused for their token.
    pub of_token: AtomicU64,
}

impl CallerRates {
    pub fn new(rates: RequestRates) -> Self {
        Self {
            rates,
            started_at: Instant::now(),
            origins: Rates::default(),
            tokens: Rates::default(),
            of_address: AtomicU64::new(0),
            of_token: AtomicU64::new(0),
        }
    }

    /// Counts a request of an address, or of the allocation of the task by whose socket it comes. A request with a valid token passes
    /// even above this limit, since that of its token applies: anonymous clients of the same address, behind a gateway, lock nobody out.
    ///
    /// # Errors
    /// When it is over its limit.
    pub fn by_origin(&self, caller: Option<&Caller>, is_known: impl FnOnce() -> bool) -> Result<(), Failure> {
        let Some(caller) = caller else { return Ok(()) };
        let (name, rate) = self.limit(caller, ("request-rate-address", self.rates.address));
        let origin = Origin::of(caller);
        let whose = origin.whose();
        match self.origins.take(origin, rate, self.started_at.elapsed()) {
            Err(RateExceeded) if !is_known() => {
                self.of_address.fetch_add(1, Relaxed);
                Err(too_often(whose, name, rate))
            }
            _ => Ok(()),
        }
    }

    /// Counts a request with a valid token.
    ///
    /// # Errors
    /// When the token is over its limit.
    pub fn by_token(&self, caller: Option<&Caller>, identity: &Identity) -> Result<(), Failure> {
        let Some(caller) = caller else { return Ok(()) };
        let Some(owner) = RateOwner::of(identity) else { return Ok(()) };
        let (name, rate) = self.limit(caller, ("request-rate-token", self.rates.token));
        self.tokens.take(owner, rate, self.started_at.elapsed()).map_err(|RateExceeded| {
            self.of_token.fetch_add(1, Relaxed);
            too_often("this token", name, rate)
        })
    }

    /// Programs of this machine have a limit of their own; tasks of an agent on it are not those.
    fn limit(&self, caller: &Caller, others: (&'static str, u32)) -> (&'static str, u32) {
        if caller.is_of_this_machine() { ("request-rate-loopback", self.rates.loopback) } else { others }
    }
}

fn too_often(whose: &str, name: &str, rate: u32) -> Failure {
    Failure::busy(format!(
        "too many requests of {whose}: {name} is {rate} a second; wait a second, or have the operator raise --{name}"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::TaskAt;

    fn by_socket_from(peer: [u8; 4], alloc: u128, task: &str) -> Caller {
        let task = TaskAt::new(AllocId(alloc), task);
        Caller::new((peer, 5).into(), None, false).of_task(Some(Arc::new(task)))
    }

    fn by_socket(alloc: u128, task: &str) -> Caller {
        by_socket_from([10, 0, 0, 1], alloc, task)
    }

    #[test]
    fn a_task_beside_the_server_is_no_program_that_may_ask_without_end() {
        let rates = CallerRates::new(RequestRates { address: 10, token: 10, loopback: 0 });
        let task = by_socket_from([127, 0, 0, 1], 1, "main");
        assert!((0..1_000).any(|_| rates.by_origin(Some(&task), || false).is_err()));
        let program = Caller::new(([127, 0, 0, 1], 5).into(), None, false);
        assert!((0..1_000).all(|_| rates.by_origin(Some(&program), || false).is_ok()));
    }

    #[test]
    fn what_comes_by_sockets_of_tasks_counts_by_their_allocation_and_not_by_their_node() {
        let rates = CallerRates::new(RequestRates { address: 10, token: 10, loopback: 0 });
        let take = |caller: &Caller| rates.by_origin(Some(caller), || false);
        let count =
            |caller: &Caller| std::iter::repeat_with(|| take(caller)).take_while(Result::is_ok).count();
        let one = by_socket(1, "main");
        assert!(count(&one) >= 20);
        let refusal = take(&by_socket(1, "side")).expect_err("its tasks count as one");
        assert!(refusal.text.starts_with("too many requests of your allocation's tasks"), "{}", refusal.text);
        assert!(take(&by_socket(2, "main")).is_ok(), "another's are its own");
        assert!(count(&Caller::new(([10, 0, 0, 1], 6).into(), None, false)) >= 20, "the node's are, too");
        assert!(take(&by_socket(2, "main")).is_ok(), "and take nothing from it");
    }
}
