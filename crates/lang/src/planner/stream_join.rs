//! Plans a join of two streams: the conditions on each side and on a pair, and the output of a pair.
//!
//! Names are first normalized to `alias.field`, each a field of one virtual event that contains both events. Expressions
//! are then planned as those of any query, and their paths identify the sides. A condition on one side filters that
//! side's events before they are stored. An equality between the sides is a key. All other conditions filter pairs.

use std::collections::BTreeMap;

use swiftwater_event::{Path, Primitive, Step, Type};

use crate::{
    Dialect, ParseOptions, Schema, TimeBounds,
    ast::{Binary, Builtin, JoinBound, JoinCondition, Name, Node, NodeKind, StreamJoin},
    ddl::{CreateStream, Watermark},
    lexer::short,
    plan::{Comparison, Expr, Function, JoinPlan, JoinSide, OutputColumn, Quantifier},
    source::{Fault, Span},
};

/// The most equalities of a join.
const KEYS_MAX: usize = 32;

/// The longest time between two events of a pair, in milliseconds: a hundred years.
const APART_MS_MAX: i64 = 100 * 366 * 24 * 60 * 60 * 1000;

/// The steps that lead to each side within the event that holds both.
const SIDES: [&str; 2] = ["left", "right"];

/// Plans a join over what its streams are declared as.
pub(crate) fn plan_join(join: &StreamJoin, streams: [&CreateStream; 2]) -> Result<JoinPlan, Vec<Fault>> {
    let mut names = NormalizedNames::new(join, streams)?;
    let mut join = join.clone();
    let columns = names.column_names(&join.items);
    join.items.iter_mut().for_each(|(node, _)| names.normalize(node));
    for condition in &mut join.on {
        match condition {
            JoinCondition::Expression(node) => names.normalize(node),
            JoinCondition::Bound(JoinBound { value, low, high }) => {
                [value, &mut low.0, &mut high.0].into_iter().for_each(|node| names.normalize(node));
            }
        }
    }
    join.filter.iter_mut().for_each(|node| names.normalize(node));
    if !names.faults.is_empty() {
        return Err(names.faults);
    }
    let schema = Schema::new(names.types.clone()).with_paths(names.paths.clone());
    let mut planning = ConditionPlanner {
        names: &names,
        schema: &schema,
        faults: Vec::new(),
        asked: JoinConditions::default(),
    };
    let mut conditions = Vec::new();
    for condition in &join.on {
        match condition {
            JoinCondition::Expression(node) => operands(node, &mut conditions),
            JoinCondition::Bound(bound) => planning.bound(bound),
        }
    }
    join.filter.iter().for_each(|node| operands(node, &mut conditions));
    conditions.into_iter().for_each(|node| planning.condition(node));
    let items: Vec<Option<Expr>> =
        join.items.iter().map(|(node, _)| planning.planned(node).map(|(expr, _)| expr)).collect();
    let (mut faults, asked) = (planning.faults, planning.asked);
    let whole = join.sources[0].alias.span.to(join.sources[1].alias.span);
    if faults.is_empty() && asked.keys[0].is_empty() {
        let hint = "A join needs an equality: ON x.id = y.id AND ….";
        faults.push(Fault::at(whole, "ON has no equality").hint(hint));
    }
    if faults.is_empty() && asked.apart_ms.is_none() {
        faults.push(
            Fault::at(whole, "ON does not limit the distance in time of the events").hint(names.bound_hint()),
        );
    }
    let (Some((low_ms, high_ms)), true) = (asked.apart_ms, faults.is_empty()) else { return Err(faults) };
    let [left, right] = names.sides.map(|side| (side.time(), side.stream.time_bounds().unwrap_or_default()));
    let [left_keys, right_keys] = asked.keys;
    let [left_filter, right_filter] = asked.of_side.map(all_of);
    let side = |(time, bounds): (Expr, TimeBounds), keys, filter, place: usize| JoinSide {
        stream: join.sources[place].stream.clone(),
        time,
        lateness_ms: bounds.lateness_ms,
        max_ahead_ms: bounds.max_ahead_ms,
        idle_after_ms: bounds.idle_after_ms,
        keys,
        filter,
        values: Vec::new(),
    };
    let mut sides = [side(left, left_keys, left_filter, 0), side(right, right_keys, right_filter, 1)];
    // First which values there are: the right side's slots begin where the left side's end.
    let mut of_pair = all_of(asked.of_pair);
    let mut items: Vec<Expr> = items.into_iter().flatten().collect();
    for expr in of_pair.iter().chain(&items) {
        expr.visit(&mut |part| {
            if let Some((side, value)) = of_side(part)
                && !sides[side].values.contains(&value)
            {
                sides[side].values.push(value);
            }
        });
    }
    of_pair.iter_mut().chain(&mut items).for_each(|expr| substitute_slots(expr, &sides));
    let columns = columns.into_iter().zip(items).map(|(name, expr)| OutputColumn { name, expr });
    Ok(JoinPlan { columns: columns.collect(), filter: of_pair, low_ms, high_ms, sides })
}

