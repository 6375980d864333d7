//! Tests of the doubts about valid queries that can match nothing.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use swiftwater_lang::{Dialect, ParseOptions, Schema, parse, warnings};

const SEEN: [&str; 5] = ["host", "status", "user", "tags", "id"];

/// The warnings of a query over a stream: certain ones with `!` in front.
fn warning_text(text: &str, schema: Option<&Schema>, seen: &[&str], dialect: Dialect) -> Vec<String> {
    let options = ParseOptions { schema, ..ParseOptions::new(dialect, 0) };
    parse(text, &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    let told = |warning: &swiftwater_lang::QueryWarning| {
        format!("{}{warning}", if warning.is_certain { "!" } else { "" })
    };
    warnings(text, &options, seen).iter().map(told).collect()
}

fn check(condition: &str, schema: Option<&Schema>, seen: &[&str], expected: &[&str]) {
    let text = format!("SELECT host FROM STREAM() WHERE {condition}");
    let found = warning_text(&text, schema, seen, Dialect::Native);
    let shown: Vec<&str> = found.iter().map(String::as_str).collect();
    let matches = shown.len() == expected.len()
        && shown
            .iter()
            .zip(expected)
            .all(|(found, part)| found.contains(part) && found.starts_with('!') == part.starts_with('!'));
    assert!(matches, "{condition}: {found:#?}, not {expected:#?}");
    if schema.is_none() {
        assert_eq!(warning_text(&text, None, seen, Dialect::Bullet), Vec::<String>::new(), "{condition}");
    }
}

#[test]
fn a_query_over_undeclared_events_is_doubted_by_what_recent_events_had() {
    for (condition, expected) in [
        ("host = 'web1' AND status > 499", &[][..]),
        (
            "host = \"web1\"",
            &[
                "\"web1\" is read as a field of the events, because it is in double quotes. Write text in single \
                 quotes: 'web1'.",
            ],
        ),
        ("\"host\" = 'web1'", &[]),
        ("host IN (\"web1\", 'web2')", &["Write text in single quotes: 'web1'"]),
        ("hots = 'web1'", &["no recent event has a field `hots`. Did you mean `host`?"]),
        ("Host = 'web1'", &["Did you mean `host`?"]),
        ("ID = 1", &["Did you mean `id`?"]),
        ("usr.name = 'a' AND tgas[0] = 'b'", &["Did you mean `user`?", "Did you mean `tags`?"]),
        ("zzz > 5", &["no recent event has a field `zzz`. Fields are: host, status, user, tags, id."]),
        (
            "status = NULL",
            &[
                "`status = NULL` is never true: NULL equals nothing, and is neither less nor more. Write status IS NULL",
            ],
        ),
        ("status != NULL", &["`status != NULL` is never true"]),
        ("status BETWEEN 5 AND NULL", &["NULL equals nothing"]),
        ("status IN (NULL, 5)", &["NULL in a list equals nothing. Add OR status IS NULL."]),
        ("status > CURRENT_TIMESTAMP", &["`CURRENT_TIMESTAMP` is read as a field of the events. Write NOW"]),
        ("status > current_date OR status < localtimestamp", &["`current_date`", "`localtimestamp`"]),
        ("status > NOW", &[]),
        (
            "status BETWEEN 599 AND 500",
            &["its lower bound is above its upper bound. Write the lower bound first."],
        ),
        ("status NOT BETWEEN 599 AND 500", &[]),
        ("status > 5 AND status < 3", &["`status < 3` is never true together with the conditions before it"]),
        ("status >= 5 AND status <= 5", &[]),
        ("status > 5 AND status <= 5", &["never true together"]),
        ("host = 'a' AND (status = 1 AND host = 'b')", &["`host = 'b'` is never true together"]),
        ("host = 'a' OR host = 'b'", &[]),
        ("5 < status AND 3 > status", &["`3 > status` is never true together"]),
        ("status = 9007199254740993 AND status > 9007199254740992", &[]),
        ("FALSE", &["`false` is never true"]),
        ("1 = 2 OR host = 'a'", &[]),
        ("1 = 2 AND host = 'a'", &["`1 = 2` is never true"]),
        (
            "CAST(status AS LONG) = 'abc'",
            &[
                "`CAST(status AS LONG) = 'abc'` is never true: a value of type LONG and one of STRING are never compared",
            ],
        ),
        ("LOWER(host) > 5", &["a value of type STRING"]),
        ("CAST(id AS STRING) LIKE 5", &["LIKE compares text, and `5` is INTEGER"]),
    ] {
        let expected: Vec<String> = expected.iter().map(|part| (*part).to_owned()).collect();
        let parts: Vec<&str> = expected.iter().map(|part| part.trim_start_matches('!')).collect();
        let text = format!("SELECT host FROM STREAM() WHERE {condition}");
        let found = warning_text(&text, None, &SEEN, Dialect::Native);
        let is_told = |(found, (expected, part)): (&String, (&String, &&str))| {
            found.contains(*part) && found.starts_with('!') == expected.starts_with('!')
        };
        let is_all =
            found.len() == expected.len() && found.iter().zip(expected.iter().zip(&parts)).all(is_told);
        assert!(is_all, "{condition}: {found:#?}, not {expected:#?}");
    }
    // Nothing is known of the fields: only what is hardly ever meant so is doubted.
    for (condition, expected) in [
        ("hots = 'web1'", &[][..]),
        ("host = \"web1\"", &["Write text in single quotes: 'web1'"]),
        ("t > CURRENT_TIMESTAMP", &["Write NOW"]),
        ("x = NULL", &["Write x IS NULL"]),
    ] {
        check(condition, None, &[], expected);
    }
}

#[test]
fn what_declared_types_prove_is_certain() {
    let schema = Schema::from_json(
        r#"{"n": "INTEGER", "host": "STRING", "ts": "TIMESTAMP", "up": "BOOLEAN", "l": "LIST[LONG]", "d": "DOUBLE"}"#,
    )
    .unwrap();
    let certain = |condition: &str, expected: &str| {
        let text = format!("SELECT host FROM STREAM() WHERE {condition}");
        let found = warning_text(&text, Some(&schema), &[], Dialect::Native);
        assert!(
            found.len() == 1 && found[0].starts_with('!') && found[0].contains(expected),
            "{condition}: {found:#?}, not {expected}"
        );
    };
    certain(
        "n = 'abc'",
        "a value of type INTEGER and one of STRING are never compared. Write the number without quotes",
    );
    certain("n != 'abc'", "are never compared");
    certain("host > 5", "type STRING and one of INTEGER");
    certain("ts > 'yesterday'", "'yesterday' is not a time. Write it as '2026-01-01T00:00:00Z'");
    certain("ts BETWEEN '2026-01-01' AND '2026-01-02T00:00:00Z'", "'2026-01-01' is not a time");
    certain("up = 1", "type BOOLEAN and one of INTEGER");
    certain("l = 5", "type LIST[LONG] and one of INTEGER");
    certain("n = NULL", "Write n IS NULL");
    certain("host = \"web1\"", "Write text in single quotes: 'web1'");
    certain("ts > CURRENT_TIMESTAMP", "Write NOW");
    certain("n IN ('a', 'b')", "are never compared");
    certain("n LIKE '5%'", "LIKE compares text, and `n` is INTEGER. Write CAST(n AS STRING)");
    certain("n BETWEEN 9 AND 5", "its lower bound is above its upper bound");
    certain("n > 5 AND n < 3", "never true together");
    for sound in [
        "n = 5 AND d > 0.5 AND n < d",
        "ts > '2026-01-01T00:00:00Z' AND ts < NOW AND ts != 5",
        "ts = '2026-01-01T00:00:00Z' AND ts = '2026-01-01T01:00:00+01:00'",
        "host LIKE 'a%' AND host IN ('a', 'ab') AND up",
        "l[0] = 5 AND N = 5",
    ] {
        let text = format!("SELECT host FROM STREAM() WHERE {sound}");
        assert_eq!(warning_text(&text, Some(&schema), &[], Dialect::Native), Vec::<String>::new(), "{sound}");
    }
    // Events may have fields that are not declared.
    check("hst = 'a'", Some(&schema), &[], &["no column `hst` is declared. Did you mean `host`?"]);
    check("region = 'a'", Some(&schema), &["region"], &[]);
    check("n IN (1, 'b')", Some(&schema), &[], &["are never compared"]);
}

#[test]
fn all_parts_of_a_query_are_looked_at() {
    let of = |text: &str| warning_text(text, None, &SEEN, Dialect::Native);
    for (text, expected) in [
        ("SELECT hots FROM STREAM()", "Did you mean `host`?"),
        (
            "SELECT COUNT(*) FROM STREAM() GROUP BY ALL",
            "`ALL` is read as a field of the events. Name the columns",
        ),
        ("SELECT hots, COUNT(*) FROM STREAM() GROUP BY hots", "Did you mean `host`?"),
        ("SELECT SUM(statsu) FROM STREAM()", "Did you mean `status`?"),
        ("SELECT COUNT(*) FILTER (WHERE status = NULL) AS n FROM STREAM()", "Write status IS NULL"),
        ("SELECT host, COUNT(*) AS n FROM STREAM() GROUP BY host HAVING n = 'x'", "are never compared"),
        ("SELECT host FROM STREAM() ORDER BY statsu", "Did you mean `status`?"),
        ("SELECT x FROM STREAM() LATERAL VIEW EXPLODE(tgas) AS x", "Did you mean `tags`?"),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM STREAM()) WHERE n = 'x'", "are never compared"),
    ] {
        let found = of(text);
        assert!(!found.is_empty() && found.iter().any(|told| told.contains(expected)), "{text}: {found:#?}");
    }
    for sound in [
        "SELECT host AS h, COUNT(*) AS n FROM STREAM() GROUP BY host HAVING n > 5 ORDER BY h",
        "SELECT host AS h FROM STREAM() ORDER BY h",
        "SELECT x FROM STREAM() LATERAL VIEW EXPLODE(tags) AS x WHERE x = 'a'",
        "SELECT host, window_start, COUNT(*) FROM STREAM() GROUP BY host, window_start WINDOWING TUMBLING(5, TIME)",
        "SELECT s.host FROM STREAM() AS s WHERE s.status = 5",
    ] {
        assert_eq!(of(sound), Vec::<String>::new(), "{sound}");
    }
}
