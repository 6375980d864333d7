//! Filters.
//!
//! ```text
//! F     = {"operation": "AND" | "OR" | "NOT", "clauses": [F, …]} | {"field": path, "operation": op, "values": [V, …]}
//! op    = == != <= >= < > RLIKE SIZEIS CONTAINSKEY CONTAINSVALUE
//! V     = text | {"kind": "VALUE" | "FIELD", "type": type, "value": text}
//! ```
//!
//! NOT negates its first clause. `==` is true for any of the values, `!=` if the field differs from all, the others
//! for any. A value is cast to the type of what the event holds, and is passed over where that cannot be done; the value
//! `null` stands for a missing field. So a clause is true or false, never null: NOT of a clause about a missing field
//! is true.

use swiftwater_event::Type;

use super::{DEPTH_MAX, Reader, read::Node};
use crate::{
    lexer::short,
    plan::{Comparison, Expr, Function, Literal, Quantifier},
    source::Fault,
};

/// One of a clause's values.
enum Operand {
    Text(Box<str>),
    Field(Expr),
}

impl Reader<'_> {
    /// `[F, …]`, joined by AND.
    pub(super) fn filters(&mut self, node: &Node<'_>) -> Option<Expr> {
        let clauses = self.note(node.list("`filters`"))?;
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
        let clause = self.note(node.object("a filter"))?;
        if clause.get("clauses").is_none() {
            self.check_keys(&clause, &["field", "operation", "values", "clauses"]);
            return self.comparison(node, decides);
        }
        self.check_keys(&clause, &["operation", "clauses"]);
        let operation = self.note(clause.need("operation", node))?;
        let name = self.note(operation.text("an operation"))?.to_ascii_uppercase();
        let clauses = clause.get("clauses").and_then(|clauses| self.note(clauses.list("`clauses`")))?;
        let lowered = |reader: &mut Self, decides: bool| -> Vec<Expr> {
            clauses.iter().filter_map(|clause| reader.filter(clause, decides, depth - 1)).collect()
        };
        match &*name {
            "AND" => joined(Function::And, lowered(self, decides)),
            // Of an OR that is indexed, each part must be plain too.
            "OR" => joined(Function::Or, lowered(self, decides)),
            "NOT" => {
                let Some(first) = clauses.first() else {
                    self.faults.push(Fault::at(node.span(), "NOT needs a clause"));
                    return None;
                };
                let first = self.filter(first, false, depth - 1)?;
                Some(call(Function::Not, vec![first]))
            }
            other => {
                let message = format!("clauses are joined by AND, OR or NOT, not `{}`", short(other));
                self.faults.push(Fault::at(operation.span(), message));
                None
            }
        }
    }

    fn comparison(&mut self, node: &Node<'_>, decides: bool) -> Option<Expr> {
        let clause = self.note(node.object("a filter"))?;
        let field = self.note(clause.need("field", node))?;
        let field = self.path(field);
        let operation = self.note(clause.need("operation", node))?;
        let name = self.note(operation.text("an operation"))?.to_ascii_uppercase();
        let values = self.note(clause.need("values", node)).and_then(|values| self.operands(values));
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
        if comparison == Comparison::Eq && decides && values.iter().all(is_only_text) {
            // What can be nothing but text is found through the index.
            let texts = values.iter().filter_map(|value| match value {
                Operand::Text(text) => Some(Expr::Literal(Literal::String(text.clone()))),
                Operand::Field(_) => None,
            });
            let mut texts: Vec<Expr> = texts.collect();
            return match texts.len() {
                1 => texts
                    .pop()
                    .map(|text| call(Function::Compare(Comparison::Eq, Quantifier::One), vec![field, text])),
                _ => Some(call(Function::In { negated: false }, vec![field, call(Function::List, texts)])),
            };
        }
        let each = values.into_iter().map(|value| match value {
            Operand::Text(text) => {
                let text = Expr::Literal(Literal::String(text));
                call(Function::MatchesText(comparison), vec![field.clone(), text])
            }
            Operand::Field(other) => {
                let compared =
                    call(Function::Compare(comparison, Quantifier::One), vec![field.clone(), other]);
                or_false(compared)
            }
        });
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
                (Operand::Field(other), _) => vec![other],
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
        let hint = "There are ==, !=, <=, >=, <, >, RLIKE, SIZEIS, CONTAINSKEY and CONTAINSVALUE.";
        self.faults.push(fault.hint(hint));
        None
    }

    /// `[V, …]`, of one style.
    fn operands(&mut self, node: &Node<'_>) -> Option<Vec<Operand>> {
        let values = self.note(node.list("`values`"))?;
        if values.iter().any(Node::is_object) && !values.iter().all(Node::is_object) {
            let message = "values are either all plain, or all objects with `kind` and `value`";
            self.faults.push(Fault::at(node.span(), message));
            return None;
        }
        values.iter().map(|value| self.operand(value)).collect()
    }

    fn operand(&mut self, node: &Node<'_>) -> Option<Operand> {
        if !node.is_object() {
            let text = self.note(node.text("a value"))?;
            return Some(Operand::Text(text.as_ref().into()));
        }
        let object = self.note(node.object("a value"))?;
        self.check_keys(&object, &["kind", "type", "value"]);
        let kind = self.note(object.need("kind", node))?;
        let value = self.note(object.need("value", node))?;
        match &*self.note(kind.text("a kind"))?.to_ascii_uppercase() {
            "VALUE" => self.note(value.text("a value")).map(|text| Operand::Text(text.as_ref().into())),
            "FIELD" => self.path(value).map(Operand::Field),
            other => {
                let message = format!("a value's kind is VALUE or FIELD, not `{}`", short(other));
                self.faults.push(Fault::at(kind.span(), message));
                None
            }
        }
    }
}

/// Whether a value can equal nothing but text: neither a number nor a truth nor `null`.
fn is_only_text(operand: &Operand) -> bool {
    match operand {
        Operand::Text(text) => readings(text).len() == 1 && !text.eq_ignore_ascii_case("null"),
        Operand::Field(_) => false,
    }
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

fn joined(function: Function, mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(call(function, parts)),
    }
}

pub(super) fn call(function: Function, args: Vec<Expr>) -> Expr {
    Expr::Call { function, args }
}