/// The alias and the declaration of a stream.
#[derive(Clone, Copy)]
struct JoinedStream<'a> {
    place: usize,
    alias: &'a Name,
    stream: &'a CreateStream,
    watermark: &'a Watermark,
}

/// The names of a join, normalized.
struct NormalizedNames<'a> {
    sides: [JoinedStream<'a>; 2],
    types: BTreeMap<Box<str>, Type>,
    paths: BTreeMap<Box<str>, Path>,
    faults: Vec<Fault>,
}

impl<'a> NormalizedNames<'a> {
    fn new(join: &'a StreamJoin, streams: [&'a CreateStream; 2]) -> Result<NormalizedNames<'a>, Vec<Fault>> {
        let [left, right] = &join.sources;
        let mut faults = Vec::new();
        if left.alias.text.to_lowercase() == right.alias.text.to_lowercase() {
            let message = format!("both streams are named `{}`", short(&right.alias.text));
            faults.push(Fault::at(right.alias.span, message).hint("Use different names."));
        }
        for source in &join.sources {
            if source.alias.text.contains('.') {
                faults.push(Fault::at(source.alias.span, "a name for a stream's events has no dot in it"));
            }
        }
        let mut side = |place: usize| {
            let (source, stream) = (&join.sources[place], streams[place]);
            if stream.watermark.is_none() {
                let message = format!("stream `{}` declares no WATERMARK", source.stream);
                let hint = "A join uses event time: CREATE STREAM … (…, ts TIMESTAMP, WATERMARK FOR ts AS ts \
                            - INTERVAL '5 seconds').";
                faults.push(Fault::at(source.alias.span, message).hint(hint));
            }
            Some(JoinedStream { place, alias: &source.alias, stream, watermark: stream.watermark.as_ref()? })
        };
        match (side(0), side(1)) {
            (Some(left), Some(right)) if faults.is_empty() => Ok(NormalizedNames {
                sides: [left, right],
                types: BTreeMap::new(),
                paths: BTreeMap::new(),
                faults,
            }),
            _ => Err(faults),
        }
    }

    fn side(&self, name: &Name) -> Option<JoinedStream<'a>> {
        let is_it = |side: &&JoinedStream<'_>| match name.quoted || side.alias.quoted {
            true => side.alias.text == name.text,
            false => side.alias.text.to_lowercase() == name.text.to_lowercase(),
        };
        self.sides.iter().find(is_it).copied()
    }

    /// Normalizes the names of an expression to their form. Parts that a join does not allow are recorded as faults.
    fn normalize(&mut self, node: &mut Node) {
        match &node.kind {
            NodeKind::Member(base, field) => {
                if let NodeKind::Name(name) = &base.bare().kind
                    && let Some(side) = self.side(name)
                {
                    let field = field.clone();
                    node.kind = NodeKind::Name(self.field(side, &field, node.span));
                    return;
                }
            }
            NodeKind::Name(name) => {
                let name = name.clone();
                if let Some(found) = self.bare(&name) {
                    node.kind = NodeKind::Name(found);
                }
                return;
            }
            NodeKind::Now => return self.no_clock(node.span, "NOW"),
            NodeKind::Call(Builtin::UnixTimestamp, arguments) if arguments.is_empty() => {
                return self.no_clock(node.span, "UNIXTIMESTAMP()");
            }
            _ => {}
        }
        node.children_mut(&mut |child| self.normalize(child));
    }

    fn no_clock(&mut self, span: Span, what: &str) {
        let hint = "The result of a join must not depend on the time of the query.";
        self.faults.push(Fault::at(span, format!("{what} is not allowed in a join")).hint(hint));
    }

    /// A field of one of the streams; one that is not declared is whatever an event has there.
    fn field(&mut self, side: JoinedStream<'_>, field: &Name, span: Span) -> Name {
        let declared = declared(side.stream, field);
        let (name, ty, path) = match declared {
            Some(column) => (&*column.name, column.ty.clone(), column.event_path()),
            None => (&*field.text, Type::Any, Path::field(field.text.clone())),
        };
        let name: Box<str> = format!("{}.{name}", side.alias.text).into();
        let first = Path::field(SIDES[side.place]);
        let path = path.steps().iter().cloned().fold(first, |path, step| path.then(step));
        self.types.insert(name.clone(), ty);
        self.paths.insert(name.clone(), path);
        Name { text: name, quoted: true, span }
    }

    /// A name without a stream before it.
    fn bare(&mut self, name: &Name) -> Option<Name> {
        let shown = short(&name.text);
        if self.side(name).is_some() {
            let message = format!("`{shown}` is a whole event");
            self.faults.push(Fault::at(name.span, message).hint(format!("Name a field of it: {shown}.…")));
            return None;
        }
        let [left, right] = self.sides;
        match (declared(left.stream, name), declared(right.stream, name)) {
            (Some(_), None) => Some(self.field(left, name, name.span)),
            (None, Some(_)) => Some(self.field(right, name, name.span)),
            (found, _) => {
                let message = match found {
                    Some(_) => format!("both streams have a column `{shown}`"),
                    None => format!("neither stream has a column `{shown}`"),
                };
                let (left, right) = (&left.alias.text, &right.alias.text);
                let hint = match name.quoted {
                    true => format!(
                        "Write `{left}.\"{shown}\"` or `{right}.\"{shown}\"`; write text in single quotes."
                    ),
                    false => format!("Write `{left}.{shown}` or `{right}.{shown}`."),
                };
                self.faults.push(Fault::at(name.span, message).hint(hint));
                None
            }
        }
    }

    /// The names of the columns, before other names are brought to their form.
    fn column_names(&mut self, items: &[(Node, Option<Name>)]) -> Vec<Box<str>> {
        let mut columns: Vec<Box<str>> = Vec::new();
        for (node, alias) in items {
            let name = match (alias, &node.bare().kind) {
                (Some(name), _) | (None, NodeKind::Name(name) | NodeKind::Member(_, name)) => {
                    name.text.clone()
                }
                (None, _) => {
                    let hint = "Write `… AS name`.";
                    self.faults.push(Fault::at(node.span, "this column has no name").hint(hint));
                    continue;
                }
            };
            if columns.contains(&name) {
                let message = format!("two columns are named `{}`", short(&name));
                self.faults.push(Fault::at(node.span, message).hint("Write `… AS name`."));
            }
            columns.push(name);
        }
        columns
    }

    /// An example of a bound.
    fn bound_hint(&self) -> String {
        let [left, right] = self.sides.map(|side| format!("{}.{}", side.alias.text, side.watermark.column));
        format!("Write {right} BETWEEN {left} - INTERVAL '…' AND {left} + INTERVAL '…'.")
    }
}

