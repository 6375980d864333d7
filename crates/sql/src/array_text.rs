//! Parses lists in PostgreSQL's text form (`{1,NULL,"a \"b\""}`, one dimension) and rewrites them as lists that
//! DataFusion plans.
//!
//! ```text
//! x = ANY('{1,2}')       becomes  x IN ('1', '2')
//! x <> ALL('{1,2}')      becomes  x NOT IN ('1', '2')
//! '{1,2}'::BIGINT[]      becomes  a list of the texts '1' and '2', cast to BIGINT[]
//! x = ANY(l)             becomes  equals_any(l, x)         any other list: its nulls count as in PostgreSQL
//! ```
//!
//! A list literal in a statement is a text, so its type follows from its context. A parameter that is such a text is
//! rewritten in the same way: clients send lists so when they leave the type to the server. [`array_elements`] parses a
//! list that is a value.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, DataType, Expr, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::state;
use crate::text::place_of_span;
use crate::{Parameter, SqlError, meaning};

/// The elements of a list, none for a null; `None` if the text is no list.
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut values = Vec::new();
    let mut characters = inner.chars().peekable();
    while characters.peek().is_some() {
        let (mut value, mut is_quoted, mut within) = (String::new(), false, false);
        loop {
            match characters.next() {
                None if within => return None,
                None => break,
                Some('"') => {
                    within = !within;
                    is_quoted = true;
                }
                Some('\\') => value.push(characters.next()?),
                Some(',') if !within => {
                    // Behind it comes another, be it empty.
                    characters.peek()?;
                    break;
                }
                Some('{' | '}') if !within => return None,
                Some(other) => value.push(other),
            }
        }
        values.push(match is_quoted {
            false if value.trim().eq_ignore_ascii_case("null") => None,
            false if value.trim().is_empty() => return None,
            false => Some(value.trim().to_owned()),
            true => Some(value),
        });
    }
    Some(values)
}

/// Makes of a literal list what stands for it in DataFusion's SQL, where it is one.
pub(crate) fn rewrite(expr: &mut Expr, parameters: &[Parameter]) -> ControlFlow<SqlError> {
    match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
            if !matches!(**right, Expr::Subquery(_)) =>
        {
            let found = one_of(left, literal(right, parameters), false);
            let found = found.unwrap_or_else(|| Ok(meaning::equals_any(left.as_ref(), right.as_ref())));
            replace(expr, found)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            one_of(left, literal(right, parameters), true)
                .map_or(ControlFlow::Continue(()), |found| replace(expr, found))
        }
        Expr::Cast { expr: inner, data_type: DataType::Array(_), .. } => {
            let Some((text, span)) = literal(inner, parameters) else { return ControlFlow::Continue(()) };
            let list = elements(text, span).map(|elem| Expr::Array(Array { elem, named: true }));
            replace(inner, list)
        }
        _ => ControlFlow::Continue(()),
    }
}

fn replace(expr: &mut Expr, with: Result<Expr, SqlError>) -> ControlFlow<SqlError> {
    match with {
        Ok(with) => {
            *expr = with;
            ControlFlow::Continue(())
        }
        Err(error) => ControlFlow::Break(error),
    }
}

/// `left IN (elements)`, or NOT IN; none if the list is no literal.
fn one_of(left: &Expr, list: Option<(&str, Span)>, negated: bool) -> Option<Result<Expr, SqlError>> {
    let (text, span) = list?;
    Some(elements(text, span).map(|list| match list.is_empty() {
        // No value equals an element of an empty list, and each value differs from all of them.
        true => value(Value::Boolean(negated), span),
        false => Expr::InList { expr: Box::new(left.clone()), list, negated },
    }))
}

fn literal<'a>(expr: &'a Expr, parameters: &'a [Parameter]) -> Option<(&'a str, Span)> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) => Some((text, *span)),
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), span }) => {
            let number: usize = name.strip_prefix('$')?.parse().ok()?;
            match parameters.get(number.checked_sub(1)?)? {
                Parameter::Text(text) if text.trim_start().starts_with('{') => Some((text, *span)),
                _ => None,
            }
        }
        Expr::Nested(inner) => literal(inner, parameters),
        _ => None,
    }
}

fn elements(text: &str, span: Span) -> Result<Vec<Expr>, SqlError> {
    let elements = array_elements(text).ok_or_else(|| {
        SqlError::invalid(format!("`{text}` is not a list"))
            .with_state(state::INVALID_TEXT)
            .at(place_of_span(span))
            .with_hint("Write a list as '{1,2}' or ARRAY[1, 2].")
    })?;
    let element = |element: Option<String>| element.map_or(Value::Null, Value::SingleQuotedString);
    Ok(elements.into_iter().map(|text| value(element(text), span)).collect())
}

fn value(value: Value, span: Span) -> Expr {
    Expr::Value(ValueWithSpan { value, span })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            array_elements("{a, NULL ,\"b \\\"c\\\",{}\",\"\",\"NULL\"}"),
            Some(vec![some("a"), None, some("b \"c\",{}"), some(""), some("NULL")])
        );
        assert_eq!(array_elements(" {} "), Some(Vec::new()));
        for odd in ["{", "{1,}", "{,1}", "{{1}}", "{\"1}", "1", ""] {
            assert_eq!(array_elements(odd), None, "{odd}");
        }
    }
}
