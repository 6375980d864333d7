//! Completion: the words and names that may stand at a place of a text of statements.
//!
//! Behind a name or a value the parser itself is asked, as in the language of live queries: each word of [`WORDS`] is read behind
//! the text before the cursor, and offered if the parser takes it and would not take any name in its place. Which name may stand there is read
//! from the tokens: the clause, and what stands before the cursor. Cost: one reading of the statement for each word; a
//! statement of more than [`TEXT_BYTES_MAX`] has no words.

use datafusion::logical_expr::Documentation;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::text::{parser_dialect, split};
use crate::{Dialect, Place, SqlOptions};

/// The most bytes of a statement before the cursor for which words are found.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// A word that is none of the language.
const UNKNOWN: &str = "zq_unknown_zq";

/// Words that may follow a name or a value, in the order in which they are offered.
const WORDS: [&str; 58] = [
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "INNER JOIN",
    "CROSS JOIN",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "IN",
    "NOT IN",
    "BETWEEN",
    "NOT BETWEEN",
    "LIKE",
    "NOT LIKE",
    "ILIKE",
    "NOT ILIKE",
    "SIMILAR TO",
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "IS FALSE",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "ASC",
    "DESC",
    "NULLS FIRST",
    "NULLS LAST",
    "UNION",
    "UNION ALL",
    "EXCEPT",
    "INTERSECT",
    "OVER",
    "PARTITION BY",
    "ROWS BETWEEN",
    "RANGE BETWEEN",
    "FILTER",
    "WITHIN GROUP",
    "QUALIFY",
    "VALUES",
    "SELECT",
    "TO",
    "SET",
    "WITH",
    "RETURNING",
];

/// Words with which a statement that is run here begins. The parser knows more.
const FIRST_WORDS: [&str; 14] = [
    "SELECT",
    "SELECT DISTINCT",
    "WITH",
    "VALUES",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "SHOW TABLES",
    "SHOW COLUMNS FROM",
    "SHOW FUNCTIONS",
    "DESCRIBE",
    "CREATE TABLE",
    "INSERT INTO",
    "DROP TABLE",
    "COPY",
];

/// Words with which a value begins.
const VALUE_WORDS: [&str; 9] =
    ["CASE", "CAST", "TRY_CAST", "EXTRACT", "EXISTS", "NOT", "NULL", "TRUE", "FALSE"];

/// The place of a text at which something may be completed. Places in the text are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SqlCompletion {
    /// The beginning of what is replaced; it ends at the cursor.
    pub from: usize,
    /// What stands between `from` and the cursor, without its quote.
    pub typed: String,
    /// The words that may stand here.
    pub words: Vec<&'static str>,
    /// The name or value that may stand here.
    pub expected: SqlExpected,
    /// The tables that the statement names, and the names that it gives to them.
    pub tables: Vec<(String, Option<String>)>,
}

/// The name or value that may stand at a place of statements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SqlExpected {
    /// None that is known: a new name, a number, or a word alone.
    #[default]
    Nothing,
    /// A table, stream or view.
    Table,
    /// A column or a function, perhaps to be compared with this column.
    Value {
        /// The column's name.
        compared: Option<String>,
    },
    /// Text within quotes, from the quote on, that is compared with this column.
    Text {
        /// The column's name.
        compared: Option<String>,
    },
    /// A column of the table of this name.
    Column(String),
}

/// A function of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlFunction {
    /// Its name.
    pub name: String,
    /// The rows that it needs.
    pub kind: SqlFunctionKind,
    /// A call as an example.
    pub signature: String,
    /// Its help; empty if there is none.
    pub doc: String,
}

/// The rows that a function needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlFunctionKind {
    /// One row.
    Scalar,
    /// The rows of a group.
    Aggregate,
    /// The rows of a window.
    Window,
}

impl SqlFunction {
    pub(crate) fn new(name: &str, kind: SqlFunctionKind, help: Option<&Documentation>) -> SqlFunction {
        let signature =
            help.map(|help| help.syntax_example.trim().to_owned()).filter(|text| !text.is_empty());
        SqlFunction {
            name: name.to_owned(),
            kind,
            signature: signature.unwrap_or_else(|| format!("{name}(…)")),
            doc: help.map(|help| help.description.trim().to_owned()).unwrap_or_default(),
        }
    }
}

