//! The linter finds what is wrong: plans that are right are spoilt one way each.

use berth_model::{
    AllocId, NodeId,
    alloc::{Placement, Stop, StopReason},
    device::DeviceGrant,
    resources::Resources,
};
use berth_scheduler::{Plan, check::check};

use super::story;

const CLUSTER: &str = "node a cpu=1000 mem=1000 meta.rack=r1
     node b cpu=1000 mem=1000 meta.rack=r1
     node c cpu=1000 mem=1000 class=closed meta.rack=r2
     job old cpu=600 mem=600 constraint=${node.class}:!=:closed
     plan old
     job web count=2 cpu=300 mem=300 port=80 port=0 constraint=${node.class}:!=:closed";

/// What is found once a plan is spoilt.
fn spoilt(more: &str, job: &str, spoil: impl Fn(&mut Plan)) -> String {
    let (store, mut plan) = story::plan(&format!("{CLUSTER}\n{more}"), job);
    assert_eq!(check(&store, &plan), []);
    spoil(&mut plan);
    check(&store, &plan).iter().map(|fault| format!("{}; ", fault.what)).collect()
}

#[track_caller]
fn finds(more: &str, job: &str, spoil: impl Fn(&mut Plan), what: &str) {
    let found = spoilt(more, job, spoil);
    assert!(found.contains(what), "expected {what:?}, found {found:?}");
}

/// Nodes get the first ids: a is 1, b is 2, c is 3.
fn go_to(plan: &mut Plan, node: u128) {
    plan.placements[0].node = NodeId(node);
}

#[test]
fn capacity_and_ports() {
    let full = "job big cpu=500 mem=500";
    finds(full, "big", |plan| go_to(plan, 1), "has not enough cpu");
    finds("", "web", |plan| plan.charges[0] = Resources::ZERO, "is charged another amount");
    finds("", "web", |plan| plan.placements[0].ports[0] = 81, "cannot have port 81");
    finds("", "web", |plan| plan.placements[0].ports[1] = 80, "cannot have port 80");
    finds("", "web", |plan| plan.placements[0].ports.clear(), "has 0 ports");
    finds("", "web", |plan| plan.placements[1].node = plan.placements[0].node, "cannot have port");
    finds("", "web", |plan| plan.placements[0].after = vec![AllocId(77)], "which is not to end there");
}

#[test]
fn nodes_and_constraints() {
    finds("", "web", |plan| go_to(plan, 3), "cannot run group 0");
    finds("", "web", |plan| go_to(plan, 99), "on no node");
    let down = "node d cpu=1000 mem=1000\ndown d\njob x count=1";
    let (store, _) = story::plan(&format!("{CLUSTER}\n{down}"), "x");
    let d = store.nodes().iter().find(|(_, row)| !row.is_ready()).map(|(_, row)| row.id).unwrap();
    finds(down, "x", |plan| plan.placements[0].node = d, "is not ready");
}

#[test]
fn counts_names_and_stops() {
    let twice = |plan: &mut Plan| {
        plan.placements.push(plan.placements[0].clone());
        plan.charges.push(plan.charges[0]);
        plan.holds.push(plan.holds[0].clone());
    };
    finds("", "web", twice, "is placed twice");
    finds("", "web", twice, "3 allocations of group 0, which wants 2");
    finds("", "web", |plan| plan.placements[1].name_index = 0, "two allocations [0]");
    finds("", "web", |plan| plan.charges.truncate(1), "1 charges for 2 placements");
    finds("", "web", |plan| plan.job_version = 7, "not about the job's current version");
    let stop = |alloc| Stop { alloc, reason: StopReason::NotNeeded, observed_at: None };
    finds("", "web", |plan| plan.stops.push(stop(AllocId(77))), "does not live");
    let (store, _) = story::plan(CLUSTER, "web");
    let other = store.allocs().iter().next().unwrap().1.id;
    finds("", "web", |plan| plan.stops.push(stop(other)), "of another job is stopped");
    finds(
        "job agent type=system cpu=1",
        "agent",
        |plan| go_to(plan, 2),
        "2 allocations of group 0 on one node",
    );
}

