//! Protobuf: schemas as `.proto` text or descriptors, and messages by `prost-reflect`.
//!
//! A message is decoded by the library, which knows how parts of one field are merged, and then written field by field in the
//! order of their numbers. Plans, made once a schema, have the texts of all names.

mod encode;

use std::{borrow::Cow, collections::HashMap};

use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MapKey,
    MessageDescriptor, ReflectMessage as _, Value as Proto, prost::Message as _,
    prost_types::FileDescriptorProto,
};
use protox::{
    Compiler,
    file::{File, FileResolver, GoogleFileResolver},
};
use serde_json::Value;

use crate::{DEPTH_MAX, Fault, SchemaError, json};

/// The name of the schema itself among the files; no import has it.
const ROOT: &str = "swiftwater.root.proto";

/// The deepest nesting of braces in a `.proto`, counted also in comments and texts.
const BRACES_MAX: usize = 64;

/// The longest list of indexes that names a message.
const INDEXES_MAX: usize = 32;

/// A schema of Protobuf.
#[derive(Debug)]
pub struct ProtobufSchema {
    plans: Vec<Plan>,
    messages: Messages,
}

/// The messages of a schema that may be the type of a whole message.
#[derive(Debug)]
enum Messages {
    /// The one with this plan; a message has no prefix.
    One(usize),
    /// By the indexes at the beginning of a message: the file's messages in their order.
    ByIndexes(Vec<Nested>),
}

/// A message that indexes can name, and those in it.
#[derive(Debug)]
struct Nested {
    plan: usize,
    /// True for the entries of a map field, which are messages to the descriptor alone.
    is_map_entry: bool,
    nested: Vec<Nested>,
}

/// The way to write a message.
#[derive(Debug)]
struct Plan {
    message: MessageDescriptor,
    form: Form,
}

/// The form of a message.
#[derive(Debug)]
enum Form {
    Fields(Vec<FieldPlan>),
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// A wrapper of a value, such as `google.protobuf.Int64Value`.
    Wrapper(Box<FieldPlan>),
    /// `google.protobuf.Struct`, `Value` or `ListValue`: the JSON that it is.
    Json,
}

#[derive(Debug)]
struct FieldPlan {
    field: FieldDescriptor,
    name: Box<str>,
    /// `"name":`.
    key: Box<[u8]>,
    /// True if a field that is not set can be told from one with the default value; it is left out then.
    has_presence: bool,
    is_required: bool,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Single(Item),
    List(Item),
    /// With the type of its values.
    Map(Item),
}

/// A value that is neither a list nor a map.
#[derive(Debug)]
enum Item {
    Scalar,
    /// The names of an enum as JSON texts, by number.
    Enum(HashMap<i32, Box<[u8]>>),
    /// A message, with the number of its plan.
    Message(usize),
}

/// The files that a schema consists of.
struct Files(HashMap<String, String>);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.get(name) {
            Some(text) => file(name, text),
            // Files that Protobuf itself brings.
            None => GoogleFileResolver::new().open_file(name),
        }
    }
}

/// A file of a schema: `.proto` text, or its descriptor in base64, which some clients register.
fn file(name: &str, text: &str) -> Result<File, protox::Error> {
    let descriptor = json::from_base64(text.trim()).filter(|bytes| !bytes.is_empty());
    match descriptor {
        Some(bytes) => {
            let mut descriptor = FileDescriptorProto::decode(&*bytes).map_err(protox::Error::new)?;
            descriptor.name = Some(name.to_owned());
            Ok(File::from_file_descriptor_proto(descriptor))
        }
        None => File::from_source(name, text),
    }
}

