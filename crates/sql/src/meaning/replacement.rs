//! Translates the replacement text of `regexp_replace` from PostgreSQL's form to the form of DataFusion's regex library.
//!
//! | PostgreSQL | inserts | the library's form |
//! | --- | --- | --- |
//! | `\1` to `\9` | the group's match, or nothing | `${1}`; DataFusion makes it of `\1`, `\12` and `\\1` alike |
//! | `\&` | the whole match | `${0}` |
//! | `\\` | a backslash | `\` |
//! | a backslash before anything else | both characters | the same |
//! | `$` | a dollar sign | `$$` |

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `regexp_replacement(text)`: the library's form of a replacement.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Replacement(Signature);

impl Replacement {
    pub(super) const NAME: &str = "regexp_replacement";

    pub(super) fn new() -> Replacement {
        Replacement(Signature::string(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Replacement {
    fn name(&self) -> &str {
        Replacement::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = arguments.args.as_slice() else { return plan_err!("regexp_replacement takes a text") };
        let texts = |array: &ArrayRef| -> Result<ArrayRef> {
            let texts = cast(array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| text.map(template));
            Ok(Arc::new(texts.collect::<StringArray>()))
        };
        Ok(match given {
            ColumnarValue::Array(array) => ColumnarValue::Array(texts(array)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&texts(&value.to_array()?)?, 0)?)
            }
        })
    }
}

/// A group that no pattern has, which keeps DataFusion from taking a backslash and a digit behind it for one that is.
const NOTHING: &str = "${}";

fn template(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek().copied()) {
            ('$', _) => out.push_str("$$"),
            ('\\', Some(group @ '1'..='9')) => {
                characters.next();
                out.extend(["${", group.encode_utf8(&mut [0; 4]), "}"]);
            }
            ('\\', Some('&')) => {
                characters.next();
                out.push_str("${0}");
            }
            ('\\', next) => {
                if next == Some('\\') {
                    characters.next();
                }
                out.push('\\');
                out.push_str(NOTHING);
            }
            _ => out.push(character),
        }
    }
    out
}
