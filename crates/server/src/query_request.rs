//! Parses a query as a client writes it: BQL as text, or JSON.
//!
//! ```text
//! {"query": "SELECT …", "parameters": [1, "x"], "dialect": "native"}      BQL; $1 and $2 stand for the values
//! {"prepared": "id", "parameters": [1, "x"]}                              a query of /v1/prepared
//! {"saved": "name", "parameters": [1, "x"]}                               a query of /v1/saved/queries
//! {"filters": […], "aggregation": {…}, …}                                 Bullet's JSON form: any other object
//! ```

use axum::http::{HeaderMap, header};
use serde_json::{Map, Value};
use swiftwater_lang::{Dialect, plan::Literal};
use swiftwater_runtime::{QueryForm, SubmitOptions};

use crate::{
    body::unsupported,
    parameters::{bad, cut},
    problem::Problem,
};

/// Values that one query may have.
const PARAMETERS_MAX: usize = 1000;
const FORM: &str = "Write {\"query\": \"SELECT …\", \"parameters\": []}, or Bullet's JSON form.";

/// A client's request for a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryRequest {
    pub(crate) source: Source,
    /// If none is stated, that of the prepared or saved query, or native.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) parameters: Vec<Literal>,
}

/// The source of a query's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Bql(String),
    /// Bullet's JSON form.
    Json(String),
    /// The prepared query of this id.
    Prepared(String),
    /// The saved query of this name.
    Saved(String),
}

impl QueryRequest {
    /// Out of a request's body, written as the fields say. `dialect` is that of the request's parameters.
    pub(crate) fn of_body(
        headers: &HeaderMap,
        body: Vec<u8>,
        dialect: Option<Dialect>,
    ) -> Result<QueryRequest, Problem> {
        if !is_json(headers)? {
            let text = String::from_utf8(body).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                Problem::bad_request(format!("the query is not UTF-8 at byte {at}"))
            })?;
            return Ok(QueryRequest { source: Source::Bql(text), dialect, parameters: Vec::new() });
        }
        let value: Value = serde_json::from_slice(&body).map_err(|error| {
            let problem = Problem::bad_request(format!("the body is not valid JSON: {error}"));
            problem.with("line", error.line()).with("column", error.column()).hint(FORM)
        })?;
        let is_wrapped = ["query", "prepared", "saved"].iter().any(|name| value.get(name).is_some());
        if value.is_object() && !is_wrapped {
            // As it was written, so that faults in it have their places.
            let text = String::from_utf8(body).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
            return Ok(QueryRequest { source: Source::Json(text), dialect, parameters: Vec::new() });
        }
        QueryRequest::of_json(value, dialect)
    }

    /// Out of `{"query"}` or `{"prepared"}`.
    pub(crate) fn of_json(value: Value, dialect: Option<Dialect>) -> Result<QueryRequest, Problem> {
        let Value::Object(members) = value else {
            return Err(Problem::bad_request("the body is not a JSON object").hint(FORM));
        };
        let not = |name: &str, what: &str| {
            Problem::bad_request(format!("member `{name}` is not {what}")).hint(FORM)
        };
        let mut source = None;
        let mut ask = QueryRequest { source: Source::Bql(String::new()), dialect, parameters: Vec::new() };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("query" | "prepared" | "saved", _) if source.is_some() => {
                    return Err(Problem::bad_request("`query`, `prepared` and `saved` exclude each other"));
                }
                ("query", Value::String(text)) => source = Some(Source::Bql(text)),
                ("prepared", Value::String(id)) => source = Some(Source::Prepared(id)),
                ("saved", Value::String(name)) => source = Some(Source::Saved(name)),
                ("query" | "prepared" | "saved", _) => return Err(not(&name, "a string")),
                ("parameters", Value::Null) => {}
                ("parameters", Value::Array(values)) => ask.parameters = literals(values)?,
                ("parameters", _) => return Err(not("parameters", "a list")),
                ("dialect", Value::String(name)) => {
                    let stated = dialect_of(&name)?;
                    if ask.dialect.is_some_and(|other| other != stated) {
                        return Err(bad("the body states another dialect than the parameter `dialect`"));
                    }
                    ask.dialect = Some(stated);
                }
                ("dialect", _) => return Err(not("dialect", "a string")),
                (other, _) => {
                    let detail = format!("no member `{}` beside `query`", cut(other));
                    let members = "Members are: query, prepared or saved, parameters, dialect.";
                    return Err(Problem::bad_request(detail).hint(members));
                }
            }
        }
        ask.source =
            source.ok_or_else(|| Problem::bad_request("the body has no member `query`").hint(FORM))?;
        Ok(ask)
    }

    /// The text; of a prepared or saved query there is none here.
    pub(crate) fn text(&self) -> &str {
        match &self.source {
            Source::Bql(text) | Source::Json(text) => text,
            Source::Prepared(_) | Source::Saved(_) => "",
        }
    }

    /// The way it is submitted.
    pub(crate) fn options(&self) -> SubmitOptions {
        SubmitOptions {
            dialect: self.dialect.unwrap_or_default(),
            form: match self.source {
                Source::Json(_) => QueryForm::Json,
                Source::Bql(_) | Source::Prepared(_) | Source::Saved(_) => QueryForm::Bql,
            },
            parameters: self.parameters.clone(),
            ..SubmitOptions::default()
        }
    }

    /// The request as JSON, without its parameters.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("query".to_owned(), self.text().into());
        let dialect = match self.dialect.unwrap_or_default() {
            Dialect::Native => "native",
            Dialect::Bullet => "bullet",
        };
        object.insert("dialect".to_owned(), dialect.into());
        object
    }
}