impl ProtobufSchema {
    /// Reads `.proto` text, or a descriptor in base64. `references` are the files that it imports, directly or not, by name.
    pub(crate) fn parse(text: &str, references: &[(String, String)]) -> Result<ProtobufSchema, SchemaError> {
        let mut texts = references.iter().map(|(_, text)| &**text).chain([text]);
        texts.try_for_each(check_braces)?;
        let mut files: HashMap<String, String> = references.iter().cloned().collect();
        files.insert(ROOT.to_owned(), text.to_owned());
        let invalid = |error: protox::Error| SchemaError::new(error.to_string());
        let mut compiler = Compiler::with_file_resolver(Files(files));
        compiler.open_file(ROOT).map_err(invalid)?;
        let pool = compiler.descriptor_pool();
        let root = pool.get_file_by_name(ROOT);
        let root = root.ok_or_else(|| SchemaError::new("it has no messages"))?;
        let mut plans = Plans::default();
        let messages = Messages::ByIndexes(root.messages().map(|message| plans.nested(&message)).collect());
        Ok(ProtobufSchema { plans: plans.finish(), messages })
    }

    /// Reads a set of descriptors, and chooses a message.
    pub(crate) fn of_descriptors(bytes: &[u8], message: Option<&str>) -> Result<ProtobufSchema, SchemaError> {
        let pool = DescriptorPool::decode(bytes).map_err(|error| {
            SchemaError::new(format!(
                "it is no set of descriptors with all that they import ({error}): make it with \
                 `protoc --include_imports --descriptor_set_out`"
            ))
        })?;
        let message = chosen(&pool, message)?;
        let mut plans = Plans::default();
        let plan = plans.of(&message);
        Ok(ProtobufSchema { plans: plans.finish(), messages: Messages::One(plan) })
    }

    pub(crate) fn write_json(
        &self,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (plan, bytes) = match &self.messages {
            Messages::One(plan) => (*plan, payload),
            Messages::ByIndexes(messages) => by_indexes(messages, payload)?,
        };
        let message = &self.plans[plan].message;
        let decoded = DynamicMessage::decode(message.clone(), bytes)
            .map_err(|error| Fault::new(format!("it is no message `{}`: {error}", message.full_name())))?;
        let end_max = out.len().saturating_add(bytes_max);
        let mut writer = Writer { plans: &self.plans, out, end_max, bytes_max };
        writer.message(plan, &decoded, 1)?;
        writer.check_length()
    }
}

fn check_braces(text: &str) -> Result<(), SchemaError> {
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'<' => depth += 1,
            b'}' | b']' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACES_MAX {
            return Err(SchemaError::new(format!("its braces nest deeper than {BRACES_MAX}")));
        }
    }
    Ok(())
}

/// The message of a name, or the only one that is in no other message and in no file that Protobuf itself brings.
fn chosen(pool: &DescriptorPool, name: Option<&str>) -> Result<MessageDescriptor, SchemaError> {
    let is_own = |file: &FileDescriptor| !file.name().starts_with("google/protobuf/");
    let own: Vec<MessageDescriptor> =
        pool.files().filter(is_own).flat_map(|file| file.messages().collect::<Vec<_>>()).collect();
    let names = || {
        let mut names: Vec<&str> = own.iter().map(MessageDescriptor::full_name).collect();
        names.sort_unstable();
        names.truncate(20);
        names.join(", ")
    };
    match (name, own.as_slice()) {
        (Some(name), _) => pool
            .get_message_by_name(name)
            .ok_or_else(|| SchemaError::new(format!("it has no message `{name}`: it has {}", names()))),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(SchemaError::new("it has no message")),
        (None, _) => Err(SchemaError::new(format!(
            "it has several messages: choose one with `message`, of {}",
            names()
        ))),
    }
}

/// The plan of the message that indexes name, and the bytes after them.
///
/// Indexes count the messages around a message. Some clients (Python, Go) also count the entries of map fields, which are
/// messages to a descriptor, and others (Java) do not. Indexes that mean two messages are refused.
fn by_indexes<'m>(messages: &[Nested], payload: &'m [u8]) -> Result<(usize, &'m [u8]), Fault> {
    let mut rest = payload;
    let count = index(&mut rest)?;
    let indexes: Vec<usize> = match count {
        // The first message, in short.
        0 => vec![0],
        1..=INDEXES_MAX => (0..count).map(|_| index(&mut rest)).collect::<Result<_, _>>()?,
        count => {
            return Err(Fault::new(format!("{count} indexes name its message; at most {INDEXES_MAX} do")));
        }
    };
    let plan = match (found(messages, &indexes, true), found(messages, &indexes, false)) {
        (Some(with), Some(without)) if with != without => {
            return Err(Fault::new(format!(
                "the indexes {indexes:?} mean two messages, as a map field is declared before a nested message: move the \
                 nested message before the map field"
            )));
        }
        (Some(plan), _) | (None, Some(plan)) => plan,
        (None, None) => {
            return Err(Fault::new(format!("the schema has no message with the indexes {indexes:?}")));
        }
    };
    Ok((plan, rest))
}

