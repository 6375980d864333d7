//! Rewrites `SIMILAR TO` as a match of a regular expression of DataFusion's regex library.
//!
//! ```text
//! x SIMILAR TO p              becomes  x ~ similar_to_escape(p, '\')
//! x NOT SIMILAR TO p          becomes  x !~ similar_to_escape(p, '\')
//! x SIMILAR TO p ESCAPE e     becomes  x ~ similar_to_escape(p, e)
//! ```
//!
//! `%` and `_` are as in LIKE. `|`, `*`, `+`, `?`, `{m,n}`, brackets and classes are as in POSIX. The whole text must
//! match. DataFusion 55 searches for the pattern as a regular expression, so `'abc' SIMILAR TO 'b'` is true and
//! `'abc' SIMILAR TO 'a%'` is false (apache/datafusion#22263).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::SqlError;

/// `similar_to_escape(pattern, escape)`: the regular expression that stands for a pattern of SQL's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SimilarToEscape(Signature);

impl SimilarToEscape {
    pub(super) const NAME: &str = "similar_to_escape";

    pub(super) fn new() -> SimilarToEscape {
        SimilarToEscape(Signature::string(2, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for SimilarToEscape {
    fn name(&self) -> &str {
        SimilarToEscape::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let texts = columns.iter().map(|column| arrow::compute::cast(column, &DataType::Utf8));
        let texts = texts.collect::<Result<Vec<ArrayRef>, _>>()?;
        let [patterns, escapes] = texts.as_slice() else {
            return plan_err!("similar_to_escape takes a pattern and an escape character");
        };
        let rows = patterns.as_string::<i32>().iter().zip(escapes.as_string::<i32>());
        let expressions = rows.map(|(pattern, escape)| match (pattern, escape) {
            (Some(pattern), Some(escape)) => expression(pattern, escape).map(Some),
            _ => Ok(None),
        });
        let expressions = expressions.collect::<Result<StringArray, SqlError>>();
        let expressions: ArrayRef =
            Arc::new(expressions.map_err(|error| DataFusionError::External(Box::new(error)))?);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&expressions, 0)?),
            false => ColumnarValue::Array(expressions),
        })
    }
}

fn wrong(pattern: &str, why: &str) -> SqlError {
    SqlError::invalid(format!("`{pattern}` is not a valid pattern of SIMILAR TO: {why}"))
        .with_hint("For other regular expressions use `~`: x ~ '^a.*z$'.")
}

/// The regular expression of a pattern.
fn expression(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(wrong(pattern, "its escape character is more than one"));
    }
    let mut out = String::from("^(?s:");
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => match characters.next() {
                Some(literal) => push_literal(literal, &mut out),
                None => return Err(wrong(pattern, "nothing follows its last escape character")),
            },
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            ')' | '|' | '*' | '+' | '?' | '{' | '}' => out.push(character),
            '[' => class(pattern, &mut characters, &mut out)?,
            _ => push_literal(character, &mut out),
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn push_literal(character: char, out: &mut String) {
    if character.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(character);
}

/// The rest of a class, `[` having been read. Constructs of the library that POSIX does not have are escaped.
fn class(
    pattern: &str,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), SqlError> {
    out.push('[');
    if characters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    while let Some(character) = characters.next() {
        match character {
            ']' if !is_first => {
                out.push(']');
                return Ok(());
            }
            '[' if characters.peek() == Some(&':') => {
                out.push('[');
                let mut last = '[';
                loop {
                    let Some(character) = characters.next() else {
                        return Err(wrong(pattern, "a class is not closed"));
                    };
                    out.push(character);
                    if last == ':' && character == ']' {
                        break;
                    }
                    last = character;
                }
            }
            '[' | ']' | '\\' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
        is_first = false;
    }
    Err(wrong(pattern, "a class is not closed"))
}
