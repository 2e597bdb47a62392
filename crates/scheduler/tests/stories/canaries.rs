//! Canaries: the few of a new version that stand beside the one before, until they are promoted.

use expect_test::expect;

use super::updates::check;

#[test]
fn canaries_stand_beside_the_old_until_they_are_promoted() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100 parallel=2 canary=1
         plan web
         succeed web
         job web count=3 cpu=110 mem=100 parallel=2 canary=1
         plan web
         plan web
         promote web
         plan web
         well web[0]#2
         promote web
         plan web
         well web[1]#2
         well web[2]#2
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a deploy 3
            plan web: place canary web[0]@a deploy 3 with 1 canaries
            plan web: nothing
            plan web: nothing
            plan web: stop web[0] NotNeeded web[1] JobUpdated web[2] JobUpdated place web[1]@a after web[1] after web[0] for web[1] web[2]@a after web[2] after web[0] for web[2]
            plan web: nothing
        "#]],
    );
}

/// It had to go while there was no capacity for its successor, which is of the version that it was.
#[test]
fn what_is_lost_before_the_promotion_is_succeeded_once_there_is_capacity() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job web count=2 cpu=100 mem=600 parallel=1 canary=1
         plan web
         succeed web
         node c cpu=1000 mem=1000
         job web count=2 cpu=110 mem=600 parallel=1 canary=1
         plan web
         down b
         plan web
         node d cpu=1000 mem=1000
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b deploy 2
            plan web: place canary web[0]@c deploy 2 with 1 canaries
            plan web: stop web[1] NodeLost refuse 1 (2 considered; dc1 2; exhausted memory 2) then blocked queued-allocs
            plan web: place version 0 of web[1]@d for web[1]
        "#]],
    );
}

/// What fits the newest version as it is waits for no promotion either, and nothing but its successor fills its place.
#[test]
fn what_had_to_go_of_the_newest_version_is_succeeded_before_its_promotion() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job web count=2 cpu=100 mem=600 parallel=1
         plan web
         succeed web
         job web count=2 cpu=110 mem=600 parallel=1
         plan web
         node c cpu=1000 mem=1000
         job web count=2 cpu=110 mem=600 parallel=1 canary=1 kill=9
         plan web
         down a
         plan web
         node d cpu=1000 mem=1000
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b deploy 2
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 2
            plan web: update web[0] place canary web[1]@c deploy 2 with 1 canaries
            plan web: stop web[0] NodeLost web[0] NodeLost refuse 1 (2 considered; dc1 2; exhausted memory 2) then blocked queued-allocs
            plan web: place web[0]@d for web[0]
        "#]],
    );
}

/// Its place was taken by an older one as it failed; once another of its version has its name, it holds up nothing.
#[test]
fn what_failed_and_has_a_successor_of_its_name_holds_up_no_update() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         node c cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 distinct_hosts parallel=1 canary=1 resched=0
         plan web
         succeed web
         job web count=2 cpu=110 mem=100 distinct_hosts parallel=1 canary=1 resched=0
         plan web
         well web[0]#2
         promote web
         end web[0]#2 failed
         plan web
         down a
         plan web
         well web[0]#3
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b deploy 2
            plan web: place canary web[0]@c deploy 2 with 1 canaries
            plan web: nothing
            plan web: stop web[0] NodeLost place web[0]@c for web[0]
            plan web: stop web[1] JobUpdated place web[1]@b after web[1] for web[1]
        "#]],
    );
}

#[test]
fn what_is_lost_or_stopped_before_the_promotion_goes_on_as_it_was() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job web count=3 cpu=100 mem=400 parallel=3 canary=1
         plan web
         succeed web
         node c cpu=4000 mem=4000
         job web count=3 cpu=100 mem=410 parallel=3 canary=1
         down b
         plan web
         halt web[0]#1
         plan web
         leave web[2]#1
         plan web
         end web[1]#2 failed
         plan web
         promote web
         plan web
         well web[0]#2
         promote web
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@b web[2]@a deploy 3
            plan web: stop web[1] NodeLost place version 0 of web[1]@c for web[1] canary web[0]@c deploy 3 with 1 canaries
            plan web: place version 0 of web[0]@c for web[0]
            plan web: stop web[2] Migrated place version 0 of web[2]@c for web[2]
            plan web: nothing then pending alloc-reschedule in 30s
            plan web: nothing then pending alloc-reschedule in 30s
            plan web: stop web[0] JobUpdated web[2] JobUpdated place web[2]@c after web[2] for web[2] web[1]@c after web[0] for web[0]
        "#]],
    );
}

