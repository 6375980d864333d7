//! Evaluates operators that return values, over a selection of rows at a time.

use arrow_array::Array;
use bumpalo::Bump;
use swiftwater_event::{Column, Kind, Tagged, Type, Value, Values};
use swiftwater_lang::Dialect;

use super::arithmetic::{self, Arithmetic};
use super::java_type::JavaType;
use super::predicate::{Predicate, Truth};
use super::program::Context;
use super::time_pattern::DateTimePattern;
use super::{cast, containers, java, text, time};

/// A constant of the query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    String(Box<str>),
    List(Vec<Constant>),
}

impl Constant {
    /// The value, borrowed; `None` for a list.
    pub(super) fn as_value(&self) -> Option<Value<'_>> {
        Some(match self {
            Constant::Null => Value::Null,
            Constant::Boolean(truth) => Value::Boolean(*truth),
            Constant::Integer(number) => Value::Integer(*number),
            Constant::Long(number) => Value::Long(*number),
            Constant::Float(number) => Value::Float(*number),
            Constant::Double(number) => Value::Double(*number),
            Constant::String(text) => Value::String(text),
            Constant::List(_) => return None,
        })
    }
}

/// The column of a want.
#[derive(Debug)]
pub(super) struct ColumnNode {
    /// Its place among the wants.
    pub(super) want: usize,
    /// The wanted type.
    pub(super) ty: Type,
}

/// Operators of one operand; null gives null, but for HASH.
#[derive(Debug)]
pub(super) enum Unary {
    Abs,
    Trim,
    Lower,
    Upper,
    SizeOf {
        declared: Option<JavaType>,
    },
    Hash,
    Cast(Type),
    /// UNIXTIMESTAMP(s).
    Seconds,
}

/// Operators of two operands; null gives null.
#[derive(Debug)]
pub(super) enum Binary {
    Arithmetic(Arithmetic),
    Element,
    Filter,
    Concat,
    /// UNIXTIMESTAMP(s, pattern); the pattern already read where it is constant.
    Seconds(Option<DateTimePattern>),
}

/// An operator that makes values.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Constant),
    Column(ColumnNode),
    /// The value of a slot, with the type that it has: columns of lateral views have no declared type.
    Slot(usize),
    /// UNIXTIMESTAMP().
    Now,
    /// Arrival of the batch, in milliseconds.
    Arrival,
    Truth(Box<Predicate>),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    /// Text, start, and maybe a length.
    Substring(Vec<Node>),
    List(Vec<Node>),
    /// The value beside the first condition that is true.
    Case {
        arms: Vec<(Predicate, Node)>,
        otherwise: Box<Node>,
    },
    Coalesce(Vec<Node>),
}

impl Node {
    /// The container type that is known before any value is seen.
    pub(super) fn declared(&self) -> Option<JavaType> {
        match self {
            Node::Column(column) => JavaType::of_type(&column.ty),
            Node::Binary(Binary::Filter, operands) => operands[0].declared(),
            Node::Binary(Binary::Element, operands) => operands[0].declared().map(JavaType::element),
            _ => None,
        }
    }

    /// Appends one value per selected row to `out`, which is empty.
    pub(super) fn evaluate<'a>(
        &self,
        selection: &[u32],
        context: &mut Context<'_, 'a>,
        out: &mut Vec<Value<'a>>,
    ) {
        match self {
            Node::Constant(constant) => {
                out.resize(selection.len(), constant.in_arena(context.arena));
                return;
            }
            Node::Now => {
                out.resize(selection.len(), Value::Long(context.now().div_euclid(1000)));
                return;
            }
            Node::Arrival => {
                out.resize(selection.len(), Value::Long(context.now()));
                return;
            }
            Node::Column(column) => column.evaluate(selection, context, out),
            Node::Slot(slot) => match context.slot(*slot) {
                Some(values) => out.extend(
                    selection.iter().map(|&row| values.get(row as usize).copied().unwrap_or(Value::Null)),
                ),
                None => out.resize(selection.len(), Value::Null),
            },
            Node::Truth(predicate) => {
                let mut truths = context.scratch.take_truths();
                predicate.evaluate(selection, context, &mut truths);
                out.extend(truths.iter().map(|truth| truth.to_value()));
                context.scratch.emit_truths(truths);
                return;
            }
            Node::Unary(operator, operand) => {
                operand.evaluate(selection, context, out);
                apply_unary(operator, context, out);
            }
            Node::Binary(operator, operands) => {
                operands[0].evaluate(selection, context, out);
                let mut right = context.scratch.take_values();
                operands[1].evaluate(selection, context, &mut right);
                apply_binary(operator, context, out, &right);
                context.scratch.emit_values(right);
            }
            Node::Substring(operands) => substring(operands, selection, context, out),
            Node::List(items) => list(items, selection, context, out),
            Node::Case { arms, otherwise } => return case(arms, otherwise, selection, context, out),
            Node::Coalesce(operands) => return coalesce(operands, selection, context, out),
        }
        context.nullify_errors(out);
    }
}