impl JoinedStream<'_> {
    /// The time of an event.
    fn time(&self) -> Expr {
        let column = self.stream.columns.iter().find(|column| column.name == self.watermark.column);
        let path =
            column.map_or_else(|| Path::field(self.watermark.column.clone()), |column| column.event_path());
        Expr::Path { path, ty: column.map_or(Type::Any, |column| column.ty.clone()) }
    }

    /// True if an expression is just that.
    fn is_time(&self, node: &Node) -> bool {
        let NodeKind::Name(name) = &node.bare().kind else { return false };
        name.text.strip_prefix(&*self.alias.text).and_then(|rest| rest.strip_prefix('.'))
            == Some(&self.watermark.column)
    }
}

/// A declared column, in whatever letter case unless the name is in quotes.
fn declared<'s>(stream: &'s CreateStream, name: &Name) -> Option<&'s crate::ddl::ColumnDef> {
    let found = stream.column(&name.text).map(|place| &stream.columns[place]);
    found.filter(|column| !name.quoted || column.name == name.text)
}

/// The conditions of the join, by what they read.
#[derive(Default)]
struct JoinConditions {
    keys: [Vec<Expr>; 2],
    of_side: [Vec<Expr>; 2],
    of_pair: Vec<Expr>,
    /// The right event's time less the left one's, from and to.
    apart_ms: Option<(i64, i64)>,
}

