//! Tests streams over topics of Avro and Protobuf, with a Kafka in memory and a registry of the test's own: schemas that are not
//! there yet hold up their partition alone, bad messages do not, and no message is lost or read twice.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, KafkaConnections, SchemaSettings};
use swiftwater_event::SystemClock;
use swiftwater_kafka::Kafka;
use swiftwater_testkit::{FakeKafka, FakeMessage};

use crate::{
    history::{open_when_free, quick, sql, stop, try_sql, until_said},
    kafka::until_shown,
};

const GRACE: Duration = Duration::from_secs(5);

/// A schema registry: documents by path, as long as the test runs. Schemas that are posted get the ids 101, 102 and so on.
pub(crate) struct Registry {
    address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    documents: HashMap<String, String>,
    /// The status of all answers, if it is not by path.
    status: Option<u16>,
    /// The status and the reason of all answers to what is posted, if it is refused.
    pub(crate) refusal: Option<(u16, &'static str)>,
    /// The header that requests must have.
    authorization: Option<String>,
    requests: Vec<String>,
    /// The path and the document of each POST, each once.
    pub(crate) posted: Vec<(String, serde_json::Value)>,
}

impl Registry {
    pub(crate) fn start() -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let Some((head, document)) = request(&mut stream) else { continue };
                let (status, body) = shared.lock().unwrap().answer(&head, &document);
                // The client may be gone.
                let _ = stream.write_all(
                    format!(
                        "HTTP/1.1 {status} It is\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                        body.len()
                    )
                    .as_bytes(),
                );
            }
        });
        Registry { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Registers a document under a path below the URL.
    fn set(&self, path: &str, document: serde_json::Value) {
        self.state.lock().unwrap().documents.insert(path.to_owned(), document.to_string());
    }

    pub(crate) fn set_status(&self, status: Option<u16>) {
        self.state.lock().unwrap().status = status;
    }

    pub(crate) fn avro(&self, id: u32, schema: &str) {
        self.set(&format!("/schemas/ids/{id}"), serde_json::json!({ "schema": schema }));
    }

    pub(crate) fn protobuf(&self, id: u32, schema: &str) {
        let document = serde_json::json!({ "schema": schema, "schemaType": "PROTOBUF" });
        self.set(&format!("/schemas/ids/{id}"), document);
    }

    /// The number of requests for a path so far.
    fn requests(&self, path: &str) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|request| *request == path).count()
    }
}

impl State {
    fn answer(&mut self, head: &str, document: &str) -> (u16, String) {
        let path = head.split(' ').nth(1).unwrap_or_default();
        self.requests.push(path.to_owned());
        let is_allowed = self.authorization.as_ref().is_none_or(|header| head.contains(header));
        if head.starts_with("POST ") && self.status.is_none() && is_allowed {
            return self.register(path, document);
        }
        match (self.status, self.documents.get(path)) {
            (Some(status), _) => (status, String::new()),
            _ if !is_allowed => (401, String::new()),
            (None, Some(document)) => (200, document.clone()),
            (None, None) => (404, r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned()),
        }
    }
}

impl State {
    fn register(&mut self, path: &str, document: &str) -> (u16, String) {
        if let Some((status, reason)) = self.refusal {
            return (status, serde_json::json!({ "error_code": status, "message": reason }).to_string());
        }
        let posted = (path.to_owned(), serde_json::from_str(document).unwrap());
        let known = self.posted.iter().position(|other| *other == posted);
        let place = known.unwrap_or_else(|| {
            self.posted.push(posted);
            self.posted.len() - 1
        });
        let id = 101 + place;
        self.documents.insert(format!("/schemas/ids/{id}"), document.to_owned());
        (200, serde_json::json!({ "id": id }).to_string())
    }
}

/// The head of a request, and the document that it has.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut request, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut some).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, document)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if document.len() >= length.unwrap_or(0) {
            return Some((format!("{head}\r\n"), document.to_owned()));
        }
    }
}

pub(crate) async fn open(dir: &Path, kafka: &FakeKafka, schemas: SchemaSettings) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let connection: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let kafka = KafkaConnections {
        connections: [("main".into(), connection)].into(),
        schemas: [("main".into(), schemas)].into(),
        refresh: Duration::from_millis(5),
    };
    let history = HistoryConfig { kafka, ..quick(dir) };
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

pub(crate) fn of_registry(registry: &Registry) -> SchemaSettings {
    SchemaSettings { registry: Some(registry.url()), ..SchemaSettings::default() }
}

