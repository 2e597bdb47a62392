//! The nodes that have devices of one type, and what an ask would cost on each.
//!
//! Like asks share a row of prices that follows the changes of hosts, so that a decision costs a look at each price, and
//! a new price only for the hosts that changed since that kind of ask came last.

use super::{
    recency::Recency,
    rows::{PriceInputs, PriceRows},
    workload::Workload,
};
use crate::scores::stranded::{DeviceDemand, DeviceHostFree, ExpectedDemand};

/// Devices of one model on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceHost {
    /// Number of the model within its type.
    pub model: usize,
    /// What is left of the node and of these devices.
    pub remaining: DeviceHostFree,
}

/// What is asked of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FleetAsk {
    /// Resources and devices that are asked for.
    pub take: DeviceDemand,
    /// The models that will do, ascending; none when any will.
    pub models: Option<Vec<usize>>,
}

impl FleetAsk {
    /// Whether devices of that model will do.
    pub fn accepts(&self, model: usize) -> bool {
        self.models.as_ref().is_none_or(|models| models.binary_search(&model).is_ok())
    }
}

/// The nodes that have devices of one type.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    hosts: Vec<Option<DeviceHost>>,
    /// What each host has when nothing is taken of it.
    wholes: Vec<Option<DeviceHostFree>>,
    /// All that the hosts have when nothing is taken of them.
    total: FleetTotals,
    /// Free devices, by model.
    free: Vec<f64>,
    recency: Recency,
    workload: Workload,
    /// None while it has to be drawn up again.
    expected: Option<ExpectedDemand>,
    /// Grows when all prices change.
    epoch: u64,
    rows: PriceRows,
}

#[derive(Debug, Clone, Default)]
struct FleetTotals {
    cpu_mhz: f64,
    memory_mb: f64,
    devices: f64,
    largest: DeviceHostFree,
}

impl FleetTotals {
    fn count(&mut self, whole: &DeviceHostFree, times: f64) {
        self.cpu_mhz += times * f64::from(whole.cpu_mhz);
        self.memory_mb += times * f64::from(whole.memory_mb);
        self.devices += times * whole.milli.len() as f64;
        let largest = &mut self.largest;
        largest.cpu_mhz = largest.cpu_mhz.max(whole.cpu_mhz).max(1);
        largest.milli.resize(largest.milli.len().max(whole.milli.len()).max(1), 0);
    }
}

impl Fleet {
    /// A host is there, with nothing taken of it yet. Hosts are numbered from 0.
    pub fn add(&mut self, at: usize, whole: DeviceHost) {
        self.remove(at);
        if self.wholes.len() <= at {
            self.wholes.resize(at + 1, None);
        }
        self.total.count(&whole.remaining, 1.0);
        self.wholes[at] = Some(whole.remaining.clone());
        self.forget_expected();
        self.set(at, whole);
    }

    /// A host is gone; its number may be used again.
    pub fn remove(&mut self, at: usize) {
        let Some(whole) = self.wholes.get_mut(at).and_then(Option::take) else { return };
        self.total.count(&whole, -1.0);
        if let Some(before) = self.hosts[at].take() {
            self.free[before.model] -= devices(&before.remaining);
        }
        self.touch(at);
    }

    /// What is left of a host has changed.
    pub fn set(&mut self, at: usize, host: DeviceHost) {
        if self.hosts.len() <= at {
            self.hosts.resize(at + 1, None);
        }
        if self.free.len() <= host.model {
            self.free.resize(host.model + 1, 0.0);
        }
        self.free[host.model] += devices(&host.remaining);
        if let Some(before) = self.hosts[at].replace(host) {
            self.free[before.model] -= devices(&before.remaining);
        }
        self.touch(at);
    }

    fn touch(&mut self, at: usize) {
        self.recency.touch(u32::try_from(at).expect("fewer than 2^32 hosts"));
    }

    /// What is left of a host.
    pub fn host(&self, at: usize) -> Option<&DeviceHost> {
        self.hosts.get(at)?.as_ref()
    }