impl ColumnNode {
    fn evaluate<'a>(&self, selection: &[u32], context: &mut Context<'_, 'a>, out: &mut Vec<Value<'a>>) {
        if let Some((values, event_of_row)) = context.exploded(self.want) {
            out.extend(selection.iter().map(|&row| values[event_of_row[row as usize] as usize]));
        } else if let Some(column) = context.column(self.want) {
            fill_from_column(column, selection, context.dialect, context.arena, out);
        } else {
            out.resize(selection.len(), Value::Null);
        }
    }
}

/// Appends the values of a decoded column's rows to `out`, which is empty, as the dialect sees them.
pub(super) fn fill_from_column<'a>(
    column: &'a Column,
    rows: &[u32],
    dialect: Dialect,
    arena: &'a Bump,
    out: &mut Vec<Value<'a>>,
) {
    column.fill(rows, arena, out);
    let is_untyped = matches!(column.values, Values::Tagged(_));
    if is_untyped && dialect.narrows_integers() {
        for value in out {
            *value = containers::narrow(*value, arena);
        }
    }
}

/// Replaces each value by what the operator makes of it.
fn apply_unary<'a>(operator: &Unary, context: &mut Context<'_, 'a>, values: &mut [Value<'a>]) {
    let (dialect, arena) = (context.dialect, context.arena);
    match operator {
        Unary::Abs => each(values, |value| arithmetic::absolute(value, dialect)),
        Unary::Trim => each(values, text::trim),
        Unary::Lower => each(values, |value| text::lower(value, arena)),
        Unary::Upper => each(values, |value| text::upper(value, arena)),
        Unary::SizeOf { declared } => {
            each(values, |value| match containers::size(&value, *declared, dialect) {
                Some(size) if dialect.narrows_integers() => {
                    i32::try_from(size).map_or(Value::Error, Value::Integer)
                }
                Some(size) => Value::Long(size as i64),
                None => Value::Error,
            })
        }
        Unary::Hash => {
            let native = dialect == Dialect::Native;
            for value in values {
                // In the native dialect an INTEGER is a LONG, and what cannot be had is null.
                *value = match *value {
                    Value::Error if !native => Value::Error,
                    Value::Integer(number) if native => {
                        Value::Integer(java::java_hash(&Value::Long(i64::from(number))))
                    }
                    ref other => Value::Integer(java::java_hash(other)),
                };
            }
        }
        Unary::Cast(ty) => each(values, |value| cast::cast(value, ty, dialect, arena)),
        Unary::Seconds => each(values, |value| match value {
            Value::String(text) => match dialect {
                Dialect::Native => time::sql_timestamp_seconds(text, false).or_else(|| {
                    swiftwater_event::from_rfc3339(text.as_bytes()).map(|micros| micros.div_euclid(1_000_000))
                }),
                Dialect::Bullet => time::sql_timestamp_seconds(text, true),
            }
            .map_or(Value::Error, Value::Long),
            Value::Timestamp(micros) => Value::Long(micros.div_euclid(1_000_000)),
            _ => Value::Error,
        }),
    }
}

/// Applies to every value that is neither null nor an error.
fn each<'a>(values: &mut [Value<'a>], operator: impl Fn(Value<'a>) -> Value<'a>) {
    for value in values {
        if !matches!(value, Value::Null | Value::Error) {
            *value = operator(*value);
        }
    }
}

