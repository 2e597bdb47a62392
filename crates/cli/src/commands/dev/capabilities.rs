//! What `berth dev` finds on this machine, and which drivers jobs can therefore use.

use std::collections::BTreeMap;

/// Drivers, the most used first, each with the node attribute that tells whether it is available.
const DRIVERS: [(&str, &str); 4] = [
    ("container", "driver.container"),
    ("docker", "driver.docker"),
    ("exec", "driver.exec"),
    ("raw_exec", "driver.raw_exec"),
];

/// One line, of the attributes of the node, with why containers and networks are missing.
pub(super) fn summary(attributes: &BTreeMap<String, String>) -> String {
    let of = |name: &str| attributes.get(name).map(String::as_str);
    let root = if rustix::process::geteuid().is_root() { "root" } else { "no root" };
    let cgroups =
        of("os.cgroups.version").map_or("no cgroups".to_owned(), |version| format!("cgroups v{version}"));
    let runtime = match (of("driver.container.runtime"), of("driver.container.health_description")) {
        (Some(runtime), _) => runtime.to_owned(),
        (None, Some(why)) => format!("no containers ({why})"),
        (None, None) => "no OCI runtime that can be used".to_owned(),
    };
    let networks = match (of("network.bridge"), of("network.bridge.health_description")) {
        (Some(_), _) => "networks of allocations".to_owned(),
        (None, Some(why)) => format!("no networks of allocations ({why})"),
        (None, None) => "no networks of allocations".to_owned(),
    };
    let (can, cannot): (Vec<_>, Vec<_>) = DRIVERS.iter().partition(|(_, attribute)| of(attribute).is_some());
    let names =
        |drivers: &[&(&str, &str)]| drivers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let cannot = match names(&cannot) {
        none if none.is_empty() => String::new(),
        names => format!("; not {names}"),
    };
    let can = if can.is_empty() { "no drivers".to_owned() } else { names(&can) };
    let unlimited = of("driver.raw_exec.unlimited").filter(|_| of("driver.raw_exec").is_some());
    let unlimited = unlimited.map_or(String::new(), |what| format!("; raw_exec does not limit {what}"));
    format!("found: {root}, {cgroups}, {runtime}, {networks}; jobs can use {can}{cannot}{unlimited}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(attributes: &[(&str, &str)]) -> String {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        // Who runs the tests may be root or not.
        let line = summary(&attributes.collect());
        line.split_once("root, ").map(|(_, rest)| rest.to_owned()).expect("it begins with the user")
    }

    #[test]
    fn what_a_node_lacks_is_named_beside_what_it_has() {
        let bare = summary_of(&[("driver.raw_exec", "1"), ("os.cgroups.version", "2")]);
        let expected = "cgroups v2, no OCI runtime that can be used, no networks of allocations; jobs can use raw_exec; not \
                        container, docker, exec";
        assert_eq!(bare, expected);
        let why = [
            ("driver.container.health_description", "no root"),
            ("network.bridge.health_description", "no nft"),
        ];
        let explained = summary_of(&why);
        let expected = "no cgroups, no containers (no root), no networks of allocations (no nft); jobs can use no drivers; not container, \
                        docker, exec, raw_exec";
        assert_eq!(explained, expected);
        let drivers = DRIVERS.map(|(_, attribute)| (attribute, "1"));
        let more = [("driver.container.runtime", "crun version 1.8.1"), ("network.bridge", "1")];
        let full = summary_of(&[&drivers[..], &more[..]].concat());
        let expected = "no cgroups, crun version 1.8.1, networks of allocations; jobs can use container, docker, exec, raw_exec";
        assert_eq!(full, expected);
        let unlimited = [("driver.raw_exec", "1"), ("driver.raw_exec.unlimited", "memory: no cgroups")];
        let unlimited = summary_of(&unlimited);
        assert!(unlimited.ends_with("; raw_exec does not limit memory: no cgroups"), "{unlimited}");
    }
}