/// It ends only now, on a node that is lost; the work that is desired began with the version after it.
#[test]
fn what_ran_before_the_job_was_stopped_is_not_succeeded_before_a_promotion() {
    check(
        "node a cpu=1000 mem=1000
         job web count=1 cpu=100 mem=100 parallel=1
         plan web
         stop web
         plan web
         node b cpu=1000 mem=1000 class=odd
         job web count=1 cpu=110 mem=100 parallel=1 constraint=${node.class}:=:odd
         plan web
         succeed web
         job web count=2 cpu=120 mem=100 parallel=1 canary=1
         plan web
         down a
         plan web
         plan web",
        expect![[r#"
            plan web: place web[0]@a deploy 1
            plan web: stop web[0] JobStopped
            plan web: place web[0]@b deploy 1
            plan web: place canary web[0]@a after web[0] deploy 2 with 1 canaries
            plan web: stop web[0] NodeLost web[0] NodeLost place canary web[0]@b for web[0]
            plan web: nothing
        "#]],
    );
}

/// Others of its version are changed where they are, and wait for no promotion either.
#[test]
fn what_succeeds_an_older_one_that_changes_in_place_is_of_the_newest_version() {
    check(
        "node a cpu=1000 mem=1000
         job web count=3 cpu=100 mem=100 parallel=1
         plan web
         succeed web
         job web count=3 cpu=110 mem=100 parallel=1
         plan web
         well web[0]#2
         plan web
         end web[0]#2 failed
         wait 31
         job web count=3 cpu=110 mem=100 parallel=1 canary=1 kill=9
         plan web
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a web[2]@a deploy 3
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] for web[0] deploy 3
            plan web: stop web[1] JobUpdated place web[1]@a after web[1] for web[1]
            plan web: update web[1] place web[0]@a after web[0] for web[0] canary web[2]@a deploy 3 with 1 canaries
            plan web: nothing
        "#]],
    );
}

#[test]
fn what_is_scaled_to_nothing_has_no_canaries() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 parallel=1 canary=1
         plan web
         job web count=0 cpu=110 mem=100 parallel=1 canary=1
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a deploy 2
            plan web: stop web[0] NotNeeded web[1] NotNeeded
        "#]],
    );
}

#[test]
fn canaries_of_a_failed_deployment_go_and_the_old_stay() {
    check(
        "node a cpu=1000 mem=1000
         job web count=2 cpu=100 mem=100 parallel=1 canary=2
         plan web
         succeed web
         job web count=2 cpu=110 mem=100 parallel=1 canary=2
         plan web
         fail web
         plan web
         plan web
         job web count=2 cpu=120 mem=100 parallel=1
         plan web",
        expect![[r#"
            plan web: place web[0]@a web[1]@a deploy 2
            plan web: place canary web[0]@a canary web[1]@a deploy 2 with 2 canaries
            plan web: stop web[0] CanaryDiscarded web[1] CanaryDiscarded
            plan web: nothing
            plan web: stop web[0] JobUpdated place web[0]@a after web[0] after web[0] for web[0] deploy 2
        "#]],
    );
}

#[test]
fn canaries_of_a_system_job_are_a_part_of_its_nodes() {
    check(
        "node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         node c cpu=1000 mem=1000
         job log type=system cpu=100 mem=100 parallel=3 canary=34
         plan log
         succeed log
         job log type=system cpu=100 mem=120 parallel=3 canary=34
         plan log
         plan log
         well log[0]#4
         well log[0]#5
         plan log
         promote log
         plan log",
        expect![[r#"
            plan log: place log[0]@a log[0]@b log[0]@c deploy 3
            plan log: stop log[0] JobUpdated log[0] JobUpdated place canary log[0]@a after log[0] for log[0] canary log[0]@b after log[0] for log[0] deploy 3 with 2 canaries
            plan log: nothing
            plan log: nothing
            plan log: stop log[0] JobUpdated place log[0]@c after log[0] for log[0]
        "#]],
    );
}
