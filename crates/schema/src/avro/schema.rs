//! Schemas of Avro: JSON becomes nodes, which refer to each other by number.
//!
//! Names are resolved by the rules of the specification; a name without a namespace is also looked for without that of the
//! schema around it, as Java's library does. Logical types that are invalid or unknown are ignored, as the specification
//! requires. Aliases are for readers with a schema of their own, and have no effect here; defaults are for rows that lack a field.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{SchemaError, json::Unit};

/// The most digits of a decimal.
const PRECISION_MAX: u64 = 1000;

/// The number of a node.
pub(super) type NodeId = u32;

/// A schema of Avro.
#[derive(Debug, Clone)]
pub struct AvroSchema {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Array(NodeId),
    Map(NodeId),
    Union(Box<[NodeId]>),
    Record(Box<[Field]>),
    /// The symbols, as JSON texts.
    Enum(Box<[Box<[u8]>]>),
    Fixed(usize),
    Decimal {
        /// The bytes of a `fixed`; none for `bytes`.
        fixed: Option<usize>,
        scale: u32,
        /// The most digits.
        precision: u32,
        /// The bytes that a number of this precision needs at most.
        bytes_max: usize,
    },
    /// A decimal with a scale of its own.
    BigDecimal,
    /// A `uuid` of 16 bytes; one as a text is a text.
    Uuid,
    Date,
    Time(Unit),
    Timestamp {
        unit: Unit,
        is_local: bool,
    },
    /// Months, days and milliseconds.
    Duration,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    /// `"name":`, with a comma before it unless it is the first.
    pub(super) key: Box<[u8]>,
    pub(super) node: NodeId,
    /// The value of rows that lack the field, a JSON text.
    pub(super) default: Option<Box<str>>,
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, NodeId>,
}

impl AvroSchema {
    /// Reads a schema. `references` are schemas whose names it uses, each behind those that it uses itself.
    pub(crate) fn parse(text: &str, references: &[&str]) -> Result<AvroSchema, SchemaError> {
        let mut parser = Parser { nodes: Vec::new(), names: HashMap::new() };
        let mut root = 0;
        for text in references.iter().chain([&text]) {
            // Its nesting is bounded by the JSON parser.
            let json: Value = serde_json::from_str(text)
                .map_err(|error| SchemaError::new(format!("it is no JSON: {error}")))?;
            root = parser.node(&json, "")?;
        }
        Ok(AvroSchema { nodes: parser.nodes, root })
    }
}

impl Parser {
    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        (self.nodes.len() - 1) as NodeId
    }

    fn node(&mut self, json: &Value, namespace: &str) -> Result<NodeId, SchemaError> {
        match json {
            Value::String(name) => match primitive(name) {
                Some(node) => Ok(self.add(node)),
                None => self.named(name, namespace),
            },
            Value::Array(branches) => {
                let nodes: Result<Box<[NodeId]>, SchemaError> =
                    branches.iter().map(|branch| self.branch(branch, namespace)).collect();
                Ok(self.add(Node::Union(nodes?)))
            }
            Value::Object(object) => self.object(object, namespace),
            _ => Err(SchemaError::new("a type is a name, an object or a list")),
        }
    }

    fn branch(&mut self, json: &Value, namespace: &str) -> Result<NodeId, SchemaError> {
        match json {
            Value::Array(_) => Err(SchemaError::new("a union contains another one directly")),
            json => self.node(json, namespace),
        }
    }

    /// The node that a name was given to.
    fn named(&self, name: &str, namespace: &str) -> Result<NodeId, SchemaError> {
        let found = match name.contains('.') || namespace.is_empty() {
            true => self.names.get(name),
            false => self.names.get(&format!("{namespace}.{name}")).or_else(|| self.names.get(name)),
        };
        found.copied().ok_or_else(|| SchemaError::new(format!("type `{name}` is not defined")))
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId, SchemaError> {
        let ty = match object.get("type") {
            Some(Value::String(ty)) => ty,
            Some(inner) => return self.node(inner, namespace),
            None => return Err(SchemaError::new("an object that describes a type has no `type`")),
        };
        if let Some(node) = primitive(ty) {
            let node = logical(node, object)?;
            return Ok(self.add(node));
        }
        let part = |name: &str| {
            object.get(name).ok_or_else(|| SchemaError::new(format!("type `{ty}` has no `{name}`")))
        };
        match &**ty {
            "array" => {
                let items = self.node(part("items")?, namespace)?;
                Ok(self.add(Node::Array(items)))
            }
            "map" => {
                let values = self.node(part("values")?, namespace)?;
                Ok(self.add(Node::Map(values)))
            }
            "record" | "error" => {
                let (id, name) = self.define(object, namespace)?;
                let namespace = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
                let fields = part("fields")?.as_array();
                let fields = fields.ok_or_else(|| SchemaError::new("`fields` is no list"))?;
                let fields: Result<Box<[Field]>, SchemaError> = fields
                    .iter()
                    .enumerate()
                    .map(|(place, field)| self.field(field, place == 0, namespace))
                    .collect();
                self.nodes[id as usize] = Node::Record(distinct(fields?, &name)?);
                Ok(id)
            }
            "enum" => {
                let (id, name) = self.define(object, namespace)?;
                let symbols =
                    part("symbols")?.as_array().ok_or_else(|| SchemaError::new("`symbols` is no list"))?;
                let symbol = |symbol: &Value| {
                    let symbol = symbol.as_str();
                    symbol.map(|symbol| Value::from(symbol).to_string().into_bytes().into_boxed_slice())
                };
                let symbols: Option<Box<[Box<[u8]>]>> = symbols.iter().map(symbol).collect();
                let symbols = symbols
                    .ok_or_else(|| SchemaError::new(format!("a symbol of enum `{name}` is no text")))?;
                self.nodes[id as usize] = Node::Enum(symbols);
                Ok(id)
            }
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size =
                    size.ok_or_else(|| SchemaError::new("the `size` of a fixed is no whole number"))?;
                let (id, _) = self.define(object, namespace)?;
                self.nodes[id as usize] = logical(Node::Fixed(size), object)?;
                Ok(id)
            }
            name => self.named(name, namespace),
        }
    }

    fn field(&mut self, json: &Value, is_first: bool, namespace: &str) -> Result<Field, SchemaError> {
        let name = json.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| SchemaError::new("a field has no name"))?;
        let ty = json.get("type").ok_or_else(|| SchemaError::new(format!("field `{name}` has no type")))?;
        let node = self.node(ty, namespace)?;
        let comma = if is_first { "" } else { "," };
        let key = format!("{comma}{}:", Value::from(name)).into_bytes().into_boxed_slice();
        let default = json.get("default").map(|default| default.to_string().into());
        Ok(Field { name: name.into(), key, node, default })
    }

    /// Gives a name to a node that is set later, so that its parts can refer to it.
    fn define(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
    ) -> Result<(NodeId, String), SchemaError> {
        let name = object.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| SchemaError::new("a record, enum or fixed has no name"))?;
        let own = object.get("namespace").and_then(Value::as_str);
        let name = match own.unwrap_or(namespace) {
            _ if name.contains('.') => name.to_owned(),
            "" => name.to_owned(),
            namespace => format!("{namespace}.{name}"),
        };
        let id = self.add(Node::Null);
        match self.names.insert(name.clone(), id) {
            None => Ok((id, name)),
            Some(_) => Err(SchemaError::new(format!("type `{name}` is defined twice"))),
        }
    }
}

