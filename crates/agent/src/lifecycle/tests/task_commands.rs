//! Commands to single tasks.

use expect_test::expect;

use super::story::check;

#[test]
fn a_restart_that_was_asked_for_follows_at_once_and_does_not_count() {
    check(
        "run 1 service a:once
         started 1.0
         ask-restart 1 a
         ask-restart 1 a
         exited 1.0 signal=2
         wait 1s
         started 1.0
         events 1.0
         exited 1.0 code=1",
        &expect![[r#"
            > run 1 service a:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > ask-restart 1 a
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > ask-restart 1 a
            > exited 1.0 signal=2
               1.0 persist 1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 1s
               1.0 persist 1
               1.0 start 1.0#2
            > started 1.0
               2.0 report 1 Running [a Running (Started)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Restart Signaled: User requested task to restart
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  1.0 Terminated:  code=0 signal=2 oom=false
                  1.0 Restarting: Restart asked for in 0.0s
                  2.0 Started: 
               = Running failed=false restarts=1
            > exited 1.0 code=1
               2.0 persist 1
               2.0 clean up 1
               2.0 report 1 Failed! [a Failed (Not Restarting)]
        "#]],
    );
}

#[test]
fn what_restarts_a_task_for_its_own_sake_counts_as_little_and_stops_nothing_that_ends() {
    check(
        "run 1 service a:once
         started 1.0
         renewed 1.0
         renewed 1.0
         exited 1.0 signal=2
         wait 1s
         started 1.0
         stop 1
         renewed 1.0
         exited 1.0 signal=2",
        &expect![[r#"
            > run 1 service a:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > renewed 1.0
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > renewed 1.0
            > exited 1.0 signal=2
               1.0 persist 1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 1s
               1.0 persist 1
               1.0 start 1.0#2
            > started 1.0
               2.0 report 1 Running [a Running (Started)]
            > stop 1
               2.0 signal 1.0#2
               2.0 persist 1
               2.0 report 1 Running [a Running (Killing)]
            > renewed 1.0
            > exited 1.0 signal=2
               2.0 persist 1
               2.0 clean up 1
               2.0 report 1 Complete! [a Dead (Killed)]
        "#]],
    );
}

#[test]
fn a_task_that_does_not_go_is_killed_and_restarts_all_the_same() {
    check(
        "run 1 batch a b
         started 1.0
         started 1.1
         ask-restart 1 -
         exited 1.1
         wait 6s
         exited 1.0 code=137 signal=9
         wait 1s",
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
            > ask-restart 1 -
               1.0 signal 1.0#1
               1.0 signal 1.1#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Running (Killing)]
            > exited 1.1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Pending (Restarting)]
            > wait 6s
               1.0 persist 1
               1.0 start 1.1#2
               6.0 kill 1.0#1
            > exited 1.0 code=137 signal=9
               7.0 persist 1
               7.0 report 1 Pending! [a Pending (Restarting), b Pending (Restarting)]
            > wait 1s
               7.0 persist 1
               7.0 start 1.0#2
        "#]],
    );
}

#[test]
fn all_means_those_that_have_ended_too() {
    check(
        "run 1 batch a b
         started 1.0
         started 1.1
         exited 1.0
         ask-restart 1 a
         ask-restart 1 all
         wait 1s
         started 1.0
         exited 1.1
         wait 1s
         events 1.0",
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
            > exited 1.0
               1.0 persist 1
               1.0 report 1 Running [a Dead (Terminated), b Running (Started)]
            > ask-restart 1 a
                      Invalid: Task not running: task a has ended
            > ask-restart 1 all
               1.0 signal 1.1#1
               1.0 persist 1
               1.0 report 1 Running [a Pending (Restarting), b Running (Killing)]
            > wait 1s
               1.0 persist 1
               1.0 start 1.0#2
            > started 1.0
               2.0 report 1 Running [a Running (Started), b Running (Killing)]
            > exited 1.1
               2.0 persist 1
               2.0 report 1 Running [a Running (Started), b Pending (Restarting)]
            > wait 1s
               2.0 persist 1
               2.0 start 1.1#2
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Terminated:  code=0 signal=0 oom=false
                  1.0 Restart Signaled: User requested task to restart
                  1.0 Restarting: Restart asked for in 0.0s
                  2.0 Started: 
               = Running failed=false restarts=1
        "#]],
    );
}

#[test]
fn a_restart_outlives_the_agent() {
    check(
        "run 1 service a
         started 1.0
         ask-restart 1 a
         restart
         found 1.0 running
         exited 1.0
         wait 1s",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > ask-restart 1 a
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > restart
               1.0 recover 1.0#1
            > found 1.0 running
               1.0 signal 1.0#1
               1.0 report 1 Running [a Running (Killing)]
            > exited 1.0
               1.0 persist 1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > wait 1s
               1.0 persist 1
               1.0 prepare 1
               1.0 start 1.0#2
        "#]],
    );
}

#[test]
fn who_is_stopped_does_not_start_again() {
    check(
        "run 1 service a
         started 1.0
         ask-restart 1 a
         stop 1
         ask-restart 1 a
         exited 1.0
         ask-restart 1 all
         ask-signal 1 - SIGHUP
         events 1.0",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > ask-restart 1 a
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing)]
            > stop 1
               1.0 persist 1
            > ask-restart 1 a
                      Invalid: Task not running: allocation 01010101-0101-0101-0101-010101010101 is being stopped
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Killed)]
            > ask-restart 1 all
                      Invalid: Task not running: no task of allocation 01010101-0101-0101-0101-010101010101 runs: it has ended
            > ask-signal 1 - SIGHUP
                      Invalid: Task not running: no task of allocation 01010101-0101-0101-0101-010101010101 runs: it has ended
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Restart Signaled: User requested task to restart
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  1.0 Terminated:  code=0 signal=0 oom=false
                  1.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    check(
        "run 1 service a b
         ask-restart 9 a
         ask-restart 1 c
         ask-restart 1 a
         ask-restart 1 -
         started 1.0
         ask-signal 1 a SIGNONSENSE
         exited 1.0
         ask-signal 1 a hup",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > ask-restart 9 a
                      NotFound: allocation 09090909-0909-0909-0909-090909090909 is not on its node: it has not been received yet, or it has been removed
            > ask-restart 1 c
                      NotFound: Could not find task "c": the allocation has a, b
            > ask-restart 1 a
                      Invalid: Task not running: task a has not started yet: wait until it runs
            > ask-restart 1 -
                      Invalid: Task not running: no task of allocation 01010101-0101-0101-0101-010101010101 runs: wait until one does
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > ask-signal 1 a SIGNONSENSE
                      Invalid: there is no signal "SIGNONSENSE": known are SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS, SIGCLD, SIGIOT, SIGPOLL, SIGUNUSED, SIGRTMIN to SIGRTMIN+30, and numbers
            > exited 1.0
               1.0 report 1 Pending! [a Pending (Restarting), b Pending (Task Setup)]
            > ask-signal 1 a hup
                      Invalid: Task not running: task a is between two starts: wait until it runs
        "#]],
    );
}

#[test]
fn signals_go_to_tasks_that_run() {
    check(
        "run 1 service a b c
         started 1.0
         started 1.1
         ask-signal 1 - hup
         ask-signal 1 b SIGUSR1
         events 1.1",
        &expect![[r#"
            > run 1 service a b c
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
            > ask-signal 1 - hup
                      signal 1 to 1.0#1, 1.1#1
               1.0 report 1 Running [a Running (Signaling), b Running (Signaling), c Pending (Task Setup)]
            > ask-signal 1 b SIGUSR1
                      signal 10 to 1.1#1
               1.0 report 1 Running [a Running (Signaling), b Running (Signaling), c Pending (Task Setup)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Signaling: Task being sent signal SIGHUP
                  1.0 Signaling: Task being sent signal SIGUSR1
               = Running failed=false restarts=0
        "#]],
    );
}
