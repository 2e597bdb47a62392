//! `berth quota apply`: makes a quota, or changes it.

use berth_api::http::{Quota, QuotaDevice, QuotaLimit, QuotaResources};
use clap::Args;

use crate::{
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `quota apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// Letters, digits, dashes and underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// At most so many MHz; 0 for no limit, -1 for none at all
    #[arg(long, value_name = "MHZ", allow_negative_numbers = true)]
    cpu: Option<i64>,
    /// At most so many MiB of memory; 0 for no limit, -1 for none at all
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    memory: Option<i64>,
    /// At most so many MiB of disk; 0 for no limit, -1 for none at all
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    disk: Option<i64>,
    /// At most so many devices of a type, as `nvidia/gpu=4`; may be repeated
    #[arg(long = "device", value_name = "NAME=COUNT", value_parser = device)]
    devices: Vec<QuotaDevice>,
    /// Served before others while it holds fewer MHz; 0 for no guarantee
    #[arg(long, value_name = "MHZ")]
    guarantee_cpu: Option<i64>,
    /// Served before others while it holds fewer MiB of memory; 0 for no guarantee
    #[arg(long, value_name = "MIB")]
    guarantee_memory: Option<i64>,
    /// Served before others while it holds fewer MiB of disk; 0 for no guarantee
    #[arg(long, value_name = "MIB")]
    guarantee_disk: Option<i64>,
    /// Served before others while it holds fewer devices of a type; may be repeated
    #[arg(long = "guarantee-device", value_name = "NAME=COUNT", value_parser = device)]
    guarantee_devices: Vec<QuotaDevice>,
}

impl Apply {
    /// Reads it if it is there, changes and writes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let before = match remote.quota(&self.name).await {
            Ok(quota) => Some(quota),
            Err(failure) if failure.exit() == Exit::NotFound => None,
            Err(failure) => return Err(failure),
        };
        let name = self.name.clone();
        let mut quota = before.clone().unwrap_or(Quota { name, ..Quota::default() });
        self.change(&mut quota);
        if before.as_ref() == Some(&quota) {
            output::tell("that is how it is already: nothing is changed");
            return Ok(());
        }
        remote.put_quota(&quota).await?;
        let deed = if before.is_some() { "changed" } else { "made" };
        output::tell(&format!("quota {} is {deed}", self.name));
        Ok(())
    }

    fn change(&self, quota: &mut Quota) {
        if let Some(description) = &self.description {
            quota.description.clone_from(description);
        }
        let region = quota.limits.take().and_then(|mut limits| limits.pop()).unwrap_or_default();
        let limit = region.region_limit.clone().unwrap_or_default();
        let limit = changed(limit, [self.cpu, self.memory, self.disk], &self.devices);
        quota.limits = Some(vec![QuotaLimit { region_limit: Some(limit), ..region }]);
        let guarantee = [self.guarantee_cpu, self.guarantee_memory, self.guarantee_disk];
        let guarantee =
            changed(quota.guarantee.take().unwrap_or_default(), guarantee, &self.guarantee_devices);
        quota.guarantee = (guarantee != QuotaResources::default()).then_some(guarantee);
    }
}

/// Amounts with what is named in place of what was.
fn changed(
    before: QuotaResources,
    [cpu, memory_mb, disk_mb]: [Option<i64>; 3],
    named: &[QuotaDevice],
) -> QuotaResources {
    let mut devices = before.devices.unwrap_or_default();
    devices.retain(|device| named.iter().all(|other| other.name != device.name));
    devices.extend_from_slice(named);
    QuotaResources {
        cpu: cpu.or(before.cpu),
        memory_mb: memory_mb.or(before.memory_mb),
        disk_mb: disk_mb.or(before.disk_mb),
        devices: (!devices.is_empty()).then_some(devices),
    }
}

/// Reads `NAME=COUNT`.
fn device(text: &str) -> Result<QuotaDevice, String> {
    let read = text.split_once('=').and_then(|(name, count)| Some((name, count.parse().ok()?)));
    let (name, count) = read.ok_or("expected NAME=COUNT, as in nvidia/gpu=4")?;
    Ok(QuotaDevice { name: name.to_owned(), count })
}
