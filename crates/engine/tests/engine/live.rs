//! Tests queries on a running engine, with a clock that the tests move.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, EngineError, FastQuery, Principal, RuntimeError,
    SlowReader, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, EventBatch, StreamName, check_block};
use swiftwater_testkit::TestClock;

pub(crate) const START: i64 = 1_700_000_000_000;

pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<TestClock>,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
}

fn batch(text: &str) -> EventBatch {
    let checked = check_block(Bytes::copy_from_slice(text.as_bytes()), &CheckLimits::default(), 1);
    assert_eq!(checked.rejected, 0, "{text}");
    checked.batch
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(EngineConfig { shards: 2, ..EngineConfig::default() })
    }

    pub(crate) fn with(config: EngineConfig) -> Bench {
        let stream = StreamName::new("s").expect("a name");
        let config = EngineConfig { default_stream: Some(stream.clone()), tick_ms: 1, ..config };
        let clock = Arc::new(TestClock::at(START));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let for_engine: Arc<TestClock> = Arc::clone(&clock);
        Bench { engine: Engine::start(config, for_engine), clock, stream, runtime }
    }

    pub(crate) fn submit(&self, query: &str) -> Subscription {
        self.submit_with(query, SubmitOptions::default()).expect("a query")
    }

    fn submit_with(&self, query: &str, options: SubmitOptions) -> Result<Subscription, RuntimeError> {
        self.engine.submit(&Principal::local(), query, options)
    }

    pub(crate) fn send(&self, text: &str) {
        let options = AppendOptions::default();
        self.engine
            .append_blocking(&Principal::local(), &self.stream, batch(text), options)
            .expect("it runs");
    }

    pub(crate) fn drained(&self) {
        self.runtime.block_on(self.engine.drained());
    }
}

pub(crate) fn text(emit: &Emit) -> &str {
    std::str::from_utf8(&emit.records.text).expect("UTF-8")
}

pub(crate) fn reason(emit: &Emit) -> Option<&EndReason> {
    emit.meta.finished.as_ref().map(|finished| &finished.reason)
}

#[test]
fn raw_matches_come_one_by_one_and_limit_ends() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT a FROM STREAM() WHERE b = 'x' LIMIT 3");
    bench.send("{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}");
    let first = query.next_blocking().unwrap();
    assert_eq!(text(&first), "{\"a\":1}\n");
    assert_eq!(reason(&first), None);
    bench.send("{\"a\":3,\"b\":\"x\"}\n{\"a\":4,\"b\":\"x\"}\n{\"a\":5,\"b\":\"x\"}");
    let last = query.next_blocking().unwrap();
    assert_eq!(text(&last), "{\"a\":3}\n{\"a\":4}\n");
    assert_eq!(reason(&last), Some(&EndReason::Limit));
    assert_eq!(query.next_blocking(), None);
    assert_eq!((last.meta.counts.seen, last.meta.counts.matched), (4, 3));
}

#[test]
fn windows_hold_what_arrived_in_them() {
    let bench = Bench::new();
    let mut query = bench
        .submit("SELECT k, COUNT(*) AS n FROM STREAM(2500, TIME) GROUP BY k WINDOWING TUMBLING(1000, TIME)");
    bench.send("{\"k\":1}\n{\"k\":2}\n{\"k\":1}");
    bench.drained();
    bench.clock.advance_ms(999);
    bench.send("{\"k\":1}");
    bench.drained();
    bench.clock.advance_ms(1);
    // At the boundary an event belongs to the next window, whether or not the ticker was there before it.
    bench.send("{\"k\":9}");
    let first = query.next_blocking().unwrap();
    assert_eq!(text(&first), "{\"k\":1,\"n\":3}\n{\"k\":2,\"n\":1}\n");
    let window = first.meta.window.unwrap();
    assert_eq!((window.number, window.start, window.end), (1, START, START + 1000));
    bench.clock.advance_ms(1000);
    let second = query.next_blocking().unwrap();
    assert_eq!(text(&second), "{\"k\":9,\"n\":1}\n");
    bench.clock.advance_ms(5000);
    let last = query.next_blocking().unwrap();
    assert_eq!(text(&last), "");
    assert_eq!(reason(&last), Some(&EndReason::Duration));
    assert_eq!(last.meta.window.unwrap().end, START + 2500);
    assert_eq!(query.next_blocking(), None);
}

