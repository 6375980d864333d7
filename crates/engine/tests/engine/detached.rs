//! Tests detached queries over stored streams: their answer is that of an undisturbed query, whatever happens.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, Principal, QueryId, SubmitOptions,
};
use swiftwater_event::{Clock, StreamName};
use swiftwater_testkit::{LanguageFeatures, MixedEvents, QueryTexts, Rng, TestClock};

use crate::{
    crashes::{Kind, Machine},
    history::{batch, try_sql},
};

const START: i64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn config(shards: usize) -> EngineConfig {
    EngineConfig {
        shards,
        tick_ms: 1,
        detached_noted_ms: 3,
        default_stream: Some(StreamName::new("s").unwrap()),
        subscriber_emits_max: 1 << 20,
        query_end_wait_ms: 60_000,
        ..EngineConfig::default()
    }
}

/// All answers of a query, without repetitions.
#[derive(Debug, Default, PartialEq)]
struct Given {
    /// The emits by number, each with its window; none where an emit is what was there at once.
    emits: BTreeMap<u64, String>,
    records: String,
    end: Option<(EndReason, u64, u64, u64)>,
}

/// A client that reads a query, and continues after its last answer.
struct Asker {
    id: QueryId,
    /// It has no windows, so records come as they come.
    is_plain: bool,
    last: u64,
    given: Given,
}

impl Asker {
    fn new(id: QueryId, is_plain: bool) -> Asker {
        Asker { id, is_plain, last: 0, given: Given::default() }
    }

    fn take(&mut self, emit: &Emit) {
        assert!(emit.meta.number > self.last, "{} comes after {}", emit.meta.number, self.last);
        self.last = emit.meta.number;
        let text = std::str::from_utf8(&emit.records.text).unwrap();
        let window = emit.meta.window.map(|window| (window.number, window.start, window.end, window.records));
        if self.is_plain {
            self.given.records.push_str(text);
        } else {
            let sketches = &emit.meta.sketches;
            self.given
                .emits
                .insert(emit.meta.number, format!("{window:?} {text}{sketches:?}{:?}", emit.meta.failure));
        }
        if let Some(finished) = &emit.meta.finished {
            let counts = emit.meta.counts;
            // Errors of events after a LIMIT in its batch are counted: which events those are is a matter of chance.
            let is_exact = finished.reason != EndReason::Limit;
            let errors = if is_exact { counts.expression_errors } else { 0 };
            self.given.end = Some((finished.reason.clone(), counts.seen, counts.matched, errors));
        }
    }

    /// Reads what is there now.
    fn read_some(&mut self, engine: &Engine) {
        let mut read = engine.attach_after(&Principal::local(), &self.id, self.last).unwrap();
        while let Some(emit) = read.try_next() {
            self.take(&emit);
        }
    }

    async fn read_all(&mut self, engine: &Engine) {
        if self.given.end.is_some() {
            return;
        }
        let mut read = engine.attach_after(&Principal::local(), &self.id, self.last).unwrap();
        while self.given.end.is_none() {
            let next = tokio::time::timeout(PATIENCE, read.next()).await;
            let emit =
                next.unwrap_or_else(|_| panic!("{:?} ends", engine.query(&Principal::local(), &self.id)));
            self.take(&emit.expect("there is a last emit"));
        }
    }
}

async fn send(engine: &Engine, events: &[String], is_synced: bool) {
    let name = StreamName::new("s").unwrap();
    let options = AppendOptions::default();
    let appended =
        engine.append(&Principal::local(), &name, batch(&events.join("\n")), options).await.unwrap();
    if let Some(ticket) = appended.ticket.filter(|_| is_synced) {
        engine.synced(ticket).await.unwrap();
    }
}

/// The number of events a stream has.
fn count(engine: &Engine) -> u64 {
    engine.stream(&Principal::local(), &StreamName::new("s").unwrap()).map_or(0, |stream| stream.position)
}

fn is_plain(text: &str) -> bool {
    !text.contains("WINDOWING")
        && !["COUNT", "SUM", "GROUP BY", "DISTINCT"].iter().any(|word| text.contains(word))
}

#[derive(Debug, Clone)]
enum Step {
    Ask(usize),
    End(usize),
    Send(Vec<String>),
    Wait(u64),
    Read(usize),
    /// The server ends and starts again.
    Restart,
    /// It is killed, and what was not synced is gone in part.
    Kill(u64),
}

