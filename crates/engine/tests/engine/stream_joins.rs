//! Tests stream joins: the target stream equals the output of two loops over all acknowledged events. It has each pair once,
//! in the order of the log, at any interruption.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use swiftwater_engine::{Engine, HistoryConfig, Numbered};
use swiftwater_testkit::{Rng, TestClock};

use crate::{
    crashes::{Kind, Machine, look_again, send},
    history::{append, sql, stop, try_sql, until_said},
    jobs::START,
    views::open,
};

const STREAMS: [&str; 3] = [
    "CREATE STREAM IF NOT EXISTS orders (id LONG NOT NULL, k LONG, amount LONG DEFAULT 7, ts TIMESTAMP(ms), pad STRING, \
     WATERMARK FOR ts AS ts - INTERVAL '40 ms')",
    "CREATE STREAM IF NOT EXISTS payments (id LONG NOT NULL, ref LONG PATH 'order.k', at LONG, WATERMARK FOR at AS at)",
    "CREATE STREAM IF NOT EXISTS pairs (o LONG, p LONG, sum LONG)",
];

const JOIN: &str = "CREATE JOIN IF NOT EXISTS matched INTO pairs AS \
     SELECT o.id AS o, p.id AS p, o.amount + p.id AS sum FROM STREAM(orders) AS o JOIN STREAM(payments) AS p \
     ON o.k = p.ref AND p.at BETWEEN o.ts - INTERVAL '30 ms' AND o.ts + INTERVAL '60 ms' \
     WHERE o.amount > 1 AND o.amount <> p.id";

/// An event of either stream: number, key and time.
#[derive(Debug, Clone, Copy)]
struct Told {
    is_payment: bool,
    id: i64,
    key: Option<i64>,
    time: Option<i64>,
    /// Amount of an order; none: its default.
    amount: Option<i64>,
}

