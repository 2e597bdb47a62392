//! Limits requests that may wait without end: blocking reads and streams. Each occupies its connection for as long as it waits, so
//! that without a limit a few clients could occupy all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Limits, caller::Caller, failure::Failure, rates::RateOwner};
use crate::{
    access::Identity,
    net::{AddressGuard, AddressLimit, PerAddress},
};

/// Who waits: in all, of each address, and with each token.
#[derive(Debug, Clone)]
pub(crate) struct WaiterLimits {
    all: Arc<Semaphore>,
    all_max: usize,
    per_address: PerAddress,
    share: AddressLimit,
    owners: OwnerCounts,
    owner_max: usize,
}

/// A request that waits for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiter {
    _one_of_all: OwnedSemaphorePermit,
    /// None when the request did not come over a connection.
    _one_of_address: Option<AddressGuard>,
    /// None for who shows no token, and for programs of this machine.
    _one_of_owner: Option<OwnerGuard>,
}

impl WaiterLimits {
    pub fn new(limits: &Limits) -> Self {
        let all_max = limits.waiting_max.min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(all_max)),
            all_max,
            per_address: PerAddress::default(),
            share: limits.waiting_share,
            owners: OwnerCounts::default(),
            owner_max: limits.waiting_of_token_max,
        }
    }

    /// Counts a request that begins to wait.
    ///
    /// # Errors
    /// When too many wait, with which limit that is.
    pub fn begin(&self, caller: Option<&Caller>, identity: &Identity) -> Result<Waiter, Failure> {
        let one_of_all = self
            .all
            .clone()
            .try_acquire_owned()
            .map_err(|_| too_many(self.all_max, "requests", "waits-max"))?;
        let one_of_address = caller.and_then(Caller::waits_for).map(|address| {
            let most = self.share.of(address);
            let setting =
                if caller.is_some_and(Caller::is_of_this_machine) { "waits-max" } else { "waits-address" };
            let counted = self.per_address.count(address, self.share);
            counted.ok_or_else(|| too_many(most, "requests of your address", setting))
        });
        let counts = caller.is_none_or(|caller| !caller.is_of_this_machine());
        let one_of_owner = RateOwner::of(identity).filter(|_| counts).map(|owner| {
            let whose = match owner {
                RateOwner::Token(_) => "requests with this token",
                RateOwner::Tasks(_) => "requests of your allocation's tasks",
            };
            let counted = self.owners.count(owner, self.owner_max);
            counted.ok_or_else(|| too_many(self.owner_max, whose, "waits-token"))
        });
        Ok(Waiter {
            _one_of_all: one_of_all,
            _one_of_address: one_of_address.transpose()?,
            _one_of_owner: one_of_owner.transpose()?,
        })
    }
}

fn too_many(most: usize, whose: &str, setting: &str) -> Failure {
    Failure::busy(format!(
        "{most} {whose} wait for changes, and no more may: end some, ask without `index`, or have the operator raise --{setting}"
    ))
}

/// Counts by owner. Those without any take no memory.
#[derive(Debug, Clone, Default)]
struct OwnerCounts(Arc<Mutex<HashMap<RateOwner, usize>>>);

/// One that counts for as long as this lives.
#[derive(Debug)]
struct OwnerGuard {
    all: OwnerCounts,
    owner: RateOwner,
}

impl OwnerCounts {
    fn count(&self, owner: RateOwner, max: usize) -> Option<OwnerGuard> {
        let mut counts = self.lock();
        let count = counts.get(&owner).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        counts.insert(owner, count + 1);
        Some(OwnerGuard { all: self.clone(), owner })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RateOwner, usize>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        let mut counts = self.all.lock();
        match counts.get_mut(&self.owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.owner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::acl::SecretHash;

    use super::*;

    fn from(address: [u8; 4]) -> Caller {
        Caller::new((address, 5).into(), None, false)
    }

    #[test]
    fn a_token_has_its_share_of_waits_whichever_addresses_it_is_shown_from() {
        let waiting = WaiterLimits::new(&Limits { waiting_of_token_max: 2, ..Limits::default() });
        let token = |number| Identity::Token(SecretHash([number; 32]));
        let begin = |host, identity: &Identity| waiting.begin(Some(&from([10, 0, 0, host])), identity);
        let held = [1, 2].map(|host| begin(host, &token(1)).expect("there is room"));
        let refused = begin(3, &token(1)).expect_err("it has its share");
        assert!(
            refused.text.contains("2 requests with this token") && refused.text.contains("--waits-token")
        );
        assert_eq!(refused.status, hyper::StatusCode::TOO_MANY_REQUESTS);
        let others = [begin(3, &token(2)), begin(3, &Identity::Anonymous)];
        assert!(
            others.iter().all(Result::is_ok),
            "others have their own, and who shows none has his address's"
        );
        drop(held);
        assert!(begin(3, &token(1)).is_ok());
        drop(others);
        assert!(waiting.owners.lock().is_empty());
    }

    #[test]
    fn programs_of_this_machine_are_counted_by_their_address_alone() {
        let share = AddressLimit { per_address_max: 1, loopback_max: 3 };
        let limits = Limits { waiting_of_token_max: 1, waiting_share: share, ..Limits::default() };
        let (waiting, token) = (WaiterLimits::new(&limits), Identity::Token(SecretHash([1; 32])));
        let own = from([127, 0, 0, 1]);
        let held: Vec<_> = (0..9).map_while(|_| waiting.begin(Some(&own), &token).ok()).collect();
        assert_eq!(held.len(), 3);
        let refused = waiting.begin(Some(&own), &token).expect_err("there is a limit");
        assert!(refused.text.contains("3 requests of your address") && refused.text.contains("--waits-max"));
    }
}