fn found(messages: &[Nested], indexes: &[usize], counts_map_entries: bool) -> Option<usize> {
    let (first, rest) = indexes.split_first()?;
    let message =
        messages.iter().filter(|message| counts_map_entries || !message.is_map_entry).nth(*first)?;
    match rest {
        _ if message.is_map_entry => None,
        [] => Some(message.plan),
        rest => found(&message.nested, rest, counts_map_entries),
    }
}

/// A number of the list of indexes: groups of 7 bits, zigzag.
fn index(rest: &mut &[u8]) -> Result<usize, Fault> {
    let mut value = 0u64;
    for (place, byte) in rest.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *rest = &rest[place + 1..];
            return match value & 1 {
                0 => Ok((value >> 1) as usize),
                _ => Err(Fault::new("an index that names its message is negative")),
            };
        }
    }
    Err(match rest.len() {
        0..5 => Fault::truncated(),
        _ => Fault::new("an index that names its message is too large"),
    })
}

/// Makes plans, one for each message.
#[derive(Default)]
struct Plans {
    numbers: HashMap<String, usize>,
    /// The messages by the number of their plan.
    messages: Vec<MessageDescriptor>,
}

impl Plans {
    /// The plans of all messages that were asked for, and of those in them. Messages refer to each other in chains of any
    /// length, so they are not followed by recursion.
    fn finish(mut self) -> Vec<Plan> {
        let mut plans = Vec::new();
        while let Some(message) = self.messages.get(plans.len()).cloned() {
            plans.push(Plan { form: self.form(&message), message });
        }
        plans
    }

    fn nested(&mut self, message: &MessageDescriptor) -> Nested {
        let nested = message.child_messages().map(|child| self.nested(&child)).collect();
        Nested { plan: self.of(message), is_map_entry: message.is_map_entry(), nested }
    }

    /// The number of the plan of a message.
    fn of(&mut self, message: &MessageDescriptor) -> usize {
        if let Some(number) = self.numbers.get(message.full_name()) {
            return *number;
        }
        let number = self.messages.len();
        self.numbers.insert(message.full_name().to_owned(), number);
        self.messages.push(message.clone());
        number
    }

    fn form(&mut self, message: &MessageDescriptor) -> Form {
        match message.full_name() {
            "google.protobuf.Timestamp" => Form::Timestamp,
            "google.protobuf.Duration" => Form::Duration,
            "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue" => Form::Json,
            "google.protobuf.DoubleValue"
            | "google.protobuf.FloatValue"
            | "google.protobuf.Int64Value"
            | "google.protobuf.UInt64Value"
            | "google.protobuf.Int32Value"
            | "google.protobuf.UInt32Value"
            | "google.protobuf.BoolValue"
            | "google.protobuf.StringValue"
            | "google.protobuf.BytesValue" => match message.get_field(1) {
                Some(field) => Form::Wrapper(Box::new(self.field(&field))),
                None => Form::Fields(Vec::new()),
            },
            _ => Form::Fields(message.fields().map(|field| self.field(&field)).collect()),
        }
    }

    fn field(&mut self, field: &FieldDescriptor) -> FieldPlan {
        let shape = match field.kind() {
            Kind::Message(entry) if field.is_map() => Shape::Map(self.item(&entry.map_entry_value_field())),
            _ if field.is_list() => Shape::List(self.item(field)),
            _ => Shape::Single(self.item(field)),
        };
        FieldPlan {
            name: field.name().into(),
            key: format!("{}:", Value::from(field.name())).into_bytes().into_boxed_slice(),
            has_presence: field.supports_presence(),
            is_required: field.is_required(),
            shape,
            field: field.clone(),
        }
    }

