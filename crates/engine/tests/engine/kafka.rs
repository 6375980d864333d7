//! Tests streams over topics of a Kafka in memory: each message is stored once, whatever happens, and what is lost is said.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{sync::Arc, time::Duration};

use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, KafkaConnections, Principal, SubmitOptions};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_kafka::{Kafka, KafkaError, KafkaErrorKind};
use swiftwater_testkit::{FakeKafka, FakeMessage, Rng, TestClock};

use crate::{
    crashes::{Kind, Machine},
    history::{batch, open_when_free, quick, sql, stop, try_sql, until_said},
};

const GRACE: Duration = Duration::from_secs(5);

fn connections(kafka: &FakeKafka) -> KafkaConnections {
    let kafka: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let connections = [("main".into(), kafka)].into();
    KafkaConnections { connections, refresh: Duration::from_millis(5), ..KafkaConnections::default() }
}

async fn open(dir: &std::path::Path, kafka: &FakeKafka) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let history = HistoryConfig { kafka: connections(kafka), ..quick(dir) };
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

fn produce(kafka: &FakeKafka, partition: u32, numbers: std::ops::Range<u64>) {
    let values: Vec<String> = numbers.map(|n| format!("{{\"n\":{n}}}")).collect();
    kafka.append_values("t", partition, values.iter().map(String::as_str));
}

/// The numbers that the stream has, in its order.
async fn numbers(engine: &Engine) -> Vec<u64> {
    let text = sql(engine, "SELECT n FROM s ORDER BY _offset").await;
    text.lines().map(|line| line[5..line.len() - 1].parse().unwrap()).collect()
}

