//! Adds endpoints to the API contract: their parameters, the conditions of these, and the answers.
//!
//! Conditions of simple forms become keywords of JSON Schema; the description lists all conditions as they were declared.

use serde_json::{Map, Value, json};
use swiftwater_engine::Endpoint;
use swiftwater_event::{Primitive, Type};
use swiftwater_lang::{
    ddl::{
        ElseClause, EndpointAction, EndpointColumn, ErrorForm, OtherFields, Parameter, ParameterPlace,
        endpoint::plan::parse_over_parameters,
    },
    plan::{Comparison, Expr, Function, Literal, Quantifier},
};

/// Adds the endpoints to the contract's paths.
pub(super) fn add(contract: &mut Value, endpoints: &[impl AsRef<Endpoint>]) {
    let Some(paths) = contract.get_mut("paths").and_then(Value::as_object_mut) else { return };
    for endpoint in endpoints {
        let endpoint = endpoint.as_ref();
        let name = &endpoint.create.name;
        let operations = paths.entry(name.path.to_string()).or_insert_with(|| json!({}));
        if let Some(operations) = operations.as_object_mut() {
            operations.insert(name.method.text().to_ascii_lowercase(), operation(endpoint));
        }
    }
}

fn operation(endpoint: &Endpoint) -> Value {
    let create = &endpoint.create;
    let summary = match &create.action {
        EndpointAction::Into { stream, .. } => format!("Writes an event into stream `{stream}`."),
        EndpointAction::Select { source: Some(source), .. } => {
            format!("Reads view `{}`.", source.view)
        }
        EndpointAction::Select { source: None, .. } => "Answers without a view.".to_owned(),
    };
    let schemas = schemas(endpoint);
    let outside = create.parameters.iter().zip(&schemas).filter_map(|(parameter, schema)| {
        let (place, name, is_required) = match &parameter.place {
            ParameterPlace::Path => ("path", &parameter.name, true),
            ParameterPlace::Query(name) => ("query", name, parameter.not_null && parameter.default.is_none()),
            ParameterPlace::Body(_) => return None,
        };
        let mut told = json!({"name": name, "in": place, "required": is_required, "schema": schema});
        described(parameter, &mut told);
        Some(told)
    });
    let mut parameters: Vec<Value> = outside.collect();
    let mut known = |name: &str| parameters.push(json!({"$ref": format!("#/components/parameters/{name}")}));
    if create.stream().is_some() {
        known("Producer");
        known("Sequence");
    }
    if create.view().is_some() {
        known("Consistent");
    }
    if has_tag(endpoint) {
        known("IfNoneMatch");
    }
    let id = format!("endpoint{}", endpoint.id);
    let mut operation = json!({"operationId": id, "summary": summary, "tags": ["endpoints"], "responses": responses(endpoint)});
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if endpoint.reads_body() {
        let schema = body_schema(endpoint, &schemas);
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// True if an answer may have a tag: it is one row of a view.
fn has_tag(endpoint: &Endpoint) -> bool {
    endpoint.create.view().is_some() && !endpoint.answers_rows()
}

/// Describes conditions and defaults in words.
fn described(parameter: &Parameter, told: &mut Value) {
    let mut words: Vec<String> = parameter.checks.iter().map(|check| format!("`{}`", check.check)).collect();
    words.extend(parameter.default.as_ref().map(|default| format!("default `{default}`")));
    if !words.is_empty() {
        told["description"] = words.join("; ").into();
    }
}

fn body_schema(endpoint: &Endpoint, schemas: &[Value]) -> Value {
    let mut schema = json!({"type": "object", "properties": {}});
    for (parameter, of_it) in endpoint.create.parameters.iter().zip(schemas) {
        let ParameterPlace::Body(path) = &parameter.place else { continue };
        let mut told = of_it.clone();
        described(parameter, &mut told);
        let is_required = parameter.not_null && parameter.default.is_none();
        let keys: Vec<&str> = path
            .steps()
            .iter()
            .filter_map(|step| match step {
                swiftwater_event::Step::Key(key) => Some(&**key),
                swiftwater_event::Step::Index(_) => None,
            })
            .collect();
        insert_schema(&mut schema, &keys, told, is_required);
    }
    if endpoint.create.options.other_fields == Some(OtherFields::Refuse) {
        close(&mut schema);
    }
    schema
}

/// Forbids other fields of an object, and of those within it that have parameters.
fn close(schema: &mut Value) {
    schema["additionalProperties"] = false.into();
    for (_, field) in schema["properties"].as_object_mut().into_iter().flatten() {
        if field.get("properties").is_some() {
            close(field);
        }
    }
}

/// Inserts a field's schema at its path of names.
fn insert_schema(schema: &mut Value, keys: &[&str], told: Value, is_required: bool) {
    let [key, rest @ ..] = keys else { return };
    if is_required {
        let required = &mut schema["required"];
        match required.as_array_mut() {
            Some(names) if names.iter().any(|name| name == key) => {}
            Some(names) => names.push((*key).into()),
            None => *required = json!([key]),
        }
    }
    let field = &mut schema["properties"][*key];
    if rest.is_empty() {
        *field = told;
        return;
    }
    if !field.is_object() {
        *field = json!({"type": nullable("object", true), "properties": {}});
    }
    if is_required {
        field["type"] = nullable("object", false);
    }
    insert_schema(field, rest, told, is_required);
}

/// The schema of each parameter, with what its conditions say.
fn schemas(endpoint: &Endpoint) -> Vec<Value> {
    let parameters = &endpoint.create.parameters;
    let mut schemas: Vec<Value> = parameters
        .iter()
        .map(|parameter| {
            let is_body = matches!(parameter.place, ParameterPlace::Body(_));
            schema_of(&parameter.ty, is_body, is_body && !parameter.not_null)
        })
        .collect();
    for (_, check) in endpoint.create.all_checks() {
        if let Ok((condition, _)) = parse_over_parameters(&check.check.text, parameters) {
            constrain(&condition, &mut schemas);
        }
    }
    schemas
}

/// The schema of a type; in a body a text that says the value does as well as the value.
fn schema_of(ty: &Type, is_body: bool, is_nullable: bool) -> Value {
    let (word, format) = match ty {
        Type::Primitive(Primitive::Boolean) => ("boolean", None),
        Type::Primitive(Primitive::Integer) => ("integer", Some("int32")),
        Type::Primitive(Primitive::Long) => ("integer", Some("int64")),
        Type::Primitive(Primitive::Float) => ("number", Some("float")),
        Type::Primitive(Primitive::Double) => ("number", Some("double")),
        Type::Primitive(Primitive::String) => ("string", None),
        Type::Primitive(Primitive::Timestamp(_)) => ("string", Some("date-time")),
        Type::List(inner) => {
            return json!({"type": nullable("array", is_nullable), "items": schema_of(inner, is_body, true)});
        }
        Type::Map(inner) => {
            let values = schema_of(inner, is_body, true);
            return json!({"type": nullable("object", is_nullable), "additionalProperties": values});
        }
        Type::Any => return json!({}),
    };
    let mut words = vec![word];
    if is_body && word != "string" {
        words.push("string");
    }
    if is_body && matches!(ty, Type::Primitive(Primitive::Timestamp(_))) {
        words.push("integer");
    }
    if is_nullable {
        words.push("null");
    }
    let mut schema = match &words[..] {
        [one] => json!({"type": one}),
        several => json!({"type": several}),
    };
    if let Some(format) = format {
        schema["format"] = format.into();
    }
    schema
}

fn nullable(word: &str, is_nullable: bool) -> Value {
    if is_nullable { json!([word, "null"]) } else { json!(word) }
}

/// Adds what a condition says of one parameter, as far as there is a word for it.
fn constrain(condition: &Expr, schemas: &mut [Value]) {
    let Expr::Call { function, args } = condition else { return };
    let mut set = |slot: usize, word: &str, value: Value| {
        if let Some(schema) = schemas.get_mut(slot) {
            schema[word] = value;
        }
    };
    match (function, &args[..]) {
        (Function::And, conditions) => conditions.iter().for_each(|one| constrain(one, schemas)),
        (
            Function::Between { negated: false },
            [Expr::Slot(slot), Expr::Literal(low), Expr::Literal(high)],
        ) => {
            if let (Some(low), Some(high)) = (number(low), number(high)) {
                set(*slot, "minimum", low);
                set(*slot, "maximum", high);
            }
        }
        (
            Function::In { negated: false },
            [Expr::Slot(slot), Expr::Call { function: Function::List, args }],
        ) => {
            let words = args.iter().map(|arg| match arg {
                Expr::Literal(literal) => value(literal),
                _ => None,
            });
            if let Some(words) = words.collect::<Option<Vec<Value>>>() {
                set(*slot, "enum", words.into());
            }
        }
        (Function::Compare(comparison, Quantifier::One), [Expr::Slot(slot), Expr::Literal(bound)]) => {
            let word = match comparison {
                Comparison::Le => "maximum",
                Comparison::Ge => "minimum",
                Comparison::Lt => "exclusiveMaximum",
                Comparison::Gt => "exclusiveMinimum",
                Comparison::Eq | Comparison::Ne => return,
            };
            if let Some(bound) = number(bound) {
                set(*slot, word, bound);
            }
        }
        (
            Function::Compare(Comparison::Le, Quantifier::One),
            [Expr::Call { function: Function::SizeOf, args }, Expr::Literal(bound)],
        ) => {
            if let ([Expr::Slot(slot)], Some(bound)) = (&args[..], number(bound)) {
                set(*slot, "maxLength", bound);
            }
        }
        _ => {}
    }
}

fn number(literal: &Literal) -> Option<Value> {
    value(literal).filter(Value::is_number)
}

fn value(literal: &Literal) -> Option<Value> {
    match literal {
        Literal::Null => None,
        Literal::Boolean(truth) => Some((*truth).into()),
        Literal::Integer(number) => Some((*number).into()),
        Literal::Long(number) => Some((*number).into()),
        Literal::Float(number) => Some(f64::from(*number).into()),
        Literal::Double(number) => Some((*number).into()),
        Literal::String(text) => Some(text.to_string().into()),
    }
}

fn responses(endpoint: &Endpoint) -> Value {
    let create = &endpoint.create;
    let mut responses = Map::new();
    let mut success = json!({"description": "Success."});
    let content = match &create.action {
        EndpointAction::Into { returning, .. } => {
            success["headers"] = json!({
                "Swiftwater-Position": {
                    "description": "The stream's position after the event.", "schema": {"type": "integer"}},
                "Swiftwater-Repeated": {
                    "description": "`true`: the event was stored by an earlier request of this number.",
                    "schema": {"type": "boolean"}},
            });
            returning.as_deref().map(|columns| row_schema(columns, &endpoint.answer_types()))
        }
        EndpointAction::Select { columns, source, otherwise } => {
            if source.is_some() {
                success["headers"] = json!({
                    "Swiftwater-Position": {"schema": {"type": "integer"}},
                    "Swiftwater-Age-Ms": {"schema": {"type": "integer"}},
                });
            }
            if has_tag(endpoint) {
                success["headers"]["ETag"] = json!({"schema": {"type": "string"}});
            }
            let row = row_schema(columns, &endpoint.answer_types());
            let one = match otherwise {
                Some(ElseClause::Row(other)) => match row_schema(other, &endpoint.otherwise_types()) {
                    same if same == row => row,
                    other => json!({"anyOf": [row, other]}),
                },
                _ => row,
            };
            Some(if endpoint.answers_rows() { json!({"type": "array", "items": one}) } else { one })
        }
    };
    if let Some(schema) = content.filter(|_| !matches!(endpoint.status(), 204 | 205)) {
        success["content"] = json!({"application/json": {"schema": schema}});
    }
    responses.insert(endpoint.status().to_string(), success);
    let mut refusals: Vec<u16> = vec![400, 403];
    refusals.extend(create.all_checks().filter_map(|(_, check)| Some(check.refusal.as_ref()?.status)));
    match &create.action {
        EndpointAction::Into { .. } => refusals.extend([408, 409, 413, 415, 429, 500, 503]),
        EndpointAction::Select { source: Some(_), otherwise, .. } => {
            if has_tag(endpoint) {
                responses.insert("304".to_owned(), json!({"description": "It has not changed."}));
            }
            refusals.push(503);
            match otherwise {
                Some(ElseClause::Status(refusal)) => refusals.push(refusal.status),
                Some(ElseClause::Row(_)) => {}
                None if endpoint.answers_rows() => {}
                None => refusals.push(404),
            }
        }
        EndpointAction::Select { source: None, .. } => {}
    }
    let problem = json!({"$ref": "#/components/responses/Problem"});
    let message = json!({"description": "The error.", "content": {"application/json": {"schema":
        {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}}}}});
    for status in refusals {
        // Those of requests that may not be made at all are told before the endpoint is looked for.
        let is_problem = status == 403 || endpoint.errors() == ErrorForm::Problem;
        let told = if is_problem { &problem } else { &message };
        responses.entry(status.to_string()).or_insert_with(|| told.clone());
    }
    responses.into()
}

/// The schema of a row that is answered. `types`: of its columns, as far as they are known.
fn row_schema(columns: &[EndpointColumn], types: &[Option<&Type>]) -> Value {
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let types = types.iter().copied().chain(std::iter::repeat(None));
    let fields = names.iter().zip(types).map(|(name, ty)| ((*name).to_owned(), answered(ty)));
    let properties: Map<String, Value> = fields.collect();
    json!({"type": "object", "required": names, "properties": properties})
}

/// The schema of an answered value, which may be null, and a text where a number is none: `"NaN"`.
fn answered(ty: Option<&Type>) -> Value {
    match ty {
        None | Some(Type::Any) => json!({}),
        Some(Type::List(inner)) => json!({"type": nullable("array", true), "items": answered(Some(inner))}),
        Some(Type::Map(inner)) => {
            json!({"type": nullable("object", true), "additionalProperties": answered(Some(inner))})
        }
        Some(Type::Primitive(Primitive::Float | Primitive::Double)) => {
            json!({"type": ["number", "string", "null"]})
        }
        Some(ty) => schema_of(ty, false, true),
    }
}
