//! Parses the text of a run of statements: tokenizes it, splits it at `;`, and builds a syntax tree of each statement.
//!
//! Tokens keep their positions in the whole text, so an error in the fifth statement names the line of the file. This
//! module removes `t FOR VERSION AS OF 3` and marks the table's name instead; [`names`](crate::names) reads the mark. The
//! parser supports other spellings of it in some dialects, and none in most.

use std::ops::Range;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect as ParserDialect, GenericDialect, SparkSqlDialect};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::bounded_dialect::BoundedDialect;
use crate::distinct_from::regroup;
use crate::search::expand_tables;
use crate::{At, Dialect, Place, SqlError, SqlOptions};

/// Maximum nesting of expressions and queries. The parser counts two or three for a subquery.
pub(crate) const NESTING_MAX: usize = 64;
/// Maximum number of operators in a chain, each of which makes the tree deeper by one: `a + b + c`, `x OR y OR
/// z`. The threads' stacks are large enough for more; but optimising a chain takes time by the square of its
/// length.
const CHAIN_MAX: usize = 1000;
/// The separator between a table's name and its requested version. No name of a table holds it.
const MARK: char = '\u{0}';
/// Number of words that determine the kind of a statement.
const LEADING_WORDS: usize = 6;

/// One statement of a text, not yet parsed.
#[derive(Debug, Clone)]
pub(crate) struct StatementText {
    tokens: Vec<TokenWithSpan>,
    /// The text as written, without the `;`.
    pub(crate) text: String,
    /// Its bytes in the whole text.
    pub(crate) bytes: Range<usize>,
    /// Its first words in upper case.
    pub(crate) words: Vec<String>,
    pub(crate) place: Place,
}

/// Takes a text apart into statements. Empty ones, between two `;`, are none.
pub(crate) fn split(
    text: &str,
    dialect: Dialect,
    options: &SqlOptions,
) -> Result<Vec<StatementText>, SqlError> {
    if text.len() > options.text_bytes_max {
        return Err(SqlError::new(
            crate::ErrorKind::Limit,
            format!("the text has {} bytes, limit is {}", text.len(), options.text_bytes_max),
        )
        .with_hint("Send its statements one after another, or raise server.sql_text_bytes_max."));
    }
    let tokens = tokens_of(text, dialect)?;
    let lines = LineStarts::new(text);
    let mut statements = Vec::new();
    for tokens in tokens.split(|token| token.token == Token::SemiColon) {
        let (Some(first), Some(last)) = (
            tokens.iter().find(|token| !is_space(&token.token)),
            tokens.iter().rfind(|token| !is_space(&token.token)),
        ) else {
            continue;
        };
        if statements.len() == options.statements_per_text_max {
            return Err(SqlError::new(
                crate::ErrorKind::Limit,
                format!("the text has more than {} statements", options.statements_per_text_max),
            )
            .at(Some(place(first.span.start))));
        }
        let words =
            tokens.iter().filter(|token| !is_space(&token.token)).map_while(|token| match &token.token {
                Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
                _ => None,
            });
        let bytes = lines.byte(text, first.span.start)..lines.byte(text, last.span.end);
        statements.push(StatementText {
            words: words.take(LEADING_WORDS).collect(),
            text: text[bytes.clone()].to_owned(),
            bytes,
            place: place(first.span.start),
            tokens: tokens.to_vec(),
        });
    }
    Ok(statements)
}

impl StatementText {
    /// Its syntax tree.
    pub(crate) fn parse(&self, dialect: Dialect) -> Result<Statement, SqlError> {
        check_depth(&self.tokens)?;
        check_chains(&self.tokens)?;
        let tokens = mark_versions(&self.tokens)?;
        let end =
            self.tokens.iter().rfind(|token| !is_space(&token.token)).map(|token| place(token.span.end));
        let at_end = |error: datafusion::error::DataFusionError| {
            // The parser has no place for the end of the text.
            SqlError::from(error).at(end)
        };
        let bounded = BoundedDialect::new(parser_dialect(dialect), tokens.len());
        let mut parser = DFParserBuilder::new(tokens)
            .with_dialect(&bounded)
            .with_recursion_limit(NESTING_MAX)
            .build()
            .map_err(at_end)?;
        let mut statement = parser.parse_statement().map_err(at_end)?;
        let next = parser.parser.peek_token();
        if next.token != Token::EOF {
            return Err(SqlError::invalid(format!(
                "expected the end of the statement, found `{}`",
                next.token
            ))
            .at(Some(place(next.span.start)))
            .with_hint("Separate statements by `;`."));
        }
        regroup(&mut statement);
        expand_tables(&mut statement)?;
        Ok(statement)
    }
}

