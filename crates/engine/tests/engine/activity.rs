//! Tests the activity of an id across streams, and searches of activities, against a loop over all events.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use swiftwater_engine::{
    ActivitiesRequest, ActivityAnswer, ActivityRequest, ActivitySummary, ActivityTree, Engine, EngineConfig,
    FollowedActivity, Principal,
};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_testkit::Rng;

use crate::history::{append, open_when_free, quick, sql, stop};

/// The streams by name, with their correlation columns in the order of their indexes.
const STREAMS: [(&str, &[&str]); 3] =
    [("logs", &["trace"]), ("orders", &["order_id", "links"]), ("spans", &["refs"])];

const SCHEMA: [&str; 7] = [
    "CREATE STREAM logs (n LONG NOT NULL, trace STRING, level STRING)",
    "CREATE STREAM orders (n LONG NOT NULL, order_id LONG, links LIST[STRING], level STRING)",
    "CREATE STREAM spans (n LONG NOT NULL, refs JSON, level STRING)",
    "CREATE STREAM other (n LONG NOT NULL, trace STRING)",
    "CREATE SEARCH INDEX ON logs (trace ID CORRELATION, level TEXT)",
    "CREATE SEARCH INDEX ON orders (order_id ID CORRELATION, links ID CORRELATION, level TEXT)",
    // A column with words is compared with whole values, too.
    "CREATE SEARCH INDEX ON spans (refs TEXT, refs ID CORRELATION, level TEXT)",
];

/// Ids of the events: words, a text with words of others, numbers, a truth value, and characters of the search language.
const IDS: [&str; 14] =
    ["a", "b", "c", "a b", "A", "d/e", "x\"\\y", "—", "1", "2", "3", "4", "true", "f.g*?"];

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, quick(dir), Arc::new(SystemClock::new())).await
}

async fn with_schema(dir: &Path) -> Engine {
    let engine = open(dir).await;
    for text in SCHEMA {
        sql(&engine, text).await;
    }
    engine
}

/// An event, as the oracle has it.
#[derive(Debug, Clone)]
struct Event {
    stream: usize,
    offset: u64,
    level: &'static str,
    /// The columns of ids by place, each with an id.
    ids: Vec<(usize, String)>,
}

/// Random events, and the next offset of each stream.
struct Events {
    rng: Rng,
    all: Vec<Event>,
    next: [u64; 3],
}

impl Events {
    fn new(seed: u64) -> Events {
        Events { rng: Rng::new(seed), all: Vec::new(), next: [0; 3] }
    }

