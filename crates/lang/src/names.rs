//! The text of an expression in its normal form, which names its column. Names follow Bullet in every dialect:
//! single spaces round operators, function names in capitals, quotes inside strings not doubled, type hints left out,
//! and no parentheses round the whole or round AND, OR and XOR. So a name is a name: it need not parse.

use std::fmt::{self, Display, Write};

use crate::{
    ast::{Binary, Node, NodeKind, Unary},
    numbers,
    plan::{AggregateFunction, Comparison, Literal, Quantifier},
};

/// The name of the column that holds this expression, if it has no alias. `now` is put in for NOW in Bullet's dialect.
pub(crate) fn column_name(node: &Node, now: Option<i64>) -> String {
    let mut text = String::new();
    let name = Named { node: node.bare(), now };
    // Writing to a string does not fail.
    let _ = write!(text, "{name}");
    text
}

struct Named<'a> {
    node: &'a Node,
    now: Option<i64>,
}

pub(crate) fn comparison_text(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "=",
        Comparison::Ne => "!=",
        Comparison::Lt => "<",
        Comparison::Le => "<=",
        Comparison::Gt => ">",
        Comparison::Ge => ">=",
    }
}

pub(crate) fn aggregate_text(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::Count => "COUNT",
        AggregateFunction::Sum => "SUM",
        AggregateFunction::Avg => "AVG",
        AggregateFunction::Min => "MIN",
        AggregateFunction::Max => "MAX",
        AggregateFunction::CountDistinct => "COUNT",
        AggregateFunction::Percentile { .. } => "APPROX_PERCENTILE_CONT",
    }
}

fn binary_text(binary: Binary) -> String {
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match binary {
        Binary::Add => "+".to_owned(),
        Binary::Subtract => "-".to_owned(),
        Binary::Multiply => "*".to_owned(),
        Binary::Divide => "/".to_owned(),
        Binary::Remainder => "%".to_owned(),
        Binary::Concat => "||".to_owned(),
        Binary::Xor => "XOR".to_owned(),
        Binary::Compare(comparison, quantifier) => {
            let text = comparison_text(comparison);
            match quantifier {
                Quantifier::One => text.to_owned(),
                Quantifier::Any => format!("{text} ANY"),
                Quantifier::All => format!("{text} ALL"),
            }
        }
        Binary::RLike { any, negated } => format!("{}RLIKE{}", not(negated), if any { " ANY" } else { "" }),
        Binary::Like { negated } => format!("{}LIKE", not(negated)),
        Binary::In { negated } => format!("{}IN", not(negated)),
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |node| Named { node, now: self.now };
        match &self.node.kind {
            NodeKind::Literal(literal) => write_literal(f, literal),
            NodeKind::Now => match self.now {
                Some(now) => write!(f, "{now}L"),
                None => f.write_str("NOW"),
            },
            NodeKind::Name(name) => f.write_str(&name.text),
            NodeKind::Member(base, name) => write!(f, "{}.{}", of(base), name.text),
            NodeKind::Index(base, index) => write!(f, "{}[{}]", of(base), of(index.bare())),
            NodeKind::Hint(base, _) => of(base).fmt(f),
            NodeKind::Parens(inner) => match inner.bare().kind {
                NodeKind::And(_) | NodeKind::Or(_) | NodeKind::Binary(Binary::Xor, ..) => {
                    of(inner.bare()).fmt(f)
                }
                NodeKind::Binary(..)
                | NodeKind::IsNull { .. }
                | NodeKind::InList { .. }
                | NodeKind::Between { .. }
                | NodeKind::Unary(..) => write!(f, "({})", of(inner.bare())),
                _ => of(inner.bare()).fmt(f),
            },
            NodeKind::Unary(Unary::Not, operand) => write!(f, "NOT {}", of(operand)),
            NodeKind::Unary(Unary::Minus, operand) => write!(f, "-{}", of(operand)),
            NodeKind::Binary(operator, left, right) => {
                write!(f, "{} {} {}", of(left), binary_text(*operator), of(right))
            }
            NodeKind::And(operands) => self.list(f, operands, " AND "),
            NodeKind::Or(operands) => self.list(f, operands, " OR "),
            NodeKind::IsNull { operand, negated } => {
                write!(f, "{} IS {}NULL", of(operand), if *negated { "NOT " } else { "" })
            }
            NodeKind::InList { value, list, negated } => {
                write!(f, "{} {}IN (", of(value), if *negated { "NOT " } else { "" })?;
                self.arguments(f, list)?;
                f.write_str(")")
            }
            NodeKind::Between { value, bounds, negated } => {
                write!(f, "{} {}BETWEEN (", of(value), if *negated { "NOT " } else { "" })?;
                self.arguments(f, &**bounds)?;
                f.write_str(")")
            }
            NodeKind::List(elements) => {
                f.write_str("[")?;
                self.arguments(f, elements)?;
                f.write_str("]")
            }
            NodeKind::Call(builtin, args) => {
                write!(f, "{}(", builtin.text())?;
                self.arguments(f, args)?;
                f.write_str(")")
            }
            NodeKind::Cast(operand, ty) => write!(f, "CAST({} AS {ty})", of(operand.bare())),
            NodeKind::Case { operand, arms, otherwise } => {
                f.write_str("CASE")?;
                if let Some(operand) = operand {
                    write!(f, " {}", of(operand))?;
                }
                for (when, then) in arms {
                    write!(f, " WHEN {} THEN {}", of(when), of(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", of(otherwise))?;
                }
                f.write_str(" END")
            }
            NodeKind::Aggregate { function, argument } => match argument {
                Some(argument) => write!(f, "{}({})", aggregate_text(*function), of(argument.bare())),
                None => write!(f, "{}(*)", aggregate_text(*function)),
            },
        }
    }
}

impl Named<'_> {
    fn list(&self, f: &mut fmt::Formatter<'_>, nodes: &[Node], between: &str) -> fmt::Result {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            Named { node, now: self.now }.fmt(f)?;
        }
        Ok(())
    }

    /// Arguments of a function or elements of a list; each is a whole expression.
    fn arguments(&self, f: &mut fmt::Formatter<'_>, nodes: &[Node]) -> fmt::Result {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            Named { node: node.bare(), now: self.now }.fmt(f)?;
        }
        Ok(())
    }
}

fn write_literal(f: &mut fmt::Formatter<'_>, literal: &Literal) -> fmt::Result {
    match literal {
        Literal::Null => f.write_str("NULL"),
        Literal::Boolean(value) => write!(f, "{value}"),
        Literal::Integer(value) => write!(f, "{value}"),
        Literal::Long(value) => write!(f, "{value}L"),
        Literal::Float(value) => write!(f, "{}f", numbers::float(*value)),
        Literal::Double(value) => f.write_str(&numbers::double(*value)),
        Literal::String(text) => write!(f, "'{text}'"),
    }
}