#[test]
fn additive_windows_keep_all() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM() WINDOWING EVERY(1000, TIME, ALL)");
    for expected in 1..4 {
        bench.send("{}");
        bench.drained();
        bench.clock.advance_ms(1000);
        assert_eq!(text(&query.next_blocking().unwrap()), format!("{{\"n\":{expected}}}\n"));
    }
}

#[test]
fn windows_by_record_count_matches_in_order() {
    let bench = Bench::new();
    let mut raw = bench.submit("SELECT a FROM STREAM() WHERE a > 0 WINDOWING TUMBLING(2, RECORD)");
    let mut sums = bench.submit("SELECT SUM(a) AS s FROM STREAM() WHERE a > 0 WINDOWING TUMBLING(2, RECORD)");
    bench.send("{\"a\":1}\n{\"a\":-1}\n{\"a\":2}\n{\"a\":3}");
    bench.send("{\"a\":4}");
    assert_eq!(text(&raw.next_blocking().unwrap()), "{\"a\":1}\n{\"a\":2}\n");
    assert_eq!(text(&raw.next_blocking().unwrap()), "{\"a\":3}\n{\"a\":4}\n");
    assert_eq!(text(&sums.next_blocking().unwrap()), "{\"s\":3}\n");
    assert_eq!(text(&sums.next_blocking().unwrap()), "{\"s\":7}\n");
}

#[test]
fn events_of_many_small_batches_stay_in_order() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT a FROM STREAM() LIMIT 5000");
    for a in 0..5000 {
        bench.send(&format!("{{\"a\":{a}}}"));
    }
    let mut seen = 0;
    while let Some(emit) = query.next_blocking() {
        for line in text(&emit).lines() {
            assert_eq!(line, format!("{{\"a\":{seen}}}"));
            seen += 1;
        }
    }
    assert_eq!(seen, 5000);
}

#[test]
fn one_answer_comes_at_the_end() {
    let bench = Bench::new();
    let options = SubmitOptions { one_answer: true, ..SubmitOptions::default() };
    let mut query = bench.submit_with("SELECT a FROM STREAM(1000, TIME)", options).unwrap();
    bench.send("{\"a\":1}");
    bench.send("{\"a\":2}");
    bench.drained();
    assert_eq!(query.try_next(), None);
    bench.clock.advance_ms(1000);
    let answer = query.next_blocking().unwrap();
    assert_eq!(text(&answer), "{\"a\":1}\n{\"a\":2}\n");
    assert_eq!(reason(&answer), Some(&EndReason::Duration));
}

#[test]
fn events_at_or_after_the_end_do_not_count() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM(1000, TIME)");
    bench.send("{}");
    bench.clock.advance_ms(1000);
    bench.send("{}");
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"n\":1}\n");
}

#[test]
fn a_query_sees_only_what_comes_after_it() {
    let bench = Bench::new();
    bench.send("{\"a\":1}");
    bench.drained();
    let mut query = bench.submit("SELECT * FROM STREAM() LIMIT 1");
    bench.send("{\"a\":2}");
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":2}\n");
}

#[test]
fn top_rows_are_those_of_all_events() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT a FROM STREAM(1000, TIME) ORDER BY a DESC LIMIT 2");
    for a in [3, 9, 1, 7] {
        bench.send(&format!("{{\"a\":{a}}}"));
    }
    bench.drained();
    bench.clock.advance_ms(1000);
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":9}\n{\"a\":7}\n");
}

#[test]
fn ending_a_query_gives_its_result() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM()");
    bench.send("{}\n{}");
    bench.drained();
    bench.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed).unwrap();
    let last = query.next_blocking().unwrap();
    assert_eq!((text(&last), reason(&last)), ("{\"n\":2}\n", Some(&EndReason::Killed)));
    let again = bench.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
    assert!(matches!(again, Err(EngineError::Runtime(RuntimeError::NoQuery(_)))));
}

#[test]
fn a_reader_that_goes_away_ends_its_query() {
    let bench = Bench::new();
    let query = bench.submit("SELECT COUNT(*) FROM STREAM()");
    assert_eq!(bench.engine.queries(&Principal::local()).len(), 1);
    drop(query);
    while !bench.engine.queries(&Principal::local()).is_empty() {
        std::thread::yield_now();
    }
    assert!(bench.engine.metrics().state_bytes.0 == 0);
}