fn distinct(fields: Box<[Field]>, record: &str) -> Result<Box<[Field]>, SchemaError> {
    let mut names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SchemaError::new(format!("record `{record}` has field `{}` twice", pair[0]))),
        None => Ok(fields),
    }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::String,
        _ => return None,
    })
}

/// A type with the logical type that an object gives it.
fn logical(node: Node, object: &Map<String, Value>) -> Result<Node, SchemaError> {
    let Some(name) = object.get("logicalType").and_then(Value::as_str) else { return Ok(node) };
    let timestamp = |unit, is_local| Node::Timestamp { unit, is_local };
    Ok(match (node, name) {
        (Node::Int, "date") => Node::Date,
        (Node::Int, "time-millis") => Node::Time(Unit::Millis),
        (Node::Long, "time-micros") => Node::Time(Unit::Micros),
        (Node::Long, "timestamp-millis") => timestamp(Unit::Millis, false),
        (Node::Long, "timestamp-micros") => timestamp(Unit::Micros, false),
        (Node::Long, "timestamp-nanos") => timestamp(Unit::Nanos, false),
        (Node::Long, "local-timestamp-millis") => timestamp(Unit::Millis, true),
        (Node::Long, "local-timestamp-micros") => timestamp(Unit::Micros, true),
        (Node::Long, "local-timestamp-nanos") => timestamp(Unit::Nanos, true),
        (Node::Fixed(16), "uuid") => Node::Uuid,
        (Node::Fixed(12), "duration") => Node::Duration,
        (Node::Bytes, "big-decimal") => Node::BigDecimal,
        (node @ (Node::Bytes | Node::Fixed(_)), "decimal") => decimal(node, object)?,
        (node, _) => node,
    })
}

/// A decimal, or the type below it if precision and scale are invalid.
fn decimal(node: Node, object: &Map<String, Value>) -> Result<Node, SchemaError> {
    let number = |name: &str| object.get(name).and_then(Value::as_u64);
    let scale = if object.contains_key("scale") { number("scale") } else { Some(0) };
    let (Some(precision @ 1..), Some(scale)) = (number("precision"), scale) else { return Ok(node) };
    let fixed = if let Node::Fixed(size) = node { Some(size) } else { None };
    // A number of n bytes has at least floor(log10(2^(8n-1) - 1)) digits.
    let has_room =
        |size: usize| size > 0 && precision as f64 <= ((8 * size - 1) as f64 * 2f64.log10()).floor();
    if scale > precision || fixed.is_some_and(|size| !has_room(size)) {
        return Ok(node);
    }
    if precision > PRECISION_MAX {
        return Err(SchemaError::new(format!(
            "a decimal has {precision} digits; at most {PRECISION_MAX} are read"
        )));
    }
    let bytes_max = (precision as f64 * 10f64.log2() / 8.0) as usize + 1;
    Ok(Node::Decimal { fixed, scale: scale as u32, precision: precision as u32, bytes_max })
}
