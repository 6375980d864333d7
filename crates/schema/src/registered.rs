//! Schemas as a registry answers them, in JSON.

use serde_json::Value;

use crate::SchemaError;

/// The kind of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaKind {
    /// Avro.
    Avro,
    /// Protobuf.
    Protobuf,
}

impl SchemaKind {
    /// The name in messages.
    pub fn text(self) -> &'static str {
        match self {
            SchemaKind::Avro => "Avro",
            SchemaKind::Protobuf => "Protobuf",
        }
    }
}

/// A schema that another one refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchemaReference {
    /// The name by which it is imported.
    pub name: String,
    /// The subject that has it.
    pub subject: String,
    /// Its version within the subject.
    pub version: u64,
}

/// A schema as a registry answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its kind; the error is the name of another kind.
    pub kind: Result<SchemaKind, String>,
    /// Its text.
    pub text: String,
    /// The schemas that it refers to.
    pub references: Vec<SchemaReference>,
}

impl Registered {
    /// Reads the answer to `GET /schemas/ids/ID` or `GET /subjects/SUBJECT/versions/VERSION`.
    pub fn parse(answer: &[u8]) -> Result<Registered, SchemaError> {
        let fault = |what: &str| SchemaError::new(format!("the answer is none of a schema registry: {what}"));
        let answer: Value = serde_json::from_slice(answer).map_err(|_| fault("it is no JSON"))?;
        let text = answer.get("schema").and_then(Value::as_str).ok_or_else(|| fault("it has no `schema`"))?;
        // A registry leaves the type of Avro out.
        let kind = match answer.get("schemaType") {
            None | Some(Value::Null) => Ok(SchemaKind::Avro),
            Some(Value::String(kind)) if kind == "AVRO" => Ok(SchemaKind::Avro),
            Some(Value::String(kind)) if kind == "PROTOBUF" => Ok(SchemaKind::Protobuf),
            Some(Value::String(kind)) => Err(kind.clone()),
            Some(_) => return Err(fault("`schemaType` is no text")),
        };
        let references = match answer.get("references") {
            None | Some(Value::Null) => Vec::new(),
            Some(references) => {
                let references = references.as_array().ok_or_else(|| fault("`references` is no list"))?;
                let reference = |value: &Value| {
                    let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
                    let version = value.get("version")?.as_u64()?;
                    Some(SchemaReference { name: text("name")?, subject: text("subject")?, version })
                };
                let all: Option<Vec<SchemaReference>> = references.iter().map(reference).collect();
                all.ok_or_else(|| fault("a reference lacks its name, subject or version"))?
            }
        };
        Ok(Registered { kind, text: text.to_owned(), references })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn answers_of_a_registry_are_read() {
        let avro = Registered::parse(br#"{"schema":"\"string\"","id":3}"#).unwrap();
        assert_eq!(
            avro,
            Registered { kind: Ok(SchemaKind::Avro), text: "\"string\"".to_owned(), references: vec![] }
        );
        let text = br#"{"schema":"x","schemaType":"PROTOBUF","references":[{"name":"a.proto","subject":"s","version":2}]}"#;
        let protobuf = Registered::parse(text).unwrap();
        let (name, subject) = ("a.proto".to_owned(), "s".to_owned());
        assert_eq!(protobuf.kind, Ok(SchemaKind::Protobuf));
        assert_eq!(protobuf.references, [SchemaReference { name, subject, version: 2 }]);
        let other = Registered::parse(br#"{"schema":"{}","schemaType":"JSON"}"#).unwrap();
        assert_eq!(other.kind, Err("JSON".to_owned()));
        for text in [
            "<html>",
            "{}",
            r#"{"schema":1}"#,
            r#"{"schema":"x","schemaType":1}"#,
            r#"{"schema":"x","references":[{"name":"a"}]}"#,
        ] {
            let error = Registered::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("the answer is none of a schema registry: "), "{error}");
        }
    }
}
