//! Tests that index files change no answer: whether they are there, half built, deleted, damaged or of another definition.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use std::collections::BTreeMap;

use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, Principal};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_testkit::{
    Rng,
    search::{SearchOracle, SearchValue, random_row},
};

use crate::history::{append, open_when_free, quick, sql, stop, try_sql};

const INDEXES: [&str; 4] = [
    "CREATE SEARCH INDEX ON logs (*)",
    "CREATE SEARCH INDEX ON logs (a TEXT, b ID)",
    "CREATE SEARCH INDEX ON logs (a TEXT (stem = 'english', positions = false), b FACET '-', *)",
    "CREATE SEARCH INDEX ON logs (a TEXT (split = code, fold = accents), b TEXT, n ID) WITH (default = (b))",
];

async fn open(dir: &Path) -> Engine {
    open_with(quick(dir)).await
}

async fn open_with(history: HistoryConfig) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

/// Events with texts in two fields, and a number; some have a field that is no column.
fn events(rng: &mut Rng, from: usize, count: usize) -> String {
    let json = |value: &SearchValue| match value {
        SearchValue::Text(text) => serde_json::to_string(text).unwrap(),
        SearchValue::Number(number) => number.to_string(),
    };
    let lines = (from..from + count).map(|number| {
        let row = random_row(rng);
        let mut fields = vec![format!("\"id\":{number}")];
        for (name, values) in &row {
            match values.as_slice() {
                [] => {}
                [one] => fields.push(format!("\"{name}\":{}", json(one))),
                some => {
                    let some: Vec<String> = some.iter().map(json).collect();
                    fields.push(format!("\"{name}\":[{}]", some.join(",")));
                }
            }
        }
        format!("{{{}}}", fields.join(","))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The events that a search finds, with the help of index files, and by evaluating each row; or their number, among those of
/// some offsets and times.
async fn both(engine: &Engine, rng: &mut Rng, query: &str) -> Option<(String, String)> {
    let quoted = query.replace('\'', "''");
    let mut more = String::new();
    if rng.chance(0.5) {
        more += &format!(" AND _offset < {}", rng.below(250));
    }
    if rng.chance(0.3) {
        more += &format!(" AND _offset >= {}", rng.below(200));
    }
    if rng.chance(0.3) {
        more += " AND _time > TIMESTAMP '2020-01-01 00:00:00'";
    }
    if rng.chance(0.2) {
        more += " AND id % 3 > 0";
    }
    let selected = rng.pick(&["id", "count(*)", "id, a", "count(DISTINCT n), max(id)"]);
    let order = if selected.starts_with("id") { " ORDER BY id" } else { "" };
    let find = |condition: String| format!("SELECT {selected} FROM logs WHERE {condition}{more}{order}");
    let indexed = try_sql(engine, &find(format!("search('{quoted}')"))).await;
    // An index is not asked for what stands in a CASE.
    let scanned =
        try_sql(engine, &find(format!("CASE WHEN id >= 0 THEN search('{quoted}') ELSE false END"))).await;
    match (indexed, scanned) {
        (Ok(indexed), Ok(scanned)) => Some((indexed, scanned)),
        (indexed, scanned) => {
            assert!(indexed.is_err() && scanned.is_err(), "{query}: {indexed:?} {scanned:?}");
            None
        }
    }
}

/// A pattern of LIKE with a part of a text.
fn like_pattern(rng: &mut Rng, text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let (a, b) = (rng.below(characters.len() + 1), rng.below(characters.len() + 1));
    let mut pattern = String::new();
    for character in &characters[a.min(b)..a.max(b)] {
        match character {
            _ if rng.chance(0.05) => pattern.push(rng.pick(&['_', '%'])),
            '%' | '_' | '\\' => pattern.extend(['\\', *character]),
            _ => pattern.push(*character),
        }
    }
    match rng.below(4) {
        0 => format!("{pattern}%"),
        1 => format!("%{pattern}"),
        _ => format!("%{pattern}%"),
    }
}

/// Comparisons with `=`, `IN` and `LIKE`, which index files of columns of kind ID, FACET and TEXT answer.
async fn check_comparisons(engine: &Engine, rng: &mut Rng, context: &str) {
    let values = sql(engine, "SELECT DISTINCT b FROM logs WHERE b IS NOT NULL ORDER BY b").await;
    let values: Vec<String> = values
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["b"].as_str().unwrap().replace('\'', "''")
        })
        .collect();
    for _ in 0..3 {
        let (one, other) = (rng.pick(&values), rng.pick(&values));
        let text = rng.pick(&values).replace("''", "'");
        let like = like_pattern(rng, &text).replace('\'', "''");
        let condition = match rng.below(11) {
            0 => format!("b = '{one}'"),
            1 => format!("'{one}' = b AND id < {}", rng.below(250)),
            2 => format!("b IN ('{one}', '{other}', 'none', 'a', 'b')"),
            3 => format!("b = '{one}' OR search('a:read')"),
            4 => format!("NOT (b = '{one}' AND search('a:read'))"),
            5 => format!("id = {} OR b = '{one}'", rng.below(250)),
            6 => format!("b NOT LIKE '{like}'"),
            7 => format!("NOT (b LIKE '{like}')"),
            8 => format!("b ILIKE '{like}'"),
            _ => format!("b LIKE '{like}'"),
        };
        for selected in ["id", "count(*)"] {
            let order = if selected == "id" { " ORDER BY id" } else { "" };
            let indexed = sql(engine, &format!("SELECT {selected} FROM logs WHERE {condition}{order}")).await;
            let scanned = format!(
                "SELECT {selected} FROM logs WHERE CASE WHEN id >= 0 THEN {condition} ELSE false END{order}"
            );
            assert_eq!(indexed, sql(engine, &scanned).await, "{context}: {condition}");
        }
    }
}

async fn check(engine: &Engine, rng: &mut Rng, context: &str) {
    check_comparisons(engine, rng, context).await;
    let oracle = SearchOracle::default();
    for _ in 0..6 {
        let query = oracle.random_query(rng, 2).text();
        if let Some((indexed, scanned)) = both(engine, rng, &query).await {
            assert_eq!(indexed, scanned, "{context}: {query}");
        }
    }
}

/// Waits until the rows of a word are counted without reading any: once all are in files.
async fn until_counted_by_index(engine: &Engine) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let plan = "EXPLAIN SELECT count(*) FROM logs WHERE search('n:2') AND _offset < 1000";
        let plan = sql(engine, plan).await;
        if !plan.contains(".parquet") {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{plan}");
        tokio::task::yield_now().await;
    }
}

