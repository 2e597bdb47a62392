//! Every route is governed: whoever has no capability gets 403 and nothing of the state.

use axum::body::Body;
use std::sync::Arc;

use super::{
    exchange::answer,
    world::{EVAL, RUNNING, small_job, world},
};
use crate::{
    http::{
        Limits,
        access::{Identity, Policy, Realm},
        api::Api,
        router::router,
        routes::{Capability, NamespaceFrom},
    },
    nomad::table,
};

/// Grants one capability at most, in one namespace at most.
#[derive(Debug)]
struct Only(Option<(Capability, &'static str)>);

impl Policy for Only {
    fn grants(&self, _: &Identity, capability: Capability, realm: Realm<'_>) -> bool {
        self.0.is_some_and(|(granted, namespace)| {
            granted == capability
                && matches!(realm, Realm::SomeNamespace | Realm::Namespace(_))
                && (realm == Realm::SomeNamespace || realm == Realm::Namespace(namespace))
        })
    }
}

fn governed(policy: Only) -> axum::Router {
    let mut api = Api::new(table(), world().state(), Limits::default(), ([127, 0, 0, 1], 4646).into());
    api.policy = Arc::new(policy);
    router(&api)
}

#[tokio::test]
async fn a_caller_without_capabilities_gets_403_from_every_route_and_nothing_else() {
    let router = governed(Only(None));
    for route in table().routes {
        let path = route.path.replace("{id}", &RUNNING.to_string()).replace("{name}", "default");
        for method in route.verb.methods() {
            let refused = answer(&router, method.as_str(), &path, Body::empty()).await;
            if route.capability == Capability::Anonymous {
                assert_ne!(refused.status, 403, "{method} {path}");
                continue;
            }
            assert_eq!(refused.status, 403, "{method} {path}: {}", refused.body);
            assert!(!refused.headers.contains("x-nomad-index"), "{method} {path}: {}", refused.headers);
            let text = format!("permission denied: this needs the capability {:?}", route.capability);
            assert!(refused.body.is_empty() || refused.body == text, "{method} {path}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn a_capability_holds_in_its_namespace_and_no_other() {
    let router = governed(Only(Some((Capability::ReadJob, "default"))));
    for (target, status) in [
        ("/v1/jobs", 200),
        ("/v1/jobs?namespace=default", 200),
        ("/v1/jobs?namespace=default-too", 403),
        ("/v1/job/web?namespace=other", 403),
        ("/v1/jobs?namespace=*", 403),
        ("/v1/nodes", 403),
        (&format!("/v1/allocation/{RUNNING}"), 200),
        (&format!("/v1/evaluation/{EVAL}"), 200),
    ] {
        assert_eq!(answer(&router, "GET", target, Body::empty()).await.status, status, "{target}");
    }
    assert_eq!(answer(&router, "DELETE", "/v1/job/web", Body::empty()).await.status, 403);
}

#[tokio::test]
async fn objects_of_another_namespace_are_refused_wherever_their_id_comes_from() {
    let router = governed(Only(Some((Capability::ReadJob, "other"))));
    for target in [
        format!("/v1/allocation/{RUNNING}"),
        format!("/v1/client/allocation/{RUNNING}/stats"),
        format!("/v1/evaluation/{EVAL}"),
        format!("/v1/evaluation/{EVAL}/allocations"),
        format!("/v1/evaluation/{EVAL}/plans"),
    ] {
        assert_eq!(answer(&router, "GET", &target, Body::empty()).await.status, 403, "{target}");
    }
    let router = governed(Only(Some((Capability::SubmitJob, "other"))));
    let job = serde_json::json!({ "Job": berth_jobfile::to_json(&small_job("new")) }).to_string();
    assert_eq!(answer(&router, "PUT", "/v1/jobs", job).await.status, 403);
}

#[test]
fn a_route_that_takes_its_namespace_from_the_query_has_that_parameter() {
    for route in table().routes {
        let takes = route.contract.parameters.contains(&"namespace");
        let place = format!("{} {}", route.verb.as_str(), route.path);
        assert!(takes || route.namespace_from != NamespaceFrom::Query, "{place}");
    }
}
