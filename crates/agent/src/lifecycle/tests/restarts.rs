//! Tasks that end by themselves.

use expect_test::expect;

use super::story::check;

#[test]
fn a_service_restarts_even_after_success_until_its_attempts_are_used_up() {
    check(
        "run 1 service a
         started 1.0
         exited 1.0
         wait 15s
         started 1.0
         exited 1.0 code=2
         wait 15s
         started 1.0
         exited 1.0 signal=9 oom
         events 1.0",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 start 1.0#2
            > started 1.0
              16.0 report 1 Running [a Running (Started)]
            > exited 1.0 code=2
              16.0 report 1 Pending [a Pending (Restarting)]
            > wait 15s
              28.3 persist 1
              28.3 start 1.0#3
            > started 1.0
              31.0 report 1 Running [a Running (Started)]
            > exited 1.0 signal=9 oom
              31.0 persist 1
              31.0 clean up 1
              31.0 report 1 Failed! [a Failed (Not Restarting)]
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated:  code=0 signal=0 oom=false
                  1.0 Restarting: Restart within policy in 12.2s
                 16.0 Started: 
                 16.0 Terminated:  code=2 signal=0 oom=false
                 16.0 Restarting: Restart within policy in 12.3s
                 31.0 Started: 
                 31.0 Terminated:  code=0 signal=9 oom=true
                 31.0 Not Restarting: Exceeded allowed attempts 2 in interval 1m0s and mode is "fail" (fails the task)
               = Dead failed=true restarts=2
        "#]],
    );
}

#[test]
fn the_delay_mode_never_gives_up() {
    check(
        "run 1 batch a:delay-mode
         started 1.0
         exited 1.0 code=1
         wait 13s
         started 1.0
         exited 1.0 code=1
         wait 13s
         started 1.0
         exited 1.0 code=1
         wait 40s
         events 1.0",
        &expect![[r#"
            > run 1 batch a:delay-mode
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 13s
              13.2 persist 1
              13.2 start 1.0#2
            > started 1.0
              14.0 report 1 Running [a Running (Started)]
            > exited 1.0 code=1
              14.0 report 1 Pending [a Pending (Restarting)]
            > wait 13s
              26.3 persist 1
              26.3 start 1.0#3
            > started 1.0
              27.0 report 1 Running [a Running (Started)]
            > exited 1.0 code=1
              27.0 report 1 Pending [a Pending (Restarting)]
            > wait 40s
              61.0 persist 1
              61.0 start 1.0#4
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated:  code=1 signal=0 oom=false
                  1.0 Restarting: Restart within policy in 12.2s
                 14.0 Started: 
                 14.0 Terminated:  code=1 signal=0 oom=false
                 14.0 Restarting: Restart within policy in 12.3s
                 27.0 Started: 
                 27.0 Terminated:  code=1 signal=0 oom=false
                 27.0 Restarting: Exceeded allowed attempts, applying a delay in 34.0s
               = Pending failed=false restarts=3
        "#]],
    );
}

#[test]
fn an_end_with_a_message_is_no_success() {
    check(
        "run 1 batch a:once
         started 1.0
         exited 1.0 message=broken
         events 1.0",
        &expect![[r#"
            > run 1 batch a:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 message=broken
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Not Restarting)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated: broken code=0 signal=0 oom=false
                  1.0 Not Restarting: Policy allows no restarts (fails the task)
               = Dead failed=true restarts=0
        "#]],
    );
}

#[test]
fn the_end_of_the_leader_ends_the_others() {
    check(
        "run 1 batch a:leader b c
         started 1.0
         started 1.1
         exited 1.1 code=1
         exited 1.0
         started 1.2
         wait 4s
         exited 1.2 code=143
         events 1.1
         events 1.2",
        &expect![[r#"
            > run 1 batch a:leader b c
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup), c Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
               1.0 start 1.2#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup), c Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started), c Pending (Task Setup)]
            > exited 1.1 code=1
               1.0 report 1 Running [a Running (Started), b Pending (Restarting), c Pending (Task Setup)]
            > exited 1.0
               1.0 cancel 1.2#1
               1.0 persist 1
               1.0 report 1 Pending! [a Dead (Terminated), b Dead (Killed), c Pending (Leader Task Dead)]
            > started 1.2
               1.0 report 1 Running [a Dead (Terminated), b Dead (Killed), c Running (Started)]
            > wait 4s
               1.0 signal 1.2#1
               1.0 report 1 Running [a Dead (Terminated), b Dead (Killed), c Running (Killing)]
            > exited 1.2 code=143
               5.0 persist 1
               5.0 clean up 1
               5.0 report 1 Complete! [a Dead (Terminated), b Dead (Killed), c Dead (Killed)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated:  code=1 signal=0 oom=false
                  1.0 Restarting: Restart within policy in 11.4s
                  1.0 Leader Task Dead: 
                  1.0 Killed: 
               = Dead failed=false restarts=1
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Leader Task Dead: 
                  1.0 Started: 
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  5.0 Terminated:  code=143 signal=0 oom=false
                  5.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}
