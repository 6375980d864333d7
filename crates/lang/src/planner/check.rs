//! Determines the types of expressions, as far as they are known before any event, and checks Bullet's rules about
//! operands.
//!
//! Without a schema and without hints, a field's type is unknown; a rule does not apply to an unknown type. The native
//! dialect determines types but enforces no rule: a value of the wrong type is null when it occurs.

use swiftwater_event::{Primitive, Type};

use crate::{
    Dialect,
    plan::{Comparison, Function, Literal, Quantifier},
};

/// The knowledge about a value's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ty {
    /// The type is unknown.
    Unknown,
    /// It is NULL.
    Null,
    /// It is this (never [`Type::Any`]), or null.
    Known(Type),
}

impl From<Type> for Ty {
    fn from(ty: Type) -> Ty {
        if ty == Type::Any { Ty::Unknown } else { Ty::Known(ty) }
    }
}

impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ty::Unknown => f.write_str("UNKNOWN"),
            Ty::Null => f.write_str("NULL"),
            Ty::Known(ty) => ty.fmt(f),
        }
    }
}

const BOOLEAN: Ty = Ty::Known(Type::BOOLEAN);
const STRING: Ty = Ty::Known(Type::STRING);

/// A rule about one operand: true where the type is unknown.
impl Ty {
    pub(super) fn of(literal: &Literal) -> Ty {
        match literal {
            Literal::Null => Ty::Null,
            Literal::Boolean(_) => BOOLEAN,
            Literal::Integer(_) => Ty::Known(Type::INTEGER),
            Literal::Long(_) => Ty::Known(Type::LONG),
            Literal::Float(_) => Ty::Known(Type::FLOAT),
            Literal::Double(_) => Ty::Known(Type::DOUBLE),
            Literal::String(_) => STRING,
        }
    }

    fn may(&self, rule: impl FnOnce(&Type) -> bool) -> bool {
        match self {
            Ty::Unknown => true,
            Ty::Null => false,
            Ty::Known(ty) => rule(ty),
        }
    }

    pub(super) fn may_be_numeric_or_boolean(&self) -> bool {
        self.may(|ty| is_numeric(ty) || *ty == Type::BOOLEAN)
    }

    /// It may be grouped and ordered by, and cast to BOOLEAN.
    pub(super) fn may_be_primitive(&self) -> bool {
        self.may(is_primitive)
    }

    /// The element type of a list; `None`: it is no list.
    pub(super) fn element_of_list(&self) -> Option<Ty> {
        match self {
            Ty::Unknown | Ty::Known(Type::List(_)) => Some(self.inner()),
            _ => None,
        }
    }

    /// The value type of a map; `None`: it is no map.
    pub(super) fn value_of_map(&self) -> Option<Ty> {
        match self {
            Ty::Unknown | Ty::Known(Type::Map(_)) => Some(self.inner()),
            _ => None,
        }
    }

    fn may_be_numeric(&self) -> bool {
        self.may(is_numeric)
    }

    fn may_be(&self, wanted: &Type) -> bool {
        self.may(|ty| ty == wanted)
    }

    fn may_be_list(&self) -> bool {
        self.may(|ty| matches!(ty, Type::List(_)))
    }

    fn may_be_container(&self) -> bool {
        self.may(|ty| !is_primitive(ty))
    }

    fn may_be_sized(&self) -> bool {
        self.may(|ty| !is_primitive(ty) || *ty == Type::STRING)
    }

    /// The element type of a list, or the value type of a map.
    fn inner(&self) -> Ty {
        match self {
            Ty::Known(Type::List(inner) | Type::Map(inner)) => (**inner).clone().into(),
            _ => Ty::Unknown,
        }
    }

    /// The type of a container's innermost values.
    fn innermost(&self) -> Ty {
        match self {
            Ty::Known(Type::List(_) | Type::Map(_)) => self.inner().innermost(),
            other => other.clone(),
        }
    }
}

fn is_primitive(ty: &Type) -> bool {
    matches!(ty, Type::Primitive(_))
}

fn is_numeric(ty: &Type) -> bool {
    use Primitive::{Double, Float, Integer, Long};
    matches!(ty, Type::Primitive(Integer | Long | Float | Double))
}

