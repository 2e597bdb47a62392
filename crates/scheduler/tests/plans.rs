//! Plans as stories: nodes, jobs and what happens to them go in, what the planner decides comes out.

mod story;

use expect_test::{Expect, expect};

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
            plan web: place web[0]@a web[1]@a web[2]@b
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
            plan web: place web[0]@a web[1]@a web[2]@c web[3]@c refuse 1 (4 considered; dc1 4; ${meta.rack} distinct_property 2 4) then blocked queued-allocs
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
            plan web: place web[0]@a:80 web[1]@b:80 refuse 1 (2 considered; dc1 2; exhausted network: ports 2) then blocked queued-allocs
            plan api: place api[0]@a:20010 api[1]@a:20017
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
fn a_changed_task_is_replaced_in_its_own_room() {
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
fn a_stopped_job_ends_and_its_room_is_free_once_it_has() {
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
