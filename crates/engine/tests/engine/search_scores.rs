//! Tests that hits are ordered by BM25 scores: the same as the definition's over HTTP's request and in SQL, in pages, while
//! events arrive, after a restart, with and without an index.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{Engine, EngineConfig, Principal, SearchRequest, SearchSort};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_testkit::{
    Rng,
    search::{ScoreOracle, SearchOracle, SearchQuery, SearchValue, SearchedRow, random_row},
};

use crate::history::{append, open_when_free, quick, sql, stop};

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, quick(dir), Arc::new(SystemClock::new())).await
}

/// Rows as events, from a number on.
fn lines(rows: &[SearchedRow], from: usize) -> String {
    let json = |values: &[SearchValue]| {
        let values = values.iter().map(|value| match value {
            SearchValue::Text(text) => serde_json::to_string(text).unwrap(),
            SearchValue::Number(number) => number.to_string(),
        });
        format!("[{}]", values.collect::<Vec<_>>().join(","))
    };
    let line = |(number, row): (usize, &SearchedRow)| {
        let (a, b, n) = (json(&row["a"]), json(&row["b"]), json(&row["n"]));
        format!("{{\"id\":{},\"a\":{a},\"b\":{b},\"n\":{n}}}", from + number)
    };
    rows.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The hits of all pages: their offsets and scores. Between two pages events arrive.
async fn pages(engine: &Engine, query: &str, rng: &mut Rng, more: &mut usize) -> Vec<(u64, f64)> {
    let sort = SearchSort { column: "_score".to_owned(), descending: true };
    let mut request = SearchRequest::new(StreamName::new("logs").unwrap(), query);
    (request.sort, request.limit) = (sort, 1 + rng.below(30));
    let mut hits = Vec::new();
    loop {
        let page = engine
            .search(&Principal::local(), &request)
            .await
            .unwrap_or_else(|error| panic!("{query}: {error:?}"));
        hits.extend(page.hits.iter().map(|hit| (hit.offset, hit.score.unwrap())));
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            return hits;
        }
        if rng.chance(0.1) {
            append(engine, "later", &format!("{{\"id\":{more},\"a\":[\"read\"]}}"), None).await;
            *more += 1;
        }
    }
}

async fn check(
    engine: &Engine,
    rng: &mut Rng,
    oracle: &ScoreOracle<'_>,
    rows: &[SearchedRow],
    context: &str,
) {
    let queries = SearchOracle::default();
    let mut more = 0;
    for _ in 0..10 {
        let query = queries.random_query(rng, 2);
        if matches!(query, SearchQuery::Everything) {
            continue;
        }
        let text = query.text();
        let mut expected: Vec<(u64, f64)> = rows
            .iter()
            .enumerate()
            .filter_map(|(offset, row)| Some((offset as u64, oracle.score(&query, row)?)))
            .collect();
        let hits = pages(engine, &text, rng, &mut more).await;
        assert_eq!(hits.len(), expected.len(), "{context}: {text}");
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        for (at, (hit, expected)) in hits.iter().zip(&expected).enumerate() {
            // Sums of the definition's may differ in the last digits.
            assert!(
                (hit.1 - expected.1).abs() < 1e-9,
                "{context}: {text}: hit {at}: {hit:?}, not {expected:?}"
            );
            let next = hits.get(at + 1);
            let is_ordered = next.is_none_or(|next| hit.1 > next.1 || (hit.1 == next.1 && hit.0 > next.0));
            assert!(is_ordered, "{context}: {text}: {hit:?} before {next:?}");
        }
        let quoted = text.replace('\'', "''");
        let statement =
            format!("SELECT id, _score FROM search('logs', '{quoted}') ORDER BY _score DESC, _offset DESC");
        let in_sql: Vec<(u64, f64)> = sql(engine, &statement)
            .await
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                (row["id"].as_u64().unwrap(), row["_score"].as_f64().unwrap())
            })
            .collect();
        assert_eq!(in_sql, hits, "{context}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_ordered_by_scores_of_their_definition() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    let mut rng = Rng::new(1);
    sql(&engine, "CREATE STREAM logs (id LONG NOT NULL, a JSON, b JSON, n JSON)").await;
    sql(&engine, "CREATE STREAM later (id LONG NOT NULL, a JSON)").await;
    let rows: Vec<SearchedRow> = (0..150).map(|_| random_row(&mut rng)).collect();
    for part in 0..5 {
        append(&engine, "logs", &lines(&rows[part * 30..(part + 1) * 30], part * 30), None).await;
    }
    let definition = SearchOracle::default();
    let mut oracle = ScoreOracle::new(&definition, &rows);
    check(&engine, &mut rng, &oracle, &rows, "without an index").await;
    sql(&engine, "CREATE SEARCH INDEX ON logs (a TEXT BOOST 3, b TEXT, n ID)").await;
    oracle.defaults = vec![(vec!["a"], 3.0), (vec!["b"], 1.0)];
    check(&engine, &mut rng, &oracle, &rows, "while files are built").await;
    crate::index_files::until(&engine, "\"waiting_files\":0").await;
    check(&engine, &mut rng, &oracle, &rows, "with an index").await;
    let mut request = SearchRequest::new(StreamName::new("logs").unwrap(), "read");
    request.sort = SearchSort { column: "_score".to_owned(), descending: true };
    let answer = engine.search(&Principal::local(), &request).await.unwrap();
    let counted = answer.stages.iter().find(|stage| stage.name == "statistics").unwrap();
    assert!(counted.rows_scanned < 60, "index files count words: {counted:?}");
    stop(engine, Duration::from_secs(5)).await;
    engine = open(dir.path()).await;
    check(&engine, &mut rng, &oracle, &rows, "after a restart").await;
    let statement = |function: &str| {
        format!(
            "SELECT l.id, {function} AS s FROM logs AS l WHERE search(a, 'read') ORDER BY s DESC, id LIMIT 3"
        )
    };
    let expected: Vec<String> = {
        let query = SearchQuery::Test(
            Some("a"),
            swiftwater_testkit::search::SearchTest::Phrase {
                text: "read".to_owned(),
                slop: 0,
                is_open: false,
                is_quoted: false,
            },
        );
        let mut scored: Vec<(f64, usize)> =
            rows.iter().enumerate().filter_map(|(id, row)| Some((oracle.score(&query, row)?, id))).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.iter().take(3).map(|(_, id)| id.to_string()).collect()
    };
    for function in ["search_score(a, 'read')", "search_score(l.a, 'read')", "SEARCH_SCORE(\"a\", 'read')"] {
        let found = sql(&engine, &statement(function)).await;
        let ids: Vec<String> = found
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
            .collect();
        assert_eq!(ids, expected, "{function}: {found}");
    }
    stop(engine, Duration::from_secs(5)).await;
}
