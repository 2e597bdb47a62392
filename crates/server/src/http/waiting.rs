//! Requests that wait for what may never come: a change, or the next piece of a stream. Each holds its connection for as
//! long as it likes, so that a few clients could hold them all.

use std::{net::IpAddr, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Limits, failure::Failure};
use crate::net::{Counted, PerAddress, Share};

/// Who waits, in all and of each address.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    all: Arc<Semaphore>,
    per_address: PerAddress,
    share: Share,
}

/// A request that waits for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiter {
    _one_of_all: OwnedSemaphorePermit,
    /// None when the request did not come over a connection.
    _one_of_address: Option<Counted>,
}

impl Waiting {
    pub fn new(limits: &Limits) -> Self {
        let all = limits.waiting_max.min(Semaphore::MAX_PERMITS);
        let share = limits.waiting_share;
        Self { all: Arc::new(Semaphore::new(all)), per_address: PerAddress::default(), share }
    }

    /// Counts a request that begins to wait.
    pub fn begin(&self, address: Option<IpAddr>) -> Result<Waiter, Failure> {
        let one_of_all = self.all.clone().try_acquire_owned().map_err(|_| {
            Failure::busy(
                "as many requests wait for changes as this server holds: ask without `index`, or retry",
            )
        })?;
        let one_of_address = address.map(|address| {
            let most = self.share.of(address);
            self.per_address.count(address, self.share).ok_or_else(|| {
                Failure::busy(format!(
                    "{most} requests of your address wait for changes: end some, or ask without `index`"
                ))
            })
        });
        Ok(Waiter { _one_of_all: one_of_all, _one_of_address: one_of_address.transpose()? })
    }
}
