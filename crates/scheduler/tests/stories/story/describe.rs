//! Plans in words.

use std::{collections::BTreeMap, fmt::Write};

use berth_model::{AllocId, NodeId, Timestamp, eval::GroupFailure, store::Store};
use berth_scheduler::{Plan, explain::Explanation};

/// Tells what a plan made at a time would do.
pub fn describe(store: &Store, nodes: &BTreeMap<String, NodeId>, plan: &Plan, at: Timestamp) -> String {
    let mut parts = Vec::new();
    if !plan.stops.is_empty() {
        let stops = plan.stops.iter().map(|stop| format!("{} {:?}", name(store, stop.alloc), stop.reason));
        let mut stops: Vec<String> = stops.collect();
        stops.sort();
        parts.push(format!("stop {}", stops.join(" ")));
    }
    if !plan.updates.is_empty() {
        let mut updates: Vec<String> = plan.updates.iter().map(|id| name(store, *id)).collect();
        updates.sort();
        parts.push(format!("update {}", updates.join(" ")));
    }
    let placed: Vec<String> = plan
        .placements
        .iter()
        .map(|p| {
            let node = nodes.iter().find(|(_, id)| **id == p.node).unwrap().0;
            let ports: String = p.ports.iter().map(|port| format!(":{port}")).collect();
            let devices: Vec<String> = p.devices.iter().map(|grant| grant.instances.join("+")).collect();
            let devices = if devices.is_empty() { String::new() } else { format!(":{}", devices.join(":")) };
            let cores: String = p.cores.iter().map(|core| format!("#{core}")).collect();
            let after: String = p.after.iter().map(|id| format!(" after {}", name(store, *id))).collect();
            let previous = p.previous.map_or(String::new(), |id| format!(" for {}", name(store, id)));
            let (_, group) = store.job(&plan.job).unwrap().placed_by(p, plan.job_version).unwrap();
            let group = group_suffix(&group.name);
            let canary = if p.canary { "canary " } else { "" };
            let older = p.job_version.map_or(String::new(), |version| format!("version {version} of "));
            format!(
                "{canary}{older}{}{group}[{}]@{node}{ports}{devices}{cores}{after}{previous}",
                plan.job.id, p.name_index
            )
        })
        .collect();
    if !placed.is_empty() {
        parts.push(format!("place {}", placed.join(" ")));
    }
    parts.extend(plan.failures.iter().map(describe_failure));
    for group in plan.deployment.iter().flat_map(|new| &new.groups) {
        let canaries = Some(group.desired_canaries).filter(|count| *count > 0);
        let canaries = canaries.map_or(String::new(), |count| format!(" with {count} canaries"));
        parts.push(format!("deploy {}{}{canaries}", group.desired_total, group_suffix(&group.name)));
    }
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    for next in &plan.next {
        let wait = next.wait_until.since(at);
        let wait = if wait.is_zero() { String::new() } else { format!(" in {}s", wait.as_secs()) };
        parts.push(format!("then {} {}{wait}", next.status.as_str(), next.trigger.as_str()));
    }
    parts.join(" ")
}

/// An allocation's name: `web[0]`, or `web.g2[0]` in a group that is not the first.
pub fn name(store: &Store, id: AllocId) -> String {
    let (_, row) = store.alloc(id).unwrap();
    let (job, group) = store.job_of(row).unwrap();
    format!("{}{}[{}]", job.key.id, group_suffix(&group.name), row.name_index)
}

fn group_suffix(group: &str) -> String {
    if group == "g" { String::new() } else { format!(".{group}") }
}

fn describe_failure(failure: &GroupFailure) -> String {
    let funnel = &failure.funnel;
    let mut parts = vec![format!("{} considered", funnel.considered)];
    parts.extend(funnel.available.iter().map(|(dc, n)| format!("{dc} {n}")));
    parts.extend(funnel.filtered.iter().map(|(why, n)| format!("{why} {n}")));
    parts.extend(funnel.exhausted.iter().map(|(what, n)| format!("exhausted {what} {n}")));
    parts.extend(funnel.quota.iter().map(|(quota, what)| format!("quota {quota} {what}")));
    format!(
        "refuse {}{} ({})",
        failure.count,
        group_suffix(&failure.group).replace('.', " of "),
        parts.join("; ")
    )
}

/// An explanation in words.
pub fn explanation(store: &Store, explained: &Explanation) -> String {
    let groups = explained.groups.iter().map(|group| {
        let failure = GroupFailure {
            group: group.group.as_str().into(),
            count: group.missing,
            funnel: group.funnel.clone().into(),
        };
        let mut message = if group.missing == 0 { "placed".to_owned() } else { describe_failure(&failure) };
        let preempted: Vec<String> = group.preempted.iter().map(|id| name(store, *id)).collect();
        if !preempted.is_empty() {
            write!(message, "; preempts {}", preempted.join(" ")).unwrap();
        }
        for change in &group.changes {
            write!(message, "; {} ({})", change.what, change.nodes).unwrap();
        }
        if let Some(here) = &group.here {
            write!(
                message,
                "; here: {}",
                if here.is_empty() { "nothing".to_owned() } else { here.join(", ") }
            )
            .unwrap();
        }
        message
    });
    groups.collect::<Vec<_>>().join(" | ")
}
