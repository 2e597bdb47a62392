//! Namespaces and quotas, in both directions.

use std::collections::BTreeMap;

use berth_api::http::{
    Namespace, NamespaceCapabilities, Quota, QuotaDevice, QuotaLimit, QuotaResources, QuotaUsage,
};
use berth_model::{
    device::WHOLE_MILLI,
    namespace::{Namespace as Tenant, WEIGHT_MILLI_MAX},
    quota::{Bounds, Quota as DesiredQuota, Usage},
    store::{NamespaceRow, QuotaRow},
};

/// The only region.
const REGION: &str = "global";

/// A namespace.
pub fn namespace(row: &NamespaceRow) -> Namespace {
    let tenant = &row.namespace;
    let listed = |drivers: &[String]| (!drivers.is_empty()).then(|| drivers.to_vec());
    let capabilities = NamespaceCapabilities {
        enabled_task_drivers: listed(&tenant.enabled_drivers),
        disabled_task_drivers: listed(&tenant.disabled_drivers),
    };
    Namespace {
        name: tenant.name.clone(),
        description: tenant.description.clone(),
        parent: tenant.parent.clone().unwrap_or_default(),
        weight: f64::from(tenant.weight_milli) / 1000.0,
        quota: tenant.quota.clone().unwrap_or_default(),
        capabilities: (capabilities != NamespaceCapabilities::default()).then_some(capabilities),
        meta: (!tenant.meta.is_empty()).then(|| tenant.meta.clone()),
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

/// The namespace that a request describes.
///
/// # Errors
/// When its weight is none; in words for whoever asked.
pub fn namespace_of_request(request: Namespace) -> Result<Tenant, String> {
    let named = |name: String| (!name.is_empty()).then_some(name);
    let capabilities = request.capabilities.unwrap_or_default();
    Ok(Tenant {
        weight_milli: weight_milli(request.weight)?,
        name: request.name,
        description: request.description,
        parent: named(request.parent),
        quota: named(request.quota),
        meta: request.meta.unwrap_or_default(),
        enabled_drivers: capabilities.enabled_task_drivers.unwrap_or_default(),
        disabled_drivers: capabilities.disabled_task_drivers.unwrap_or_default(),
    })
}

fn weight_milli(weight: f64) -> Result<u32, String> {
    let milli = (weight * 1000.0).round();
    if (1.0..=f64::from(WEIGHT_MILLI_MAX)).contains(&milli) {
        return Ok(milli as u32);
    }
    Err(format!("Weight {weight} is not from 0.001 to {}", WEIGHT_MILLI_MAX / 1000))
}

/// A quota.
pub fn quota(row: &QuotaRow) -> Quota {
    let limit = QuotaLimit {
        region: REGION.to_owned(),
        region_limit: Some(amounts(&row.quota.limit, limit_as_sent)),
    };
    Quota {
        name: row.quota.name.clone(),
        description: row.quota.description.clone(),
        limits: Some(vec![limit]),
        guarantee: (!row.quota.guarantee.is_empty()).then(|| amounts(&row.quota.guarantee, signed)),
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

/// The quota that a request describes.
///
/// # Errors
/// When it limits other regions, or is guaranteed less than nothing; in words for whoever asked.
pub fn quota_of_request(request: Quota) -> Result<DesiredQuota, String> {
    let mut limits = request.limits.unwrap_or_default();
    if limits.len() > 1 {
        return Err(format!("it has {} limits: there is one region, give one", limits.len()));
    }
    let limit = limits.pop().unwrap_or_default();
    if !["", REGION].contains(&limit.region.as_str()) {
        return Err(format!("it limits region {:?}: the only one is {REGION:?}", limit.region));
    }
    let guarantee = request.guarantee.unwrap_or_default();
    Ok(DesiredQuota {
        name: request.name,
        description: request.description,
        guarantee: bounds(guarantee, |amount| match u64::try_from(amount) {
            Ok(amount) => Ok((amount > 0).then_some(amount)),
            Err(_) => Err(format!("it guarantees {amount}: less than nothing")),
        })?,
        limit: bounds(limit.region_limit.unwrap_or_default(), |amount| {
            Ok((amount != 0).then(|| u64::try_from(amount).unwrap_or(0)))
        })?,
    })
}

/// What counts for a quota.
pub fn quota_usage(row: &QuotaRow) -> QuotaUsage {
    let used = QuotaLimit { region: REGION.to_owned(), region_limit: Some(usage(&row.used)) };
    QuotaUsage {
        name: row.quota.name.clone(),
        used: BTreeMap::from([(REGION.to_owned(), used)]),
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

fn usage(used: &Usage) -> QuotaResources {
    QuotaResources {
        cpu: Some(signed(used.cpu_mhz)),
        memory_mb: Some(signed(used.memory_mb)),
        disk_mb: Some(signed(used.disk_mb)),
        devices: devices(&used.devices_milli),
    }
}

fn amounts(bounds: &Bounds, sent: fn(u64) -> i64) -> QuotaResources {
    QuotaResources {
        cpu: bounds.cpu_mhz.map(sent),
        memory_mb: bounds.memory_mb.map(sent),
        disk_mb: bounds.disk_mb.map(sent),
        devices: devices(&bounds.devices_milli),
    }
}

fn devices(milli: &BTreeMap<String, u64>) -> Option<Vec<QuotaDevice>> {
    let count = |milli: u64| milli.div_ceil(WHOLE_MILLI.into());
    let devices = milli.iter().map(|(name, milli)| QuotaDevice { name: name.clone(), count: count(*milli) });
    (!milli.is_empty()).then(|| devices.collect())
}

fn bounds(
    request: QuotaResources,
    read: impl Fn(i64) -> Result<Option<u64>, String>,
) -> Result<Bounds, String> {
    let read = |amount: Option<i64>| amount.map_or(Ok(None), &read);
    let devices = request.devices.unwrap_or_default().into_iter();
    Ok(Bounds {
        cpu_mhz: read(request.cpu)?,
        memory_mb: read(request.memory_mb)?,
        disk_mb: read(request.disk_mb)?,
        devices_milli: devices.map(|d| (d.name, d.count.saturating_mul(WHOLE_MILLI.into()))).collect(),
    })
}

/// A limit of nothing at all is sent as less than 0: 0 stands for no limit.
fn limit_as_sent(limit: u64) -> i64 {
    if limit == 0 { -1 } else { signed(limit) }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
