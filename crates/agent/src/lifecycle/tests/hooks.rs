//! Prestart, poststart and poststop tasks, and sidecars.

use expect_test::expect;

use super::story::check;

#[test]
fn each_waits_for_those_before_it() {
    check(
        "run 1 batch main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
         started 1.1
         started 1.2
         exited 1.1
         started 1.0
         started 1.3
         exited 1.3
         exited 1.0
         exited 1.2 signal=15
         started 1.4
         exited 1.4
         events 1.2",
        &expect![[r#"
            > run 1 batch main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
               1.0 start 1.1#1
               1.0 start 1.2#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
            > started 1.2
               1.0 report 1 Running [main Pending (Received), init Running (Started), proxy Running (Started), hello Pending (Received), bye Pending (Received)]
            > exited 1.1
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Running [main Pending (Task Setup), init Dead (Terminated), proxy Running (Started), hello Pending (Received), bye Pending (Received)]
            > started 1.0
               1.0 persist 1
               1.0 start 1.3#1
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Pending (Task Setup), bye Pending (Received)]
            > started 1.3
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Running (Started), bye Pending (Received)]
            > exited 1.3
               1.0 persist 1
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Dead (Terminated), bye Pending (Received)]
            > exited 1.0
               1.0 signal 1.2#1
               1.0 persist 1
               1.0 report 1 Running [main Dead (Terminated), init Dead (Terminated), proxy Running (Killing), hello Dead (Terminated), bye Pending (Received)]
            > exited 1.2 signal=15
               1.0 persist 1
               1.0 start 1.4#1
               1.0 report 1 Pending! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Pending (Task Setup)]
            > started 1.4
               1.0 report 1 Running! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Running (Started)]
            > exited 1.4
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Dead (Terminated)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Main Tasks Dead: 
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  1.0 Terminated:  code=0 signal=15 oom=false
                  1.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn a_failed_prestart_is_tried_again_and_fails_all_but_the_last() {
    check(
        "run 1 service main init:prestart:once bye:poststop
         started 1.1
         exited 1.1 code=1
         started 1.2
         exited 1.2 code=3
         wait 12s
         started 1.2
         exited 1.2",
        &expect![[r#"
            > run 1 service main init:prestart:once bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), bye Pending (Received)]
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started), bye Pending (Received)]
            > exited 1.1 code=1
               1.0 persist 1
               1.0 start 1.2#1
               1.0 report 1 Pending! [main Dead (Sibling Task Failed), init Failed (Not Restarting), bye Pending (Task Setup)]
            > started 1.2
               1.0 report 1 Running! [main Dead (Sibling Task Failed), init Failed (Not Restarting), bye Running (Started)]
            > exited 1.2 code=3
               1.0 report 1 Pending! [main Dead (Sibling Task Failed), init Failed (Not Restarting), bye Pending (Restarting)]
            > wait 12s
              11.4 persist 1
              11.4 start 1.2#2
            > started 1.2
              13.0 report 1 Running [main Dead (Sibling Task Failed), init Failed (Not Restarting), bye Running (Started)]
            > exited 1.2
              13.0 persist 1
              13.0 clean up 1
              13.0 report 1 Failed! [main Dead (Sibling Task Failed), init Failed (Not Restarting), bye Dead (Terminated)]
        "#]],
    );
    check(
        "run 1 service main init:prestart
         started 1.1
         exited 1.1 code=1
         wait 12s
         started 1.1
         exited 1.1",
        &expect![[r#"
            > run 1 service main init:prestart
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup)]
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started)]
            > exited 1.1 code=1
               1.0 report 1 Pending! [main Pending (Received), init Pending (Restarting)]
            > wait 12s
              12.4 persist 1
              12.4 start 1.1#2
            > started 1.1
              13.0 report 1 Running [main Pending (Received), init Running (Started)]
            > exited 1.1
              13.0 persist 1
              13.0 start 1.0#1
              13.0 report 1 Pending! [main Pending (Task Setup), init Dead (Terminated)]
        "#]],
    );
}

