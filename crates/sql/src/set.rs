//! `SET swiftwater.distributed = auto | never | always`: holds for the statements behind it in a text, or in a session.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Set, Statement as SqlStatement, Value};

use crate::text::StatementText;
use crate::{Dialect, Distributed, SqlError};

/// The name of the setting.
const NAME: &str = "swiftwater.distributed";

/// The words of its values.
const VALUES: [(&str, Distributed); 4] = [
    ("auto", Distributed::Auto),
    ("default", Distributed::Auto),
    ("never", Distributed::Never),
    ("always", Distributed::Always),
];

impl Distributed {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Distributed::Auto => "auto",
            Distributed::Never => "never",
            Distributed::Always => "always",
        }
    }

    /// The value of a word, in whatever case; an error that names the words otherwise.
    pub fn of_word(word: &str) -> Result<Distributed, SqlError> {
        let found = VALUES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.map(|(_, value)| *value).ok_or_else(|| {
            SqlError::invalid(format!("`{NAME}` cannot be `{word}`"))
                .with_hint("Values are: auto, never, always.")
        })
    }
}

/// The value that a statement sets; none of another statement.
pub(crate) fn distributed(text: &StatementText, dialect: Dialect) -> Result<Option<Distributed>, SqlError> {
    let [set, first, ..] = text.words.as_slice() else { return Ok(None) };
    if set != "SET" || first != "SWIFTWATER" {
        return Ok(None);
    }
    let error = || SqlError::invalid(format!("the only setting is `{NAME}`")).at(Some(text.place));
    let Statement::Statement(statement) = text.parse(dialect)? else { return Err(error()) };
    let SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) = *statement else {
        return Err(error());
    };
    let word = match values.as_slice() {
        [Expr::Identifier(word)] => word.value.clone(),
        [Expr::Value(value)] => match &value.value {
            Value::SingleQuotedString(word) | Value::DoubleQuotedString(word) => word.clone(),
            other => other.to_string(),
        },
        _ => return Err(error()),
    };
    if !variable.to_string().eq_ignore_ascii_case(NAME) {
        return Err(error());
    }
    Distributed::of_word(&word).map(Some).map_err(|error| error.at(Some(text.place)))
}