struct ConditionPlanner<'p> {
    names: &'p NormalizedNames<'p>,
    schema: &'p Schema,
    faults: Vec<Fault>,
    asked: JoinConditions,
}

impl ConditionPlanner<'_> {
    fn planned(&mut self, node: &Node) -> Option<(Expr, Option<Type>)> {
        let options = ParseOptions { schema: Some(self.schema), ..ParseOptions::new(Dialect::Native, 0) };
        match super::plan_expression(node, &options) {
            Ok(planned) => Some(planned),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    fn condition(&mut self, node: &Node) {
        if let NodeKind::Between { value, bounds, negated: false } = &node.bare().kind
            && self.names.sides.iter().any(|side| side.is_time(value))
            && self.names.sides.iter().any(|side| bounds.iter().all(|bound| side.is_time(bound)))
        {
            let [low, high] = &**bounds;
            let (low, high) = ((low.clone(), 0), (high.clone(), 0));
            return self.bound(&JoinBound { value: (**value).clone(), low, high });
        }
        let Some((expr, ty)) = self.planned(node) else { return };
        if let Some(ty) = ty.filter(|ty| *ty != Type::BOOLEAN) {
            let message = format!("a join needs conditions, and this is {ty}");
            self.faults.push(Fault::at(node.span, message));
            return;
        }
        match (referenced_sides(&expr), &expr) {
            (
                ReferencedSides::Both,
                Expr::Call { function: Function::Compare(Comparison::Eq, Quantifier::One), args },
            ) => match [referenced_sides(&args[0]), referenced_sides(&args[1])] {
                [ReferencedSides::One(left), ReferencedSides::One(right)] if left != right => {
                    self.key(node, args, left)
                }
                _ => self.asked.of_pair.push(expr),
            },
            (ReferencedSides::One(side), _) => self.asked.of_side[side].push(within_side(&expr)),
            (ReferencedSides::Both | ReferencedSides::Nobodys, _) => self.asked.of_pair.push(expr),
        }
    }

    /// An equality between the sides; `first` is whose its left operand is.
    fn key(&mut self, node: &Node, args: &[Expr], first: usize) {
        let mut types = Vec::new();
        if let NodeKind::Binary(Binary::Compare(..), left, right) = &node.bare().kind {
            for operand in [left, right] {
                types.push(self.planned(operand).and_then(|(_, ty)| ty).unwrap_or(Type::Any));
            }
        }
        if let [left, right] = &types[..]
            && (kind(left) == Kind::Parts || kind(right) == Kind::Parts || !may_equal(left, right))
        {
            let message =
                format!("values of type {left} and {right} cannot be compared in an equality of a join");
            self.faults.push(Fault::at(node.span, message).hint("Write CAST(… AS …) on one side."));
            return;
        }
        if self.asked.keys[0].len() == KEYS_MAX {
            self.faults.push(Fault::at(node.span, format!("a join has at most {KEYS_MAX} equalities")));
            return;
        }
        self.asked.keys[first].push(within_side(&args[0]));
        self.asked.keys[1 - first].push(within_side(&args[1]));
    }

    fn bound(&mut self, bound: &JoinBound) {
        let JoinBound { value, low: (low, low_ms), high: (high, high_ms) } = bound;
        let span = value.span.to(high.span);
        let of = |node: &Node| self.names.sides.iter().position(|side| side.is_time(node));
        let (Some(of_value), Some(of_low), Some(of_high)) = (of(value), of(low), of(high)) else {
            let message = "a bound in time must compare the time columns of the streams' WATERMARKs";
            self.faults.push(Fault::at(span, message).hint(self.names.bound_hint()));
            return;
        };
        let message = match () {
            () if of_low != of_high || of_value == of_low => {
                "a bound must compare the time of one stream with the time of the other".to_owned()
            }
            () if low_ms > high_ms => "this range is empty: its start must not be after its end".to_owned(),
            () if low_ms.unsigned_abs().max(high_ms.unsigned_abs()) > APART_MS_MAX.unsigned_abs() => {
                "events of a pair are at most a hundred years apart".to_owned()
            }
            () if self.asked.apart_ms.is_some() => {
                "a join has one bound in time, and this is a second one".to_owned()
            }
            () => {
                let is_right = of_value == 1;
                self.asked.apart_ms = Some(if is_right { (*low_ms, *high_ms) } else { (-high_ms, -low_ms) });
                return;
            }
        };
        self.faults.push(Fault::at(span, message).hint(self.names.bound_hint()));
    }
}

/// Conditions that are joined by AND, each by itself.
fn operands<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match &node.bare().kind {
        NodeKind::And(list) => list.iter().for_each(|operand| operands(operand, out)),
        _ => out.push(node),
    }
}

