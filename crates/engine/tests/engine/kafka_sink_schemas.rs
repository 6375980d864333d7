//! Tests sinks that write Avro and Protobuf into topics of a Kafka in memory, with a registry of the test's own: a stream that reads the
//! topic has the rows again, and what cannot be written is neither lost nor written otherwise.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::time::Duration;

use serde_json::{Value, json};
use swiftwater_engine::{Engine, SchemaSettings};
use swiftwater_testkit::{FakeKafka, FakeMessage, SendFault};

use crate::{
    history::{append, sql, stop, try_sql, until_said},
    kafka_schemas::{Registry, of_registry, open},
    kafka_sinks::{until, until_shown},
};

const GRACE: Duration = Duration::from_secs(5);

fn messages(kafka: &FakeKafka, topic: &str) -> Vec<FakeMessage> {
    kafka.committed_messages(topic, 0).into_iter().map(|(_, message)| message).collect()
}

/// The schema of the document that was posted, and the path.
fn posted(registry: &Registry, place: usize) -> (String, Value) {
    let state = registry.state.lock().unwrap();
    let (path, document) = state.posted[place].clone();
    (path, serde_json::from_str(document["schema"].as_str().unwrap()).unwrap())
}

async fn refused(engine: &Engine, statement: &str) -> String {
    try_sql(engine, statement).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_avro_are_read_again_as_they_were() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    let _ = ["rows.1", "totals"].map(|topic| kafka.make_topic(topic, 1));
    let url = registry.url();
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    let sink = format!(
        "CREATE SINK z FROM (SELECT k, at, price, name, tags FROM STREAM(s)) INTO KAFKA (topic = 'rows.1', key = 'k', \
         format = avro, registry = '{url}')"
    );
    for statement in [
        "CREATE STREAM s (k LONG NOT NULL, at TIMESTAMP, price DOUBLE, name STRING, tags LIST[STRING])",
        "CREATE MATERIALIZED VIEW v DELETE WHEN price < 0 AS SELECT k, COUNT(*) AS n, SUM(price) AS sum FROM STREAM(s) \
         GROUP BY k",
        &sink,
        &format!(
            "CREATE SINK y FROM CHANGES OF v INTO KAFKA (topic = 'totals', format = avro, registry = '{url}')"
        ),
        &format!(
            "CREATE STREAM back (k LONG, at TIMESTAMP(us), price DOUBLE, name STRING, tags LIST[STRING]) FROM KAFKA \
             (topic = 'rows.1', start = earliest, format = avro, registry = '{url}')"
        ),
        &format!(
            "CREATE STREAM totals (k LONG, n LONG, sum DOUBLE, _kafka MAP[STRING]) FROM KAFKA (topic = 'totals', \
             start = earliest, format = avro, registry = '{url}', include = (key))"
        ),
    ] {
        sql(&engine, statement).await;
    }
    let rows = [
        r#"{"k":1,"at":"2026-01-02T03:04:05.006Z","price":1.5,"name":"é","tags":["a",null]}"#,
        r#"{"k":2,"at":5}"#,
        r#"{"k":1,"price":-1}"#,
    ];
    append(&engine, "s", &rows[..1].join("\n"), None).await;
    until_said(&engine, "SELECT count(*) AS c FROM totals", "{\"c\":1}\n").await;
    append(&engine, "s", &rows[1..].join("\n"), None).await;
    until_said(&engine, "SELECT count(*) AS c FROM back", "{\"c\":3}\n").await;
    let all = "SELECT k, at, price, name, tags FROM back ORDER BY _offset";
    assert_eq!(
        sql(&engine, all).await,
        "{\"k\":1,\"at\":\"2026-01-02T03:04:05.006000Z\",\"price\":1.5,\"name\":\"é\",\"tags\":[\"a\",null]}\n\
         {\"k\":2,\"at\":\"1970-01-01T00:00:00.005000Z\",\"price\":null,\"name\":null,\"tags\":null}\n\
         {\"k\":1,\"at\":null,\"price\":-1.0,\"name\":null,\"tags\":null}\n"
    );
    // The schema is that of the columns, and its name that of the topic.
    let schemas = [posted(&registry, 0), posted(&registry, 1)];
    let (path, schema) = schemas.iter().find(|(path, _)| path.contains("rows")).unwrap();
    assert_eq!(path, "/subjects/rows.1-value/versions");
    assert_eq!(schema["name"], "rows_1");
    let time = json!({"type": "long", "logicalType": "timestamp-micros"});
    assert_eq!(schema["fields"][1], json!({"name": "at", "type": ["null", time], "default": null}));
    // Keys are texts, and rows that are no more are tombstones.
    until(&engine, || messages(&kafka, "totals").iter().any(|message| message.value.is_none())).await;
    let totals = messages(&kafka, "totals");
    assert!(totals.iter().all(|message| matches!(message.key.as_deref(), Some(b"1" | b"2"))));
    let keys = messages(&kafka, "rows.1").into_iter().map(|message| message.key.unwrap());
    assert_eq!(keys.collect::<Vec<_>>(), [b"1", b"2", b"1"]);
    // A start goes on with the same schema, and no row is there twice.
    kafka.fail_send(SendFault::AckLost);
    append(&engine, "s", r#"{"k":3}"#, None).await;
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    append(&engine, "s", r#"{"k":4}"#, None).await;
    until(&engine, || messages(&kafka, "rows.1").len() >= 5).await;
    until_said(&engine, "SELECT count(*) AS c FROM back", "{\"c\":5}\n").await;
    let keys = messages(&kafka, "rows.1").into_iter().map(|message| message.key.unwrap());
    assert_eq!(keys.collect::<Vec<_>>(), [b"1", b"2", b"1", b"3", b"4"]);
    assert_eq!(registry.state.lock().unwrap().posted.len(), 2);
    let created = sql(&engine, "SHOW CREATE SINK z").await;
    assert!(created.contains(&format!("format = avro, registry = '{url}'")), "{created}");
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_waits_for_a_registry_that_is_away_or_refuses() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 1);
    registry.set_status(Some(503));
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    let url = registry.url();
    for statement in [
        "CREATE STREAM s (k LONG NOT NULL)",
        "CREATE STREAM lost (sink TEXT, delivery LONG, error TEXT, \"row\" JSON)",
        &format!(
            "CREATE SINK z FROM (SELECT k FROM STREAM(s)) INTO KAFKA (topic = 't', format = avro, registry = '{url}') \
             WITH (retries = 0, dead_letter = lost)"
        ),
    ] {
        sql(&engine, statement).await;
    }
    append(&engine, "s", r#"{"k":1}"#, None).await;
    let away =
        "does not take the schema of subject `t-value` at present: it answered 503. The server asks again";
    until_shown(&engine, away).await;
    registry.set_status(None);
    registry.state.lock().unwrap().refusal = Some((409, "field `k` has no default"));
    let incompatible = "refuses the schema of subject `t-value`, which is not compatible with the versions there: field `k` \
                        has no default: correct the schema, or write to a topic of its own";
    until_shown(&engine, incompatible).await;
    registry.state.lock().unwrap().refusal = Some((403, ""));
    until_shown(&engine, "(it answered 403): set `registry` of [kafka.main] to this URL").await;
    registry.state.lock().unwrap().refusal = Some((422, "no schema"));
    until_shown(&engine, "refuses the schema of subject `t-value` (it answered 422: no schema)").await;
    assert!(messages(&kafka, "t").is_empty());
    registry.state.lock().unwrap().refusal = None;
    until(&engine, || messages(&kafka, "t").len() == 1).await;
    assert_eq!(messages(&kafka, "t")[0].value.as_deref(), Some(&[0, 0, 0, 0, 101, 2, 2][..]));
    until_shown(&engine, "\"rows\":1,\"dead_rows\":0").await;
    assert_eq!(sql(&engine, "SELECT count(*) AS c FROM lost").await, "{\"c\":0}\n");
    stop(engine, GRACE).await;
}

const STATE: &str = r#"{"type":"record","name":"S","fields":[{"name":"k","type":"string"},
    {"name":"state","type":{"type":"enum","name":"E","symbols":["OPEN","DONE"]}},
    {"name":"n","type":"int","default":7}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_go_to_the_dead_letter_stream_or_hold_the_sink_up() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let _ = ["t", "held"].map(|topic| kafka.make_topic(topic, 1));
    kafka.set_message_bytes_max("t", 400);
    std::fs::create_dir_all(dir.path().join("schemas")).unwrap();
    std::fs::write(dir.path().join("schemas/s.avsc"), STATE).unwrap();
    let engine = open(dir.path(), &kafka, SchemaSettings::default()).await;
    for statement in [
        "CREATE STREAM s (k STRING NOT NULL, state STRING)",
        "CREATE STREAM lost (sink TEXT, delivery LONG, error TEXT, \"row\" JSON)",
        "CREATE SINK z FROM (SELECT * FROM STREAM(s)) INTO KAFKA (topic = 't', key = k, format = avro, schema = 's.avsc') \
         WITH (dead_letter = lost)",
        "CREATE SINK h FROM (SELECT k, state FROM STREAM(s)) INTO KAFKA (topic = 'held', key = k, format = avro, \
         schema = 's.avsc')",
    ] {
        sql(&engine, statement).await;
    }
    let large = "x".repeat(500);
    let rows = [
        r#"{"k":"a","state":"OPEN"}"#,
        r#"{"k":"b","state":"LOST"}"#,
        r#"{"k":"c"}"#,
        &format!(r#"{{"k":"{large}","state":"OPEN"}}"#),
        r#"{"k":"d","state":"OPEN","more":1}"#,
        r#"{"k":"e","state":"DONE","n":3000000000}"#,
        r#"{"k":"f","state":"DONE","n":8}"#,
    ];
    append(&engine, "s", &rows.join("\n"), None).await;
    until_said(&engine, "SELECT count(*) AS c FROM lost", "{\"c\":5}\n").await;
    until_shown(&engine, "\"dead_rows\":5").await;
    let values: Vec<Vec<u8>> =
        messages(&kafka, "t").into_iter().map(|message| message.value.unwrap()).collect();
    // Without a registry there is no prefix; the row lacks `n`, whose default is 7.
    assert_eq!(values, [vec![2, b'a', 0, 14], vec![2, b'f', 2, 16]]);
    let lost = sql(&engine, "SELECT sink, error, \"row\" FROM lost ORDER BY _offset").await;
    let lost: Vec<Value> = lost.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let unfit = "the row does not fit the schema of the topic's messages: field";
    for (place, (row, error)) in [
        (1, format!("{unfit} `state`: the text is none of the symbols of the schema's enum")),
        (2, format!("{unfit} `state`: the row has no value for it, and the schema no default")),
        (4, format!("{unfit} `more`: the schema has no such field")),
        (5, format!("{unfit} `n`: 3000000000 does not fit 32 bits")),
        (3, "the row is larger than a message of the topic may be (`max.message.bytes`)".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(lost[place]["error"], error, "{place}");
        let found = match &lost[place]["row"] {
            Value::String(text) => serde_json::from_str(text).unwrap(),
            row => row.clone(),
        };
        assert_eq!(found["k"], serde_json::from_str::<Value>(rows[row]).unwrap()["k"], "{place}");
    }
    // The other sink says which row and field it is, and goes on when the schema is another one.
    let held = "2 of the rows do not fit the schema of the topic's messages; the first is row 2 of the delivery with the key `b`: \
                field `state`: the text is none of the symbols of the schema's enum";
    until_shown(&engine, held).await;
    assert!(messages(&kafka, "held").is_empty());
    let wider =
        STATE.replace(r#"{"type":"enum","name":"E","symbols":["OPEN","DONE"]}"#, r#"["null","string"]"#);
    std::fs::write(dir.path().join("schemas/s.avsc"), wider).unwrap();
    stop(engine, GRACE).await;
    let engine = open(dir.path(), &kafka, SchemaSettings::default()).await;
    until(&engine, || messages(&kafka, "held").len() == 7).await;
    assert_eq!(messages(&kafka, "held")[2].value.as_deref(), Some(&[2, b'c', 0, 14][..]));
    assert_eq!(messages(&kafka, "t").len(), 2);
    stop(engine, GRACE).await;
}

/// `message M { int64 k = 1; optional int64 n = 2; }` in `m.proto`, as protoc writes it.
fn descriptors() -> Vec<u8> {
    let field = |name: u8, number: u8, more: &[u8]| {
        let field = [&[0x0a, 1, name, 0x18, number, 0x20, 1, 0x28, 3][..], more, &[0x52, 1, name]].concat();
        [&[0x12, field.len() as u8][..], &field].concat()
    };
    // The second is in a `oneof` of its own, `_n`.
    let message = [
        &b"\x0a\x01M"[..],
        &field(b'k', 1, &[]),
        &field(b'n', 2, &[0x48, 0, 0x88, 0x01, 0x01]),
        b"\x42\x04\x0a\x02_n",
    ]
    .concat();
    let file = [&b"\x0a\x07m.proto\x22"[..], &[message.len() as u8], &message, b"\x62\x06proto3"].concat();
    [&[0x0a, file.len() as u8][..], &file].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_protobuf_are_read_again_as_they_were() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    let _ = ["t", "plain"].map(|topic| kafka.make_topic(topic, 1));
    std::fs::create_dir_all(dir.path().join("schemas")).unwrap();
    std::fs::write(dir.path().join("schemas/m.desc"), descriptors()).unwrap();
    let url = registry.url();
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    for statement in [
        "CREATE STREAM s (k LONG NOT NULL, n LONG)",
        &format!(
            "CREATE SINK z FROM (SELECT k, n FROM STREAM(s)) INTO KAFKA (topic = 't', format = protobuf, registry = '{url}', \
             descriptor = 'm.desc', message = 'M')"
        ),
        "CREATE SINK y FROM (SELECT k, n FROM STREAM(s)) INTO KAFKA (topic = 'plain', format = protobuf, \
         descriptor = 'm.desc')",
        &format!(
            "CREATE STREAM back (k LONG, n LONG) FROM KAFKA (topic = 't', start = earliest, format = protobuf, \
             registry = '{url}')"
        ),
    ] {
        sql(&engine, statement).await;
    }
    append(&engine, "s", "{\"k\":1,\"n\":0}\n{\"k\":2}", None).await;
    until_said(&engine, "SELECT count(*) AS c FROM back", "{\"c\":2}\n").await;
    let rows = sql(&engine, "SELECT k, n FROM back ORDER BY _offset").await;
    assert_eq!(rows, "{\"k\":1,\"n\":0}\n{\"k\":2,\"n\":null}\n");
    until(&engine, || messages(&kafka, "plain").len() == 2).await;
    let values = |topic| messages(&kafka, topic).into_iter().map(|message| message.value.unwrap()).collect();
    let plain: Vec<Vec<u8>> = values("plain");
    assert_eq!(plain, [vec![8, 1, 16, 0], vec![8, 2]]);
    let framed: Vec<Vec<u8>> = values("t");
    assert_eq!(framed[1], [&[0, 0, 0, 0, 101, 0][..], &plain[1]].concat());
    let state = registry.state.lock().unwrap().posted.clone();
    assert_eq!(state.len(), 1);
    assert_eq!((&*state[0].0, &state[0].1["schemaType"]), ("/subjects/t-value/versions", &json!("PROTOBUF")));
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_rows_cannot_have_are_refused() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 1);
    std::fs::create_dir_all(dir.path().join("schemas")).unwrap();
    std::fs::write(dir.path().join("schemas/s.avsc"), STATE).unwrap();
    std::fs::write(dir.path().join("schemas/m.desc"), descriptors()).unwrap();
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    sql(&engine, "CREATE STREAM s (k STRING NOT NULL, x LONG)").await;
    let registered = format!("format = avro, registry = '{}'", registry.url());
    for (query, options, fault) in [
        (
            "SELECT * FROM STREAM(s)",
            &*registered,
            "`*` has no columns of known types: name the columns. Or write the schema: schema = 'file.avsc'",
        ),
        ("SELECT k AS \"a b\" FROM STREAM(s)", &registered, "`a b` is no name of a field in Avro"),
        (
            "SELECT k, x FROM STREAM(s)",
            "format = avro, schema = 's.avsc'",
            "schema `s.avsc` is not one of the rows of the sink: it has no field `x`, which is a column of the rows",
        ),
        (
            "SELECT * FROM STREAM(s)",
            "format = avro, schema = 's.avsc'",
            "it has no field `x`, which is a column of the rows",
        ),
        (
            "SELECT k FROM STREAM(s)",
            "format = avro, schema = 's.avsc'",
            "its field `state` needs a value, and the rows have no column `state`",
        ),
        (
            "SELECT k FROM STREAM(s)",
            "format = avro, schema = 'none.avsc'",
            "cannot be read: No such file or directory",
        ),
        (
            "SELECT k FROM STREAM(s)",
            "format = protobuf, descriptor = 'm.desc', message = 'N'",
            "it has no message `N`: it has M",
        ),
        (
            "SELECT x FROM STREAM(s)",
            "format = protobuf, descriptor = 'm.desc'",
            "descriptor `m.desc` is not one of the rows of the sink: message `M` has no field `x`",
        ),
        (
            "SELECT k FROM STREAM(s)",
            "format = avro, registry = 'http://127.0.0.1:1'",
            "is at an address of this machine or of a private network: set `registry` of [kafka.main]",
        ),
        ("SELECT k FROM STREAM(s)", "format = avro", "`format = avro` needs `registry` or `schema`"),
    ] {
        let error =
            refused(&engine, &format!("CREATE SINK z FROM ({query}) INTO KAFKA (topic = 't', {options})"))
                .await;
        assert!(error.contains(fault), "{query}, {options}: {error}");
    }
    assert!(registry.state.lock().unwrap().posted.is_empty());
    stop(engine, GRACE).await;
}
