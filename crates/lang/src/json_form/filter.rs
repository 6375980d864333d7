//! Filters of Bullet's JSON query form.
//!
//! ```text
//! F     = {"operation": "AND" | "OR" | "NOT", "clauses": [F, …]} | {"field": path, "operation": op, "values": [V, …]}
//! op    = == != <= >= < > RLIKE SIZEIS CONTAINSKEY CONTAINSVALUE
//! V     = text | {"kind": "VALUE" | "FIELD", "type": type, "value": text}
//! ```
//!
//! NOT negates its first clause; without clauses all three are true. `==` is true if the field equals any of the values,
//! and `!=` if it differs from all. The others are true if they are true for any value. A value without a type is cast to
//! the type of the event's value, and is skipped if that fails. The value `null` equals a missing field. A clause is
//! therefore true or false, never null. NOT of a clause about a missing field is true, and `!=` is the negation of `==`.

use swiftwater_event::Type;

use super::{DEPTH_MAX, Reader, read::Node};
use crate::{
    lexer::short,
    plan::{Comparison, Expr, Function, Literal, Quantifier},
    source::Fault,
};

/// One of a clause's values.
#[derive(Clone)]
enum Operand {
    /// A text whose cast depends on the event.
    Text(Box<str>),
    /// A field of the event, or a value with a type of its own.
    Typed(Expr),
}

