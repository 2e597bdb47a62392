//! Client certificates at the HTTP port: a valid one gives no rights, which only tokens do, and an invalid one is refused.

use berth_api::http::{Client, Target};
use berth_model::NodeId;
use berth_tls::{ClientFiles, ClientTls, Role};
use serde_json::{Value, json};

use super::acl::path;
use crate::{
    access::Capability,
    http::routes::{Route, Verb},
    net::test_certificates::{Fault, TestCertificate, TestCertificates, server, until_expired},
    nomad::table,
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
