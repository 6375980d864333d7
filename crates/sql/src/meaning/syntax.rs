//! Rewrites or refuses operators, clauses and functions on the syntax tree, before a statement is planned.
//!
//! ```text
//! t AT TIME ZONE z               becomes  timezone(z, t)
//! x SIMILAR TO p                 becomes  x ~ similar_to_escape(p, '\')
//! (a, b) = (c, d)                becomes  ((a) = (c) AND (b) = (d))
//! x = ANY (ARRAY[a, b])          becomes  x IN (a, b)
//! x < ANY (list)                 becomes  (NOT (x >= ALL (list)))
//! EXTRACT(second FROM t)         becomes  (CAST(date_part('microsecond', t) AS DOUBLE PRECISION) / 1000000)
//! x::VARCHAR(3)                  becomes  x::VARCHAR, cut off after 3 characters
//! mod(a, b)                      becomes  ((a) % (b))
//! date_trunc(unit, t, zone)      becomes  timezone(zone, date_trunc(unit, timezone(zone, t::TIMESTAMPTZ)))
//! ceiling(x)                     becomes  ceil(x)              and other functions that DataFusion has under another name
//! a ^ b                          is refused
//! ```

use std::ops::ControlFlow;

use arrow::datatypes::DataType as ArrowType;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, CharacterLength, DataType, DateTimeField, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Select, SelectItem, Subscript, TimezoneInfo, UnaryOperator, Value, VisitorMut,
};

use super::any_of_list::EqualsAny;
use super::at_time_zone::AtTimeZone;
use super::casts::Varchar;
use super::finite::out_of_range;
use super::replacement::Replacement;
use super::similar::SimilarToEscape;
use super::to_char;
use crate::error::state;
use crate::text::place_of_span;
use crate::walk::walk_statement_mut;
use crate::{Dialect, SqlError};

/// Rewrites a statement's expressions, or refuses one.
pub(crate) fn rewrite(statement: &mut Statement, dialect: Dialect) -> Result<(), SqlError> {
    let mut pass = Pass { dialect };
    walk_statement_mut(statement, &mut pass)
}

struct Pass {
    dialect: Dialect,
}

impl VisitorMut for Pass {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut names: Vec<String> = Vec::new();
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = name_kept(expr)
                && !names.contains(&alias.value)
            {
                names.push(alias.value.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                series_as_rows(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match rewritten(expr, self.dialect) {
            Ok(Some(new)) => *expr = new,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn rewritten(expr: &mut Expr, dialect: Dialect) -> Result<Option<Expr>, SqlError> {
    Ok(match expr {
        Expr::AtTimeZone { timestamp, time_zone } => {
            let time = match &**timestamp {
                Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
                    instant(timestamp)
                }
                time => time.clone(),
            };
            Some(call(AtTimeZone::NAME, vec![*time_zone.clone(), time]))
        }
        // It binds more loosely here than in PostgreSQL, so it is not only a matter of another function.
        Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } if dialect == Dialect::Native => {
            return Err(SqlError::invalid("the operator `^` is not supported")
                .with_state(state::NOT_SUPPORTED)
                .with_hint(
                    "Write power(a, b) for a power, and (a | b) - (a & b) for the bits that differ.",
                ));
        }
        Expr::BinaryOp {
            left,
            op:
                op @ (BinaryOperator::PGRegexMatch
                | BinaryOperator::PGRegexIMatch
                | BinaryOperator::PGRegexNotMatch
                | BinaryOperator::PGRegexNotIMatch),
            right,
        } if dialect == Dialect::Native => over_lines(right).map(|pattern| Expr::BinaryOp {
            left: left.clone(),
            op: op.clone(),
            right: Box::new(pattern),
        }),
        // DataFusion compares nulls within tuples as equal.
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::NotEq), right } => {
            match (&**left, &**right) {
                (Expr::Tuple(left), Expr::Tuple(right)) if left.len() == right.len() => {
                    tuples(left, right, *op == BinaryOperator::NotEq)
                }
                _ => None,
            }
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let escape = match escape_char {
                Some(escape) => Expr::Value(escape.clone()),
                None => text("\\"),
            };
            let pattern = call(SimilarToEscape::NAME, vec![*pattern.clone(), escape]);
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            Some(Expr::BinaryOp { left: expr.clone(), op, right: Box::new(pattern) })
        }
        Expr::Cast { kind, expr, data_type, array: false, format: None } => cast(kind, expr, data_type)?,
        // DataFusion's part of this name is a whole number.
        Expr::Extract { field: DateTimeField::Second | DateTimeField::Seconds, expr, .. } => {
            Some(seconds(*expr.clone()))
        }
        Expr::CompoundFieldAccess { access_chain, .. } if access_chain.iter().any(is_from_end) => {
            return Err(SqlError::invalid("positions in a list count from 1")
                .with_state(state::NOT_SUPPORTED)
                .with_hint("PostgreSQL finds nothing below. Write array_element(l, -1) for the last."));
        }
        // DataFusion's test passes over nulls in the list.
        Expr::AnyOp { right, .. } if matches!(**right, Expr::Subquery(_)) => None,
        // Other lists are rewritten once parameters are known: array_text.rs.
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            elements(right).map(|list| Expr::InList { expr: left.clone(), list, negated: false })
        }
        // Some element compares so unless all compare otherwise, and ALL has three values.
        Expr::AnyOp { left, compare_op, right, .. } => contrary(compare_op).map(|compare_op| {
            let all = Expr::AllOp { left: left.clone(), compare_op, right: right.clone() };
            let all = Box::new(Expr::Nested(Box::new(all)));
            Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: all }))
        }),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            elements(right).map(|list| Expr::InList { expr: left.clone(), list, negated: true })
        }
        Expr::Function(function) => function_rewritten(function, dialect)?,
        Expr::Value(value) => match &value.value {
            Value::Number(number, _)
                if dialect == Dialect::Native && number.parse::<f64>().is_ok_and(f64::is_infinite) =>
            {
                return Err(out_of_range(number, &ArrowType::Float64).at(place_of_span(value.span)));
            }
            _ => None,
        },
        _ => None,
    })
}