async fn until_count(engine: &Engine, count: usize) {
    let (text, expected) = ("SELECT count(*) AS c FROM s", format!("{{\"c\":{count}}}\n"));
    let said = tokio::time::timeout(Duration::from_secs(60), async {
        while try_sql(engine, text).await.ok().as_ref() != Some(&expected) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    if said.await.is_err() {
        let (found, shown) = (try_sql(engine, text).await, sql(engine, "SHOW PARTITIONS").await);
        panic!("{found:?}, not {expected}: {shown}");
    }
}

/// Pauses the stream; its reader, which has read partition 0 up to an offset, has ended then.
async fn pause(engine: &Engine, position: u64) {
    sql(engine, "ALTER STREAM s PAUSE").await;
    // It changes nothing, and waits for the reader.
    let skipped = sql(engine, &format!("ALTER STREAM s SKIP PARTITION 0 TO {position}")).await;
    assert_eq!(skipped, "{\"changed\":false}\n");
}

/// Waits until `SHOW PARTITIONS` has this text.
pub(crate) async fn until_shown(engine: &Engine, text: &str) -> String {
    let shown = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let shown = sql(engine, "SHOW PARTITIONS").await;
            if shown.contains(text) {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    });
    match shown.await {
        Ok(shown) => shown,
        Err(_) => panic!("{text} is not in {}", sql(engine, "SHOW PARTITIONS").await),
    }
}

/// A message as it is produced, and its value in the stream; none if it is no event.
fn random_message(rng: &mut Rng, n: u64) -> (FakeMessage, Option<u64>) {
    let value = |text: String| FakeMessage { key: Some(format!("k{n}").into()), ..FakeMessage::value(text) };
    match rng.below(12) {
        0 => (FakeMessage { key: Some(b"k".to_vec()), ..FakeMessage::default() }, None),
        1 => (value(format!("{{\"n\":{n}")), None),
        2 => (value(String::new()), None),
        3 => (value(format!("{{\"n\":\"text {n}\"}}")), None),
        4 => (value(format!("{{\n\"n\": {n}\n}}")), Some(n)),
        _ => (value(format!("{{\"n\":{n}}}")), Some(n)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_is_stored_once_at_whatever_call_the_power_goes_off() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        let kafka = FakeKafka::new();
        let partitions = 1 + rng.below(3) as u32;
        kafka.make_topic("t", partitions);
        kafka.set_batch_messages(1 + rng.below(20));
        let settings = || {
            let (history, options) = Machine::settings();
            (HistoryConfig { kafka: connections(&kafka), ..history }, options)
        };
        let mut machine = Machine::new(if rng.chance(0.5) { Kind::Disk } else { Kind::Remote });
        let engine = machine.open_with(&clock, settings()).await.unwrap();
        sql(
            &engine,
            "CREATE STREAM s (n LONG, _kafka MAP[LONG]) FROM KAFKA (topic = 't', start = earliest, \
             include = (partition, offset)) WITH (on_bad_event = quarantine)",
        )
        .await;
        let (mut engine, mut expected, mut bad, mut n) = (Some(engine), Vec::new(), 0, 0);
        for round in 0..4 {
            let is_last = round == 3;
            if !is_last {
                machine.power.off_at(machine.power.calls() + 1 + rng.below(200) as u64, false);
            }
            for _ in 0..60 {
                let partition = rng.below(partitions as usize) as u32;
                let transaction = rng.chance(0.2).then(|| kafka.begin());
                let commits = rng.chance(0.7);
                for _ in 0..1 + rng.below(4) {
                    let (message, value) = random_message(&mut rng, n);
                    n += 1;
                    let has_value = message.value.is_some();
                    let offset = match transaction {
                        Some(transaction) => kafka.append_in(transaction, "t", partition, message),
                        None => kafka.append("t", partition, message),
                    };
                    if transaction.is_none() || commits {
                        match value {
                            Some(n) => expected.push((partition, offset, n)),
                            None if has_value => bad += 1,
                            None => {}
                        }
                    }
                }
                if let Some(transaction) = transaction {
                    if commits { kafka.commit(transaction) } else { kafka.abort(transaction) }
                }
                tokio::task::yield_now().await;
            }
            if is_last {
                break;
            }
            while !machine.power.is_off() {
                tokio::task::yield_now().await;
                if rng.chance(0.001) {
                    machine.cut();
                }
            }
            if let Some(engine) = engine.take() {
                stop(engine, Duration::ZERO).await;
            }
            machine = machine.after_power_loss(seed * 10 + round).await;
            engine = Some(machine.open_with(&clock, settings()).await.unwrap());
        }
        let engine = engine.unwrap();
        until_count(&engine, expected.len()).await;
        until_said(&engine, "SELECT count(*) AS c FROM quarantine", &format!("{{\"c\":{bad}}}\n")).await;
        let rows =
            sql(&engine, "SELECT _kafka['partition'] AS p, _kafka['offset'] AS o, n FROM s ORDER BY _offset")
                .await;
        let rows: Vec<serde_json::Value> =
            rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let number = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap();
        let mut found: Vec<(u32, u64, u64)> =
            rows.iter().map(|row| (number(row, "p") as u32, number(row, "o"), number(row, "n"))).collect();
        // A partition's messages have its order, whatever was between them.
        found.sort_by_key(|(partition, _, _)| *partition);
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");
        stop(engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_positions_are_persisted_before_a_message_is_read() {
    for (start, expected) in [
        ("latest", vec![5, 6]),
        ("earliest", (0..7).collect()),
        ("'0:3'", vec![3, 4, 5, 6]),
        ("'1970-01-01T00:00:00.004Z'", vec![4, 5, 6]),
        ("'2050-01-01T00:00:00Z'", vec![5, 6]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let kafka = FakeKafka::new();
        kafka.make_topic("t", 1);
        for n in 0..5 {
            let message = FakeMessage::value(format!("{{\"n\":{n}}}"));
            kafka.append("t", 0, FakeMessage { timestamp: Some(n), ..message });
        }
        let engine = open(dir.path(), &kafka).await;
        sql(&engine, &format!("CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = {start})")).await;
        until_shown(&engine, "caught up").await;
        stop(engine, Duration::ZERO).await;
        produce(&kafka, 0, 5..7);
        let engine = open(dir.path(), &kafka).await;
        until_count(&engine, expected.len()).await;
        assert_eq!(numbers(&engine).await, expected, "{start}");
        stop(engine, GRACE).await;
    }
}

/// A reader that began before the table of its stream was open kept its positions in memory.
#[tokio::test(flavor = "multi_thread")]
async fn positions_of_streams_that_are_created_one_after_another_are_persisted() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..3);
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let engine = open(dir.path(), &kafka).await;
    for name in &names {
        sql(&engine, &format!("CREATE STREAM {name} (n LONG) FROM KAFKA (topic = 't')")).await;
    }
    for name in &names {
        until_shown(
            &engine,
            &format!("\"stream\":\"{name}\",\"topic\":\"t\",\"partition\":0,\"position\":3"),
        )
        .await;
    }
    stop(engine, Duration::ZERO).await;
    produce(&kafka, 0, 3..5);
    let engine = open(dir.path(), &kafka).await;
    for name in &names {
        until_said(&engine, &format!("SELECT count(*) AS c FROM {name}"), "{\"c\":2}\n").await;
    }
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_come_later_are_read_from_their_beginning() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..3);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't')").await;
    until_shown(&engine, "\"partition\":0,\"position\":3,\"end\":3").await;
    kafka.add_partitions("t", 3);
    produce(&kafka, 2, 10..12);
    until_count(&engine, 2).await;
    assert_eq!(numbers(&engine).await, [10, 11]);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_messages_stop_a_stored_partition_until_a_statement_lets_it_go_on() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 2);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    produce(&kafka, 0, 0..3);
    until_count(&engine, 3).await;
    sql(&engine, "ALTER STREAM s PAUSE").await;
    until_shown(&engine, "\"paused\"").await;
    produce(&kafka, 0, 3..10);
    produce(&kafka, 1, 20..22);
    kafka.delete_before("t", 0, 8);
    sql(&engine, "ALTER STREAM s RESUME").await;
    let shown = until_shown(&engine, "\"stopped\"").await;
    assert!(
        shown.contains("5 messages from offset 3 on were deleted before they were read. To read on from offset 8: ALTER STREAM s SKIP PARTITION 0 TO 8"),
        "{shown}"
    );
    // The other partition is read.
    until_count(&engine, 5).await;
    sql(&engine, "ALTER STREAM s SET KAFKA (on_gap = skip)").await;
    until_count(&engine, 7).await;
    let shown = until_shown(&engine, "\"lost\":5").await;
    assert!(shown.contains("\"position\":10,\"end\":10,\"lag\":0"), "{shown}");
    let (text, options) = ("SELECT n FROM STREAM(s) LIMIT 1", SubmitOptions::default());
    let mut query = engine.submit(&Principal::local(), text, options).unwrap();
    produce(&kafka, 1, 22..23);
    assert_eq!(query.next().await.unwrap().meta.stream.lost, 5);
    let mut all = numbers(&engine).await;
    all.sort_unstable();
    all.retain(|n| *n != 22);
    assert_eq!(all, [0, 1, 2, 8, 9, 20, 21]);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skipped_partition_goes_on_at_the_offset_of_the_statement() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 2);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    produce(&kafka, 0, 0..3);
    produce(&kafka, 1, 20..22);
    until_count(&engine, 5).await;
    pause(&engine, 3).await;
    produce(&kafka, 0, 3..12);
    kafka.delete_before("t", 0, 8);
    sql(&engine, "ALTER STREAM s RESUME").await;
    let shown = until_shown(&engine, "\"stopped\"").await;
    assert!(shown.contains("ALTER STREAM s SKIP PARTITION 0 TO 8"), "{shown}");
    // Another partition is not skipped by it.
    produce(&kafka, 1, 22..24);
    until_count(&engine, 7).await;
    assert_eq!(sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 10").await, "{\"changed\":true}\n");
    until_count(&engine, 9).await;
    let shown = until_shown(&engine, "\"position\":12,\"end\":12").await;
    // Of the seven offsets, five had been deleted.
    assert!(shown.contains("\"position\":12,\"end\":12,\"lag\":0,\"lost\":5,\"skipped\":2,"), "{shown}");
    let mut all = numbers(&engine).await;
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 10, 11, 20, 21, 22, 23]);
    // It is there already.
    assert_eq!(sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 12").await, "{\"changed\":false}\n");
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_stream_can_be_skipped_and_goes_on_there_after_a_restart() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    produce(&kafka, 0, 0..3);
    until_count(&engine, 3).await;
    pause(&engine, 3).await;
    produce(&kafka, 0, 3..10);
    sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 6").await;
    let shown = until_shown(&engine, "\"paused\"").await;
    assert!(shown.contains("\"position\":6,\"end\":10,\"lag\":4,\"lost\":0,\"skipped\":3,"), "{shown}");
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "ALTER STREAM s RESUME").await;
    until_count(&engine, 7).await;
    assert_eq!(numbers(&engine).await, [0, 1, 2, 6, 7, 8, 9]);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_that_was_acknowledged_survives_a_loss_of_power_at_whatever_call() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10);
    let (mut acknowledged, mut refused) = (0, 0);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        let kafka = FakeKafka::new();
        kafka.make_topic("t", 1);
        let settings = || {
            let (history, options) = Machine::settings();
            (HistoryConfig { kafka: connections(&kafka), ..history }, options)
        };
        let mut machine = Machine::new(Kind::Disk);
        let engine = machine.open_with(&clock, settings()).await.unwrap();
        sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
        produce(&kafka, 0, 0..3);
        until_count(&engine, 3).await;
        pause(&engine, 3).await;
        produce(&kafka, 0, 3..10);
        machine.power.off_at(machine.power.calls() + 1 + rng.below(20) as u64, false);
        let is_acknowledged = tokio::select! {
            skipped = try_sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 6") => skipped.is_ok(),
            () = async { while !machine.power.is_off() { tokio::task::yield_now().await } } => false,
        };
        if is_acknowledged {
            acknowledged += 1;
            while !machine.power.is_off() {
                machine.cut();
                tokio::task::yield_now().await;
            }
        } else {
            refused += 1;
        }
        stop(engine, Duration::ZERO).await;
        machine = machine.after_power_loss(seed).await;
        let engine = machine.open_with(&clock, settings()).await.unwrap();
        sql(&engine, "ALTER STREAM s RESUME").await;
        until_said(&engine, "SELECT count(*) > 3 AS c FROM s", "{\"c\":true}\n").await;
        let found = numbers(&engine).await;
        let is_skipped = found == [0, 1, 2, 6, 7, 8, 9];
        assert!(
            is_skipped || !is_acknowledged && found == (0..10).collect::<Vec<_>>(),
            "seed {seed}: {found:?}"
        );
        stop(engine, GRACE).await;
    }
    assert!(acknowledged > 0 && refused > 0, "{acknowledged} and {refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn skips_that_cannot_be_are_refused_with_the_offset() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 2);
    let engine = open(dir.path(), &kafka).await;
    let refused = async |text: &str| try_sql(&engine, text).await.unwrap_err().to_string();
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    produce(&kafka, 0, 0..5);
    until_count(&engine, 5).await;
    for (statement, error) in [
        ("s SKIP PARTITION 0 TO 4", "offset 4 is behind the position of partition 0 of topic `t`, 5"),
        ("s SKIP PARTITION 0 TO 6", "offset 6 is beyond the end of partition 0 of topic `t`, 5"),
        ("s SKIP PARTITION 2 TO 0", "topic `t` has no partition 2"),
        ("none SKIP PARTITION 0 TO 6", "no stream `none`"),
        ("plain SKIP PARTITION 0 TO 6", "stream `plain` reads no topic of Kafka"),
    ] {
        if statement.starts_with("plain") {
            sql(&engine, "CREATE STREAM plain (n LONG)").await;
        }
        assert_eq!(refused(&format!("ALTER STREAM {statement}")).await, error);
    }
    assert_eq!(
        sql(&engine, "ALTER STREAM IF EXISTS none SKIP PARTITION 0 TO 6").await,
        "{\"changed\":false}\n"
    );
    kafka.set_away(true);
    let error = refused("ALTER STREAM s SKIP PARTITION 0 TO 5").await;
    assert!(error.starts_with("the end of partition 0 of topic `t` cannot be read at present"), "{error}");
    kafka.set_away(false);
    // Positions of the former topic are none of the new one.
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 10..15);
    until_shown(&engine, "was deleted and made again").await;
    let error = refused("ALTER STREAM s SKIP PARTITION 0 TO 5").await;
    assert_eq!(error, "partition 0 of topic `t` has no position yet");
    assert_eq!(numbers(&engine).await, [0, 1, 2, 3, 4]);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_stream_is_skipped_until_the_server_starts_again() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..3);
    let engine = open(dir.path(), &kafka).await;
    let events = |engine: &Engine| {
        let name = StreamName::new("s").unwrap();
        engine.streams(&Principal::local()).into_iter().find(|stream| stream.name == name).unwrap().events
    };
    sql(&engine, "CREATE STREAM s FROM KAFKA (topic = 't', start = earliest)").await;
    until_shown(&engine, "\"position\":3").await;
    pause(&engine, 3).await;
    produce(&kafka, 0, 3..10);
    sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 8").await;
    sql(&engine, "ALTER STREAM s RESUME").await;
    let shown = until_shown(&engine, "\"position\":10").await;
    assert!(shown.contains("\"skipped\":5"), "{shown}");
    assert_eq!(events(&engine), 5);
    stop(engine, GRACE).await;
    let engine = open(dir.path(), &kafka).await;
    until_shown(&engine, "\"position\":10").await;
    assert_eq!(events(&engine), 10);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_that_was_made_again_is_another_topic() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..3);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    until_count(&engine, 3).await;
    kafka.make_topic("t", 1);
    // More messages than the earlier one had: its offsets are there.
    produce(&kafka, 0, 10..15);
    let shown = until_shown(&engine, "was deleted and made again: messages of").await;
    assert!(shown.contains("\"failing\"") && shown.contains("SET KAFKA (on_gap = skip)"), "{shown}");
    assert_eq!(numbers(&engine).await, [0, 1, 2]);
    sql(&engine, "ALTER STREAM s SET KAFKA (on_gap = skip)").await;
    until_count(&engine, 8).await;
    assert_eq!(numbers(&engine).await, [0, 1, 2, 10, 11, 12, 13, 14]);
    // It goes on in the new one after a restart.
    stop(engine, GRACE).await;
    produce(&kafka, 0, 15..16);
    let engine = open(dir.path(), &kafka).await;
    until_count(&engine, 9).await;
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_stream_begins_at_its_start_again() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..3);
    for _ in 0..2 {
        let engine = open(dir.path(), &kafka).await;
        sql(&engine, "CREATE STREAM IF NOT EXISTS s FROM KAFKA (topic = 't', start = earliest)").await;
        until_shown(&engine, "\"position\":3").await;
        let name = StreamName::new("s").unwrap();
        let status =
            engine.streams(&Principal::local()).into_iter().find(|stream| stream.name == name).unwrap();
        assert_eq!((status.events, status.is_stored), (3, false));
        stop(engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_shown_with_what_to_do() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let engine = open(dir.path(), &kafka).await;
    let refused = async |text: &str| try_sql(&engine, text).await.unwrap_err().to_string();
    let error = refused("CREATE STREAM s FROM KAFKA (topic = 't', connection = other)").await;
    assert_eq!(error, "the settings have no connection `other` to Kafka: they have main");
    sql(&engine, "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest)").await;
    until_shown(&engine, "\"failing\"").await;
    kafka.make_topic("t", 1);
    produce(&kafka, 0, 0..2);
    until_count(&engine, 2).await;
    let name = StreamName::new("s").unwrap();
    let appended = engine.append(&Principal::local(), &name, batch("{\"n\":1}"), Default::default()).await;
    assert_eq!(
        appended.unwrap_err().to_string(),
        "stream `s` reads a topic of Kafka, and takes no other events"
    );
    assert!(refused("INSERT INTO s (n) VALUES (1)").await.contains("takes no other events"));
    let right = KafkaErrorKind::Unauthorized { right: "READ on topic `t`".into() };
    kafka.set_error("t", 0, Some(KafkaError::new(right, "not authorized")));
    produce(&kafka, 0, 2..4);
    let shown = until_shown(&engine, "\"waiting\"").await;
    assert!(
        shown.contains(
            "not authorized (Add an ACL on the broker that allows this identity READ on topic `t`.)"
        ),
        "{shown}"
    );
    kafka.set_error("t", 0, None);
    until_count(&engine, 4).await;
    kafka.set_away(true);
    produce(&kafka, 0, 4..6);
    kafka.set_away(false);
    until_count(&engine, 6).await;
    sql(&engine, "DROP STREAM s").await;
    until_said(&engine, "SHOW PARTITIONS", "").await;
    assert!(refused("ALTER STREAM quarantine PAUSE").await.contains("quarantine"));
    stop(engine, GRACE).await;
}
