//! Updates of what runs where it runs.

use expect_test::expect;

use super::updates::check;

#[test]
fn what_changes_in_place_restarts_nothing_and_counts_as_shown() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 parallel=1
         plan web
         well web[0]#1
         well web[1]#1
         succeed web
         job web count=3 cpu=100 mem=100 parallel=2
         plan web
         job web count=1 cpu=100 mem=100 parallel=2
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a deploy 2
            plan web: place web[2]@a deploy 3
            plan web: stop web[1] NotNeeded web[2] NotNeeded deploy 1
        "#]],
    );
}

#[test]
fn what_restarts_nothing_is_updated_where_it_is_and_is_to_show_that_it_is_well() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100 parallel=1 canary=1
         plan web
         well web[0]#1
         succeed web
         job web count=3 cpu=100 mem=100 parallel=1 canary=1 kill=9
         plan web
         plan web
         job web count=3 cpu=100 mem=120 parallel=1 kill=9 attempts=1
         plan web
         well web[0]#2
         well web[1]#1
         well web[2]#1
         plan web
         hold web
         job web count=3 cpu=100 mem=120 parallel=1 kill=8 attempts=1
         plan web
         hold web
         job web count=4 cpu=100 mem=120 parallel=1 kill=8 attempts=1
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a deploy 3
            plan web: update web[0] web[1] web[2] deploy 3
            plan web: nothing
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 3
            plan web: stop web[1] JobUpdated place web[1]@a after web[1] for web[1]
            plan web: update web[0] web[1] deploy 3
            plan web: place web[3]@a deploy 4
        "#]],
    );
}

#[test]
fn where_an_agent_knows_no_updates_or_a_node_fits_no_more_what_runs_is_replaced() {
    check(
        "node a cpu=1000 mem=200
         node b cpu=1000 mem=200 class=odd
         node c cpu=1000 mem=200 attr.berth.features=artifacts
         job web count=3 cpu=100 mem=100 distinct_hosts
         plan web
         job web count=3 cpu=100 mem=100 distinct_hosts kill=9
         plan web
         job web count=3 cpu=100 mem=100 kill=9
         plan web
         job web count=3 cpu=100 mem=100 kill=9 constraint=${node.class}:!=:odd
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@c
            plan web: stop web[2] JobUpdated update web[0] web[1] place web[2]@c after web[2] for web[2]
            plan web: stop web[0] JobUpdated web[1] JobUpdated web[2] JobUpdated place web[0]@a after web[0] for web[0] web[1]@b after web[1] for web[1] web[2]@c after web[2] for web[2]
            plan web: stop web[1] JobUpdated web[2] JobUpdated update web[0] place web[1]@a for web[1] web[2]@c after web[2] for web[2]
        "#]],
    );
}

#[test]
fn what_ended_well_did_the_work_of_a_version_that_only_ends_otherwise() {
    check(
        "node a cpu=1000 mem=1000
         job sum type=batch count=2 cpu=100 mem=100
         plan sum
         end sum[0]#1 complete
         job sum type=batch count=2 cpu=100 mem=100 kill=9
         plan sum
         job sum type=batch count=2 cpu=100 mem=101 kill=9
         plan sum",
        expect![[r#"
            plan sum: place sum[0]@a sum[1]@a
            plan sum: update sum[1]
            plan sum: stop sum[1] JobUpdated place sum[1]@a after sum[1] for sum[1] sum[0]@a
        "#]],
    );
}

/// What is watched or restarted otherwise may fare better: nothing else would ever start what has failed for good.
#[test]
fn what_failed_starts_anew_under_a_version_that_could_have_changed_it_where_it_was() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 parallel=1 resched=0
         plan web
         well web[0]#1
         end web[1]#1 failed
         plan web
         job web count=2 cpu=100 mem=100 parallel=1 resched=0 kill=9
         plan web
         job log type=system cpu=100 mem=100
         plan log
         end log[0]#1 failed
         plan log
         job log type=system cpu=100 mem=100 kill=9
         plan log",
        expect![[r#"
            plan web: place web[0]@a web[1]@a deploy 2
            plan web: nothing
            plan web: update web[0] place web[1]@a for web[1] deploy 2
            plan log: place log[0]@a
            plan log: nothing
            plan log: place log[0]@a
        "#]],
    );
}

#[test]
fn system_jobs_are_updated_where_they_are_on_all_nodes_at_once() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         node c cpu=1000 mem=1000 attr.berth.features=artifacts
         job log type=system cpu=100 mem=100 parallel=1 stagger=30
         plan log
         succeed log
         job log type=system cpu=100 mem=100 parallel=1 stagger=30 kill=9
         plan log
         plan log
         well log[0]#1
         well log[0]#2
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b log[0]@c deploy 3
            plan log: update log[0] log[0] deploy 3
            plan log: nothing
            plan log: stop log[0] JobUpdated place log[0]@c after log[0] for log[0]
        "#]],
    );
}
