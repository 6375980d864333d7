//! Evaluates predicates in three-valued logic; rows that an AND or OR has decided skip the remaining operands.

use swiftwater_event::Value;
use swiftwater_lang::Dialect;
use swiftwater_lang::plan::Comparison;
use swiftwater_text::EventSearch;

use super::java_type::JavaType;
use super::like::LikePattern;
use super::membership::{self, ConstantSet};
use super::pattern::Patterns;
use super::program::Context;
use super::text_match::TextMatch;
use super::value_node::{Constant, Node, UndecidedRows};
use super::{cast, compare, containers};

/// True, false, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    False,
    True,
    Null,
    Error,
}

impl Truth {
    pub(super) fn of(truth: bool) -> Truth {
        if truth { Truth::True } else { Truth::False }
    }

    pub(super) fn to_value<'a>(self) -> Value<'a> {
        match self {
            Truth::False => Value::Boolean(false),
            Truth::True => Value::Boolean(true),
            Truth::Null => Value::Null,
            Truth::Error => Value::Error,
        }
    }

    pub(super) fn negate(self) -> Truth {
        match self {
            Truth::False => Truth::True,
            Truth::True => Truth::False,
            other => other,
        }
    }

    pub(super) fn negate_if(self, negated: bool) -> Truth {
        if negated { self.negate() } else { self }
    }
}

/// An operator that decides.
#[derive(Debug)]
pub(super) enum Predicate {
    /// Any primitive, cast to BOOLEAN; unless `strict`, when it must be one.
    Value {
        node: Node,
        strict: bool,
    },
    Compare {
        comparison: Comparison,
        operands: Box<[Node; 2]>,
    },
    CompareConstant {
        comparison: Comparison,
        node: Node,
        constant: Constant,
    },
    Quantified {
        comparison: Comparison,
        all: bool,
        operands: Box<[Node; 2]>,
        declared: Option<JavaType>,
    },
    Between {
        negated: bool,
        operands: Box<[Node; 3]>,
    },
    /// True if the second operand contains the first.
    In {
        negated: bool,
        operands: Box<[Node; 2]>,
        declared: Option<JavaType>,
    },
    InConstants {
        negated: bool,
        node: Node,
        set: ConstantSet,
    },
    /// True if the first operand contains the second.
    ContainsValue {
        operands: Box<[Node; 2]>,
        declared: Option<JavaType>,
    },
    ContainsKey {
        operands: Box<[Node; 2]>,
        declared: Option<JavaType>,
    },
    SizeIs {
        operands: Box<[Node; 2]>,
        declared: Option<JavaType>,
    },
    /// `text RLIKE pattern`, or LIKE; the pattern constant.
    Matches {
        negated: bool,
        node: Node,
        patterns: Patterns,
    },
    Like {
        negated: bool,
        node: Node,
        pattern: LikePattern,
    },
    /// Two-valued: what is null or cannot be had has no words.
    Search {
        node: Node,
        search: Box<EventSearch>,
    },
    /// The pattern comes from the row.
    MatchesRow {
        negated: bool,
        any: bool,
        like: bool,
        operands: Box<[Node; 2]>,
    },
    /// Two-valued: nulls are compared too.
    MatchesText {
        comparison: Comparison,
        node: Node,
        text: TextMatch,
    },
    IsNull {
        negated: bool,
        node: Node,
    },
    Not(Box<Predicate>),
    Xor(Box<[Predicate; 2]>),
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
}

impl Predicate {
    /// Appends one truth per selected row to `out`, which is empty.
    pub(super) fn evaluate(&self, selection: &[u32], context: &mut Context<'_, '_>, out: &mut Vec<Truth>) {
        match self {
            Predicate::And(operands) => return connect(operands, Truth::False, selection, context, out),
            Predicate::Or(operands) => return connect(operands, Truth::True, selection, context, out),
            Predicate::Not(operand) => {
                operand.evaluate(selection, context, out);
                for truth in out {
                    *truth = truth.negate();
                }
                return;
            }
            Predicate::Xor(operands) => {
                operands[0].evaluate(selection, context, out);
                let mut right = context.scratch.take_truths();
                operands[1].evaluate(selection, context, &mut right);
                for (left, right) in out.iter_mut().zip(&right) {
                    *left = match (*left, *right) {
                        (Truth::Null | Truth::Error, _) => *left,
                        (_, Truth::Null | Truth::Error) => *right,
                        (left, right) => Truth::of(left != right),
                    };
                }
                context.scratch.emit_truths(right);
                return;
            }
            Predicate::CompareConstant { comparison, node, constant } => {
                membership::compare_constant(*comparison, node, constant, selection, context, out);
            }
            _ => self.evaluate_rows(selection, context, out),
        }
        context.nullify_truth_errors(out);
    }