    /// Somebody asks: those who come later are expected to be more like this.
    pub fn learn(&mut self, fleet_ask: &FleetAsk) {
        let free = |model: &usize| (*model, self.free.get(*model).copied().unwrap_or(0.0));
        let restricted_to: Vec<(usize, f64)> = fleet_ask.models.iter().flatten().map(free).collect();
        if fleet_ask.take.devices > 0 && self.workload.learn(&fleet_ask.take, &restricted_to) {
            self.forget_expected();
        }
    }

    fn forget_expected(&mut self) {
        self.expected = None;
        self.epoch += 1;
    }

    fn draw_expected(&mut self) {
        let devices = self.total.devices.max(1.0);
        let (cpu_each, memory_each) = (self.total.cpu_mhz / devices, self.total.memory_mb / devices);
        self.expected.get_or_insert_with(|| self.workload.expected(cpu_each, memory_each));
    }

    /// What an ask costs on each host, in devices lost.
    pub fn prices(&mut self, fleet_ask: &FleetAsk) -> Prices<'_> {
        self.draw_expected();
        let scarcity = self.scarcity(fleet_ask);
        let now = PriceInputs { epoch: self.epoch, seen: self.recency.now() };
        let (hosts, expected, largest) = (&self.hosts, &self.expected, &self.total.largest);
        let price = |at: usize| {
            let host = hosts[at].as_ref().filter(|host| fleet_ask.accepts(host.model));
            let price = host
                .zip(expected.as_ref())
                .and_then(|(h, e)| e.price(&h.remaining, &fleet_ask.take, largest));
            price.map_or(f64::INFINITY, |price| price.cost)
        };
        let row = self.rows.row(fleet_ask, self.hosts.len());
        row.catch_up(now, &self.recency, price);
        Prices { prices: &row.prices, hosts: &self.hosts, scarcity }
    }

    /// The device of a host of which an ask best takes a share, by its position.
    pub fn best_device(&self, take: &DeviceDemand, at: usize) -> Option<usize> {
        let (host, expected) = (self.host(at)?, self.expected.as_ref()?);
        expected.price(&host.remaining, take, &self.total.largest).map(|price| price.device)
    }

    /// By model: what the devices asked for cost more because others can use no other model.
    fn scarcity(&self, fleet_ask: &FleetAsk) -> Vec<f64> {
        let all: f64 = self.free.iter().sum();
        let scarcity =
            |(model, free): (usize, &f64)| self.workload.restricted_to(model) * all / free.max(1.0);
        self.free.iter().enumerate().map(scarcity).map(|each| each * fleet_ask.take.amount()).collect()
    }
}

/// What one ask costs on each host.
#[derive(Debug)]
pub struct Prices<'a> {
    prices: &'a [f64],
    hosts: &'a [Option<DeviceHost>],
    scarcity: Vec<f64>,
}

impl Prices<'_> {
    /// On one host; infinite where it does not fit.
    pub fn of(&self, at: usize) -> f64 {
        let Some(host) = self.hosts.get(at).and_then(Option::as_ref) else { return f64::INFINITY };
        self.prices[at] + self.scarcity[host.model]
    }

    /// The model of a host's devices; none when there is no such host.
    pub fn model(&self, at: usize) -> Option<usize> {
        self.hosts.get(at)?.as_ref().map(|host| host.model)
    }

    /// The host where it costs least; none when it fits nowhere. Of equal ones the first, unless `replace` says
    /// otherwise when given how many were equal before.
    pub fn least(&self, mut replace: impl FnMut(u32) -> bool) -> Option<usize> {
        let (mut least, mut best, mut equal) = (f64::INFINITY, None, 0);
        for at in 0..self.prices.len() {
            let price = self.of(at);
            if price < least {
                (least, best, equal) = (price, Some(at), 1);
            } else if price == least && best.is_some() {
                if replace(equal) {
                    best = Some(at);
                }
                equal += 1;
            }
        }
        best
    }
}