/// The words and names that may stand at the cursor, a byte of the text.
pub fn complete_sql(text: &str, cursor: usize, dialect: Dialect) -> SqlCompletion {
    let cursor = text.floor_char_boundary(cursor);
    let mut found = SqlCompletion { from: cursor, ..SqlCompletion::default() };
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let before = &text[..cursor];
    let run: usize = before.chars().rev().take_while(|c| is_part(*c)).map(char::len_utf8).sum();
    let (mut from, mut is_text) = (cursor - run, false);
    let mut tokens = tokens_of(&before[..from], dialect);
    if tokens.is_none() {
        // A quote is open: the text before it has none.
        let Some((quote, at)) = open_quote(before, dialect) else { return found };
        (from, is_text) = (at, quote == '\'');
        found.typed = before[at + 1..].to_owned();
        tokens = tokens_of(&before[..from], dialect);
    } else {
        found.typed = before[from..].to_owned();
        if found.typed.starts_with(|c: char| c.is_ascii_digit()) || ends_in_comment(before, dialect) {
            return found;
        }
    }
    let Some(tokens) = tokens else { return found };
    found.from = from;
    // The statement in which the cursor stands.
    let begin = tokens.iter().rposition(|token| *token == Token::SemiColon).map_or(0, |last| last + 1);
    let tokens = &tokens[begin..];
    found.expected = expected(tokens);
    let whole = tokens_of(text, dialect).unwrap_or_else(|| tokens.to_vec());
    found.tables = tables(&whole);
    if is_text {
        found.expected = match found.expected {
            SqlExpected::Value { compared } => SqlExpected::Text { compared },
            _ => SqlExpected::Nothing,
        };
        return found;
    }
    if !before[from..].starts_with('"') {
        found.words = match (&found.expected, tokens.last()) {
            (_, None) => FIRST_WORDS.to_vec(),
            (SqlExpected::Value { .. }, last) => {
                let is_select = matches!(last, Some(Token::Word(word)) if word.keyword == Keyword::SELECT);
                let distinct = is_select.then_some("DISTINCT");
                distinct.into_iter().chain(VALUE_WORDS).collect()
            }
            (SqlExpected::Nothing, _) if from <= TEXT_BYTES_MAX => words(&before[..from], dialect),
            _ => Vec::new(),
        };
    }
    found
}

/// The words that the parser takes behind a text.
fn words(head: &str, dialect: Dialect) -> Vec<&'static str> {
    let unknown = read(head, UNKNOWN, dialect);
    // A word that is read as any name would be is none; what follows the first word of several is no name in any case.
    let is_name = |word: &str| unknown != Reading::Refused && read(head, word, dialect) == unknown;
    let takes = |word: &&&'static str| {
        let first = word.split(' ').next().unwrap_or_default();
        read(head, word, dialect) != Reading::Refused && !is_name(first)
    };
    WORDS.iter().filter(takes).copied().collect()
}

/// What the parser makes of a text.
#[derive(Debug, PartialEq)]
enum Reading {
    /// It is a statement.
    Whole,
    /// Something must follow.
    Open(String),
    /// The word at its end, or something before it, cannot be there.
    Refused,
}

fn read(head: &str, word: &str, dialect: Dialect) -> Reading {
    let text = format!("{head}{word}");
    let options = SqlOptions { statements_per_text_max: usize::MAX, ..SqlOptions::default() };
    let Ok(statements) = split(&text, dialect, &options) else { return Reading::Refused };
    let Some(last) = statements.last() else { return Reading::Refused };
    match last.parse(dialect) {
        Ok(_) => Reading::Whole,
        Err(error) => match error.place() {
            Some(place) if place < end_of(&text) => Reading::Refused,
            _ => Reading::Open(error.to_string().replace(word, "")),
        },
    }
}

/// The place behind the last character of a text.
fn end_of(text: &str) -> Place {
    let line = text.matches('\n').count() as u64 + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
    Place { line, column }
}

/// The tokens of a text without space and comments; none if a quote or a comment is open.
fn tokens_of(text: &str, dialect: Dialect) -> Option<Vec<Token>> {
    let tokens = Tokenizer::new(parser_dialect(dialect), text).tokenize().ok()?;
    Some(tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect())
}

/// True if a comment of one line goes on at the end of a text.
fn ends_in_comment(text: &str, dialect: Dialect) -> bool {
    let marked = format!("{text}{UNKNOWN}");
    let tokens = tokens_of(&marked, dialect).unwrap_or_default();
    !matches!(tokens.last(), Some(Token::Word(word)) if word.value.ends_with(UNKNOWN))
}

/// The quote that is open at the end of a text, and its place.
fn open_quote(text: &str, dialect: Dialect) -> Option<(char, usize)> {
    let quotes = text.char_indices().rev().filter(|(_, c)| matches!(c, '\'' | '"'));
    // The last one before which no quote is open.
    let mut found = None;
    for (at, quote) in quotes.take(64) {
        if tokens_of(&text[..at], dialect).is_some() {
            found = Some((quote, at));
            break;
        }
    }
    found
}

/// The clauses by which the expected name is known.
#[derive(Clone, Copy, PartialEq)]
enum Clause {
    Values,
    Tables,
}