/// Waits until `DESCRIBE` has the figures of a column of kind ID, as SQL counts them.
async fn until_described(engine: &Engine, column: &str) {
    let counts = format!("SELECT count({column}) AS r, count(DISTINCT {column}) AS t FROM logs");
    let counts: serde_json::Value = serde_json::from_str(&sql(engine, &counts).await).unwrap();
    let expected = format!("\"rows\":{},\"terms\":{},", counts["r"], counts["t"]);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let described = sql(engine, "DESCRIBE SEARCH INDEX ON logs").await;
        let of_column = format!("\"column\":\"{column}\",\"kind\":\"ID\"");
        if described.lines().any(|line| line.contains(&of_column) && line.contains(&expected)) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{described} has no {expected}");
        tokio::task::yield_now().await;
    }
}

/// Waits until a line of `SHOW SEARCH INDEXES` has a text.
pub(crate) async fn until(engine: &Engine, text: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let shown = sql(engine, "SHOW SEARCH INDEXES").await;
        if shown.contains(text) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{shown} has no {text}");
        tokio::task::yield_now().await;
    }
}

fn index_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { index_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|ending| ending == "idx"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn index_files_change_no_answer() {
    let cases: usize = std::env::var("SOAK_CASES").map_or(0, |cases| cases.parse().unwrap());
    let rounds = 1 + cases / 250;
    for (seed, create) in INDEXES.iter().cycle().take(INDEXES.len() * rounds).enumerate() {
        let mut rng = Rng::new(seed as u64);
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path()).await;
        sql(&engine, "CREATE STREAM logs (id LONG NOT NULL, a JSON, b STRING, n JSON)").await;
        let mut next = 0;
        for part in 0..6 {
            let lines = events(&mut rng, next, 40);
            // Texts of `b` are single.
            let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("\"b\":[")).collect();
            append(&engine, "logs", &lines.join("\n"), None).await;
            next += 40;
            if part == 2 {
                sql(&engine, create).await;
            }
            check(&engine, &mut rng, "while files are built").await;
        }
        until(&engine, "\"waiting_files\":0").await;
        // Files without the word are left out of the plan.
        let plan = sql(&engine, "EXPLAIN SELECT id FROM logs WHERE search('a:nowhere')").await;
        assert!(!plan.contains(".parquet"), "{plan}");
        check(&engine, &mut rng, "with all files").await;
        assert!(plan.contains("files whose rows a search index selects: "), "{plan}");
        if create.contains("b TEXT") || create.ends_with("(*)") {
            let plan = sql(&engine, "EXPLAIN SELECT id FROM logs WHERE b LIKE '% nowhere %'").await;
            assert!(!plan.contains(".parquet"), "{plan}");
        }
        if create.contains("b ID") {
            until_described(&engine, "b").await;
            let plan = sql(&engine, "EXPLAIN SELECT id FROM logs WHERE b = 'nowhere'").await;
            assert!(!plan.contains(".parquet"), "{plan}");
        }
        if create.contains("n ID") {
            until_counted_by_index(&engine).await;
        }
        // Deleted and damaged under the server.
        for file in index_files(dir.path()) {
            match rng.below(4) {
                0 => std::fs::remove_file(&file).unwrap(),
                1 => {
                    let mut bytes = std::fs::read(&file).unwrap();
                    let at = rng.below(bytes.len());
                    bytes[at] ^= 1 << rng.below(8);
                    std::fs::write(&file, bytes).unwrap();
                }
                2 => {
                    let bytes = std::fs::read(&file).unwrap();
                    std::fs::write(&file, &bytes[..rng.below(bytes.len())]).unwrap();
                }
                _ => {}
            }
        }
        check(&engine, &mut rng, "with damaged files").await;
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path()).await;
        check(&engine, &mut rng, "after a restart").await;
        sql(&engine, "ALTER SEARCH INDEX ON logs ADD id ID").await;
        check(&engine, &mut rng, "after ALTER").await;
        sql(&engine, "ALTER SEARCH INDEX ON logs REBUILD").await;
        until(&engine, "\"waiting_files\":0").await;
        check(&engine, &mut rng, "with files of another definition").await;
        sql(&engine, "DROP SEARCH INDEX ON logs").await;
        check(&engine, &mut rng, "without an index").await;
        stop(engine, Duration::from_secs(5)).await;
    }
}

