//! Tests of statements that would exhaust the machine: the most memory and time that each takes.
//!
//! They run one after another in a process of their own, whose allocator counts; otherwise the peaks of other tests would
//! count too. The test prints its measurements: `cargo test -p swiftwater-sql --test attacks -- --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "the figures are what one reads")]

#[path = "sql/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{MemoryTables, block_on, csv, numbers, sql};
use swiftwater_sql::{ErrorKind, RunOptions, Sql, SqlOptions, count_allocated, count_freed};
use tokio::time::Instant;

/// The system's allocator, counted for statements as the server's is, and for this test.
struct Counted;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn took(bytes: usize) {
    count_allocated(bytes);
    let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
}

fn gave(bytes: usize) {
    count_freed(bytes);
    HELD_BYTES.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

const MEMORY_BYTES: usize = 64 << 20;
/// Memory that all statements may take beyond the limits of those that run.
const BEYOND_BYTES: usize = 1 << 30;

/// SQL over tables in memory, as the helpers of tests start it.
fn start(options: SqlOptions, tables: Arc<MemoryTables>) -> Sql {
    Sql::new(options, tables).unwrap()
}

fn over_rows(threads: usize) -> Sql {
    let tables = Arc::new(MemoryTables::default());
    // `a`: 60,000 rows of k, g and a text of some 60 bytes.
    numbers(&tables, "a", 12, 5_000);
    let options = SqlOptions { memory_bytes_max: MEMORY_BYTES, threads, ..SqlOptions::default() };
    sql(tables, options)
}

fn nested(before: &str, inner: &str, after: &str, depth: usize) -> String {
    format!("{}{inner}{}", before.repeat(depth), after.repeat(depth))
}

/// Texts whose parts are nested `depth` deep, one for each construct, and whether a fault is in the innermost.
fn nestings(depth: usize) -> Vec<String> {
    let in_select = |before: &str, inner: &str, after: &str| {
        format!("SELECT {} AS x FROM a LIMIT 1", nested(before, inner, after, depth))
    };
    let mut texts = Vec::new();
    for fault in ["", " 1 1"] {
        texts.extend([
            in_select("(", &format!("k{fault}"), ")"),
            in_select("NOT (", &format!("true{fault}"), ")"),
            in_select("NOT ", &format!("true{fault}"), ""),
            in_select("- ", &format!("k{fault}"), ""),
            in_select("CAST(", &format!("k{fault}"), " AS BIGINT)"),
            in_select("abs(", &format!("k{fault}"), ")"),
            in_select("coalesce(", &format!("k{fault}"), ", g)"),
            in_select("ARRAY[", &format!("k{fault}"), "]"),
            in_select("[", &format!("k{fault}"), "]"),
            in_select("ROW(", &format!("k{fault}"), ")"),
            in_select("struct(", &format!("k{fault}"), ")"),
            in_select("CASE WHEN ", &format!("k > 1{fault}"), " THEN true ELSE false END"),
            in_select("CASE WHEN k = 1 THEN 1 ELSE ", &format!("k{fault}"), " END"),
            in_select("CASE g WHEN 1 THEN ", &format!("k{fault}"), " END"),
            in_select("(1 + ", &format!("k{fault}"), ")"),
            in_select("(k = 1 AND ", &format!("true{fault}"), ")"),
            in_select("(k = 1 OR g = 2 AND ", &format!("true{fault}"), ")"),
            in_select("k IN (1, ", &format!("2{fault}"), ")"),
            in_select("(k BETWEEN ", &format!("2{fault}"), " AND 9)"),
            in_select("concat(s, ", &format!("s{fault}"), ")"),
            nested("SELECT (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE EXISTS (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE NOT EXISTS (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT EXISTS (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE k IN (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE k NOT IN (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE k = (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a WHERE k > ANY (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT max(k) FROM a WHERE k < (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT * FROM (", &format!("SELECT k FROM a{fault}"), ") q", depth),
            nested("SELECT k + k AS k FROM (", &format!("SELECT k FROM a{fault}"), ") q", depth),
            nested("SELECT k FROM a JOIN (", &format!("SELECT k FROM a{fault}"), ") q USING (k)", depth),
            nested(
                "SELECT k, count(*) AS n FROM (",
                &format!("SELECT k FROM a{fault}"),
                ") q GROUP BY k",
                depth,
            ),
            nested("WITH c AS (", &format!("SELECT 1 AS x{fault}"), ") SELECT * FROM c", depth),
            nested("(", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a UNION (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a UNION ALL (", &format!("SELECT 1{fault}"), ")", depth),
            nested("SELECT k FROM a EXCEPT (", &format!("SELECT 1{fault}"), ")", depth),
            format!("SELECT * FROM {}", nested("(", &format!("a{fault}"), ")", depth)),
        ]);
    }
    texts
}

/// Texts with `length` parts in a row.
fn chains(length: usize) -> Vec<String> {
    let joined = |part: &str, link: &str| vec![part; length].join(link);
    let numbered =
        |part: &dyn Fn(usize) -> String, link: &str| (0..length).map(part).collect::<Vec<_>>().join(link);
    vec![
        format!("SELECT {} AS x FROM a LIMIT 1", joined("k", " + ")),
        format!("SELECT {} AS x FROM a LIMIT 1", joined("s", " || ")),
        format!("SELECT count(*) FROM a WHERE {}", joined("k = 1", " OR ")),
        format!("SELECT count(*) FROM a WHERE {}", numbered(&|n| format!("k <> {n}"), " AND ")),
        format!("SELECT count(*) FROM a WHERE {}", numbered(&|n| format!("(k = {n} AND g = 1)"), " OR ")),
        format!(
            "SELECT CASE {} END AS x FROM a LIMIT 1",
            numbered(&|n| format!("WHEN k = {n} THEN {n}"), " ")
        ),
        format!("SELECT coalesce({}) AS x FROM a LIMIT 1", joined("k", ", ")),
        format!("SELECT {} FROM a LIMIT 1", numbered(&|n| format!("k + {n}"), ", ")),
        joined("SELECT k FROM a", " UNION ALL "),
        joined("SELECT k FROM a", " UNION "),
        joined("SELECT k FROM a", " INTERSECT "),
    ]
}

/// Few in a row: a plan of each is as large as that of a large program's.
fn joins(length: usize) -> Vec<String> {
    let numbered = |part: &dyn Fn(usize) -> String| (1..length).map(part).collect::<String>();
    vec![
        format!("SELECT count(*) FROM a t0{}", numbered(&|n| format!(" JOIN a t{n} ON t{n}.k = t0.k"))),
        format!(
            "SELECT count(*) FROM a t0{}",
            numbered(&|n| format!(" LEFT JOIN a t{n} ON t{n}.k = t{}.k", n - 1))
        ),
        format!("SELECT count(*) FROM a t0{} WHERE t0.k < 0", numbered(&|n| format!(", a t{n}"))),
        format!(
            "WITH c0 AS (SELECT k FROM a){} SELECT count(*) FROM c{}",
            numbered(&|n| format!(", c{n} AS (SELECT k + 1 AS k FROM c{} WHERE k > 0)", n - 1)),
            length - 1
        ),
    ]
}

/// Plans a text; what it took, and how it ended. A plan that takes minutes is the fault that is looked for.
async fn planned(sql: &Sql, text: &str) -> (Duration, &'static str) {
    let options = RunOptions { duration_max: Some(Duration::from_secs(60)), ..RunOptions::default() };
    let begun = Instant::now();
    let end = match csv(sql, &format!("EXPLAIN {text}"), options).await {
        Ok(_) => "planned",
        Err(error) if error.kind() == ErrorKind::Limit => {
            let shown: String = text.chars().take(60).collect();
            assert!(!error.to_string().contains("took longer"), "{error}: {shown}");
            "refused"
        }
        Err(_) => "faulty",
    };
    (begun.elapsed(), end)
}

fn is_long() -> bool {
    std::env::var_os("SOAK_CASES").is_some()
}

#[test]
fn no_text_takes_long_to_plan() {
    let sql = over_rows(2);
    let mut texts = Vec::new();
    let depths: &[usize] = if is_long() { &[4, 8, 12, 16, 20, 30, 40, 62, 64, 65, 200] } else { &[40] };
    depths.iter().for_each(|depth| texts.extend(nestings(*depth)));
    if is_long() {
        texts.extend([joins(20), chains(200), chains(5000), joins(5000)].concat());
    }
    let mut took: Vec<(Duration, &str, &str)> = Vec::new();
    for text in &texts {
        let (time, end) = block_on(planned(&sql, text));
        took.push((time, end, text));
    }
    took.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    for (time, end, text) in took.iter().take(25) {
        println!("{time:>10.1?} {end} {} bytes {}", text.len(), text.chars().take(60).collect::<String>());
    }
}

/// Lines of the plans of three levels of comparisons with three values, and some more.
const PLAN_LINES_MAX: usize = 2000;

/// The lines of its plans, logical and physical, and none where a statement is refused by a limit.
async fn plan_lines(sql: &Sql, text: &str) -> Option<usize> {
    match csv(sql, &format!("EXPLAIN {text}"), RunOptions::default()).await {
        Ok(plans) => Some(plans.lines().count()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}: {text}");
            None
        }
    }
}

#[test]
fn nested_comparisons_with_queries_have_small_plans_or_are_refused() {
    let sql = over_rows(1);
    let innermost = "SELECT k FROM a";
    for before in [
        "SELECT k FROM a WHERE k IN (",
        "SELECT k FROM a WHERE k NOT IN (",
        "SELECT k FROM a WHERE NOT k IN (",
        "SELECT k FROM a WHERE (k IN (",
        "SELECT k FROM a WHERE k > ANY (",
        "SELECT k FROM a WHERE k <> ALL (",
        "SELECT k FROM a WHERE NOT k = ANY (",
        "SELECT k NOT IN (",
    ] {
        let mut lines = Vec::new();
        for depth in 1..=9 {
            let text = match before.starts_with("SELECT k FROM a WHERE (k") {
                true => nested(before, innermost, ") OR k = 1)", depth),
                false if before.starts_with("SELECT k NOT") => nested(before, innermost, ") FROM a", depth),
                false => nested(before, innermost, ")", depth),
            };
            lines.push(block_on(plan_lines(&sql, &text)));
        }
        println!("{before} {lines:?}");
        // Two levels are planned always, and a level never more than the limit of operators.
        assert!(lines.iter().take(2).all(Option::is_some), "{before} {lines:?}");
        assert!(lines.iter().flatten().all(|lines| *lines < PLAN_LINES_MAX), "{before} {lines:?}");
        assert!(lines.last().is_some_and(Option::is_none), "{before} {lines:?}");
    }
}

/// Statements that would take far more memory than they may, or never end.
const ATTACKS: [&str; 14] = [
    "SELECT max(array_length(c)) FROM (SELECT array_agg(k) OVER (ORDER BY k) c FROM a) q",
    "SELECT count(*) FROM (SELECT string_agg(s, ',') OVER (ORDER BY k) c FROM a) q WHERE c = ''",
    "SELECT count(*) FROM (SELECT count(*) n FROM a GROUP BY CUBE (k % 2, k % 3, k % 5, k % 7, g % 2, g % 3, g % 5, g % 7, \
     k % 11, k % 13, g % 11, k % 17)) q",
    "SELECT max(length(regexp_replace(repeat(s, 20), '.', repeat('z', 3000), 'g'))) FROM a",
    "SELECT max(length(repeat(s, 1700) || repeat(s, 1700))) FROM a",
    "SELECT max(length(concat(repeat(s, 1700), repeat(s, 1700), repeat(s, 1700)))) FROM a",
    "SELECT sum(levenshtein(repeat(s, 20), repeat(s || 'z', 20))) FROM a",
    "SELECT max(length(upper(repeat(s, 1700)))) FROM a",
    "SELECT max(array_length(string_to_array(repeat(s, 1700), NULL))) FROM a",
    "SELECT max(length(array_to_string(array_repeat(s, 2000), ','))) FROM a",
    "SELECT max(length(encode(repeat(s, 1700)::bytea, 'hex'))) FROM a",
    "SELECT max(length(c)) FROM (SELECT string_agg(repeat(s, 100), ',') AS c FROM a) q",
    "SELECT max(array_length(c)) FROM (SELECT array_agg(repeat(s, 100)) AS c FROM a) q",
    "SELECT count(*) FROM (SELECT array_agg(k) OVER (ROWS BETWEEN 20000 PRECEDING AND 20000 FOLLOWING) c FROM a) q WHERE c IS NULL",
];

/// 22 queries that each join a table with itself, joined with one another.
fn self_joins() -> String {
    let withs = (0..22).map(|n| format!("c{n} AS (SELECT x.k, y.s FROM a x JOIN a y ON x.k = y.k)"));
    let joined = (1..22).map(|n| format!(" JOIN c{n} ON c{n}.k = c0.k"));
    format!(
        "WITH {} SELECT count(*) FROM c0{}",
        withs.collect::<Vec<_>>().join(", "),
        joined.collect::<String>()
    )
}

#[test]
fn attacks_stay_within_their_memory_and_end_when_they_are_cancelled() {
    let sql = over_rows(2);
    let mut texts: Vec<String> = ATTACKS.iter().map(|text| (*text).to_owned()).collect();
    texts.push(self_joins());
    let run_ms = if is_long() { 60_000 } else { 1_500 };
    let mut told = Vec::new();
    for text in &texts {
        let held = HELD_BYTES.load(Ordering::Relaxed);
        PEAK_BYTES.store(held, Ordering::Relaxed);
        let mine = RunOptions { id: Some("mine".to_owned()), ..RunOptions::default() };
        let (end, left) = block_on(async {
            let run = csv(&sql, text, mine);
            let mut run = std::pin::pin!(run);
            let (end, ended) = match tokio::time::timeout(Duration::from_millis(run_ms), &mut run).await {
                Ok(end) => (end, Instant::now()),
                Err(_) => {
                    assert!(sql.cancel("mine"), "{text}");
                    let cancelled = Instant::now();
                    (run.await, cancelled)
                }
            };
            while !sql.running().is_empty() {
                assert!(ended.elapsed() < Duration::from_secs(60), "it does not end: {text}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (end, ended.elapsed())
        });
        let peak = PEAK_BYTES.load(Ordering::Relaxed).saturating_sub(held);
        let end = end.map_or_else(|error| error.to_string(), |rows| format!("{rows:?}"));
        println!(
            "{:>6} MiB, ended {left:>7.1?} after its cancel: {}",
            peak >> 20,
            text.chars().take(70).collect::<String>()
        );
        println!("        {}", end.chars().take(150).collect::<String>());
        told.push((peak, text));
    }
    for (peak, text) in told {
        assert!(peak <= MEMORY_BYTES + BEYOND_BYTES, "{} MiB: {text}", peak >> 20);
    }
}