    fn evaluate_rows(&self, selection: &[u32], context: &mut Context<'_, '_>, out: &mut Vec<Truth>) {
        let dialect = context.dialect;
        match self {
            Predicate::Value { node, strict } => unary(node, selection, context, out, |value| match value {
                Value::Null => Truth::Null,
                Value::Boolean(truth) => Truth::of(truth),
                _ if *strict => Truth::Error,
                value => cast::truth(value, dialect),
            }),
            Predicate::IsNull { negated, node } => {
                unary(node, selection, context, out, |value| match value {
                    Value::Error => Truth::Error,
                    value => Truth::of(matches!(value, Value::Null) != *negated),
                })
            }
            Predicate::MatchesText { comparison, node, text } => {
                unary(node, selection, context, out, |value| {
                    Truth::of(text.holds(&value, *comparison, dialect))
                });
            }
            Predicate::Compare { comparison, operands } => {
                binary(operands, selection, context, out, |left, right| {
                    match compare::compare(&left, &right, dialect) {
                        Some(ordering) => Truth::of(compare::holds(*comparison, ordering)),
                        None => Truth::Error,
                    }
                })
            }
            Predicate::Quantified { comparison, all, operands, declared } => {
                binary(operands, selection, context, out, |left, right| {
                    membership::quantified(&left, *comparison, *all, &right, *declared, dialect)
                });
            }
            Predicate::In { negated, operands, declared } => {
                binary(operands, selection, context, out, |needle, list| {
                    membership::contains(&list, &needle, *declared, dialect).negate_if(*negated)
                })
            }
            Predicate::InConstants { negated, node, set } => unary(node, selection, context, out, |value| {
                set.contains(&value, dialect).negate_if(*negated)
            }),
            Predicate::ContainsValue { operands, declared } => {
                binary(operands, selection, context, out, |container, needle| {
                    membership::contains(&container, &needle, *declared, dialect)
                });
            }
            Predicate::ContainsKey { operands, declared } => {
                binary(operands, selection, context, out, |container, key| {
                    membership::contains_key(&container, &key, *declared, dialect)
                });
            }
            Predicate::SizeIs { operands, declared } => {
                binary(operands, selection, context, out, |value, size| {
                    let expected = match (size, dialect) {
                        (Value::Integer(size), _) => i64::from(size),
                        (Value::Long(size), Dialect::Native) => size,
                        _ => return Truth::Error,
                    };
                    match containers::size(&value, *declared, dialect) {
                        Some(size) => Truth::of(i64::try_from(size) == Ok(expected)),
                        None => Truth::Error,
                    }
                })
            }
            Predicate::Between { negated, operands } => between(operands, *negated, selection, context, out),
            Predicate::Matches { negated, node, patterns } => {
                unary(node, selection, context, out, |value| match value {
                    Value::Null => Truth::Null,
                    Value::String(text) => patterns.matches(text).negate_if(*negated),
                    _ => Truth::Error,
                })
            }
            Predicate::Like { negated, node, pattern } => {
                unary(node, selection, context, out, |value| match value {
                    Value::Null => Truth::Null,
                    Value::String(text) => Truth::of(pattern.matches(text) != *negated),
                    _ => Truth::Error,
                })
            }
            Predicate::Search { node, search } => {
                let mut values = context.scratch.take_values();
                node.evaluate(selection, context, &mut values);
                let scratch = context.scratch.search();
                out.extend(values.iter().map(|value| Truth::of(search.matches(value, scratch))));
                context.scratch.emit_values(values);
            }
            Predicate::MatchesRow { negated, any, like, operands } => {
                matches_row(operands, *any, *like, *negated, selection, context, out);
            }
            Predicate::CompareConstant { .. }
            | Predicate::Not(_)
            | Predicate::Xor(_)
            | Predicate::And(_)
            | Predicate::Or(_) => {}
        }
    }

    /// Appends the selected rows where this is true.
    pub(super) fn select(&self, selection: &[u32], context: &mut Context<'_, '_>, out: &mut Vec<u32>) {
        let Predicate::And(operands) = self else {
            let mut truths = context.scratch.take_truths();
            self.evaluate(selection, context, &mut truths);
            out.extend(
                truths.iter().zip(selection).filter(|(truth, _)| **truth == Truth::True).map(|(_, row)| *row),
            );
            let errors = truths.iter().filter(|truth| **truth == Truth::Error).count();
            context.counts.expression_errors += errors as u64;
            context.scratch.emit_truths(truths);
            return;
        };
        let mut rows = context.scratch.take_rows();
        let mut kept = context.scratch.take_rows();
        rows.extend_from_slice(selection);
        for operand in operands {
            if rows.is_empty() {
                break;
            }
            kept.clear();
            operand.select(&rows, context, &mut kept);
            std::mem::swap(&mut rows, &mut kept);
        }
        out.extend_from_slice(&rows);
        context.scratch.emit_rows(rows);
        context.scratch.emit_rows(kept);
    }
}