#[test]
fn detached_queries_wait_for_pick_up() {
    let bench = Bench::new();
    let options = SubmitOptions { detach: true, ..SubmitOptions::default() };
    let id = bench.submit_with("SELECT a FROM STREAM(1000, TIME)", options).unwrap().query().id;
    bench.send("{\"a\":1}");
    bench.drained();
    bench.clock.advance_ms(1000);
    let mut older = bench.engine.attach(&Principal::local(), &id).unwrap();
    let mut query = bench.engine.attach(&Principal::local(), &id).unwrap();
    // The newer reader has taken over.
    assert!(older.next_blocking().is_none());
    drop(older);
    assert!(bench.engine.query(&Principal::local(), &id).unwrap().attached);
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":1}\n");
    assert_eq!(reason(&query.next_blocking().unwrap()), Some(&EndReason::Duration));
    drop(query);
    // A reader whose connection broke asks again for what it may not have got.
    let mut again = bench.engine.attach_after(&Principal::local(), &id, 1).unwrap();
    let emit = again.next_blocking().unwrap();
    assert_eq!((emit.meta.number, reason(&emit)), (2, Some(&EndReason::Duration)));
    assert!(again.next_blocking().is_none());
    drop(again);
    let mut all = bench.engine.attach_after(&Principal::local(), &id, 0).unwrap();
    assert_eq!(text(&all.next_blocking().unwrap()), "{\"a\":1}\n");
    drop(all);
    bench.engine.end_query(&Principal::local(), &id, EndReason::Killed).unwrap();
    assert!(bench.engine.queries(&Principal::local()).is_empty());
    assert_eq!(bench.engine.metrics().subscriber_bytes, 0);
}

#[test]
fn clients_that_ask_at_once_stay_within_the_limit_of_queries() {
    const MOST: usize = 20;
    let bench = Bench::with(EngineConfig { shards: 1, queries_max: MOST, ..EngineConfig::default() });
    let begun: Vec<Subscription> = std::thread::scope(|scope| {
        let ask = |_| {
            scope.spawn(|| {
                let one = || bench.submit_with("SELECT a FROM STREAM()", SubmitOptions::default());
                (0..MOST).filter_map(|_| one().ok()).collect::<Vec<_>>()
            })
        };
        let asking: Vec<_> = (0..8).map(ask).collect();
        asking.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(begun.len(), MOST);
    assert_eq!(bench.engine.queries(&Principal::local()).len(), MOST);
}

#[test]
fn what_was_killed_and_read_is_forgotten() {
    let bench = Bench::new();
    let options = SubmitOptions { detach: true, ..SubmitOptions::default() };
    let id = bench.submit_with("SELECT a FROM STREAM()", options).unwrap().query().id;
    bench.send("{\"a\":1}");
    bench.drained();
    // Its reader still gets the last emit.
    let mut query = bench.engine.attach(&Principal::local(), &id).unwrap();
    bench.engine.end_query(&Principal::local(), &id, EndReason::Killed).unwrap();
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":1}\n");
    assert_eq!(reason(&query.next_blocking().unwrap()), Some(&EndReason::Killed));
    drop(query);
    assert!(bench.engine.queries(&Principal::local()).is_empty());
    assert_eq!(bench.engine.metrics().subscriber_bytes, 0);
}

#[test]
fn what_was_killed_is_neither_listed_nor_counted_and_can_still_be_read() {
    let bench = Bench::new();
    let options = SubmitOptions { detach: true, ..SubmitOptions::default() };
    let id = bench.submit_with("SELECT a FROM STREAM()", options).unwrap().query().id;
    bench.send("{\"a\":1}");
    bench.drained();
    bench.engine.end_query(&Principal::local(), &id, EndReason::Killed).unwrap();
    assert!(bench.engine.queries(&Principal::local()).is_empty());
    assert_eq!(bench.engine.metrics().queries, 0);
    let mut query = bench.engine.attach(&Principal::local(), &id).unwrap();
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":1}\n");
    assert_eq!(reason(&query.next_blocking().unwrap()), Some(&EndReason::Killed));
    drop(query);
    assert!(bench.engine.attach(&Principal::local(), &id).is_err());
    assert_eq!((bench.engine.metrics().queries, bench.engine.metrics().subscriber_bytes), (0, 0));
}

