//! An event that matches a query may match by its prefilter: on random queries, and on random events in random spellings.

use std::fmt::Write;

use bumpalo::Bump;
use swiftwater_event::{CheckLimits, check_block, parse_value};
use swiftwater_testkit::{
    Rng,
    search::{SEARCH_COLUMNS, SearchOracle, SearchValue, SearchedRow, random_row},
};
use swiftwater_text::{EventSearch, MatcherScratch, Prefilter, query::Operator};

/// Conditions that the oracle's queries do not have.
const CONDITIONS: [&str; 14] = [
    "a:/time(out)?/",
    "a:/(read|timeout)/",
    "a:/(?i)TIMEOUT/",
    "n:/5/",
    "a:/e[x]*a/",
    "b:=\"read time\"",
    "b:=\"-a\"",
    "n:=\"1.5\"",
    "a:timeout~2",
    "timeout x2",
    "a:true",
    "n:1*",
    "(read OR (time -Out))",
    "\"read time\"*",
];

/// The texts of ASCII that random texts have too few of for a prefilter to exclude many.
const WORDS: [&str; 8] = ["read", "Timeout", "TIME", "file", "abc", "strasse", "12", "x2"];

/// The JSON text of a row, with some characters and numbers in other spellings.
fn json(row: &SearchedRow, rng: &mut Rng) -> String {
    let mut json = "{".to_owned();
    for (number, column) in SEARCH_COLUMNS.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        let _ = write!(json, "{separator}\"{column}\": [");
        for (place, value) in row.get(column).into_iter().flatten().enumerate() {
            json.push_str(if place == 0 { "" } else { "," });
            match value {
                SearchValue::Text(text) => push_text(text, rng, &mut json),
                SearchValue::Number(value) => {
                    let _ = match rng.below(3) {
                        0 => write!(json, "{value}"),
                        1 => write!(json, "{value:e}"),
                        _ => write!(json, "{value:.2}"),
                    };
                }
            }
        }
        json.push(']');
    }
    json.push('}');
    json
}

fn push_text(text: &str, rng: &mut Rng, json: &mut String) {
    let escaped = rng.pick(&[0.0, 0.0, 0.0, 0.2]);
    json.push('"');
    for c in text.chars() {
        match c {
            '\n' => json.push_str("\\n"),
            '"' | '\\' => json.extend(['\\', c]),
            c if rng.chance(escaped) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(json, "\\u{unit:04x}");
                }
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// A row, half of them of ASCII.
fn row(rng: &mut Rng) -> SearchedRow {
    let mut row = random_row(rng);
    if rng.chance(0.5) {
        for column in ["a", "b"] {
            let words: Vec<&str> = (0..rng.below(4)).map(|_| rng.pick(&WORDS)).collect();
            row.insert(column, vec![SearchValue::Text(words.join(rng.pick(&[" ", "-", "", "\n", "\\"])))]);
        }
    }
    row
}

#[test]
fn events_that_match_may_match() {
    let seeds = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000);
    let oracle = SearchOracle::default();
    let mut scratch = MatcherScratch::default();
    let (mut pairs, mut matched, mut excluded) = (0, 0, 0);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..20).map(|_| row(&mut rng)).collect();
        let events: Vec<String> = rows.iter().map(|row| json(row, &mut rng)).collect();
        let arena = Bump::new();
        let values: Vec<_> = events.iter().map(|event| parse_value(event, &arena)).collect();
        let batch = check_block(events.join("\n").into(), &CheckLimits::default(), 1).batch;
        assert_eq!(batch.len(), events.len(), "seed {seed}");
        for number in 0..10 {
            let query = match number {
                0..8 => oracle.random_query(&mut rng, 2).text(),
                8 => rng.pick(&CONDITIONS).to_owned(),
                _ => format!("{} {}", rng.pick(&CONDITIONS), oracle.random_query(&mut rng, 1).text()),
            };
            let search = EventSearch::of_event(&query, Operator::And, None);
            let search = search.unwrap_or_else(|faults| panic!("seed {seed}: {query}: {faults}"));
            let prefilter = Prefilter::of(&search);
            let candidates = prefilter.as_ref().map(|prefilter| prefilter.candidates(&batch));
            for (row, (event, value)) in events.iter().zip(&values).enumerate() {
                let value = value.unwrap_or_else(|| panic!("seed {seed}: {event}"));
                let may_match =
                    prefilter.as_ref().is_none_or(|prefilter| prefilter.may_match(event.as_bytes()));
                let is_candidate = candidates.as_ref().is_none_or(|rows| rows.contains(&(row as u32)));
                assert_eq!(is_candidate, may_match, "seed {seed}: {query} on {event}");
                let is_match = search.matches(&value, &mut scratch);
                assert!(may_match || !is_match, "seed {seed}: {query} matches {event}");
                pairs += 1;
                matched += usize::from(is_match);
                excluded += usize::from(!may_match);
            }
        }
    }
    assert!(matched * 10 > pairs && excluded * 20 > pairs, "{matched} match, {excluded} excluded of {pairs}");
}