/// AND (decided by false) and OR (decided by true): Kleene's, operands in order, each on the undecided rows only. An
/// error decides a row too, as an exception does.
fn connect(
    operands: &[Predicate],
    decisive: Truth,
    selection: &[u32],
    context: &mut Context<'_, '_>,
    out: &mut Vec<Truth>,
) {
    out.resize(selection.len(), decisive.negate());
    let mut open = UndecidedRows::all(selection, context);
    let mut truths = context.scratch.take_truths();
    for operand in operands {
        truths.clear();
        operand.evaluate(&open.rows, context, &mut truths);
        open.retain(|at, place, _| {
            let truth = truths[at];
            if truth != decisive.negate() {
                out[place as usize] = truth;
            }
            truth != decisive && truth != Truth::Error
        });
        if open.rows.is_empty() {
            break;
        }
    }
    context.scratch.emit_truths(truths);
    open.recycle(context);
}

/// One truth per value; the operator sees nulls, but no errors.
fn unary<'a>(
    node: &Node,
    selection: &[u32],
    context: &mut Context<'_, 'a>,
    out: &mut Vec<Truth>,
    operator: impl Fn(Value<'a>) -> Truth,
) {
    let mut values = context.scratch.take_values();
    node.evaluate(selection, context, &mut values);
    out.extend(values.iter().map(|value| match value {
        Value::Error => Truth::Error,
        value => operator(*value),
    }));
    context.scratch.emit_values(values);
}

/// One truth per pair; the operator sees neither nulls nor errors.
fn binary<'a>(
    operands: &[Node; 2],
    selection: &[u32],
    context: &mut Context<'_, 'a>,
    out: &mut Vec<Truth>,
    operator: impl Fn(Value<'a>, Value<'a>) -> Truth,
) {
    let mut left = context.scratch.take_values();
    let mut right = context.scratch.take_values();
    operands[0].evaluate(selection, context, &mut left);
    operands[1].evaluate(selection, context, &mut right);
    out.extend(left.iter().zip(&right).map(|pair| match pair {
        (Value::Null, _) => Truth::Null,
        (Value::Error, _) | (_, Value::Error) => Truth::Error,
        (_, Value::Null) => Truth::Null,
        (left, right) => operator(*left, *right),
    }));
    context.scratch.emit_values(left);
    context.scratch.emit_values(right);
}

fn between(
    operands: &[Node; 3],
    negated: bool,
    selection: &[u32],
    context: &mut Context<'_, '_>,
    out: &mut Vec<Truth>,
) {
    let dialect = context.dialect;
    let [mut values, mut lows, mut highs] = std::array::from_fn(|_| context.scratch.take_values());
    for (node, buffer) in operands.iter().zip([&mut values, &mut lows, &mut highs]) {
        node.evaluate(selection, context, buffer);
    }
    out.extend(
        values
            .iter()
            .zip(lows.iter().zip(&highs))
            .map(|(value, (low, high))| membership::between(value, low, high, dialect).negate_if(negated)),
    );
    for buffer in [values, lows, highs] {
        context.scratch.emit_values(buffer);
    }
}

/// RLIKE and LIKE with patterns that come from the rows.
fn matches_row(
    operands: &[Node; 2],
    any: bool,
    like: bool,
    negated: bool,
    selection: &[u32],
    context: &mut Context<'_, '_>,
    out: &mut Vec<Truth>,
) {
    let mut texts = context.scratch.take_values();
    let mut patterns = context.scratch.take_values();
    operands[0].evaluate(selection, context, &mut texts);
    operands[1].evaluate(selection, context, &mut patterns);
    for pair in texts.iter().zip(&patterns) {
        let truth = match pair {
            (Value::Null, _) => Truth::Null,
            (Value::Error, _) | (_, Value::Error) => Truth::Error,
            (_, Value::Null) => Truth::Null,
            (Value::String(text), Value::List(patterns)) if any => {
                membership::matches_any(text, patterns, context.scratch)
            }
            (Value::String(text), Value::String(pattern)) if like => {
                Truth::of(LikePattern::new(pattern).matches(text))
            }
            (Value::String(text), Value::String(pattern)) if !any => {
                membership::matches(text, pattern, context.scratch)
            }
            _ => Truth::Error,
        };
        out.push(truth.negate_if(negated));
    }
    context.scratch.emit_values(texts);
    context.scratch.emit_values(patterns);
}
