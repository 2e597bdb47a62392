//! A machine whose clock was set back while no agent ran.

use expect_test::expect;

use super::story::check;

#[test]
fn a_clock_that_was_set_back_holds_up_no_restart() {
    check(
        "run 1 service a
         wait 5000s
         started 1.0
         exited 1.0 code=1
         run 1 service a check= revision=2
         set-back 4000s
         restart
         wait 20s
         started 1.0
         events 1.0",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > wait 5000s
            > started 1.0
            5001.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
            5001.0 report 1 Pending! [a Pending (Restarting)]
            > run 1 service a check= revision=2
            5001.0 persist 1
            5001.0 report 1 Pending [a Pending (Restarting)]
            > set-back 4000s
            > restart
            1001.0 persist 1
            1001.0 report 1 Pending [a Pending (Restarting)]
            > wait 20s
            1013.2 persist 1
            1013.2 prepare 1
            1013.2 start 1.0#2
            > started 1.0
            1021.0 report 1 Running [a Running (Started)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
               5001.0 Started: 
               5001.0 Terminated:  code=1 signal=0 oom=false
               5001.0 Restarting: Restart within policy in 12.2s
               1021.0 Started: 
               = Running failed=false restarts=1
        "#]],
    );
}

#[test]
fn a_clock_that_was_set_back_leaves_the_interval_of_restarts_as_long_as_it_is() {
    check(
        "wait 5000s
         run 1 service a:delay-mode
         started 1.0
         exited 1.0 code=1
         wait 13s
         started 1.0
         exited 1.0 code=1
         wait 13s
         set-back 4000s
         restart
         found 1.0 running
         exited 1.0 code=1
         events 1.0",
        &expect![[r#"
            > wait 5000s
            > run 1 service a:delay-mode
            5001.0 persist 1
            5001.0 prepare 1
            5001.0 report 1 Pending [a Pending (Task Setup)]
            5001.0 start 1.0#1
            > started 1.0
            5001.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
            5001.0 report 1 Pending! [a Pending (Restarting)]
            > wait 13s
            5013.2 persist 1
            5013.2 start 1.0#2
            > started 1.0
            5014.0 report 1 Running [a Running (Started)]
            > exited 1.0 code=1
            5014.0 report 1 Pending [a Pending (Restarting)]
            > wait 13s
            5026.3 persist 1
            5026.3 start 1.0#3
            > set-back 4000s
            > restart
            1027.0 recover 1.0#3
            1027.0 persist 1
            1027.0 report 1 Pending [a Pending (Restarting)]
            > found 1.0 running
            1027.0 report 1 Running [a Running (Started)]
            > exited 1.0 code=1
            1027.0 report 1 Pending [a Pending (Restarting)]
               5001.0 Task Setup: Building Task Directory
               5001.0 Started: 
               5001.0 Terminated:  code=1 signal=0 oom=false
               5001.0 Restarting: Restart within policy in 12.2s
               5014.0 Started: 
               5014.0 Terminated:  code=1 signal=0 oom=false
               5014.0 Restarting: Restart within policy in 12.3s
                  1.0 Started: 
               1027.0 Terminated:  code=1 signal=0 oom=false
               1027.0 Restarting: Exceeded allowed attempts, applying a delay in 60.0s
               = Pending failed=false restarts=3
        "#]],
    );
}

#[test]
fn a_clock_that_was_set_back_gives_an_allocation_its_time_once_more_at_most() {
    check(
        "wait 5000s
         run 1 batch a max=60
         started 1.0
         run 1 batch a max=60 revision=2
         set-back 4000s
         restart
         found 1.0 running
         wait 61s",
        &expect![[r#"
            > wait 5000s
            > run 1 batch a max=60
            5001.0 persist 1
            5001.0 prepare 1
            5001.0 report 1 Pending [a Pending (Task Setup)]
            5001.0 start 1.0#1
            > started 1.0
            5001.0 report 1 Running! [a Running (Started)]
            > run 1 batch a max=60 revision=2
            5001.0 persist 1
            5001.0 report 1 Running [a Running (Started)]
            > set-back 4000s
            > restart
            1001.0 recover 1.0#1
            1001.0 persist 1
            1001.0 report 1 Running [a Running (Started)]
            > found 1.0 running
            > wait 61s
            1061.0 signal 1.0#1
            1061.0 persist 1
            1061.0 report 1 Running [a Failed (Killing)]
        "#]],
    );
}
