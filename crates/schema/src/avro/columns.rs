//! The schema of rows whose columns have known types.

use serde_json::{Value, json};
use swiftwater_event::{Primitive, Type};

use crate::SchemaError;

/// The text of a schema: a record with a field per column, in their order, each of which may be null. The record's name is the
/// given one, with `_` in the place of each character that no name of Avro has. Fails for a column whose name is none of
/// Avro, or whose type is not known.
pub(crate) fn schema_of_columns(name: &str, columns: &[(Box<str>, Type)]) -> Result<String, SchemaError> {
    let mut fields = Vec::new();
    for (column, ty) in columns {
        if !is_name(column) {
            return Err(SchemaError::new(format!(
                "`{column}` is no name of a field in Avro, which has letters, digits and `_`: name the column with AS"
            )));
        }
        let ty = of_type(ty).ok_or_else(|| {
            SchemaError::new(format!("the type of column `{column}` is not known, or not all of it"))
        })?;
        fields.push(json!({ "name": &**column, "type": ["null", ty], "default": null }));
    }
    Ok(json!({ "type": "record", "name": record_name(name), "fields": fields }).to_string())
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && text.chars().all(is_part)
}

fn record_name(text: &str) -> String {
    let name: String = text.chars().map(|c| if is_part(c) { c } else { '_' }).collect();
    if is_name(&name) { name } else { format!("_{name}") }
}

fn of_type(ty: &Type) -> Option<Value> {
    Some(match ty {
        Type::Any => return None,
        Type::Primitive(primitive) => match primitive {
            Primitive::Boolean => json!("boolean"),
            Primitive::Integer => json!("int"),
            Primitive::Long => json!("long"),
            Primitive::Float => json!("float"),
            Primitive::Double => json!("double"),
            Primitive::String => json!("string"),
            Primitive::Timestamp(_) => json!({ "type": "long", "logicalType": "timestamp-micros" }),
        },
        Type::List(items) => json!({ "type": "array", "items": ["null", of_type(items)?] }),
        Type::Map(values) => json!({ "type": "map", "values": ["null", of_type(values)?] }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn columns_become_fields_that_may_be_null() {
        let columns = [
            ("a".into(), Type::LONG),
            ("b_2".into(), Type::list(Type::map(Type::STRING).unwrap()).unwrap()),
            ("c".into(), Type::parse("TIMESTAMP(NS)").unwrap()),
        ];
        let schema: Value = serde_json::from_str(&schema_of_columns("7 a.b-c", &columns).unwrap()).unwrap();
        let of = |ty: Value, name: &str| json!({"name": name, "type": ["null", ty], "default": null});
        let list = json!({"type": "array", "items": ["null", {"type": "map", "values": ["null", "string"]}]});
        let time = json!({"type": "long", "logicalType": "timestamp-micros"});
        let fields = [of(json!("long"), "a"), of(list, "b_2"), of(time, "c")];
        assert_eq!(schema, json!({"type": "record", "name": "_7_a_b_c", "fields": fields}));
    }

    #[test]
    fn columns_without_a_name_or_type_in_avro_are_refused() {
        let refused = |name: &str, ty: Type| schema_of_columns("t", &[(name.into(), ty)]).unwrap_err();
        assert!(refused("a b", Type::LONG).to_string().starts_with("`a b` is no name of a field in Avro"));
        assert!(refused("", Type::LONG).to_string().starts_with("`` is no name"));
        let any = Type::list(Type::Any).unwrap();
        assert!(refused("a", any).to_string().starts_with("the type of column `a` is not known"));
    }
}