struct Story {
    stream: &'static str,
    texts: Vec<String>,
    steps: Vec<Step>,
    shards: usize,
}

fn story(seed: u64) -> Story {
    let mut rng = Rng::new(seed ^ 0xde7a);
    let mut queries = QueryTexts::new(seed);
    let mut mixed = MixedEvents::new(seed);
    let mut texts: Vec<String> = (0..1 + rng.below(5)).map(|_| queries.wide(LanguageFeatures::ALL)).collect();
    for text in &mut texts {
        if rng.chance(0.2) {
            let stream = format!("STREAM({}, TIME)", rng.pick(&[100, 400, 1000, 1500]));
            *text = text.replacen("STREAM()", &stream, 1);
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut unasked: Vec<usize> = (0..texts.len()).collect();
    let mut asked = Vec::new();
    let mut at = START;
    for number in 0..60 {
        if (number == 0 || rng.chance(0.1)) && !unasked.is_empty() {
            asked.push(unasked[0]);
            steps.push(Step::Ask(unasked.remove(0)));
        }
        match rng.below(20) {
            0 if !asked.is_empty() => steps.push(Step::End(asked.remove(rng.below(asked.len())))),
            1 | 2 if !asked.is_empty() => steps.push(Step::Read(rng.pick(&asked))),
            3 => steps.push(Step::Restart),
            4 => steps.push(Step::Kill(rng.below(1 << 20) as u64)),
            5..10 => {
                let millis = rng.pick(&[1, 7, 20, 100, 400]);
                steps.push(Step::Wait(millis));
                at += millis as i64;
            }
            _ => {
                let behind = rng.pick(&[0, 0, 0, 3, 50, 300]);
                let events = (0..1 + rng.below(4)).map(|_| mixed.event_at(at - behind)).collect();
                steps.push(Step::Send(events));
            }
        }
    }
    steps.push(Step::Wait(rng.below(1500) as u64));
    Story { stream: "CREATE STREAM s WITH (store = true)", texts, steps, shards: 1 + rng.below(2) }
}

/// Queries over a stream whose time, an hour behind the clock, goes on when it has had no event for a second.
fn idle_story(seed: u64) -> Story {
    let mut rng = Rng::new(seed ^ 0x1d1e);
    let texts = [
        "SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING TUMBLING(1500, EVENT)",
        "SELECT COUNT(*) AS n, SUM(x) AS x FROM STREAM(s) WHERE x > 1 GROUP BY () WINDOWING EVERY(700, EVENT, LAST, 2500, EVENT)",
        "SELECT k, x FROM STREAM(s) WHERE k = 1 WINDOWING TUMBLING(4000, EVENT)",
        "SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING SESSION(1200, EVENT)",
        "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k ORDER BY EVENT MEASURES A.x AS a \
         PATTERN (A !B) WITHIN 2000 DEFINE A AS x > 4, B AS x < 2)",
        "SELECT k, COUNT(*) AS n FROM STREAM(s, 9000, TIME) GROUP BY k WINDOWING TUMBLING(2000, EVENT)",
    ];
    let mut steps: Vec<Step> = (0..texts.len()).map(Step::Ask).collect();
    let mut at = 0;
    for _ in 0..50 {
        match rng.below(20) {
            0 => steps.push(Step::Restart),
            1 => steps.push(Step::Kill(rng.below(1 << 20) as u64)),
            2 | 3 => steps.push(Step::Read(rng.below(texts.len()))),
            4..12 => {
                let millis = rng.pick(&[40, 300, 999, 1000, 1700, 6000]);
                steps.push(Step::Wait(millis));
                at += millis as i64;
            }
            _ => {
                let events = (0..1 + rng.below(3)).map(|_| {
                    let (k, x, ts) = (rng.below(3), rng.below(8), at + 900 - rng.below(1800) as i64);
                    format!("{{\"k\":{k},\"x\":{x},\"ts\":{}}}", START - 3_600_000 + ts)
                });
                steps.push(Step::Send(events.collect()));
            }
        }
    }
    steps.push(Step::Wait(rng.below(9000) as u64));
    let stream = "CREATE STREAM s (k LONG, x LONG, ts LONG, \
                  WATERMARK FOR ts AS ts - INTERVAL '400 ms' IDLE AFTER INTERVAL '1 second')";
    let texts = texts.map(str::to_owned).into();
    Story { stream, texts, steps, shards: 1 + rng.below(2) }
}

/// The answers of queries that continue over all restarts; and the events that remained in the end, by the step that
/// sent them.
async fn run_durable(story: &Story) -> (BTreeMap<usize, Given>, BTreeMap<usize, usize>) {
    let clock = Arc::new(TestClock::at(START));
    let mut machine = Machine::new(Kind::Disk);
    let mut engine = machine.open_as(&clock, config(story.shards)).await.unwrap();
    try_sql(&engine, story.stream).await.unwrap();
    let mut askers: BTreeMap<usize, Asker> = BTreeMap::new();
    let mut kept: BTreeMap<usize, usize> = BTreeMap::new();
    let mut sent = 0;
    for (place, step) in story.steps.iter().enumerate() {
        match step {
            Step::Ask(query) => {
                let (text, options) = (&story.texts[*query], SubmitOptions::default());
                if let Ok(detached) = engine.submit_detached(&Principal::local(), text, options).await {
                    assert_eq!(detached.fleeting, None);
                    askers.insert(*query, Asker::new(detached.id, is_plain(text)));
                }
            }
            Step::End(query) => {
                if let Some(asker) = askers.get(query) {
                    engine.followed().await;
                    // One that has ended by itself is only forgotten, which is for later.
                    let status = engine.query(&Principal::local(), &asker.id).unwrap();
                    if status.finished.is_none() {
                        let _ = engine.end_query(&Principal::local(), &asker.id, EndReason::Client);
                    }
                }
            }
            Step::Send(events) => {
                // Events before a kill need not be synced.
                let is_synced = !matches!(story.steps.get(place + 1), Some(Step::Kill(_)));
                send(&engine, events, is_synced).await;
                kept.insert(place, events.len());
                sent += events.len() as u64;
            }
            Step::Wait(millis) => clock.advance_ms(*millis),
            Step::Read(query) => {
                if let Some(asker) = askers.get_mut(query).filter(|asker| asker.given.end.is_none()) {
                    asker.read_some(&engine);
                }
            }
            Step::Restart => {
                engine.shutdown(Duration::from_secs(5)).await;
                engine = machine.open_as(&clock, config(story.shards)).await.unwrap();
            }
            Step::Kill(seed) => {
                machine.cut();
                engine.shutdown(Duration::ZERO).await;
                machine = machine.after_power_loss(*seed).await;
                engine = machine.open_as(&clock, config(story.shards)).await.unwrap();
                let lost = sent - count(&engine);
                if let Some(last) = kept.values_mut().next_back() {
                    *last -= usize::try_from(lost).unwrap();
                }
                sent -= lost;
            }
        }
    }
    let mut given = BTreeMap::new();
    engine.followed().await;
    for (query, mut asker) in askers {
        if asker.given.end.is_none()
            && engine.query(&Principal::local(), &asker.id).unwrap().finished.is_none()
        {
            let _ = engine.end_query(&Principal::local(), &asker.id, EndReason::Client);
        }
        asker.read_all(&engine).await;
        given.insert(query, asker.given);
    }
    engine.shutdown(Duration::ZERO).await;
    (given, kept)
}

/// The answers of plain queries to the same events at the same times.
async fn run_plain(story: &Story, kept: &BTreeMap<usize, usize>) -> BTreeMap<usize, Given> {
    let clock = Arc::new(TestClock::at(START));
    let engine = Engine::start(config(1), Arc::clone(&clock) as Arc<dyn Clock>);
    let mut askers: BTreeMap<usize, Asker> = BTreeMap::new();
    for (place, step) in story.steps.iter().enumerate() {
        match step {
            Step::Ask(query) => {
                let options = SubmitOptions { detach: true, ..SubmitOptions::default() };
                let text = &story.texts[*query];
                if let Ok(subscription) = engine.submit(&Principal::local(), text, options) {
                    askers.insert(*query, Asker::new(subscription.query().id, is_plain(text)));
                }
            }
            Step::End(query) => {
                engine.drained().await;
                if let Some(asker) = askers.get(query)
                    && engine.query(&Principal::local(), &asker.id).unwrap().finished.is_none()
                {
                    let _ = engine.end_query(&Principal::local(), &asker.id, EndReason::Client);
                }
            }
            Step::Send(events) => {
                let events = &events[..kept[&place]];
                if !events.is_empty() {
                    send(&engine, events, false).await;
                    engine.drained().await;
                }
            }
            Step::Wait(millis) => {
                clock.advance_ms(*millis);
                engine.tick();
            }
            Step::Read(_) | Step::Restart | Step::Kill(_) => {}
        }
    }
    engine.drained().await;
    let mut given = BTreeMap::new();
    for (query, mut asker) in askers {
        if engine.query(&Principal::local(), &asker.id).unwrap().finished.is_none() {
            let _ = engine.end_query(&Principal::local(), &asker.id, EndReason::Client);
        }
        asker.read_all(&engine).await;
        given.insert(query, asker.given);
    }
    engine.shutdown(Duration::ZERO).await;
    given
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_and_kills_change_no_answer() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let first = number("TORTURE_SEED", 0);
    let mut compared = 0;
    for seed in first..first + number("DETACHED_CASES", 40) {
        let mut story = story(seed);
        if std::env::var("DETACHED_CALM").is_ok() {
            story.steps.retain(|step| !matches!(step, Step::Restart | Step::Kill(_)));
        }
        let (got, kept) = run_durable(&story).await;
        let expected = run_plain(&story, &kept).await;
        assert_eq!(got.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "seed {seed}");
        for (query, got) in &got {
            let told = || format!("seed {seed}, query {query}: {}\n{:?}", story.texts[*query], story.steps);
            assert_eq!(got, &expected[query], "{}", told());
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_closes_without_events_is_the_same_after_restarts_and_kills() {
    let mut emits = 0;
    for seed in 0..12 {
        let story = idle_story(seed);
        let (got, kept) = run_durable(&story).await;
        let calm = story.steps.iter().enumerate().filter_map(|(place, step)| match step {
            Step::Restart | Step::Kill(_) => None,
            Step::Send(events) if kept[&place] == 0 => events.is_empty().then(|| step.clone()),
            Step::Send(events) => Some(Step::Send(events[..kept[&place]].to_vec())),
            step => Some(step.clone()),
        });
        let (expected, _) = run_durable(&Story { steps: calm.collect(), ..story }).await;
        assert_eq!(got, expected, "seed {seed}");
        emits += got.values().map(|given| given.emits.len()).sum::<usize>();
    }
    assert!(emits > 500, "{emits}");
}

async fn asked(engine: &Engine, text: &str) -> Asker {
    let detached = engine.submit_detached(&Principal::local(), text, SubmitOptions::default()).await.unwrap();
    assert_eq!(detached.fleeting, None, "{text}");
    Asker::new(detached.id, is_plain(text))
}

fn event(number: u64) -> Vec<String> {
    vec![format!("{{\"k\":{},\"n\":{number}}}", number % 3)]
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_ended_while_the_server_was_away_are_given_after_it() {
    let clock = Arc::new(TestClock::at(START));
    let machine = Machine::new(Kind::Disk);
    let engine = machine.open_as(&clock, config(2)).await.unwrap();
    try_sql(&engine, "CREATE STREAM s WITH (store = true)").await.unwrap();
    let text = "SELECT COUNT(*) AS n FROM STREAM(3000, TIME) WINDOWING TUMBLING(1000, TIME)";
    let mut asker = asked(&engine, text).await;
    send(&engine, &event(1), true).await;
    clock.advance_ms(400);
    send(&engine, &event(2), true).await;
    engine.shutdown(Duration::ZERO).await;
    clock.advance_ms(60_000);
    let engine = machine.open_as(&clock, config(2)).await.unwrap();
    send(&engine, &event(3), true).await;
    asker.read_all(&engine).await;
    let windows: Vec<&str> =
        asker.given.emits.values().map(|text| text.split("[]").next().unwrap()).collect();
    let window = |number: i64, n: u64| {
        let (start, end) = (START + (number - 1) * 1000, START + number * 1000);
        format!("Some(({number}, {start}, {end}, 0)) {{\"n\":{n}}}\n")
    };
    assert_eq!(windows[..2], [window(1, 2), window(2, 0)]);
    assert_eq!(asker.given.end.as_ref().map(|end| (&end.0, end.1)), Some((&EndReason::Duration, 2)));
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restart_goes_through_again_is_bounded_by_the_window() {
    let clock = Arc::new(TestClock::at(START));
    let machine = Machine::new(Kind::Disk);
    let mut engine = machine.open_as(&clock, config(1)).await.unwrap();
    // If the rows of a stream have all that the queries need, the log need retain nothing.
    try_sql(&engine, "CREATE STREAM s (k LONG, n LONG)").await.unwrap();
    let mut askers = Vec::new();
    for text in [
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM STREAM() GROUP BY k WINDOWING TUMBLING(100, TIME)",
        "SELECT SUM(n) AS s FROM STREAM() WINDOWING EVERY(100, TIME, LAST, 300, TIME)",
        "SELECT n FROM STREAM() WHERE k = 1",
    ] {
        askers.push(asked(&engine, text).await);
    }
    let mut number = 0;
    for _ in 0..3 {
        for _ in 0..100 {
            send(&engine, &event(number), true).await;
            number += 1;
            clock.advance_ms(50);
            engine.followed().await;
            for asker in &mut askers {
                asker.read_some(&engine);
            }
        }
        engine.shutdown(Duration::from_secs(5)).await;
        engine = machine.open_as(&clock, config(1)).await.unwrap();
    }
    for asker in &mut askers {
        let _ = engine.end_query(&Principal::local(), &asker.id, EndReason::Client);
        asker.read_all(&engine).await;
        assert_eq!(asker.given.end.as_ref().map(|end| (&end.0, end.1)), Some((&EndReason::Client, number)));
        // The number of events read since the last start.
        let candidates =
            engine.query(&Principal::local(), &asker.id).map_or(0, |status| status.cost.candidates);
        assert!(candidates < 250, "{candidates}");
    }
    let matches: Vec<String> =
        (0..number).filter(|n| n % 3 == 1).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    assert_eq!(askers[2].given.records, matches.concat());
    let tumbling = &askers[0].given.emits;
    assert_eq!(tumbling.len() as u64, number / 2 + 1);
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_some_gets_what_comes_after_though_that_was_not_written_down() {
    let clock = Arc::new(TestClock::at(START));
    let mut machine = Machine::new(Kind::Disk);
    let config = || EngineConfig { detached_noted_ms: 86_400_000, ..config(1) };
    let mut engine = machine.open_as(&clock, config()).await.unwrap();
    try_sql(&engine, "CREATE STREAM s WITH (store = true)").await.unwrap();
    let mut askers = Vec::new();
    for text in [
        "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(100, TIME)",
        "SELECT n FROM STREAM(MAX, TIME)",
    ] {
        askers.push(asked(&engine, text).await);
    }
    for number in 0..12 {
        if number == 6 {
            askers.iter_mut().for_each(|asker| asker.read_some(&engine));
            assert_eq!([askers[0].last, askers[1].last], [3, 6]);
            machine.cut();
            engine.shutdown(Duration::ZERO).await;
            machine = machine.after_power_loss(1).await;
            engine = machine.open_as(&clock, config()).await.unwrap();
        }
        // The readers are attached before their answers are computed again.
        let attach = |asker: &Asker| engine.attach_after(&Principal::local(), &asker.id, asker.last).unwrap();
        let mut readers: Vec<_> = if number == 6 { askers.iter().map(attach).collect() } else { Vec::new() };
        send(&engine, &event(number), true).await;
        clock.advance_ms(50);
        engine.followed().await;
        for (asker, reader) in askers.iter_mut().zip(&mut readers) {
            while let Some(emit) = reader.try_next() {
                asker.take(&emit);
            }
        }
    }
    for asker in &mut askers {
        engine.end_query(&Principal::local(), &asker.id, EndReason::Client).unwrap();
        asker.read_all(&engine).await;
    }
    assert_eq!(askers[0].given.emits.keys().copied().collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
    let all: String = (0..12).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    assert_eq!(askers[1].given.records, all);
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_durable_says_why() {
    let clock = Arc::new(TestClock::at(START));
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(Kind::Disk);
    machine.views = Some(dir.path().to_owned());
    let engine =
        machine.open_as(&clock, EngineConfig { detached_durable_max: 1, ..config(1) }).await.unwrap();
    try_sql(&engine, "CREATE STREAM s (n LONG)").await.unwrap();
    let ask = async |text: &str, options: SubmitOptions| {
        engine.submit_detached(&Principal::local(), text, options).await
    };
    let why = async |text: &str, options: SubmitOptions| {
        let detached = ask(text, options).await.unwrap();
        let status = engine.query(&Principal::local(), &detached.id).unwrap();
        assert_eq!((status.durable, &status.fleeting), (false, &detached.fleeting));
        detached.fleeting.unwrap().to_string()
    };
    let options = SubmitOptions::default;
    assert_eq!(why("SELECT * FROM STREAM(t, MAX, TIME)", options()).await, "stream `t` is not stored");
    let times = SubmitOptions { times: true, ..options() };
    assert_eq!(
        why("SELECT n FROM STREAM()", times).await,
        "its records contain the time of the answer (`times`)"
    );
    let bullet = SubmitOptions { dialect: swiftwater_lang::Dialect::Bullet, ..options() };
    assert!(why("SELECT n FROM STREAM(MAX, TIME)", bullet).await.starts_with("by Bullet's rules"));
    try_sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT n, COUNT(*) AS c FROM STREAM(s) GROUP BY n")
        .await
        .unwrap();
    assert_eq!(
        why("SELECT s.n, v.c FROM STREAM(s) AS s JOIN v ON v.n = s.n", options()).await,
        "its events were joined with earlier rows, which cannot be replayed"
    );
    assert_eq!(why("SELECT n FROM STREAM(v, MAX, TIME)", options()).await, "stream `v` is not stored");
    try_sql(&engine, "DROP VIEW v").await.unwrap();
    let name = StreamName::new("s").unwrap();
    let standing = || engine.stream(&Principal::local(), &name).unwrap().queries;
    let before = standing();
    let durable = ask("SELECT n FROM STREAM()", options()).await.unwrap();
    assert!(engine.query(&Principal::local(), &durable.id).unwrap().durable);
    while standing() == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(standing(), before + 1);
    let one = "1 durable queries run already, which is the limit (`engine.detached_durable_max`)";
    assert_eq!(why("SELECT n FROM STREAM()", options()).await, one);
    // A stream that is dropped ends them.
    try_sql(&engine, "DROP STREAM s").await.unwrap();
    let mut read = engine.attach(&Principal::local(), &durable.id).unwrap();
    let last = read.next().await.unwrap();
    let failed = EndReason::Failed("stream `s` was dropped".to_owned());
    assert_eq!(last.meta.finished.map(|finished| finished.reason), Some(failed));
    drop(read);
    engine.shutdown(Duration::from_secs(1)).await;
    let engine = machine.open_as(&clock, config(1)).await.unwrap();
    assert!(engine.queries(&Principal::local()).is_empty());
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_and_its_results_are_there_after_a_restart_until_they_are_forgotten() {
    let clock = Arc::new(TestClock::at(START));
    let machine = Machine::new(Kind::Disk);
    let engine = machine.open_as(&clock, config(1)).await.unwrap();
    try_sql(&engine, "CREATE STREAM s WITH (store = true)").await.unwrap();
    let mut killed = asked(&engine, "SELECT k, COUNT(*) AS c FROM STREAM() GROUP BY k").await;
    let mut limited = asked(&engine, "SELECT n FROM STREAM() LIMIT 2").await;
    let deleted = asked(&engine, "SELECT n FROM STREAM() LIMIT 1").await;
    for number in 0..4 {
        send(&engine, &event(number), true).await;
    }
    engine.end_query(&Principal::local(), &killed.id, EndReason::Killed).unwrap();
    while engine.query(&Principal::local(), &deleted.id).unwrap().finished.is_none() {
        tokio::task::yield_now().await;
    }
    engine.end_query(&Principal::local(), &deleted.id, EndReason::Killed).unwrap();
    send(&engine, &event(4), true).await;
    engine.shutdown(Duration::from_secs(1)).await;
    let engine = machine.open_as(&clock, config(1)).await.unwrap();
    killed.read_all(&engine).await;
    let text = killed.given.emits.values().next().unwrap();
    assert!(text.starts_with("None {\"k\":0,\"c\":2}\n{\"k\":1,\"c\":1}\n{\"k\":2,\"c\":1}\n"), "{text}");
    assert_eq!(killed.given.end, Some((EndReason::Killed, 4, 4, 0)));
    limited.read_all(&engine).await;
    assert_eq!(limited.given.records, "{\"n\":0}\n{\"n\":1}\n");
    assert!(engine.query(&Principal::local(), &deleted.id).is_err());
    engine.shutdown(Duration::from_secs(1)).await;
    clock.advance_ms(700_000);
    let engine = machine.open_as(&clock, config(1)).await.unwrap();
    assert!(engine.query(&Principal::local(), &limited.id).is_err(), "its time is over");
    engine.shutdown(Duration::ZERO).await;
}