/// Returns true if a text ends a statement: a terminal checks it before it sends the typed lines.
///
/// A text that stands within quotes or a comment is not complete, whatever its last character.
pub fn is_complete(text: &str, dialect: Dialect) -> bool {
    match Tokenizer::new(parser_dialect(dialect), text).tokenize() {
        Ok(tokens) => {
            tokens.iter().rfind(|token| !is_space(token)).is_none_or(|token| *token == Token::SemiColon)
        }
        Err(error) => !error.message.contains("nterminated") && !error.message.contains("EOF"),
    }
}

/// Parses a text that is one expression, with nothing behind it.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, SqlError> {
    let tokens = tokens_of(text, Dialect::Native)?;
    check_depth(&tokens)?;
    check_chains(&tokens)?;
    let failed = |error: datafusion::error::DataFusionError| SqlError::from(error);
    let bounded = BoundedDialect::new(parser_dialect(Dialect::Native), tokens.len());
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&bounded)
        .with_recursion_limit(NESTING_MAX)
        .build()
        .map_err(failed)?;
    let broken = |error: ParserError| failed(datafusion::error::DataFusionError::SQL(Box::new(error), None));
    let expression = parser.parser.parse_expr().map_err(broken)?;
    let next = parser.parser.peek_token();
    if next.token != Token::EOF {
        let message = format!("expected the end of the expression, found `{}`", next.token);
        return Err(SqlError::invalid(message).at(Some(place(next.span.start))));
    }
    Ok(expression)
}

fn parser_dialect(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Native => &GenericDialect {},
        Dialect::Spark => &SparkSqlDialect {},
    }
}

fn tokens_of(text: &str, dialect: Dialect) -> Result<Vec<TokenWithSpan>, SqlError> {
    Tokenizer::new(parser_dialect(dialect), text).tokenize_with_location().map_err(|error| {
        let at = place(error.location);
        SqlError::from(datafusion::error::DataFusionError::SQL(
            Box::new(ParserError::TokenizerError(error.message.clone())),
            None,
        ))
        .at((at.line > 0).then_some(at))
    })
}

pub(crate) fn place(location: Location) -> Place {
    Place { line: location.line, column: location.column }
}

/// The place of a name, if the parser kept it.
pub(crate) fn place_of_span(span: datafusion::sql::sqlparser::tokenizer::Span) -> Option<Place> {
    (span.start.line > 0).then(|| place(span.start))
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// A name of a table and the state of it that is asked for, as [`mark_versions`] put them together.
pub(crate) fn unmark(name: &str) -> (&str, Option<At>) {
    let Some((name, mark)) = name.split_once(MARK) else {
        return (name, None);
    };
    let at = match mark.split_at_checked(1) {
        Some(("v", number)) => number.parse().ok().map(At::Version),
        Some(("t", number)) => number.parse().ok().map(At::Timestamp),
        _ => None,
    };
    (name, at)
}

/// The name under which a table's earlier state is registered for one statement.
pub(crate) fn mark(name: &str, at: Option<At>) -> String {
    match at {
        None => name.to_owned(),
        Some(At::Version(version)) => format!("{name}{MARK}v{version}"),
        Some(At::Timestamp(millis)) => format!("{name}{MARK}t{millis}"),
    }
}

/// Refuses brackets that are nested deeper than the parser goes, before it begins, with the place of the first that is too deep.
fn check_depth(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut depth = 0_usize;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return Err(too_deep(depth).at(Some(place(token.span.start))));
        }
    }
    Ok(())
}