/// `left = ANY (list)`.
pub(crate) fn equals_any(left: &Expr, list: &Expr) -> Expr {
    call(EqualsAny::NAME, vec![list.clone(), left.clone()])
}

/// The comparison that is true where this one is false.
fn contrary(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

/// The expression cast to an instant.
fn instant(time: &Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(time.clone()),
        data_type: DataType::Timestamp(None, TimezoneInfo::Tz),
        array: false,
        format: None,
    }
}

/// The elements of a list that is written out.
fn elements(list: &Expr) -> Option<Vec<Expr>> {
    match list {
        Expr::Array(array) if !array.elem.is_empty() => Some(array.elem.clone()),
        Expr::Nested(inner) => elements(inner),
        Expr::Cast {
            kind,
            expr,
            data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(ty, None)),
            ..
        } => {
            let cast = |element: Expr| Expr::Cast {
                kind: kind.clone(),
                expr: Box::new(element),
                data_type: ty.as_ref().clone(),
                array: false,
                format: None,
            };
            Some(elements(expr)?.into_iter().map(cast).collect())
        }
        _ => None,
    }
}

/// A pattern whose point is any character, also the end of a line, as PostgreSQL's is; none where it has no point.
fn over_lines(pattern: &Expr) -> Option<Expr> {
    const ANY: &str = "(?s)";
    match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(literal) if literal.contains('.') => {
                Some(text(&format!("{ANY}{literal}")))
            }
            _ => None,
        },
        other => Some(Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(text(ANY)),
            op: BinaryOperator::StringConcat,
            right: Box::new(Expr::Nested(Box::new(other.clone()))),
        }))),
    }
}

/// The condition that tuples are equal, element by element.
fn tuples(left: &[Expr], right: &[Expr], negated: bool) -> Option<Expr> {
    let equal = left.iter().zip(right).map(|(left, right)| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left.clone()))),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::Nested(Box::new(right.clone()))),
    });
    let all = equal.reduce(|all, next| Expr::BinaryOp {
        left: Box::new(all),
        op: BinaryOperator::And,
        right: Box::new(next),
    })?;
    let all = Expr::Nested(Box::new(all));
    Some(if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(all) } } else { all })
}

/// Returns true if a place in a list is counted from its end.
fn is_from_end(access: &AccessExpr) -> bool {
    let is_negative = |expr: &Expr| matches!(expr, Expr::UnaryOp { op: UnaryOperator::Minus, .. });
    match access {
        AccessExpr::Subscript(Subscript::Index { index }) => is_negative(index),
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            lower_bound.iter().chain(upper_bound).any(is_negative)
        }
        AccessExpr::Dot(_) => false,
    }
}

