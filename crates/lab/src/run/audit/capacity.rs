//! Checks that no resource of a node is allocated twice, and none beyond its capacity.

use std::collections::BTreeMap;

use super::{
    api::{AllocatedResources, AuditedAlloc, AuditedNode},
    findings::Findings,
};

/// Thousandths of a device.
const WHOLE: u64 = 1_000;

/// All that holds something of one node.
pub(super) fn check(node: &AuditedNode, allocs: &[&AuditedAlloc], findings: &mut Findings) {
    let allocated = allocs.iter().filter_map(|alloc| Some((*alloc, alloc.allocated_resources.as_ref()?)));
    let allocated: Vec<(&AuditedAlloc, &AllocatedResources)> = allocated.collect();
    sums(node, &allocated, findings);
    cores(node, &allocated, findings);
    ports(node, &allocated, findings);
    devices(node, &allocated, findings);
}

fn sums(node: &AuditedNode, allocated: &[(&AuditedAlloc, &AllocatedResources)], findings: &mut Findings) {
    let (all, reserved) = (&node.node_resources, &node.reserved_resources);
    let sum = |of: fn(&AllocatedResources) -> u64| {
        allocated.iter().map(|(_, allocated)| of(allocated)).sum::<u64>()
    };
    let totals = [
        ("MHz of cpu", sum(AllocatedResources::cpu_mhz), all.cpu.cpu_shares, reserved.cpu.cpu_shares),
        ("MiB of memory", sum(AllocatedResources::memory_mb), all.memory.mb, reserved.memory.mb),
        ("MiB of disk", sum(AllocatedResources::disk_mb), all.disk.mb, reserved.disk.mb),
    ];
    for (what, total, all, reserved) in totals {
        let there = all.saturating_sub(reserved);
        if total > there {
            findings.add(format!(
                "node {} has {there} {what} for allocations, and the {} on it were given {total}",
                node.name,
                allocated.len()
            ));
        }
    }
}

fn cores(node: &AuditedNode, allocated: &[(&AuditedAlloc, &AllocatedResources)], findings: &mut Findings) {
    let mut holders = BTreeMap::new();
    for (alloc, allocated) in allocated {
        let cores = allocated.tasks.values().flat_map(|task| task.cpu.reserved_cores.iter().flatten());
        for core in cores {
            if let Some(other) = holders.insert(*core, &alloc.id) {
                findings.add(format!(
                    "core {core} of node {} is reserved for {other} and {}",
                    node.name, alloc.id
                ));
            }
        }
    }
}

fn ports(node: &AuditedNode, allocated: &[(&AuditedAlloc, &AllocatedResources)], findings: &mut Findings) {
    let mut holders: BTreeMap<_, &AuditedAlloc> = BTreeMap::new();
    for (alloc, allocated) in allocated {
        for port in allocated.shared.ports.iter().flatten() {
            if let Some(other) = holders.insert((&port.host_ip, port.value), alloc) {
                findings.add(format!(
                    "port {} (`{}`) of node {} is given to {} and {}",
                    port.value, port.label, node.name, other.id, alloc.id
                ));
            }
        }
    }
}