fn expected(tokens: &[Token]) -> SqlExpected {
    let mut clauses = vec![Clause::Values];
    for token in tokens {
        match token {
            Token::LParen => clauses.push(Clause::Values),
            Token::RParen if clauses.len() > 1 => drop(clauses.pop()),
            Token::Word(word) if word.quote_style.is_none() => {
                let clause = match word.keyword {
                    Keyword::FROM | Keyword::JOIN | Keyword::INTO | Keyword::TABLE | Keyword::DESCRIBE => {
                        Some(Clause::Tables)
                    }
                    Keyword::SELECT
                    | Keyword::ON
                    | Keyword::WHERE
                    | Keyword::BY
                    | Keyword::HAVING
                    | Keyword::LIMIT
                    | Keyword::SET
                    | Keyword::VALUES
                    | Keyword::USING => Some(Clause::Values),
                    _ => None,
                };
                if let (Some(clause), Some(last)) = (clause, clauses.last_mut()) {
                    *last = clause;
                }
            }
            _ => {}
        }
    }
    let in_tables = clauses.last() == Some(&Clause::Tables);
    match tokens.last() {
        None => SqlExpected::Nothing,
        Some(Token::Period) => match tokens.iter().rev().nth(1) {
            Some(Token::Word(word)) => SqlExpected::Column(word.value.clone()),
            _ => SqlExpected::Nothing,
        },
        Some(Token::Word(word)) if word.quote_style.is_none() && is_clause_word(word.keyword) => {
            match in_tables {
                true => SqlExpected::Table,
                false => SqlExpected::Value { compared: compared(tokens) },
            }
        }
        Some(Token::Comma) if in_tables => SqlExpected::Table,
        Some(
            Token::Word(_)
            | Token::RParen
            | Token::RBracket
            | Token::Number(..)
            | Token::SingleQuotedString(_),
        ) => SqlExpected::Nothing,
        Some(_) => SqlExpected::Value { compared: compared(tokens) },
    }
}

/// True if a name or a value follows a word.
fn is_clause_word(keyword: Keyword) -> bool {
    !matches!(
        keyword,
        Keyword::NoKeyword
            | Keyword::AS
            | Keyword::END
            | Keyword::NULL
            | Keyword::TRUE
            | Keyword::FALSE
            | Keyword::ASC
            | Keyword::DESC
            | Keyword::LIMIT
            | Keyword::OFFSET
    )
}

