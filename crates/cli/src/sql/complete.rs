//! Completion at the SQL prompt: detects the end of a statement, and suggests words.

use rustyline::{
    Context, Helper, Result,
    completion::{Completer, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};
use swiftwater_sql::{Dialect, is_complete};

use super::prompt::spelled_out;

/// Words of statements.
const KEYWORDS: [&str; 67] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "ANALYZE",
    "FALSE",
    "FILTER",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OF",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "OVERWRITE",
    "PARTITION",
    "RIGHT",
    "SELECT",
    "SHOW",
    "STREAM",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "UNION",
    "USING",
    "VALUES",
    "VERSION",
    "WHEN",
    "WHERE",
];
/// Words that are offered at once.
const OFFERED_MAX: usize = 200;

/// Helps to write statements.
pub(crate) struct Words {
    pub(crate) dialect: Dialect,
    /// Tables and columns.
    pub(crate) names: Vec<String>,
}

impl Words {
    fn offers(&self, begun: &str) -> Vec<String> {
        if begun.is_empty() {
            return Vec::new();
        }
        let lower = begun.to_lowercase();
        let fits = |word: &str| word.to_lowercase().starts_with(&lower);
        let is_small = begun.chars().all(|c| !c.is_uppercase());
        let keywords = KEYWORDS.iter().filter(|word| fits(word));
        let keywords = keywords.map(|word| if is_small { word.to_lowercase() } else { (*word).to_owned() });
        let names = self.names.iter().filter(|name| fits(name)).cloned();
        names.chain(keywords).take(OFFERED_MAX).collect()
    }

    /// Returns true if the typed text is a command, or statements up to their end.
    fn is_whole(&self, text: &str) -> bool {
        let is_command = text.trim_start().starts_with('\\') || spelled_out(text.trim()).is_some();
        is_command || is_complete(text, self.dialect)
    }
}

/// Start of the word that ends at `at`.
fn word_start(line: &str, at: usize) -> usize {
    let before = &line[..at];
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    before.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(at, |(start, _)| start)
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let start = word_start(line, at);
        let offers = self.offers(&line[start..at]);
        let pairs = offers.into_iter().map(|word| Pair { display: word.clone(), replacement: word });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let is_whole = self.is_whole(context.input());
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_whole_statements_end_with_their_line() {
        let words = Words { dialect: Dialect::Native, names: Vec::new() };
        for whole in ["\\d", "exit", " quit ", "help;", "SELECT 1;"] {
            assert!(words.is_whole(whole), "{whole}");
        }
        for begun in ["SELECT 1", "exit x", "SELECT\nhelp"] {
            assert!(!words.is_whole(begun), "{begun}");
        }
    }

    #[test]
    fn words_are_completed_as_they_were_begun() {
        let words = Words { dialect: Dialect::Native, names: vec!["smartHomeData".into(), "state".into()] };
        assert_eq!(words.offers("s"), ["smartHomeData", "state", "select", "show", "stream"]);
        assert_eq!(words.offers("SEL"), ["SELECT"]);
        assert_eq!(words.offers("smarth"), ["smartHomeData"]);
        assert!(words.offers("").is_empty());
        assert_eq!(word_start("SELECT größe", "SELECT größe".len()), 7);
        assert_eq!(word_start("a.", 2), 2);
    }
}