fn devices(node: &AuditedNode, allocated: &[(&AuditedAlloc, &AllocatedResources)], findings: &mut Findings) {
    let there = node.node_resources.devices.iter().flatten().flat_map(|device| {
        let of = (&*device.vendor, &*device.r#type, &*device.name);
        device.instances.iter().map(move |instance| (of, &*instance.id))
    });
    let mut left: BTreeMap<_, u64> = there.map(|instance| (instance, WHOLE)).collect();
    for (alloc, allocated) in allocated {
        let devices = allocated.tasks.values().flat_map(|task| task.devices.iter().flatten());
        for device in devices {
            let of = (&*device.vendor, &*device.r#type, &*device.name);
            for id in &device.ids {
                let requested = device.milli_each.unwrap_or(WHOLE);
                let device = format!("device {id} ({}/{}/{}) of node {}", of.0, of.1, of.2, node.name);
                match left.get_mut(&(of, &**id)) {
                    None => findings.add(format!("{device} is given to {}, and it is not there", alloc.id)),
                    Some(left) if *left < requested => {
                        findings.add(format!(
                            "{device} is given to {}, and others hold too much of it",
                            alloc.id
                        ));
                    }
                    Some(left) => *left -= requested,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn alloc(id: &str, resources: Value) -> AuditedAlloc {
        let alloc = json!({"ID": id, "DesiredStatus": "run", "ClientStatus": "running", "AllocatedResources": resources});
        serde_json::from_value(alloc).expect("an allocation")
    }

    fn found(allocs: &[AuditedAlloc]) -> Vec<String> {
        let node = json!({
            "ID": "n", "Name": "n1", "NodeResources": {
                "Cpu": {"CpuShares": 1000}, "Memory": {"MemoryMB": 100}, "Disk": {"DiskMB": 50},
                "Devices": [{"Vendor": "v", "Type": "gpu", "Name": "T4", "Instances": [{"ID": "0"}, {"ID": "1"}]}],
            },
            "ReservedResources": {"Cpu": {"CpuShares": 100}, "Memory": {"MemoryMB": 0}, "Disk": {"DiskMB": 0}},
        });
        let mut findings = Findings::default();
        let node: AuditedNode = serde_json::from_value(node).expect("a node");
        check(&node, &allocs.iter().collect::<Vec<_>>(), &mut findings);
        findings.lines()
    }

    fn task(cpu: u64, memory: u64, cores: &[u32]) -> Value {
        json!({"Tasks": {"t": {"Cpu": {"CpuShares": cpu, "ReservedCores": cores}, "Memory": {"MemoryMB": memory}, "Devices": null}}})
    }

    fn device(ids: &[&str], milli: u64) -> Value {
        let device =
            json!([{"Vendor": "v", "Type": "gpu", "Name": "T4", "DeviceIDs": ids, "MilliEach": milli}]);
        json!({"Tasks": {"t": {"Devices": device}}})
    }

    fn port(value: u16, ip: &str) -> Value {
        json!({"Shared": {"DiskMB": 25, "Ports": [{"Label": "p", "Value": value, "HostIP": ip}]}})
    }

    #[test]
    fn what_fits_is_well() {
        let all = [
            alloc("a", task(450, 50, &[0, 1])),
            alloc("b", task(450, 50, &[2])),
            alloc("c", device(&["0"], 500)),
            alloc("d", device(&["0", "1"], 500)),
            alloc("e", port(80, "10.0.0.1")),
            alloc("f", port(80, "10.0.0.2")),
        ];
        assert_eq!(found(&all), [""; 0]);
    }

    #[test]
    fn what_is_given_twice_is_named() {
        let all = [alloc("a", task(500, 60, &[0, 1])), alloc("b", task(500, 60, &[1]))];
        assert_eq!(
            found(&all),
            [
                "node n1 has 900 MHz of cpu for allocations, and the 2 on it were given 1000",
                "node n1 has 100 MiB of memory for allocations, and the 2 on it were given 120",
                "core 1 of node n1 is reserved for a and b",
            ]
        );
        let all =
            [alloc("a", port(80, "10.0.0.1")), alloc("b", port(80, "10.0.0.1")), alloc("c", port(81, ""))];
        assert_eq!(
            found(&all),
            [
                "node n1 has 50 MiB of disk for allocations, and the 3 on it were given 75",
                "port 80 (`p`) of node n1 is given to a and b",
            ]
        );
        let all =
            [alloc("a", device(&["0"], 600)), alloc("b", device(&["0"], 500)), alloc("c", device(&["7"], 1))];
        assert_eq!(
            found(&all),
            [
                "device 0 (v/gpu/T4) of node n1 is given to b, and others hold too much of it",
                "device 7 (v/gpu/T4) of node n1 is given to c, and it is not there",
            ]
        );
    }
}