impl Reader<'_> {
    /// `[F, …]`, joined by AND.
    pub(super) fn filters(&mut self, node: &Node<'_>) -> Option<Expr> {
        let clauses = self.record_fault(node.list("`filters`"))?;
        let clauses: Vec<Expr> =
            clauses.iter().filter_map(|clause| self.filter(clause, true, DEPTH_MAX)).collect();
        joined(Function::And, clauses)
    }

    /// `decides`: the event is kept only where this clause is true, so that false and null are the same here.
    fn filter(&mut self, node: &Node<'_>, decides: bool, depth: usize) -> Option<Expr> {
        if depth == 0 {
            self.faults.push(Fault::at(node.span(), format!("filters nest at most {DEPTH_MAX} deep")));
            return None;
        }
        let clause = self.record_fault(node.object("a filter"))?;
        let operation = self.record_fault(clause.need("operation", node))?;
        let name = self.record_fault(operation.text("an operation"))?.to_ascii_uppercase();
        if clause.get("clauses").is_none() && !matches!(&*name, "AND" | "OR" | "NOT") {
            self.check_keys(&clause, &["field", "operation", "values", "clauses"]);
            return self.comparison(node, decides);
        }
        self.check_keys(&clause, &["operation", "clauses"]);
        let clauses = self.record_fault(clause.need("clauses", node))?;
        let clauses = self.record_fault(clauses.list("`clauses`"))?;
        let lowered = |reader: &mut Self, decides: bool| -> Vec<Expr> {
            clauses.iter().filter_map(|clause| reader.filter(clause, decides, depth - 1)).collect()
        };
        if clauses.is_empty() && matches!(&*name, "AND" | "OR" | "NOT") {
            return Some(Expr::Literal(Literal::Boolean(true)));
        }
        match &*name {
            "AND" => joined(Function::And, lowered(self, decides)),
            // Each part of an indexed OR must be plain, too.
            "OR" => joined(Function::Or, lowered(self, decides)),
            "NOT" => {
                // The rest are read for their faults alone.
                let mut clauses = clauses.iter().map(|clause| self.filter(clause, false, depth - 1));
                let first = clauses.next().flatten();
                clauses.for_each(drop);
                first.map(|first| call(Function::Not, vec![first]))
            }
            other => {
                let message = format!("clauses are joined by AND, OR or NOT, not `{}`", short(other));
                self.faults.push(Fault::at(operation.span(), message));
                None
            }
        }
    }

    fn comparison(&mut self, node: &Node<'_>, decides: bool) -> Option<Expr> {
        let clause = self.record_fault(node.object("a filter"))?;
        let field = self.record_fault(clause.need("field", node))?;
        let field = self.path(field);
        let operation = self.record_fault(clause.need("operation", node))?;
        let name = self.record_fault(operation.text("an operation"))?.to_ascii_uppercase();
        let values = self.record_fault(clause.need("values", node)).and_then(|values| self.operands(values));
        let (field, values) = (field?, values?);
        let comparison = match &*name {
            "==" => Comparison::Eq,
            "!=" => Comparison::Ne,
            "<=" => Comparison::Le,
            ">=" => Comparison::Ge,
            "<" => Comparison::Lt,
            ">" => Comparison::Gt,
            _ => return self.test(&name, operation, field, values),
        };
        if values.is_empty() {
            return Some(Expr::Literal(Literal::Boolean(comparison == Comparison::Ne)));
        }
        if let Expr::Call { function: Function::Coalesce, args: readings } = &field
            && comparison == Comparison::Eq
            && decides
            && !values.iter().any(may_be_null)
        {
            // Each reading by itself is found through the index; those that the event does not have equal nothing.
            let each = readings.iter().map(|field| equal_any(field, values.clone()));
            return joined(Function::Or, each.collect());
        }
        if comparison == Comparison::Eq && decides {
            return Some(equal_any(&field, values));
        }
        let each = values.into_iter().map(|value| compared(comparison, &field, value));
        let join = if comparison == Comparison::Ne { Function::And } else { Function::Or };
        joined(join, each.collect())
    }

    /// RLIKE, SIZEIS, CONTAINSKEY, CONTAINSVALUE: true for any of the values.
    fn test(&mut self, name: &str, operation: &Node<'_>, field: Expr, values: Vec<Operand>) -> Option<Expr> {
        let function = match name {
            "RLIKE" => Function::RLike { any: false, negated: false },
            "SIZEIS" => Function::SizeIs,
            "CONTAINSKEY" => Function::ContainsKey,
            "CONTAINSVALUE" => Function::ContainsValue,
            _ => return self.no_operation(name, operation),
        };
        let field = match function {
            Function::RLike { .. } => call(Function::Cast(Type::STRING), vec![field]),
            _ => field,
        };
        let mut tests = Vec::new();
        for value in values {
            let readings = match (value, &function) {
                (Operand::Typed(other), _) => vec![other],
                // A size that is no whole number is none.
                (Operand::Text(text), Function::SizeIs) => text
                    .trim()
                    .parse()
                    .map(|size| Expr::Literal(Literal::Integer(size)))
                    .into_iter()
                    .collect(),
                (Operand::Text(text), Function::ContainsValue) => {
                    readings(&text).into_iter().map(Expr::Literal).collect()
                }
                (Operand::Text(text), _) => vec![Expr::Literal(Literal::String(text))],
            };
            let of = |reading| or_false(call(function.clone(), vec![field.clone(), reading]));
            tests.extend(readings.into_iter().map(of));
        }
        Some(joined(Function::Or, tests).unwrap_or(Expr::Literal(Literal::Boolean(false))))
    }

    fn no_operation(&mut self, name: &str, operation: &Node<'_>) -> Option<Expr> {
        let fault = Fault::at(operation.span(), format!("no operation `{}`", short(name)));
        let hint = "Operations are ==, !=, <=, >=, <, >, RLIKE, SIZEIS, CONTAINSKEY and CONTAINSVALUE.";
        self.faults.push(fault.hint(hint));
        None
    }

    /// `[V, …]`, of one style.
    fn operands(&mut self, node: &Node<'_>) -> Option<Vec<Operand>> {
        let values = self.record_fault(node.list("`values`"))?;
        if values.iter().any(Node::is_object) && !values.iter().all(Node::is_object) {
            let message = "values are either all plain, or all objects with `kind` and `value`";
            self.faults.push(Fault::at(node.span(), message));
            return None;
        }
        values.iter().map(|value| self.operand(value)).collect()
    }

    fn operand(&mut self, node: &Node<'_>) -> Option<Operand> {
        if !node.is_object() {
            let text = self.record_fault(node.text("a value"))?;
            return Some(Operand::Text(text.as_ref().into()));
        }
        let object = self.record_fault(node.object("a value"))?;
        self.check_keys(&object, &["kind", "type", "value"]);
        let kind = self.record_fault(object.need("kind", node))?;
        let value = self.record_fault(object.need("value", node))?;
        match &*self.record_fault(kind.text("a kind"))?.to_ascii_uppercase() {
            "VALUE" => {
                let text = self.record_fault(value.text("a value"))?;
                match object.get("type") {
                    None => Some(Operand::Text(text.as_ref().into())),
                    Some(_) => self.cast(literal(&text), &object).map(Operand::Typed),
                }
            }
            "FIELD" => {
                let field = self.path(value)?;
                self.cast(field, &object).map(Operand::Typed)
            }
            other => {
                let message = format!("a value's kind is VALUE or FIELD, not `{}`", short(other));
                self.faults.push(Fault::at(kind.span(), message));
                None
            }
        }
    }
}

