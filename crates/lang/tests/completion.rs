//! Completion: the words and names that may stand at a place of a text.
#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use swiftwater_lang::{Completion, Dialect, Expected, ParseOptions, Word, complete, parse};

/// The completion at `|`, and what would be replaced.
fn at(marked: &str, dialect: Dialect) -> (Completion, String) {
    let cursor = marked.find('|').unwrap();
    let text = marked.replacen('|', "", 1);
    let found = complete(&text, cursor, dialect);
    let replaced = text[found.from..cursor].to_owned();
    (found, replaced)
}

fn shown(word: &Word) -> String {
    match word {
        Word::Keyword { text, opens } => format!("{text}{}", if *opens { "(" } else { "" }),
        Word::Function(function) => format!("{}()", function.name),
        Word::Type(name) | Word::Unit(name) => (*name).to_owned(),
    }
}

fn words(marked: &str) -> String {
    let (found, _) = at(marked, Dialect::Native);
    let words = found.words.iter().filter(|word| !matches!(word, Word::Function(_))).map(shown);
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn words_are_those_that_the_parser_takes() {
    for (marked, expected) in [
        ("|", "SELECT, EXPLAIN"),
        (
            "SELECT a |",
            "FROM, AS, AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE",
        ),
        ("SELECT a FROM |", "STREAM("),
        (
            "SELECT a FROM STREAM(s) |",
            "WHERE, GROUP BY, HAVING, ORDER BY, AS, LATERAL VIEW EXPLODE(, LIMIT, WINDOWING, SAMPLE, LEFT JOIN, INNER JOIN, JOIN, MATCH_RECOGNIZE(",
        ),
        (
            "SELECT a FROM STREAM(s) WHERE a |",
            "GROUP BY, HAVING, ORDER BY, AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE, LIMIT, WINDOWING",
        ),
        ("SELECT a FROM STREAM(s) WHERE a IS |", "NOT, NULL"),
        ("SELECT a FROM STREAM(s) WHERE |", "NOT, NULL, TRUE, FALSE, CASE"),
        ("SELECT a FROM STREAM(s) GROUP |", "BY"),
        ("SELECT a FROM STREAM(s, |", "MAX, INTERVAL"),
        ("SELECT a FROM STREAM(s, MAX, |", "TIME"),
        ("SELECT a FROM STREAM(s) WINDOWING |", "EVERY(, TUMBLING(, SESSION("),
        ("SELECT a FROM STREAM(s) WINDOWING EVERY(1, TIME, |", "ALL, FIRST, LAST"),
        ("SELECT a FROM STREAM(s) JOIN users |", "AS, ON"),
        ("SELECT a FROM STREAM(s) JOIN users u |", "ON"),
        (
            "SELECT CAST(a |",
            "AS, AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE",
        ),
        (
            "SELECT CASE WHEN a THEN b |",
            "AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE, WHEN, ELSE, END",
        ),
        ("SELECT QUANTILE(x, |", "LINEAR, REGION, MANUAL"),
        (
            "SELECT COUNT(*) |",
            "FROM, AS, AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE, FILTER(",
        ),
        (
            "SELECT a FROM STREAM(s) ORDER BY a |",
            "AND, OR, XOR, NOT IN, NOT BETWEEN, NOT LIKE, NOT RLIKE, IN, IS NULL, IS NOT NULL, BETWEEN, RLIKE, LIKE, ASC, DESC, LIMIT, WINDOWING",
        ),
        (
            "SELECT a b c FROM STREAM(s) |",
            "WHERE, GROUP BY, HAVING, ORDER BY, AS, LATERAL VIEW EXPLODE(, LIMIT, WINDOWING, SAMPLE, LEFT JOIN, INNER JOIN, JOIN, MATCH_RECOGNIZE(",
        ),
        ("SELECT a FROM STREAM(s) WHERE a = = 3 |", "GROUP BY, HAVING, ORDER BY, LIMIT, WINDOWING"),
        (
            "SELECT a FROM STREAM(s) MATCH_RECOGNIZE (|",
            "ORDER BY, PARTITION BY, MEASURES, ONE, AFTER, PATTERN(",
        ),
        ("SELECT a FROM STREAM(s) LIMIT 5 |", "WINDOWING"),
        ("SELECT CAST(a AS |", "STRING, BOOLEAN, INTEGER, LONG, FLOAT, DOUBLE, LIST, MAP, TIMESTAMP"),
        ("SELECT a FROM STREAM(s, INTERVAL 5 |", "MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS"),
        (
            "SELECT a FROM STREAM(s) GROUP BY |",
            "NOT, NULL, TRUE, FALSE, CASE, GROUPING SETS(, ROLLUP(, CUBE(",
        ),
    ] {
        assert_eq!(words(marked), expected, "{marked}");
    }
}

#[test]
fn functions_stand_where_they_can_be_called() {
    let functions = |marked: &str, dialect| {
        let (found, _) = at(marked, dialect);
        let names = found.words.iter().filter(|word| matches!(word, Word::Function(_))).map(shown);
        names.collect::<Vec<_>>()
    };
    let all = functions("SELECT |", Dialect::Native);
    for name in ["COUNT()", "APPROX_MEDIAN()", "TOP()", "SUBSTRING()", "CAST()", "NOW()"] {
        assert!(all.contains(&name.to_owned()), "{name} in {all:?}");
    }
    let in_bullet = functions("SELECT |", Dialect::Bullet);
    assert!(in_bullet.contains(&"COUNT()".to_owned()) && !in_bullet.contains(&"APPROX_MEDIAN()".to_owned()));
    for marked in ["SELECT a FROM |", "SELECT a FROM STREAM(s, |", "SELECT a FROM STREAM(s) LIMIT |"] {
        assert_eq!(functions(marked, Dialect::Native), [""; 0], "{marked}");
    }
}

#[test]
fn names_and_values_are_those_of_their_place() {
    let value = |compared: Option<&str>| Expected::Value { compared: compared.map(str::to_owned) };
    let text = |compared: Option<&str>| Expected::Text { compared: compared.map(str::to_owned) };
    for (marked, expected, replaced) in [
        ("SELECT a FROM STREAM(|", Expected::Stream, ""),
        ("SELECT a FROM STREAM(fli|ghts)", Expected::Stream, "fli"),
        ("SELECT a FROM STREAM(\"fli|", Expected::Stream, "\"fli"),
        ("SELECT a FROM STREAM(s) AS |", Expected::Nothing, ""),
        ("SELECT a FROM STREAM(s) JOIN us|", Expected::Joined, "us"),
        ("SELECT |", value(None), ""),
        ("SELECT dep_d| FROM STREAM(s)", value(None), "dep_d"),
        ("SELECT COUNT(*) AS n|", Expected::Nothing, "n"),
        ("SELECT a FROM STREAM(s) WHERE ca|", value(None), "ca"),
        ("SELECT a FROM STREAM(s) WHERE carrier = |", value(Some("carrier")), ""),
        ("SELECT a FROM STREAM(s) WHERE carrier = '|", text(Some("carrier")), "'"),
        ("SELECT a FROM STREAM(s) WHERE carrier = 'U|'", text(Some("carrier")), "'U"),
        ("SELECT a FROM STREAM(s) WHERE x AND a.b[0].c IN ('x', '|", text(Some("a.b[0].c")), "'"),
        ("SELECT a FROM STREAM(s) WHERE NOT a.b != '|", text(Some("a.b")), "'"),
        ("SELECT a FROM STREAM(s) WHERE a = 'x' AND '|", text(None), "'"),
        ("SELECT a FROM STREAM(s) WHERE a BETWEEN |", value(Some("a")), ""),
        ("SELECT a.|", Expected::Path, "a."),
        ("SELECT x, a.b[0].c.d| FROM STREAM(s)", Expected::Path, "a.b[0].c.d"),
        ("SELECT a[0]['k'].|", Expected::Path, "a[0]['k']."),
        ("SELECT UPPER(x).|", Expected::Nothing, ""),
        ("SELECT CAST(a AS |", Expected::Type, ""),
        ("SELECT a FROM STREAM(s, INTERVAL 5 |", Expected::Unit, ""),
        ("SELECT a FROM STREAM(s) LIMIT 5|", Expected::Nothing, "5"),
        ("SELECT a -- wh|", Expected::Nothing, ""),
        ("SELECT a /* wh|", Expected::Nothing, ""),
        ("{\"filters\": [|", Expected::Nothing, ""),
        ("SELECT größ| FROM STREAM(s)", value(None), "größ"),
        ("SELECT a b c FROM STREAM(s) WHERE x = '|", text(Some("x")), "'"),
        ("SELECT $1, '€', |", value(None), ""),
    ] {
        let (found, was) = at(marked, Dialect::Native);
        assert_eq!((found.expected, was.as_str()), (expected, replaced), "{marked}");
    }
}

#[test]
fn the_whole_text_tells_streams_and_what_is_joined() {
    let (found, _) =
        at("SELECT | FROM STREAM(\"a-b\", MAX, TIME) AS s JOIN users u ON u.id = s.id", Dialect::Native);
    let named = found.sources.iter().map(|source| {
        (source.name.as_deref().unwrap_or(""), source.alias.as_deref().unwrap_or(""), source.is_joined)
    });
    assert_eq!(named.collect::<Vec<_>>(), [("a-b", "s", false), ("users", "u", true)]);
    let (found, _) = at("SELECT | FROM STREAM(MAX, TIME)", Dialect::Native);
    assert_eq!((found.sources.len(), found.sources[0].name.as_deref()), (1, None));
    let (found, _) =
        at("SELECT a AS x, f(CAST(b AS LONG)) AS \"y z\" FROM STREAM(s) HAVING |", Dialect::Native);
    assert_eq!(found.column_aliases, ["x", "y z"]);
}

/// Queries that between them have each clause.
const QUERIES: [&str; 9] = [
    "SELECT a, COUNT(*) AS n FROM STREAM(s, MAX, TIME) WHERE b > 5 AND c IS NOT NULL OR d NOT IN ('x') \
     GROUP BY a HAVING n > 3 ORDER BY n DESC WINDOWING TUMBLING(1000, TIME) LIMIT 5",
    "EXPLAIN SELECT DISTINCT a FROM STREAM(s) SAMPLE 0.1 WHERE a LIKE 'x%' XOR NOT b",
    "SELECT x FROM STREAM(s) LATERAL VIEW EXPLODE(l) AS x WHERE x BETWEEN 1 AND 5",
    "SELECT u.name FROM STREAM(s) AS e LEFT JOIN users AS u ON u.id = e.user WHERE u.name IS NULL",
    "SELECT CASE WHEN a THEN 1 ELSE 2 END AS c, CAST(b AS LONG) FROM STREAM(s)",
    "SELECT QUANTILE(x, LINEAR, 11) FROM STREAM(s) WINDOWING EVERY(1000, TIME, LAST, 5000, TIME)",
    "SELECT COUNT(*) FILTER (WHERE a > ANY [1, 2]) AS n FROM STREAM(s) GROUP BY ROLLUP (a, b)",
    "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM STREAM(s) GROUP BY a) WHERE n > 5",
    "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY a MEASURES LAST(B.x) AS x ONE ROW PER MATCH \
     AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) WITHIN INTERVAL 10 SECONDS DEFINE B AS x > 5)",
];

#[test]
fn each_word_of_a_query_is_offered_where_it_stands() {
    for query in QUERIES {
        if !query.contains("JOIN") {
            parse(query, &ParseOptions::new(Dialect::Native, 0)).unwrap();
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut at = 0;
        let mut phrase_until = 0;
        while let Some(start) = query[at..].find(is_part).map(|start| at + start) {
            at = start + query[start..].find(|c| !is_part(c)).unwrap_or(query.len() - start);
            let word = &query[start..at];
            let is_word = word.chars().all(|c| c.is_ascii_uppercase() || c == '_') && word.len() > 1;
            if !is_word || start < phrase_until {
                continue;
            }
            let offered: Vec<String> =
                complete(query, start, Dialect::Native).words.iter().map(shown).collect();
            let rest = &query[start..];
            let found = offered.iter().filter(|offer| {
                let offer = offer.trim_end_matches("()").trim_end_matches('(');
                rest.starts_with(offer) && !rest[offer.len()..].starts_with(is_part)
            });
            match found.map(String::len).max() {
                Some(longest) => phrase_until = start + longest,
                None => panic!("{word} at {start} of {query} is not among {offered:?}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(
        pieces in proptest::collection::vec(
            prop_oneof![
                "[a-zé'\"$.(){}\\[\\]*,0-9 \n-]{0,6}",
                prop::sample::select(vec!["SELECT ", "FROM STREAM(", ") WHERE ", " GROUP BY ", "a.b", " = '", "/*", "*/ ", "--"]).prop_map(str::to_owned),
            ],
            0..12,
        ),
        at in 0..80_usize,
        is_bullet in any::<bool>(),
    ) {
        let text = pieces.concat();
        let dialect = if is_bullet { Dialect::Bullet } else { Dialect::Native };
        let found = complete(&text, at, dialect);
        let cursor = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        prop_assert!(found.from <= cursor && text.is_char_boundary(found.from));
    }
}
