//! Plans the expressions of an endpoint over slots: the request's parameters, and the row of a view that it requests.
//!
//! The slots of an expression over parameters are the parameters, in order, and the time of the request (milliseconds
//! since 1970; the value of NOW). In an expression over a row, the view's columns precede them.

use swiftwater_event::Type;

use super::Parameter;
use crate::{
    Dialect, QueryErrors,
    ast::Node,
    parser,
    plan::{Comparison, Expr, Function, Quantifier},
    planner,
    source::{Fault, locate},
};

/// An expression, and its type where that is known.
pub type PlannedExpr = (Expr, Option<Type>);

/// The way a row is found.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// The first values of the key, over parameters; of a row by its key all of them.
    pub key: Vec<PlannedExpr>,
    /// The rest of the condition, over a row.
    pub rest: Option<Expr>,
}

/// Plans an expression over parameters, each of which may be written with `$` or without.
pub fn parse_over_parameters(text: &str, parameters: &[Parameter]) -> Result<PlannedExpr, QueryErrors> {
    parsed(text, |node| plan_over_parameters(node, parameters))
}

/// Plans an expression over a row with these columns, and parameters as `$name`.
pub fn parse_over_row(
    text: &str,
    columns: &[(Box<str>, Type)],
    parameters: &[Parameter],
) -> Result<PlannedExpr, QueryErrors> {
    parsed(text, |node| plan_over_row(node, columns, parameters))
}

/// Splits a condition over a row into the values of the key that it states, each by `=`, and the rest. `keys`: the column
/// that shows each value of the key. The caller reports a condition by which no row can be found.
pub fn lookup(
    condition: &str,
    columns: &[(Box<str>, Type)],
    parameters: &[Parameter],
    keys: &[Option<usize>],
) -> Result<Lookup, QueryErrors> {
    let (expr, _) = parse_over_row(condition, columns, parameters)?;
    let operands = match expr {
        Expr::Call { function: Function::And, args } => args,
        one => vec![one],
    };
    let mut found: Vec<Option<Expr>> = vec![None; keys.len()];
    let mut rest = Vec::new();
    for operand in operands {
        let stated = stated(&operand, columns.len()).and_then(|(column, value)| {
            let key = keys.iter().position(|key| *key == Some(column))?;
            found[key].is_none().then_some((key, value))
        });
        match stated {
            Some((key, value)) => found[key] = Some(parameters_only(value, columns.len())),
            None => rest.push(operand),
        }
    }
    let first = found.iter().take_while(|value| value.is_some()).count();
    // A value that stands behind one that is not stated finds nothing: it is a condition as any other.
    for (key, value) in found.iter_mut().enumerate().skip(first) {
        if let (Some(value), Some(column)) = (value.take(), keys[key]) {
            let shifted = mapped(&value, &|slot| slot + columns.len());
            let function = Function::Compare(Comparison::Eq, Quantifier::One);
            rest.push(Expr::Call { function, args: vec![Expr::Slot(column), shifted] });
        }
    }
    let key = found.into_iter().flatten().map(|value| {
        let ty = type_over_parameters(&value, parameters);
        (value, ty)
    });
    let rest = match rest.len() {
        0 | 1 => rest.pop(),
        _ => Some(Expr::Call { function: Function::And, args: rest }),
    };
    Ok(Lookup { key: key.collect(), rest })
}

/// `column = value`, in either order, the value without any column.
fn stated(operand: &Expr, columns: usize) -> Option<(usize, &Expr)> {
    let Expr::Call { function: Function::Compare(Comparison::Eq, Quantifier::One), args } = operand else {
        return None;
    };
    let [left, right] = &args[..] else { return None };
    let is_of_request = |expr: &Expr| {
        let mut is = true;
        expr.visit(&mut |part| is &= !matches!(part, Expr::Slot(slot) if *slot < columns));
        is
    };
    match (left, right) {
        (Expr::Slot(column), value) | (value, Expr::Slot(column))
            if *column < columns && is_of_request(value) =>
        {
            Some((*column, value))
        }
        _ => None,
    }
}

fn parameters_only(value: &Expr, columns: usize) -> Expr {
    mapped(value, &|slot| slot - columns)
}

/// The type of a parameter or constant; of what is computed it is not told.
fn type_over_parameters(value: &Expr, parameters: &[Parameter]) -> Option<Type> {
    match value {
        Expr::Slot(slot) => parameters.get(*slot).map(|parameter| parameter.ty.clone()),
        Expr::Call { function: Function::Cast(ty), .. } => Some(ty.clone()),
        _ => None,
    }
    .filter(|ty| *ty != Type::Any)
}

/// The expression with other slots.
fn mapped(expr: &Expr, slot_of: &dyn Fn(usize) -> usize) -> Expr {
    match expr {
        Expr::Slot(slot) => Expr::Slot(slot_of(*slot)),
        Expr::Call { function, args } => Expr::Call {
            function: function.clone(),
            args: args.iter().map(|arg| mapped(arg, slot_of)).collect(),
        },
        other => other.clone(),
    }
}

fn parsed(
    text: &str,
    plan: impl FnOnce(&Node) -> Result<PlannedExpr, Vec<Fault>>,
) -> Result<PlannedExpr, QueryErrors> {
    parser::parse_expression_named(text)
        .and_then(|node| plan(&node))
        .map_err(|faults| locate(text, faults, Dialect::Native))
}

pub(crate) fn plan_over_parameters(node: &Node, parameters: &[Parameter]) -> Result<PlannedExpr, Vec<Fault>> {
    let dollar = |parameter: &Parameter| (format!("${}", parameter.name).into(), parameter.ty.clone());
    let plain = parameters.iter().map(|parameter| (parameter.name.clone(), parameter.ty.clone()));
    let slots: Vec<(Box<str>, Type)> = plain.chain(parameters.iter().map(dollar)).collect();
    let (expr, ty) = planner::plan_over_slots(node, &slots, "parameter")?;
    let count = parameters.len();
    let slot_of = |slot: usize| if slot < count { slot } else { slot - count };
    Ok((mapped(&expr, &slot_of), ty))
}

fn plan_over_row(
    node: &Node,
    columns: &[(Box<str>, Type)],
    parameters: &[Parameter],
) -> Result<PlannedExpr, Vec<Fault>> {
    let dollar =
        parameters.iter().map(|parameter| (format!("${}", parameter.name).into(), parameter.ty.clone()));
    let slots: Vec<(Box<str>, Type)> = columns.iter().cloned().chain(dollar).collect();
    planner::plan_over_slots(node, &slots, "column")
}
