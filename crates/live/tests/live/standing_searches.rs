//! Compares the matcher with each search by itself, over random searches and events.
//!
//! There are two references. The oracle of text search shares no code with the matcher or the evaluation of searches. Each
//! query's filter, evaluated as one expression, knows nothing of words and indexes; it is asked where a condition has more
//! than one search in it.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Decoder, EventBatch, Primitive, Type, check_block};
use swiftwater_lang::{Dialect, ParseOptions, Schema, parse};
use swiftwater_live::{Index, Matching, Shard, SourcePosition, StandingQuery, StepInput, explain};
use swiftwater_testkit::{
    Rng,
    log_searches::{LogSearch, LogWords, log_lines, log_searches},
    search::{SearchOracle, SearchQuery, SearchTest, SearchValue, SearchedRow, random_row},
};

use crate::matcher::NaiveMatcher;

/// Words that differ where the key of a long word does not, words of one length, and words that are longer than a term of
/// an index.
const LONG_WORDS: [&str; 5] =
    ["internationale", "abcdefghXXijklmnop", "abcdefghYYijklmnop", "LONG1", "LONG2"];

fn long_word(rng: &mut Rng) -> String {
    match rng.pick(&LONG_WORDS) {
        "LONG1" => "x".repeat(300),
        "LONG2" => format!("{}y{}", "x".repeat(150), "x".repeat(149)),
        word => word.to_owned(),
    }
}

/// A row as an event: a column is a list, one value, or within an object, at any depth.
fn event(row: &SearchedRow, rng: &mut Rng) -> String {
    let mut out = String::from("{\"none\":null");
    for (name, values) in row {
        let is_list = values.len() != 1 || rng.chance(0.5);
        let depth = if rng.chance(0.3) { 1 + rng.below(2) } else { 0 };
        let _ = write!(out, ",\"{name}\":");
        (0..depth).for_each(|_| out.push_str("{\"read\":"));
        out.push_str(if is_list { "[" } else { "" });
        for (number, value) in values.iter().enumerate() {
            let value = match value {
                SearchValue::Text(text) => serde_json::to_string(text).expect("a text is JSON"),
                SearchValue::Number(number) => number.to_string(),
            };
            let _ = write!(out, "{}{value}", if number > 0 { "," } else { "" });
        }
        out.push_str(if is_list { "]" } else { "" });
        (0..depth).for_each(|_| out.push('}'));
    }
    out.push('}');
    out
}

/// A row with, now and then, a long word.
fn row(rng: &mut Rng) -> SearchedRow {
    let mut row = random_row(rng);
    if rng.chance(0.3) {
        let column = rng.pick(&["a", "b"]);
        let text = format!("{} {}", long_word(rng), if rng.chance(0.5) { "read" } else { "" });
        row.entry(column).or_default().push(SearchValue::Text(text));
    }
    row
}

fn word(text: String) -> SearchQuery {
    SearchQuery::Test(None, SearchTest::Phrase { text, slop: 0, is_open: false, is_quoted: false })
}

/// A random search: mostly of words, so that an index has something to find it by.
fn search(oracle: &SearchOracle, rng: &mut Rng) -> SearchQuery {
    let one = |rng: &mut Rng| match rng.below(4) {
        0 => word(long_word(rng)),
        1 => word(rng.pick(&["read", "timeout", "FILE", "東京", "ＡＢＣ", "x2", "12", "ж"]).to_owned()),
        _ => oracle.random_query(rng, 1),
    };
    match rng.below(6) {
        0 => one(rng),
        1 => SearchQuery::And(vec![one(rng), one(rng)]),
        2 => SearchQuery::Or((0..1 + rng.below(3)).map(|_| one(rng)).collect()),
        3 => SearchQuery::And(vec![one(rng), SearchQuery::Not(Box::new(one(rng)))]),
        _ => oracle.random_query(rng, 3),
    }
}

