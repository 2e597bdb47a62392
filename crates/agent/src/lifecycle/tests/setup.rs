//! What is prepared before an allocation's tasks start, and cleaned up after they have ended.

use expect_test::expect;

use super::story::check;

#[test]
fn an_allocation_is_prepared_once_before_its_first_task_and_cleaned_up_after_its_last() {
    check(
        "hold-setup
         run 1 batch init:prestart main bye:poststop
         prepared 1
         started 1.0
         exited 1.0
         started 1.1
         exited 1.1
         started 1.2
         exited 1.2
         cleaned 1",
        &expect![[r#"
            > run 1 batch init:prestart main bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [init Pending (Task Setup), main Pending (Received), bye Pending (Received)]
            > prepared 1
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [init Running (Started), main Pending (Received), bye Pending (Received)]
            > exited 1.0
               1.0 persist 1
               1.0 start 1.1#1
               1.0 report 1 Pending! [init Dead (Terminated), main Pending (Task Setup), bye Pending (Received)]
            > started 1.1
               1.0 report 1 Running! [init Dead (Terminated), main Running (Started), bye Pending (Received)]
            > exited 1.1
               1.0 persist 1
               1.0 start 1.2#1
               1.0 report 1 Pending! [init Dead (Terminated), main Dead (Terminated), bye Pending (Task Setup)]
            > started 1.2
               1.0 report 1 Running! [init Dead (Terminated), main Dead (Terminated), bye Running (Started)]
            > exited 1.2
               1.0 persist 1
               1.0 clean up 1
            > cleaned 1
               1.0 report 1 Complete! [init Dead (Terminated), main Dead (Terminated), bye Dead (Terminated)]
        "#]],
    );
}

#[test]
fn what_cannot_be_prepared_fails_the_allocation_and_each_task_says_why() {
    check(
        "hold-setup
         run 1 service init:prestart main bye:poststop
         unprepared 1 setup
         cleaned 1
         events 1.0
         events 1.2",
        &expect![[r#"
            > run 1 service init:prestart main bye:poststop
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [init Pending (Task Setup), main Pending (Received), bye Pending (Received)]
            > unprepared 1 setup
               1.0 persist 1
               1.0 clean up 1
            > cleaned 1
               1.0 report 1 Failed! [init Failed (Setup Failure), main Failed (Setup Failure), bye Failed (Setup Failure)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Setup Failure: it cannot start (fails the task)
               = Dead failed=true restarts=0
                  1.0 Received: 
                  1.0 Setup Failure: it cannot start (fails the task)
               = Dead failed=true restarts=0
        "#]],
    );
}

#[test]
fn what_may_pass_is_prepared_again_as_the_restart_policies_say() {
    check(
        "hold-setup
         run 1 service a
         unprepared 1 recoverable
         wait 15s
         prepared 1
         started 1.0
         events 1.0",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > unprepared 1 recoverable
               1.0 report 1 Pending [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 prepare 1
            > prepared 1
              16.0 start 1.0#2
            > started 1.0
              16.0 report 1 Running [a Running (Started)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Setup Failure: it cannot start
                  1.0 Restarting: Restart within policy in 12.2s
                 16.0 Started: 
               = Running failed=false restarts=1
        "#]],
    );
}

#[test]
fn one_that_is_stopped_while_it_is_prepared_is_cleaned_up_and_starts_nothing() {
    check(
        "hold-setup
         run 1 service a
         stop 1
         prepared 1
         cleaned 1
         run 2 service b after=1
         run 3 service c after=2
         stop 2
         unprepared 2 setup
         cleaned 2",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > stop 1
               1.0 persist 1
               1.0 report 1 Pending [a Dead (Killed)]
            > prepared 1
               1.0 clean up 1
            > cleaned 1
               1.0 report 1 Complete! [a Dead (Killed)]
            > run 2 service b after=1
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [b Pending (Task Setup)]
            > run 3 service c after=2
               1.0 persist 3
               1.0 report 3 Pending [c Pending (Received)]
            > stop 2
               1.0 persist 2
               1.0 report 2 Pending [b Dead (Killed)]
            > unprepared 2 setup
               1.0 clean up 2
            > cleaned 2
               1.0 report 2 Complete! [b Dead (Killed)]
               1.0 persist 3
               1.0 prepare 3
               1.0 report 3 Pending [c Pending (Task Setup)]
        "#]],
    );
}

#[test]
fn a_successor_waits_for_the_clean_up_and_leftovers_are_reported() {
    check(
        "hold-setup
         run 1 batch a
         prepared 1
         run 2 batch b after=1
         started 1.0
         exited 1.0
         ask-restart 1 all
         cleaned 1 its network stays
         events 1.0",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > prepared 1
               1.0 start 1.0#1
            > run 2 batch b after=1
               1.0 persist 2
               1.0 report 2 Pending [b Pending (Received)]
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
            > ask-restart 1 all
                      Invalid: Task not running: no task of allocation 01010101-0101-0101-0101-010101010101 runs: it has ended
            > cleaned 1 its network stays
               1.0 report 1 Complete! [a Dead (Task hook failed)]
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [b Pending (Task Setup)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated:  code=0 signal=0 oom=false
                  1.0 Task hook failed: its network stays
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn an_agent_that_was_ended_while_it_prepared_prepares_again_before_it_starts_anything() {
    check(
        "hold-setup
         run 1 service a b
         restart
         found 1.0 nothing
         found 1.1 nothing
         prepared 1
         started 1.0
         restart
         found 1.0 running
         found 1.1 nothing
         prepared 1
         started 1.1",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.1#1
            > found 1.0 nothing
               1.0 prepare 1
            > found 1.1 nothing
            > prepared 1
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.1#1
            > found 1.0 running
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > found 1.1 nothing
               1.0 prepare 1
            > prepared 1
               1.0 start 1.1#1
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started)]
        "#]],
    );
}

#[test]
fn where_tasks_run_nothing_is_prepared_again_until_one_starts() {
    check(
        "hold-setup
         run 1 service a
         prepared 1
         started 1.0
         restart
         found 1.0 running
         exited 1.0 code=1
         wait 15s
         unprepared 1 setup
         cleaned 1",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > prepared 1
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > restart
               1.0 recover 1.0#1
            > found 1.0 running
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 15s
              13.2 persist 1
              13.2 prepare 1
            > unprepared 1 setup
              16.0 persist 1
              16.0 clean up 1
            > cleaned 1
              16.0 report 1 Failed! [a Failed (Setup Failure)]
        "#]],
    );
}

#[test]
fn what_cannot_be_prepared_again_ends_what_still_runs() {
    check(
        "hold-setup
         run 1 service a b
         prepared 1
         started 1.0
         restart
         found 1.0 running
         found 1.1 nothing
         unprepared 1 setup
         exited 1.0
         cleaned 1",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
            > prepared 1
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.1#1
            > found 1.0 running
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > found 1.1 nothing
               1.0 prepare 1
            > unprepared 1 setup
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killing), b Failed (Setup Failure)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
            > cleaned 1
               1.0 report 1 Failed! [a Failed (Killed), b Failed (Setup Failure)]
        "#]],
    );
}

#[test]
fn an_agent_that_was_ended_while_it_cleaned_up_cleans_up_again() {
    check(
        "hold-setup
         run 1 batch a
         prepared 1
         started 1.0
         exited 1.0
         restart
         purge 1
         cleaned 1
         restart",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > prepared 1
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
            > restart
               1.0 clean up 1
            > purge 1
               1.0 persist 1
            > cleaned 1
               1.0 remove 1
            > restart
        "#]],
    );
}

#[test]
fn what_a_reboot_ended_is_cleaned_up() {
    check(
        "hold-setup
         run 1 service a
         prepared 1
         started 1.0
         restart
         found 1.0 rebooted
         cleaned 1",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
            > prepared 1
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > restart
               1.0 recover 1.0#1
            > found 1.0 rebooted
               1.0 persist 1
               1.0 clean up 1
            > cleaned 1
               1.0 report 1 Lost! [a Dead (Task Setup)]
        "#]],
    );
}