#[test]
fn how_fast_a_version_takes_the_place_of_another() {
    let rollout = |update: &str| {
        format!(
            "job roll count=3 cpu=10 parallel=3
             plan roll
             well roll[0]#1
             well roll[1]#1
             well roll[2]#1
             succeed roll
             job roll count=3 cpu=20 {update}"
        )
    };
    let all = rollout("parallel=3");
    let (_, whole) = story::plan(&format!("{CLUSTER}\n{all}"), "roll");
    assert_eq!(whole.placements.len(), 3);
    let too_many = |plan: &mut Plan| {
        (plan.placements, plan.stops) = (whole.placements.clone(), whole.stops.clone());
    };
    finds(&rollout("parallel=2"), "roll", too_many, "3 of group 0 are replaced at once; 2 may be");
    finds(&rollout("parallel=3 canary=1"), "roll", too_many, "3 of group 0 are replaced at once; 0 may be");
    let paused = format!("{}\nplan roll\nhold roll", rollout("parallel=1"));
    finds(&paused, "roll", too_many, "are replaced at once; 0 may be");
    let agent = "job agent type=system cpu=1 count=0";
    let (_, placed) = story::plan(&format!("{CLUSTER}\njob agent type=system cpu=1"), "agent");
    let place = |plan: &mut Plan| plan.placements = placed.placements.clone();
    finds(agent, "agent", place, "3 allocations of group 0, which wants none");
}

#[test]
fn what_must_be_distinct() {
    let hosts = "job far count=2 cpu=1 distinct_hosts";
    let together = |plan: &mut Plan| plan.placements[1].node = plan.placements[0].node;
    finds(hosts, "far", together, "against distinct_hosts");
    let racks = "job far count=2 cpu=1 constraint=${meta.rack}:distinct_property:1";
    finds(racks, "far", together, "against ${meta.rack} distinct_property 1");
}

const DEVICES: &str = "node g cpu=1000 mem=1000 cores=4 gpus=T4:t0,t1,t2!:16GiB gpus=A100:a0:40GiB
     job half cpu=100 gpu=nvidia/gpu/T4 share=600 cores=1
     plan half
     job ask cpu=100 gpu=gpu gpus=1 share=400 cores=2 gpu.constraint=${device.attr.memory}:<:20GiB";

#[test]
fn devices_and_cores() {
    let grant =
        |spoil: fn(&mut DeviceGrant)| move |plan: &mut Plan| spoil(&mut plan.placements[0].devices[0]);
    let others = "was given other devices than it asks for";
    finds(DEVICES, "ask", grant(|grant| grant.milli_each = 300), others);
    finds(DEVICES, "ask", grant(|grant| grant.instances[0] = "t9".into()), others);
    finds(DEVICES, "ask", grant(|grant| grant.instances[0] = "t2".into()), others);
    finds(DEVICES, "ask", grant(|grant| grant.instances.push("t1".into())), others);
    let a100 = |grant: &mut DeviceGrant| {
        (grant.device, grant.instances[0]) = ("nvidia/gpu/A100".into(), "a0".into())
    };
    finds(DEVICES, "ask", grant(a100), others);
    finds(DEVICES, "ask", |plan| plan.placements[0].devices.clear(), others);
    finds(DEVICES, "ask", |plan| plan.placements[0].cores[0] = 7, others);
    let whole = "job whole cpu=100 gpu=nvidia/gpu/T4";
    let held = |plan: &mut Plan| plan.placements[0].devices[0].instances[0] = "t0".into();
    finds(&format!("{DEVICES}\n{whole}"), "whole", held, "shares device t0 with others");
    finds(DEVICES, "ask", |plan| plan.placements[0].cores[0] = 0, "shares core 0 with others");
    finds(DEVICES, "ask", |plan| plan.placements[0].cores[1] = plan.placements[0].cores[0], "shares core");
}

