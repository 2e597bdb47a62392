//! `GET /v1/openapi.json`: the description of this API, made from the table of routes and the types that cross the wire.
//! See <https://spec.openapis.org/oas/v3.1.1>.

use berth_api::http::ErrorBody;
use schemars::{
    Schema, SchemaGenerator,
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform},
};
use serde_json::{Map, Value, json};

use super::{
    call::{Call, Reply},
    examples::{self, Examples},
    reply,
    routes::{
        Operation, RequestBody, ResponseBody, Route, Shape, Table,
        parameters::{Parameter, ParameterKind},
        tags::{TAGS, tag_of},
    },
};

const VERSION: &str = "3.1.1";
const SCHEMAS: &str = "/components/schemas";

/// `GET /v1/openapi.json`
pub(crate) async fn read(call: Call) -> Reply {
    reply::json(&call.query, call.api.description.get_or_init(|| description(&call.api.table)))
}

/// Describes what is served.
fn description(table: &Table) -> Value {
    let (mut schemas, examples) = (generator(), Examples::of(table));
    let mut paths: Map<String, Value> = Map::new();
    for route in &table.routes {
        // What stands for several parts of a path is written like what stands for one.
        let operations = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        operations[route.verb.as_str().to_lowercase()] = operation(table, route, &examples, &mut schemas);
    }
    let tags = TAGS.iter().map(|tag| json!({ "name": tag.name, "description": tag.summary }));
    let tags: Vec<Value> = tags.collect();
    json!({
        "openapi": VERSION,
        "info": {
            "title": "Berth",
            "summary": "The HTTP API of Berth: paths and JSON that clients of Nomad know.",
            "description": "PUT may be written as POST. Errors are plain text, or JSON for requests that accept application/json.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "tags": tags,
        "paths": paths,
        // Which of them a server asks for is a setting of it, and a policy of its operators.
        "security": [{}, { "token": [] }, { "bearer": [] }],
        "components": {
            "schemas": definitions(table, &mut schemas),
            "securitySchemes": {
                "token": { "type": "apiKey", "in": "header", "name": "X-Nomad-Token" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

/// What operations refer to.
fn definitions(table: &Table, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let mut all = schemas.take_definitions(true);
    for (name, definition) in (table.definitions)(&format!("#{SCHEMAS}/")) {
        match all.get_mut(&name) {
            // What a type says of it holds too.
            Some(Value::Object(own)) => merge(own, definition),
            _ => drop(all.insert(name, definition)),
        }
    }
    all
}

/// Adds to a schema what another says of the same, its members beside those that it has.
fn merge(own: &mut Map<String, Value>, other: Value) {
    let Value::Object(other) = other else { return };
    for (key, value) in other {
        if key == "properties"
            && let (Some(Value::Object(members)), Value::Object(more)) = (own.get_mut(&key), &value)
        {
            members.extend(more.clone());
        } else {
            own.insert(key, value);
        }
    }
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = SCHEMAS.into())
        .with_transform(RecursiveTransform(plain))
        .into_generator()
}

/// Every member is at its type's own default when it is left out: to repeat that everywhere says nothing. And a schema
/// that is just `true` is refused by many who make clients from descriptions: an empty one means the same.
fn plain(schema: &mut Schema) {
    schema.ensure_object().remove("default");
}

fn operation(table: &Table, route: &Route, examples: &Examples, schemas: &mut SchemaGenerator) -> Value {
    let is_declared = |parameter: &&Parameter| route.contract.parameters.contains(&parameter.name);
    let documented = table.operations.iter().find(|operation| operation.is_of(route));
    let of_query =
        table.parameters.iter().filter(is_declared).map(|declared| parameter(declared, documented));
    let parameters: Vec<Value> = path_parameters(route.path, documented).chain(of_query).collect();
    let mut operation = json!({
        "operationId": documented.map_or(route.path, |operation| operation.id),
        "summary": route.summary,
        "tags": [tag_of(route.path).map_or(route.path, |tag| tag.name)],
        "x-capability": format!("{:?}", route.capability),
        "parameters": parameters,
        "responses": responses(route, documented, examples, schemas),
    });
    if let Some(body) = route.contract.body {
        let content = match body {
            RequestBody::Json(shape) => {
                let example = documented.and_then(|operation| examples::value(operation.body));
                with_example(json_content(shape, schemas), example)
            }
            RequestBody::Bytes => bytes_content(),
        };
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

/// Content in JSON, with an example of it where there is one.
fn with_example(mut content: Value, example: Option<Value>) -> Value {
    if let Some(example) = example {
        content["application/json"]["example"] = example;
    }
    content
}

/// The names of the parts of a path that stand for something.
pub(crate) fn path_names(path: &str) -> impl Iterator<Item = &str> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| name.trim_start_matches('*'))
}

fn path_parameters(path: &str, documented: Option<&Operation>) -> impl Iterator<Item = Value> {
    path_names(path).map(move |name| {
        let mut parameter =
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
        if let Some(example) = documented.and_then(|operation| examples::of_path(operation, name)) {
            parameter["example"] = example.into();
        }
        parameter
    })
}

fn parameter(parameter: &Parameter, documented: Option<&Operation>) -> Value {
    let schema = match parameter.kind {
        ParameterKind::Text | ParameterKind::Duration => json!({ "type": "string" }),
        ParameterKind::Number => json!({ "type": "integer", "minimum": 0 }),
        ParameterKind::Flag => json!({ "type": "boolean" }),
        ParameterKind::Word(words) => json!({ "type": "string", "enum": words, "default": words[0] }),
        ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
    };
    let mut described =
        json!({ "name": parameter.name, "in": "query", "description": parameter.summary, "schema": schema });
    if let Some(example) = documented.and_then(|operation| examples::of_parameter(operation, parameter)) {
        described["example"] = example;
    }
    described
}

fn responses(
    route: &Route,
    documented: Option<&Operation>,
    examples: &Examples,
    schemas: &mut SchemaGenerator,
) -> Value {
    let text = json!({ "text/plain": { "schema": { "type": "string" } } });
    let error = schemas.subschema_for::<ErrorBody>();
    let content = json!({ "application/json": { "schema": error }, "text/plain": text["text/plain"] });
    let failure = json!({ "description": "What is wrong, and what to do about it", "content": content });
    let (status, answer) = match &route.contract.answer {
        ResponseBody::Json(shape) => {
            let content = json_content(*shape, schemas);
            let own = documented.and_then(|operation| examples::value(operation.answer));
            let content = with_example(content, own.or_else(|| examples.of_type(shape.type_name)));
            ("200", json!({ "description": "JSON", "content": content }))
        }
        ResponseBody::Lines(shape) => {
            let content = json!({ "application/json": { "schema": schema(shape, schemas) } });
            ("200", json!({ "description": "JSON, one object a line, without an end", "content": content }))
        }
        ResponseBody::Bytes => ("200", json!({ "description": "Bytes", "content": bytes_content() })),
        ResponseBody::Socket { says, hears } => {
            let messages = json!({ "client": schema(says, schemas), "server": schema(hears, schemas) });
            let description = "A WebSocket, with a JSON object in each message";
            ("101", json!({ "description": description, "x-messages": messages }))
        }
        ResponseBody::Text => ("200", json!({ "description": "Text", "content": text })),
        ResponseBody::Empty => {
            let is_no_content = documented.is_some_and(|operation| operation.status == 204);
            (if is_no_content { "204" } else { "200" }, json!({ "description": "Done" }))
        }
    };
    json!({ status: answer, "default": failure })
}

/// A type's schema where it is used, perhaps as a reference.
fn schema(shape: &Shape, schemas: &mut SchemaGenerator) -> Schema {
    let mut schema = (shape.schema)(schemas);
    RecursiveTransform(plain).transform(&mut schema);
    schema
}

fn bytes_content() -> Value {
    json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } })
}

fn json_content(shape: Shape, schemas: &mut SchemaGenerator) -> Value {
    json!({ "application/json": { "schema": schema(&shape, schemas) } })
}
