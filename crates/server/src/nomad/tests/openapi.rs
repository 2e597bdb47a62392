//! The description of the API agrees with the table of routes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    exchange::{api, get, request, send},
    world::{EVAL, NODE_1, RUNNING, world},
};
use crate::{
    http::{
        openapi::path_names,
        routes::{RequestBody, ResponseBody, Route, Verb},
    },
    nomad::{parameters, table},
};

/// The description as clients get it.
async fn description() -> Value {
    let answer = get(&api(&world()), "/v1/openapi.json").await;
    assert_eq!(answer.status, 200);
    answer.json()
}

fn operation<'d>(description: &'d Value, route: &Route) -> &'d Value {
    &description["paths"][described_path(route)][route.verb.as_str().to_lowercase()]
}

#[tokio::test]
async fn every_route_is_described_and_nothing_else() {
    let description = description().await;
    assert_eq!(description["openapi"], "3.1.1");
    let paths = description["paths"].as_object().expect("it has paths");
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, operations)| {
            operations.as_object().into_iter().flatten().map(|(verb, _)| (path.clone(), verb.to_uppercase()))
        })
        .collect();
    let declared: BTreeSet<(String, String)> =
        table().routes.iter().map(|route| (described_path(route), route.verb.as_str().to_owned())).collect();
    assert_eq!(described, declared);
}

#[tokio::test]
async fn every_parameter_body_and_answer_is_described() {
    let description = description().await;
    for route in table().routes {
        let operation = operation(&description, &route);
        let what = format!("{} {}", route.verb.as_str(), route.path);
        let described: BTreeSet<&str> = operation["parameters"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|p| p["name"].as_str())
            .collect();
        let declared: BTreeSet<&str> =
            route.contract.parameters.iter().copied().chain(path_names(route.path)).collect();
        assert_eq!(described, declared, "{what}");
        let carried = &operation["requestBody"]["content"];
        let is_described = match route.contract.body {
            Some(RequestBody::Json(_)) => carried["application/json"]["schema"].is_object(),
            Some(RequestBody::Bytes) => carried["application/octet-stream"].is_object(),
            None => carried.is_null(),
        };
        assert!(is_described, "{what}");
        let answer = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let in_json = matches!(route.contract.answer, ResponseBody::Json(_) | ResponseBody::Lines(_));
        assert_eq!(answer.is_object(), in_json, "{what}");
    }
}

/// Handlers that read or answer what the table does not name panic in tests, which the router turns into status 500.
#[tokio::test]
async fn every_handler_keeps_to_the_table() {
    for route in table().routes {
        let target = target(&route);
        let method = route.verb.methods()[0].as_str();
        for body in ["", "{}"] {
            let request = request(method, &target, body);
            let answer = send(&api(&world()), request).await;
            assert_ne!(answer.status(), 500, "{method} {target} with body {body:?}");
        }
    }
}

/// The route's path as the description has it.
pub(super) fn described_path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

/// The route's path with the ids of things that are there.
fn target(route: &Route) -> String {
    let kinds = [
        ("/v1/job/", "web".to_owned()),
        ("/v1/evaluation/", EVAL.to_string()),
        ("/v1/node/{id}", NODE_1.to_string()),
        ("/v1/node/pool/", "default".to_owned()),
        ("/v1/namespace/", "default".to_owned()),
    ];
    let known = kinds.into_iter().find(|(start, _)| route.path.starts_with(start));
    let id = known.map_or_else(|| RUNNING.to_string(), |(_, id)| id);
    path_names(route.path).fold(described_path(route), |path, name| path.replace(&format!("{{{name}}}"), &id))
}

#[tokio::test]
async fn operations_have_names_of_their_own() {
    let description = description().await;
    let mut seen = BTreeSet::new();
    for route in table().routes {
        let id = operation(&description, &route)["operationId"].as_str().expect("it has a name").to_owned();
        assert!(seen.insert(id.clone()), "{id}");
    }
}