/// The error of a statement that is nested `depth` deep.
fn too_deep(depth: usize) -> SqlError {
    let what = format!("the statement is nested {depth} deep; the limit is {NESTING_MAX}");
    SqlError::new(crate::ErrorKind::Limit, what)
        .with_hint("Name inner queries by WITH, and write long conditions side by side.")
}

/// Refuses what would be a tree too deep to walk: the parser bounds the depth of brackets, not that of chains.
fn check_chains(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut chains = vec![0_usize];
    let mut depth = 0;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => chains.push(0),
            Token::RParen | Token::RBracket if chains.len() > 1 => depth -= chains.pop().unwrap_or(0),
            Token::Comma => {
                if let Some(chain) = chains.last_mut() {
                    depth -= *chain;
                    *chain = 0;
                }
            }
            Token::Word(word) if word.quote_style.is_none() && !is_link(&word.value) => {}
            Token::Whitespace(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Number(_, _)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF => {}
            Token::Word(word) if word.quote_style.is_some() => {}
            _ => {
                if let Some(chain) = chains.last_mut() {
                    *chain += 1;
                    depth += 1;
                }
                if depth > CHAIN_MAX {
                    return Err(SqlError::new(
                        crate::ErrorKind::Limit,
                        format!("the statement has more than {CHAIN_MAX} operators in a row"),
                    )
                    .at(Some(place(token.span.start)))
                    .with_hint("Use a list: x IN (1, 2, 3)."));
                }
            }
        }
    }
    Ok(())
}

/// Words that join what stands before them with what follows.
fn is_link(word: &str) -> bool {
    const LINKS: [&str; 14] = [
        "AND",
        "OR",
        "NOT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "JOIN",
        "IS",
        "LIKE",
        "ILIKE",
        "IN",
        "BETWEEN",
        "DIV",
        "XOR",
    ];
    LINKS.iter().any(|link| word.eq_ignore_ascii_case(link))
}