/// True if `=` can compare these.
fn comparable(left: &Ty, right: &Ty) -> bool {
    match (left, right) {
        (Ty::Unknown, _) | (_, Ty::Unknown) => true,
        (Ty::Known(left), Ty::Known(right)) => {
            (is_numeric(left) && is_numeric(right)) || (is_primitive(left) && left == right)
        }
        _ => false,
    }
}

/// True if all are numbers, or all text, so that `<` can compare them.
fn ordered(types: &[&Ty]) -> bool {
    types.iter().all(|ty| ty.may_be_numeric()) || types.iter().all(|ty| ty.may_be(&Type::STRING))
}

/// The type of an arithmetic result.
fn widest(left: &Ty, right: &Ty) -> Ty {
    let (Ty::Known(left), Ty::Known(right)) = (left, right) else { return Ty::Unknown };
    for ty in [Type::DOUBLE, Type::FLOAT, Type::LONG] {
        if *left == ty || *right == ty {
            return Ty::Known(ty);
        }
    }
    Ty::Known(Type::INTEGER)
}

/// The violations of the rules for a function's operands, in Bullet's dialect.
pub(super) struct OperandFaults(Vec<String>);

impl OperandFaults {
    fn need(&mut self, holds: bool, needs: &str, given: &[&Ty]) -> bool {
        if !holds {
            let given = given.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
            self.0.push(format!("needs {needs}, not {given}"));
        }
        holds
    }
}

/// The type that a function's result is checked as, and the rules that its operands break, each a text to stand behind
/// the expression's own.
pub(super) fn result(function: &Function, args: &[Ty], dialect: Dialect) -> (Ty, Vec<String>) {
    let mut broken = OperandFaults(Vec::new());
    let ty = check(function, args, &mut broken);
    if !args.contains(&Ty::Unknown) {
        return (ty, broken.0);
    }
    // If one operand is unknown, Bullet checks none, and takes every number for a DOUBLE.
    let ty = match function {
        _ if dialect != Dialect::Bullet => ty,
        Function::If => Ty::Unknown,
        Function::Add
        | Function::Subtract
        | Function::Multiply
        | Function::Divide
        | Function::Remainder
        | Function::Abs => Ty::Known(Type::DOUBLE),
        _ => ty,
    };
    (ty, Vec::new())
}

/// The type that a function's result has, as far as it is known.
pub(super) fn result_type(function: &Function, args: &[Ty]) -> Ty {
    check(function, args, &mut OperandFaults(Vec::new()))
}