#[test]
fn slow_readers_lose_the_oldest_and_are_told() {
    let bench = Bench::with(EngineConfig { shards: 1, subscriber_emits_max: 4, ..EngineConfig::default() });
    let mut query = bench.submit("SELECT a FROM STREAM()");
    for a in 0..10 {
        bench.send(&format!("{{\"a\":{a}}}"));
        bench.drained();
    }
    let first = query.next_blocking().unwrap();
    assert_eq!(text(&first), "{\"a\":6}\n");
    assert_eq!(first.meta.counts.dropped, 6);
}

#[test]
fn query_that_answers_too_often_is_slowed_down_where_so_set() {
    let bench = Bench::with(EngineConfig {
        shards: 1,
        query_emits_max: 3,
        fast_query: FastQuery::Drop,
        ..EngineConfig::default()
    });
    let mut query = bench.submit("SELECT a FROM STREAM()");
    for a in 0..10 {
        bench.send(&format!("{{\"a\":{a}}}"));
        bench.drained();
    }
    for a in 0..3 {
        assert_eq!(text(&query.next_blocking().unwrap()), format!("{{\"a\":{a}}}\n"));
    }
    bench.clock.advance_ms(100);
    bench.send("{\"a\":10}");
    bench.drained();
    let next = query.next_blocking().unwrap();
    assert_eq!((text(&next), next.meta.counts.dropped), ("{\"a\":10}\n", 7));
    let told = "7 emits were dropped: the limit is 3 in 100 ms (`engine.query_emits_max`). Filter more events out, \
                or use larger windows";
    assert_eq!(next.meta.warnings, [told]);
}

#[test]
fn slow_readers_are_cut_off_where_so_set() {
    let bench = Bench::with(EngineConfig {
        shards: 1,
        subscriber_emits_max: 4,
        slow_reader: SlowReader::CutOff,
        ..EngineConfig::default()
    });
    let mut query = bench.submit("SELECT a FROM STREAM()");
    for a in 0..10 {
        bench.send(&format!("{{\"a\":{a}}}"));
        bench.drained();
    }
    let mut last = None;
    while let Some(emit) = query.next_blocking() {
        last = Some(emit);
    }
    let last = last.unwrap();
    let Some(EndReason::Failed(why)) = reason(&last) else { panic!("{last:?}") };
    assert!(why.contains("4 wait, limit is 4 (`engine.subscriber_emits_max`): read faster"), "{why}");
}

#[test]
fn state_has_a_limit() {
    let bench =
        Bench::with(EngineConfig { shards: 2, query_state_bytes_max: 100_000, ..EngineConfig::default() });
    let mut query = bench.submit("SELECT a, COUNT(*) FROM STREAM() GROUP BY a");
    for part in 0..100 {
        let events: String = (0..100).map(|a| format!("{{\"a\":\"value {part} {a}\"}}\n")).collect();
        bench.send(&events);
    }
    let last = query.next_blocking().unwrap();
    let Some(EndReason::Failed(why)) = reason(&last) else { panic!("{last:?}") };
    assert!(why.contains("engine.query_state_bytes_max"), "{why}");
    bench.drained();
    assert_eq!(bench.engine.metrics().state_bytes.0, 0);
}

#[test]
fn shutdown_gives_final_results() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM()");
    bench.send("{}\n{}\n{}");
    bench.runtime.block_on(bench.engine.shutdown(Duration::from_secs(10)));
    let last = query.next_blocking().unwrap();
    assert_eq!((text(&last), reason(&last)), ("{\"n\":3}\n", Some(&EndReason::Shutdown)));
    let refused = bench.submit_with("SELECT * FROM STREAM()", SubmitOptions::default());
    assert!(matches!(refused, Err(RuntimeError::ShuttingDown)));
    let options = AppendOptions::default();
    let refused = bench.engine.append_blocking(&Principal::local(), &bench.stream, batch("{}"), options);
    assert_eq!(refused, Err(RuntimeError::ShuttingDown));
}

