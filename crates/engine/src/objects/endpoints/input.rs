//! Reads a request's values as the types of the endpoint's parameters.
//!
//! A text (a segment of the path, a value of the query string, a text in JSON) is parsed as its parameter's type. JSON
//! numbers and booleans are used as they are. A missing or null value gets the default. Then the conditions are checked,
//! those of single parameters first.

use std::{borrow::Cow, fmt::Write};

use bumpalo::Bump;
use bytes::Bytes;
use swiftwater_event::{
    CheckLimits, EventBatch, Millis, Primitive, TimeUnit, Type, Value, check_block, event_fields,
    parse_value, write_json,
};
use swiftwater_live::{
    expr::{Program, Scratch},
    parse_rfc3339_micros,
};

use super::{EndpointError, EndpointLimits, EndpointPlace};

/// The values of a request.
#[derive(Debug, Default)]
pub struct EndpointInput<'r> {
    /// The text for each parameter of the path and of the query string, decoded; none for one of the body.
    pub texts: Vec<Option<Cow<'r, str>>>,
    /// The body.
    pub body: Bytes,
}

/// A parameter, compiled.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: Box<str>,
    pub(super) ty: Type,
    pub(super) place: EndpointPlace,
    pub(super) not_null: bool,
    pub(super) default: Option<DefaultProgram>,
}

/// The value of a missing parameter.
#[derive(Debug)]
pub(super) enum DefaultProgram {
    /// Arrival of the request, in milliseconds or as a time.
    Now,
    /// A constant, cast to the parameter's type.
    Constant(Program),
}

/// A condition, compiled.
#[derive(Debug)]
pub(super) struct ParameterCheck {
    /// The condition's negation.
    pub(super) fails: Program,
    pub(super) status: u16,
    pub(super) message: String,
}

/// The fields of a body that are no parameters: names, and values as they are written. For an object with parameters
/// inside it, the fields that are none.
pub(super) type OtherFields<'a> = Vec<(&'a str, &'a str)>;

/// All that a request says: the parameters' values and behind them the time, and the body's other fields.
pub(super) struct RequestValues<'a> {
    pub(super) slots: &'a [Value<'a>],
    pub(super) others: OtherFields<'a>,
}

/// A body, or what was made of one, as the one event that it is checked as.
pub(super) fn checked(
    what: &str,
    body: &Bytes,
    limits: &EndpointLimits,
) -> Result<EventBatch, EndpointError> {
    let bad = |message: String| EndpointError::refused(400, message);
    if body.is_empty() {
        return Err(bad(format!("the {what} is empty: expected a JSON object")));
    }
    let checked = check_block(body.clone(), &limits.check(), 1);
    if let Some(fault) = checked.rejections.first() {
        if fault.oversize {
            return Err(EndpointError::refused(
                413,
                format!("the {what} has {} bytes, limit is {}", body.len(), limits.body_bytes_max),
            ));
        }
        return Err(bad(format!(
            "the {what} cannot be read: line {}, column {}: {}",
            fault.line, fault.column, fault.message
        )));
    }
    match checked.batch.len() {
        1 => Ok(checked.batch),
        0 => Err(bad(format!("the {what} is empty: expected a JSON object"))),
        more => Err(bad(format!("the {what} has {more} JSON objects, expected one"))),
    }
}

/// Events that stand one after another and end at `ends`, each followed by the end of a line, as they are checked; none
/// where something is wrong with any.
pub(super) fn checked_all(text: &Bytes, ends: &[usize], limits: &EndpointLimits) -> Option<EventBatch> {
    let batch = check_block(text.clone(), &limits.check(), 1).batch;
    let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    let are_they = batch.len() == ends.len()
        && starts.zip(ends).enumerate().all(|(row, (start, &end))| batch.span(row) == (start..end));
    are_they.then_some(batch)
}

impl EndpointLimits {
    fn check(&self) -> CheckLimits {
        CheckLimits {
            event_bytes_max: self.body_bytes_max,
            depth_max: self.depth_max,
            rejections_described_max: 1,
            refused_bytes_kept: 0,
        }
    }
}

