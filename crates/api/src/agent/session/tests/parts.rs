//! Desired state in order, whole, and in parts.

use super::*;

fn part(index: u64, run: &[u8], more: bool) -> Desired {
    Desired { full: true, more, ..desired(index, run, &[], &[]) }
}

/// What was left out by then.
fn left_out(response: Option<SessionAction>) -> Vec<u8> {
    let Some(SessionAction::Desired(change)) = response else { panic!("{response:?}") };
    change.left_out.iter().map(|id| id.0[0]).collect()
}

/// A session that runs allocations 1 to 4 and has told so.
fn busy() -> AgentSession {
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1, 2, 3, 4], &[], &[]), 0);
    (1..=4).for_each(|number| session.observe(id(number), &status(number, "x"), true, 0));
    hear(&mut session, 0);
    session
}

#[test]
fn a_full_list_in_parts_applies_with_its_last_one() {
    let mut session = busy();
    let before = session.digests();
    assert_eq!(tell(&mut session, part(2, &[1], true), 0), None);
    assert_eq!(tell(&mut session, part(2, &[5], true), 0), None);
    assert_eq!(session.digests(), before, "what 5 must wait for is not known yet");
    let Some(SessionAction::Desired(change)) = tell(&mut session, part(2, &[3], false), 0) else {
        panic!("no list")
    };
    let run = change.parts.iter().flat_map(|part| &part.run).map(|run| run.alloc_id[0]);
    assert_eq!(run.collect::<Vec<_>>(), [1, 5, 3]);
    assert_eq!(change.left_out, [id(2), id(4)]);
    assert_eq!(
        left_out(tell(&mut session, part(3, &[1, 3, 5], false), 0)),
        [2, 4],
        "until they are forgotten"
    );
}

#[test]
fn a_list_that_breaks_off_ends_and_forgets_nothing() {
    for parts in 1..4_u8 {
        let mut session = busy();
        let (digests, fence) = (session.digests(), session.fence());
        for number in 0..parts {
            let forget = vec![id(4).0.to_vec()];
            let response = tell(&mut session, Desired { forget, ..part(2, &[number + 5], true) }, 0);
            assert_eq!(response, None);
        }
        session.disconnected();
        assert_eq!((session.digests(), session.fence()), (digests, fence), "after {parts} parts");
        let hello = session.hello(&identity(), NodeSpec::default(), 0);
        assert_eq!(hello.desired_digest, digests.0.to_bytes(), "the server sees that it was not told");
        welcome(&mut session, WelcomeMode::Equal, 0, 0);
        tell(&mut session, part(2, &[1, 2], true), 0);
        assert_eq!(left_out(tell(&mut session, part(2, &[3], false), 0)), [4], "the list begins again");
    }
}

#[test]
fn a_difference_between_two_parts_waits_with_them() {
    let mut session = busy();
    assert_eq!(tell(&mut session, part(2, &[1, 2], true), 0), None);
    assert_eq!(tell(&mut session, Desired { more: true, ..desired(3, &[5], &[4], &[]) }, 0), None);
    assert_eq!(left_out(tell(&mut session, part(2, &[3], false), 0)), [0; 0]);
    assert_eq!(session.fence().index, 3);
}

#[test]
fn what_a_full_list_leaves_out_is_reported_until_it_is_forgotten() {
    let mut session = busy();
    tell(&mut session, part(2, &[1], false), 0);
    let mut response = hear(&mut session, 0);
    let mut expected = Digest::default();
    expected.add(desired_hash(&id(1).0, Some(0)));
    assert_eq!(session.digests().0, expected, "it is none of the servers' desired state");
    session.observe(id(2), &status(2, "ended"), true, 0);
    response += &hear(&mut session, 0);
    tell(&mut session, desired(3, &[], &[], &[2]), 0);
    session.observe(id(2), &status(2, "after that"), true, 0);
    session.observe(id(3), &status(3, "ended"), true, 0);
    response += &hear(&mut session, 0);
    check(
        &response,
        &expect![[r#"
            0ms update seq=7 [2:x 3:x 4:x]
            0ms update seq=8 [2:ended]
            0ms update seq=9 [3:ended]
        "#]],
    );
}

#[test]
fn a_lost_or_doubled_message_ends_the_session() {
    let mut session = busy();
    let gap = |session: &mut AgentSession, seq| {
        session.on_down(Down::Desired(Desired { seq, ..desired(2, &[5], &[], &[]) }), 0)
    };
    let expected = Some(SessionAction::Broken(SessionError::Gap { expected: 2, got: 3 }));
    assert_eq!(gap(&mut session, 3), expected);
    assert!(!session.is_open());
    welcome(&mut session, WelcomeMode::Equal, 0, 0);
    assert!(matches!(gap(&mut session, 1), Some(SessionAction::Desired(_))), "a session counts from 1");
    assert!(matches!(gap(&mut session, 1), Some(SessionAction::Broken(_))));
}

#[test]
fn heartbeats_show_a_lost_difference() {
    let mut session = busy();
    // A server that forgets to send a difference believes otherwise, and sees by the digests that it is wrong.
    let mut server = Digest::default();
    (1..=5).for_each(|number| server.add(desired_hash(&id(number).0, Some(0))));
    let beat = |session: &mut AgentSession, at_ns| match session.poll(at_ns) {
        Some(Up::Heartbeat(beat)) => beat,
        other => panic!("{other:?}"),
    };
    let heartbeat = beat(&mut session, 5_000 * MS);
    assert_eq!((heartbeat.seq, heartbeat.desired_seq), (4, 1));
    assert_ne!(heartbeat.desired_digest, server.to_bytes());
    tell(&mut session, part(2, &[1, 2, 3, 4, 5], false), 5_000 * MS);
    let heartbeat = beat(&mut session, 10_000 * MS);
    assert_eq!((heartbeat.desired_seq, heartbeat.desired_digest), (2, server.to_bytes()));
    assert_eq!(heartbeat.observed_digest, session.digests().1.to_bytes());
}

#[test]
fn nothing_of_a_message_that_breaks_the_protocol_applies() {
    let before = busy().digests();
    let odd_id = Desired { forget: vec![vec![1; 15]], ..desired(2, &[5], &[], &[]) };
    let no_group = Desired { groups: Vec::new(), ..desired(2, &[5], &[], &[]) };
    for (message, reason) in [
        (odd_id, "read desired state: an allocation id has 15 bytes instead of 16"),
        (
            no_group,
            "read desired state: allocation 05050505-0505-0505-0505-050505050505 refers to group 0, which the \
             message does not hold",
        ),
    ] {
        let mut session = busy();
        let response = tell(&mut session, message, 0);
        let Some(SessionAction::Broken(error)) = response else { panic!("{response:?}") };
        assert_eq!(
            (error.to_string().as_str(), session.digests(), session.is_open()),
            (reason, before, false)
        );
    }
}

#[test]
fn a_list_without_end_is_cut_off() {
    let mut session = busy();
    let run: Vec<_> = desired(2, &[1; 100], &[], &[]).run.iter().cycle().take(40_000).cloned().collect();
    let part = || Desired { run: run.clone(), ..part(2, &[], true) };
    assert_eq!(tell(&mut session, part(), 0), None);
    assert_eq!(tell(&mut session, part(), 0), None);
    assert_eq!(tell(&mut session, part(), 0), Some(SessionAction::Broken(SessionError::TooManyAllocs)));
}
