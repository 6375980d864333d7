//! Tests of SEARCH over events and values.

use std::{fmt::Write, sync::Arc};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use bumpalo::Bump;
use bytes::Bytes;
use swiftwater_event::{CheckLimits, Type, check_block};
use swiftwater_lang::Dialect;
use swiftwater_live::{
    columns::{ColumnsScratch, InferredColumns, event_texts},
    expr::{EvalCounts, Rows, Scratch},
};
use swiftwater_testkit::{
    Rng,
    search::{ScoreOracle, SearchOracle, SearchValue, SearchedRow, random_row},
};
use swiftwater_text::{
    ColumnIndex, MatcherScratch, SEARCH_METADATA, SearchField, TableSearch, TextIndex, json_field,
    query::Operator,
};

use crate::expressions::{NOW, compile, decode};

/// A row as an event: each column is a list of its values.
fn event(row: &SearchedRow) -> String {
    event_with(row, |_| true)
}

/// A row as an event; `is_list` returns true if a column with one value is a list, or this value.
fn event_with(row: &SearchedRow, mut is_list: impl FnMut(&str) -> bool) -> String {
    let mut out = String::from("{");
    for (name, values) in row {
        let separator = if out.len() > 1 { "," } else { "" };
        let is_list = values.len() != 1 || is_list(name);
        let _ = write!(out, "{separator}\"{name}\":{}", if is_list { "[" } else { "" });
        for (number, value) in values.iter().enumerate() {
            let separator = if number > 0 { "," } else { "" };
            let value = match value {
                SearchValue::Text(text) => serde_json::to_string(text).expect("a text is JSON"),
                SearchValue::Number(number) => number.to_string(),
            };
            let _ = write!(out, "{separator}{value}");
        }
        out.push_str(if is_list { "]" } else { "" });
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

/// Events as a table stores them: the columns that are found in them, and the text of those that these do not describe
/// whole.
fn stored(events: &[String]) -> (Vec<Field>, Vec<ArrayRef>) {
    let batch = check_block(Bytes::from(events.join("\n") + "\n"), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    let accepted = InferredColumns::new(Vec::new(), 3).accept(&batch, &mut ColumnsScratch::default());
    let columns = accepted.grown.map_or(Vec::new(), |grown| grown.columns().to_vec());
    let mut arrays = accepted.columns;
    let texts: ArrayRef = Arc::new(event_texts(&batch, accepted.text_needed.as_ref()));
    let mut fields: Vec<Field> = columns
        .iter()
        .zip(&arrays)
        .map(|(column, array)| {
            let field = Field::new(&*column.name, array.data_type().clone(), true);
            if column.ty == Type::Any { json_field(&field) } else { field }
        })
        .collect();
    fields.push(Field::new("_event", DataType::Utf8View, true));
    arrays.push(texts);
    (fields, arrays)
}

#[test]
fn search_of_stored_rows_agrees_with_the_oracle() {
    let oracle = SearchOracle::default();
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let (mut searched, mut found_rows) = (0, 0);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..20).map(|_| random_row(&mut rng)).collect();
        let lists = rng.below(100);
        let events: Vec<String> =
            rows.iter().map(|row| event_with(row, |_| rng.below(100) < lists)).collect();
        let query = oracle.random_query(&mut rng, 3);
        let (fields, arrays) = stored(&events);
        let search_fields = fields.iter().map(SearchField::of).collect();
        let search = match TableSearch::of_rows(&query.text(), Operator::And, search_fields, None) {
            Ok(search) => search,
            Err(faults) => {
                assert!(faults.to_string().contains("there is no column"), "seed {seed}: {faults}");
                continue;
            }
        };
        let needed: Vec<ArrayRef> = search.needed().iter().map(|&place| Arc::clone(&arrays[place])).collect();
        let matches = search.matches(&needed, events.len(), &mut MatcherScratch::default());
        for (row, event) in events.iter().enumerate() {
            let expected = oracle.matches(&query, &rows[row]);
            assert_eq!(
                matches.value(row),
                expected,
                "seed {seed}: {} over {event} of {fields:?}",
                query.text()
            );
            found_rows += u64::from(expected);
        }
        searched += 1;
    }
    assert!(searched > cases / 2 && found_rows > searched, "{searched} searches found {found_rows} rows");
}

/// The fields, where the two columns of texts are default columns of an index, each with a weight.
fn weighted(fields: &[Field], weights: &[(&str, f32)]) -> Vec<Field> {
    let weighted = fields.iter().map(|field| {
        let Some((_, boost)) = weights.iter().find(|(name, _)| name == field.name()) else {
            return field.clone();
        };
        let text = Some(TextIndex { boost: *boost, ..TextIndex::default() });
        let index = ColumnIndex { text, is_default: true, ..ColumnIndex::default() };
        let mut metadata = field.metadata().clone();
        metadata.insert(SEARCH_METADATA.to_owned(), index.to_metadata());
        field.clone().with_metadata(metadata)
    });
    weighted.collect()
}

#[test]
fn scores_of_stored_rows_agree_with_the_oracle() {
    let oracle = SearchOracle::default();
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let (mut searched, mut scored) = (0, 0);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..30).map(|_| random_row(&mut rng)).collect();
        let lists = rng.below(100);
        let events: Vec<String> =
            rows.iter().map(|row| event_with(row, |_| rng.below(100) < lists)).collect();
        let query = oracle.random_query(&mut rng, 3);
        let (mut fields, arrays) = stored(&events);
        let mut expected = ScoreOracle::new(&oracle, &rows);
        if rng.chance(0.5) {
            let (a, b) = (rng.pick(&[1.0, 0.5, 3.0]), rng.pick(&[1.0, 2.0]));
            expected.defaults = vec![(vec!["a"], f64::from(a)), (vec!["b"], f64::from(b))];
            fields = weighted(&fields, &[("a", a), ("b", b)]);
        }
        let search_fields = fields.iter().map(SearchField::of).collect();
        let search = match TableSearch::of_rows(&query.text(), Operator::And, search_fields, None) {
            Ok(search) => search,
            Err(faults) => {
                assert!(faults.to_string().contains("there is no column"), "seed {seed}: {faults}");
                continue;
            }
        };
        let needed: Vec<ArrayRef> = search.needed().iter().map(|&place| Arc::clone(&arrays[place])).collect();
        // Statistics of two parts, as bytes.
        let half = rng.below(rows.len());
        let mut statistics = search.no_statistics();
        for (from, count) in [(0, half), (half, rows.len() - half)] {
            let part: Vec<ArrayRef> = needed.iter().map(|array| array.slice(from, count)).collect();
            let mut of_part = search.no_statistics();
            search.add_statistics(&part, count, &mut MatcherScratch::default(), &mut of_part);
            let mut read = search.no_statistics();
            assert!(read.read_bytes(&of_part.to_bytes()));
            statistics.merge(&read);
        }
        let scores = search.scores(&needed, rows.len(), &mut MatcherScratch::default(), &statistics);
        for (row, event) in rows.iter().zip(&events).enumerate().map(|(at, (row, event))| ((at, row), event))
        {
            let score = scores.is_valid(row.0).then(|| scores.value(row.0));
            let expected = expected.score(&query, row.1);
            let is_equal = match (score, expected) {
                (Some(score), Some(expected)) => (score - expected).abs() < 1e-9,
                (score, expected) => score == expected,
            };
            let text = query.text();
            assert!(is_equal, "seed {seed}: {text} over {event} of {fields:?}: {score:?}, not {expected:?}");
            scored += u64::from(score.is_some_and(|score| score > 0.0 && score.fract() != 0.0));
        }
        searched += 1;
    }
    assert!(searched > cases / 2 && scored * 4 > searched, "{searched} searches scored {scored} rows");
}
