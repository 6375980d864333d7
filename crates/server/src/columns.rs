//! The columns of a result as clients get them: name, type and role.

use serde_json::{Value, json};
use swiftwater_lang::ColumnRole;
use swiftwater_runtime::QueryColumn;

/// The columns of a live query.
pub(crate) fn columns_json(columns: &[QueryColumn]) -> Value {
    let ty = |column: &QueryColumn| column.ty.as_ref().map(|ty| ty.to_string());
    columns.iter().map(|column| column_json(&column.name, ty(column), column.role)).collect()
}

/// One column; a type that only the events tell is left out.
pub(crate) fn column_json(name: &str, ty: Option<String>, role: ColumnRole) -> Value {
    let mut json = json!({"name": name, "role": role.name()});
    if let Some(ty) = ty {
        json["type"] = ty.into();
    }
    if let ColumnRole::Measure(Some(aggregate)) = role {
        json["aggregate"] = aggregate.into();
    }
    json
}