/// The same search without columns, as one value is asked it.
fn without_columns(query: SearchQuery) -> SearchQuery {
    let all = |queries: Vec<SearchQuery>| queries.into_iter().map(without_columns).collect();
    match query {
        SearchQuery::Everything => SearchQuery::Everything,
        SearchQuery::And(queries) => SearchQuery::And(all(queries)),
        SearchQuery::Or(queries) => SearchQuery::Or(all(queries)),
        SearchQuery::Not(query) => SearchQuery::Not(Box::new(without_columns(*query))),
        // Without a column, `*` is every value, a missing one too.
        SearchQuery::Test(_, SearchTest::Exists) => SearchQuery::Everything,
        // These are conditions on a column only.
        SearchQuery::Test(_, SearchTest::Literal(_) | SearchTest::Between(..)) => word("read".to_owned()),
        SearchQuery::Test(_, test) => SearchQuery::Test(None, test),
    }
}

/// A query, and the rows that it is to find, where the oracle knows them.
struct Case {
    text: String,
    query: Arc<StandingQuery>,
    rows: Option<Vec<u32>>,
}

fn quoted(query: &SearchQuery) -> String {
    query.text().replace('\'', "''")
}

fn case(oracle: &SearchOracle, rows: &[SearchedRow], rng: &mut Rng) -> Option<Case> {
    let found = |is_found: &dyn Fn(&SearchedRow) -> bool| {
        let all = 0..rows.len() as u32;
        all.filter(|&row| is_found(&rows[row as usize])).collect::<Vec<u32>>()
    };
    let query = search(oracle, rng);
    let (condition, rows) = match rng.below(8) {
        0..4 => (format!("SEARCH('{}')", quoted(&query)), Some(found(&|row| oracle.matches(&query, row)))),
        4 | 5 => {
            let column = rng.pick(&["a", "b", "n"]);
            let query = without_columns(query);
            let of_column = |row: &SearchedRow| SearchedRow::from([("a", row[column].clone())]);
            let expected = found(&|row| oracle.matches(&query, &of_column(row)));
            (format!("SEARCH({column}, '{}')", quoted(&query)), Some(expected))
        }
        6 => {
            let other = search(oracle, rng);
            let join = rng.pick(&["AND", "OR", "AND NOT"]);
            (format!("SEARCH('{}') {join} SEARCH('{}')", quoted(&query), quoted(&other)), None)
        }
        _ => {
            let other = rng.pick(&["n IS NULL", "n = 1", "SIZEOF(a) > 0", "n + 1 > 2", "SEARCH(a, 'read')"]);
            let join = rng.pick(&["AND", "OR"]);
            (format!("SEARCH('{}') {join} {other}", quoted(&query)), None)
        }
    };
    let text = format!("SELECT a FROM STREAM() WHERE {condition}");
    // Without a column, some conditions have no meaning.
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).ok()?;
    Some(Case { text, query: Arc::new(StandingQuery::compile(plan.query).ok()?), rows })
}