/// The sides whose values an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferencedSides {
    Nobodys,
    One(usize),
    Both,
}

fn referenced_sides(expr: &Expr) -> ReferencedSides {
    let mut whose = ReferencedSides::Nobodys;
    expr.visit(&mut |part| {
        if let Some((side, _)) = of_side(part) {
            whose = match whose {
                ReferencedSides::Nobodys => ReferencedSides::One(side),
                ReferencedSides::One(known) if known == side => whose,
                ReferencedSides::One(_) | ReferencedSides::Both => ReferencedSides::Both,
            };
        }
    });
    whose
}

/// The side of a path, and the same path within one of that side's events.
fn of_side(expr: &Expr) -> Option<(usize, Expr)> {
    let Expr::Path { path, ty } = expr else { return None };
    let (Step::Key(first), rest) = path.steps().split_first()? else { return None };
    let side = SIDES.iter().position(|side| **side == **first)?;
    Some((side, Expr::Path { path: Path::new(rest.to_vec()).ok()?, ty: ty.clone() }))
}

/// An expression of one side, over its events.
fn within_side(expr: &Expr) -> Expr {
    match expr {
        Expr::Path { .. } => of_side(expr).map_or_else(|| expr.clone(), |(_, path)| path),
        Expr::Call { function, args } => {
            Expr::Call { function: function.clone(), args: args.iter().map(within_side).collect() }
        }
        Expr::Literal(_) | Expr::Slot(_) => expr.clone(),
    }
}

/// Substitutes slots for the values of the sides in an expression of a pair.
fn substitute_slots(expr: &mut Expr, sides: &[JoinSide; 2]) {
    if let Some((side, value)) = of_side(expr) {
        let before = if side == 1 { sides[0].values.len() } else { 0 };
        let place = sides[side].values.iter().position(|known| *known == value);
        *expr = Expr::Slot(before + place.unwrap_or_default());
        return;
    }
    if let Expr::Call { args, .. } = expr {
        args.iter_mut().for_each(|arg| substitute_slots(arg, sides));
    }
}

fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::Call { function: Function::And, args: conditions }),
    }
}

/// Types whose values can be equal as keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Truth,
    Time,
    Parts,
    Unknown,
}

fn kind(ty: &Type) -> Kind {
    use Primitive::{Boolean, Double, Float, Integer, Long, String, Timestamp};
    match ty {
        Type::Primitive(Integer | Long | Float | Double) => Kind::Number,
        Type::Primitive(String) => Kind::Text,
        Type::Primitive(Boolean) => Kind::Truth,
        Type::Primitive(Timestamp(_)) => Kind::Time,
        Type::List(_) | Type::Map(_) => Kind::Parts,
        Type::Any => Kind::Unknown,
    }
}

fn may_equal(left: &Type, right: &Type) -> bool {
    let (left, right) = (kind(left), kind(right));
    left == right || left == Kind::Unknown || right == Kind::Unknown
}
