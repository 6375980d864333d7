//! Prints an expression in its normal form, which is the name of its column.
//!
//! Names follow Bullet in every dialect: single spaces around operators, function names in capitals, quotes inside
//! strings not doubled, and no type hints. There are no parentheses around the whole, nor around AND, OR and XOR. A name
//! therefore need not parse. In Bullet's dialect, arguments have parentheses too, and IN and NOT have none.
//!
//! In a whole query's text ([`crate::query_text`]), quotes around names are kept, and quotes in texts are doubled.

use std::fmt::{self, Display};

use crate::{
    ast::{Binary, Builtin, Name, Node, NodeKind, Unary},
    numbers,
    plan::{AggregateFunction, Comparison, DistributionPoints, Literal, Quantifier, TableFunction},
};

/// The name of the column that holds this expression, if it has no alias. `now` is put in for NOW in Bullet's dialect.
pub(crate) fn column_name(node: &Node, now: Option<i64>) -> String {
    NormalizedExpr { node: node.bare(), now, quotes: false }.to_string()
}

/// The text of an expression that is part of another: in Bullet's dialect with the parentheses round it that have a
/// meaning to it.
pub(crate) fn node_name(node: &Node, now: Option<i64>) -> String {
    let name = NormalizedExpr { node: if now.is_none() { node.bare() } else { node }, now, quotes: false };
    name.to_string()
}

/// The name of a list in parentheses, as IN has it.
pub(crate) fn list_name(list: &[Node], now: Option<i64>) -> String {
    let names: Vec<String> = list.iter().map(|node| node_name(node, now)).collect();
    format!("({})", names.join(", "))
}

/// An expression in its normal form.
pub(crate) struct NormalizedExpr<'a> {
    pub(crate) node: &'a Node,
    pub(crate) now: Option<i64>,
    /// Names that were written in quotes are so again, and quotes inside texts are doubled.
    pub(crate) quotes: bool,
}

/// A name, in quotes if it was written so and `quotes` are kept; quotes inside it are not doubled, as Bullet has it.
pub(crate) fn write_name(f: &mut fmt::Formatter<'_>, name: &Name, quotes: bool) -> fmt::Result {
    match name.quoted && quotes {
        true => write!(f, "\"{}\"", name.text),
        false => f.write_str(&name.text),
    }
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
        AggregateFunction::First | AggregateFunction::FirstEvent => "FIRST",
        AggregateFunction::Last | AggregateFunction::LastEvent => "LAST",
        AggregateFunction::ArgMin => "ARG_MIN",
        AggregateFunction::ArgMax => "ARG_MAX",
        AggregateFunction::CollectList { .. } => "COLLECT_LIST",
        AggregateFunction::CollectSet { .. } => "COLLECT_SET",
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

impl fmt::Display for NormalizedExpr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |node| self.with(node);
        match &self.node.kind {
            NodeKind::Literal(Literal::String(text)) if self.quotes => {
                write!(f, "'{}'", text.replace('\'', "''"))
            }
            NodeKind::Literal(literal) => write_literal(f, literal),
            NodeKind::Now => match self.now {
                Some(now) => write!(f, "{now}L"),
                None => f.write_str("NOW"),
            },
            NodeKind::Name(name) => write_name(f, name, self.quotes),
            NodeKind::Member(base, name) => {
                write!(f, "{}.", of(base))?;
                write_name(f, name, self.quotes)
            }
            NodeKind::Index(base, index) if matches!(index.kind, NodeKind::Literal(_)) => {
                // A quote inside a key is never doubled.
                write!(f, "{}[{}]", of(base), NormalizedExpr { node: index, now: self.now, quotes: false })
            }
            NodeKind::Index(base, index) => write!(f, "{}[{}]", of(base), of(self.argument(index))),
            NodeKind::Hint(base, _) => of(base).fmt(f),
            NodeKind::Parens(inner) => match inner.bare().kind {
                NodeKind::And(_) | NodeKind::Or(_) | NodeKind::Binary(Binary::Xor, ..) => {
                    of(inner.bare()).fmt(f)
                }
                NodeKind::Binary(Binary::In { .. }, ..) | NodeKind::InList { .. } | NodeKind::Unary(..)
                    if self.is_bullet() =>
                {
                    of(inner.bare()).fmt(f)
                }
                NodeKind::Binary(..)
                | NodeKind::IsNull { .. }
                | NodeKind::InList { .. }
                | NodeKind::Between { .. }
                | NodeKind::Unary(..) => write!(f, "({})", of(inner.bare())),
                _ => of(inner.bare()).fmt(f),
            },
            // NOT before a parenthesis is written as a function.
            NodeKind::Unary(Unary::Not, operand) if matches!(operand.kind, NodeKind::Parens(_)) => {
                let inner = match &operand.kind {
                    NodeKind::Parens(inner) if self.is_bullet() => inner,
                    _ => operand.bare(),
                };
                write!(f, "NOT({})", of(inner))
            }
            NodeKind::Unary(Unary::Not, operand) => write!(f, "NOT {}", of(operand)),
            NodeKind::Unary(Unary::SizeOf, operand) => {
                write!(f, "{} {}", Builtin::SizeOf.text(), of(operand))
            }
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
            NodeKind::Cast(operand, ty) => write!(f, "CAST({} AS {ty})", of(self.argument(operand))),
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
            NodeKind::Aggregate { function, arguments, filter } => {
                write!(f, "{}(", aggregate_text(*function))?;
                match function {
                    AggregateFunction::CountDistinct => f.write_str("DISTINCT ")?,
                    _ if arguments.is_empty() => f.write_str("*")?,
                    _ => {}
                }
                self.arguments(f, arguments)?;
                match function {
                    AggregateFunction::Percentile { millionths } => {
                        write!(f, ", {}", f64::from(*millionths) / 1e6)?;
                    }
                    AggregateFunction::CollectList { values_max }
                    | AggregateFunction::CollectSet { values_max } => write!(f, ", {values_max}")?,
                    _ => {}
                }
                f.write_str(")")?;
                match filter {
                    Some(filter) => write!(f, " FILTER (WHERE {})", of(filter.bare())),
                    None => Ok(()),
                }
            }
            NodeKind::Grouping(keys) => {
                f.write_str(if keys.is_empty() { "GROUPING_ID(" } else { "GROUPING(" })?;
                self.arguments(f, keys)?;
                f.write_str(")")
            }
            NodeKind::Table { function, arguments } => self.table(f, function, arguments),
        }
    }
}

