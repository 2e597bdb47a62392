//! The table of routes agrees with the router.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use expect_test::expect;

use super::{
    exchange::{answer, api},
    world::world,
};
use crate::{http::routes::Verb, nomad::table};

#[test]
fn no_route_is_declared_twice() {
    let mut seen = BTreeSet::new();
    for route in table().routes {
        assert!(seen.insert((route.path, route.verb)), "{} {}", route.verb.as_str(), route.path);
    }
}

#[tokio::test]
async fn the_router_knows_each_path_by_exactly_the_methods_of_the_table() {
    let mut verbs: BTreeMap<&str, Vec<Verb>> = BTreeMap::new();
    for route in table().routes {
        verbs.entry(route.path).or_default().push(route.verb);
    }
    let router = api(&world());
    for (path, verbs) in verbs {
        let methods = verbs.iter().flat_map(|verb| verb.methods());
        let expected: BTreeSet<String> = methods.map(ToString::to_string).collect();
        let concrete = path.replace("{id}", "x").replace("{name}", "x").replace("{*path}", "x");
        let refused = answer(&router, "OPTIONS", &concrete, Body::empty()).await;
        assert_eq!(refused.status, 405, "{path}");
        let allow =
            refused.headers.lines().find_map(|line| line.strip_prefix("allow: ")).expect("it has Allow");
        assert_eq!(allow.split(',').map(str::to_owned).collect::<BTreeSet<_>>(), expected, "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_errors() {
    let router = api(&world());
    let unknown = answer(&router, "GET", "/v1/nope", Body::empty()).await;
    expect![[r#"
        404 Not Found
        content-type: text/plain; charset=utf-8

        no such path: /v1/nope
    "#]]
    .assert_eq(&unknown.show());
    let wrong = answer(&router, "DELETE", "/v1/jobs", Body::empty()).await;
    expect![[r#"
        405 Method Not Allowed
        allow: GET,HEAD,PUT,POST
        content-type: text/plain; charset=utf-8

        method DELETE does not apply to /v1/jobs, the Allow header names those that do
    "#]]
    .assert_eq(&wrong.show());
}
