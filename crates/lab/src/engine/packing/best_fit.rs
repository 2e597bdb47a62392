//! Best fit: the host with the least resources left, cpu and GPUs weighing the same. The published baseline of that name.

use berth_scheduler::devices::{DeviceHost, FleetAsk};

use super::{Policy, least, ties::TieBreak, tightest};
pub(super) struct BestFit {
    cpu_most: f64,
    gpus_most: f64,
}

impl BestFit {
    pub fn new(hosts: &[DeviceHost]) -> Self {
        Self {
            cpu_most: hosts.iter().map(|host| host.remaining.cpu_mhz).max().unwrap_or(1).into(),
            gpus_most: hosts.iter().map(|host| host.remaining.milli.len()).max().unwrap_or(1) as f64,
        }
    }
}

impl Policy for BestFit {
    fn choose(
        &mut self,
        hosts: &[DeviceHost],
        ask: &FleetAsk,
        ties: &mut TieBreak,
    ) -> Option<(usize, usize)> {
        let at = least(hosts, ask, ties, |_, host| {
            let gpus: f64 = host.remaining.milli.iter().map(|milli| f64::from(*milli) / 1000.0).sum();
            f64::from(host.remaining.cpu_mhz) / self.cpu_most + gpus / self.gpus_most
        })?;
        Some((at, tightest(&hosts[at], ask.take.milli_each)))
    }

    fn placed(&mut self, _: usize, _: &DeviceHost) {}
}