/// Replaces each left value by what the operator makes of it and the right one.
fn apply_binary<'a>(
    operator: &Binary,
    context: &mut Context<'_, 'a>,
    left: &mut [Value<'a>],
    right: &[Value<'a>],
) {
    let (dialect, arena) = (context.dialect, context.arena);
    match operator {
        Binary::Arithmetic(operator) => {
            each_pair(left, right, |a, b| arithmetic::apply(*operator, a, b, dialect));
        }
        Binary::Element => {
            for (base, index) in left.iter_mut().zip(right) {
                *base = match (*base, *index) {
                    (Value::Error, _) | (_, Value::Error) => Value::Error,
                    (Value::Null, _) | (_, Value::Null) => Value::Null,
                    (base, index) => containers::element(base, index, dialect),
                };
            }
        }
        Binary::Filter => each_pair(left, right, |list, flags| containers::filter(list, flags, arena)),
        Binary::Concat => each_pair(left, right, |a, b| text::concat(a, b, arena)),
        Binary::Seconds(Some(pattern)) => {
            each_pair(left, right, |value, _| pattern_seconds(value, Some(pattern)))
        }
        Binary::Seconds(None) => each_pair(left, right, |value, pattern| match pattern {
            Value::String(pattern) => pattern_seconds(value, DateTimePattern::parse(pattern).as_ref()),
            _ => Value::Error,
        }),
    }
}

/// Applies to every pair of which neither is null or an error. A null on the left is the answer before the right is
/// looked at.
fn each_pair<'a>(
    left: &mut [Value<'a>],
    right: &[Value<'a>],
    operator: impl Fn(Value<'a>, Value<'a>) -> Value<'a>,
) {
    for (left, right) in left.iter_mut().zip(right) {
        *left = match (*left, *right) {
            (Value::Null | Value::Error, _) => *left,
            (_, Value::Null | Value::Error) => *right,
            (a, b) => operator(a, b),
        };
    }
}

/// UNIXTIMESTAMP(value, pattern): a number is taken as its digits.
fn pattern_seconds<'a>(value: Value<'a>, pattern: Option<&DateTimePattern>) -> Value<'a> {
    let Some(pattern) = pattern else { return Value::Error };
    let seconds = match value {
        Value::String(text) => pattern.seconds(text),
        Value::Integer(_) | Value::Long(_) | Value::Float(_) | Value::Double(_) => {
            cast::java_long(&value).and_then(|number| pattern.seconds(&number.to_string()))
        }
        _ => None,
    };
    seconds.map_or(Value::Error, Value::Long)
}

fn substring<'a>(
    operands: &[Node],
    selection: &[u32],
    context: &mut Context<'_, 'a>,
    out: &mut Vec<Value<'a>>,
) {
    let [text, start, rest @ ..] = operands else {
        return out.resize(selection.len(), Value::Error);
    };
    text.evaluate(selection, context, out);
    let mut starts = context.scratch.take_values();
    start.evaluate(selection, context, &mut starts);
    let mut lengths = context.scratch.take_values();
    if let [length] = rest {
        length.evaluate(selection, context, &mut lengths);
    }
    for (at, value) in out.iter_mut().enumerate() {
        let operands = [Some(*value), starts.get(at).copied(), lengths.get(at).copied()];
        let undecided = operands.iter().flatten().find(|value| matches!(value, Value::Null | Value::Error));
        *value = match (undecided, operands) {
            (Some(undecided), _) => *undecided,
            (None, [Some(text), Some(start), length]) => {
                text::substring(text, start, length, context.dialect, context.arena)
            }
            _ => Value::Error,
        };
    }
    context.scratch.emit_values(starts);
    context.scratch.emit_values(lengths);
}

fn list<'a>(items: &[Node], selection: &[u32], context: &mut Context<'_, 'a>, out: &mut Vec<Value<'a>>) {
    let arena = context.arena;
    let mut flat = context.scratch.take_values();
    let mut column = context.scratch.take_values();
    flat.resize(selection.len() * items.len(), Value::Null);
    for (at, item) in items.iter().enumerate() {
        column.clear();
        item.evaluate(selection, context, &mut column);
        for (row, value) in column.iter().enumerate() {
            flat[row * items.len() + at] = *value;
        }
    }
    for row in 0..selection.len() {
        let values = &flat[row * items.len()..(row + 1) * items.len()];
        let has_error = values.iter().any(|value| matches!(value, Value::Error));
        out.push(if has_error { Value::Error } else { Value::List(arena.alloc_slice_copy(values)) });
    }
    context.scratch.emit_values(column);
    context.scratch.emit_values(flat);
}