/// The column with which a value at the end is compared.
fn compared(tokens: &[Token]) -> Option<String> {
    let name = |token: Option<&Token>| match token {
        Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword || word.quote_style.is_some() => {
            Some(word.value.clone())
        }
        _ => None,
    };
    let mut back = tokens.iter().rev();
    match back.next()? {
        Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => name(back.next()),
        Token::Word(word) if matches!(word.keyword, Keyword::LIKE | Keyword::ILIKE) => match back.next() {
            Some(Token::Word(not)) if not.keyword == Keyword::NOT => name(back.next()),
            other => name(other),
        },
        // `x IN ('a', `
        Token::LParen | Token::Comma => {
            let open = tokens.iter().rposition(|token| *token == Token::LParen)?;
            let is_list = tokens[open + 1..].iter().all(|token| {
                matches!(token, Token::Comma | Token::SingleQuotedString(_) | Token::Number(..))
            });
            match (tokens.get(open.checked_sub(1)?), is_list) {
                (Some(Token::Word(word)), true) if word.keyword == Keyword::IN => {
                    let column = open.checked_sub(2)?;
                    match tokens.get(column) {
                        Some(Token::Word(not)) if not.keyword == Keyword::NOT => {
                            name(tokens.get(column.checked_sub(1)?))
                        }
                        other => name(other),
                    }
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The tables behind FROM, JOIN and INTO, and the names that they get.
fn tables(tokens: &[Token]) -> Vec<(String, Option<String>)> {
    let word = |at: usize| match tokens.get(at) {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    };
    let name = |at: usize| {
        word(at)
            .filter(|word| word.keyword == Keyword::NoKeyword || word.quote_style.is_some())
            .map(|word| word.value.clone())
    };
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let begins = word(at).is_some_and(|word| {
            word.quote_style.is_none()
                && matches!(word.keyword, Keyword::FROM | Keyword::JOIN | Keyword::INTO | Keyword::DESCRIBE)
        });
        let mut at = at + 1;
        while begins && let Some(table) = name(at) {
            let has_as = word(at + 1).is_some_and(|word| word.keyword == Keyword::AS);
            let alias = name(at + 1 + usize::from(has_as));
            at += 1 + usize::from(has_as) + usize::from(alias.is_some());
            found.push((table, alias));
            if tokens.get(at) != Some(&Token::Comma) {
                break;
            }
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(marked: &str) -> (SqlCompletion, String) {
        let cursor = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let found = complete_sql(&text, cursor, Dialect::Native);
        let replaced = text[found.from..cursor].to_owned();
        (found, replaced)
    }

    #[test]
    fn words_are_those_that_the_parser_takes() {
        for (marked, some, none) in [
            ("|", "SELECT, WITH, EXPLAIN, CREATE TABLE, INSERT INTO", "FROM, WHERE, NULL, AND"),
            ("SELECT a FROM |", "", "WHERE, SELECT, AND"),
            ("SELECT |", "DISTINCT, CASE, NOT, CAST, NULL, EXISTS", "WHERE, JOIN, GROUP BY"),
            ("SELECT a |", "FROM, AS, AND, IN, IS NULL, NOT IN", "SELECT, ON"),
            (
                "SELECT a FROM t |",
                "WHERE, JOIN, LEFT JOIN, GROUP BY, ORDER BY, LIMIT, UNION ALL",
                "FROM, THEN",
            ),
            ("SELECT a FROM t JOIN u |", "ON, USING", "FROM, THEN"),
            (
                "SELECT a FROM t WHERE a |",
                "AND, OR, BETWEEN, LIKE, IS NULL, GROUP BY, ORDER BY",
                "FROM, SELECT, ON",
            ),
            ("SELECT a FROM t ORDER BY a |", "ASC, DESC, NULLS LAST, LIMIT", "WHERE, FROM"),
            ("SELECT CASE WHEN a THEN 1 |", "ELSE, END, WHEN", "FROM"),
            ("SELECT 1; SELECT a FROM t W|", "WHERE", "FROM"),
            ("SELECT a, count(*) FROM t GROUP BY a HA|", "HAVING", "WHERE"),
        ] {
            let (found, _) = at(marked);
            for word in some.split(", ").filter(|word| !word.is_empty()) {
                assert!(found.words.contains(&word), "{marked}: no {word} in {:?}", found.words);
            }
            for word in none.split(", ") {
                assert!(!found.words.contains(&word), "{marked}: {word} in {:?}", found.words);
            }
        }
    }

    #[test]
    fn names_and_values_are_those_of_their_place() {
        let value = |compared: Option<&str>| SqlExpected::Value { compared: compared.map(str::to_owned) };
        let text = |compared: Option<&str>| SqlExpected::Text { compared: compared.map(str::to_owned) };
        for (marked, expected, replaced) in [
            ("SELECT | FROM t", value(None), ""),
            ("SELECT a, b| FROM t", value(None), "b"),
            ("SELECT a |", SqlExpected::Nothing, ""),
            ("SELECT a AS |", SqlExpected::Nothing, ""),
            ("SELECT a FROM |", SqlExpected::Table, ""),
            ("SELECT a FROM fli|", SqlExpected::Table, "fli"),
            ("SELECT a FROM t, |", SqlExpected::Table, ""),
            ("SELECT a FROM t |", SqlExpected::Nothing, ""),
            ("SELECT a FROM t JOIN |", SqlExpected::Table, ""),
            ("SELECT a FROM t JOIN u ON |", value(None), ""),
            ("SELECT t.| FROM t", SqlExpected::Column("t".to_owned()), ""),
            ("SELECT a FROM t WHERE b = |", value(Some("b")), ""),
            ("SELECT a FROM t WHERE b = 'x|", text(Some("b")), "'x"),
            ("SELECT a FROM t WHERE b NOT IN ('x', '|", text(Some("b")), "'"),
            ("SELECT a FROM t WHERE b LIKE '|", text(Some("b")), "'"),
            ("SELECT a FROM (SELECT | FROM t)", value(None), ""),
            ("SELECT a FROM t WHERE x > (SELECT max(y) FROM |", SqlExpected::Table, ""),
            ("SELECT count(|", value(None), ""),
            ("INSERT INTO |", SqlExpected::Table, ""),
            ("SELECT a -- fr|", SqlExpected::Nothing, ""),
            ("SELECT \"a b|", value(None), "\"a b"),
            ("SELECT 'ö', gr|", value(None), "gr"),
            ("SELECT 12|", SqlExpected::Nothing, ""),
        ] {
            let (found, was) = at(marked);
            assert_eq!((found.expected, was.as_str()), (expected, replaced), "{marked}");
        }
    }

    #[test]
    fn tables_and_their_names_are_found_behind_the_cursor_too() {
        let (found, _) = at("SELECT | FROM flights f, \"a b\" JOIN users AS u ON u.id = f.user");
        let named: Vec<_> =
            found.tables.iter().map(|(table, alias)| (table.as_str(), alias.as_deref())).collect();
        assert_eq!(named, [("flights", Some("f")), ("a b", None), ("users", Some("u"))]);
    }
}
