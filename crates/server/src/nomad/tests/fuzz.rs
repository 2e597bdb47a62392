//! Requests made from the examples of the API's description, with parts replaced, left out, repeated and damaged: each is answered,
//! never with an internal error, and each refusal has a reason.

use std::{sync::LazyLock, time::Duration};

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;
use proptest::{
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::{
    exchange::{api, get, send},
    openapi::described_path,
    world::{EVAL, NODE_1, RUNNING, world},
};
use crate::{
    http::{
        openapi::path_names,
        routes::{ResponseBody, Route},
    },
    nomad::table,
};

/// Nobody waits longer for an answer of a cluster as small.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// What every list takes, besides what its route names.
const OF_LISTS: [&str; 7] = ["prefix", "per_page", "next_token", "filter", "reverse", "stale", "namespace"];

const TEXTS: [&str; 22] = [
    "",
    "web",
    "app",
    "default",
    "*",
    "true",
    "-1",
    "0",
    "18446744073709551616",
    "1e999",
    "0.1",
    "10s",
    "-1h",
    "9999999h",
    "ID == \"web\"",
    "ID ==",
    "%00",
    "%ff%fe",
    "..%2f..",
    "%E2%80%AE",
    "a%0d%0ab",
    "%f0%9f%92%a9",
];

fn values() -> [Value; 20] {
    [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("web"),
        json!("*"),
        json!("\u{0}\u{202e}"),
        json!("x".repeat(5_000)),
        json!([]),
        json!([[[[[]]]]]),
        json!([null, null]),
        json!({}),
        json!({"": null}),
        json!({"ID": {"ID": {"ID": []}}}),
        json!(vec!["same"; 100]),
    ]
}

/// A route, and the body that its description shows.
struct Shown {
    route: Route,
    example: Value,
}

/// All routes, but for those whose answers have no end.
static SHOWN: LazyLock<Vec<Shown>> = LazyLock::new(|| {
    let description = runtime().block_on(get(&api(&world()), "/v1/openapi.json")).json();
    let routes = table().routes.into_iter();
    let ends = |route: &Route| {
        !matches!(route.contract.answer, ResponseBody::Lines(_) | ResponseBody::Socket { .. })
    };
    let shown = |route: Route| {
        let operation = &description["paths"][described_path(&route)][route.verb.as_str().to_lowercase()];
        let example = operation["requestBody"]["content"]["application/json"]["example"].clone();
        Shown { route, example }
    };
    routes.filter(ends).map(shown).collect()
});

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// One change of a body: where, what becomes of it, and what takes its place.
type Edit = (Index, u8, Index);

/// Places of all values in another, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let below = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| places(value, &below(name), all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| places(value, &below(&n.to_string()), all));
        }
        _ => {}
    }
}

fn edited(mut body: Value, edits: &[Edit]) -> Value {
    let values = values();
    for (at, how, what) in edits {
        let mut all = Vec::new();
        places(&body, "", &mut all);
        let from_elsewhere = body.pointer(&all[what.index(all.len())]).cloned().unwrap_or_default();
        let Some(place) = body.pointer_mut(&all[at.index(all.len())]) else { continue };
        match (how % 6, &mut *place) {
            (0, _) => *place = from_elsewhere,
            (1, Value::Object(members)) => {
                let name = members.keys().nth(what.index(members.len().max(1))).cloned();
                name.and_then(|name| members.remove(&name));
            }
            (2, Value::Object(members)) => {
                members.insert("Unheard".to_owned(), from_elsewhere);
            }
            (3, Value::Array(items)) => items.extend(vec![from_elsewhere; 20]),
            (4, _) => *place = json!([place.take()]),
            _ => *place = values[what.index(values.len())].clone(),
        }
    }
    body
}

fn target(route: &Route, ids: &[Index], query: &[(Index, &str)]) -> String {
    let known = ["web".to_owned(), RUNNING.to_string(), NODE_1.to_string(), EVAL.to_string()];
    let long = "x".repeat(2_000);
    let ids = ids.iter().map(|at| {
        let at = at.index(known.len() + TEXTS.len() + 1);
        known.get(at).map(String::as_str).or_else(|| TEXTS.get(at - known.len()).copied()).unwrap_or(&long)
    });
    let path = path_names(route.path)
        .zip(ids)
        .fold(described_path(route), |path, (name, id)| path.replace(&format!("{{{name}}}"), id));
    let names: Vec<&str> = route.contract.parameters.iter().copied().chain(OF_LISTS).collect();
    // A blocking query is answered when something changes.
    let names: Vec<&str> = names.into_iter().filter(|name| !["index", "wait"].contains(name)).collect();
    let query = query.iter().map(|(at, value)| {
        format!("{}={}", names[at.index(names.len())], value.replace(' ', "+").replace('"', "%22"))
    });
    format!("{path}?{}", query.collect::<Vec<_>>().join("&"))
}

async fn check(router: &Router, request: Request<Body>, what: &str) -> Result<(), TestCaseError> {
    let answered = async {
        let response = send(router, request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (status, body)
    };
    let answered = tokio::time::timeout(ANSWER_WITHIN, answered).await;
    let (status, body) = answered.map_err(|_| TestCaseError::fail(format!("{what}: no answer")))?;
    let message = String::from_utf8_lossy(&body);
    prop_assert!(status != 500, "{what}: {status} {message}");
    prop_assert!(
        status < 400 || (1..REFUSAL_BYTES_MAX).contains(&message.len()),
        "{what}: {status}, {} bytes",
        message.len()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: ProptestConfig::default().cases * 8,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_is_answered(
        route in any::<Index>(),
        ids in prop::collection::vec(any::<Index>(), 3),
        query in prop::collection::vec((any::<Index>(), select(&TEXTS[..])), 0..4),
        edits in prop::collection::vec(any::<Edit>(), 0..5),
        damage in prop::option::weighted(0.1, (any::<Index>(), any::<u8>())),
    ) {
        let shown = &SHOWN[route.index(SHOWN.len())];
        let mut body = edited(shown.example.clone(), &edits).to_string().into_bytes();
        if let Some((at, byte)) = damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let (method, target) = (shown.route.verb.methods()[0].clone(), target(&shown.route, &ids, &query));
        let what = format!("{method} {target} {}", String::from_utf8_lossy(&body));
        // What a client cannot send is none of the server's cases.
        let Ok(request) = Request::builder().method(method).uri(target).body(Body::from(body)) else { return Ok(()) };
        runtime().block_on(async { check(&api(&world()), request, &what).await })?;
    }
}