/// The seconds of a time, with their fraction.
fn seconds(time: Expr) -> Expr {
    let micros = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("date_part", vec![text("microsecond"), time])),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    };
    let million = Expr::Value(Value::Number("1000000".to_owned(), false).into());
    let seconds =
        Expr::BinaryOp { left: Box::new(micros), op: BinaryOperator::Divide, right: Box::new(million) };
    Expr::Nested(Box::new(seconds))
}

/// Functions of PostgreSQL's that DataFusion has under another name; and such that do, under one name, less: the first that is found.
const RENAMED: [(&str, &str); 5] = [
    ("ceiling", "ceil"),
    ("sign", "signum"),
    ("variance", "var_samp"),
    ("array_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
];

/// A text of at most so many characters is cut off by an explicit cast, which DataFusion 55 does not do.
fn cast(kind: &CastKind, expr: &Expr, data_type: &DataType) -> Result<Option<Expr>, SqlError> {
    let length = match data_type {
        DataType::Char(_) | DataType::Character(_) => {
            return Err(SqlError::invalid(format!(
                "the type {data_type} is not supported: it fills up with blanks"
            ))
            .with_state(state::NOT_SUPPORTED)
            .with_hint("Write x::VARCHAR(3), which cuts off, or rpad(x, 3), which fills up as well."));
        }
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length))
        | DataType::Nvarchar(Some(length)) => length,
        _ => return Ok(None),
    };
    let length = match length {
        CharacterLength::IntegerLength { length: length @ 1.., .. } => *length,
        CharacterLength::IntegerLength { .. } => {
            return Err(SqlError::invalid("the length of VARCHAR is at least 1"));
        }
        CharacterLength::Max => return Ok(None),
    };
    let expr = Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(expr.clone()),
        data_type: DataType::Varchar(None),
        array: false,
        format: None,
    };
    let length = Expr::Value(Value::Number(length.to_string(), false).into());
    Ok(Some(call(Varchar::NAME, vec![expr, length])))
}

/// Functions whose second argument is a pattern of strftime.
const STRFTIME: [&str; 8] = [
    "to_date",
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
    "to_unixtime",
    "to_time",
];

fn function_rewritten(function: &mut Function, dialect: Dialect) -> Result<Option<Expr>, SqlError> {
    let [ObjectNamePart::Identifier(ident)] = function.name.0.as_slice() else { return Ok(None) };
    let name = ident.value.to_ascii_lowercase();
    let place = place_of_span(ident.span);
    let FunctionArguments::List(FunctionArgumentList { args, .. }) = &function.args else { return Ok(None) };
    if matches!(name.as_str(), "date_format" | "to_char") && dialect == Dialect::Spark {
        function.name = ObjectName::from(vec![Ident::new(to_char::SPARK)]);
        return Ok(None);
    }
    let is_null = |argument: Option<&FunctionArg>| match argument {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => value.value == Value::Null,
        _ => false,
    };
    if name == "array_remove" && is_null(args.get(1)) {
        let list = args.iter().take(1).cloned();
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) = list.collect::<Vec<_>>().remove(0) else {
            return Ok(None);
        };
        return Ok(Some(call("array_compact", vec![list])));
    }
    if let Some((_, theirs)) = RENAMED.iter().find(|(ours, _)| *ours == name) {
        let theirs = Ident::with_span(ident.span, *theirs);
        function.name = ObjectName::from(vec![theirs]);
        return Ok(None);
    }
    let arguments: Vec<&Expr> = args
        .iter()
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    match (name.as_str(), arguments.as_slice()) {
        ("mod", [left, right]) => {
            let (left, right) = (Box::new((*left).clone()), Box::new((*right).clone()));
            let nested = |expr| Box::new(Expr::Nested(expr));
            let modulo =
                Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) };
            return Ok(Some(Expr::Nested(Box::new(modulo))));
        }
        ("date_part" | "datepart", [part, time]) if is_text(part, &["second", "seconds"]) => {
            return Ok(Some(seconds((*time).clone())));
        }
        // An empty list has no length in any dimension.
        ("array_length", [list, dimension]) => {
            let length = call("list_length", vec![(*list).clone(), (*dimension).clone()]);
            let zero = Expr::Value(Value::Number("0".to_owned(), false).into());
            return Ok(Some(call("nullif", vec![length, zero])));
        }
        (
            "regexp_replace" | "regexp_match" | "regexp_like" | "regexp_count" | "regexp_instr",
            [_, pattern, ..],
        ) if dialect == Dialect::Native => {
            let replacement = match (name.as_str(), arguments.get(2)) {
                ("regexp_replace", Some(replacement)) => {
                    Some(call(Replacement::NAME, vec![(*replacement).clone()]))
                }
                _ => None,
            };
            return Ok(with_arguments(function, [(1, over_lines(pattern)), (2, replacement)]));
        }
        _ => {}
    }
    if let ("arrow_cast" | "arrow_try_cast" | "try_arrow_cast", [_, Expr::Value(ty)]) =
        (name.as_str(), arguments.as_slice())
        && let Value::SingleQuotedString(ty) = &ty.value
        && let Ok(ArrowType::Timestamp(_, Some(zone))) = ty.parse::<ArrowType>()
        && !["UTC", "+00:00"].contains(&&*zone)
    {
        return Err(SqlError::invalid(format!("the type {ty} is not supported: instants are in UTC"))
            .with_state(state::NOT_SUPPORTED)
            .at(place)
            .with_hint(format!("For the local time write x AT TIME ZONE '{zone}'.")));
    }
    if STRFTIME.contains(&name.as_str()) {
        for argument in args.iter().skip(1) {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) = argument
                && let Value::SingleQuotedString(pattern) = &value.value
                && !pattern.contains('%')
            {
                return Err(SqlError::invalid(format!("`{pattern}` is not a valid pattern of {name}"))
                    .at(place)
                    .with_hint(format!("It uses patterns of strftime: {name}(x, '%Y-%m-%d').")));
            }
        }
    }
    // `date_trunc(unit, time, zone)`: cut off where the clocks of the zone show it.
    if name == "date_trunc"
        && let [
            unit,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(zone)),
        ] = args.as_slice()
        && let FunctionArg::Unnamed(FunctionArgExpr::Expr(unit)) = unit
    {
        let local = call(AtTimeZone::NAME, vec![zone.clone(), instant(time)]);
        let cut = call("date_trunc", vec![unit.clone(), local]);
        return Ok(Some(call(AtTimeZone::NAME, vec![zone.clone(), cut])));
    }
    Ok(None)
}