fn check(function: &Function, args: &[Ty], broken: &mut OperandFaults) -> Ty {
    let arg = |at: usize| args.get(at).unwrap_or(&Ty::Unknown);
    let (first, second, third) = (arg(0), arg(1), arg(2));
    match function {
        Function::Add | Function::Subtract | Function::Multiply | Function::Divide | Function::Remainder => {
            let numeric = first.may_be_numeric() && second.may_be_numeric();
            broken.need(numeric, "two numbers", &[first, second]);
            if numeric { widest(first, second) } else { Ty::Unknown }
        }
        Function::Compare(comparison, quantifier) => {
            compare(*comparison, *quantifier, first, second, broken);
            BOOLEAN
        }
        // The JSON form alone makes it, and checks no types.
        Function::MatchesText(_) => BOOLEAN,
        Function::RLike { any: false, .. } | Function::Like { .. } => {
            let text = first.may_be(&Type::STRING) && second.may_be(&Type::STRING);
            broken.need(text, "two STRINGs", &[first, second]);
            BOOLEAN
        }
        Function::RLike { any: true, .. } => {
            broken.need(first.may_be(&Type::STRING), "a STRING on its left", &[first]);
            let patterns = second.may_be_list() && second.inner().may_be(&Type::STRING);
            broken.need(patterns, "a list of STRINGs on its right", &[second]);
            BOOLEAN
        }
        Function::In { .. } => {
            let left = first.may(is_primitive);
            broken.need(left, "a primitive on its left", &[first]);
            let right = second.may_be_container();
            broken.need(right, "a list or map on its right", &[second]);
            if left && right {
                let alike = comparable(first, &second.innermost());
                broken.need(alike, "a value of the type of the elements on its right", &[first, second]);
            }
            BOOLEAN
        }
        Function::Between { .. } => {
            broken.need(
                ordered(&[first, second, third]),
                "numbers only or STRINGs only",
                &[first, second, third],
            );
            BOOLEAN
        }
        Function::And | Function::Or | Function::Xor => {
            let boolean = args.iter().all(|ty| ty.may_be(&Type::BOOLEAN));
            broken.need(boolean, "BOOLEANs", &args.iter().collect::<Vec<_>>());
            BOOLEAN
        }
        Function::Not => {
            broken.need(first.may_be_numeric_or_boolean(), "a number or BOOLEAN", &[first]);
            BOOLEAN
        }
        Function::IsNull | Function::IsNotNull => BOOLEAN,
        Function::Element => element(first, second, broken),
        Function::List => list(args, broken),
        Function::SizeIs => {
            broken.need(first.may_be_sized(), "a list, map or STRING first", &[first]);
            broken.need(second.may_be_numeric(), "a number second", &[second]);
            BOOLEAN
        }
        Function::SizeOf => {
            broken.need(first.may_be_sized(), "a list, map or STRING", &[first]);
            Ty::Known(Type::INTEGER)
        }
        Function::ContainsKey => {
            let has_keys = first.may(|ty| match ty {
                Type::Map(_) => true,
                Type::List(inner) => matches!(**inner, Type::Map(_)),
                _ => false,
            });
            broken.need(has_keys, "a map or a list of maps first", &[first]);
            broken.need(second.may_be(&Type::STRING), "a STRING second", &[second]);
            BOOLEAN
        }
        Function::ContainsValue => {
            let container = broken.need(first.may_be_container(), "a list or map first", &[first]);
            let primitive = broken.need(second.may(is_primitive), "a primitive second", &[second]);
            if let (Ty::Known(inner), Ty::Known(value)) = (first.innermost(), second)
                && container
                && primitive
            {
                broken.need(inner == *value, "a value of the type of its elements", &[first, second]);
            }
            BOOLEAN
        }
        Function::Filter => {
            broken.need(first.may_be_list(), "a list first", &[first]);
            let booleans = second.may_be_list() && second.inner().may_be(&Type::BOOLEAN);
            broken.need(booleans, "a list of BOOLEANs second", &[second]);
            first.clone()
        }
        Function::If => {
            broken.need(first.may_be(&Type::BOOLEAN), "a BOOLEAN first", &[first]);
            let alike = second == third || *second == Ty::Unknown || *third == Ty::Unknown;
            broken.need(alike, "second and third arguments of one type", &[second, third]);
            if second == third { second.clone() } else { Ty::Unknown }
        }
        Function::Case => case(args),
        Function::Coalesce => Ty::Unknown,
        Function::Search => BOOLEAN,
        Function::Concat => STRING,
        Function::Abs => {
            broken.need(first.may_be_numeric(), "a number", &[first]);
            first.clone()
        }
        Function::Trim | Function::Lower | Function::Upper => {
            broken.need(first.may_be(&Type::STRING), "a STRING", &[first]);
            STRING
        }
        Function::Substring => {
            broken.need(first.may_be(&Type::STRING), "a STRING first", &[first]);
            broken.need(second.may_be_numeric(), "a number second (the start)", &[second]);
            broken.need(third.may_be_numeric(), "a number third (the length)", &[third]);
            STRING
        }
        Function::UnixTimestamp => {
            let with_pattern = args.len() == 2;
            let text = first.may_be(&Type::STRING) || (with_pattern && first.may_be_numeric());
            broken.need(text, if with_pattern { "a STRING or number first" } else { "a STRING" }, &[first]);
            broken.need(second.may_be(&Type::STRING), "a STRING second (the pattern)", &[second]);
            Ty::Known(Type::LONG)
        }
        Function::Arrival => Ty::Known(Type::LONG),
        Function::Hash => Ty::Known(Type::INTEGER),
        Function::Cast(ty) => {
            broken.need(first.may(is_primitive), "a primitive", &[first]);
            Ty::Known(ty.clone())
        }
    }
}

