//! The access predicate of a query: the one condition by which the matcher finds it.
//!
//! Of the conditions that the filter joins by AND, those of the form `path = constant`, `path IN (constants)`, or an OR
//! of such on one path, can be looked up in a hash table. The one with the fewest values is taken, text before numbers
//! before booleans. What it does not prove is the residual.

use swiftwater_event::{Primitive, Type, Want};
use swiftwater_lang::plan::{Comparison, Expr, Function, Literal, Quantifier};

/// An indexable condition: true only where the value at `want` is one of `values`.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// Where to look.
    pub want: Want,
    /// What may be there; at least one, each once.
    pub values: Vec<AccessValue>,
}

/// A constant as the index looks it up.
#[derive(Debug, Clone, PartialEq)]
pub enum AccessValue {
    /// Text, byte for byte.
    String(Box<str>),
    /// A number, as the nearest double; equal keys may belong to different numbers.
    Number(f64),
    /// A boolean.
    Boolean(bool),
}

/// The conditions joined by AND in a filter, outermost only.
fn conjuncts(filter: &Expr) -> Vec<&Expr> {
    match filter {
        Expr::Call { function: Function::And, args } => args.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// Chooses the access predicate of a filter, and says what is left to be tested on the events that it finds.
pub(crate) fn choose(filter: &Expr) -> (Option<Access>, Option<Expr>) {
    let conjuncts = conjuncts(filter);
    let best = conjuncts
        .iter()
        .enumerate()
        .filter_map(|(at, condition)| access_of(condition).map(|access| (at, access)))
        .min_by_key(|(_, access)| (rank(&access.values[0]), access.values.len()));
    let Some((at, access)) = best else { return (None, Some(filter.clone())) };
    let proven = access.values.iter().all(|value| matches!(value, AccessValue::String(_)));
    let rest: Vec<Expr> = conjuncts
        .iter()
        .enumerate()
        .filter(|&(other, _)| other != at || !proven)
        .map(|(_, condition)| (*condition).clone())
        .collect();
    let residual = match rest.len() {
        0 => None,
        1 => rest.into_iter().next(),
        _ => Some(Expr::Call { function: Function::And, args: rest }),
    };
    (Some(access), residual)
}

fn rank(value: &AccessValue) -> u8 {
    match value {
        AccessValue::String(_) => 0,
        AccessValue::Number(_) => 1,
        AccessValue::Boolean(_) => 2,
    }
}

fn access_of(condition: &Expr) -> Option<Access> {
    let Expr::Call { function, args } = condition else { return None };
    let access = match (function, args.as_slice()) {
        (Function::Compare(Comparison::Eq, Quantifier::One), [left, right]) => {
            let (want, literal) = path_and_literal(left, right).or_else(|| path_and_literal(right, left))?;
            Access { values: vec![value_of(&want, literal)?], want }
        }
        (Function::In { negated: false }, [path, Expr::Call { function: Function::List, args: items }]) => {
            let want = want_of(path)?;
            let mut values = Vec::new();
            for item in items {
                let Expr::Literal(literal) = item else { return None };
                push_new(&mut values, value_of(&want, literal)?);
            }
            Access { want, values }
        }
        (Function::Or, conditions) => {
            let mut conditions = conditions.iter();
            let mut access = access_of(conditions.next()?)?;
            for condition in conditions {
                let other = access_of(condition)?;
                if other.want != access.want {
                    return None;
                }
                other.values.into_iter().for_each(|value| push_new(&mut access.values, value));
            }
            access
        }
        _ => return None,
    };
    let kind = rank(access.values.first()?);
    access.values.iter().all(|value| rank(value) == kind).then_some(access)
}

fn push_new(values: &mut Vec<AccessValue>, value: AccessValue) {
    if !values.contains(&value) {
        values.push(value);
    }
}

fn path_and_literal<'e>(path: &Expr, literal: &'e Expr) -> Option<(Want, &'e Literal)> {
    match literal {
        Expr::Literal(literal) => want_of(path).map(|want| (want, literal)),
        _ => None,
    }
}

fn want_of(expr: &Expr) -> Option<Want> {
    match expr {
        Expr::Path { path, ty } => Some(Want { path: path.clone(), ty: ty.clone() }),
        _ => None,
    }
}

/// The constant as a key; none where this comparison is not plain equality of keys for the path's type.
fn value_of(want: &Want, literal: &Literal) -> Option<AccessValue> {
    let value = match literal {
        Literal::String(text) => AccessValue::String(text.clone()),
        Literal::Boolean(value) => AccessValue::Boolean(*value),
        Literal::Integer(value) => AccessValue::Number(f64::from(*value)),
        Literal::Long(value) => AccessValue::Number(*value as f64),
        Literal::Float(value) => AccessValue::Number(f64::from(*value)),
        Literal::Double(value) => AccessValue::Number(*value),
        Literal::Null => return None,
    };
    let fits = match (&want.ty, &value) {
        (Type::Any, AccessValue::Number(value)) => !value.is_nan(),
        (Type::Any, _) => true,
        (Type::Primitive(Primitive::String), AccessValue::String(_)) => true,
        (Type::Primitive(Primitive::Boolean), AccessValue::Boolean(_)) => true,
        (
            Type::Primitive(Primitive::Integer | Primitive::Long | Primitive::Float | Primitive::Double),
            AccessValue::Number(value),
        ) => !value.is_nan(),
        _ => false,
    };
    fits.then_some(value)
}

/// How the index spells a number: one bit pattern for each value, -0 as 0.
pub(crate) fn number_key(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}
