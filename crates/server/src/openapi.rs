//! Serves `/v1/openapi.json`, the API contract. Tests check every answer of the server's tests against it. Endpoints, which
//! are declared while the server runs, are added to it.

#[cfg(feature = "history")]
mod endpoints;

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
#[cfg(feature = "history")]
use serde_json::Value;

#[cfg(feature = "history")]
use crate::body::heavy;
use crate::server::Shared;

/// OpenAPI 3.1; the one place where it is written.
const CONTRACT: &str = include_str!("openapi.json");

#[cfg(not(feature = "history"))]
pub(crate) async fn contract(_: State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], CONTRACT).into_response()
}

#[cfg(feature = "history")]
pub(crate) async fn contract(State(shared): State<Arc<Shared>>) -> Response {
    let all = crate::endpoints::all(&shared);
    let form = [(header::CONTENT_TYPE, "application/json")];
    match serde_json::from_str::<Value>(CONTRACT) {
        Ok(mut contract) if !all.is_empty() => {
            let text = heavy(usize::MAX, || {
                endpoints::add(&mut contract, &all);
                contract.to_string()
            });
            (form, text).into_response()
        }
        _ => (form, CONTRACT).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::CONTRACT;

    #[test]
    fn every_route_is_in_the_contract_and_no_other() {
        let contract: Value = serde_json::from_str(CONTRACT).unwrap();
        let told: BTreeSet<&str> =
            contract["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, crate::routes::routes().collect());
    }

    #[test]
    fn every_operation_has_its_own_name_and_every_reference_leads_somewhere() {
        let contract: Value = serde_json::from_str(CONTRACT).unwrap();
        let mut names = BTreeSet::new();
        for operation in
            contract["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap())
        {
            let name = operation.1["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name), "{}", operation.1);
        }
        let mut waiting = vec![&contract];
        while let Some(value) = waiting.pop() {
            if let Some(place) = value.get("$ref").and_then(Value::as_str) {
                assert!(contract.pointer(&place[1..]).is_some(), "{place}");
            }
            waiting.extend(value.as_object().into_iter().flatten().map(|(_, value)| value));
            waiting.extend(value.as_array().into_iter().flatten());
        }
    }
}
