//! Allocations that run for too long, or take too much disk space.

use expect_test::expect;

use super::story::check;

#[test]
fn what_has_run_for_long_enough_is_ended_and_has_failed() {
    check(
        "run 1 batch a b max=60
         wait 100s
         started 1.0
         started 1.1
         exited 1.1
         wait 59s
         wait 1s
         exited 1.0 signal=15
         events 1.0",
        &expect![[r#"
            > run 1 batch a b max=60
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > wait 100s
            > started 1.0
             101.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > started 1.1
             101.0 report 1 Running [a Running (Started), b Running (Started)]
            > exited 1.1
             101.0 persist 1
             101.0 report 1 Running [a Running (Started), b Dead (Terminated)]
            > wait 59s
            > wait 1s
             161.0 signal 1.0#1
             161.0 persist 1
             161.0 report 1 Running [a Failed (Killing), b Dead (Terminated)]
            > exited 1.0 signal=15
             161.0 persist 1
             161.0 clean up 1
             161.0 report 1 Failed! [a Failed (Killed), b Dead (Terminated)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                101.0 Started: 
                161.0 Killing: The allocation has run for its max_run_duration, 1m0s (fails the task)
                161.0 Killing: Sent interrupt. Waiting 5s before force killing
                161.0 Terminated:  code=0 signal=15 oom=false
                161.0 Killed: 
               = Dead failed=true restarts=0
        "#]],
    );
}

#[test]
fn neither_restarts_of_tasks_nor_of_the_agent_give_it_more_time() {
    check(
        "run 1 service a max=60
         started 1.0
         wait 20s
         exited 1.0 code=1
         wait 15s
         started 1.0
         restart
         found 1.0 running
         wait 30s
         restart
         found 1.0 running
         exited 1.0 signal=15",
        &expect![[r#"
            > run 1 service a max=60
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > wait 20s
            > exited 1.0 code=1
              21.0 report 1 Pending! [a Pending (Restarting)]
            > wait 15s
              33.2 persist 1
              33.2 start 1.0#2
            > started 1.0
              36.0 report 1 Running [a Running (Started)]
            > restart
              36.0 recover 1.0#2
            > found 1.0 running
              36.0 report 1 Running [a Running (Started)]
            > wait 30s
              61.0 signal 1.0#2
              61.0 persist 1
              61.0 report 1 Running [a Failed (Killing)]
              66.0 kill 1.0#2
            > restart
              66.0 recover 1.0#2
              66.0 cancel 1.0#2
            > found 1.0 running
            > exited 1.0 signal=15
              66.0 persist 1
              66.0 clean up 1
              66.0 report 1 Failed! [a Failed (Killed)]
        "#]],
    );
}

#[test]
fn what_is_stopped_anyway_has_not_run_for_too_long() {
    check(
        "run 1 batch a max=60
         started 1.0
         exited 1.0 code=1
         wait 15s
         started 1.0
         wait 5s
         restart
         wait 0s
         found 1.0 running
         stop 1
         wait 100s
         exited 1.0 signal=9",
        &expect![[r#"
            > run 1 batch a max=60
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 start 1.0#2
            > started 1.0
              16.0 report 1 Running [a Running (Started)]
            > wait 5s
            > restart
              21.0 recover 1.0#2
            > wait 0s
            > found 1.0 running
              21.0 report 1 Running [a Running (Started)]
            > stop 1
              21.0 signal 1.0#2
              21.0 persist 1
              21.0 report 1 Running [a Running (Killing)]
            > wait 100s
              26.0 kill 1.0#2
              36.0 kill 1.0#2
              46.0 kill 1.0#2
              56.0 kill 1.0#2
              66.0 kill 1.0#2
              76.0 kill 1.0#2
              86.0 kill 1.0#2
              96.0 kill 1.0#2
             106.0 kill 1.0#2
             116.0 kill 1.0#2
            > exited 1.0 signal=9
             121.0 persist 1
             121.0 clean up 1
             121.0 report 1 Complete! [a Dead (Killed)]
        "#]],
    );
}

#[test]
fn what_takes_too_much_fails_once_and_is_not_restarted() {
    check(
        "run 1 service a
         started 1.0
         overran 1
         overran 1
         exited 1.0 signal=15
         overran 1
         wait 60s
         events 1.0",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > overran 1
               1.0 kill 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killing)]
            > overran 1
            > exited 1.0 signal=15
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Killed)]
            > overran 1
            > wait 60s
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Killing: It takes too much (fails the task)
                  1.0 Terminated:  code=0 signal=15 oom=false
                  1.0 Killed: 
               = Dead failed=true restarts=0
        "#]],
    );
}

#[test]
fn what_is_stopped_does_not_fail_for_what_it_takes() {
    check(
        "run 1 service a
         started 1.0
         stop 1
         overran 1
         exited 1.0 signal=15",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > stop 1
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > overran 1
               1.0 kill 1.0#1
               1.0 report 1 Running [a Running (Killing)]
            > exited 1.0 signal=15
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Killed)]
        "#]],
    );
}

#[test]
fn what_takes_too_much_gets_no_time_to_go_on_writing() {
    check(
        "run 1 service+9 a:kill99:shutdown3 b:sidecar:prestart:kill99 c:poststop
         started 1.1
         started 1.0
         overran 1
         exited 1.0 signal=9
         exited 1.1 signal=9
         started 1.2
         overran 1
         overran 1 cleaning-up
         overran 1 cleaning-up
         exited 1.2 signal=9
         events 1.2",
        &expect![[r#"
            > run 1 service+9 a:kill99:shutdown3 b:sidecar:prestart:kill99 c:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Received), b Pending (Task Setup), c Pending (Received)]
               1.0 start 1.1#1
            > started 1.1
               1.0 persist 1
               1.0 start 1.0#1
               1.0 report 1 Running! [a Pending (Task Setup), b Running (Started), c Pending (Received)]
            > started 1.0
               1.0 report 1 Running [a Running (Started), b Running (Started), c Pending (Received)]
            > overran 1
               1.0 kill 1.0#1
               1.0 kill 1.1#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killing), b Failed (Killing), c Pending (Received)]
            > exited 1.0 signal=9
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killed), b Failed (Killing), c Pending (Received)]
            > exited 1.1 signal=9
               1.0 persist 1
               1.0 start 1.2#1
               1.0 report 1 Pending! [a Failed (Killed), b Failed (Killed), c Pending (Task Setup)]
            > started 1.2
               1.0 report 1 Running! [a Failed (Killed), b Failed (Killed), c Running (Started)]
            > overran 1
            > overran 1 cleaning-up
               1.0 kill 1.2#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killed), b Failed (Killed), c Failed (Killing)]
            > overran 1 cleaning-up
            > exited 1.2 signal=9
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Killed), b Failed (Killed), c Failed (Killed)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Killing: It takes too much (fails the task)
                  1.0 Terminated: killed at the allocation's disk limit code=0 signal=9 oom=false
                  1.0 Killed: 
               = Dead failed=true restarts=0
        "#]],
    );
}

#[test]
fn what_takes_too_much_while_it_is_stopped_is_killed_and_has_not_failed() {
    check(
        "run 1 service a:kill99
         started 1.0
         stop 1
         overran 1
         overran 1
         exited 1.0 signal=9
         events 1.0",
        &expect![[r#"
            > run 1 service a:kill99
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > stop 1
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > overran 1
               1.0 kill 1.0#1
               1.0 report 1 Running [a Running (Killing)]
            > overran 1
            > exited 1.0 signal=9
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Killed)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Killing: Sent interrupt. Waiting 30s before force killing: this node's --max-kill-timeout cuts the task's kill_timeout of 1m39s
                  1.0 Killing: It takes too much
                  1.0 Terminated: killed at the allocation's disk limit code=0 signal=9 oom=false
                  1.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}