fn devices(remaining: &DeviceHostFree) -> f64 {
    remaining.milli.iter().map(|milli| f64::from(*milli)).sum::<f64>() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(model: usize, cores: u32, milli: &[u16]) -> DeviceHost {
        DeviceHost {
            model,
            remaining: DeviceHostFree { cpu_mhz: 1000 * cores, memory_mb: 64_000, milli: milli.to_vec() },
        }
    }

    fn whole(devices: u16, models: Option<Vec<usize>>) -> FleetAsk {
        FleetAsk { take: DeviceDemand { cpu_mhz: 1000, memory_mb: 1000, devices, milli_each: 1000 }, models }
    }

    fn fleet(hosts: &[DeviceHost]) -> Fleet {
        let mut fleet = Fleet::default();
        hosts.iter().enumerate().for_each(|(at, host)| fleet.add(at, host.clone()));
        fleet
    }

    #[test]
    fn an_ask_goes_to_a_model_that_suits_and_has_capacity() {
        let mut fleet = fleet(&[
            host(0, 8, &[1000]),
            host(1, 8, &[1000, 1000]),
            host(1, 8, &[1000, 900]),
            host(1, 0, &[1000, 1000]),
        ]);
        let mut least = |fleet_ask| fleet.prices(&fleet_ask).least(|_| false);
        assert_eq!(least(whole(2, None)), Some(1));
        assert_eq!(least(whole(1, Some(vec![0]))), Some(0));
        assert_eq!(least(whole(2, Some(vec![0]))), None);
    }

    #[test]
    fn a_row_follows_what_changes() {
        let mut fleet = fleet(&[host(0, 8, &[1000, 1000]), host(0, 8, &[1000, 1000])]);
        let fleet_ask = whole(2, None);
        assert_eq!(fleet.prices(&fleet_ask).least(|_| false), Some(0));
        assert_eq!(fleet.prices(&fleet_ask).least(|equal| equal == 1), Some(1));
        fleet.set(0, host(0, 8, &[1000, 0]));
        assert_eq!(fleet.prices(&fleet_ask).least(|_| false), Some(1));
        fleet.set(1, host(0, 8, &[0, 0]));
        assert_eq!(fleet.prices(&fleet_ask).least(|_| false), None);
        fleet.set(0, host(0, 8, &[1000, 1000]));
        assert_eq!(fleet.prices(&fleet_ask).least(|_| false), Some(0));
    }

    #[test]
    fn a_scarce_model_is_left_to_those_who_need_it() {
        let hosts: Vec<DeviceHost> = (0..40).map(|at| host(usize::from(at > 0), 8, &[1000])).collect();
        let mut fleet = fleet(&hosts);
        assert_eq!(fleet.prices(&whole(1, None)).least(|_| false), Some(0));
        (0..40).for_each(|ask| fleet.learn(&whole(1, (ask % 10 == 0).then(|| vec![0]))));
        assert_eq!(fleet.prices(&whole(1, None)).least(|_| false), Some(1));
        assert_eq!(fleet.prices(&whole(1, Some(vec![0]))).least(|_| false), Some(0));
    }

    /// Every price of every row must be what it would be if nothing were remembered.
    #[test]
    fn remembered_prices_are_those_that_would_be_worked_out_anew() {
        let hosts: Vec<DeviceHost> = (0..30).map(|at| host(at % 3, 16, &[1000; 4])).collect();
        let mut fleet = fleet(&hosts);
        let mut state = 1u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        for _ in 0..600 {
            let milli_each = [300, 700, 1000][below(3) as usize];
            let take = DeviceDemand { cpu_mhz: 900, memory_mb: 10, devices: 1, milli_each };
            let fleet_ask = FleetAsk { take, models: [None, Some(vec![1])][below(2) as usize].clone() };
            fleet.learn(&fleet_ask);
            let mut anew = fleet.clone();
            anew.rows = PriceRows::default();
            let at = fleet.prices(&fleet_ask).least(|_| false);
            for host in 0..hosts.len() {
                assert_eq!(fleet.prices(&fleet_ask).of(host), anew.prices(&fleet_ask).of(host));
            }
            let Some(at) = at else { continue };
            let mut host = fleet.host(at).unwrap().clone();
            host.remaining.take(&take, fleet.best_device(&take, at).unwrap());
            fleet.set(at, host);
        }
    }
}
