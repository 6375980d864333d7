//! Encodes a row, JSON, as a message: the reverse of what writes JSON of messages.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Syntax, Value as Proto,
    prost::Message as _,
};

use super::{FieldPlan, Form, Messages, Plan, ProtobufSchema, Shape};
use crate::{
    Fault, SchemaError,
    json::{self, Unit, from_base64},
    row::{self, Json},
};

/// The deepest nesting of messages that decoders accept.
const MESSAGE_DEPTH_MAX: usize = 100;

/// The path of files that Protobuf itself brings, which each registry knows.
const OWN_FILES: &str = "google/protobuf/";

struct Encoder<'e> {
    plans: &'e [Plan],
}

impl ProtobufSchema {
    pub(crate) fn encode(&self, row: &Json<'_>, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Messages::One(plan) = &self.messages else {
            return Err(Fault::new("the schema does not say which of its messages is written"));
        };
        let message = Encoder { plans: &self.plans }.message(*plan, row, 1)?;
        if message.encoded_len() > bytes_max {
            return Err(Fault::new(format!("its message has more than {bytes_max} bytes")));
        }
        message.encode(out).map_err(|error| Fault::new(error.to_string()))
    }

    /// Refuses columns that a row has and the message does not; with `are_all` also required fields that no row has.
    pub(crate) fn check_columns(&self, columns: &[&str], are_all: bool) -> Result<(), SchemaError> {
        let Messages::One(plan) = &self.messages else { return Ok(()) };
        let plan = &self.plans[*plan];
        let name = plan.message.full_name();
        let Form::Fields(fields) = &plan.form else {
            return Err(SchemaError::new(format!("message `{name}` has no columns of a row as fields")));
        };
        let is_field = |column: &&&str| fields.iter().any(|field| *field.name == ***column);
        if let Some(column) = columns.iter().find(|column| !is_field(column)) {
            return Err(SchemaError::new(format!(
                "message `{name}` has no field `{column}`, which is a column of the rows"
            )));
        }
        let is_missing = |field: &&FieldPlan| field.is_required && !columns.contains(&&*field.name);
        match fields.iter().find(is_missing).filter(|_| are_all) {
            None => Ok(()),
            Some(field) => Err(SchemaError::new(format!(
                "field `{}` of message `{name}` is required, and the rows have no such column",
                field.name
            ))),
        }
    }

    /// The file of the message as a registry accepts it, a descriptor in base64, and the indexes of the message in the file, as they
    /// are at the beginning of its messages.
    pub(crate) fn registration(&self) -> Result<(String, Vec<u8>), SchemaError> {
        let Messages::One(plan) = &self.messages else {
            return Err(SchemaError::new("it does not say which of its messages is written"));
        };
        let message = &self.plans[*plan].message;
        let file = message.parent_file();
        if let Some(import) = file.dependencies().find(|import| !import.name().starts_with(OWN_FILES)) {
            return Err(SchemaError::new(format!(
                "`{}` imports `{}`: to be registered, a message and all in it must be in one file",
                file.name(),
                import.name()
            )));
        }
        let mut text = Vec::new();
        json::bytes(&file.encode_to_vec(), &mut text);
        let text = String::from_utf8_lossy(&text[1..text.len() - 1]).into_owned();
        Ok((text, indexes_of(message)?))
    }
}