    fn item(&mut self, field: &FieldDescriptor) -> Item {
        match field.kind() {
            Kind::Message(message) => Item::Message(self.of(&message)),
            Kind::Enum(descriptor) => Item::Enum(names(&descriptor)),
            _ => Item::Scalar,
        }
    }
}

/// The names of an enum by number: of several names of a number, the first one.
fn names(descriptor: &EnumDescriptor) -> HashMap<i32, Box<[u8]>> {
    let mut names = HashMap::new();
    for value in descriptor.values() {
        let name = || Value::from(value.name()).to_string().into_bytes().into_boxed_slice();
        names.entry(value.number()).or_insert_with(name);
    }
    names
}

struct Writer<'w> {
    plans: &'w [Plan],
    out: &'w mut Vec<u8>,
    /// The length of `out` beyond which the text is too long.
    end_max: usize,
    bytes_max: usize,
}

impl<'w> Writer<'w> {
    fn check_length(&self) -> Result<(), Fault> {
        if self.out.len() > self.end_max { Err(Fault::too_long(self.bytes_max)) } else { Ok(()) }
    }

    fn message(&mut self, plan: usize, message: &DynamicMessage, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let plans = self.plans;
        match &plans[plan].form {
            Form::Fields(fields) => self.fields(fields, message, depth),
            Form::Wrapper(field) => {
                let value = message.get_field(&field.field);
                self.shape(field, &value, depth)
            }
            Form::Timestamp => {
                let (seconds, nanos) = seconds_and_nanos(message);
                // The years 0001 to 9999.
                if !(-62_135_596_800..=253_402_300_799).contains(&seconds)
                    || !(0..1_000_000_000).contains(&nanos)
                {
                    return Err(Fault::new(format!("{seconds} s and {nanos} ns are no Timestamp")));
                }
                json::instant(seconds * 1_000_000 + nanos / 1000, nanos % 1000, false, self.out);
                Ok(())
            }
            Form::Duration => {
                let (seconds, nanos) = seconds_and_nanos(message);
                let is_duration = seconds.unsigned_abs() <= 315_576_000_000
                    && nanos.unsigned_abs() < 1_000_000_000
                    && seconds.signum() * nanos.signum() >= 0;
                if !is_duration {
                    return Err(Fault::new(format!("{seconds} s and {nanos} ns are no Duration")));
                }
                let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
                let part = format!("{:09}", nanos.unsigned_abs());
                let part = part.trim_end_matches('0');
                let point = if part.is_empty() { "" } else { "." };
                let text = format!("\"{sign}{}{point}{part}s\"", seconds.unsigned_abs());
                self.out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            Form::Json => self.json(message, depth),
        }
    }

    fn fields(&mut self, fields: &[FieldPlan], message: &DynamicMessage, depth: usize) -> Result<(), Fault> {
        self.out.push(b'{');
        let mut is_first = true;
        for plan in fields {
            if plan.has_presence && !message.has_field(&plan.field) {
                if plan.is_required {
                    return Err(Fault::new("a required field is missing").within(&plan.name));
                }
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&plan.key);
            let value: Cow<'_, Proto> = message.get_field(&plan.field);
            let written = self.shape(plan, &value, depth).and_then(|()| self.check_length());
            written.map_err(|fault| fault.within(&plan.name))?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn shape(&mut self, plan: &FieldPlan, value: &Proto, depth: usize) -> Result<(), Fault> {
        match (&plan.shape, value) {
            (Shape::List(item), Proto::List(values)) => {
                self.out.push(b'[');
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        self.out.push(b',');
                    }
                    self.item(item, value, depth + 1)?;
                    self.check_length()?;
                }
                self.out.push(b']');
                Ok(())
            }
            (Shape::Map(item), Proto::Map(entries)) => {
                // A map has no order of its own; the text is the same for the same message.
                let mut entries: Vec<(&MapKey, &Proto)> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                self.out.push(b'{');
                for (place, (key, value)) in entries.into_iter().enumerate() {
                    if place > 0 {
                        self.out.push(b',');
                    }
                    json::string(&key_text(key), self.out);
                    self.out.push(b':');
                    self.item(item, value, depth + 1)?;
                    self.check_length()?;
                }
                self.out.push(b'}');
                Ok(())
            }
            (Shape::Single(item) | Shape::List(item) | Shape::Map(item), value) => {
                self.item(item, value, depth)
            }
        }
    }

    fn item(&mut self, item: &Item, value: &Proto, depth: usize) -> Result<(), Fault> {
        match (item, value) {
            (_, Proto::Bool(value)) => json::boolean(*value, self.out),
            (_, Proto::I32(value)) => json::whole(i64::from(*value), self.out),
            (_, Proto::I64(value)) => json::whole(*value, self.out),
            (_, Proto::U32(value)) => json::whole(i64::from(*value), self.out),
            (_, Proto::U64(value)) => json::whole_unsigned(*value, self.out),
            (_, Proto::F32(value)) => json::float(*value, self.out),
            (_, Proto::F64(value)) => json::double(*value, self.out),
            (_, Proto::String(text)) => json::string(text, self.out),
            (_, Proto::Bytes(bytes)) => json::bytes(bytes, self.out),
            (Item::Enum(names), Proto::EnumNumber(number)) => match names.get(number) {
                Some(name) => self.out.extend_from_slice(name),
                // A later version of the schema names it.
                None => json::whole(i64::from(*number), self.out),
            },
            (Item::Message(plan), Proto::Message(message)) => self.message(*plan, message, depth + 1)?,
            (_, value) => {
                debug_assert!(false, "{value:?} is no value of {item:?}");
                return Err(Fault::new("a value is not of its field's type"));
            }
        }
        Ok(())
    }

    /// A `Struct`, `Value` or `ListValue` as the JSON that it is.
    fn json(&mut self, message: &DynamicMessage, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        self.check_length()?;
        let mut is_value = false;
        for (field, value) in message.fields() {
            match (field.name(), value) {
                ("fields", Proto::Map(entries)) => {
                    let mut entries: Vec<(&MapKey, &Proto)> = entries.iter().collect();
                    entries.sort_unstable_by_key(|(key, _)| *key);
                    self.out.push(b'{');
                    for (place, (key, value)) in entries.into_iter().enumerate() {
                        if place > 0 {
                            self.out.push(b',');
                        }
                        json::string(&key_text(key), self.out);
                        self.out.push(b':');
                        self.json_part(value, depth)?;
                    }
                    self.out.push(b'}');
                }
                ("values", Proto::List(values)) => {
                    self.out.push(b'[');
                    for (place, value) in values.iter().enumerate() {
                        if place > 0 {
                            self.out.push(b',');
                        }
                        self.json_part(value, depth)?;
                    }
                    self.out.push(b']');
                }
                ("null_value", _) => self.out.extend_from_slice(b"null"),
                (_, Proto::Message(part)) => self.json(part, depth)?,
                (_, value) => self.item(&Item::Scalar, value, depth)?,
            }
            is_value = true;
        }
        if !is_value {
            self.out.extend_from_slice(match message.descriptor().full_name() {
                "google.protobuf.Struct" => &b"{}"[..],
                "google.protobuf.ListValue" => b"[]",
                _ => b"null",
            });
        }
        Ok(())
    }

    fn json_part(&mut self, value: &Proto, depth: usize) -> Result<(), Fault> {
        match value {
            Proto::Message(value) => self.json(value, depth + 1),
            value => self.item(&Item::Scalar, value, depth),
        }
    }
}

fn seconds_and_nanos(message: &DynamicMessage) -> (i64, i64) {
    let number = |number: u32| match message.get_field_by_number(number).as_deref() {
        Some(Proto::I64(value)) => *value,
        Some(Proto::I32(value)) => i64::from(*value),
        _ => 0,
    };
    (number(1), number(2))
}

fn key_text(key: &MapKey) -> Cow<'_, str> {
    match key {
        MapKey::String(text) => Cow::Borrowed(text),
        MapKey::Bool(value) => value.to_string().into(),
        MapKey::I32(value) => value.to_string().into(),
        MapKey::I64(value) => value.to_string().into(),
        MapKey::U32(value) => value.to_string().into(),
        MapKey::U64(value) => value.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