/// Later conditions and values run on those rows only that no earlier condition took.
fn case<'a>(
    arms: &[(Predicate, Node)],
    otherwise: &Node,
    selection: &[u32],
    context: &mut Context<'_, 'a>,
    out: &mut Vec<Value<'a>>,
) {
    out.resize(selection.len(), Value::Null);
    let mut open = UndecidedRows::all(selection, context);
    let mut truths = context.scratch.take_truths();
    for (condition, value) in arms {
        truths.clear();
        condition.evaluate(&open.rows, context, &mut truths);
        let mut taken = UndecidedRows::none(context);
        open.retain(|at, place, row| match truths[at] {
            Truth::True => {
                taken.push(place, row);
                false
            }
            Truth::Error => {
                out[place as usize] = Value::Error;
                false
            }
            Truth::False | Truth::Null => true,
        });
        taken.fill_from(value, context, out);
        taken.recycle(context);
    }
    context.scratch.emit_truths(truths);
    open.fill_from(otherwise, context, out);
    open.recycle(context);
}

/// Later operands run on those rows only where all before were null.
fn coalesce<'a>(
    operands: &[Node],
    selection: &[u32],
    context: &mut Context<'_, 'a>,
    out: &mut Vec<Value<'a>>,
) {
    out.resize(selection.len(), Value::Null);
    let mut open = UndecidedRows::all(selection, context);
    for operand in operands {
        open.fill_from(operand, context, out);
        open.retain(|_, place, _| matches!(out[place as usize], Value::Null));
    }
    open.recycle(context);
}

/// Rows that are still undecided, and their places in the result.
pub(super) struct UndecidedRows {
    places: Vec<u32>,
    pub(super) rows: Vec<u32>,
}

impl UndecidedRows {
    /// All rows of a selection.
    pub(super) fn all(selection: &[u32], context: &mut Context<'_, '_>) -> UndecidedRows {
        let mut open = UndecidedRows::none(context);
        open.places.extend(0..selection.len() as u32);
        open.rows.extend_from_slice(selection);
        open
    }

    fn none(context: &mut Context<'_, '_>) -> UndecidedRows {
        UndecidedRows { places: context.scratch.take_rows(), rows: context.scratch.take_rows() }
    }

    fn push(&mut self, place: u32, row: u32) {
        self.places.push(place);
        self.rows.push(row);
    }

    /// Retains the rows for which `keep(number of rows before it here, place, row)` is true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize, u32, u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.rows.len() {
            let (place, row) = (self.places[at], self.rows[at]);
            if keep(at, place, row) {
                self.places[kept] = place;
                self.rows[kept] = row;
                kept += 1;
            }
        }
        self.places.truncate(kept);
        self.rows.truncate(kept);
    }

    fn fill_from<'a>(&self, node: &Node, context: &mut Context<'_, 'a>, out: &mut [Value<'a>]) {
        if self.rows.is_empty() {
            return;
        }
        let mut values = context.scratch.take_values();
        node.evaluate(&self.rows, context, &mut values);
        for (&place, value) in self.places.iter().zip(&values) {
            out[place as usize] = *value;
        }
        context.scratch.emit_values(values);
    }

    /// Returns its buffers to the scratch memory.
    pub(super) fn recycle(self, context: &mut Context<'_, '_>) {
        context.scratch.emit_rows(self.places);
        context.scratch.emit_rows(self.rows);
    }
}

/// The kind of a row of a tagged column, if it is in range.
pub(super) fn tagged_kind(tagged: &Tagged, row: u32) -> i8 {
    tagged.kinds.get(row as usize).copied().unwrap_or(Kind::Null as i8)
}

/// Rows of a typed array that hold a value.
pub(super) fn is_valid(array: &dyn Array, row: u32) -> bool {
    (row as usize) < array.len() && array.is_valid(row as usize)
}