/// The condition that the field equals any of the values, of which there is at least one; false and null are the same
/// here.
fn equal_any(field: &Expr, values: Vec<Operand>) -> Expr {
    let texts = || {
        values.iter().map(|value| match value {
            Operand::Text(text) if is_only_text(text) => Some(Expr::Literal(Literal::String(text.clone()))),
            _ => None,
        })
    };
    if let Some(mut texts) = texts().collect::<Option<Vec<Expr>>>() {
        // A field that can only be a text is found through the index.
        let (function, other) = match (texts.len(), texts.pop()) {
            (1, Some(text)) => (Function::Compare(Comparison::Eq, Quantifier::One), text),
            (_, last) => {
                texts.extend(last);
                (Function::In { negated: false }, call(Function::List, texts))
            }
        };
        return call(function, vec![field.clone(), other]);
    }
    let each = values.into_iter().map(|value| compared(Comparison::Eq, field, value)).collect();
    joined(Function::Or, each).unwrap_or(Expr::Literal(Literal::Boolean(false)))
}

/// The field compared with one value: true or false.
fn compared(comparison: Comparison, field: &Expr, value: Operand) -> Expr {
    match value {
        Operand::Text(text) => {
            let text = Expr::Literal(Literal::String(text));
            call(Function::MatchesText(comparison), vec![field.clone(), text])
        }
        Operand::Typed(other) => {
            let of = |comparison| {
                let function = Function::Compare(comparison, Quantifier::One);
                or_false(call(function, vec![field.clone(), other.clone()]))
            };
            // Also where one of them is missing, or they cannot be compared.
            if comparison == Comparison::Ne {
                return call(Function::Not, vec![of(Comparison::Eq)]);
            }
            of(comparison)
        }
    }
}

/// True if a text can equal nothing but text: neither a number nor a truth nor `null`.
fn is_only_text(text: &str) -> bool {
    readings(text).len() == 1 && !text.trim().eq_ignore_ascii_case("null")
}

/// True if a value equals a missing field.
fn may_be_null(operand: &Operand) -> bool {
    matches!(operand, Operand::Text(text) if text.trim().eq_ignore_ascii_case("null"))
}

/// The literal that a text stands for if a type determines its meaning.
pub(super) fn literal(text: &str) -> Expr {
    Expr::Literal(match (text.parse(), text.parse()) {
        (Ok(long), _) => Literal::Long(long),
        (_, Ok(double)) => Literal::Double(double),
        _ => Literal::String(text.into()),
    })
}

/// All that a text may stand for.
fn readings(text: &str) -> Vec<Literal> {
    let mut readings = vec![Literal::String(text.into())];
    let trimmed = text.trim();
    if let Ok(number) = trimmed.parse() {
        readings.push(Literal::Long(number));
    } else if let Ok(number) = trimmed.parse::<f64>() {
        readings.push(Literal::Double(number));
    }
    for truth in [true, false] {
        if trimmed.eq_ignore_ascii_case(if truth { "true" } else { "false" }) {
            readings.push(Literal::Boolean(truth));
        }
    }
    readings
}

fn or_false(expr: Expr) -> Expr {
    call(Function::Coalesce, vec![expr, Expr::Literal(Literal::Boolean(false))])
}

/// The parts joined, those of a part that is joined the same way among them.
fn joined(function: Function, parts: Vec<Expr>) -> Option<Expr> {
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Expr::Call { function: inner, args } if inner == function => flat.extend(args),
            part => flat.push(part),
        }
    }
    let mut parts = flat;
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(call(function, parts)),
    }
}

pub(super) fn call(function: Function, args: Vec<Expr>) -> Expr {
    Expr::Call { function, args }
}