#[tokio::test]
async fn every_route_has_one_operation_and_a_name_that_reads_well() {
    let table = table();
    for route in &table.routes {
        let named = table.operations.iter().filter(|operation| operation.is_of(route)).count();
        assert_eq!(named, 1, "{} {}", route.verb.as_str(), route.path);
    }
    assert_eq!(table.operations.len(), table.routes.len());
    for operation in table.operations {
        let is_sound = operation.id.starts_with(|c: char| c.is_ascii_lowercase())
            && operation.id.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(is_sound, "{}", operation.id);
        let verb = match operation.verb {
            // Garbage collection is asked for with a GET by Nomad's clients.
            Verb::Get => ["list", "read", "explain", "stream", "exec", "stat", "save", "collect"].as_slice(),
            // A write may be called by any verb.
            Verb::Put => [""].as_slice(),
            Verb::Delete => ["delete", "stop", "remove", "untag"].as_slice(),
        };
        assert!(verb.iter().any(|verb| operation.id.starts_with(verb)), "{}", operation.id);
    }
}

/// Whoever copies an example copies no member that is not read.
#[tokio::test]
async fn examples_hold_what_their_schemas_know() {
    let description = description().await;
    let (mut request, mut answered) = (0, 0);
    for route in table().routes {
        let operation = operation(&description, &route);
        let what = format!("{} {}", route.verb.as_str(), route.path);
        let answers = &operation["responses"]["200"];
        for (part, count) in [(&operation["requestBody"], &mut request), (answers, &mut answered)] {
            let content = &part["content"]["application/json"];
            if !content["example"].is_null() {
                *count += 1;
                check_example(&description, &content["schema"], &content["example"], &what);
            }
        }
        let is_object = matches!(route.contract.body, Some(RequestBody::Json(_)));
        let optional = ["/v1/acl/bootstrap"].contains(&route.path);
        let has_example = operation["requestBody"]["content"]["application/json"]["example"].is_object();
        assert!(optional || has_example == is_object, "{what}: an example of a body, or none");
    }
    assert!(request > 30 && answered > 130, "{request} bodies, {answered} answers");
}

#[tokio::test]
async fn what_an_operation_shows_is_the_example_of_its_parameters() {
    let description = description().await;
    let of = |method: &str, path: &str, name: &str| {
        let parameters = description["paths"][path][method]["parameters"].as_array().expect("parameters");
        let found = parameters.iter().find(|parameter| parameter["name"] == name);
        found.unwrap_or_else(|| panic!("{path} has no {name}"))["example"].clone()
    };
    assert_eq!(of("get", "/v1/job/{id}", "id"), "web");
    assert_eq!(of("get", "/v1/var/{path}", "path"), "app/db");
    assert_eq!(of("put", "/v1/job/{id}/versions/{name}/tag", "name"), "golden");
    assert_eq!(of("get", "/v1/job/{id}/submission", "version"), 0);
    assert_eq!(of("get", "/v1/nodes", "resources"), true);
    assert_eq!(of("get", "/v1/event/stream", "topic"), serde_json::json!(["Job:web"]));
    assert_eq!(of("get", "/v1/client/allocation/{id}/exec", "command"), "[\"ls\"]");
    assert!(of("get", "/v1/allocation/{id}", "id").as_str().is_some_and(|id| id.len() == 36));
    let paths = description["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|path| path.as_object().expect("operations").values());
    for operation in operations {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let is_shown = parameter["example"].is_string() || parameter["in"] != "path";
            assert!(is_shown, "{}: {parameter}", operation["operationId"]);
        }
    }
}

fn check_example(description: &Value, schema: &Value, example: &Value, what: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = description.pointer(reference.trim_start_matches('#')).expect("it leads somewhere");
        return check_example(description, schema, example, what);
    }
    let either = schema["anyOf"].as_array().into_iter().flatten();
    if let Some(one) = either.clone().find(|one| one["$ref"].is_string() || one["type"] != "null") {
        return check_example(description, one, example, what);
    }
    for (name, member) in example.as_object().into_iter().flatten() {
        let what = format!("{what} {name}");
        let (known, others) = (&schema["properties"][name], &schema["additionalProperties"]);
        assert!(known.is_object() || others.is_object(), "{what} is not in the schema: {schema}");
        check_example(description, if known.is_object() { known } else { others }, member, &what);
    }
    for item in example.as_array().into_iter().flatten() {
        check_example(description, &schema["items"], item, what);
    }
}