    fn id(&mut self) -> &'static str {
        IDS[self.rng.below(IDS.len())]
    }

    /// An id as a JSON value: a number or a text of it, a truth value or a text of it.
    fn value(&mut self, id: &str) -> String {
        let is_literal = id.parse::<u64>().is_ok() || id == "true";
        match is_literal && self.rng.below(2) == 0 {
            true => id.to_owned(),
            false => serde_json::to_string(id).unwrap(),
        }
    }

    /// Appends an event to one of the streams.
    async fn append(&mut self, engine: &Engine) {
        let stream = self.rng.below(3);
        let level = ["error", "info"][self.rng.below(2)];
        let (mut ids, mut fields) = (Vec::new(), Vec::new());
        let offset = self.next[stream];
        match stream {
            0 if self.rng.below(4) > 0 => {
                let id = self.id();
                ids.push((0, id.to_owned()));
                fields.push(format!("\"trace\":{}", serde_json::to_string(id).unwrap()));
            }
            1 => {
                if self.rng.below(2) == 0 {
                    let id = 1 + self.rng.below(4);
                    ids.push((0, id.to_string()));
                    fields.push(format!("\"order_id\":{id}"));
                }
                let links: Vec<&str> = (0..self.rng.below(3)).map(|_| self.id()).collect();
                ids.extend(links.iter().map(|id| (1, (*id).to_owned())));
                fields.push(format!("\"links\":{}", serde_json::to_string(&links).unwrap()));
            }
            2 => {
                let (one, other) = (self.id(), self.id());
                let (value, further) = (self.value(one), self.value(other));
                let refs = match self.rng.below(3) {
                    0 => value,
                    1 => {
                        ids.push((0, other.to_owned()));
                        format!("[{value},[{further},null]]")
                    }
                    _ => {
                        ids.push((0, other.to_owned()));
                        format!("{{\"k\":{value},\"a\":{{\"b\":{further}}}}}")
                    }
                };
                ids.push((0, one.to_owned()));
                fields.push(format!("\"refs\":{refs}"));
            }
            _ => {}
        }
        fields.push(format!("\"n\":{offset},\"level\":\"{level}\""));
        append(engine, STREAMS[stream].0, &format!("{{{}}}", fields.join(",")), None).await;
        self.next[stream] += 1;
        self.all.push(Event { stream, offset, level, ids });
    }

    /// By stream and offset the depth, the id and the column of each event of an activity.
    fn activity(&self, id: &str, depth: u32, streams: &[usize]) -> BTreeMap<(usize, u64), Expected> {
        let mut found = BTreeMap::new();
        let (mut known, mut level) = (BTreeSet::from([id.to_owned()]), BTreeSet::from([id.to_owned()]));
        for depth in 0..=depth {
            let mut next = BTreeSet::new();
            for event in self.all.iter().filter(|event| streams.contains(&event.stream)) {
                let through = event.ids.iter().filter(|(_, id)| level.contains(id));
                let Some((column, id)) = through.min_by_key(|(column, id)| (id, column)) else { continue };
                if found.contains_key(&(event.stream, event.offset)) {
                    continue;
                }
                let column = STREAMS[event.stream].1[*column];
                found.insert((event.stream, event.offset), (depth, id.clone(), column.to_owned()));
                next.extend(event.ids.iter().map(|(_, id)| id.clone()).filter(|id| !known.contains(id)));
            }
            known.extend(next.iter().cloned());
            level = next;
        }
        found
    }

    /// True if an event of an id satisfies a leaf.
    fn has(&self, id: &str, stream: &str, query: &str) -> bool {
        self.all.iter().any(|event| {
            let is_satisfied = match query.split_once(':') {
                Some(("level", level)) => event.level == level,
                Some((_, most)) => event.offset < most.trim_start_matches('<').parse().unwrap(),
                None => true,
            };
            STREAMS[event.stream].0 == stream && is_satisfied && event.ids.iter().any(|(_, own)| own == id)
        })
    }

    fn satisfies(&self, id: &str, tree: &ActivityTree) -> bool {
        match tree {
            ActivityTree::And(trees) => trees.iter().all(|tree| self.satisfies(id, tree)),
            ActivityTree::Or(trees) => trees.iter().any(|tree| self.satisfies(id, tree)),
            ActivityTree::Not(tree) => !self.satisfies(id, tree),
            ActivityTree::Events { stream, query } => self.has(id, stream.as_str(), query),
        }
    }

    fn tree(&mut self, levels: usize) -> ActivityTree {
        let trees = |events: &mut Events| (0..2).map(|_| events.tree(levels - 1)).collect();
        match if levels == 0 { 3 } else { self.rng.below(4) } {
            0 => ActivityTree::And(trees(self)),
            1 => ActivityTree::Or(trees(self)),
            2 => ActivityTree::Not(Box::new(self.tree(levels - 1))),
            _ => {
                let queries = ["*".to_owned(), "level:error".to_owned(), format!("n:<{}", self.rng.below(9))];
                leaf(STREAMS[self.rng.below(3)].0, &queries[self.rng.below(3)])
            }
        }
    }
}

/// The depth, the id and the column of an event.
type Expected = (u32, String, String);

fn name(stream: &str) -> StreamName {
    StreamName::new(stream).unwrap()
}

fn leaf(stream: &str, query: &str) -> ActivityTree {
    ActivityTree::Events { stream: name(stream), query: query.to_owned() }
}

