//! Limits of namespaces, quotas and node pools, in number and in size: every server holds all of them in memory, and each
//! fair-share decision reads them. Checked on write; existing objects are not affected.

use berth_model::{
    namespace::Namespace,
    node_pool::NodePool,
    quota::{Bounds, Quota},
};

/// Namespaces, and as many quotas and node pools.
const TENANTS_MAX: usize = 10_000;
/// What is said of one for users.
const DESCRIPTION_BYTES_MAX: usize = 4 << 10;
/// An operator's own labels, names and values.
const META_BYTES_MAX: usize = 16 << 10;
/// Drivers that a namespace lists, and devices that a quota does.
const LISTED_MAX: usize = 64;
/// A name in one of these lists.
const LISTED_BYTES_MAX: usize = berth_jobfile::NAME_BYTES_MAX;

/// Whether a namespace says no more than it may; if not, what is too much.
pub(super) fn check_namespace(namespace: &Namespace) -> Result<(), String> {
    let meta = namespace.meta.iter().map(|(name, value)| name.len() + value.len()).sum();
    within("Description", namespace.description.len(), DESCRIPTION_BYTES_MAX)?;
    within("Meta", meta, META_BYTES_MAX)?;
    listed("EnabledTaskDrivers", namespace.enabled_drivers.iter())?;
    listed("DisabledTaskDrivers", namespace.disabled_drivers.iter())
}

/// The same of a quota.
pub(super) fn check_quota(quota: &Quota) -> Result<(), String> {
    within("Description", quota.description.len(), DESCRIPTION_BYTES_MAX)?;
    let devices = |what: &str, bounds: &Bounds| listed(what, bounds.devices_milli.keys());
    devices("Devices of the limit", &quota.limit)?;
    devices("Devices of the guarantee", &quota.guarantee)
}

/// The same of a node pool.
pub(super) fn check_node_pool(pool: &NodePool) -> Result<(), String> {
    let meta = pool.meta.iter().map(|(name, value)| name.len() + value.len()).sum();
    within("Description", pool.description.len(), DESCRIPTION_BYTES_MAX)?;
    within("Meta", meta, META_BYTES_MAX)
}

/// Whether one more may be made where there are so many.
pub(super) fn check_count(what: &str, count: usize) -> Result<(), String> {
    if count < TENANTS_MAX {
        return Ok(());
    }
    Err(format!("there are {count} {what}, at most {TENANTS_MAX} are possible: delete some first"))
}

fn within(what: &str, bytes: usize, most: usize) -> Result<(), String> {
    if bytes <= most {
        return Ok(());
    }
    Err(format!("{what} has {bytes} bytes, at most {most} are kept: say less"))
}

fn listed<'n>(what: &str, names: impl ExactSizeIterator<Item = &'n String>) -> Result<(), String> {
    if names.len() > LISTED_MAX {
        return Err(format!("{what} has {} names, at most {LISTED_MAX} are kept: name fewer", names.len()));
    }
    let longest = names.map(String::len).max().unwrap_or_default();
    if longest <= LISTED_BYTES_MAX {
        return Ok(());
    }
    Err(format!("{what} has a name of {longest} bytes, at most {LISTED_BYTES_MAX} are understood"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_namespace_is_bounded() {
        type Change<'c> = &'c dyn Fn(&mut Namespace, usize);
        let with = |change: Change<'_>, more: usize| {
            let mut namespace = Namespace::new("team");
            change(&mut namespace, more);
            check_namespace(&namespace)
        };
        let changes: [Change<'_>; 4] = [
            &|namespace, more| namespace.description = "d".repeat(DESCRIPTION_BYTES_MAX + more),
            &|namespace, more| {
                drop(namespace.meta.insert("m".into(), "v".repeat(META_BYTES_MAX - 1 + more)));
            },
            &|namespace, more| namespace.enabled_drivers = vec!["exec".into(); LISTED_MAX + more],
            &|namespace, more| namespace.disabled_drivers = vec!["d".repeat(LISTED_BYTES_MAX + more)],
        ];
        for change in changes {
            assert_eq!(with(change, 0), Ok(()));
            assert!(with(change, 1).is_err());
        }
        let expected = with(changes[1], 1);
        assert_eq!(expected, Err("Meta has 16385 bytes, at most 16384 are kept: say less".to_owned()));
    }

    #[test]
    fn the_size_of_a_quota_is_bounded() {
        let with = |devices: usize| {
            let devices_milli = (0..devices).map(|number| (format!("gpu{number}"), 1)).collect();
            check_quota(&Quota { limit: Bounds { devices_milli, ..Bounds::default() }, ..Quota::default() })
        };
        assert_eq!(with(LISTED_MAX), Ok(()));
        let expected = "Devices of the limit has 65 names, at most 64 are kept: name fewer";
        assert_eq!(with(LISTED_MAX + 1), Err(expected.to_owned()));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        assert_eq!(check_count("namespaces", TENANTS_MAX - 1), Ok(()));
        let expected = "there are 10000 namespaces, at most 10000 are possible: delete some first";
        assert_eq!(check_count("namespaces", TENANTS_MAX), Err(expected.to_owned()));
    }
}