fn batch_of(events: &[String]) -> EventBatch {
    let batch = check_block(Bytes::from(events.join("\n")), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    batch
}

fn matches(index: &Index, matching: &mut Matching, batch: &EventBatch) -> BTreeMap<u64, Vec<u32>> {
    let decoded = Decoder::default().decode(batch, index.plan());
    let mut found = BTreeMap::new();
    matching.matches(index, &decoded, |number, rows| {
        assert!(found.insert(number, rows.to_vec()).is_none(), "a query was reported twice");
    });
    found
}

#[test]
fn indexed_searches_agree_with_each_search_by_itself() {
    let oracle = SearchOracle::default();
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let (mut asked, mut filed, mut found_rows) = (0, 0, 0);
    let mut matching = Matching::default();
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..1 + rng.below(20)).map(|_| row(&mut rng)).collect();
        let events: Vec<String> = rows.iter().map(|row| event(row, &mut rng)).collect();
        let batch = batch_of(&events);
        let (mut index, mut naive) = (Index::default(), NaiveMatcher::default());
        let mut queries: BTreeMap<u64, Case> = BTreeMap::new();
        for number in 0..40 {
            let Some(case) = case(&oracle, &rows, &mut rng) else { continue };
            index = index.with(number, &case.query);
            naive.add(number, &case.query);
            queries.insert(number, case);
            if rng.chance(0.1) {
                // What events have been seen decides under which words a search is filed.
                let seen: Vec<String> = (0..5).map(|_| event(&row(&mut rng), &mut rng)).collect();
                let seen = if rng.chance(0.5) { batch_of(&seen) } else { batch.clone() };
                index.observe(&Decoder::default().decode(&seen, index.plan()));
            }
            if rng.chance(0.05)
                && let Some(rebuild) = index.rebuild_now()
            {
                index = index.rebuilt(rebuild.run());
            }
            if rng.chance(0.1)
                && let Some(&ended) = queries.keys().nth(rng.below(queries.len()))
            {
                index = index.without(ended);
                queries.remove(&ended);
            }
        }
        let found = matches(&index, &mut matching, &batch);
        assert!(found.keys().all(|number| queries.contains_key(number)), "an ended query was matched");
        let all = naive.decode(&batch);
        for (number, case) in &queries {
            let rows = found.get(number).cloned().unwrap_or_default();
            let message = || format!("seed {seed}: {}\n{}", case.text, events.join("\n"));
            assert_eq!(rows, naive.matches(*number, &all), "{}", message());
            if let Some(expected) = &case.rows {
                assert_eq!(rows, *expected, "{}", message());
            }
            found_rows += rows.len();
            asked += events.len();
        }
        filed += queries.len().saturating_sub(index.scanned());
    }
    let searches = cases as usize * 10;
    assert!(
        asked > searches * 10 && filed > searches && found_rows > searches,
        "{asked} {filed} {found_rows}"
    );
}

/// How the matcher finds a query, as `EXPLAIN` describes it.
fn access(condition: &str, schema: Option<&Schema>) -> [String; 2] {
    let text = format!("SELECT a FROM STREAM() WHERE {condition}");
    let plan = parse(&text, &ParseOptions { schema, ..ParseOptions::new(Dialect::Native, 0) })
        .unwrap_or_else(|error| panic!("{condition}: {error}"));
    let query = StandingQuery::compile(plan.query).unwrap_or_else(|error| panic!("{condition}: {error}"));
    let plan = explain(&query);
    ["access", "residual"].map(|name| {
        let line = plan.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{plan}")).trim().to_owned()
    })
}

#[test]
fn explain_shows_the_words_that_a_search_is_filed_under() {
    let word = |search: &str, word: &str| format!("SEARCH('{search}') by table of words, under {word}");
    for (search, filed, is_residual) in [
        ("Timeout", "\"timeout\"", false),
        ("read OR timeout", "\"read\", \"timeout\"", false),
        ("read timeout", "\"timeout\"", false),
        ("refused -retry", "\"refused\"", false),
        ("read timeout was refused twice", "\"timeout\"", true),
        ("\"read timeout\"", "\"read timeout\"", false),
        ("\"a read timeout\"", "\"read timeout\"", true),
        ("\"read timeout\"~2", "\"timeout\"", true),
        ("message:refused time*", "\"refused\"", true),
        ("東京都", "\"東京 京都\"", false),
    ] {
        let expected = if is_residual { format!("SEARCH('{search}')") } else { "none".to_owned() };
        assert_eq!(access(&format!("SEARCH('{search}')"), None), [word(search, filed), expected]);
    }
    for search in ["time*", "-timeout", "status:500", "timeout OR time*", "*"] {
        let [access, residual] = access(&format!("SEARCH('{search}')"), None);
        assert_eq!(access, "none: every event is a candidate", "{search}");
        assert_eq!(residual, format!("SEARCH('{search}')"));
    }
}

