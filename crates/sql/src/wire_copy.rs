//! Parses `COPY … TO STDOUT` and `COPY … FROM STDIN`.
//!
//! PostgreSQL's protocol transports the bytes of rows, and this module knows nothing of it. [`CopyIn`](crate::CopyIn)
//! inserts incoming rows.
//!
//! It reads the statements as PostgreSQL 16 does, with options in parentheses or in the syntax before version 9. An
//! unknown option that would change rows is refused, never ignored.

use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName, Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::error::state;
use crate::{ErrorKind, SqlError, SqlOptions};

/// A statement that copies rows from the client or to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireCopy {
    pub(crate) source: Source,
    is_from_client: bool,
    /// Format of the rows.
    pub form: CopyForm,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The text of a query, every other character of the statement a space: so its errors have their places in the whole.
    Query(String),
    /// A table, and those of its columns that are named.
    Table { name: ObjectName, columns: Vec<Ident> },
}

/// Format of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyForm {
    /// True for CSV, false for PostgreSQL's own text.
    pub is_csv: bool,
    /// Separator of values.
    pub delimiter: u8,
    /// Text of a null.
    pub null: String,
    /// The first line names the columns.
    pub has_header: bool,
    /// Quote around values of CSV that need it.
    pub quote: u8,
    /// Escape before a quote within such a value.
    pub escape: u8,
}

impl WireCopy {
    /// Reads a statement that begins with COPY and names STDIN or STDOUT.
    pub fn parse(text: &str, options: &SqlOptions) -> Result<WireCopy, SqlError> {
        if text.len() > options.text_bytes_max {
            return Err(SqlError::new(ErrorKind::Limit, "the text exceeds the maximum length"));
        }
        let dialect = PostgreSqlDialect {};
        let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| {
            let statement = parser.parse_statement()?;
            parser.expect_token(&Token::EOF)?;
            Ok(statement)
        });
        let statement = parsed.map_err(|error| {
            SqlError::from(datafusion::error::DataFusionError::SQL(Box::new(error), None))
        })?;
        let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(SqlError::invalid("this is not a COPY statement"));
        };
        match (to, &target) {
            (true, CopyTarget::Stdout) | (false, CopyTarget::Stdin) => {}
            (true, _) => return Err(SqlError::invalid("rows are copied TO STDOUT")),
            (false, _) => return Err(SqlError::invalid("rows are copied FROM STDIN")),
        }
        let form = CopyForm::of(&options, &legacy_options)?;
        let source = match source {
            CopySource::Table { table_name, columns } => Source::Table { name: table_name, columns },
            CopySource::Query(_) => Source::Query(within_brackets(text)?),
        };
        Ok(WireCopy { source, is_from_client: !to, form })
    }

    /// Rows come from the client, rather than going to it.
    pub fn is_from_client(&self) -> bool {
        self.is_from_client
    }
}

impl CopyForm {
    fn of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<CopyForm, SqlError> {
        let mut given = CopyOptionValues::default();
        for option in options {
            match option {
                CopyOption::Format(format) => given.format(&format.value)?,
                CopyOption::Freeze(false) => {}
                CopyOption::Delimiter(delimiter) => given.delimiter = Some(*delimiter),
                CopyOption::Null(null) => given.null = Some(null.clone()),
                CopyOption::Header(header) => given.has_header = *header,
                CopyOption::Quote(quote) => given.quote = Some(*quote),
                CopyOption::Escape(escape) => given.escape = Some(*escape),
                CopyOption::Encoding(encoding) if is_utf8(encoding) => {}
                other => return Err(not_supported(&other.to_string())),
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => given.format("binary")?,
                CopyLegacyOption::Delimiter(delimiter) => given.delimiter = Some(*delimiter),
                CopyLegacyOption::Null(null) => given.null = Some(null.clone()),
                CopyLegacyOption::Header => given.has_header = true,
                CopyLegacyOption::Csv(options) => {
                    given.is_csv = true;
                    for option in options {
                        match option {
                            CopyLegacyCsvOption::Header => given.has_header = true,
                            CopyLegacyCsvOption::Quote(quote) => given.quote = Some(*quote),
                            CopyLegacyCsvOption::Escape(escape) => given.escape = Some(*escape),
                            other => return Err(not_supported(&other.to_string())),
                        }
                    }
                }
                other => return Err(not_supported(&other.to_string())),
            }
        }
        given.form()
    }
}

/// The options of a COPY as they were written.
#[derive(Default)]
struct CopyOptionValues {
    is_csv: bool,
    delimiter: Option<char>,
    null: Option<String>,
    has_header: bool,
    quote: Option<char>,
    escape: Option<char>,
}

impl CopyOptionValues {
    fn format(&mut self, format: &str) -> Result<(), SqlError> {
        self.is_csv = match format.to_ascii_lowercase().as_str() {
            "text" => false,
            "csv" => true,
            _ => return Err(not_supported(&format!("FORMAT {format}")).with_hint("FORMAT is text or csv.")),
        };
        Ok(())
    }