pub(crate) fn framed(schema: u32, payload: &[u8]) -> Vec<u8> {
    [&[0][..], &schema.to_be_bytes(), payload].concat()
}

fn produce(kafka: &FakeKafka, partition: u32, value: Vec<u8>) {
    let key = Some(b"k".to_vec());
    kafka.append("t", partition, FakeMessage { key, ..FakeMessage::value(value) });
}

/// A record with a number below 64.
fn number(schema: u32, n: u8) -> Vec<u8> {
    framed(schema, &[2 * n])
}

const NUMBER: &str = r#"{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}"#;

async fn numbers(engine: &Engine) -> String {
    let text = sql(engine, "SELECT n FROM s ORDER BY _offset").await;
    text.lines().map(|line| &line[5..line.len() - 1]).collect::<Vec<_>>().join(",")
}

async fn until_count(engine: &Engine, table: &str, count: usize) {
    until_said(engine, &format!("SELECT count(*) AS c FROM {table}"), &format!("{{\"c\":{count}}}\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_registry_become_events() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 1);
    let outer = r#"{"type":"record","name":"Outer","fields":[{"name":"key","type":"shop.Key"},
        {"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
        {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":6,"scale":2}},
        {"name":"note","type":["null","string"]}]}"#;
    registry.set(
        "/schemas/ids/7",
        serde_json::json!({"schema": outer, "references": [{"name": "shop.Key", "subject": "a key/1", "version": 3}]}),
    );
    let key = r#"{"type":"enum","name":"Key","namespace":"shop","symbols":["A","B"]}"#;
    registry
        .set("/subjects/a%20key%2F1/versions/3", serde_json::json!({"schema": key, "subject": "a key/1"}));
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    sql(
        &engine,
        &format!(
            "CREATE STREAM s (key STRING, at TIMESTAMP(us), price STRING, note STRING, _kafka MAP[LONG]) FROM KAFKA \
             (topic = 't', start = earliest, format = avro, registry = '{}/', include = (offset))",
            registry.url()
        ),
    )
    .await;
    produce(&kafka, 0, framed(7, &[2, 2, 4, 0x30, 0x39, 2, 4, b'o', b'k']));
    produce(&kafka, 0, framed(7, &[0, 1, 2, 0xff, 0]));
    until_count(&engine, "s", 2).await;
    let rows =
        sql(&engine, "SELECT key, at, price, note, _kafka['offset'] AS o FROM s ORDER BY _offset").await;
    assert_eq!(
        rows,
        "{\"key\":\"B\",\"at\":\"1970-01-01T00:00:00.000001Z\",\"price\":\"123.45\",\"note\":\"ok\",\"o\":0}\n\
         {\"key\":\"A\",\"at\":\"1969-12-31T23:59:59.999999Z\",\"price\":\"-0.01\",\"note\":null,\"o\":1}\n"
    );
    assert_eq!(registry.requests("/schemas/ids/7"), 1);
    // The stream's format changes to Protobuf: the messages from now on.
    registry.protobuf(8, "syntax = \"proto3\"; message A { string key = 1; } message B { string note = 2; }");
    sql(&engine, "ALTER STREAM s SET KAFKA (format = protobuf)").await;
    produce(&kafka, 0, framed(8, &[0, 0x0a, 1, b'x']));
    produce(&kafka, 0, framed(8, &[2, 2, 0x12, 1, b'y']));
    until_count(&engine, "s", 4).await;
    let rows = sql(&engine, "SELECT key, note FROM s WHERE _kafka['offset'] >= 2 ORDER BY _offset").await;
    assert_eq!(rows, "{\"key\":\"x\",\"note\":null}\n{\"key\":null,\"note\":\"y\"}\n");
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_waits_for_a_schema_and_others_are_read() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 2);
    kafka.set_batch_messages(3);
    registry.avro(1, NUMBER);
    for (schema, n) in [(1, 0), (1, 1), (2, 2), (1, 3), (2, 4)] {
        produce(&kafka, 0, number(schema, n));
    }
    (10..20).for_each(|n| produce(&kafka, 1, number(1, n)));
    let create = format!(
        "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest, format = avro, registry = '{}')",
        registry.url()
    );
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    sql(&engine, &create).await;
    until_count(&engine, "s", 12).await;
    let shown = until_shown(&engine, "\"waiting\"").await;
    let missing = format!(
        "registry `{}` has no schema 2: register it there, or correct `registry` of the stream. The server asks again",
        registry.url()
    );
    assert!(shown.contains(&missing), "{shown}");
    assert!(shown.contains("\"partition\":0,\"position\":2,\"end\":5,\"lag\":3"), "{shown}");
    assert!(shown.contains("\"partition\":1,\"position\":10,\"end\":10,\"lag\":0"), "{shown}");
    // It is asked for again, and other partitions are still read.
    produce(&kafka, 1, number(1, 20));
    until_count(&engine, "s", 13).await;
    // So it is after a start, also while the registry is away.
    stop(engine, GRACE).await;
    registry.set_status(Some(503));
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    let shown = until_shown(&engine, "\"waiting\"").await;
    assert!(
        shown.contains("does not have schema 2 at present: it answered 503. The server asks again"),
        "{shown}"
    );
    produce(&kafka, 1, number(1, 21));
    until_shown(&engine, "does not have schema 1 at present").await;
    registry.avro(2, NUMBER);
    registry.set_status(None);
    until_count(&engine, "s", 17).await;
    let shown = until_shown(&engine, "\"partition\":0,\"position\":5").await;
    assert!(!shown.contains("waiting"), "{shown}");
    let all = numbers(&engine).await;
    let of = |range: std::ops::Range<u32>| {
        let all = all.split(',').map(|n| n.parse::<u32>().unwrap());
        all.filter(|n| range.contains(n)).collect::<Vec<_>>()
    };
    assert_eq!(of(0..10), [0, 1, 2, 3, 4]);
    assert_eq!(of(10..30), (10..22).collect::<Vec<u32>>());
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_messages_are_quarantined_with_their_schema() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 1);
    registry.avro(1, NUMBER);
    registry.avro(2, "\"no type\"");
    registry.protobuf(3, "message M {}");
    registry.set("/schemas/ids/4", serde_json::json!({"schema": "{}", "schemaType": "JSON"}));
    registry.avro(5, "\"long\"");
    registry.avro(6, r#"{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}"#);
    registry.avro(7, r#"{"type":"record","name":"R","fields":[{"name":"n","type":"long"},{"name":"r","type":["null","R"]}]}"#);
    let engine = open(dir.path(), &kafka, of_registry(&registry)).await;
    sql(
        &engine,
        &format!(
            "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest, format = avro, registry = '{}') \
             WITH (on_bad_event = quarantine)",
            registry.url()
        ),
    )
    .await;
    let bad: [(Vec<u8>, &str); 10] = [
        (b"{\"n\":1}".to_vec(), "the message begins with the byte 123"),
        (vec![0, 0, 1], "the message ends within the schema's id"),
        (framed(1, &[]), "field `n`: the message ends too early"),
        (framed(1, &[2, 0]), "1 bytes follow the value"),
        (framed(2, &[]), "schema 2 of the registry cannot be used: type `no type` is not defined"),
        (
            framed(3, &[]),
            "schema 3 of the registry cannot be used: it is one of Protobuf, and the stream reads Avro",
        ),
        (
            framed(4, &[]),
            "schema 4 of the registry cannot be used: it is one of JSON, and the stream reads Avro",
        ),
        (framed(5, &[2]), ""),
        (framed(6, &[2, b'x']), ""),
        (framed(7, &[2; 600]), "it nests deeper than 128 levels"),
    ];
    produce(&kafka, 0, number(1, 1));
    for (message, _) in &bad {
        produce(&kafka, 0, message.clone());
        produce(&kafka, 0, number(1, 2));
    }
    until_count(&engine, "s", 11).await;
    until_count(&engine, "quarantine", 10).await;
    let rows = sql(&engine, "SELECT reason FROM quarantine ORDER BY _offset").await;
    let rows: Vec<&str> = rows.lines().collect();
    for (place, (message, reason)) in bad.iter().enumerate() {
        assert!(rows[place].contains(reason), "{reason}: {}", rows[place]);
        let offset = 1 + 2 * place;
        let described = format!("a message of topic `t`, partition 0, offset {offset}, key `k`");
        // One that does not fit the columns is described by its column.
        if place != 8 {
            assert!(rows[place].contains(&described), "{}", rows[place]);
            let schema =
                (message[0] == 0 && message.len() >= 5).then(|| format!("key `k`, schema {}", message[4]));
            assert!(schema.is_none_or(|schema| rows[place].contains(&schema)), "{}", rows[place]);
        }
    }
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_for_a_registry_is_that_of_the_connection() {
    let (dir, kafka, registry) = (tempfile::tempdir().unwrap(), FakeKafka::new(), Registry::start());
    kafka.make_topic("t", 1);
    registry.avro(1, NUMBER);
    // Of `me:se:cret`.
    registry.state.lock().unwrap().authorization =
        Some("authorization: Basic bWU6c2U6Y3JldA==\r\n".to_owned());
    let password = dir.path().join("password");
    std::fs::write(&password, "wrong").unwrap();
    let settings = SchemaSettings {
        registry_username: Some("me".to_owned()),
        registry_password_file: Some(password.clone()),
        ..of_registry(&registry)
    };
    let data = dir.path().join("data");
    let engine = open(&data, &kafka, settings).await;
    produce(&kafka, 0, number(1, 1));
    let create = |url: &str| {
        format!(
            "CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest, format = avro, registry = '{url}')"
        )
    };
    sql(&engine, &create(&registry.url())).await;
    let shown = until_shown(&engine, "\"waiting\"").await;
    assert!(shown.contains("refuses schema 1 (it answered 401): set `registry` of [kafka.main]"), "{shown}");
    assert!(!shown.contains("wrong"), "{shown}");
    std::fs::write(&password, "se:cret\n").unwrap();
    until_count(&engine, "s", 1).await;
    // Another registry does not get them, nor is it reached if it is at a private address.
    sql(&engine, "DROP STREAM s").await;
    let other = Registry::start();
    let refused = try_sql(&engine, &create(&other.url())).await.unwrap_err().to_string();
    let expected = format!(
        "registry `{}` is at an address of this machine or of a private network: set `registry` of [kafka.main] to this URL, \
         or `sinks.private_addresses`",
        other.url()
    );
    assert_eq!(refused, expected);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_schemas_are_for_messages_without_prefix() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    let engine = open(dir.path(), &kafka, SchemaSettings::default()).await;
    let create = |options: &str| {
        format!("CREATE STREAM s (n LONG) FROM KAFKA (topic = 't', start = earliest, {options})")
    };
    let refused = async |text: &str| try_sql(&engine, text).await.unwrap_err().to_string();
    let avro = create("format = avro, schema = 'sub/n.avsc'");
    let error = refused(&avro).await;
    let file = dir.path().join("schemas/sub/n.avsc");
    let missing = format!("{} cannot be read: No such file or directory", file.display());
    assert!(error.starts_with(&missing) && error.contains("`schema_dir` of [kafka.main]"), "{error}");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "\"secret\"").unwrap();
    assert_eq!(refused(&avro).await, format!("schema {}: type `secret` is not defined", file.display()));
    std::fs::write(&file, NUMBER).unwrap();
    sql(&engine, &avro).await;
    produce(&kafka, 0, vec![2]);
    produce(&kafka, 0, vec![]);
    produce(&kafka, 0, vec![4]);
    until_count(&engine, "s", 2).await;
    assert_eq!(numbers(&engine).await, "1,2");
    // `message M { int64 n = 1; }` in `m.proto`, as protoc writes it.
    let message = b"\x0a\x01M\x12\x0c\x0a\x01n\x18\x01\x20\x01\x28\x03\x52\x01n";
    let file_descriptor =
        [&b"\x0a\x07m.proto\x22"[..], &[message.len() as u8], message, b"\x62\x06proto3"].concat();
    let set = [&[0x0a, file_descriptor.len() as u8][..], &file_descriptor].concat();
    std::fs::write(dir.path().join("schemas/m.desc"), set).unwrap();
    let error =
        refused("ALTER STREAM s SET KAFKA (format = protobuf, descriptor = 'm.desc', message = 'N')").await;
    assert!(error.ends_with("it has no message `N`: it has M"), "{error}");
    sql(&engine, "ALTER STREAM s SET KAFKA (format = protobuf, descriptor = 'm.desc')").await;
    produce(&kafka, 0, vec![8, 3]);
    until_count(&engine, "s", 3).await;
    // A file that is gone stops the stream as a whole, until it is back.
    stop(engine, GRACE).await;
    let away = dir.path().join("away");
    std::fs::rename(dir.path().join("schemas/m.desc"), &away).unwrap();
    produce(&kafka, 0, vec![8, 4]);
    let engine = open(dir.path(), &kafka, SchemaSettings::default()).await;
    let shown = until_shown(&engine, "\"failing\"").await;
    assert!(shown.contains("its schemas cannot be read: "), "{shown}");
    std::fs::rename(&away, dir.path().join("schemas/m.desc")).unwrap();
    until_count(&engine, "s", 4).await;
    assert_eq!(numbers(&engine).await, "1,2,3,4");
    stop(engine, GRACE).await;
}
