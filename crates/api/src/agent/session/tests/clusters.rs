//! Whose desired state a node takes in.

use super::*;
use crate::agent::Servers;

fn welcome_of(cluster_id: Vec<u8>, restored: bool) -> Down {
    Down::Welcome(Welcome { heartbeat_ms: 5_000, cluster_id, restored, ..Welcome::default() })
}

/// Dials a server of that cluster.
fn dial(session: &mut AgentSession, cluster_id: Vec<u8>, restored: bool) -> Option<SessionAction> {
    session.disconnected();
    session.hello(&identity(), NodeSpec::default(), 0);
    session.on_down(welcome_of(cluster_id, restored), 0)
}

/// A session of cluster 7 that knows what holds as of (term 3, index 500).
fn session() -> AgentSession {
    let mut session = AgentSession::new(1, UPDATE_DELAY_NS);
    session.restore_fence(Fence { cluster: Some(cluster(7)), term: 3, index: 500 });
    session
}

#[test]
fn a_node_belongs_to_the_cluster_that_welcomes_it_first() {
    let mut session = AgentSession::new(1, UPDATE_DELAY_NS);
    assert_eq!(session.hello(&identity(), NodeSpec::default(), 0).cluster_id, Vec::<u8>::new());
    let joined = Fence { cluster: Some(cluster(7)), term: 0, index: 0 };
    let response = session.on_down(welcome_of(vec![7; 16], false), 0);
    assert_eq!(response, Some(SessionAction::Joined(joined)));
    session.disconnected();
    assert_eq!(session.hello(&identity(), NodeSpec::default(), 0).cluster_id, [7; 16]);
    assert_eq!(session.on_down(welcome_of(vec![7; 16], false), 0), None, "it knows that already");
}

#[test]
fn a_cluster_that_had_no_name_yet_is_no_other_one_once_it_has() {
    let mut session = AgentSession::new(1, UPDATE_DELAY_NS);
    session.restore_fence(Fence { cluster: None, term: 3, index: 500 });
    let joined = Fence { cluster: Some(cluster(7)), term: 3, index: 500 };
    assert_eq!(dial(&mut session, vec![7; 16], false), Some(SessionAction::Joined(joined)));
}

#[test]
fn a_restored_cluster_is_followed_from_its_low_terms_and_indexes_on() {
    let mut session = session();
    let low = || desired(9, &[1], &[], &[]);
    assert_eq!(dial(&mut session, vec![7; 16], false), None);
    assert_eq!(
        tell(&mut session, low(), 0),
        None,
        "of its own cluster a server that lags behind is not heard"
    );
    let joined = Fence { cluster: Some(cluster(8)), term: 0, index: 0 };
    assert_eq!(dial(&mut session, vec![8; 16], true), Some(SessionAction::Joined(joined)));
    assert!(matches!(tell(&mut session, low(), 0), Some(SessionAction::Desired(_))));
    assert_eq!(session.fence(), Fence { cluster: Some(cluster(8)), term: 1, index: 9 });
}

#[test]
fn a_server_of_another_cluster_is_not_heard() {
    let mut session = session();
    let response = dial(&mut session, vec![8; 16], false);
    let Some(SessionAction::Broken(error)) = response else { panic!("{response:?}") };
    check(
        &error.to_string(),
        &expect![
            "the server belongs to cluster 08080808-0808-0808-0808-080808080808, this node to cluster 07070707-0707-0707-0707-070707070707: point the agent at servers of its own cluster, or give it a new data directory to join the other one"
        ],
    );
    assert!(!session.is_open());
    assert_eq!(session.fence(), self::session().fence());
    let servers = || Servers { addresses: vec!["10.0.0.1:4647".into()], ..Servers::default() };
    assert_eq!(session.on_down(Down::Servers(servers()), 0), None, "its servers are not learned either");
    let response = session.on_down(Down::Desired(Desired { seq: 1, ..desired(900, &[1], &[], &[]) }), 0);
    assert_eq!(response, Some(SessionAction::Broken(SessionError::BeforeWelcome)));
    assert_eq!(dial(&mut session, vec![7; 16], false), None);
    assert_eq!(session.on_down(Down::Servers(servers()), 0), Some(SessionAction::Servers(servers())));
}

#[test]
fn a_cluster_id_is_16_bytes_or_absent() {
    assert_eq!(
        dial(&mut session(), vec![7; 15], false),
        Some(SessionAction::Broken(SessionError::ClusterId(15)))
    );
    for unsaid in [Vec::new(), vec![0; 16]] {
        let mut session = session();
        assert_eq!(dial(&mut session, unsaid, false), None);
        assert_eq!(session.fence().cluster, Some(cluster(7)));
    }
}