#[test]
fn a_sidecar_runs_again_whenever_it_ends_and_ends_last() {
    check(
        "run 1 batch main proxy:prestart:sidecar tail:poststart:sidecar bye:poststop
         started 1.1
         started 1.0
         started 1.2
         exited 1.1
         stop 1
         wait 12s
         exited 1.0 signal=15
         exited 1.2 signal=15
         started 1.3
         stop 1
         exited 1.3",
        &expect![[r#"
            > run 1 batch main proxy:prestart:sidecar tail:poststart:sidecar bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), proxy Pending (Task Setup), tail Pending (Received), bye Pending (Received)]
               1.0 start 1.1#1
            > started 1.1
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Running! [main Pending (Task Setup), proxy Running (Started), tail Pending (Received), bye Pending (Received)]
            > started 1.0
               1.0 persist 1
               1.0 start 1.2#1
               1.0 report 1 Running [main Running (Started), proxy Running (Started), tail Pending (Task Setup), bye Pending (Received)]
            > started 1.2
               1.0 report 1 Running [main Running (Started), proxy Running (Started), tail Running (Started), bye Pending (Received)]
            > exited 1.1
               1.0 report 1 Running [main Running (Started), proxy Pending (Restarting), tail Running (Started), bye Pending (Received)]
            > stop 1
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [main Running (Killing), proxy Pending (Restarting), tail Running (Started), bye Pending (Received)]
            > wait 12s
               6.0 kill 1.0#1
              12.4 persist 1
            > exited 1.0 signal=15
              13.0 signal 1.2#1
              13.0 persist 1
              13.0 report 1 Running [main Dead (Killed), proxy Dead (Restarting), tail Running (Killing), bye Pending (Received)]
            > exited 1.2 signal=15
              13.0 persist 1
              13.0 start 1.3#1
              13.0 report 1 Pending! [main Dead (Killed), proxy Dead (Restarting), tail Dead (Killed), bye Pending (Task Setup)]
            > started 1.3
              13.0 report 1 Running [main Dead (Killed), proxy Dead (Restarting), tail Dead (Killed), bye Running (Started)]
            > stop 1
            > exited 1.3
              13.0 persist 1
              13.0 clean up 1
              13.0 report 1 Complete! [main Dead (Killed), proxy Dead (Restarting), tail Dead (Killed), bye Dead (Terminated)]
        "#]],
    );
}

#[test]
fn what_never_started_leaves_nothing_to_clean_up() {
    check(
        "run 1 service a
         run 2 service main init:prestart bye:poststop after=1
         stop 2
         run 3 service main:leader init:prestart bye:poststop
         stop 3
         exited 3.1 signal=15
         started 3.2
         exited 3.2",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > run 2 service main init:prestart bye:poststop after=1
               1.0 persist 2
               1.0 report 2 Pending [main Pending (Received), init Pending (Received), bye Pending (Received)]
            > stop 2
               1.0 persist 2
               1.0 report 2 Complete! [main Dead (Received), init Dead (Received), bye Dead (Received)]
            > run 3 service main:leader init:prestart bye:poststop
               1.0 persist 3
               1.0 prepare 3
               1.0 report 3 Pending [main Pending (Received), init Pending (Task Setup), bye Pending (Received)]
               1.0 start 3.1#1
            > stop 3
               1.0 cancel 3.1#1
               1.0 persist 3
               1.0 report 3 Pending [main Dead (Received), init Pending (Task Setup), bye Pending (Received)]
            > exited 3.1 signal=15
               1.0 persist 3
               1.0 start 3.2#1
               1.0 report 3 Pending [main Dead (Received), init Dead (Killed), bye Pending (Task Setup)]
            > started 3.2
               1.0 report 3 Running! [main Dead (Received), init Dead (Killed), bye Running (Started)]
            > exited 3.2
               1.0 persist 3
               1.0 clean up 3
               1.0 report 3 Complete! [main Dead (Received), init Dead (Killed), bye Dead (Terminated)]
        "#]],
    );
}

