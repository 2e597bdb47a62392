//! Client certificates at the HTTP port: a valid one gives no rights, which only tokens do, and an invalid one is refused.

use std::sync::{Arc, atomic::Ordering};

use axum::body::Body;
use berth_api::http::{Client, Target};
use berth_model::{NodeId, command::Command, node::NodeStatus};
use berth_tls::{ClientFiles, ClientTls, RevokedServers, Role};
use expect_test::expect;
use serde_json::{Value, json};

use super::{
    acl::path,
    exchange::{Answer, answer},
    fake_engine::FakeEngine,
    world::{NODE_2, world},
};
use crate::{
    access::Capability,
    http::{
        Limits,
        api::Api,
        router::router,
        routes::{Route, Verb},
    },
    net::{
        Secure,
        test_certificates::{Fault, TestCertificate, TestCertificates, server, until_expired},
    },
    nomad::table,
    shared::{ProposeError, ServerInfo},
};

/// The status of the answer to a request without a token; none where nobody answers.
async fn status_of(client: &Client, route: &Route) -> Option<u16> {
    let target = Target::new(&path(route));
    let answer = match route.verb {
        Verb::Get => client.get::<Value>(&target).await,
        Verb::Put => client.put::<Value>(&target, &json!({})).await,
        Verb::Delete => client.delete::<Value>(&target).await,
    };
    match answer {
        Ok(_) => Some(200),
        Err(error) => error.status(),
    }
}

fn client(address: &str, shown: &TestCertificate) -> Client {
    let files = &shown.files;
    let tls = ClientTls::load(&ClientFiles {
        ca: Some(&files.ca),
        own: Some((&files.cert, &files.key)),
        ..ClientFiles::default()
    })
    .expect("it is read");
    Client::with_tls(format!("https://{address}").parse().expect("an address"), tls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_certificate_opens_what_takes_a_token() {
    let certificates = TestCertificates::new();
    let roles =
        [Role::Server(None), Role::Agent(Some(NodeId(7).to_string())), Role::Agent(None), Role::Client];
    let all: Vec<TestCertificate> = roles.iter().flat_map(|role| certificates.of(role)).collect();
    let running = server(&certificates, "s1", &[]).await;
    let address = running.http_addr().to_string();
    until_expired(&all).await;
    let routes = table().routes;
    let guarded: Vec<&Route> =
        routes.iter().filter(|route| route.capability != Capability::Anonymous).collect();
    for shown in &all {
        let client = client(&address, shown);
        match shown.fault {
            Fault::Nothing | Fault::OtherRegion => {
                for route in &guarded {
                    let status = status_of(&client, route).await;
                    assert_eq!(status, Some(403), "{shown} asks {} {}", route.verb.as_str(), route.path);
                }
            }
            Fault::Expired | Fault::OtherAuthority => {
                assert_eq!(status_of(&client, guarded[0]).await, None, "{shown}");
            }
        }
    }
    running.shutdown().await;
}

/// The answer to a purge of the second node, which is down, of a server with certificates.
async fn purge(world: &Arc<FakeEngine>, certificates: &TestCertificates) -> Answer {
    world.apply(vec![Command::SetNodeStatus(NODE_2, NodeStatus::Down, None)]);
    let secure = Secure::load(&certificates.of_server(), "global", "s1", RevokedServers::default());
    let mut state = world.state();
    let server = ServerInfo { secure: Some(secure.expect("it is read")), ..(*state.server).clone() };
    state.server = Arc::new(server);
    let router = router(&Api::new(table(), state, Limits::default(), ([127, 0, 0, 1], 4646).into()));
    answer(&router, "PUT", &format!("/v1/node/{NODE_2}/purge"), Body::empty()).await
}

#[tokio::test]
async fn the_certificate_of_a_node_is_revoked_once_that_is_purged() {
    let certificates = TestCertificates::new();
    let is_revoked = |world: &FakeEngine| world.view.load().store.acl().joins().revoked_at(NODE_2).is_some();

    let comes_back = world();
    let ready = Command::SetNodeStatus(NODE_2, NodeStatus::Ready, None);
    comes_back.preceded_by.lock().expect("no test panics here").push(ready);
    let refused = purge(&comes_back, &certificates).await;
    assert_eq!((refused.status.as_u16(), is_revoked(&comes_back)), (409, false), "{}", refused.body);

    let busy = world();
    *busy.failure.lock().expect("no test panics here") = Some(ProposeError::Busy(5000));
    busy.commits_before_failure.store(1, Ordering::Relaxed);
    let half = purge(&busy, &certificates).await;
    assert_eq!((half.status.as_u16(), is_revoked(&busy)), (429, false));
    expect!["the node was purged, but its certificate is still valid; `berth node revoke 22222222-0000-4000-8000-000000000002` revokes it: the server has 5000 changes waiting to be written: try again in a moment"].assert_eq(&half.body);

    let again = purge(&busy, &certificates).await;
    expect!["node not found; if it was purged, its certificate may still be valid: `berth node revoke 22222222-0000-4000-8000-000000000002` revokes it"].assert_eq(&again.body);

    let behind = world();
    behind.apply(vec![Command::SetNodeStatus(NODE_2, NodeStatus::Down, None)]);
    behind.is_behind.store(true, Ordering::Relaxed);
    let unknown = purge(&behind, &certificates).await;
    assert_eq!((unknown.status.as_u16(), is_revoked(&behind)), (500, false));
    expect!["the change was written at index 8, but this server is behind the leader and does not know yet what came of it: look again in a moment"].assert_eq(&unknown.body);

    let gone = world();
    let purged = purge(&gone, &certificates).await;
    assert_eq!((purged.status.as_u16(), is_revoked(&gone)), (200, true), "{}", purged.body);
    assert_eq!(purge(&gone, &certificates).await.body, "node not found");
}
