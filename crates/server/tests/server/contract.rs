//! Tests the contract (`/v1/openapi.json`), and checks every answer of these tests against it.

use std::sync::LazyLock;

use hyper::HeaderMap;
use serde_json::Value;

use crate::client::Running;

static CONTRACT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../src/openapi.json")).unwrap());

/// The contract of an answer that came; none for requests without one.
fn contract_of(method: &str, path: &str, status: u16) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let (template, path): (Vec<&str>, Vec<&str>) =
            (template.split('/').collect(), path.split('/').collect());
        let is_same = |(part, own): (&&str, &&str)| part.starts_with('{') && !own.is_empty() || part == own;
        template.len() == path.len() && template.iter().zip(&path).all(is_same)
    };
    let paths = CONTRACT["paths"].as_object().unwrap();
    // A path without variable parts wins over one with.
    let (_, operations) = paths
        .iter()
        .filter(|(template, _)| fits(template))
        .min_by_key(|(template, _)| template.matches('{').count())?;
    let operation = operations.get(method.to_ascii_lowercase())?;
    let response = operation["responses"].get(status.to_string());
    let response =
        response.unwrap_or_else(|| panic!("{method} {path} answers {status}, which is not in the contract"));
    Some(resolved(response))
}

fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(place) => CONTRACT.pointer(&place[1..]).unwrap(),
        None => value,
    }
}

/// Checks an answer's status and form; gives the schema of its body, if that is to be JSON.
pub(crate) fn check_head(
    method: &str,
    path: &str,
    status: u16,
    headers: &HeaderMap,
) -> Option<&'static Value> {
    let response = contract_of(method, path, status)?;
    let media_type = headers.get("content-type").map_or("", |field| field.to_str().unwrap());
    let media_type = media_type.split(';').next().unwrap_or_default();
    let content = response.get("content")?;
    let Some(form) = content.get(media_type) else {
        panic!("{method} {path} answers {status} as `{media_type}`, which is not in the contract");
    };
    media_type.ends_with("json").then(|| &form["schema"])
}

/// Checks a value against a schema of the contract, by its name.
pub(crate) fn check_named(value: &Value, name: &str) -> Result<(), String> {
    check_value(value, CONTRACT.pointer(&format!("/components/schemas/{name}")).unwrap())
}

/// Checks a value against a schema, of the kinds that the contract uses.
pub(crate) fn check_value(value: &Value, schema: &'static Value) -> Result<(), String> {
    let schema = resolved(schema);
    if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let faults: Vec<String> =
            choices.iter().filter_map(|choice| check_value(value, choice).err()).collect();
        return if faults.len() < choices.len() { Ok(()) } else { Err(faults.join("; ")) };
    }
    let is = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("the contract has a type `{other}`"),
    };
    let fits = match &schema["type"] {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        _ => true,
    };
    if !fits {
        return Err(format!("{value} is not {}", schema["type"]));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        if let Some(items) = schema.get("items") {
            check_value(item, items)?;
        }
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            return Err(format!("{value} has no {name}"));
        }
    }
    for (name, member) in object {
        match schema["properties"].get(name) {
            Some(schema) => check_value(member, schema).map_err(|fault| format!("{name}: {fault}"))?,
            None if schema["additionalProperties"] == false => {
                return Err(format!("{value} has `{name}`, which is not in the contract"));
            }
            None => {}
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_is_served_and_every_operation_is_there() {
    let server = Running::start().await;
    let served = server.get("/v1/openapi.json").await.json().await;
    assert_eq!(&served, &*CONTRACT);
    for (path, operations) in CONTRACT["paths"].as_object().unwrap() {
        let path = path.replace("{transport}", "xhr_send").replace(['{', '}'], "");
        for method in ["get", "post", "put", "delete", "patch"] {
            // The requests name nothing that exists, so that nothing is done; the test compares the handlers that
            // answer.
            let fields = [("content-type", "application/xml"), ("accept", "none/none")];
            let reply = server.send(&method.to_ascii_uppercase(), &path, &fields, "").await;
            let is_known = operations.get(method).is_some();
            let is_transport = path.ends_with("/xhr_send");
            if is_known && !is_transport {
                assert_ne!(reply.status, 405, "{method} {path}");
                let status = reply.status;
                let text = reply.text().await;
                assert!(status != 404 || !text.contains("nothing is at"), "{method} {path}: {text}");
            } else if !is_transport {
                assert_eq!(reply.status, 405, "{method} {path} is not in the contract");
            }
        }
    }
}
