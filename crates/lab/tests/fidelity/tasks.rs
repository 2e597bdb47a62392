//! Tasks that start, fail and stop.

use berth_api::agent::{CheckRestartSpec, CheckSpec, ClientStatus, GroupSpec, HookSpec, TaskSpec};
use expect_test::expect;

use crate::{
    check,
    desired::{both, id, mock, run, run_group, stop},
};

#[test]
fn a_task_whose_check_fails_is_restarted_and_fails_for_good() {
    check(
        |server| {
            server.open();
            let check = CheckSpec {
                service: "s".into(),
                name: "c".into(),
                interval_ms: 20,
                timeout_ms: 1_000,
                restart: Some(CheckRestartSpec { limit: 2, grace_ms: 0, ignore_warnings: false }),
                ..CheckSpec::default()
            };
            let group = GroupSpec {
                job_type: "service".into(),
                tasks: vec![mock(
                    r#"{"run_for": "1h", "checks_fail_after": "100ms", "kill_after": "500ms"}"#,
                )],
                checks: vec![check],
                ..GroupSpec::default()
            };
            server.desire(&run_group(1, group));
            server.until(1, ClientStatus::Failed);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=3
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=4
              1 Pending: Tasks are between two starts modified
                t Pending restarts=1 exit=0/0/false started restarted [Received; Task Setup "Building Task Directory"; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart within policy" delayed]
            update seq=5
              1 Running: Tasks are running modified
                t Running restarts=1 exit=0/0/false started restarted [Received; Task Setup "Building Task Directory"; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart within policy" delayed; Started]
            update seq=6
              1 Running: Tasks are running modified
                t Running restarts=1 exit=0/0/false started restarted [Received; Task Setup "Building Task Directory"; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart within policy" delayed; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=7
              1 Failed: Failed tasks modified
                t Dead failed restarts=1 exit=0/0/false started restarted finished [Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart within policy" delayed; Started; Restart Signaled "healthcheck: check \"c\" unhealthy"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Not Restarting "Exceeded allowed attempts 1 in interval 1h0m0s and mode is \"fail\"" fails]
        "#]],
    );
}

#[test]
fn a_task_is_prepared_starts_and_exits_well() {
    check(
        |server| {
            server.open();
            let task = mock(r#"{"start_events": 2, "start_event_gap": "20ms", "run_for": "20ms"}"#);
            server.desire(&run(1, "batch", task));
            server.until(1, ClientStatus::Complete);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"; Driver "Preparing: 1 of 2"]
            update seq=3
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"; Driver "Preparing: 1 of 2"; Driver "Preparing: 2 of 2"]
            update seq=4
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Driver "Preparing: 1 of 2"; Driver "Preparing: 2 of 2"; Started]
            update seq=5
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Driver "Preparing: 1 of 2"; Driver "Preparing: 2 of 2"; Started; Terminated 0/0/false]
        "#]],
    );
}

#[test]
fn a_task_fails_is_started_again_and_fails_for_good() {
    check(
        |server| {
            server.open();
            let task =
                mock(r#"{"run_for": "10ms", "exit_code": 3, "exit_signal": 11, "exit_err_msg": "bad luck"}"#);
            server.desire(&run(1, "batch", task));
            server.until(1, ClientStatus::Failed);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=3
              1 Pending: Tasks are between two starts modified
                t Pending restarts=1 exit=3/11/false started restarted [Received; Task Setup "Building Task Directory"; Started; Terminated "bad luck" 3/11/false; Restarting "Restart within policy" delayed]
            update seq=4
              1 Running: Tasks are running modified
                t Running restarts=1 exit=3/11/false started restarted [Received; Task Setup "Building Task Directory"; Started; Terminated "bad luck" 3/11/false; Restarting "Restart within policy" delayed; Started]
            update seq=5
              1 Failed: Failed tasks modified
                t Dead failed restarts=1 exit=3/11/false started restarted finished [Received; Task Setup "Building Task Directory"; Started; Terminated "bad luck" 3/11/false; Restarting "Restart within policy" delayed; Started; Terminated "bad luck" 3/11/false; Not Restarting "Exceeded allowed attempts 1 in interval 1h0m0s and mode is \"fail\"" fails]
        "#]],
    );
}

#[test]
fn a_task_that_cannot_start_says_why() {
    check(
        |server| {
            server.open();
            let unlucky = mock(r#"{"start_error": "no luck", "start_error_recoverable": true}"#);
            let wrong = [
                unlucky,
                mock(r#"{"start_error": "never"}"#),
                mock(r#"{"run_fro": "1s"}"#),
                mock(r#"{"run_for": "${meta.nothing}"}"#),
                TaskSpec { driver: "docker".into(), ..mock("{}") },
                TaskSpec { name: "../t".into(), ..mock("{}") },
                TaskSpec { env: [("A".to_owned(), "${attr.none}".to_owned())].into(), ..mock("{}") },
            ];
            for (task, number) in wrong.into_iter().zip(1..) {
                server.desire(&run(number, "service", task));
                server.until(number, ClientStatus::Failed);
            }
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Pending: Tasks are between two starts modified
                t Pending restarts=1 exit=0/0/false restarted [Received; Task Setup "Building Task Directory"; Driver Failure "no luck"; Restarting "Restart within policy" delayed]
            update seq=3
              1 Failed: Failed tasks modified
                t Dead failed restarts=1 exit=0/0/false restarted finished [Received; Task Setup "Building Task Directory"; Driver Failure "no luck"; Restarting "Restart within policy" delayed; Driver Failure "no luck"; Not Restarting "Exceeded allowed attempts 1 in interval 1h0m0s and mode is \"fail\"" fails]
            update seq=4
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=5
              2 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Driver Failure "never"; Not Restarting "Error was unrecoverable" fails]
            update seq=6
              3 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=7
              3 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Setup Failure "read the settings of mock_driver: unknown field `run_fro`, expected one of `start_events`, `start_event_gap`, `start_block_for`, `start_error`, `start_error_recoverable`, `run_for`, `exit_code`, `exit_signal`, `exit_err_msg`, `signal_error`, `checks_fail_for`, `checks_fail_after`, `kill_after`, `stdout_string`, `stdout_repeat`, `stdout_repeat_duration`" fails]
            update seq=8
              4 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=9
              4 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Setup Failure "replace ${meta.nothing}: there is no such name" fails]
            update seq=10
              5 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=11
              5 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Setup Failure "find the driver \"docker\": this node has none of that name" fails]
            update seq=12
              6 Pending: No tasks have started modified
                ../t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=13
              6 Failed: Failed tasks modified
                ../t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Setup Failure "prepare the allocation's directory: make the directory of task \"../t\": its name cannot name one" fails]
            update seq=14
              7 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=15
              7 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Setup Failure "replace ${attr.none}: there is no such name" fails]
        "#]],
    );
}

#[test]
fn settings_refer_to_the_node_and_the_allocation() {
    check(
        |server| {
            server.open();
            let task = mock(r#"{"run_for": "1h", "start_error": "${node.datacenter} ${NOMAD_ALLOC_NAME}"}"#);
            let mut named = run(1, "service", task);
            named.run[0].name_index = 7;
            server.desire(&named);
            server.until(1, ClientStatus::Failed);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Failed: Failed tasks modified
                t Dead failed restarts=0 exit=0/0/false finished [Received; Task Setup "Building Task Directory"; Driver Failure "dc1 j.g[7]"; Not Restarting "Error was unrecoverable" fails]
        "#]],
    );
}

#[test]
fn a_stopped_task_ends_in_time_or_is_killed() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h", "kill_after": "20ms"}"#);
            server.desire(&stop(1));
            server.until(1, ClientStatus::Complete);
            server.desire(&run(
                2,
                "service",
                TaskSpec { kill_timeout_ms: 50, ..mock(r#"{"run_for": "1h", "kill_after": "1h"}"#) },
            ));
            server.until(2, ClientStatus::Running);
            server.desire(&stop(2));
            server.until(2, ClientStatus::Complete);
            server.note("now without any time to end");
            server.desire(&run(
                4,
                "service",
                TaskSpec { kill_timeout_ms: 0, ..mock(r#"{"run_for": "1h"}"#) },
            ));
            server.until(4, ClientStatus::Running);
            server.desire(&stop(4));
            server.until(4, ClientStatus::Complete);
            server.note("a stop of what was never there");
            server.desire(&stop(3));
            server.until(3, ClientStatus::Complete);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=3
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=4
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
            update seq=5
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=6
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=7
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 50ms before force killing"]
            update seq=8
              2 Complete: All tasks have completed modified
                t Dead restarts=0 exit=137/9/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 50ms before force killing"; Terminated 137/9/false; Killed]
            > now without any time to end
            update seq=9
              4 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=10
              4 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=11
              4 Complete: All tasks have completed modified
                t Dead restarts=0 exit=137/9/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 137/9/false; Killed]
            > a stop of what was never there
            update seq=12
              3 Complete: All tasks have completed modified
        "#]],
    );
}

#[test]
fn a_successor_waits_for_its_room() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            let mut successor = run(2, "service", mock(r#"{"run_for": "1h"}"#));
            successor.run[0].after = vec![id(1)];
            server.desire(&both(successor, stop(1)));
            server.until_each(&[(1, ClientStatus::Complete), (2, ClientStatus::Running)]);
            server.sort_by_alloc();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"]
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received]
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
        "#]],
    );
}

#[test]
fn tasks_with_hooks_run_in_their_order() {
    let of = |name: &str, hook: HookSpec, sidecar: bool, run_for: &str| TaskSpec {
        name: name.into(),
        hook: hook.into(),
        sidecar,
        ..mock(&format!(r#"{{"run_for": "{run_for}", "kill_after": "20ms"}}"#))
    };
    check(
        |server| {
            server.open();
            let tasks = vec![
                of("bye", HookSpec::Poststop, false, "60ms"),
                of("main", HookSpec::Main, false, "200ms"),
                of("init", HookSpec::Prestart, false, "60ms"),
                of("log", HookSpec::Poststart, true, "1h"),
            ];
            let group = GroupSpec { job_type: "batch".into(), tasks, ..GroupSpec::default() };
            server.desire(&run_group(1, group));
            server.until(1, ClientStatus::Complete);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Pending restarts=0 exit=0/0/false [Received]
                init Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
                log Pending restarts=0 exit=0/0/false [Received]
            update seq=2
              1 Running: Tasks are running modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Pending restarts=0 exit=0/0/false [Received]
                init Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
                log Pending restarts=0 exit=0/0/false [Received]
            update seq=3
              1 Pending: Some tasks have not started yet modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Pending restarts=0 exit=0/0/false [Received]
            update seq=4
              1 Running: Tasks are running modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=5
              1 Running: Tasks are running modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=6
              1 Running: Tasks are running modified
                bye Pending restarts=0 exit=0/0/false [Received]
                main Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Main Tasks Dead; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=7
              1 Pending: Some tasks have not started yet modified
                bye Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
                main Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Main Tasks Dead; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
            update seq=8
              1 Running: Tasks are running modified
                bye Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
                main Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Main Tasks Dead; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
            update seq=9
              1 Complete: All tasks have completed modified
                bye Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                main Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                init Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
                log Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Main Tasks Dead; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
        "#]],
    );
}
