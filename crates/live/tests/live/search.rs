//! Tests of SEARCH over events and values.

use std::fmt::Write;

use bumpalo::Bump;
use swiftwater_lang::Dialect;
use swiftwater_live::expr::{EvalCounts, Rows, Scratch};
use swiftwater_testkit::{
    Rng,
    search::{SearchOracle, SearchValue, SearchedRow, random_row},
};

use crate::expressions::{NOW, compile, decode};

/// A row as an event: each column is a list of its values.
fn event(row: &SearchedRow) -> String {
    let mut out = String::from("{");
    for (name, values) in row {
        let separator = if out.len() > 1 { "," } else { "" };
        let _ = write!(out, "{separator}\"{name}\":[");
        for (number, value) in values.iter().enumerate() {
            let separator = if number > 0 { "," } else { "" };
            let value = match value {
                SearchValue::Text(text) => serde_json::to_string(text).expect("a text is JSON"),
                SearchValue::Number(number) => number.to_string(),
            };
            let _ = write!(out, "{separator}{value}");
        }
        out.push(']');
    }
    out.push('}');
    out
}

/// The events, by number, where a condition is true.
fn found(condition: &str, events: &[String]) -> Result<Vec<u32>, String> {
    let (program, wants) = compile(Dialect::Native, condition, None)?;
    let (decoded, bindings) = decode(&events.join("\n"), &wants);
    let rows: Vec<u32> = (0..events.len() as u32).collect();
    let rows = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &rows, now: NOW };
    let (mut scratch, arena, mut counts) = (Scratch::new(), Bump::new(), EvalCounts::default());
    let mut out = Vec::new();
    program.filter_rows(&rows, &mut scratch, &arena, &mut counts, &mut out);
    assert_eq!(counts.expression_errors, 0, "{condition}");
    Ok(out)
}

fn quoted(query: &str) -> String {
    query.replace('\'', "''")
}

#[test]
fn search_of_events_agrees_with_the_oracle() {
    let oracle = SearchOracle::default();
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..20).map(|_| random_row(&mut rng)).collect();
        let events: Vec<String> = rows.iter().map(event).collect();
        let query = oracle.random_query(&mut rng, 3);
        let is_expected = |row: &&u32| oracle.matches(&query, &rows[**row as usize]);
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let expected: Vec<u32> = all.iter().filter(is_expected).copied().collect();
        let condition = format!("SEARCH('{}')", quoted(&query.text()));
        assert_eq!(found(&condition, &events), Ok(expected), "seed {seed}: {condition} over {events:?}");
    }
}

#[test]
fn search_of_a_value_is_as_of_one_column() {
    let events: Vec<String> = [
        r#"{"message": "Connection refused by 10.0.0.12", "status": 500, "other": "accepted"}"#,
        r#"{"message": null, "status": "500", "tags": ["refused", "late"]}"#,
        r#"{"status": 404, "other": "refused"}"#,
    ]
    .map(str::to_owned)
    .to_vec();
    for (condition, expected) in [
        ("SEARCH(message, 'refused')", &[0][..]),
        ("SEARCH(message, '-refused')", &[1, 2]),
        ("NOT SEARCH(message, 'refused')", &[1, 2]),
        ("SEARCH('refused')", &[0, 1, 2]),
        ("SEARCH('refused -other:accepted')", &[1, 2]),
        ("SEARCH(status, '500')", &[0, 1]),
        ("SEARCH('status:>=404 tags:late') OR status = 404", &[1, 2]),
        ("SEARCH(tags, 'late')", &[1]),
        ("SEARCH(LOWER(message) || ' x', '\"12 x\"')", &[0]),
        ("SEARCH(tags[0], 'refus*')", &[1]),
        ("search(other, 'it''s OR accepted')", &[0]),
        ("CASE WHEN SEARCH('refuzed~1 status:404') THEN TRUE ELSE FALSE END", &[2]),
    ] {
        assert_eq!(found(condition, &events).as_deref(), Ok(expected), "{condition}");
    }
}

#[test]
fn faults_of_a_search_are_those_of_the_query() {
    for (condition, expected) in [
        ("SEARCH('a OR')", "the search cannot be read: character 5: `OR` has nothing after it"),
        ("SEARCH('m:/a(?=b)/')", "regular expressions cannot look around"),
        ("SEARCH(s, 'a:b')", "one value is searched"),
        ("SEARCH(s, t)", "the query of SEARCH must be a constant text"),
        ("SEARCH('seen:>now-1h')", "`now-1h` has no meaning here"),
        ("SEARCH()", "SEARCH takes 1 to 2 arguments, not 0"),
    ] {
        let fault = found(condition, &[]).unwrap_err();
        assert!(fault.contains(expected), "{condition}: {fault}");
    }
    let bullet = compile(Dialect::Bullet, "SEARCH('a')", None).map(|_| ());
    assert!(bullet.is_err(), "Bullet has no such function");
}
