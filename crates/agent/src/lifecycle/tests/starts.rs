//! Allocations that start, or cannot.

use expect_test::expect;

use super::story::check;

#[test]
fn the_tasks_of_a_batch_start_together_and_complete() {
    check(
        "run 1 batch a b
         started 1.0
         started 1.1
         wait 5s
         exited 1.0
         exited 1.1
         events 1.1",
        &expect![[r#"
            > run 1 batch a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started)]
            > wait 5s
            > exited 1.0
               6.0 persist 1
               6.0 report 1 Running [a Dead (Terminated), b Running (Started)]
            > exited 1.1
               6.0 persist 1
               6.0 clean up 1
               6.0 report 1 Complete! [a Dead (Terminated), b Dead (Terminated)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  6.0 Terminated:  code=0 signal=0 oom=false
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn a_start_reports_its_progress() {
    check(
        "run 1 batch a
         noted 1.0 half way
         started 1.0
         exited 1.0
         noted 1.0 too late
         events 1.0",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > noted 1.0 half way
               1.0 report 1 Pending [a Pending (Driver)]
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Terminated)]
            > noted 1.0 too late
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Driver: half way
                  1.0 Started: 
                  1.0 Terminated:  code=0 signal=0 oom=false
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn a_successor_waits_until_its_room_is_free() {
    check(
        "run 1 service old
         started 1.0
         run 2 service new after=1,9
         stop 1
         exited 1.0
         started 2.0",
        &expect![[r#"
            > run 1 service old
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [old Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [old Running (Started)]
            > run 2 service new after=1,9
               1.0 persist 2
               1.0 report 2 Pending [new Pending (Received)]
            > stop 1
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [old Running (Killing)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [old Dead (Killed)]
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [new Pending (Task Setup)]
               1.0 start 2.0#1
            > started 2.0
               1.0 report 2 Running! [new Running (Started)]
        "#]],
    );
}

#[test]
fn bad_settings_fail_at_once_and_take_the_siblings_along() {
    check(
        "run 1 service a b
         started 1.1
         failed 1.0 setup
         exited 1.1 signal=15
         events 1.0
         events 1.1",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running! [a Pending (Task Setup), b Running (Started)]
            > failed 1.0 setup
               1.0 signal 1.1#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Setup Failure), b Running (Killing)]
            > exited 1.1 signal=15
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Setup Failure), b Dead (Killed)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Setup Failure: it cannot start (fails the task)
               = Dead failed=true restarts=0
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Sibling Task Failed: 
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  1.0 Terminated:  code=0 signal=15 oom=false
                  1.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn a_driver_that_may_recover_is_asked_again() {
    check(
        "run 1 batch a
         failed 1.0 recoverable
         wait 15s
         failed 1.0 driver
         events 1.0",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > failed 1.0 recoverable
               1.0 report 1 Pending [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 start 1.0#2
            > failed 1.0 driver
              16.0 persist 1
              16.0 clean up 1
              16.0 report 1 Failed! [a Failed (Not Restarting)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Driver Failure: it cannot start
                  1.0 Restarting: Restart within policy in 12.2s
                 16.0 Driver Failure: it cannot start
                 16.0 Not Restarting: Error was unrecoverable (fails the task)
               = Dead failed=true restarts=1
        "#]],
    );
}

#[test]
fn desired_state_may_come_twice_and_events_of_old_attempts_are_ignored() {
    check(
        "run 1 batch a
         run 1 batch a
         started 1.0
         exited 1.0 code=1
         wait 15s
         started 1.0#1
         exited 1.0#1
         started 1.0
         started 1.0#7",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > run 1 batch a
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 start 1.0#2
            > started 1.0#1
            > exited 1.0#1
            > started 1.0
              16.0 report 1 Running [a Running (Started)]
            > started 1.0#7
        "#]],
    );
}
