//! Updates: how a new version takes the place of the one before.

use expect_test::{Expect, expect};

use super::story::tell;

pub fn check(script: &str, expected: Expect) {
    expected.assert_eq(&tell(script));
}

#[test]
fn an_update_that_fits_nowhere_stops_nothing() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100
         plan web
         job web count=3 cpu=100 mem=90000
         plan web
         job web count=3 cpu=200 mem=200
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a
            plan web: refuse 3 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
            plan web: stop web[0] JobUpdated web[1] JobUpdated web[2] JobUpdated place web[0]@a after web[0] for web[0] web[1]@a after web[1] for web[1] web[2]@a after web[2] for web[2]
        "#]],
    );
}

#[test]
fn a_full_node_updates_in_the_capacity_of_those_that_leave() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=500 mem=500
         plan web
         job web count=2 cpu=499 mem=500
         plan web
         job web count=2 cpu=510 mem=500
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a
            plan web: stop web[0] JobUpdated web[1] JobUpdated place web[0]@a after web[0] for web[0] web[1]@a after web[1] for web[1]
            plan web: refuse 2 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn who_found_no_capacity_has_what_those_after_it_leave() {
    check(
        "node a cpu=600 mem=600
         job web count=1 cpu=500 mem=500
         plan web
         node b cpu=600 mem=600
         job web count=2 cpu=500 mem=500
         plan web
         close a
         job web count=2 cpu=250 mem=250
         plan web
         plan web
         plan web",
        expect![[r#"
            plan web: place web[0]@a
            plan web: place web[1]@b
            plan web: stop web[1] JobUpdated place web[1]@b after web[1] for web[1] refuse 1 (1 considered; dc1 1; exhausted cpu 1)
            plan web: stop web[0] JobUpdated place web[0]@b after web[1] for web[0]
            plan web: nothing
        "#]],
    );
}

#[test]
fn an_update_goes_on_as_fast_as_its_allocations_become_healthy() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100 parallel=1
         plan web
         well web[0]#1
         well web[1]#1
         well web[2]#1
         succeed web
         job web count=3 cpu=110 mem=100 parallel=1
         plan web
         plan web
         well web[0]#2
         plan web
         hold web
         well web[1]#2
         plan web
         resume web
         plan web
         well web[2]#2
         succeed web
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a deploy 3
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 3
            plan web: nothing
            plan web: stop web[1] JobUpdated place web[1]@a after web[1] for web[1]
            plan web: nothing
            plan web: stop web[2] JobUpdated place web[2]@a after web[2] for web[2]
            plan web: nothing
        "#]],
    );
}

#[test]
fn what_is_unhealthy_stops_the_update_and_is_replaced_in_time() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100 parallel=1
         plan web
         succeed web
         job web count=3 cpu=110 mem=100 parallel=1
         plan web
         sick web[0]#2
         plan web
         wait 30
         plan web
         well web[0]#3
         plan web
         fail web
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a deploy 3
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 3
            plan web: nothing then pending alloc-reschedule in 30s
            plan web: stop web[0] Rescheduled place web[0]@a after web[0] for web[0]
            plan web: stop web[1] JobUpdated place web[1]@a after web[1] for web[1]
            plan web: nothing
        "#]],
    );
}

#[test]
fn a_drain_waits_for_no_deployment_that_stands_still() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 parallel=1
         plan web
         succeed web
         job web count=2 cpu=110 mem=100 parallel=1
         plan web
         fail web
         leave web[1]#1
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b deploy 2
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 2
            plan web: stop web[1] Migrated place web[1]@a for web[1]
        "#]],
    );
}

#[test]
fn the_nodes_of_a_system_job_follow_each_other_after_its_stagger() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job log type=system cpu=100 mem=100 parallel=1 stagger=30
         plan log
         succeed log
         job log type=system cpu=100 mem=120 parallel=1 stagger=30
         plan log
         well log[0]#3
         plan log
         wait 30
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b deploy 2
            plan log: stop log[0] JobUpdated place log[0]@a after log[0] for log[0] deploy 2
            plan log: nothing then pending deployment-watcher in 30s
            plan log: stop log[0] JobUpdated place log[0]@b after log[0] for log[0]
        "#]],
    );
}

#[test]
fn a_system_job_that_wants_nothing_ends_what_it_has() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job log type=system cpu=100 mem=100
         plan log
         job log type=system cpu=100 mem=100 count=0
         plan log
         plan log
         job log type=system cpu=100 mem=100
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b
            plan log: stop log[0] NotNeeded log[0] NotNeeded
            plan log: nothing
            plan log: place log[0]@a after log[0] log[0]@b after log[0]
        "#]],
    );
}