/// The indexes of a message in its file. Serializers that count the entries of map fields as messages must have the same ones.
fn indexes_of(message: &MessageDescriptor) -> Result<Vec<u8>, SchemaError> {
    let mut indexes = Vec::new();
    let mut inner = message.clone();
    while let Some(outer) = inner.parent_message() {
        let before = outer.child_messages().take_while(|child| *child != inner);
        let before: Vec<MessageDescriptor> = before.collect();
        if before.iter().any(MessageDescriptor::is_map_entry) {
            return Err(SchemaError::new(format!(
                "message `{}` is declared behind a map field of `{}`, so its indexes mean two messages: move it before the map \
                 field",
                inner.full_name(),
                outer.full_name()
            )));
        }
        indexes.push(before.len());
        inner = outer;
    }
    indexes.push(inner.parent_file().messages().take_while(|other| *other != inner).count());
    indexes.reverse();
    // The first message, in short.
    if indexes == [0] {
        return Ok(vec![0]);
    }
    let mut bytes = Vec::new();
    for number in std::iter::once(indexes.len()).chain(indexes) {
        let mut rest = (number as u64) << 1;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    Ok(bytes)
}

impl Encoder<'_> {
    fn message(&self, plan: usize, json: &Json<'_>, depth: usize) -> Result<DynamicMessage, Fault> {
        if depth > MESSAGE_DEPTH_MAX {
            return Err(Fault::new(format!("it nests deeper than {MESSAGE_DEPTH_MAX} levels")));
        }
        let Plan { message, form } = &self.plans[plan];
        let mut written = DynamicMessage::new(message.clone());
        match (form, json) {
            (Form::Fields(fields), Json::Object(entries)) => {
                self.fields(fields, entries, &mut written, depth)?;
            }
            (Form::Fields(_), json) => return Err(json.mismatch("message")),
            (Form::Wrapper(field), json) => {
                let value = self.shape(field, json, depth)?;
                set(&mut written, &field.field, value)?;
            }
            (Form::Timestamp, Json::Text(text)) => {
                let no_time =
                    || Fault::new("a text is no time such as 2026-01-02T03:04:05.006Z, with its zone");
                let micros = row::instant(text, Unit::Micros, false).ok_or_else(no_time)?;
                // Microseconds have the whole range of Timestamp, which nanoseconds of 64 bits do not.
                let nanos = micros.rem_euclid(1_000_000) * 1000 + row::nanos_beyond_micros(text.as_bytes());
                set_number(&mut written, 1, Proto::I64(micros.div_euclid(1_000_000)))?;
                set_number(&mut written, 2, Proto::I32(nanos as i32))?;
            }
            (Form::Timestamp, json) => return Err(json.mismatch("text of a time: cast it to TIMESTAMP")),
            (Form::Duration, Json::Text(text)) => {
                let no_duration = || Fault::new("a text is no duration such as 3.5s");
                let (seconds, nanos) = duration(text).ok_or_else(no_duration)?;
                set_number(&mut written, 1, Proto::I64(seconds))?;
                set_number(&mut written, 2, Proto::I32(nanos))?;
            }
            (Form::Duration, json) => return Err(json.mismatch("text of a duration such as 3.5s")),
            (Form::Json, json) => return free(message, json, depth),
        }
        Ok(written)
    }

    fn fields(
        &self,
        fields: &[FieldPlan],
        entries: &BTreeMap<String, Json<'_>>,
        written: &mut DynamicMessage,
        depth: usize,
    ) -> Result<(), Fault> {
        // The fields that were set, by the `oneof` that they are in.
        let mut chosen: HashMap<String, &str> = HashMap::new();
        for (name, json) in entries {
            // Plans are in the order of the fields' numbers, and a descriptor knows fields by name.
            let number = written.descriptor_field(name);
            let plan = number.and_then(|number| {
                let place = fields.binary_search_by_key(&number, |plan| plan.field.number()).ok()?;
                fields.get(place)
            });
            let Some(plan) = plan else {
                return Err(Fault::new("the schema has no such field").within(name));
            };
            if *json == Json::Null && plan.has_presence && !plan.is_json(self.plans) {
                continue;
            }
            let oneof = plan.field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
            if let Some(before) = oneof.and_then(|oneof| chosen.insert(oneof.name().to_owned(), &plan.name)) {
                let text = format!("it is in one `oneof` with `{before}`, and both have a value");
                return Err(Fault::new(text).within(name));
            }
            let value = self.shape(plan, json, depth).map_err(|fault| fault.within(name))?;
            set(written, &plan.field, value).map_err(|fault| fault.within(name))?;
        }
        let is_missing = |plan: &&FieldPlan| plan.is_required && !written.has_field(&plan.field);
        match fields.iter().find(is_missing) {
            None => Ok(()),
            Some(plan) => Err(Fault::new("a required field has no value in the row").within(&plan.name)),
        }
    }

    fn shape(&self, plan: &FieldPlan, json: &Json<'_>, depth: usize) -> Result<Proto, Fault> {
        match (&plan.shape, json) {
            (Shape::List(item), Json::List(values)) => {
                let kind = plan.field.kind();
                let values = values.iter().map(|value| self.item(item, &kind, value, depth));
                Ok(Proto::List(values.collect::<Result<_, _>>()?))
            }
            (Shape::List(_), json) => Err(json.mismatch("list")),
            (Shape::Map(item), Json::Object(entries)) => {
                let Kind::Message(entry) = plan.field.kind() else { return Err(json.mismatch("map")) };
                let (key, value_kind) =
                    (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                let mut map = HashMap::new();
                for (name, value) in entries {
                    let value = self.item(item, &value_kind, value, depth);
                    map.insert(map_key(&key, name)?, value.map_err(|fault| fault.within(name))?);
                }
                Ok(Proto::Map(map))
            }
            (Shape::Map(_), json) => Err(json.mismatch("object")),
            (Shape::Single(item), json) => self.item(item, &plan.field.kind(), json, depth),
        }
    }

    fn item(&self, item: &super::Item, kind: &Kind, json: &Json<'_>, depth: usize) -> Result<Proto, Fault> {
        if let super::Item::Message(plan) = item {
            if *json == Json::Null && !matches!(self.plans[*plan].form, Form::Json) {
                return Err(null());
            }
            return Ok(Proto::Message(self.message(*plan, json, depth + 1)?));
        }
        scalar(kind, json)
    }
}

/// A field's number by its name.
trait FieldByName {
    fn descriptor_field(&self, name: &str) -> Option<u32>;
}

impl FieldByName for DynamicMessage {
    fn descriptor_field(&self, name: &str) -> Option<u32> {
        use prost_reflect::ReflectMessage as _;
        self.descriptor().get_field_by_name(name).map(|field| field.number())
    }
}

impl FieldPlan {
    /// True for a `Struct`, `Value` or `ListValue`, of which null may be a value.
    fn is_json(&self, plans: &[Plan]) -> bool {
        let Shape::Single(super::Item::Message(plan)) = &self.shape else { return false };
        plans[*plan].message.full_name() == "google.protobuf.Value"
    }
}

fn null() -> Fault {
    Fault::new("the value is null, and the field cannot be without one: declare it `optional`")
}

fn set(message: &mut DynamicMessage, field: &FieldDescriptor, value: Proto) -> Result<(), Fault> {
    let set = message.try_set_field(field, value);
    set.map_err(|error| Fault::new(format!("it cannot be set: {error}")))
}

fn set_number(message: &mut DynamicMessage, number: u32, value: Proto) -> Result<(), Fault> {
    let set = message.try_set_field_by_number(number, value);
    set.map_err(|error| Fault::new(format!("it cannot be set: {error}")))
}

fn scalar(kind: &Kind, json: &Json<'_>) -> Result<Proto, Fault> {
    let whole = |bits: &str| match json {
        Json::Number(number) => row::whole(number),
        json => Err(json.mismatch(&format!("whole number of {bits} bits"))),
    };
    let beyond = |bits: &'static str| move |_| Fault::new(format!("the number does not fit {bits}"));
    Ok(match (kind, json) {
        (_, Json::Null) => return Err(null()),
        (Kind::Bool, Json::Boolean(value)) => Proto::Bool(*value),
        (Kind::Int32 | Kind::Sint32 | Kind::Sfixed32, _) => {
            Proto::I32(whole("32")?.try_into().map_err(beyond("32 bits"))?)
        }
        (Kind::Int64 | Kind::Sint64 | Kind::Sfixed64, _) => {
            Proto::I64(whole("64")?.try_into().map_err(beyond("64 bits"))?)
        }
        (Kind::Uint32 | Kind::Fixed32, _) => {
            Proto::U32(whole("32")?.try_into().map_err(beyond("32 bits without a sign"))?)
        }
        (Kind::Uint64 | Kind::Fixed64, _) => {
            Proto::U64(whole("64")?.try_into().map_err(beyond("64 bits without a sign"))?)
        }
        (Kind::Float, Json::Number(number)) => Proto::F32(row::float(number)?),
        (Kind::Double, Json::Number(number)) => Proto::F64(row::double(number)?),
        (Kind::Float | Kind::Double, Json::Text(text)) => {
            let value = row::not_finite(text).ok_or_else(|| json.mismatch("number"))?;
            if matches!(kind, Kind::Float) { Proto::F32(value as f32) } else { Proto::F64(value) }
        }
        (Kind::String, Json::Text(text)) => Proto::String(text.to_string()),
        (Kind::Bytes, Json::Text(text)) => {
            let bytes = from_base64(text);
            let no_base64 = || Fault::new("a text is no base64, as which bytes are written");
            Proto::Bytes(bytes.ok_or_else(no_base64)?.into())
        }
        (Kind::Enum(descriptor), Json::Text(name)) => {
            let value = descriptor.get_value_by_name(name);
            let missing = || Fault::new("the text is none of the names of the schema's enum");
            Proto::EnumNumber(value.ok_or_else(missing)?.number())
        }
        (Kind::Enum(descriptor), Json::Number(number)) => {
            let number = i32::try_from(row::whole(number)?).map_err(beyond("32 bits"))?;
            let is_open = descriptor.parent_file().syntax() == Syntax::Proto3;
            if !is_open && descriptor.get_value(number).is_none() {
                return Err(Fault::new(format!("{number} is no number of the schema's enum")));
            }
            Proto::EnumNumber(number)
        }
        (kind, json) => {
            return Err(json.mismatch(match kind {
                Kind::Bool => "boolean",
                Kind::Float | Kind::Double => "number",
                Kind::Bytes => "text of bytes in base64",
                Kind::Enum(_) => "name of an enum",
                _ => "text",
            }));
        }
    })
}

fn map_key(kind: &Kind, name: &str) -> Result<MapKey, Fault> {
    let fault = || Fault::new("the name of a value is no key of the schema's map");
    Ok(match kind {
        Kind::Bool => MapKey::Bool(name.parse().map_err(|_| fault())?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(name.parse().map_err(|_| fault())?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(name.parse().map_err(|_| fault())?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(name.parse().map_err(|_| fault())?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(name.parse().map_err(|_| fault())?),
        _ => MapKey::String(name.to_owned()),
    })
}

/// `3.5s` as seconds and nanoseconds.
fn duration(text: &str) -> Option<(i64, i32)> {
    let number = text.strip_suffix('s')?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds <= 315_576_000_000)?;
    let nanos: i32 = format!("{part:0<9}").parse().ok()?;
    Some((sign * seconds, sign as i32 * nanos))
}

/// A `Struct`, `Value` or `ListValue` of any JSON.
fn free(message: &MessageDescriptor, json: &Json<'_>, depth: usize) -> Result<DynamicMessage, Fault> {
    if depth > MESSAGE_DEPTH_MAX {
        return Err(Fault::new(format!("it nests deeper than {MESSAGE_DEPTH_MAX} levels")));
    }
    let part = |field: &FieldDescriptor, json: &Json<'_>| match field.kind() {
        Kind::Message(part) => free(&part, json, depth + 1).map(Proto::Message),
        _ => Err(json.mismatch("value")),
    };
    let mut written = DynamicMessage::new(message.clone());
    let field = |name: &str| {
        let field = message.get_field_by_name(name);
        field.ok_or_else(|| Fault::new(format!("`{}` has no field `{name}`", message.full_name())))
    };
    let (name, value) = match (message.full_name(), json) {
        ("google.protobuf.Struct", Json::Object(entries)) => {
            let field = field("fields")?;
            let Kind::Message(entry) = field.kind() else { return Err(json.mismatch("object")) };
            let value = entry.map_entry_value_field();
            let mut map = HashMap::new();
            for (name, json) in entries {
                map.insert(MapKey::String(name.clone()), part(&value, json).map_err(|f| f.within(name))?);
            }
            ("fields", Proto::Map(map))
        }
        ("google.protobuf.Struct", json) => return Err(json.mismatch("object")),
        ("google.protobuf.ListValue", Json::List(values)) => {
            let field = field("values")?;
            let values = values.iter().map(|json| part(&field, json));
            ("values", Proto::List(values.collect::<Result<_, _>>()?))
        }
        ("google.protobuf.ListValue", json) => return Err(json.mismatch("list")),
        (_, Json::Null) => ("null_value", Proto::EnumNumber(0)),
        (_, Json::Boolean(value)) => ("bool_value", Proto::Bool(*value)),
        (_, Json::Number(number)) => ("number_value", Proto::F64(row::double(number)?)),
        (_, Json::Text(text)) => ("string_value", Proto::String(text.to_string())),
        (_, Json::List(_)) => ("list_value", part(&field("list_value")?, json)?),
        (_, Json::Object(_)) => ("struct_value", part(&field("struct_value")?, json)?),
    };
    set(&mut written, &field(name)?, value)?;
    Ok(written)
}