/// Takes `[FOR] VERSION|TIMESTAMP AS OF literal` out, and marks the name before it.
fn mark_versions(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, SqlError> {
    let words: Vec<usize> = (0..tokens.len()).filter(|&index| !is_space(&tokens[index].token)).collect();
    let mut marked: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut index = 0;
    while index < words.len() {
        let token = &tokens[words[index]];
        let travel = match &token.token {
            Token::Word(_) if index > 0 => time_travel(tokens, &words[index..])?,
            _ => None,
        };
        match (travel, marked.iter_mut().rfind(|token| !is_space(&token.token))) {
            (Some((at, taken)), Some(TokenWithSpan { token: Token::Word(name), .. })) => {
                name.value = mark(&name.value, Some(at));
                index += taken;
            }
            _ => {
                let next = words.get(index + 1).copied().unwrap_or(tokens.len());
                marked.extend(tokens[words[index]..next].iter().cloned());
                index += 1;
            }
        }
    }
    Ok(marked)
}

/// Reads `[FOR] VERSION AS OF 3` or `[FOR] TIMESTAMP AS OF '…'`; gives how many tokens it was.
fn time_travel(tokens: &[TokenWithSpan], words: &[usize]) -> Result<Option<(At, usize)>, SqlError> {
    let word = |position: usize| match words.get(position).map(|&index| &tokens[index].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let start = usize::from(word(0) == "FOR");
    let by_version = match word(start).as_str() {
        "VERSION" | "SYSTEM_VERSION" => true,
        "TIMESTAMP" | "SYSTEM_TIME" => false,
        _ => return Ok(None),
    };
    if word(start + 1) != "AS" || word(start + 2) != "OF" {
        return Ok(None);
    }
    let mut last = start + 3;
    if !by_version && word(last) == "TIMESTAMP" {
        last += 1;
    }
    let literal = words.get(last).map(|&index| &tokens[index]);
    let at = match literal.map(|literal| &literal.token) {
        Some(Token::Number(number, _)) if by_version => number.parse().ok().map(At::Version),
        Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
            if by_version {
                text.parse().ok().map(At::Version)
            } else {
                string_to_timestamp_nanos(text).ok().map(|nanos| At::Timestamp(nanos.div_euclid(1_000_000)))
            }
        }
        _ => None,
    };
    match at {
        Some(at) => Ok(Some((at, last + 1))),
        None if by_version => Err(SqlError::invalid("a version is a whole number")
            .at(literal.map(|token| place(token.span.start)))
            .with_hint("Write FOR VERSION AS OF 3.")),
        None => Err(SqlError::invalid("a time is a text")
            .at(literal.map(|token| place(token.span.start)))
            .with_hint("Write FOR TIMESTAMP AS OF '2026-01-01T00:00:00Z'.")),
    }
}

/// Byte positions at which lines begin, to convert line and column into an index of bytes.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> LineStarts {
        LineStarts(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn byte(&self, text: &str, location: Location) -> usize {
        let line = usize::try_from(location.line).unwrap_or(1).saturating_sub(1);
        let start = self.0.get(line).copied().unwrap_or(text.len());
        let column = usize::try_from(location.column).unwrap_or(1).saturating_sub(1);
        text[start..].char_indices().nth(column).map_or(text.len(), |(offset, _)| start + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text, Dialect::Native, &SqlOptions::default())
            .unwrap()
            .into_iter()
            .map(|statement| statement.text)
            .collect()
    }

    #[test]
    fn statements_are_set_apart_at_semicolons_outside_of_quotes_and_comments() {
        assert_eq!(
            texts("SELECT ';' ; -- a ; comment\n SELECT \"a;b\" /* ; */;;\n\nSELECT 3"),
            ["SELECT ';'", "SELECT \"a;b\"", "SELECT 3"],
        );
        assert!(texts(" ;; -- nothing\n").is_empty());
        assert_eq!(texts("SELECT 'äöü', 'b'; SELECT 'ß'"), ["SELECT 'äöü', 'b'", "SELECT 'ß'"]);
    }

    #[test]
    fn places_are_those_of_the_whole_text() {
        let statements =
            split("SELECT 1;\n  SELECT a FROM 5", Dialect::Native, &SqlOptions::default()).unwrap();
        assert_eq!(statements[1].place, Place { line: 2, column: 3 });
        let error = statements[1].parse(Dialect::Native).unwrap_err();
        assert_eq!(error.place().map(|place| place.line), Some(2), "{error}");
        let open = split("SELECT 1;\n SELECT 'abc", Dialect::Native, &SqlOptions::default()).unwrap_err();
        assert_eq!(open.place(), Some(Place { line: 2, column: 9 }), "{open}");
    }

    #[test]
    fn time_travel_is_a_mark_on_the_name() {
        for (text, at) in [
            ("SELECT * FROM t FOR VERSION AS OF 3", At::Version(3)),
            ("SELECT * FROM t VERSION AS OF 3 AS x", At::Version(3)),
            ("SELECT * FROM t FOR TIMESTAMP AS OF '1970-01-01T00:00:01Z'", At::Timestamp(1000)),
            ("SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '1970-01-01 00:00:01'", At::Timestamp(1000)),
        ] {
            let statement = &split(text, Dialect::Native, &SqlOptions::default()).unwrap()[0];
            let tokens = mark_versions(&statement.tokens).unwrap();
            let names: Vec<_> = tokens
                .iter()
                .filter_map(|token| match &token.token {
                    Token::Word(word) => Some(unmark(&word.value)),
                    _ => None,
                })
                .collect();
            assert!(names.contains(&("t", Some(at))), "{text}: {names:?}");
            statement.parse(Dialect::Native).unwrap();
        }
        let wrong = &split("SELECT * FROM t FOR VERSION AS OF x", Dialect::Native, &SqlOptions::default())
            .unwrap()[0];
        assert_eq!(wrong.parse(Dialect::Native).unwrap_err().place(), Some(Place { line: 1, column: 35 }));
    }

    #[test]
    fn a_terminal_knows_when_a_statement_is_complete() {
        assert!(is_complete("SELECT 1;", Dialect::Native));
        assert!(is_complete("SELECT 1; -- done", Dialect::Native));
        assert!(is_complete("  ", Dialect::Native));
        assert!(!is_complete("SELECT 1", Dialect::Native));
        assert!(!is_complete("SELECT ';", Dialect::Native));
        assert!(!is_complete("SELECT 1 /* ;", Dialect::Native));
    }
}
