//! Plans as stories: nodes, jobs and what happens to them go in, what the planner decides comes out.

use expect_test::{Expect, expect};

use super::story;

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&story::tell(script));
}

#[test]
fn the_fullest_node_that_fits_is_taken() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=2000 mem=2000
         job web count=3 cpu=400 mem=400
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@a
        "#]],
    );
}

#[test]
fn what_fits_nowhere_says_why_and_waits() {
    check(
        r#"node a cpu=1000 mem=1000 attr.kernel.name=linux
         node b cpu=1000 mem=1000 attr.kernel.name=windows
         node c cpu=1000 mem=1000 attr.kernel.name=linux dc=dc2
         node d cpu=1000 mem=1000 attr.kernel.name=linux pool=gpu
         job web count=3 cpu=600 mem=600 constraint=${attr.kernel.name}:=:linux dcs=dc1
         plan web
         job odd driver=exec9
         plan odd"#,
        expect![[r#"
            plan web: place web[0]@a refuse 2 (4 considered; dc1 2; ${attr.kernel.name} = linux 1; exhausted cpu 1) then blocked queued-allocs
            plan odd: refuse 1 (4 considered; dc1 2; dc2 1; missing driver "exec9" 3) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn distinct_hosts_keeps_allocations_of_a_job_apart() {
    check(
        "node a
         node b
         job web count=3 distinct_hosts
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b refuse 1 (2 considered; dc1 2; distinct_hosts 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn distinct_property_limits_allocations_a_value() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r1
         node c meta.rack=r2
         node d
         job web count=5 constraint=${meta.rack}:distinct_property:2
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@c web[3]@c refuse 1 (4 considered; dc1 4; ${meta.rack} distinct_property 2 4) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn spread_levels_allocations_over_values() {
    check(
        "node a dc=dc1
         node b dc=dc2
         node c dc=dc3
         job web count=6 spread=${node.datacenter}
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@c web[3]@a web[4]@b web[5]@c
        "#]],
    );
}

#[test]
fn a_named_port_is_held_by_one_allocation_a_node() {
    check(
        "node a
         node b
         job web count=3 port=80
         plan web
         job api count=2 port=0
         plan api",
        expect![[r#"
            plan web: place web[0]@a:80 web[1]@b:80 refuse 1 (2 considered; dc1 2; exhausted network: port p=80 is taken 2) then blocked queued-allocs
            plan api: place api[0]@a:20010 api[1]@b:20017
        "#]],
    );
}

#[test]
fn a_port_is_inherited_once_however_much_capacity_is_left() {
    check(
        "node a cpu=1000 mem=1000
         job web count=1 cpu=900 mem=900 port=80
         plan web
         job web count=1 cpu=300 mem=300 port=80
         plan web
         job web count=2 cpu=300 mem=300 port=80
         plan web",
        expect![[r#"
            plan web: place web[0]@a:80
            plan web: stop web[0] JobUpdated place web[0]@a:80 after web[0] for web[0]
            plan web: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn what_waits_hands_on_what_it_was_promised() {
    check(
        "node a gpus=T4:t0
         job low priority=20 port=80 gpu=gpu
         plan low
         job low priority=20 port=80 gpu=gpu mem=200
         plan low
         job low priority=20 port=80 gpu=gpu mem=300
         plan low
         end low[0]#2 complete
         plan low",
        expect![[r#"
            plan low: place low[0]@a:80:t0
            plan low: stop low[0] JobUpdated place low[0]@a:80:t0 after low[0] for low[0]
            plan low: stop low[0] JobUpdated place low[0]@a:80:t0 after low[0] for low[0]
            plan low: nothing
        "#]],
    );
}

#[test]
fn allocations_count_for_a_value_also_on_nodes_that_can_run_no_more_of_the_group() {
    check(
        "node a cores=4 meta.rack=r1
         node b meta.rack=r1
         node c meta.rack=r2
         job far job.constraint=${meta.rack}:distinct_property:1 constraint=${node.unique.name}:=:b | cores=1
         plan far",
        expect![[r#"
            plan far: place far[0]@b refuse 1 of g2 (3 considered; dc1 3; ${meta.rack} distinct_property 1 1; fewer than 1 reservable cores 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn a_smaller_count_ends_the_highest_names() {
    check(
        "node a
         job web count=4
         plan web
         job web count=2
         plan web
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a web[3]@a
            plan web: stop web[2] NotNeeded web[3] NotNeeded
            plan web: nothing
        "#]],
    );
}

#[test]
fn a_changed_task_is_replaced_in_its_own_capacity() {
    check(
        "node a cpu=1000 mem=1000
         job web count=1 cpu=800 mem=800
         plan web
         job web count=1 cpu=900 mem=900
         plan web
         plan web
         end web[0]#1 complete
         plan web",
        expect![[r#"
            plan web: place web[0]@a
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0]
            plan web: nothing
            plan web: nothing
        "#]],
    );
}

#[test]
fn a_stopped_job_ends_and_its_capacity_is_free_once_it_has() {
    check(
        "node a cpu=1000 mem=1000
         job web cpu=800 mem=800
         plan web
         stop web
         plan web
         job next cpu=800 mem=800
         plan next
         end web[0]#1 complete
         plan next",
        expect![[r#"
            plan web: place web[0]@a
            plan web: stop web[0] JobStopped
            plan next: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan next: place next[0]@a
        "#]],
    );
}

#[test]
fn what_ran_on_a_lost_node_runs_elsewhere() {
    check(
        "node a
         job web count=2
         plan web
         node b
         down a
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a
            plan web: stop web[0] NodeLost web[1] NodeLost place web[0]@b for web[0] web[1]@b for web[1]
        "#]],
    );
}

#[test]
fn a_failed_service_waits_its_delay_and_moves_away() {
    check(
        "node a
         node b
         job web
         plan web
         end web[0]#1 failed
         plan web
         wait 31
         plan web",
        expect![[r#"
            plan web: place web[0]@a
            plan web: nothing then pending alloc-reschedule in 30s
            plan web: place web[0]@b for web[0]
        "#]],
    );
}

#[test]
fn a_new_version_succeeds_what_failed_in_the_one_before() {
    check(
        "node a
         job web count=2
         plan web
         end web[0]#1 failed
         plan web
         job web count=2 cpu=7
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a
            plan web: nothing then pending alloc-reschedule in 30s
            plan web: stop web[1] JobUpdated place web[0]@a for web[0] web[1]@a after web[1] for web[1]
        "#]],
    );
}

#[test]
fn finished_batch_work_is_not_done_again_until_the_job_changes() {
    check(
        "node a
         job sum type=batch count=2
         plan sum
         end sum[0]#1 complete
         end sum[1]#1 failed
         plan sum
         wait 6
         plan sum
         end sum[1]#2 failed
         wait 6
         plan sum
         job sum type=batch count=2 cpu=7
         plan sum",
        expect![[r#"
            plan sum: place sum[0]@a sum[1]@a
            plan sum: nothing then pending alloc-reschedule in 5s
            plan sum: place sum[1]@a for sum[1]
            plan sum: nothing
            plan sum: place sum[0]@a sum[1]@a
        "#]],
    );
}

#[test]
fn a_batch_job_that_was_stopped_begins_anew_when_it_is_run_again() {
    check(
        "node a
         job sum type=batch count=2
         plan sum
         end sum[0]#1 complete
         end sum[1]#1 failed
         job sum type=batch count=3
         plan sum
         end sum[2]#1 complete
         stop sum
         plan sum
         job sum type=batch count=3
         plan sum
         end sum[0]#2 complete
         job sum type=batch count=4
         plan sum",
        expect![[r#"
            plan sum: place sum[0]@a sum[1]@a
            plan sum: place sum[2]@a then pending alloc-reschedule in 5s
            plan sum: nothing
            plan sum: place sum[0]@a sum[1]@a sum[2]@a
            plan sum: place sum[3]@a
        "#]],
    );
}

#[test]
fn a_system_job_runs_once_on_each_node_that_can() {
    check(
        "node a
         node b attr.kernel.name=windows
         node c cpu=10
         job agent type=system constraint=${attr.kernel.name}:!=:windows
         plan agent
         node d
         plan agent",
        expect![[r#"
            plan agent: place agent[0]@a refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan agent: place agent[0]@d refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn all_at_once_places_all_or_nothing() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=400 mem=400 all_at_once
         plan web
         job one cpu=900 mem=900
         plan one",
        expect![[r#"
            plan web: refuse 3 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan one: place one[0]@a
        "#]],
    );
}

#[test]
fn allocations_of_a_group_rather_lie_apart_but_pack_when_nodes_are_full() {
    check(
        "node a
         node b
         job web count=2
         plan web
         job api count=2 cpu=1500 mem=1500
         plan api",
        expect![[r#"
            plan web: place web[0]@a web[1]@b
            plan api: place api[0]@a api[1]@b
        "#]],
    );
}

#[test]
fn affinity_outweighs_packing_and_a_negative_one_repels() {
    check(
        "node a class=old
         node b class=new
         node c class=old
         job web count=2 affinity=${node.class}:=:new:50
         plan web
         job api affinity=${node.class}:=:old:-100
         plan api
         job db count=2 affinity=${node.unique.name}:=:c:100
         plan db",
        expect![[r#"
            plan web: place web[0]@b web[1]@a
            plan api: place api[0]@b
            plan db: place db[0]@c db[1]@b
        "#]],
    );
}

#[test]
fn spread_follows_its_targets_and_levels_what_they_leave() {
    check(
        "node a dc=dc1
         node b dc=dc2
         node c dc=dc3
         job web count=10 spread=${node.datacenter}:dc1/50,dc2/30
         plan web
         job two count=4 spread=${node.datacenter}:dc1/50,dc2/50
         plan two",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@c web[3]@a web[4]@a web[5]@b web[6]@a web[7]@c web[8]@b web[9]@a
            plan two: place two[0]@a two[1]@b two[2]@a two[3]@b
        "#]],
    );
}

#[test]
fn a_pool_that_spreads_takes_the_emptiest_node() {
    check(
        "config pool.wide=spread
         node a pool=wide cpu=1000 mem=1000
         node b pool=wide
         node c
         job one pool=wide cpu=400 mem=400
         plan one
         job two pool=wide cpu=2000 mem=2000
         plan two
         job three pool=wide cpu=400 mem=400
         plan three
         job four pool=all cpu=400 mem=400
         plan four",
        expect![[r#"
            plan one: place one[0]@b
            plan two: place two[0]@b
            plan three: place three[0]@a
            plan four: place four[0]@a
        "#]],
    );
}

#[test]
fn equal_nodes_are_taken_in_the_order_in_which_they_registered() {
    check(
        "node a cpu=2000 mem=2000
         node b cpu=4000 mem=4000
         node c cpu=2000 mem=2000
         job one cpu=1 mem=1
         plan one
         job two cpu=1000 mem=1000
         plan two
         job three cpu=1000 mem=1000
         plan three",
        expect![[r#"
            plan one: place one[0]@a
            plan two: place two[0]@a
            plan three: place three[0]@c
        "#]],
    );
}

#[test]
fn distinct_constraints_of_a_job_are_about_all_groups_and_those_of_a_group_about_itself() {
    check(
        "node a
         node b
         job web job.constraint=:distinct_hosts: | count=1 | count=1
         plan web
         job api count=2 distinct_hosts | count=2
         plan api",
        expect![[r#"
            plan web: place web[0]@a web.g2[0]@b refuse 1 of g3 (2 considered; dc1 2; distinct_hosts 2) then blocked queued-allocs
            plan api: place api[0]@a api[1]@b api.g2[0]@a api.g2[1]@b
        "#]],
    );
}

#[test]
fn all_or_nothing_is_about_all_groups_and_keeps_what_runs() {
    check(
        "node a cpu=1000 mem=1000
         job web all_at_once count=2 cpu=300 mem=300 | count=1 cpu=300 mem=300
         plan web
         job web all_at_once count=2 cpu=400 mem=400 | count=1 cpu=300 mem=300
         plan web
         node b cpu=1000 mem=1000
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web.g2[0]@a
            plan web: refuse 2 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan web: stop web[0] JobUpdated web[1] JobUpdated place web[0]@a after web[0] for web[0] web[1]@b for web[1]
        "#]],
    );
}

#[test]
fn all_or_nothing_must_fit_one_entry_of_the_log() {
    check(
        "node a cpu=4000000 mem=4000000 disk=40000000
         job web all_at_once count=25000 cpu=1 mem=10
         plan web
         job web all_at_once count=16000 cpu=1 mem=10
         job next cpu=3999999
         plan next",
        expect![[r#"
            plan web: refuse 25000 (1 considered; exhausted all_at_once: the plan needs 1123 KiB, an entry of the log holds 1020 KiB: ask for fewer allocations at once 1) then blocked queued-allocs
            plan next: place next[0]@a
        "#]],
    );
}

#[test]
fn a_system_job_preempts_what_is_lower_and_waits_for_it() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=450 mem=450
         plan web
         job agent type=system priority=80 cpu=200 mem=200
         plan agent
         plan web
         job other type=system priority=59 cpu=500 mem=500
         plan other",
        expect![[r#"
            plan web: place web[0]@a web[1]@a
            plan agent: stop web[0] Preempted place agent[0]@a after web[0]
            plan web: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan other: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn as_little_as_possible_is_preempted() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         node c cpu=1000 mem=1000
         job low priority=20 cpu=300 mem=300 count=3 constraint=${node.unique.name}:=:a
         plan low
         job mid priority=30 cpu=900 mem=900 constraint=${node.unique.name}:=:b
         plan mid
         job two priority=20 cpu=500 mem=500 count=2 constraint=${node.unique.name}:=:c
         plan two
         job high priority=70 cpu=400 mem=400
         plan high
         job more priority=70 cpu=1000 mem=1000
         plan more
         job equal priority=39 cpu=1000 mem=1000
         plan equal",
        expect![[r#"
            plan low: place low[0]@a low[1]@a low[2]@a
            plan mid: place mid[0]@b
            plan two: place two[0]@c two[1]@c
            plan high: stop low[0] Preempted place high[0]@a after low[0]
            plan more: stop two[0] Preempted two[1] Preempted place more[0]@c after two[0] after two[1]
            plan equal: refuse 1 (3 considered; dc1 3; exhausted cpu 3) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn services_and_batch_work_preempt_nothing_unless_they_may() {
    check(
        "node a cpu=1000 mem=1000
         job low type=batch priority=20 cpu=900 mem=900
         plan low
         job high priority=90 cpu=900 mem=900
         plan high
         config preempt=batch
         job sum type=batch priority=90 cpu=900 mem=900
         plan sum
         config preempt=batch preempt=batch_on_batch
         plan sum",
        expect![[r#"
            plan low: place low[0]@a
            plan high: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan sum: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan sum: stop low[0] Preempted place sum[0]@a after low[0]
        "#]],
    );
}

#[test]
fn all_or_nothing_preempts_nothing_when_it_does_not_fit() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         job low priority=20 cpu=900 mem=900
         plan low
         job gang all_at_once priority=70 count=2 cpu=600 mem=600
         plan gang
         node b cpu=1000 mem=1000
         plan gang",
        expect![[r#"
            plan low: place low[0]@a
            plan gang: refuse 2 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan gang: stop low[0] Preempted place gang[0]@b gang[1]@a after low[0]
        "#]],
    );
}
