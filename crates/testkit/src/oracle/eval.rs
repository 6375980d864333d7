//! Evaluates expressions, one row at a time.

use swiftwater_event::{Path, Primitive, Step, Type};
use swiftwater_lang::plan::{Comparison, Expr, Function, Literal, Quantifier};

use super::{
    functions::{self, Truth, all, any, truth},
    value::{Value, compare},
};

/// The input of an expression.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// Paths lead into this event; null for a row of groups.
    pub(crate) event: &'a Value,
    /// Slots are places here: columns of lateral views, or of groups.
    pub(crate) slots: &'a [Value],
}

impl<'a> Row<'a> {
    /// A row of groups.
    pub(crate) fn of_slots(slots: &'a [Value]) -> Row<'a> {
        Row { event: &Value::Null, slots }
    }
}

/// A part of an expression that the oracle does not support, if there is one.
pub(crate) fn unsupported(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Literal(_) | Expr::Slot(_) => None,
        Expr::Path { ty, .. } => has_timestamp(ty).then_some("TIMESTAMP"),
        Expr::Call { function, args } => match function {
            Function::UnixTimestamp => Some("UNIXTIMESTAMP"),
            Function::Cast(Type::List(_) | Type::Map(_)) => Some("CAST to a container"),
            Function::Cast(ty) if has_timestamp(ty) => Some("TIMESTAMP"),
            _ => args.iter().find_map(unsupported),
        },
    }
}

fn has_timestamp(ty: &Type) -> bool {
    match ty {
        Type::Primitive(Primitive::Timestamp(_)) => true,
        Type::List(inner) | Type::Map(inner) => has_timestamp(inner),
        Type::Any | Type::Primitive(_) => false,
    }
}

/// The value of an expression; what cannot be had is null.
pub(crate) fn evaluate(expr: &Expr, row: Row<'_>) -> Value {
    match expr {
        Expr::Literal(literal) => constant(literal),
        Expr::Path { path, ty } => value_at(row.event, path).cast_to(ty),
        Expr::Slot(slot) => row.slots.get(*slot).cloned().unwrap_or(Value::Null),
        Expr::Call { function, args } => call(function, args, row),
    }
}

/// True if a condition is true, rather than false or neither.
pub(crate) fn is_true(condition: &Expr, row: Row<'_>) -> bool {
    truth(&evaluate(condition, row)) == Some(true)
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Boolean(truth) => Value::Boolean(*truth),
        Literal::Integer(number) => Value::Long(i64::from(*number)),
        Literal::Long(number) => Value::Long(*number),
        Literal::Float(number) => Value::Float(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(text.to_string()),
    }
}

fn value_at(event: &Value, path: &Path) -> Value {
    let mut value = event;
    for step in path.steps() {
        let below = match (value, step) {
            (Value::Map(entries), Step::Key(key)) => {
                entries.iter().find(|(name, _)| **name == **key).map(|(_, value)| value)
            }
            (Value::List(items), Step::Index(index)) => items.get(*index as usize),
            _ => None,
        };
        let Some(below) = below else { return Value::Null };
        value = below;
    }
    value.clone()
}

fn of_truth(truth: Truth) -> Value {
    truth.map_or(Value::Null, Value::Boolean)
}

fn call(function: &Function, args: &[Expr], row: Row<'_>) -> Value {
    // Those that may look at less than all operands, or have an answer to null.
    match function {
        Function::And => return of_truth(all(args.iter().map(|arg| truth(&evaluate(arg, row))))),
        Function::Or => return of_truth(any(args.iter().map(|arg| truth(&evaluate(arg, row))))),
        Function::If | Function::Case => return choose(args, row),
        Function::Coalesce => {
            let values = args.iter().map(|arg| evaluate(arg, row));
            return values.into_iter().find(|value| !value.is_null()).unwrap_or(Value::Null);
        }
        Function::List => return Value::List(args.iter().map(|arg| evaluate(arg, row)).collect()),
        Function::IsNull => return Value::Boolean(args.iter().all(|arg| evaluate(arg, row).is_null())),
        // Text search has an oracle of its own (`crate::search`), and no random query has it.
        Function::Search => unreachable!("SEARCH is not evaluated by this oracle"),
        Function::IsNotNull => return Value::Boolean(args.iter().all(|arg| !evaluate(arg, row).is_null())),
        _ => {}
    }
    if let (Function::Hash, [value]) = (function, args) {
        return Value::Long(i64::from(functions::hash(&evaluate(value, row))));
    }
    let operands: Vec<Value> = args.iter().map(|arg| evaluate(arg, row)).collect();
    if let (Function::Between { negated }, [value, low, high]) = (function, operands.as_slice()) {
        let inside = all([compared(Comparison::Ge, value, low), compared(Comparison::Le, value, high)]);
        return of_truth(negate_if(*negated, inside));
    }
    if operands.iter().any(Value::is_null) {
        return Value::Null;
    }
    match operands.as_slice() {
        [] => Value::Null,
        [value] => of_one(function, value),
        [left, right] => of_two(function, left, right),
        [text, start, length] if *function == Function::Substring => {
            functions::substring(text, start, Some(length))
        }
        _ => Value::Null,
    }
}