#[test]
fn the_end_of_the_leader_ends_the_others_and_what_follows_goes_on() {
    check(
        "run 1 service main:leader log proxy:prestart:sidecar bye:poststop max=60
         started 1.2
         started 1.0
         started 1.1
         exited 1.0 code=1
         wait 12s
         started 1.0
         wait 60s
         exited 1.0 signal=15
         exited 1.1 signal=15
         exited 1.2 signal=15
         started 1.3
         wait 100s
         exited 1.3",
        &expect![[r#"
            > run 1 service main:leader log proxy:prestart:sidecar bye:poststop max=60
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), log Pending (Received), proxy Pending (Task Setup), bye Pending (Received)]
               1.0 start 1.2#1
            > started 1.2
               1.0 persist 1
               1.0 start 1.0#1
               1.0 start 1.1#1
               1.0 report 1 Running! [main Pending (Task Setup), log Pending (Task Setup), proxy Running (Started), bye Pending (Received)]
            > started 1.0
               1.0 report 1 Running [main Running (Started), log Pending (Task Setup), proxy Running (Started), bye Pending (Received)]
            > started 1.1
               1.0 report 1 Running [main Running (Started), log Running (Started), proxy Running (Started), bye Pending (Received)]
            > exited 1.0 code=1
               1.0 report 1 Running [main Pending (Restarting), log Running (Started), proxy Running (Started), bye Pending (Received)]
            > wait 12s
            > started 1.0
            > wait 60s
              13.2 persist 1
              13.2 start 1.0#2
              61.0 cancel 1.0#2
              61.0 signal 1.1#1
              61.0 persist 1
              61.0 report 1 Running [main Failed (Killing), log Failed (Killing), proxy Failed (Killing), bye Pending (Received)]
              66.0 kill 1.1#1
            > exited 1.0 signal=15
              73.0 persist 1
              73.0 report 1 Running [main Failed (Killed), log Failed (Killing), proxy Failed (Killing), bye Pending (Received)]
            > exited 1.1 signal=15
              73.0 signal 1.2#1
              73.0 persist 1
              73.0 report 1 Running [main Failed (Killed), log Failed (Killed), proxy Failed (Killing), bye Pending (Received)]
            > exited 1.2 signal=15
              73.0 persist 1
              73.0 start 1.3#1
              73.0 report 1 Pending! [main Failed (Killed), log Failed (Killed), proxy Failed (Killed), bye Pending (Task Setup)]
            > started 1.3
              73.0 report 1 Running [main Failed (Killed), log Failed (Killed), proxy Failed (Killed), bye Running (Started)]
            > wait 100s
            > exited 1.3
             173.0 persist 1
             173.0 clean up 1
             173.0 report 1 Failed! [main Failed (Killed), log Failed (Killed), proxy Failed (Killed), bye Dead (Terminated)]
        "#]],
    );
}