/// Reads all parameters; `body` is that of [`checked`], where it is looked at.
pub(super) fn read<'a>(
    parameters: &[Parameter],
    checks: &[ParameterCheck],
    (texts, body): (&'a [Option<Cow<'_, str>>], Option<&'a str>),
    (now, keeps_others): (Millis, bool),
    (scratch, arena): (&mut Scratch, &'a Bump),
) -> Result<RequestValues<'a>, EndpointError> {
    let mut fields = body.map(|body| event_fields(body, arena)).unwrap_or_default();
    let slots = arena.alloc_slice_fill_copy(parameters.len() + 1, Value::Null);
    for (place, parameter) in parameters.iter().enumerate() {
        let value = match &parameter.place {
            EndpointPlace::Path(_) | EndpointPlace::Query(_) => {
                match texts.get(place).and_then(Option::as_deref) {
                    Some(text) => parameter.of_text(text, arena)?,
                    None => Value::Null,
                }
            }
            EndpointPlace::Body(path) => match field(&fields, path, arena) {
                Some(json) => parameter.of_json(json, arena)?,
                None => Value::Null,
            },
        };
        slots[place] = match value {
            Value::Null => parameter.missing(now, scratch, arena)?,
            value => value,
        };
    }
    slots[parameters.len()] = Value::Long(now);
    let slots: &'a [Value<'a>] = slots;
    for check in checks {
        if matches!(check.fails.value(slots, now, scratch, arena).0, Value::Boolean(true)) {
            return Err(EndpointError::refused(check.status, check.message.clone()));
        }
    }
    if keeps_others {
        keep_others(&mut fields, body_paths(parameters), arena);
    } else {
        fields.clear();
    }
    Ok(RequestValues { slots, others: fields })
}

/// The JSON at a path of field names.
fn field<'a>(fields: &[(&'a str, &'a str)], path: &[Box<str>], arena: &'a Bump) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    let (_, value) = fields.iter().find(|(name, _)| **name == **first)?;
    match rest {
        [] => Some(value),
        rest => field(&event_fields(value, arena), rest, arena),
    }
}

/// The paths of parameters in the body.
fn body_paths(parameters: &[Parameter]) -> impl Iterator<Item = &[Box<str>]> + Clone {
    parameters.iter().filter_map(|parameter| match &parameter.place {
        EndpointPlace::Body(path) => Some(&path[..]),
        EndpointPlace::Path(_) | EndpointPlace::Query(_) => None,
    })
}

/// Retains the fields of an object that are no parameters. Within an object that has parameters, at `paths`, it retains
/// the fields that are none. An object without such fields, or a null, is removed.
fn keep_others<'a, 'p>(
    fields: &mut OtherFields<'a>,
    paths: impl Iterator<Item = &'p [Box<str>]> + Clone,
    arena: &'a Bump,
) {
    fields.retain_mut(|(name, json)| {
        // It takes no memory where no parameter lies deeper.
        let mut within: Vec<&[Box<str>]> = Vec::new();
        for path in paths.clone() {
            if let Some((first, rest)) = path.split_first()
                && **first == **name
            {
                match rest {
                    [] => return false,
                    rest => within.push(rest),
                }
            }
        }
        if within.is_empty() {
            return true;
        }
        let sent = *json;
        if !sent.starts_with('{') {
            return sent != "null";
        }
        let mut inner = event_fields(sent, arena);
        keep_others(&mut inner, within.iter().copied(), arena);
        *json = object(&inner, arena);
        !inner.is_empty()
    });
}

/// An object of fields, as JSON.
fn object<'a>(fields: &[(&str, &str)], arena: &'a Bump) -> &'a str {
    let mut out = vec![b'{'];
    for (place, (name, json)) in fields.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_json(&Value::String(name), &mut out);
        out.push(b':');
        out.extend_from_slice(json.as_bytes());
    }
    out.push(b'}');
    arena.alloc_str(std::str::from_utf8(&out).expect("JSON of texts is text"))
}

/// The path of the first of the other fields of a body, if there is one.
pub(super) fn first_other(parameters: &[Parameter], others: &[(&str, &str)], arena: &Bump) -> Option<String> {
    let (name, mut json) = *others.first()?;
    let mut names = vec![name];
    let has_parameters = |names: &[&str]| {
        body_paths(parameters)
            .any(|path| path.len() > names.len() && path.iter().zip(names).all(|(key, name)| **key == **name))
    };
    while has_parameters(&names)
        && let Some(&(name, within)) = event_fields(json, arena).first()
    {
        names.push(name);
        json = within;
    }
    Some(names.join("."))
}

impl Parameter {
    fn missing<'a>(
        &self,
        now: Millis,
        scratch: &mut Scratch,
        arena: &'a Bump,
    ) -> Result<Value<'a>, EndpointError> {
        match &self.default {
            Some(DefaultProgram::Now) if self.ty == Type::LONG => Ok(Value::Long(now)),
            Some(DefaultProgram::Now) => Ok(Value::Timestamp(now.saturating_mul(1000))),
            Some(DefaultProgram::Constant(program)) => Ok(program.value(&[], now, scratch, arena).0),
            None if self.not_null => {
                Err(EndpointError::refused(400, format!("`{}` is missing", self.sent_as())))
            }
            None => Ok(Value::Null),
        }
    }

    fn of_text<'a>(&self, text: &str, arena: &'a Bump) -> Result<Value<'a>, EndpointError> {
        of_text(text, &self.ty, arena).ok_or_else(|| self.misfit(&format!("`{}`", short(text))))
    }

    fn of_json<'a>(&self, json: &'a str, arena: &'a Bump) -> Result<Value<'a>, EndpointError> {
        // It was checked with the body.
        let value = parse_value(json, arena).unwrap_or(Value::Null);
        of_value(value, &self.ty, arena).ok_or_else(|| self.misfit(&short(json)))
    }

    fn misfit(&self, found: &str) -> EndpointError {
        let mut message = String::new();
        // Writing to a String does not fail.
        let _ = write!(message, "`{}`: expected {}, found {found}", self.sent_as(), self.ty);
        EndpointError::refused(400, message)
    }

    /// The name for the client.
    fn sent_as(&self) -> Cow<'_, str> {
        match &self.place {
            EndpointPlace::Path(_) => Cow::Borrowed(&self.name),
            EndpointPlace::Query(name) => Cow::Borrowed(name),
            EndpointPlace::Body(path) => Cow::Owned(path.join(".")),
        }
    }
}

