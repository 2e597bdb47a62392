//! Checks: when they run, what they mean for health, and when they restart tasks.

use expect_test::expect;

use super::story::check;

#[test]
fn an_allocation_is_healthy_once_its_checks_have_passed_for_long_enough() {
    check(
        "run 1 service web check= check=:ignored healthy=10
        started 1.0
        answer 3s critical
        checks 1
        answer 31s passing",
        &expect![[r#"
            > run 1 service web check= check=:ignored healthy=10
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > answer 3s critical
               1.1 check 1.0 question 1
               1.1 check 1.1 question 1
               alive Critical "said"
               alive Critical "said"
            > answer 31s passing
              11.1 check 1.0 question 2
              11.1 check 1.1 question 2
              21.1 check 1.0 question 3
              21.1 report 1 Running! healthy [web Running (Started)]
              21.1 check 1.1 question 3
              31.1 check 1.0 question 4
              31.1 check 1.1 question 4
        "#]],
    );
}

#[test]
fn what_never_passes_is_unhealthy_by_the_check_that_did_not() {
    check(
        "run 1 service web check=:warns check= healthy=10
        started 1.0
        answer 90s warning",
        &expect![[r#"
            > run 1 service web check=:warns check= healthy=10
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > answer 90s warning
               1.1 check 1.0 question 1
               1.1 check 1.1 question 1
              11.1 check 1.0 question 2
              11.1 check 1.1 question 2
              21.1 check 1.0 question 3
              21.1 check 1.1 question 3
              31.1 check 1.0 question 4
              31.1 check 1.1 question 4
              41.1 check 1.0 question 5
              41.1 check 1.1 question 5
              51.1 check 1.0 question 6
              51.1 check 1.1 question 6
              61.0 report 1 Running! unhealthy: check "alive" of service shop was not passing by the healthy_deadline of 1m [web Running (Started)]
              61.1 check 1.0 question 7
              61.1 check 1.1 question 7
              71.1 check 1.0 question 8
              71.1 check 1.1 question 8
              81.1 check 1.0 question 9
              81.1 check 1.1 question 9
        "#]],
    );
}

#[test]
fn bad_answers_restart_the_task_by_its_restart_policy() {
    check(
        "run 1 service web db check=web:limit2
        started 1.0
        started 1.1
        answer 40s critical
        exited 1.0 signal=15
        answer 20s critical
        started 1.0
        answer 20s passing
        events 1.0",
        &expect![[r#"
            > run 1 service web db check=web:limit2
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup), db Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started), db Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [web Running (Started), db Running (Started)]
            > answer 40s critical
               1.1 check 1.0 question 1
              11.1 check 1.0 question 2
              21.1 check 1.0 question 3
              31.1 check 1.0 question 4
              31.1 signal 1.0#1
              31.1 persist 1
              31.1 report 1 Running [web Running (Killing), db Running (Started)]
              36.1 kill 1.0#1
            > exited 1.0 signal=15
              41.0 report 1 Running [web Pending (Restarting), db Running (Started)]
            > answer 20s critical
              53.2 persist 1
              53.2 start 1.0#2
            > started 1.0
              61.0 report 1 Running [web Running (Started), db Running (Started)]
            > answer 20s passing
              61.1 check 1.0 question 5
              71.1 check 1.0 question 6
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                 31.1 Restart Signaled: healthcheck: check "alive" unhealthy
                 31.1 Killing: Sent interrupt. Waiting 5s before force killing
                 41.0 Terminated:  code=0 signal=15 oom=false
                 41.0 Restarting: Restart within policy in 12.2s
                 61.0 Started: 
               = Running failed=false restarts=1
        "#]],
    );
}

#[test]
fn a_restart_that_a_check_called_for_outlives_the_agent() {
    check(
        "run 1 service web:once check=:limit2
        started 1.0
        answer 40s critical
        restart
        found 1.0 running
        exited 1.0 signal=9",
        &expect![[r#"
            > run 1 service web:once check=:limit2
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > answer 40s critical
               1.1 check 1.0 question 1
              11.1 check 1.0 question 2
              21.1 check 1.0 question 3
              31.1 check 1.0 question 4
              31.1 signal 1.0#1
              31.1 persist 1
              31.1 report 1 Running [web Running (Killing)]
              36.1 kill 1.0#1
            > restart
              41.0 recover 1.0#1
            > found 1.0 running
              41.0 signal 1.0#1
              41.0 report 1 Running [web Running (Killing)]
            > exited 1.0 signal=9
              41.0 persist 1
              41.0 clean up 1
              41.0 report 1 Failed! [web Failed (Not Restarting)]
        "#]],
    );
}

#[test]
fn nothing_is_asked_of_what_does_not_run() {
    check(
        "run 1 service web db check=
        answer 5s passing
        started 1.0
        answer 5s passing
        started 1.1
        answer 5s passing
        stop 1
        answer 20s passing",
        &expect![[r#"
            > run 1 service web db check=
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup), db Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > answer 5s passing
            > started 1.0
               6.0 report 1 Running! [web Running (Started), db Pending (Task Setup)]
            > answer 5s passing
            > started 1.1
              11.0 report 1 Running [web Running (Started), db Running (Started)]
            > answer 5s passing
              11.1 check 1.0 question 1
            > stop 1
              16.0 signal 1.0#1
              16.0 signal 1.1#1
              16.0 persist 1
              16.0 report 1 Running [web Running (Killing), db Running (Killing)]
            > answer 20s passing
              21.0 kill 1.0#1
              21.0 kill 1.1#1
              31.0 kill 1.0#1
              31.0 kill 1.1#1
        "#]],
    );
}
