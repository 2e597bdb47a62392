//! Every route is governed: whoever has no capability gets 403 and nothing of the state.

use std::sync::Arc;

use axum::body::Body;

use super::{
    exchange::{answer, governed},
    world::{EVAL, RUNNING, world},
};
use crate::{
    access::{Capability, NamespaceFrom, Rights},
    nomad::table,
};

/// Capabilities in one namespace.
fn only<const N: usize>(capabilities: [Capability; N], namespace: &str) -> Arc<Rights> {
    let namespaces = [(namespace.to_owned(), capabilities.into())].into();
    Arc::new(Rights { namespaces, ..Rights::default() })
}

#[tokio::test]
async fn a_caller_without_capabilities_gets_403_from_every_route_and_nothing_else() {
    let router = governed(&world(), Arc::<Rights>::default());
    for route in table().routes {
        let path = route.path.replace("{id}", &RUNNING.to_string()).replace("{name}", "default");
        let path = path.replace("{*path}", "a/b");
        for method in route.verb.methods() {
            let refused = answer(&router, method.as_str(), &path, Body::empty()).await;
            if route.capability == Capability::Anonymous {
                assert_ne!(refused.status, 403, "{method} {path}");
                continue;
            }
            assert_eq!(refused.status, 403, "{method} {path}: {}", refused.body);
            assert!(!refused.headers.contains("x-nomad-index"), "{method} {path}: {}", refused.headers);
            let text = format!("Permission denied: this needs {}", route.capability.word());
            assert!(
                refused.body.is_empty() || refused.body.starts_with(&text),
                "{method} {path}: {}",
                refused.body
            );
        }
    }
}

#[tokio::test]
async fn a_capability_holds_in_its_namespace_and_no_other() {
    let router = governed(&world(), only([Capability::ListJobs, Capability::ReadJob], "default"));
    for (target, status) in [
        ("/v1/jobs", 200),
        ("/v1/jobs?namespace=default", 200),
        ("/v1/jobs?namespace=default-too", 403),
        ("/v1/jobs?namespace=defaul", 403),
        ("/v1/job/web?namespace=other", 403),
        ("/v1/jobs?namespace=*", 200),
        ("/v1/nodes", 403),
        (&format!("/v1/allocation/{RUNNING}"), 200),
        (&format!("/v1/evaluation/{EVAL}"), 200),
    ] {
        assert_eq!(answer(&router, "GET", target, Body::empty()).await.status, status, "{target}");
    }
    assert_eq!(answer(&router, "DELETE", "/v1/job/web", Body::empty()).await.status, 403);
}

#[test]
fn a_route_that_takes_its_namespace_from_the_query_has_that_parameter() {
    for route in table().routes {
        let takes = route.contract.parameters.contains(&"namespace");
        let what = format!("{} {}", route.verb.as_str(), route.path);
        assert!(takes || route.namespace_from != NamespaceFrom::Query, "{what}");
    }
}