    fn form(self) -> Result<CopyForm, SqlError> {
        let is_csv = self.is_csv;
        let one = |name: &str, given: Option<char>, default: u8| match given {
            None => Ok(default),
            Some(given) => u8::try_from(given)
                .ok()
                .filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'\0'))
                .ok_or_else(|| SqlError::invalid(format!("{name} is one character of ASCII, no line break"))),
        };
        if !is_csv && (self.quote.is_some() || self.escape.is_some()) {
            return Err(SqlError::invalid("QUOTE and ESCAPE are for CSV").with_hint("Write (FORMAT csv, …)."));
        }
        let delimiter = one("DELIMITER", self.delimiter, if is_csv { b',' } else { b'\t' })?;
        let quote = one("QUOTE", self.quote, b'"')?;
        let escape = one("ESCAPE", self.escape, quote)?;
        let null = self.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() });
        // As PostgreSQL has it: these would be taken for something else where they stand.
        let is_odd = match is_csv {
            true => delimiter == quote,
            false => delimiter == b'\\' || delimiter == b'.' || delimiter.is_ascii_alphanumeric(),
        };
        if is_odd {
            return Err(SqlError::invalid(format!("DELIMITER cannot be `{}`", char::from(delimiter))));
        }
        if null.contains(['\n', '\r', char::from(delimiter)]) || (is_csv && null.contains(char::from(quote)))
        {
            return Err(SqlError::invalid("NULL cannot contain line breaks, the delimiter or the quote"));
        }
        Ok(CopyForm { is_csv, delimiter, null, has_header: self.has_header, quote, escape })
    }
}

fn is_utf8(encoding: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

fn not_supported(option: &str) -> SqlError {
    SqlError::invalid(format!("not supported: {option} of COPY"))
        .with_state(state::NOT_SUPPORTED)
        .with_hint("Options are FORMAT, DELIMITER, NULL, HEADER, QUOTE and ESCAPE; the text is UTF-8.")
}

/// The text in the first brackets, at its place; everything else becomes spaces.
fn within_brackets(text: &str) -> Result<String, SqlError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().unwrap_or_default();
    let (mut depth, mut from, mut to) = (0_usize, None, None);
    for token in &tokens {
        match token.token {
            Token::LParen => {
                from = from.or(Some(token.span.end));
                depth += 1;
            }
            Token::RParen => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    to = Some(token.span.start);
                    break;
                }
            }
            _ => {}
        }
    }
    let (Some(from), Some(to)) = (from, to) else {
        return Err(SqlError::invalid("expected a query in brackets"));
    };
    let mut here = Location { line: 1, column: 1 };
    let mut query = String::with_capacity(text.len());
    for character in text.chars() {
        query.push(if character == '\n' || (from <= here && here < to) { character } else { ' ' });
        here = match character {
            '\n' => Location { line: here.line + 1, column: 1 },
            _ => Location { line: here.line, column: here.column + 1 },
        };
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WireCopy, SqlError> {
        WireCopy::parse(text, &SqlOptions::default())
    }

    fn form(text: &str) -> CopyForm {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).form
    }

    #[test]
    fn old_and_new_options_are_read() {
        let text = CopyForm {
            is_csv: false,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            has_header: false,
            quote: b'"',
            escape: b'"',
        };
        let csv = CopyForm { is_csv: true, delimiter: b',', null: String::new(), ..text.clone() };
        assert_eq!(form("COPY t TO STDOUT"), text);
        assert_eq!(form("copy public.t (a, \"B\") from stdin with (format text)"), text);
        assert_eq!(form("COPY t FROM STDIN CSV"), csv);
        assert_eq!(form("COPY t FROM STDIN (FORMAT csv, ENCODING 'UTF8')"), csv);
        let odd = CopyForm {
            delimiter: b';',
            null: "-".to_owned(),
            has_header: true,
            quote: b'\'',
            escape: b'\\',
            ..csv
        };
        assert_eq!(
            form("COPY t TO STDOUT (FORMAT csv, DELIMITER ';', NULL '-', HEADER, QUOTE '''', ESCAPE '\\')"),
            odd
        );
        assert_eq!(
            form("COPY t TO STDOUT WITH DELIMITER ';' NULL '-' CSV HEADER QUOTE '''' ESCAPE '\\'"),
            odd
        );
    }

    #[test]
    fn query_keeps_its_place() {
        let text = "COPY (SELECT 'ä)' AS a,\n (1) FROM t) TO STDOUT CSV";
        let copy = parse(text).unwrap();
        assert!(!copy.is_from_client());
        let query = format!("{}SELECT 'ä)' AS a,\n (1) FROM t{}", " ".repeat(6), " ".repeat(15));
        assert_eq!(copy.source, Source::Query(query));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, expected) in [
            ("COPY t FROM STDOUT", "rows are copied FROM STDIN"),
            ("COPY t TO STDIN", "rows are copied TO STDOUT"),
            ("COPY t TO STDOUT (FORMAT binary)", "not supported: FORMAT binary of COPY"),
            ("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (a))", "not supported: FORCE_QUOTE (a) of COPY"),
            ("COPY t TO STDOUT (ENCODING 'LATIN1')", "not supported: ENCODING 'LATIN1' of COPY"),
            ("COPY t TO STDOUT (QUOTE 'x')", "QUOTE and ESCAPE are for CSV"),
            ("COPY t TO STDOUT (DELIMITER 'x')", "DELIMITER cannot be `x`"),
            (
                "COPY t TO STDOUT (FORMAT csv, DELIMITER '\n')",
                "DELIMITER is one character of ASCII, no line break",
            ),
            (
                "COPY t TO STDOUT (FORMAT csv, NULL 'a,b')",
                "NULL cannot contain line breaks, the delimiter or the quote",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(parse("COPY t TO STDOUT (FORMAT csv, DELIMITER 'ä')").is_err());
        assert!(parse("COPY (SELECT 1) FROM STDIN").is_err());
        assert!(parse("COPY t FROM STDIN WHERE a = 1").is_err());
    }
}
