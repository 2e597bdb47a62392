//! How often callers may ask: by the address that they come from, and by the token that they show.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use berth_model::{AllocId, acl::SecretHash};

use super::{caller::Caller, failure::Failure, limits::RequestRates};
use crate::{
    access::Identity,
    net::{Rates, TooOften},
};

/// Whose requests are counted. A task's token is signed anew all the time: those of an allocation count as one.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Owner {
    Token(SecretHash),
    Tasks(AllocId),
}

/// How often callers have asked lately.
#[derive(Debug)]
pub(crate) struct Asked {
    rates: RequestRates,
    /// What times are counted from.
    begun: Instant,
    addresses: Rates<IpAddr>,
    tokens: Rates<Owner>,
    /// Requests refused for their address.
    pub of_address: AtomicU64,
    /// Requests refused for their token.
    pub of_token: AtomicU64,
}

impl Asked {
    pub fn new(rates: RequestRates) -> Self {
        Self {
            rates,
            begun: Instant::now(),
            addresses: Rates::default(),
            tokens: Rates::default(),
            of_address: AtomicU64::new(0),
            of_token: AtomicU64::new(0),
        }
    }

    /// Counts a request of an address. Whoever shows a token that is one goes on without, by the limit of that token: strangers of
    /// the same address, behind a gateway, lock nobody out.
    ///
    /// # Errors
    /// When it asks too often.
    pub fn by_address(
        &self,
        caller: Option<&Caller>,
        is_known: impl FnOnce() -> bool,
    ) -> Result<(), Failure> {
        let Some(address) = address(caller) else { return Ok(()) };
        let (name, rate) = self.limit(address, ("request-rate-address", self.rates.address));
        match self.addresses.take(address, rate, self.begun.elapsed()) {
            Err(TooOften) if !is_known() => {
                self.of_address.fetch_add(1, Relaxed);
                Err(too_often("your address", name, rate))
            }
            _ => Ok(()),
        }
    }

    /// Counts a request with a token that is one.
    ///
    /// # Errors
    /// When too much is asked with it.
    pub fn by_token(&self, caller: Option<&Caller>, identity: &Identity) -> Result<(), Failure> {
        let Some(address) = address(caller) else { return Ok(()) };
        let owner = match identity {
            Identity::Anonymous => return Ok(()),
            Identity::Token(secret) => Owner::Token(*secret),
            Identity::Workload(workload) => Owner::Tasks(workload.alloc),
        };
        let (name, rate) = self.limit(address, ("request-rate-token", self.rates.token));
        self.tokens.take(owner, rate, self.begun.elapsed()).map_err(|TooOften| {
            self.of_token.fetch_add(1, Relaxed);
            too_often("this token", name, rate)
        })
    }

    /// Programs of this machine have a limit of their own.
    fn limit(&self, address: IpAddr, others: (&'static str, u32)) -> (&'static str, u32) {
        if address == Ipv4Addr::LOCALHOST { ("request-rate-loopback", self.rates.loopback) } else { others }
    }
}

fn address(caller: Option<&Caller>) -> Option<IpAddr> {
    caller.map(Caller::host)
}

fn too_often(whose: &str, name: &str, rate: u32) -> Failure {
    Failure::busy(format!(
        "too many requests of {whose}: {name} is {rate} a second; wait a second, or have the operator raise --{name}"
    ))
}