async fn activity(engine: &Engine, request: &ActivityRequest) -> ActivityAnswer {
    engine.activity(&Principal::local(), request).await.unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

/// The events of an answer, whose order is checked.
fn answered(answer: &ActivityAnswer) -> BTreeMap<(usize, u64), Expected> {
    let place = |stream: &StreamName| STREAMS.iter().position(|(name, _)| *name == stream.as_str()).unwrap();
    let keys: Vec<_> = answer
        .events
        .iter()
        .map(|event| (event.hit.time_micros, place(&event.hit.stream), event.hit.offset))
        .collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let events = answer.events.iter().map(|event| {
        let key = (place(&event.hit.stream), event.hit.offset);
        (key, (event.depth, event.id.to_string(), event.column.to_string()))
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_are_those_of_a_loop_over_all_events() {
    for seed in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let engine = with_schema(dir.path()).await;
        let mut events = Events::new(seed);
        for part in 0..3 {
            for _ in 0..15 {
                events.append(&engine).await;
            }
            for id in IDS {
                for depth in [0, 1 + events.rng.below(4) as u32] {
                    let request = ActivityRequest { depth, ..ActivityRequest::new(id) };
                    let answer = activity(&engine, &request).await;
                    let expected = events.activity(id, depth, &[0, 1, 2]);
                    assert_eq!(answered(&answer), expected, "seed {seed}, part {part}: {id}, depth {depth}");
                    assert_eq!((answer.total, answer.cursor), (expected.len() as u64, None));
                }
            }
            let streams = vec![name("spans"), name("logs")];
            let request = ActivityRequest { streams, depth: 2, ..ActivityRequest::new("a") };
            assert_eq!(answered(&activity(&engine, &request).await), events.activity("a", 2, &[0, 2]));
        }
        stop(engine, Duration::from_secs(5)).await;
    }
}

async fn activities(engine: &Engine, request: &ActivitiesRequest) -> Vec<ActivitySummary> {
    let mut all: Vec<ActivitySummary> = Vec::new();
    let mut request = request.clone();
    loop {
        let answer = engine.activities(&Principal::local(), &request).await.unwrap();
        all.extend(answer.activities);
        request.cursor = answer.cursor;
        if request.cursor.is_none() {
            assert_eq!(answer.total, all.len() as u64);
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_satisfy_trees_are_those_of_a_loop_over_all_events() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_schema(dir.path()).await;
    let mut events = Events::new(7);
    for _ in 0..40 {
        events.append(&engine).await;
    }
    let mut satisfying = 0;
    for case in 0..40 {
        let any = leaf(STREAMS[case % 3].0, "*");
        let tree = ActivityTree::And(vec![any, events.tree(3)]);
        let request = ActivitiesRequest { limit: 1 + case % 5, ..ActivitiesRequest::new(tree.clone()) };
        let found = activities(&engine, &request).await;
        let is_ordered = |pair: &[ActivitySummary]| {
            pair[0].last_micros > pair[1].last_micros
                || pair[0].last_micros == pair[1].last_micros && pair[0].id < pair[1].id
        };
        assert!(found.windows(2).all(is_ordered), "{found:?}");
        satisfying += found.len();
        let ids: BTreeSet<&str> = found.iter().map(|activity| &*activity.id).collect();
        let expected: BTreeSet<&str> = IDS.into_iter().filter(|id| events.satisfies(id, &tree)).collect();
        assert_eq!(ids, expected, "{tree:?}");
        for summary in found.iter().take(3) {
            let answer = activity(&engine, &ActivityRequest::new(&*summary.id)).await;
            let times = || answer.events.iter().map(|event| event.hit.time_micros);
            let (first, last) = (times().min().unwrap(), times().max().unwrap());
            assert_eq!((summary.first_micros, summary.last_micros), (first, last));
            for (stream, _) in STREAMS {
                let count = answer.events.iter().filter(|event| event.hit.stream.as_str() == stream).count();
                let of_stream = summary.streams.iter().find(|of| of.stream.as_str() == stream);
                assert_eq!(of_stream.map_or(0, |of| of.events), count as u64, "{summary:?}");
            }
        }
    }
    assert!(satisfying > 50, "{satisfying}");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_one_answer_as_of_the_first_while_events_are_appended() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_schema(dir.path()).await;
    let mut events = Events::new(11);
    for _ in 0..60 {
        events.append(&engine).await;
    }
    let tree = ActivityTree::Or(vec![leaf("logs", "*"), leaf("orders", "*"), leaf("spans", "*")]);
    let id = IDS.into_iter().max_by_key(|id| events.activity(id, 0, &[0, 1, 2]).len()).unwrap();
    for depth in [0, 2] {
        let whole = ActivityRequest { depth, ..ActivityRequest::new(id) };
        let expected = answered(&activity(&engine, &whole).await);
        let ids = activities(&engine, &ActivitiesRequest::new(tree.clone())).await;
        assert!(expected.len() > 3 && ids.len() > 7, "there are several pages");
        let mut page = ActivityRequest { limit: 3, ..whole.clone() };
        let mut page_of_ids = ActivitiesRequest { limit: 3, ..ActivitiesRequest::new(tree.clone()) };
        let (mut found, mut found_ids) = (BTreeMap::new(), Vec::new());
        let mut is_over = (false, false);
        while is_over != (true, true) {
            if !is_over.0 {
                let answer = activity(&engine, &page).await;
                assert!(answer.events.len() == 3 || answer.cursor.is_none());
                assert_eq!(answer.total, expected.len() as u64);
                found.extend(answered(&answer));
                page.cursor = answer.cursor;
                is_over.0 = page.cursor.is_none();
            }
            if !is_over.1 {
                let answer = engine.activities(&Principal::local(), &page_of_ids).await.unwrap();
                found_ids.extend(answer.activities);
                page_of_ids.cursor = answer.cursor;
                is_over.1 = page_of_ids.cursor.is_none();
            }
            events.append(&engine).await;
        }
        assert_eq!((found, found_ids), (expected, ids));
    }
    let first = activity(&engine, &ActivityRequest { limit: 1, ..ActivityRequest::new(id) }).await;
    for other in [
        ActivityRequest { cursor: first.cursor.clone(), ..ActivityRequest::new("other") },
        ActivityRequest { cursor: first.cursor.clone(), depth: 1, ..ActivityRequest::new(id) },
    ] {
        let error = engine.activity(&Principal::local(), &other).await.unwrap_err().to_string();
        assert!(error.contains("belongs to another activity"), "{error}");
    }
    let request = ActivitiesRequest { cursor: first.cursor, ..ActivitiesRequest::new(tree) };
    assert!(engine.activities(&Principal::local(), &request).await.is_err());
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_goes_on_with_each_later_event_that_has_the_id() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_schema(dir.path()).await;
    let principal = Principal::local();
    append(&engine, "logs", "{\"n\":0,\"trace\":\"a\"}\n{\"n\":1,\"trace\":\"b\"}", None).await;
    let mut follow = engine.follow_activity(&principal, &ActivityRequest::new("a"), None).await.unwrap();
    let next = async |follow: &mut swiftwater_engine::ActivityFollow| match follow.next().await.unwrap() {
        FollowedActivity::Event { event, position } => {
            ((event.hit.stream.to_string(), event.hit.offset, event.column.to_string()), position)
        }
        lost @ FollowedActivity::Lost { .. } => panic!("{lost:?}"),
    };
    let (event, stored) = next(&mut follow).await;
    assert_eq!(event, ("logs".to_owned(), 0, "trace".to_owned()));
    append(&engine, "orders", "{\"n\":0,\"links\":[\"b\"]}\n{\"n\":1,\"links\":[\"b\",\"a\"]}", None).await;
    let (event, _) = next(&mut follow).await;
    assert_eq!(event, ("orders".to_owned(), 1, "links".to_owned()));
    append(&engine, "spans", "{\"n\":0,\"refs\":\"a b\"}\n{\"n\":1,\"refs\":{\"k\":\"a\"}}", None).await;
    let (event, _) = next(&mut follow).await;
    assert_eq!(event, ("spans".to_owned(), 1, "refs".to_owned()));
    // It resumes behind the stored event.
    let mut resumed =
        engine.follow_activity(&principal, &ActivityRequest::new("a"), Some(&stored)).await.unwrap();
    let mut streams = [next(&mut resumed).await.0.0, next(&mut resumed).await.0.0];
    streams.sort_unstable();
    assert_eq!(streams, ["orders", "spans"]);
    let deep = ActivityRequest { depth: 1, ..ActivityRequest::new("a") };
    let error = engine.follow_activity(&principal, &deep, None).await.err().unwrap();
    assert_eq!(error.to_string(), "`depth` does not go with `follow`");
    stop(engine, Duration::from_secs(5)).await;
}

/// Waits until the index files of all streams are built.
async fn until_indexed(engine: &Engine) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let shown = sql(engine, "SHOW SEARCH INDEXES").await;
        if shown.lines().all(|line| line.contains("\"waiting_files\":0")) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{shown}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn index_files_exclude_files_without_the_id() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_schema(dir.path()).await;
    append(&engine, "logs", "{\"n\":0,\"trace\":\"a\"}\n{\"n\":1,\"trace\":\"b\"}", None).await;
    append(&engine, "spans", "{\"n\":0,\"refs\":[\"a\",7]}", None).await;
    // A table's rows are in files once a statement has waited for them.
    for (stream, condition) in [("logs", "trace = 'a'"), ("spans", "n = 0")] {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let plan = sql(&engine, &format!("EXPLAIN SELECT n FROM {stream} WHERE {condition}")).await;
            if plan.contains(".parquet") {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{plan}");
            tokio::task::yield_now().await;
        }
    }
    until_indexed(&engine).await;
    for (id, expected) in [("a", 2), ("7", 1), ("nowhere", 0)] {
        let answer = activity(&engine, &ActivityRequest::new(id)).await;
        assert_eq!(answer.total, expected, "{id}");
        for stream in &answer.streams {
            let plan =
                sql(&engine, &format!("EXPLAIN SELECT n FROM {} WHERE {}", stream.stream, stream.condition))
                    .await;
            let has_event = answer.events.iter().any(|event| event.hit.stream == stream.stream);
            assert_eq!(plan.contains(".parquet"), has_event, "{id}: {} {plan}", stream.condition);
            assert_eq!(stream.files.indexed > 0, stream.position > 0, "{id}: {stream:?}");
            assert_eq!(stream.files.scanned, 0, "{id}: {stream:?}");
        }
    }
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_activities_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let principal = Principal::local();
    sql(&engine, "CREATE STREAM logs (trace STRING, level STRING)").await;
    sql(&engine, "CREATE SEARCH INDEX ON logs (level TEXT)").await;
    let refusal =
        async |request: ActivityRequest| engine.activity(&principal, &request).await.unwrap_err().to_string();
    assert_eq!(
        refusal(ActivityRequest::new("a")).await,
        "no stream has a column that is indexed as ID CORRELATION"
    );
    let of = |stream: &str| ActivityRequest { streams: vec![name(stream)], ..ActivityRequest::new("a") };
    assert_eq!(refusal(of("logs")).await, "stream `logs` has no column that is indexed as ID CORRELATION");
    assert_eq!(refusal(of("log")).await, "there is no stream `log`");
    sql(&engine, "ALTER SEARCH INDEX ON logs ADD trace ID CORRELATION").await;
    for (request, expected) in [
        (ActivityRequest::new(""), "the id has 0 bytes"),
        (ActivityRequest::new("x".repeat(1025)), "the id has 1025 bytes"),
        (ActivityRequest { depth: 6, ..ActivityRequest::new("a") }, "`depth` is 6; the most is 5"),
        (ActivityRequest { limit: 0, ..ActivityRequest::new("a") }, "`limit` is 0"),
        (ActivityRequest { limit: 10_001, ..ActivityRequest::new("a") }, "`search.hits_max` is 10000"),
        (ActivityRequest { from: Some("soon".into()), ..ActivityRequest::new("a") }, "`from` is no time"),
        (ActivityRequest { cursor: Some("00".into()), ..ActivityRequest::new("a") }, "cursor"),
    ] {
        let error = refusal(request).await;
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(activity(&engine, &ActivityRequest::new("x".repeat(1024))).await.total, 0);
    let refusal = async |tree: ActivityTree| {
        engine.activities(&principal, &ActivitiesRequest::new(tree)).await.unwrap_err().to_string()
    };
    for (tree, expected) in [
        (ActivityTree::Not(Box::new(leaf("logs", "*"))), "do not say which activities"),
        (leaf("logs", "a OR"), "the search cannot be read"),
        (leaf("log", "a"), "there is no stream `log`"),
    ] {
        let error = refusal(tree).await;
        assert!(error.contains(expected), "{error}");
    }
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_in_the_order_of_the_declared_times() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for text in [
        "CREATE STREAM calls (trace STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 seconds')",
        "CREATE STREAM steps (trace STRING, ms LONG, WATERMARK FOR ms AS ms - INTERVAL '5 seconds')",
        "CREATE STREAM notes (trace STRING)",
        "CREATE SEARCH INDEX ON calls (trace ID CORRELATION)",
        "CREATE SEARCH INDEX ON steps (trace ID CORRELATION)",
        "CREATE SEARCH INDEX ON notes (trace ID CORRELATION)",
    ] {
        sql(&engine, text).await;
    }
    for (stream, event) in [
        ("notes", r#"{"trace":"t"}"#),
        ("calls", r#"{"trace":"t","at":"2001-02-03T04:05:07Z"}"#),
        ("calls", r#"{"trace":"t"}"#),
        ("steps", r#"{"trace":"t","ms":981173106000}"#),
        ("calls", r#"{"trace":"t","at":"2001-02-03T04:05:05Z"}"#),
    ] {
        append(&engine, stream, event, None).await;
    }
    let expected = ["calls 2", "steps 0", "calls 0", "notes 0", "calls 1"];
    let mut request = ActivityRequest::new("t");
    let answer = activity(&engine, &request).await;
    let place = |answer: &ActivityAnswer| -> Vec<String> {
        answer.events.iter().map(|event| format!("{} {}", event.hit.stream, event.hit.offset)).collect()
    };
    assert_eq!(place(&answer), expected);
    assert_eq!(answer.events[1].hit.time_micros, 981_173_106_000_000);
    // The same by pages.
    request.limit = 2;
    let mut pages = Vec::new();
    loop {
        let answer = activity(&engine, &request).await;
        pages.extend(place(&answer));
        let Some(cursor) = answer.cursor else { break };
        request.cursor = Some(cursor);
    }
    assert_eq!(pages, expected);
    stop(engine, Duration::from_secs(5)).await;
}