/// The call with other arguments in some places; none where there are none.
fn with_arguments<const N: usize>(function: &Function, other: [(usize, Option<Expr>); N]) -> Option<Expr> {
    let mut function = function.clone();
    let mut is_changed = false;
    if let FunctionArguments::List(list) = &mut function.args {
        for (place, new) in other {
            if let (Some(new), Some(argument)) = (new, list.args.get_mut(place)) {
                *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(new));
                is_changed = true;
            }
        }
    }
    is_changed.then_some(Expr::Function(function))
}

fn is_text(expr: &Expr, wanted: &[&str]) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => wanted.iter().any(|wanted| text.eq_ignore_ascii_case(wanted)),
            _ => false,
        },
        _ => false,
    }
}

/// `SELECT generate_series(1, 3)` has three rows; DataFusion's function gives them as one list.
fn series_as_rows(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            let is_series = matches!(
                function.name.0.as_slice(),
                [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case("generate_series")
            );
            if is_series {
                *expr = call("unnest", vec![expr.clone()]);
            }
        }
        Expr::BinaryOp { left, right, .. } => {
            series_as_rows(left);
            series_as_rows(right);
        }
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => series_as_rows(expr),
        _ => {}
    }
}

/// The name that a column has without an alias where it is rewritten here.
fn name_kept(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Cast {
            expr,
            data_type: DataType::Varchar(Some(_)) | DataType::CharacterVarying(Some(_)),
            ..
        } => match &**expr {
            Expr::Identifier(ident) => Some(ident.clone()),
            Expr::CompoundIdentifier(idents) => idents.last().cloned(),
            _ => Some(Ident::new("varchar")),
        },
        Expr::AtTimeZone { .. } => Some(Ident::new(AtTimeZone::NAME)),
        Expr::Function(function) => match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => {
                let is = |name: &&str| ident.value.eq_ignore_ascii_case(name);
                ["generate_series", "array_length", "mod"].iter().any(is).then(|| ident.clone())
            }
            _ => None,
        },
        Expr::Extract { field: DateTimeField::Second | DateTimeField::Seconds, .. } => {
            Some(Ident::new("extract"))
        }
        _ => None,
    }
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// A call of a function.
fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments =
        arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