/// Waits until all events that are stored by now are in files with an index file.
async fn until_indexed(engine: &Engine, name: &str) {
    let (name, wait) = (StreamName::new(name).unwrap(), Duration::from_secs(60));
    let progress = engine.await_search_index(&Principal::anonymous(), &name, wait).await.unwrap();
    assert!(progress.is_complete, "{progress:?}");
}

/// The index files below a folder with their bytes.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    index_files(folder).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Builds all index files anew, and compares them with those that were there; damage was noticed before.
async fn check_rebuilt(engine: &Engine, name: &str, folder: &Path, context: &str) {
    let before = bytes_of(folder);
    let built = engine.search_metrics().unwrap().files_built;
    sql(engine, &format!("ALTER SEARCH INDEX ON {name} REBUILD")).await;
    until_indexed(engine, name).await;
    assert!(engine.search_metrics().unwrap().files_built > built, "{context}: nothing was built");
    let after = bytes_of(folder);
    assert!(!after.is_empty(), "{context}: no index files");
    for (path, bytes) in after {
        let old = before.get(&path).unwrap_or_else(|| panic!("{context}: {} is new", path.display()));
        assert_eq!(old.len(), bytes.len(), "{context}: {}", path.display());
        assert!(*old == bytes, "{context}: {} has other bytes", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_index_files_are_those_that_are_built_of_the_rows() {
    for (seed, create) in INDEXES.iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path()).await;
        sql(&engine, "CREATE STREAM logs (id LONG NOT NULL, a JSON, b STRING, n JSON)").await;
        sql(&engine, create).await;
        let (mut next, mut merged) = (0, 0);
        // Twice as many commits as compaction merges at least, in two lives of the server.
        for part in 0..36 {
            let count = 1 + rng.below(30);
            let lines = events(&mut rng, next, count);
            let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("\"b\":[")).collect();
            append(&engine, "logs", &lines.join("\n"), None).await;
            next += count;
            until_indexed(&engine, "logs").await;
            if part == 8 {
                // A column that the files so far have only in the texts of their events.
                sql(&engine, "ALTER STREAM logs ADD COLUMN more STRING").await;
            }
            if part == 20 {
                merged += engine.search_metrics().unwrap().files_merged;
                stop(engine, Duration::from_secs(5)).await;
                engine = open(dir.path()).await;
            }
        }
        until_indexed(&engine, "logs").await;
        merged += engine.search_metrics().unwrap().files_merged;
        // Compaction may be late on a busy machine.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while merged == 0 {
            append(&engine, "logs", &format!("{{\"id\":{next}}}"), None).await;
            next += 1;
            until_indexed(&engine, "logs").await;
            merged += engine.search_metrics().unwrap().files_merged;
            assert!(tokio::time::Instant::now() < deadline, "seed {seed}: no index file was merged");
        }
        check(&engine, &mut rng, "with merged files").await;
        check_rebuilt(&engine, "logs", dir.path(), &format!("seed {seed}")).await;
        check(&engine, &mut rng, "with rebuilt files").await;
        stop(engine, Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_file_that_exceeds_the_memory_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut history = quick(dir.path());
    history.search_memory_bytes_max = 8 << 20;
    let engine = open_with(history).await;
    let words = "concat('w', i, ' x', i * 7 % 5000, ' v', i * i % 100003, ' common ', i % 3)";
    let numbers = "generate_series(1, 120000) AS s(i)";
    sql(
        &engine,
        &format!("CREATE TABLE big AS SELECT i, {words} AS text, concat('k', i) AS k FROM {numbers}"),
    )
    .await;
    sql(&engine, "CREATE SEARCH INDEX ON big (text TEXT, k ID)").await;
    until_indexed(&engine, "big").await;
    let queries = ["w77777", "common", "\"x7 v1\"", "k:k1234", "text:w7* AND 2", "NOT common"];
    let answer = async |engine: &Engine, query: &str, is_indexed: bool| {
        let search = format!("search('{query}')");
        let condition = match is_indexed {
            true => search,
            false => format!("CASE WHEN i > 0 THEN {search} ELSE false END"),
        };
        sql(engine, &format!("SELECT count(*), sum(i), min(k) FROM big WHERE {condition}")).await
    };
    for query in queries {
        assert_eq!(answer(&engine, query, true).await, answer(&engine, query, false).await, "{query}");
    }
    stop(engine, Duration::from_secs(5)).await;
    // The server's default suffices for all of it.
    let engine = open(dir.path()).await;
    sql(&engine, "SELECT count(*) FROM big").await;
    check_rebuilt(&engine, "big", dir.path(), "big").await;
    stop(engine, Duration::from_secs(5)).await;
}