#[test]
fn samples_are_the_same_for_every_query() {
    let bench = Bench::new();
    let mut tenth = bench.submit("SELECT COUNT(*) AS n FROM STREAM(1000, TIME) SAMPLE 0.1");
    let mut same = bench.submit("SELECT COUNT(*) AS n FROM STREAM(1000, TIME) SAMPLE 0.1 WHERE a >= 0");
    for part in 0..100 {
        let events: String = (0..100).map(|a| format!("{{\"a\":{}}}\n", part * 100 + a)).collect();
        bench.send(&events);
    }
    bench.drained();
    bench.clock.advance_ms(1000);
    let tenth = tenth.next_blocking().unwrap();
    assert_eq!(text(&tenth), text(&same.next_blocking().unwrap()));
    assert_eq!(tenth.meta.query.sample, Some(0.1));
    let count: u64 = text(&tenth).trim_start_matches("{\"n\":").trim_end_matches("}\n").parse().unwrap();
    assert!((800..1200).contains(&count), "{count}");
}

#[test]
fn unknown_streams_leave_no_trace() {
    let bench = Bench::new();
    let query = bench.submit("SELECT * FROM STREAM(nowhere, MAX, TIME)");
    assert!(bench.engine.streams(&Principal::local()).is_empty());
    let id = query.query().id;
    assert!(!bench.engine.query(&Principal::local(), &id).unwrap().stream_exists);
    bench.engine.end_query(&Principal::local(), &id, EndReason::Client).unwrap();
    assert!(bench.engine.metrics().streams.is_empty());
}

#[test]
fn ten_thousand_queries_come_and_go() {
    let bench = Bench::new();
    let mut queries: Vec<Subscription> =
        (0..10_000).map(|n| bench.submit(&format!("SELECT a FROM STREAM() WHERE id = 'user {n}'"))).collect();
    let events: String = (0..10_000).map(|n| format!("{{\"id\":\"user {n}\",\"a\":{n}}}\n")).collect();
    bench.send(&events);
    bench.drained();
    for (n, query) in queries.iter_mut().enumerate() {
        assert_eq!(text(&query.next_blocking().unwrap()), format!("{{\"a\":{n}}}\n"));
        assert_eq!(query.try_next(), None);
    }
    drop(queries);
    while !bench.engine.queries(&Principal::local()).is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_that_was_only_asked_about_for_a_while_leaves_no_trace() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT * FROM STREAM(nowhere, 1000, TIME)");
    bench.clock.advance_ms(1000);
    assert_eq!(reason(&query.next_blocking().unwrap()), Some(&EndReason::Duration));
    for _ in 0..200 {
        if bench.engine.metrics().streams.is_empty() {
            return;
        }
        bench.clock.advance_ms(1000);
        bench.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
    }
    panic!("the stream is still there");
}

#[test]
fn a_query_that_ends_with_a_window_has_no_empty_one_after_it() {
    let bench = Bench::new();
    let mut query =
        bench.submit("SELECT COUNT(*) AS n FROM STREAM(2000, TIME) WINDOWING TUMBLING(1000, TIME)");
    bench.send("{}");
    bench.drained();
    bench.clock.advance_ms(2000);
    let mut records = String::new();
    while let Some(emit) = query.next_blocking() {
        records.push_str(text(&emit));
    }
    assert_eq!(records, "{\"n\":1}\n{\"n\":0}\n");
}

#[test]
fn a_clock_that_leaps_does_not_flood_with_empty_windows() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)");
    let year_ms = 365 * 24 * 3600 * 1000;
    bench.clock.advance_ms(100 * year_ms);
    bench.send("{}");
    bench.drained();
    bench.clock.advance_ms(1000);
    let start = START + 100 * year_ms as i64;
    loop {
        let emit = query.next_blocking().unwrap();
        if emit.meta.window.unwrap().start == start {
            assert_eq!(text(&emit), "{\"n\":1}\n");
            assert!(emit.meta.window.unwrap().number < 5_000);
            break;
        }
    }
}

#[test]
fn state_is_accounted_for_exactly_through_many_windows() {
    let bench = Bench::with(EngineConfig { shards: 1, ..EngineConfig::default() });
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)");
    let mut held = Vec::new();
    for _ in 0..5 {
        bench.send("{}");
        bench.drained();
        held.push(bench.engine.query(&Principal::local(), &query.query().id).unwrap().state_bytes);
        bench.clock.advance_ms(1000);
        query.next_blocking().unwrap();
    }
    assert!(held[0] > 0 && held.iter().all(|bytes| *bytes == held[0]), "{held:?}");
}