/// A text as a value of a type; `None`: it is none.
fn of_text<'a>(text: &str, ty: &Type, arena: &'a Bump) -> Option<Value<'a>> {
    let number = || Some(text).filter(|text| !text.starts_with('+'));
    let Type::Primitive(primitive) = ty else { return None };
    match primitive {
        Primitive::String => Some(Value::String(arena.alloc_str(text))),
        Primitive::Boolean => match text {
            "true" => Some(Value::Boolean(true)),
            "false" => Some(Value::Boolean(false)),
            _ => None,
        },
        Primitive::Integer => number()?.parse().ok().map(Value::Integer),
        Primitive::Long => number()?.parse().ok().map(Value::Long),
        Primitive::Float => {
            number()?.parse().ok().filter(|number: &f32| number.is_finite()).map(Value::Float)
        }
        Primitive::Double => {
            number()?.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double)
        }
        Primitive::Timestamp(unit) => match parse_rfc3339_micros(text) {
            Some(micros) => Some(Value::Timestamp(micros)),
            None => number()?.parse().ok().and_then(|number| time(number, *unit)),
        },
    }
}

/// A value of JSON as one of a type; `None`: it is none.
fn of_value<'a>(value: Value<'a>, ty: &Type, arena: &'a Bump) -> Option<Value<'a>> {
    use Primitive::{Boolean, Double, Float, Integer, Long, Timestamp};
    let all = |parts: &'a [Value<'a>], ty: &Type| -> Option<&'a [Value<'a>]> {
        let parts: Option<Vec<Value<'a>>> = parts.iter().map(|part| of_value(*part, ty, arena)).collect();
        Some(arena.alloc_slice_copy(&parts?))
    };
    match (ty, value) {
        (_, Value::Null) => Some(Value::Null),
        (Type::Any, value) => Some(value),
        (Type::Primitive(Primitive::String), Value::String(_)) => Some(value),
        (Type::Primitive(_), Value::String(text)) => of_text(text, ty, arena),
        (Type::Primitive(Boolean), Value::Boolean(_)) => Some(value),
        (Type::Primitive(Long), _) => whole(value).map(Value::Long),
        (Type::Primitive(Integer), _) => i32::try_from(whole(value)?).ok().map(Value::Integer),
        (Type::Primitive(Double), Value::Long(number)) => Some(Value::Double(number as f64)),
        // JSON has numbers beyond the largest DOUBLE.
        (Type::Primitive(Double), Value::Double(number)) if number.is_finite() => Some(value),
        (Type::Primitive(Float), Value::Long(number)) => Some(Value::Float(number as f32)),
        (Type::Primitive(Float), Value::Double(number)) if (number as f32).is_finite() => {
            Some(Value::Float(number as f32))
        }
        (Type::Primitive(Timestamp(unit)), _) => time(whole(value)?, *unit),
        (Type::List(inner), Value::List(parts)) => all(parts, inner).map(Value::List),
        (Type::Map(inner), Value::Map(fields)) => {
            let fields: Option<Vec<(&'a str, Value<'a>)>> =
                fields.iter().map(|(key, value)| Some((*key, of_value(*value, inner, arena)?))).collect();
            Some(Value::Map(arena.alloc_slice_copy(&fields?)))
        }
        _ => None,
    }
}

/// A whole number, however it is written.
fn whole(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Long(number) => Some(number),
        // 2^63 as a double is the first that does not fit.
        Value::Double(number)
            if number.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&number) =>
        {
            Some(number as i64)
        }
        _ => None,
    }
}

fn time(number: i64, unit: TimeUnit) -> Option<Value<'static>> {
    let micros = match unit {
        TimeUnit::Second => number.checked_mul(1_000_000),
        TimeUnit::Millisecond => number.checked_mul(1_000),
        TimeUnit::Microsecond => Some(number),
        TimeUnit::Nanosecond => Some(number.div_euclid(1_000)),
    };
    micros.map(Value::Timestamp)
}

/// Cut to a length fit for a message.
fn short(text: &str) -> String {
    const CHARS: usize = 60;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