/// `c1, v1, c2, v2, …, otherwise`: the value beside the first condition that is true.
fn choose(args: &[Expr], row: Row<'_>) -> Value {
    for arm in args.chunks(2) {
        match arm {
            [condition, value] if is_true(condition, row) => return evaluate(value, row),
            [otherwise] => return evaluate(otherwise, row),
            _ => {}
        }
    }
    Value::Null
}

fn of_one(function: &Function, value: &Value) -> Value {
    match function {
        Function::Not => of_truth(truth(value).map(|truth| !truth)),
        Function::SizeOf => functions::size(value),
        Function::Abs => functions::absolute(value),
        Function::Trim => functions::on_text(value, |text| functions::trimmed(text).to_owned()),
        Function::Lower => functions::on_text(value, str::to_lowercase),
        Function::Upper => functions::on_text(value, str::to_uppercase),
        Function::Cast(ty) => functions::cast(value, ty),
        _ => Value::Null,
    }
}

fn of_two(function: &Function, left: &Value, right: &Value) -> Value {
    match function {
        Function::Add => functions::arithmetic(left, right, i64::checked_add, |a, b| Some(a + b)),
        Function::Subtract => functions::arithmetic(left, right, i64::checked_sub, |a, b| Some(a - b)),
        Function::Multiply => functions::arithmetic(left, right, i64::checked_mul, |a, b| Some(a * b)),
        Function::Divide => {
            functions::arithmetic(left, right, i64::checked_div, |a, b| (b != 0.0).then(|| a / b))
        }
        Function::Remainder => functions::arithmetic(
            left,
            right,
            |a, b| if b == 0 { None } else { Some(a.wrapping_rem(b)) },
            |a, b| (b != 0.0).then(|| a % b),
        ),
        Function::Compare(comparison, Quantifier::One) => of_truth(compared(*comparison, left, right)),
        Function::Compare(comparison, quantifier) => {
            let Value::List(items) = right else { return Value::Null };
            let each = items.iter().map(|item| compared(*comparison, left, item));
            of_truth(if *quantifier == Quantifier::Any { any(each) } else { all(each) })
        }
        Function::RLike { any: false, negated } => {
            of_truth(negate_if(*negated, functions::matches(left, right)))
        }
        Function::RLike { any: true, negated } => {
            let Value::List(patterns) = right else { return Value::Null };
            let each = patterns.iter().map(|pattern| functions::matches(left, pattern));
            of_truth(negate_if(*negated, any(each)))
        }
        Function::Like { negated } => of_truth(negate_if(*negated, functions::is_like(left, right))),
        Function::In { negated } => of_truth(negate_if(*negated, functions::contains_value(right, left))),
        Function::ContainsValue => of_truth(functions::contains_value(left, right)),
        Function::ContainsKey => of_truth(functions::contains_key(left, right)),
        Function::Xor => match (truth(left), truth(right)) {
            (Some(a), Some(b)) => Value::Boolean(a != b),
            _ => Value::Null,
        },
        Function::Element => functions::element(left, right),
        Function::SizeIs => match (functions::size(left), right) {
            (Value::Long(size), Value::Long(wanted)) => Value::Boolean(size == *wanted),
            _ => Value::Null,
        },
        Function::Filter => functions::filter(left, right),
        Function::Concat => match (functions::text(left), functions::text(right)) {
            (Some(a), Some(b)) => Value::String(a + &b),
            _ => Value::Null,
        },
        Function::Substring => functions::substring(left, right, None),
        _ => Value::Null,
    }
}

fn compared(comparison: Comparison, left: &Value, right: &Value) -> Truth {
    let order = compare(left, right)?;
    Some(match comparison {
        Comparison::Eq => order.is_eq(),
        Comparison::Ne => order.is_ne(),
        Comparison::Lt => order.is_lt(),
        Comparison::Le => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::Ge => order.is_ge(),
    })
}

fn negate_if(negated: bool, truth: Truth) -> Truth {
    truth.map(|truth| truth != negated)
}