/// One and many are of one kind, so that a client that is made from the description has one part for both.
#[tokio::test]
async fn operations_are_sorted_by_what_they_are_about() {
    let description = description().await;
    let mut tags: BTreeMap<String, usize> = BTreeMap::new();
    for route in table().routes {
        let tagged = operation(&description, &route)["tags"].as_array().expect("tags").clone();
        assert_eq!(tagged.len(), 1, "{}", route.path);
        *tags.entry(tagged[0].as_str().expect("a word").to_owned()).or_default() += 1;
    }
    assert!(tags["jobs"] > 20 && tags["variables"] > 2, "{tags:?}");
    let described = description["tags"].as_array().expect("tags").iter();
    let described: Vec<&str> = described.map(|tag| tag["name"].as_str().expect("a name")).collect();
    let undescribed: Vec<_> = tags.keys().filter(|tag| !described.contains(&&***tag)).collect();
    assert!(undescribed.is_empty() && described.len() == tags.len(), "{undescribed:?} of {described:?}");
    let singular = tags.keys().find(|tag| tags.contains_key(&format!("{tag}s")));
    assert_eq!(singular, None, "{tags:?}");
}

#[tokio::test]
async fn refusals_are_described() {
    let description = description().await;
    let refused = &description["paths"]["/v1/jobs"]["get"]["responses"]["default"]["content"];
    assert_eq!(refused["application/json"]["schema"]["$ref"], "#/components/schemas/ErrorBody");
    assert_eq!(refused["text/plain"]["schema"]["type"], "string");
    assert!(description["components"]["schemas"]["ErrorBody"]["properties"]["Error"].is_object());
}

#[tokio::test]
async fn every_reference_leads_somewhere() {
    let description = description().await;
    let mut references = Vec::new();
    collect_references(&description, &mut references);
    assert!(references.len() > 100, "{} references", references.len());
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("it points into the description");
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
}

/// Those who make clients from the description refuse such.
#[tokio::test]
async fn no_schema_is_a_truth_value() {
    let description = description().await;
    let schemas = description["components"]["schemas"].as_object().expect("there are some");
    let is_one = |key: &str| matches!(key, "schema" | "items" | "additionalProperties");
    let mut unvisited: Vec<(String, &Value)> = vec![("paths".into(), &description["paths"])];
    unvisited.extend(schemas.iter().map(|(name, schema)| (name.clone(), schema)));
    while let Some((what, value)) = unvisited.pop() {
        for (key, member) in value.as_object().into_iter().flatten() {
            let what = format!("{what}/{key}");
            let in_properties = what.ends_with(&format!("properties/{key}"));
            assert!(!(member.is_boolean() && (is_one(key) || in_properties)), "{what}");
            unvisited.push((what, member));
        }
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            unvisited.push((format!("{what}/{at}"), item));
        }
    }
}

#[tokio::test]
async fn a_job_is_described_with_all_that_it_may_hold() {
    let description = description().await;
    let schemas = &description["components"]["schemas"];
    let job = &schemas["Job"];
    assert!(job["allOf"].is_null(), "some generators take it for the one type it refers to");
    assert_eq!(job["properties"]["TaskGroups"]["items"]["$ref"], "#/components/schemas/JobGroup");
    assert!(schemas["JobTask"]["properties"]["Env"].is_object());
    let served = get(&api(&world()), "/v1/job/web").await.json();
    for name in served.as_object().expect("an object").keys() {
        assert!(job["properties"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn jobs_within_other_objects_are_described_as_jobs() {
    let description = description().await;
    let schemas = &description["components"]["schemas"];
    let reference = "#/components/schemas/Job";
    for (name, member) in
        [("JobRegister", "Job"), ("JobPlan", "Job"), ("JobValidate", "Job"), ("Allocation", "Job")]
    {
        // Types that no route names have no schema.
        if schemas[name].is_null() {
            continue;
        }
        let described = schemas[name]["properties"][member].to_string();
        assert!(described.contains(&format!("\"{reference}\"")), "{name}.{member}: {described}");
    }
    assert_eq!(schemas["JobVersions"]["properties"]["Versions"]["items"]["$ref"], reference);
}

fn collect_references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| collect_references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

#[test]
fn the_parameters_of_the_table_are_known_and_all_are_used() {
    let used: BTreeSet<&str> =
        table().routes.iter().flat_map(|route| route.contract.parameters.clone()).collect();
    let known: BTreeSet<&str> = parameters::PARAMETERS.iter().map(|parameter| parameter.name).collect();
    assert_eq!(used, known);
    assert!(parameters::PARAMETERS.is_sorted_by_key(|parameter| parameter.name), "they are listed by name");
}