#[test]
fn a_restart_of_the_agent_is_survived_in_each_phase() {
    check(
        "run 1 batch main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
         restart
         found 1.1 running
         found 1.2 nothing
         exited 1.1
         started 1.2
         restart
         found 1.0 nothing
         found 1.2 running
         started 1.0
         restart
         found 1.3 running
         found 1.0 running
         found 1.2 running
         exited 1.0
         restart
         found 1.2 running
         found 1.3 running
         exited 1.3
         restart
         found 1.2 running
         exited 1.2 signal=15
         restart
         found 1.4 running
         exited 1.4",
        &expect![[r#"
            > run 1 batch main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
               1.0 start 1.1#1
               1.0 start 1.2#1
            > restart
               1.0 recover 1.1#1
               1.0 recover 1.2#1
            > found 1.1 running
               1.0 report 1 Running! [main Pending (Received), init Running (Started), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
            > found 1.2 nothing
               1.0 prepare 1
               1.0 start 1.2#1
            > exited 1.1
               1.0 persist 1
               1.0 report 1 Pending! [main Pending (Received), init Dead (Terminated), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
            > started 1.2
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Running! [main Pending (Task Setup), init Dead (Terminated), proxy Running (Started), hello Pending (Received), bye Pending (Received)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.2#1
            > found 1.0 nothing
               1.0 prepare 1
               1.0 start 1.0#1
            > found 1.2 running
            > started 1.0
               1.0 persist 1
               1.0 start 1.3#1
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Pending (Task Setup), bye Pending (Received)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.2#1
               1.0 recover 1.3#1
            > found 1.3 running
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Running (Started), bye Pending (Received)]
            > found 1.0 running
            > found 1.2 running
            > exited 1.0
               1.0 persist 1
               1.0 report 1 Running [main Dead (Terminated), init Dead (Terminated), proxy Running (Started), hello Running (Started), bye Pending (Received)]
            > restart
               1.0 recover 1.2#1
               1.0 recover 1.3#1
            > found 1.2 running
            > found 1.3 running
            > exited 1.3
               1.0 signal 1.2#1
               1.0 persist 1
               1.0 report 1 Running [main Dead (Terminated), init Dead (Terminated), proxy Running (Killing), hello Dead (Terminated), bye Pending (Received)]
            > restart
               1.0 recover 1.2#1
               1.0 cancel 1.2#1
               1.0 report 1 Running [main Dead (Terminated), init Dead (Terminated), proxy Running (Main Tasks Dead), hello Dead (Terminated), bye Pending (Received)]
            > found 1.2 running
            > exited 1.2 signal=15
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Pending (Task Setup)]
               1.0 start 1.4#1
            > restart
               1.0 recover 1.4#1
            > found 1.4 running
               1.0 report 1 Running! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Running (Started)]
            > exited 1.4
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [main Dead (Terminated), init Dead (Terminated), proxy Dead (Killed), hello Dead (Terminated), bye Dead (Terminated)]
        "#]],
    );
}

#[test]
fn a_machine_that_restarted_runs_nothing_more_of_it() {
    check(
        "run 1 service main bye:poststop
         started 1.0
         restart
         found 1.0 rebooted",
        &expect![[r#"
            > run 1 service main bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Task Setup), bye Pending (Received)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [main Running (Started), bye Pending (Received)]
            > restart
               1.0 recover 1.0#1
            > found 1.0 rebooted
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Lost! [main Dead (Task Setup), bye Dead (Received)]
        "#]],
    );
}

#[test]
fn all_are_restarted_in_their_order() {
    check(
        "run 1 service main init:prestart hello:poststart bye:poststop
         started 1.1
         exited 1.1
         started 1.0
         started 1.2
         exited 1.2
         ask-restart 1 main
         exited 1.0
         wait 0s
         started 1.0
         ask-restart 1 all
         wait 1s
         exited 1.0 signal=15
         wait 0s
         started 1.1
         exited 1.1
         started 1.0
         started 1.2",
        &expect![[r#"
            > run 1 service main init:prestart hello:poststart bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started), hello Pending (Received), bye Pending (Received)]
            > exited 1.1
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Pending! [main Pending (Task Setup), init Dead (Terminated), hello Pending (Received), bye Pending (Received)]
            > started 1.0
               1.0 persist 1
               1.0 start 1.2#1
               1.0 report 1 Running! [main Running (Started), init Dead (Terminated), hello Pending (Task Setup), bye Pending (Received)]
            > started 1.2
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), hello Running (Started), bye Pending (Received)]
            > exited 1.2
               1.0 persist 1
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), hello Dead (Terminated), bye Pending (Received)]
            > ask-restart 1 main
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [main Running (Killing), init Dead (Terminated), hello Dead (Terminated), bye Pending (Received)]
            > exited 1.0
               1.0 persist 1
               1.0 report 1 Pending! [main Pending (Restarting), init Dead (Terminated), hello Dead (Terminated), bye Pending (Received)]
            > wait 0s
               1.0 persist 1
               1.0 start 1.0#2
            > started 1.0
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), hello Dead (Terminated), bye Pending (Received)]
            > ask-restart 1 all
               1.0 signal 1.0#2
               1.0 persist 1
               1.0 report 1 Running [main Running (Killing), init Pending (Restarting), hello Pending (Restarting), bye Pending (Received)]
            > wait 1s
               1.0 persist 1
            > exited 1.0 signal=15
               2.0 persist 1
               2.0 start 1.1#2
               2.0 report 1 Pending [main Pending (Restarting), init Pending (Restarting), hello Pending (Restarting), bye Pending (Received)]
            > wait 0s
               2.0 persist 1
            > started 1.1
               2.0 report 1 Running [main Pending (Restarting), init Running (Started), hello Pending (Restarting), bye Pending (Received)]
            > exited 1.1
               2.0 persist 1
               2.0 start 1.0#3
               2.0 report 1 Pending [main Pending (Restarting), init Dead (Terminated), hello Pending (Restarting), bye Pending (Received)]
            > started 1.0
               2.0 persist 1
               2.0 start 1.2#2
               2.0 report 1 Running [main Running (Started), init Dead (Terminated), hello Pending (Restarting), bye Pending (Received)]
            > started 1.2
               2.0 report 1 Running [main Running (Started), init Dead (Terminated), hello Running (Started), bye Pending (Received)]
        "#]],
    );
}