impl Told {
    fn text(&self, pad: usize) -> String {
        let number = |number: Option<i64>| number.map_or("null".to_owned(), |number| number.to_string());
        let (id, key, time) = (self.id, number(self.key), number(self.time));
        if self.is_payment {
            return format!(r#"{{"id":{id},"order":{{"k":{key}}},"at":{time}}}"#);
        }
        let amount = self.amount.map_or(String::new(), |amount| format!(r#""amount":{amount},"#));
        let pad = "x".repeat(pad);
        format!(r#"{{"id":{id},"k":{key},{amount}"ts":{time},"pad":"{pad}"}}"#)
    }

    fn stream(&self) -> &'static str {
        if self.is_payment { "payments" } else { "orders" }
    }
}

/// The rows of the pairs, by two loops over the whole history.
fn expected(told: &[Told]) -> Vec<String> {
    let is_late = |at: usize| {
        let of = told[at].is_payment;
        let latest =
            told[..at].iter().filter(|other| other.is_payment == of).filter_map(|other| other.time).max();
        let lateness = if of { 0 } else { 40 };
        latest.is_some_and(|latest| told[at].time.unwrap() < latest - lateness)
    };
    let joins = |at: usize| {
        let Told { is_payment, key, time, amount, .. } = told[at];
        time.is_some() && key.is_some() && (is_payment || amount.unwrap_or(7) > 1) && !is_late(at)
    };
    let joins: Vec<bool> = (0..told.len()).map(joins).collect();
    let mut rows = Vec::new();
    for later in (0..told.len()).filter(|at| joins[*at]) {
        let mut of_later = Vec::new();
        for earlier in (0..later).filter(|at| joins[*at]) {
            let (order, payment) = match (told[earlier].is_payment, told[later].is_payment) {
                (false, true) => (told[earlier], told[later]),
                (true, false) => (told[later], told[earlier]),
                _ => continue,
            };
            let apart = payment.time.unwrap() - order.time.unwrap();
            let amount = order.amount.unwrap_or(7);
            if order.key == payment.key && (-30..=60).contains(&apart) && amount != payment.id {
                let row =
                    format!("{{\"o\":{},\"p\":{},\"sum\":{}}}\n", order.id, payment.id, amount + payment.id);
                of_later.push((told[earlier].time, earlier, row));
            }
        }
        of_later.sort_unstable();
        rows.extend(of_later.into_iter().map(|(.., row)| row));
    }
    rows
}

/// Random events: two streams whose times go on together, some of them late, without a key or without a time.
struct Source {
    rng: Rng,
    now: i64,
    next: i64,
}

impl Source {
    fn new(seed: u64) -> Source {
        Source { rng: Rng::new(seed), now: 1_700_000_000_000, next: 0 }
    }

    fn one(&mut self, is_payment: bool) -> Told {
        let rng = &mut self.rng;
        self.now += rng.below(4) as i64;
        self.next += 1;
        let late = if is_payment { 4 } else { 60 };
        let time = self.now - if rng.chance(0.3) { rng.below(late) as i64 } else { 0 };
        Told {
            is_payment,
            id: self.next,
            key: (!rng.chance(0.05)).then(|| rng.below(4) as i64),
            time: (!rng.chance(0.05)).then_some(time),
            amount: (!is_payment && rng.chance(0.7)).then(|| rng.below(20) as i64),
        }
    }

    /// Random events of one stream.
    fn some(&mut self, count: usize) -> Vec<Told> {
        let is_payment = self.rng.chance(0.5);
        (0..count).map(|_| self.one(is_payment)).collect()
    }
}

const PAIRS: &str = "SELECT o, p, sum FROM pairs ORDER BY _offset";

fn texts(told: &[Told], pad: usize) -> Vec<String> {
    told.iter().map(|told| told.text(pad)).collect()
}

async fn send_all(engine: &Engine, told: &[Told]) {
    if let Some(first) = told.first() {
        append(engine, first.stream(), &texts(told, 0).join("\n"), None).await;
    }
}

/// Sends random events and restarts now and then; the pairs are right in the end, and in their order.
async fn rounds(seed: u64, settings: fn(&mut HistoryConfig)) {
    let dir = tempfile::tempdir().unwrap();
    let (mut source, mut told) = (Source::new(seed), Vec::new());
    for round in 0..6 {
        let engine = open(dir.path(), settings).await;
        if round == 0 {
            for text in STREAMS.iter().chain([&JOIN]) {
                sql(&engine, text).await;
            }
        }
        for _ in 0..12 {
            let count = source.rng.below(40) + 1;
            let some = source.some(count);
            send_all(&engine, &some).await;
            told.extend(some);
        }
        // With all told, and while some are on their way.
        if round % 2 == 0 {
            until_said(&engine, PAIRS, &expected(&told).concat()).await;
        }
        stop(engine, if round % 3 == 0 { Duration::from_secs(5) } else { Duration::ZERO }).await;
    }
    let engine = open(dir.path(), settings).await;
    until_said(&engine, PAIRS, &expected(&told).concat()).await;
    assert!(expected(&told).len() > 500, "{} pairs of {} events", expected(&told).len(), told.len());
    let shown: Value = serde_json::from_str(&sql(&engine, "DESCRIBE JOIN matched").await).unwrap();
    let (late, untimed) = (shown["late"].as_i64().unwrap(), shown["untimed"].as_i64().unwrap());
    assert_eq!(untimed, told.iter().filter(|told| told.time.is_none()).count() as i64);
    assert!(late > 5 && shown["kept_events"].as_i64().unwrap() < 1000, "{shown}");
    assert!(shown["failing"].is_null(), "{shown}");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_are_those_of_the_acknowledged_events_however_often_a_join_is_cut_off() {
    rounds(3, |_| ()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_are_the_same_where_nothing_fits_into_memory() {
    rounds(4, |history| {
        history.joins_memory_bytes_max = 0;
        history.views_commit_interval_ms = 1;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pairs_of_one_key_come_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    for text in STREAMS.iter().chain([&JOIN]) {
        sql(&engine, text).await;
    }
    let event =
        |is_payment: bool, id: i64| Told { is_payment, id, key: Some(1), time: Some(5), amount: None };
    let orders: Vec<Told> = (0..600).map(|id| event(false, id)).collect();
    let payments: Vec<Told> = (1000..1300).map(|id| event(true, id)).collect();
    send_all(&engine, &orders).await;
    send_all(&engine, &payments).await;
    // While it is at it.
    stop(engine, Duration::ZERO).await;
    engine = open(dir.path(), |_| ()).await;
    let counted = "SELECT count(*) AS n, count(DISTINCT o * 10000 + p) AS d FROM pairs";
    until_said(&engine, counted, "{\"n\":180000,\"d\":180000}\n").await;
    let ordered = "SELECT count(*) AS n FROM pairs WHERE _offset = (p - 1000) * 600 + o";
    assert_eq!(sql(&engine, ordered).await, "{\"n\":180000}\n");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_joined_with_itself_and_its_pairs_are_joined_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM s (id LONG, k STRING, ts LONG, WATERMARK FOR ts AS ts)",
        "CREATE STREAM twos (a LONG, b LONG, k STRING, ts LONG, WATERMARK FOR ts AS ts)",
        "CREATE STREAM threes (a LONG, b LONG, c LONG)",
        "CREATE JOIN two INTO twos AS SELECT x.id AS a, y.id AS b, x.k AS k, y.ts AS ts FROM STREAM(s) x JOIN STREAM(s) y \
         ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '10 ms' WHERE x.id <> y.id",
        "CREATE JOIN three INTO threes AS SELECT x.a AS a, x.b AS b, y.id AS c FROM STREAM(twos) x JOIN STREAM(s) y \
         ON x.k = y.k AND y.ts BETWEEN x.ts + INTERVAL '1 ms' AND x.ts + INTERVAL '10 ms'",
    ] {
        sql(&engine, text).await;
    }
    let events = r#"{"id":1,"k":"u","ts":100}
{"id":2,"k":"u","ts":105}
{"id":3,"k":"v","ts":105}
{"id":4,"k":"u","ts":115}"#;
    append(&engine, "s", events, None).await;
    until_said(&engine, "SELECT a, b FROM twos ORDER BY _offset", "{\"a\":1,\"b\":2}\n{\"a\":2,\"b\":4}\n")
        .await;
    until_said(&engine, "SELECT a, b, c FROM threes ORDER BY _offset", "{\"a\":1,\"b\":2,\"c\":4}\n").await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_against_a_join_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| history.joins_max = 1).await;
    for text in STREAMS {
        sql(&engine, text).await;
    }
    sql(&engine, "CREATE STREAM live (k LONG, ts LONG, WATERMARK FOR ts AS ts) WITH (store = false)").await;
    let of = |left: &str, right: &str, target: &str| {
        format!(
            "CREATE JOIN j INTO {target} AS\nSELECT x.id FROM STREAM({left}) x JOIN STREAM({right}) y\n\
             ON x.k = y.ref AND y.at BETWEEN x.ts AND x.ts + INTERVAL '1 s'"
        )
    };
    let wrong = [
        (of("none", "payments", "pairs"), "no stream `none`"),
        (of("orders", "payments", "none"), "no stream `none`"),
        (of("orders", "live", "pairs"), "`live` is live-only"),
        (of("orders", "payments", "orders"), "the join reads stream `orders`: its pairs would return to it"),
        (of("orders", "pairs", "payments"), "stream `pairs` declares no WATERMARK"),
        ("DROP JOIN j".to_owned(), "no join `j`"),
        ("DESCRIBE JOIN j".to_owned(), "no join `j`"),
    ];
    for (text, expected) in wrong {
        let error = try_sql(&engine, &text).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // Faults that only the streams show have their place, too.
    let error = try_sql(&engine, &of("orders", "payments", "pairs").replace("x.id", "x.id + k, at")).await;
    let error = error.unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.line, place.column, &*error.to_string()), (2, 8, "this column has no name"));
    sql(&engine, JOIN).await;
    sql(&engine, JOIN).await;
    let back = "CREATE JOIN back INTO orders AS SELECT x.o AS id FROM STREAM(pairs) x JOIN STREAM(orders) y \
                ON x.o = y.id AND x.ts BETWEEN y.ts AND y.ts + INTERVAL '1 s'";
    for (text, expected) in [
        (back, "the join reads stream `orders`: its pairs would return to it"),
        ("DROP STREAM orders", "join `matched` reads stream `orders`, or writes into it"),
        ("DROP STREAM pairs", "join `matched` reads stream `pairs`, or writes into it"),
        (
            "ALTER STREAM orders ALTER COLUMN amount SET DEFAULT 8",
            "join `matched` reads stream `orders`, or writes into it",
        ),
        (&JOIN.replace("IF NOT EXISTS ", ""), "join `matched` already exists"),
        (&JOIN.replace("matched", "other"), "number of joins"),
        ("ALTER JOIN matched SET (x = 1)", "a join cannot be altered"),
    ] {
        let error = try_sql(&engine, text).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    sql(&engine, "ALTER STREAM orders ADD COLUMN note STRING").await;
    let shown = sql(&engine, "SHOW CREATE JOIN matched").await;
    assert!(shown.contains("CREATE JOIN matched INTO pairs AS\\nSELECT o.id AS o"), "{shown}");
    assert!(
        sql(&engine, "SHOW JOINS")
            .await
            .contains("\"left\":\"orders\",\"right\":\"payments\",\"stream\":\"pairs\"")
    );
    sql(&engine, "DROP JOIN matched").await;
    assert_eq!(sql(&engine, "SHOW JOINS").await, "");
    sql(&engine, "DROP STREAM pairs").await;
    sql(&engine, "DROP STREAM orders").await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_keeps_too_much_stops_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| history.joins_state_bytes_max = 1000).await;
    for text in STREAMS.iter().chain([&JOIN]) {
        sql(&engine, text).await;
    }
    let event = |id: i64| Told { is_payment: false, id, key: Some(id), time: Some(5), amount: None };
    let orders: Vec<Told> = (0..100).map(event).collect();
    send_all(&engine, &orders).await;
    let failing = async {
        loop {
            let shown: Value = serde_json::from_str(&sql(&engine, "SHOW JOINS").await).unwrap();
            if let Some(why) = shown["failing"].as_str() {
                assert!(why.contains("limit is 1000 (`joins.state_bytes_max`)"), "{why}");
                break;
            }
            look_again().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), failing).await.unwrap();
    sql(&engine, "DROP JOIN matched").await;
    stop(engine, Duration::from_secs(5)).await;
}

/// Crashes are so many calls apart.
const STEP: u64 = 31;

/// Runs the client's steps on an engine; none: the power went off. Each step has its time.
async fn crashed_steps(
    machine: &Machine,
    engine: &Engine,
    (requests, expected): (&[Vec<Told>], &str),
    (call, at): (u64, &mut usize),
) -> Option<()> {
    let what = format!("call {call}");
    for text in STREAMS.iter().chain([&JOIN]) {
        machine.unless_off(&what, try_sql(engine, text)).await?;
    }
    while let Some(request) = requests.get(*at) {
        let texts = texts(request, 300);
        machine.unless_off(&what, send(engine, request[0].stream(), (&texts, &[]), *at as u64)).await?;
        *at += 1;
    }
    let (mut known, mut same) = (0, 0);
    loop {
        let found = machine.unless_off(&what, try_sql(engine, PAIRS)).await?;
        assert!(expected.starts_with(&found), "{what}: {found}, not {expected}");
        if found == expected {
            return Some(());
        }
        same = if found.len() == known { same + 1 } else { 0 };
        known = found.len();
        if same == 20_000 {
            let shown = machine.unless_off(&what, try_sql(engine, "SHOW JOINS")).await?;
            panic!("{what}: no more than {known} of {} bytes of pairs come: {shown}", expected.len());
        }
        look_again().await;
    }
}

/// One client that sends numbered requests, on a machine whose power goes off at a call, and once more while it comes back.
async fn crashed_run(dir: &Path, call: u64, requests: &[Vec<Told>], expected: &str) -> bool {
    let mut rng = Rng::new(call);
    let mut machine = Machine::new(Kind::Disk);
    machine.views = Some(dir.to_owned());
    machine.power.off_at(call, call % 2 == 1);
    let (clock, mut at, mut crashes) = (Arc::new(TestClock::at(START)), 0, 0);
    loop {
        let engine = loop {
            let (mut settings, options) = Machine::settings();
            settings.views_commit_interval_ms = 1;
            settings.joins_memory_bytes_max = if call.is_multiple_of(3) { 0 } else { 1 << 20 };
            match machine.open_with(&clock, (settings, options)).await {
                Ok(engine) => break Some(engine),
                Err(_) if machine.power.is_off() => break None,
                // Threads of the engine before may have the files still.
                Err(swiftwater_engine::HistoryError::View(_)) => look_again().await,
                Err(error) => panic!("call {call}: {error}"),
            }
        };
        let done = match &engine {
            Some(engine) => {
                crashed_steps(&machine, engine, (requests, expected), (call, &mut at)).await.is_some()
            }
            None => false,
        };
        if let Some(engine) = engine {
            engine.shutdown(Duration::ZERO).await;
        }
        if done {
            return crashes > 0;
        }
        crashes += 1;
        machine = machine.after_power_loss(rng.below(1 << 30) as u64).await;
        if crashes == 1 && rng.chance(0.5) {
            machine.power.off_at(rng.below(120) as u64, rng.chance(0.5));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn power_that_goes_off_at_any_call_loses_and_doubles_no_pair() {
    let mut source = Source::new(11);
    let requests: Vec<Vec<Told>> = (0..30)
        .map(|_| {
            let count = source.rng.below(12) + 1;
            source.some(count)
        })
        .collect();
    let expected = expected(&requests.concat());
    assert!(expected.len() > 50, "{} pairs", expected.len());
    let expected = expected.concat();
    let step = std::env::var("SWIFTWATER_ENGINE_CRASH_STEP").ok().and_then(|step| step.parse().ok());
    let step: u64 = step.unwrap_or(STEP).max(1);
    let (mut call, mut crashes) = (step / 2, 0);
    loop {
        let dir = tempfile::tempdir().unwrap();
        if !crashed_run(dir.path(), call, &requests, &expected).await {
            break;
        }
        crashes += 1;
        call += step;
    }
    assert!(crashes > 10, "{crashes} crashes");
    println!("the power went off {crashes} times in runs of {call} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_join_needs_is_kept_in_the_log_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| history.log_segment_bytes = 1 << 20).await;
    for text in STREAMS.iter().chain([&JOIN]) {
        sql(&engine, text).await;
    }
    sql(&engine, "CREATE STREAM other (x STRING)").await;
    // The log retains nothing for the join from a stream that it does not read.
    let text = "x".repeat(100_000);
    let lines: Vec<String> = (0..10).map(|_| format!("{{\"x\":\"{text}\"}}")).collect();
    for sequence in 0..8 {
        let numbered = Numbered { producer: "p".into(), sequence, part: 0, after: 0, hash: 0 };
        append(&engine, "other", &lines.join("\n"), Some(numbered)).await;
    }
    let shown = async {
        loop {
            let shown: Value = serde_json::from_str(&sql(&engine, "SHOW JOINS").await).unwrap();
            if shown["behind_bytes"] == 0 {
                break;
            }
            look_again().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), shown).await.unwrap();
    stop(engine, Duration::from_secs(5)).await;
}