#[test]
fn a_query_may_be_ended_by_many_at_once() {
    let bench = Bench::new();
    for _ in 0..300 {
        let query = bench.submit("SELECT a FROM STREAM()");
        let id = &query.query().id;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| bench.engine.end_query(&Principal::local(), id, EndReason::Killed));
            }
        });
        bench.send("{\"a\":1}");
    }
    bench.drained();
    let mut query = bench.submit("SELECT a FROM STREAM()");
    bench.send("{\"a\":2}");
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"a\":2}\n");
}

#[test]
fn a_query_submitted_while_the_engine_shuts_down_ends() {
    for _ in 0..20 {
        let bench = Bench::new();
        let submitted = std::thread::scope(|scope| {
            let submitting = scope.spawn(|| {
                let mut submitted = Vec::new();
                while let Ok(query) = bench.submit_with("SELECT a FROM STREAM()", SubmitOptions::default()) {
                    submitted.push(query);
                }
                submitted
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(bench.engine.shutdown(Duration::from_secs(10)));
            submitting.join().unwrap()
        });
        for mut query in submitted {
            assert_eq!(reason(&query.try_next().expect("it has ended")), Some(&EndReason::Shutdown));
        }
    }
}

#[test]
fn numbers_can_be_read_while_queries_end() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            for _ in 0..2000 {
                let query = bench.submit("SELECT a FROM STREAM()");
                bench.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed).unwrap();
            }
        });
        while !ending.is_finished() {
            bench.engine.metrics();
        }
    });
}

#[test]
fn records_of_one_batch_have_a_limit() {
    let bench = Bench::with(EngineConfig { shards: 1, emit_bytes_max: 1 << 20, ..EngineConfig::default() });
    let long = "x".repeat(10_000);
    let mut raw = bench.submit(&format!("SELECT '{long}' AS x FROM STREAM()"));
    let mut kept =
        bench.submit(&format!("SELECT '{long}' AS x FROM STREAM() WINDOWING TUMBLING(1000, TIME)"));
    bench.send(&"{}\n".repeat(10_000));
    for query in [&mut raw, &mut kept] {
        let mut last = None;
        while let Some(emit) = query.next_blocking() {
            assert!(emit.records.text.len() < 2 << 20);
            last = Some(emit);
        }
        let last = last.unwrap();
        let Some(EndReason::Failed(why)) = reason(&last) else { panic!("{last:?}") };
        assert!(why.contains("engine.emit_bytes_max"), "{why}");
    }
}

#[test]
fn a_query_that_is_ended_has_seen_what_was_appended_before() {
    let bench = Bench::new();
    let mut query = bench.submit("SELECT COUNT(*) AS n FROM STREAM() WHERE a RLIKE '.*z.*'");
    let events: String = (0..500).map(|a| format!("{{\"a\":\"{} {a} z\"}}\n", "y".repeat(200))).collect();
    for _ in 0..40 {
        bench.send(&events);
    }
    bench.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed).unwrap();
    assert_eq!(text(&query.next_blocking().unwrap()), "{\"n\":20000}\n");
}

#[test]
fn an_event_that_nobody_matches_moves_the_time_of_all_who_go_by_it() {
    let bench = Bench::new();
    // They have one filter, and the first query does not go by the events' own time.
    let _first = bench.submit("SELECT ts FROM STREAM() WHERE kind = 'a'");
    let mut second = bench.submit(
        "SELECT COUNT(*) AS n FROM STREAM() WHERE kind = 'a' GROUP BY k WINDOWING TUMBLING(10, EVENT(ts))",
    );
    bench.send("{\"kind\":\"a\",\"k\":1,\"ts\":5}");
    bench.drained();
    bench.send("{\"kind\":\"b\",\"k\":1,\"ts\":10}");
    bench.drained();
    bench.engine.end_query(&Principal::local(), &second.query().id, EndReason::Killed).expect("it runs");
    let window = second.next_blocking().expect("an emit");
    assert_eq!((text(&window), reason(&window)), ("{\"n\":1}\n", None), "it was closed before the end");
}