#[test]
fn health_is_that_of_main_tasks_and_sidecars() {
    check(
        "run 1 service healthy=5 main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
         started 1.1
         exited 1.1
         started 1.2
         started 1.0
         wait 6s
         started 1.3
         exited 1.3
         wait 6s",
        &expect![[r#"
            > run 1 service healthy=5 main init:prestart proxy:prestart:sidecar hello:poststart bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
               1.0 start 1.1#1
               1.0 start 1.2#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
            > exited 1.1
               1.0 persist 1
               1.0 report 1 Pending! [main Pending (Received), init Dead (Terminated), proxy Pending (Task Setup), hello Pending (Received), bye Pending (Received)]
            > started 1.2
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Running! [main Pending (Task Setup), init Dead (Terminated), proxy Running (Started), hello Pending (Received), bye Pending (Received)]
            > started 1.0
               1.0 persist 1
               1.0 start 1.3#1
               1.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Pending (Task Setup), bye Pending (Received)]
            > wait 6s
            > started 1.3
               7.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Running (Started), bye Pending (Received)]
            > exited 1.3
               7.0 persist 1
               7.0 report 1 Running [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Dead (Terminated), bye Pending (Received)]
            > wait 6s
              12.0 report 1 Running! healthy [main Running (Started), init Dead (Terminated), proxy Running (Started), hello Dead (Terminated), bye Pending (Received)]
        "#]],
    );
    check(
        "run 1 service healthy=5 main init:prestart
         started 1.1
         wait 70s",
        &expect![[r#"
            > run 1 service healthy=5 main init:prestart
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup)]
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started)]
            > wait 70s
              61.0 report 1 Running! unhealthy: task main did not run by the healthy_deadline of 1m [main Pending (Received), init Running (Started)]
        "#]],
    );
}

#[test]
fn checks_of_the_group_are_about_what_serves() {
    check(
        "run 1 service check= main init:prestart bye:poststop
         started 1.1
         answer 20s passing
         exited 1.1
         started 1.0
         answer 12s passing
         checks 1",
        &expect![[r#"
            > run 1 service check= main init:prestart bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [main Pending (Received), init Pending (Task Setup), bye Pending (Received)]
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [main Pending (Received), init Running (Started), bye Pending (Received)]
            > answer 20s passing
            > exited 1.1
              21.0 persist 1
              21.0 start 1.0#1
              21.0 report 1 Pending! [main Pending (Task Setup), init Dead (Terminated), bye Pending (Received)]
            > started 1.0
              21.0 report 1 Running! [main Running (Started), init Dead (Terminated), bye Pending (Received)]
            > answer 12s passing
              21.1 check 1.0 question 1
              31.1 check 1.0 question 2
               alive Passing "said"
        "#]],
    );
}