/// The type that all values of a CASE have; its conditions stand before them.
fn case(args: &[Ty]) -> Ty {
    let mut all = Ty::Null;
    for value in args.chunks(2).filter_map(<[Ty]>::last) {
        all = match (all, value) {
            (all, Ty::Null) => all,
            (Ty::Null, Ty::Known(ty)) if is_primitive(ty) => Ty::Known(ty.clone()),
            (Ty::Known(one), Ty::Known(other)) if one == *other => Ty::Known(one),
            (Ty::Known(one), Ty::Known(other)) if is_numeric(&one) && is_numeric(other) => {
                let is_whole = |ty: &Type| *ty == Type::INTEGER || *ty == Type::LONG;
                Ty::Known(if is_whole(&one) && is_whole(other) { Type::LONG } else { Type::DOUBLE })
            }
            _ => return Ty::Unknown,
        };
    }
    // A value that is always null has no type.
    if all == Ty::Null { Ty::Unknown } else { all }
}

/// The types of the columns that EXPLODE gives of a value: an element of a list, or a key of a map and its value.
pub(super) fn exploded(columns: usize, value: &Ty) -> Vec<Ty> {
    match columns {
        1 => vec![value.element_of_list().unwrap_or(Ty::Unknown)],
        _ => vec![STRING, value.value_of_map().unwrap_or(Ty::Unknown)],
    }
}

fn compare(
    comparison: Comparison,
    quantifier: Quantifier,
    left: &Ty,
    right: &Ty,
    broken: &mut OperandFaults,
) {
    let is_equality = matches!(comparison, Comparison::Eq | Comparison::Ne);
    if quantifier == Quantifier::One {
        if is_equality {
            broken.need(comparable(left, right), "operands that can be compared", &[left, right]);
        } else {
            broken.need(ordered(&[left, right]), "two numbers or two STRINGs", &[left, right]);
        }
        return;
    }
    if !broken.need(right.may_be_list(), "a list on its right", &[right]) {
        return;
    }
    let inner = right.inner();
    if is_equality {
        broken.need(comparable(left, &inner), "a value like those on its right", &[left, right]);
        return;
    }
    let numeric_or_text = |ty: &Ty| ty.may_be_numeric() || ty.may_be(&Type::STRING);
    let left_fits = broken.need(numeric_or_text(left), "a number or STRING on its left", &[left]);
    let right_fits =
        broken.need(numeric_or_text(&inner), "a list of numbers or STRINGs on its right", &[right]);
    if left_fits && right_fits {
        broken.need(ordered(&[left, &inner]), "numbers only or STRINGs only", &[left, right]);
    }
}

fn list(elements: &[Ty], broken: &mut OperandFaults) -> Ty {
    if elements.contains(&Ty::Unknown) {
        return Ty::Unknown;
    }
    let given: Vec<&Ty> = elements.iter().collect();
    let Some(first) = elements.first() else { return Ty::Unknown };
    if !broken.need(elements.iter().all(|ty| ty == first), "elements of one type", &given) {
        return Ty::Unknown;
    }
    let fits = first.may(|ty| match ty {
        Type::Map(inner) => inner.depth() == 0,
        other => is_primitive(other),
    });
    broken.need(fits, "elements that are primitives or maps of primitives", &given[..1]);
    match first {
        Ty::Known(ty) if fits => Type::list(ty.clone()).map_or(Ty::Unknown, Ty::Known),
        _ => Ty::Unknown,
    }
}

fn element(base: &Ty, step: &Ty, broken: &mut OperandFaults) -> Ty {
    match base {
        Ty::Unknown => {}
        Ty::Known(Type::List(_)) => {
            let whole = step.may_be(&Type::INTEGER) || step.may_be(&Type::LONG);
            broken.need(whole, "an INTEGER or LONG as its index", &[step]);
        }
        Ty::Known(Type::Map(_)) => {
            broken.need(step.may_be(&Type::STRING), "a STRING as its key", &[step]);
        }
        other => {
            broken.need(false, "a list or map to step into", &[other]);
        }
    }
    base.inner()
}
