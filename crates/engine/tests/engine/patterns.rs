//! Tests patterns in an engine: the examples of the document, and the times of matches.

use std::{ops::ControlFlow, path::Path as FilePath, sync::Arc};

use bytes::Bytes;
use swiftwater_engine::{EndReason, EngineConfig, InputOptions, InputSource, Principal, run_input};
use swiftwater_event::Path;
use swiftwater_testkit::{Rng, TestClock};

use crate::live::{Bench, START, reason, text};

/// The records of a query over an input whose events arrive as `at` says, on so many shards.
fn answer(query: &str, events: &str, shards: usize) -> String {
    let options = InputOptions {
        config: EngineConfig { shards, ..EngineConfig::default() },
        time_field: Some(Path::field("at")),
        ..InputOptions::default()
    };
    let mut records = String::new();
    let source = InputSource::Bytes(Bytes::copy_from_slice(events.as_bytes()));
    run_input(source, query, &options, Arc::new(TestClock::at(0)), &mut |_| {}, &mut |emit| {
        records.push_str(&String::from_utf8_lossy(&emit.records.text));
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|why| panic!("{query}\n{why}"));
    records
}

#[test]
fn examples_of_the_document_answer_as_it_says() {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/patterns.md");
    let document = std::fs::read_to_string(path).expect("a document");
    let mut found = 0;
    for example in document.split("```bql\n").skip(1) {
        let (query, behind) = example.split_once("```").expect("its end");
        let mut blocks = behind.split("```ndjson\n").skip(1).filter_map(|block| block.split("```").next());
        let (events, records) = (blocks.next().expect("its events"), blocks.next().expect("its answer"));
        for shards in [1, 3] {
            assert_eq!(answer(query, events, shards), records, "{query}");
        }
        found += 1;
    }
    assert!(found >= 4, "{found} examples");
}

/// Queries, and whether they go by the events' own time.
const QUERIES: [&str; 4] = [
    "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k MEASURES COUNT(F.*) AS n, SUM(F.x) AS s, match_end AS e
       PATTERN (F{2,} S) WITHIN 300 DEFINE F AS kind = 'a', S AS kind = 'b')",
    "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k MEASURES match_start AS b, COUNT(A.*) AS n, match_end AS e
       AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ !B) WITHIN 40 DEFINE A AS kind = 'a', B AS kind = 'b')",
    "SELECT *, match_end AS e FROM STREAM() MATCH_RECOGNIZE (MEASURES A.x AS a, B.x AS b
       AFTER MATCH SKIP TO NEXT ROW PATTERN (A !C B) WITHIN 100 DEFINE B AS B.x > A.x + 5, C AS kind = 'c') WHERE b != 7",
    "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k ORDER BY EVENT(ts, 20) MEASURES A.ts AS a, B.ts AS b
       PATTERN (A B) WITHIN 60 DEFINE A AS kind = 'a', B AS kind = 'b' AND B.x >= A.x)",
];

#[test]
fn a_running_engine_finds_what_an_input_with_the_same_times_does() {
    let mut found = [0; QUERIES.len()];
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let bench = Bench::with(EngineConfig { shards: 1 + rng.below(3), ..EngineConfig::default() });
        let mut queries = QUERIES.map(|query| bench.submit(query));
        let (mut at, mut all, mut batch) = (START, Vec::new(), Vec::new());
        for _ in 0..300 {
            if rng.chance(0.5) {
                if !batch.is_empty() {
                    bench.send(&std::mem::take(&mut batch).join("\n"));
                }
                if rng.chance(0.1) {
                    bench.drained();
                }
                let millis = rng.pick(&[0, 1, 3, 10, 30]);
                bench.clock.advance_ms(millis);
                at += millis as i64;
            }
            let (k, x, ts) = (rng.below(4), rng.below(10), at - rng.below(30) as i64);
            let kind = rng.pick(&["a", "a", "b", "c", "d"]);
            let event = format!(r#"{{"at":{at},"k":{k},"kind":"{kind}","x":{x},"ts":{ts}}}"#);
            batch.push(event.clone());
            all.push(event);
        }
        bench.send(&batch.join("\n"));
        bench.drained();
        for (place, query) in queries.iter_mut().enumerate() {
            bench
                .engine
                .end_query(&Principal::local(), &query.query().id, EndReason::Killed)
                .expect("it runs");
            let mut records = String::new();
            while let Some(emit) = query.next_blocking() {
                records.push_str(text(&emit));
            }
            assert_eq!(
                records,
                answer(QUERIES[place], &all.join("\n"), 1),
                "seed {seed}: {}",
                QUERIES[place]
            );
            found[place] += records.lines().count();
        }
    }
    assert!(found.iter().all(|count| *count > 50), "{found:?}");
}