/// The dialect of a name.
pub(crate) fn dialect_of(name: &str) -> Result<Dialect, Problem> {
    match name {
        "native" => Ok(Dialect::Native),
        "bullet" => Ok(Dialect::Bullet),
        other => {
            Err(bad(format!("there is no dialect `{}`", cut(other))).hint("Dialects are: native, bullet."))
        }
    }
}

/// True if a body is JSON; else it is text.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<bool, Problem> {
    let Some(field) = headers.get(header::CONTENT_TYPE) else { return Ok(false) };
    let field = field.to_str().unwrap_or("?");
    let name = field.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match name.as_str() {
        // curl -d says form-urlencoded of everything.
        "" | "text/plain" | "application/x-www-form-urlencoded" => Ok(false),
        "application/json" => Ok(true),
        _ => Err(unsupported(format!("a query cannot be written as `{}`", cut(field)))
            .hint("Types are: text/plain, application/json.")),
    }
}

pub(crate) fn literals(values: Vec<Value>) -> Result<Vec<Literal>, Problem> {
    if values.len() > PARAMETERS_MAX {
        let detail = format!("the query has {} parameters, limit is {PARAMETERS_MAX}", values.len());
        return Err(Problem::bad_request(detail));
    }
    let literal = |(at, value)| {
        Literal::of_json(&value).map_err(|what| {
            let hint = "Parameters are texts, numbers, true, false and null.";
            Problem::bad_request(format!("parameter ${} is {what}", at + 1)).hint(hint)
        })
    };
    values.into_iter().enumerate().map(literal).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<QueryRequest, Value> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        QueryRequest::of_body(&headers, body.to_string().into_bytes(), None)
            .map_err(|problem| problem.to_json())
    }

    #[test]
    fn every_form_of_a_query_is_read() {
        let ask = read(&json!({"query": "x", "parameters": [1, 3_000_000_000_i64, 1.0, "a", true, null]}));
        let expected = [
            Literal::Integer(1),
            Literal::Long(3_000_000_000),
            Literal::Double(1.0),
            Literal::String("a".into()),
            Literal::Boolean(true),
            Literal::Null,
        ];
        assert_eq!(ask.as_ref().map(|ask| ask.parameters.as_slice()), Ok(&expected[..]));
        assert_eq!(read(&json!({})).map(|ask| ask.source), Ok(Source::Json("{}".to_owned())));
        let ask = read(&json!({"prepared": "p", "dialect": "bullet"})).unwrap();
        assert_eq!((ask.source, ask.dialect), (Source::Prepared("p".to_owned()), Some(Dialect::Bullet)));
    }

    #[test]
    fn faults_of_the_body_are_told() {
        let check = |body: Value, expected: &str| {
            assert_eq!(read(&body).unwrap_err()["detail"], expected, "{body}");
        };
        check(json!([]), "the body is not a JSON object");
        check(json!({"query": 1}), "member `query` is not a string");
        check(json!({"query": "x", "prepared": "y"}), "`query`, `prepared` and `saved` exclude each other");
        check(json!({"query": "x", "parameters": [[1]]}), "parameter $1 is a list");
        check(
            json!({"query": "x", "parameters": [1, u64::MAX]}),
            "parameter $2 is a number out of the range of LONG",
        );
        check(json!({"query": "x", "parameters": {}}), "member `parameters` is not a list");
        check(json!({"query": "x", "dialect": "sql"}), "there is no dialect `sql`");
        check(json!({"query": "x", "duration": 1}), "no member `duration` beside `query`");
    }
}