#[test]
fn work_goes_to_agents_that_know_what_it_needs() {
    check(
        "node old cpu=1000 mem=1000 attr.berth.version=0.1.0
         node some cpu=1000 mem=1000 attr.berth.features=tls_checks
         job web count=3 cpu=10 run=60
         plan web
         explain web
         node new cpu=1000 mem=1000 attr.berth.features=max_run_duration,grpc_checks
         plan web
         job plain cpu=10 constraint=${node.unique.name}:=:old
         plan plain",
        expect![[r#"
            plan web: refuse 3 (2 considered; dc1 2; agent too old for max_run_duration 2) then blocked queued-allocs
            explain web: refuse 3 (2 considered; dc1 2; agent too old for max_run_duration 2); upgrade this node's agent: it does not know max_run_duration (2)
            plan web: place web[0]@new web[1]@new web[2]@new
            plan plain: place plain[0]@old
        "#]],
    );
}

#[test]
fn what_runs_on_an_agent_that_says_less_than_before_stays() {
    check(
        "node a cpu=1000 mem=1000 attr.berth.features=max_run_duration
         job log type=system cpu=100 mem=100 run=60
         plan log
         node a cpu=1000 mem=1000 attr.berth.features=tls_checks
         node b cpu=1000 mem=1000 attr.berth.features=tls_checks
         plan log",
        expect![[r#"
            plan log: place log[0]@a
            plan log: nothing
        "#]],
    );
}

#[test]
fn a_system_job_is_updated_node_by_node() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         node c cpu=1000 mem=150
         job log type=system cpu=100 mem=100 parallel=1
         plan log
         succeed log
         job log type=system cpu=100 mem=120 parallel=1
         plan log
         plan log
         well log[0]#4
         plan log
         job log type=system cpu=100 mem=900 parallel=3
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b log[0]@c deploy 3
            plan log: stop log[0] JobUpdated place log[0]@a after log[0] for log[0] deploy 3
            plan log: nothing
            plan log: stop log[0] JobUpdated place log[0]@b after log[0] for log[0]
            plan log: stop log[0] JobUpdated log[0] JobUpdated place log[0]@a after log[0] for log[0] log[0]@b after log[0] for log[0] refuse 1 (1 considered; dc1 1; exhausted memory 1) deploy 3 then blocked queued-allocs
        "#]],
    );
}

/// It is updated once it takes new work again: no deployment waits for that.
#[test]
fn a_system_job_stays_as_it_is_on_nodes_that_are_closed() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job log type=system cpu=100 mem=100 parallel=1
         plan log
         succeed log
         close a
         job log type=system cpu=100 mem=120 parallel=1
         plan log
         succeed log
         plan log
         open a
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b deploy 2
            plan log: stop log[0] JobUpdated place log[0]@b after log[0] for log[0] deploy 1
            plan log: nothing
            plan log: stop log[0] JobUpdated place log[0]@a after log[0] for log[0]
        "#]],
    );
}

#[test]
fn what_is_still_ending_of_a_group_that_the_job_has_no_more_ends_with_its_node() {
    check(
        "node a cpu=1000 mem=1000
         job web count=1 cpu=100 mem=100 | count=1 cpu=100 mem=100
         plan web
         job web count=1 cpu=100 mem=100
         plan web
         down a
         plan web",
        expect![[r#"
            plan web: place web[0]@a web.g2[0]@a
            plan web: stop web.g2[0] NotNeeded
            plan web: stop web.g2[0] NodeLost web[0] NodeLost refuse 1 (0 considered) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn a_node_that_is_opened_again_is_updated_although_one_of_the_version_has_failed_elsewhere_since() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job sys type=system cpu=100 mem=100 parallel=1
         plan sys
         well sys[0]#1
         well sys[0]#2
         succeed sys
         close b
         job sys type=system cpu=110 mem=100 parallel=1
         plan sys
         well sys[0]#3
         succeed sys
         end sys[0]#3 failed
         plan sys
         open b
         plan sys",
        expect![[r#"
            plan sys: place sys[0]@a sys[0]@b deploy 2
            plan sys: stop sys[0] JobUpdated place sys[0]@a after sys[0] for sys[0] deploy 1
            plan sys: nothing
            plan sys: stop sys[0] JobUpdated place sys[0]@b after sys[0] for sys[0]
        "#]],
    );
}