#[test]
fn quotas() {
    let tenants = "node g gpus=T4:t0,t1
         quota all cpu=1000 disk=1000
         quota two mem=250 device.nvidia/gpu=1000
         namespace eng quota=all
         namespace dev parent=eng quota=two
         job eng/old cpu=500
         plan eng/old
         job dev/web cpu=100 mem=100 gpu=gpu share=500";
    let more = |plan: &mut Plan| {
        for n in 0..2 {
            let placement = Placement { id: AllocId(1_000 + n), ..plan.placements[0].clone() };
            plan.placements.push(placement);
        }
    };
    let found = spoilt(tenants, "dev/web", more);
    for what in [
        "quota two is exceeded: 300 of memory, at most 250",
        "quota two is exceeded: 1500 of device nvidia/gpu, at most 1000",
        "quota all is exceeded: 1200 of disk, at most 1000",
        "it pledges another amount",
    ] {
        assert!(found.contains(what), "expected {what:?}, found {found:?}");
    }
    assert!(!found.contains("of cpu"), "{found:?}");
    finds(tenants, "dev/web", |plan| plan.pledge.memory_mb = 1, "it pledges another amount");
}

#[test]
fn who_is_preempted() {
    let full = "config preempt=service
         node d cpu=1000 mem=1000 meta.rack=r9
         job low priority=20 cpu=900 constraint=${meta.rack}:=:r9
         plan low
         job near priority=45 cpu=100 constraint=${meta.rack}:=:r9
         plan near
         job high cpu=800 constraint=${meta.rack}:=:r9";
    let (store, plan) = story::plan(&format!("{CLUSTER}\n{full}"), "high");
    let near =
        store.allocs().iter().find(|(_, row)| store.job_of(row).unwrap().0.priority == 45).unwrap().1.id;
    assert_eq!(plan.stops.len(), 1);
    finds(full, "high", |plan| plan.stops[0].alloc = near, "its priority is too high");
    finds(full, "high", |plan| plan.placements[0].after.clear(), "is preempted without a successor");
    let unwanted = |plan: &mut Plan| {
        plan.stops.push(Stop { alloc: near, reason: StopReason::Preempted, observed_at: None })
    };
    let (store, _) = story::plan(CLUSTER, "web");
    let old = store.allocs().iter().next().unwrap().1.id;
    let preempt = |plan: &mut Plan| {
        plan.stops.push(Stop { alloc: old, reason: StopReason::Preempted, observed_at: None })
    };
    finds("", "web", preempt, "is preempted by a job that may not");
    finds(full, "high", unwanted, "is preempted without a successor");
}

#[test]
fn what_is_guaranteed_to_others() {
    let lent = "node d cpu=1000 mem=1000 meta.rack=r9
         config preempt=service
         quota sure sure.mem=600
         quota some sure.mem=700
         namespace owner quota=sure
         namespace guest quota=some
         job guest/fill count=9 mem=100 cpu=10 constraint=${meta.rack}:=:r9
         plan guest/fill
         job owner/own count=3 mem=100 cpu=10 constraint=${meta.rack}:=:r9
         job other count=1 mem=100 cpu=10 constraint=${meta.rack}:!=:r9";
    let (store, _) = story::plan(&format!("{CLUSTER}\n{lent}"), "owner/own");
    let of_guest =
        |alloc: AllocId| &*store.job_of(store.alloc(alloc).unwrap().1).unwrap().0.key.namespace == "guest";
    let guests: Vec<AllocId> =
        store.allocs().iter().map(|(_, row)| row.id).filter(|id| of_guest(*id)).collect();
    let preempt = |plan: &mut Plan| {
        let new = guests.iter().find(|id| plan.stops.iter().all(|stop| stop.alloc != **id)).unwrap();
        plan.stops.push(Stop { alloc: *new, reason: StopReason::Preempted, observed_at: None });
        plan.placements[0].after.push(*new);
    };
    finds(lent, "owner/own", preempt, "quota some guarantees 700 of memory, and is left 600");
    finds(lent, "other", preempt, "its priority is too high");
}