const ABSENT: &str = "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k MEASURES A.n AS n, match_end - match_start AS took \
     PATTERN (A !B) WITHIN 1000 DEFINE A AS kind = 'a', B AS kind = 'b')";

#[test]
fn absence_is_told_when_the_clock_says_that_the_time_is_over() {
    let bench = Bench::new();
    let mut query = bench.submit(ABSENT);
    bench.send("{\"k\":1,\"kind\":\"a\",\"n\":1}\n{\"k\":2,\"kind\":\"a\",\"n\":2}");
    bench.drained();
    bench.clock.advance_ms(999);
    bench.send("{\"k\":2,\"kind\":\"b\"}\n{\"k\":3,\"kind\":\"a\",\"n\":3}");
    bench.drained();
    bench.clock.advance_ms(1);
    let first = query.next_blocking().expect("an emit");
    assert_eq!(text(&first), "{\"k\":1,\"n\":1,\"took\":1000}\n");
    bench.clock.advance_ms(999);
    let second = query.next_blocking().expect("an emit");
    assert_eq!(text(&second), "{\"k\":3,\"n\":3,\"took\":1000}\n");
    assert_eq!((second.meta.counts.seen, second.meta.counts.matched), (4, 4));
}

#[test]
fn limit_ends_a_query_whose_last_match_was_absence() {
    let bench = Bench::new();
    let mut query = bench.submit(&format!("{ABSENT} LIMIT 1"));
    bench.send("{\"k\":1,\"kind\":\"a\",\"n\":1}\n{\"k\":2,\"kind\":\"a\",\"n\":2}");
    bench.drained();
    bench.clock.advance_ms(5000);
    let last = query.next_blocking().expect("an emit");
    assert_eq!(text(&last), "{\"k\":1,\"n\":1,\"took\":1000}\n");
    assert_eq!(reason(&last), Some(&EndReason::Limit));
    assert_eq!(query.next_blocking(), None);
}

#[test]
fn limit_takes_no_event_behind_its_last_match() {
    let bench = Bench::new();
    let mut query = bench.submit(
        "SELECT n FROM STREAM() MATCH_RECOGNIZE (MEASURES B.n AS n PATTERN (A B) WITHIN 1000 DEFINE A AS n = 1, B AS n = 2) LIMIT 1",
    );
    bench.send("{\"n\":1}\n{\"n\":0}\n{\"n\":2}\n{\"n\":1}\n{\"n\":2}");
    let last = query.next_blocking().expect("an emit");
    assert_eq!(text(&last), "{\"n\":2}\n");
    assert_eq!(reason(&last), Some(&EndReason::Limit));
    assert_eq!((last.meta.counts.seen, last.meta.counts.matched), (3, 2));
    assert_eq!(query.next_blocking(), None);
}

#[test]
fn too_many_begun_matches_end_a_query_with_a_reason() {
    let bench = Bench::with(EngineConfig { shards: 2, pattern_partials_max: 5, ..EngineConfig::default() });
    let mut query = bench.submit("SELECT k FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k PATTERN (A B) WITHIN 1000 DEFINE A AS n = 1, B AS n = 2)");
    bench.send(&"{\"k\":1,\"n\":1}\n".repeat(6));
    let last = query.next_blocking().expect("an emit");
    let Some(EndReason::Failed(why)) = reason(&last) else { panic!("{:?}", reason(&last)) };
    assert!(why.contains("engine.pattern_partials_max"), "{why}");
}

#[test]
fn matches_are_grouped() {
    let bench = Bench::new();
    let mut query = bench.submit(
        "SELECT k, COUNT(*) AS n FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k PATTERN (A) WITHIN 5) GROUP BY k",
    );
    bench.send("{\"k\":1}\n{\"k\":1}\n{\"k\":2}");
    bench.drained();
    bench.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed).expect("it runs");
    let last = query.next_blocking().expect("an emit");
    assert_eq!(text(&last), "{\"k\":1,\"n\":2}\n{\"k\":2,\"n\":1}\n");
}