impl NormalizedExpr<'_> {
    fn with<'n>(&self, node: &'n Node) -> NormalizedExpr<'n> {
        NormalizedExpr { node, now: self.now, quotes: self.quotes }
    }

    fn table(&self, f: &mut fmt::Formatter<'_>, function: &TableFunction, arguments: &[Node]) -> fmt::Result {
        let (name, points) = match function {
            TableFunction::Quantile(points) => ("QUANTILE", points),
            TableFunction::Frequency(points) => ("FREQ", points),
            TableFunction::CumulativeFrequency(points) => ("CUMFREQ", points),
            TableFunction::Top { count, threshold } => {
                write!(f, "TOP({count}, ")?;
                if let Some(threshold) = threshold {
                    write!(f, "{threshold}, ")?;
                }
                self.arguments(f, arguments)?;
                return f.write_str(")");
            }
        };
        write!(f, "{name}(")?;
        self.arguments(f, arguments)?;
        match points {
            DistributionPoints::Linear(count) => write!(f, ", LINEAR, {count})"),
            DistributionPoints::Region { start, end, increment } => {
                let [start, end, increment] = [start, end, increment].map(|point| numbers::double(*point));
                write!(f, ", REGION, {start}, {end}, {increment})")
            }
            DistributionPoints::Manual(points) => {
                f.write_str(", MANUAL")?;
                points.iter().try_for_each(|point| write!(f, ", {}", numbers::double(*point)))?;
                f.write_str(")")
            }
        }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, nodes: &[Node], between: &str) -> fmt::Result {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            self.with(node).fmt(f)?;
        }
        Ok(())
    }

    /// Arguments of a function or elements of a list; each is a whole expression.
    fn arguments(&self, f: &mut fmt::Formatter<'_>, nodes: &[Node]) -> fmt::Result {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            self.with(self.argument(node)).fmt(f)?;
        }
        Ok(())
    }

    /// The node of an argument's text: in Bullet's dialect parentheses count.
    fn argument<'n>(&self, node: &'n Node) -> &'n Node {
        if self.is_bullet() { node } else { node.bare() }
    }

    fn is_bullet(&self) -> bool {
        self.now.is_some()
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