#[test]
fn another_condition_finds_a_query_if_it_is_rare() {
    let filed = |condition: &str| access(condition, None);
    assert_eq!(filed("id = 'x' AND SEARCH('a')")[0], "id = 'x' by hash table");
    assert!(filed("took > 5 AND SEARCH('timeout')")[0].contains("under \"timeout\""));
    // What a number equals is no word; where a column has texts only, it is one.
    let schema = Schema::new([("code".into(), Type::Primitive(Primitive::String))]);
    assert_eq!(access("SEARCH(code, '500')", None)[0], "none: every event is a candidate");
    assert!(access("SEARCH(code, '500')", Some(&schema))[0].contains("under \"500\""));
}

fn compiled(condition: &str) -> Arc<StandingQuery> {
    let text = format!("SELECT a FROM STREAM() WHERE {condition}");
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(StandingQuery::compile(plan.query).unwrap_or_else(|error| panic!("{condition}: {error}")))
}

#[test]
fn what_is_counted_does_not_depend_on_the_word_that_finds_a_search() {
    let query = compiled("SEARCH('read (time OR out)') AND n = 1 AND a + 1 > 2");
    let events: Vec<String> = (0..60)
        .map(|number| {
            let word = ["read time", "read out", "read", "time"][number % 4];
            format!("{{\"a\":\"{word} {number}\",\"n\":{}}}", number % 3)
        })
        .collect();
    // By one condition, by another, and by words that are frequent or rare.
    let samples =
        ["{\"a\":\"read time\",\"n\":2}", "{\"a\":\"out\",\"n\":1}", "{\"a\":\"read\",\"n\":1}", "{}"];
    let mut seen = Vec::new();
    for sample in samples.map(Some).into_iter().chain([None]) {
        let mut index = Index::default().with(1, &compiled("SEARCH('time') AND n = 7"));
        if let Some(sample) = sample {
            let batch = batch_of(&vec![sample.to_owned(); 100]);
            index.observe(&Decoder::default().decode(&batch, index.plan()));
        }
        index = index.with(2, &query);
        let batch = batch_of(&events);
        let input = StepInput {
            batch: &batch,
            arrivals: &[],
            before: None,
            place: SourcePosition::Number(0),
            now_micros: 0,
            record_bytes_max: usize::MAX,
            nanos: &|| 0,
        };
        let mut steps = Vec::new();
        Shard::default().step(&index, &input, &mut steps);
        let step = steps.iter().find(|step| step.number == 2).expect("its candidates are in the batch");
        seen.push((step.matches, step.expression_errors));
    }
    // Each event with the words and the number has a text that cannot be added to.
    assert_eq!(seen, [(0, 10); 5]);
}

#[test]
fn searches_of_log_lines_find_what_a_comparison_of_words_finds() {
    let searches = log_searches(400);
    let mut index = Index::default();
    for (number, search) in (0..).zip(&searches) {
        index = index.with(number, &compiled(&format!("SEARCH('{}')", search.text())));
    }
    let mut lines = log_lines();
    let mut bytes = Vec::new();
    (0..3000).for_each(|_| lines.push(&mut bytes));
    let events: Vec<String> = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
    let found = matches(&index, &mut Matching::default(), &batch_of(&events));
    let words: Vec<LogWords> = events.iter().map(|line| LogWords::of(line)).collect();
    let mut count = 0;
    for (number, search) in (0..).zip(&searches) {
        let is_found = |row: &u32| LogSearch::matches(search, &words[*row as usize]);
        let expected: Vec<u32> = (0..words.len() as u32).filter(is_found).collect();
        assert_eq!(found.get(&number).cloned().unwrap_or_default(), expected, "{}", search.text());
        count += expected.len();
    }
    assert!(count > 50, "so few matches show little: {count}");
}
