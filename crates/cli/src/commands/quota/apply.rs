//! `berth quota apply`: creates or changes a quota.

use berth_api::http::{Quota, QuotaDevice, QuotaLimit, QuotaResources};
use clap::Args;

use crate::{
    failure::{self, Failure},
    output,
    remote::Remote,
    source,
};

/// Arguments of `quota apply`.
#[derive(Debug, Args)]
pub struct QuotaApplyArgs {
    /// Name (letters, digits, dashes and underscores), or a file that describes it, in HCL or JSON; `-` for standard input
    #[arg(value_name = "NAME|FILE")]
    named: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// CPU limit in MHz; 0 for no limit, -1 to allow none
    #[arg(long, value_name = "MHZ", allow_negative_numbers = true)]
    cpu: Option<i64>,
    /// Memory limit in MiB; 0 for no limit, -1 to allow none
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    memory: Option<i64>,
    /// Disk limit in MiB; 0 for no limit, -1 to allow none
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    disk: Option<i64>,
    /// Limit of devices of a type, e.g. `nvidia/gpu=4`; repeatable
    #[arg(long = "device", value_name = "NAME=COUNT", value_parser = device)]
    devices: Vec<QuotaDevice>,
    /// Guaranteed CPU in MHz: whoever holds less is served first; 0 for no guarantee
    #[arg(long, value_name = "MHZ")]
    guarantee_cpu: Option<i64>,
    /// Guaranteed memory in MiB; 0 for no guarantee
    #[arg(long, value_name = "MIB")]
    guarantee_memory: Option<i64>,
    /// Guaranteed disk in MiB; 0 for no guarantee
    #[arg(long, value_name = "MIB")]
    guarantee_disk: Option<i64>,
    /// Guaranteed devices of a type; repeatable
    #[arg(long = "guarantee-device", value_name = "NAME=COUNT", value_parser = device)]
    guarantee_devices: Vec<QuotaDevice>,
}

impl QuotaApplyArgs {
    /// Reads it if it is there, changes and writes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let described: Option<Quota> = source::is_file(&self.named)
            .then(|| source::described(&self.named, berth_jobfile::parse_quota))
            .transpose()?;
        let name = described.as_ref().map_or(&self.named, |quota| &quota.name).clone();
        let before = failure::found(remote.quota(&name).await)?;
        let quota = self.desired(described, before.as_ref(), &name);
        if before.as_ref() == Some(&quota) {
            output::eprint_line("nothing to change");
            return Ok(());
        }
        remote.put_quota(&quota).await?;
        let action = if before.is_some() { "changed" } else { "made" };
        output::eprint_line(&format!("quota {name} is {action}"));
        Ok(())
    }

    /// As a file describes it, or as it is; changed by what was named beside.
    fn desired(&self, described: Option<Quota>, before: Option<&Quota>, name: &str) -> Quota {
        let unchanged = before.cloned().unwrap_or(Quota { name: name.to_owned(), ..Quota::default() });
        let mut quota = match described {
            Some(described) => Quota {
                create_index: unchanged.create_index,
                modify_index: unchanged.modify_index,
                ..described
            },
            None => unchanged,
        };
        self.change(&mut quota);
        quota
    }

    fn change(&self, quota: &mut Quota) {
        if let Some(description) = &self.description {
            quota.description.clone_from(description);
        }
        let mut limits = quota.limits.take().unwrap_or_default();
        let region = limits.pop().unwrap_or_default();
        let limit = region.region_limit.clone().unwrap_or_default();
        let limit = changed(limit, [self.cpu, self.memory, self.disk], &self.devices);
        limits.push(QuotaLimit { region_limit: Some(limit), ..region });
        quota.limits = Some(limits);
        let guarantee = [self.guarantee_cpu, self.guarantee_memory, self.guarantee_disk];
        let guarantee =
            changed(quota.guarantee.take().unwrap_or_default(), guarantee, &self.guarantee_devices);
        quota.guarantee = (guarantee != QuotaResources::default()).then_some(guarantee);
    }
}

/// The former amounts, overridden by those that are named.
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
