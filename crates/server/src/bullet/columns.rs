//! `GET columns`: the declared fields as a JSON API document.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use swiftwater_event::Type;

use crate::server::Shared;

/// The fields that the setting `bullet.schema` declares; an empty list where it declares none.
pub(crate) async fn columns(State(shared): State<Arc<Shared>>) -> Response {
    let fields = shared.config.bullet.schema.iter().flat_map(|schema| schema.fields());
    let data: Vec<Value> = fields
        .map(|(name, ty)| {
            json!({"id": name, "type": "column", "attributes": {"name": name, "type": type_name(ty)}})
        })
        .collect();
    let text = json!({"data": data, "meta": {"version": "1"}}).to_string();
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A type as Bullet names it: `LIST[MAP[STRING]]` is `STRING_MAP_LIST`.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::List(inner) => format!("{}_LIST", type_name(inner)),
        Type::Map(inner) => format!("{}_MAP", type_name(inner)),
        Type::Any => "UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_in_bullet() {
        for name in ["STRING", "LONG_LIST", "STRING_MAP_LIST", "DOUBLE_MAP_MAP", "UNKNOWN"] {
            let ty = Type::parse(name).unwrap_or(Type::Any);
            assert_eq!(type_name(&ty), name);
        }
    }
}
