//! Sessions that break, are refused, and go on.

use berth_api::agent::{ClientStatus, Desired, Down, WelcomeMode};
use expect_test::expect;

use crate::{
    RARE_MS, check,
    desired::{both, forget, mock, run, stop},
};

#[test]
fn a_reconnect_with_equal_digests_costs_nothing() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.disconnect();
            server.open();
            server.note("what is said next is news");
            server.desire(&stop(1));
            server.until(1, ClientStatus::Complete);
            server.desire(&forget(1));
            server.start(2, r#"{"run_for": "1h"}"#);
            server.disconnect();
            server.open();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
            > what is said next is news
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
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=6 desired=equal observed=equal
        "#]],
    );
}

#[test]
fn what_was_missed_while_away_comes_as_a_full_list() {
    check(
        |server| {
            server.open();
            let (first, second) = (
                run(1, "service", mock(r#"{"run_for": "1h"}"#)),
                run(2, "service", mock(r#"{"run_for": "1h"}"#)),
            );
            server.desire(&first);
            server.until(1, ClientStatus::Running);
            server.disconnect();
            server.decide(&second);
            server.open();
            let full = server.decide(&Desired { full: true, ..both(first, second.clone()) });
            server.say(Down::Desired(full));
            server.until(2, ClientStatus::Running);

            server.note("now the end of one is missed");
            server.disconnect();
            server.decide(&stop(1));
            server.open();
            let full = server.decide(&Desired { full: true, ..both(second.clone(), stop(1)) });
            server.say(Down::Desired(full));
            server.until(1, ClientStatus::Complete);

            server.note("now it is missed that one is forgotten");
            server.disconnect();
            server.decide(&forget(1));
            server.open();
            let full = server.decide(&Desired { full: true, ..second });
            server.say(Down::Desired(full));
            server.note("what the list leaves out is told until it is forgotten");
            server.until(1, ClientStatus::Complete);
            server.desire(&forget(1));
            server.disconnect();
            server.open();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=2 desired=differs observed=equal
            update seq=3
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=4
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > now the end of one is missed
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=4 desired=differs observed=equal
            update seq=5
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=6
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
            > now it is missed that one is forgotten
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=6 desired=differs observed=differs
            > what the list leaves out is told until it is forgotten
            update seq=7
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=7 desired=equal observed=equal
        "#]],
    );
}

#[test]
fn a_resync_reports_all_or_what_changed_since() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.start(2, r#"{"run_for": "1h"}"#);
            server.disconnect();
            let seq = server.hello().seq;
            server.welcome(WelcomeMode::Full, 0, RARE_MS);
            server.listen_until_resynced();
            server.disconnect();
            server.hello();
            server.welcome(WelcomeMode::FromSeq, seq - 1, RARE_MS);
            server.listen_until_resynced();
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
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=4
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=4 desired=equal observed=equal
            update seq=4 resync_done
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=4 desired=equal observed=equal
            update seq=4 resync_done
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
        "#]],
    );
}

#[test]
fn ends_during_an_outage_are_reported_afterwards() {
    check(
        |server| {
            server.open();
            server.desire(&run(1, "batch", mock(r#"{"run_for": "2s"}"#)));
            server.until(1, ClientStatus::Running);
            server.disconnect();
            let seq = server.refuse_until(|hello| hello.seq & 0xff == 3).seq;
            server.welcome(WelcomeMode::FromSeq, seq - 1, RARE_MS);
            server.until(1, ClientStatus::Complete);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=3 desired=equal observed=differs
            update seq=3 resync_done
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Terminated 0/0/false]
        "#]],
    );
}

#[test]
fn a_refused_session_is_opened_again() {
    check(
        |server| {
            server.hello();
            server.refuse();
            server.hello();
            server.refuse();
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.refuse();
            server.open();
            server.note("desired state that breaks the protocol ends a session too");
            server.say(Down::Desired(Desired {
                term: 1,
                index: 1_000,
                purge: vec![vec![1; 15]],
                ..Desired::default()
            }));
            server.open();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            > the session is refused
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            > the session is refused
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the session is refused
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
            > desired state that breaks the protocol ends a session too
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
        "#]],
    );
}

#[test]
fn what_a_full_list_leaves_out_is_stopped_once_its_last_part_is_in() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.start(2, r#"{"run_for": "1h"}"#);
            let part =
                |number| Desired { full: true, ..run(number, "service", mock(r#"{"run_for": "1h"}"#)) };
            server.note("a list of 2 and 3 comes in two parts: 3 waits until 1 has ended");
            let first = server.decide(&Desired { more: true, ..part(3) });
            server.say(Down::Desired(first));
            server.say(Down::Desired(Desired { term: 1, index: 100, ..part(2) }));
            server.until_each(&[
                (1, ClientStatus::Complete),
                (2, ClientStatus::Running),
                (3, ClientStatus::Running),
            ]);
            server.sort_by_alloc();
            server.disconnect();
            server.open();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            > a list of 2 and 3 comes in two parts: 3 waits until 1 has ended
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"]
              1 Complete: All tasks have completed modified
                t Dead restarts=0 exit=0/0/false started finished [Received; Task Setup "Building Task Directory"; Started; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Killed]
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
              3 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received]
              3 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
              3 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=10 desired=differs observed=equal
        "#]],
    );
}

#[test]
fn a_server_of_another_cluster_is_not_heard() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.disconnect();
            server.hello();
            server.welcome_elsewhere();
            server.open();
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
            > a server of another cluster welcomes it
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
        "#]],
    );
}

#[test]
fn a_node_that_has_nothing_to_say_gives_signs_of_life() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.disconnect();
            server.hello();
            server.welcome(WelcomeMode::Equal, 0, 20);
            server.listen_for_heartbeats(3);
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > the connection breaks
            hello version=2 cluster=7 epoch=1 seq=2 desired=equal observed=equal
            heartbeat seq=2 desired_seq=0
        "#]],
    );
}
