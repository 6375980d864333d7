//! Tests bodies of events in all forms, whole and in pieces.

use std::{io::Write, path::Path};

use bytes::Bytes;
use hyper::{StatusCode, body::Frame};
use serde_json::{Value, json};
use swiftwater_engine::HistoryConfig;

use crate::client::{Running, soon};

const EVENTS: &str = "/v1/streams/s/events";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Compresses text as HTTP defines `deflate`: with zlib's header and checksum.
fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

fn piece(bytes: impl Into<Bytes>) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(bytes.into()))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_arrays_and_lines_are_taken() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let mut offset = 0;
    for (body, count) in [
        ("{\"n\": 0}", 1),
        ("[{\"n\": 1}, {\"n\": 2}]", 2),
        ("{\"n\": 3}\n{\"n\": 4}\n\n{\"n\": 5}\r\n", 3),
        ("", 0),
        ("  \n", 0),
        ("[]", 0),
    ] {
        let reply = server.ingest("s", body).await;
        assert_eq!(reply.status, 200, "{body}");
        offset += count;
        let position =
            if count > 0 { json!({"source": "s", "partition": 0, "offset": offset}) } else { Value::Null };
        let expected = json!({"accepted": count, "rejected": 0, "position": position, "errors": []});
        assert_eq!(reply.json().await, expected, "{body}");
    }
    let records = results.records(6).await;
    assert_eq!(records, (0..6).map(|n| json!({"n": n})).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn encodings_are_undone() {
    let server = Running::start().await;
    let text = b"{\"n\": 1}\n{\"n\": 2}\n";
    let twice = |one: Vec<u8>| [one.clone(), one].concat();
    for (encoding, body, count) in [
        ("identity", text.to_vec(), 2),
        ("gzip", gzip(text), 2),
        ("x-gzip", twice(gzip(text)), 4),
        ("GZIP", Vec::new(), 0),
        ("deflate", deflate(text), 2),
        ("Deflate", Vec::new(), 0),
        ("zstd", zstd(text), 2),
        ("zstd", twice(zstd(text)), 4),
        ("zstd", Vec::new(), 0),
    ] {
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], body).await;
        assert_eq!(reply.status, 200, "{encoding}");
        assert_eq!(reply.json().await["accepted"], count, "{encoding}");
    }
    for encoding in ["br", "gzip, gzip", "nonsense"] {
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], "{}").await;
        let problem = reply.problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-content").await;
        assert!(problem["hint"].as_str().unwrap().contains("gzip"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_that_are_broken_say_so_and_keep_what_came_before() {
    let server = Running::start().await;
    let text = b"{\"n\": 1}\n{\"n\": 2}\n";
    for (encoding, whole) in [("gzip", gzip(text)), ("deflate", deflate(text)), ("zstd", zstd(text))] {
        let short = whole[..whole.len() - 3].to_vec();
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], short).await;
        let problem = reply.problem(StatusCode::BAD_REQUEST, "body-corrupt").await;
        assert_eq!(problem["detail"], "the compressed body ends too early", "{encoding}");
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], text.to_vec()).await;
        let problem = reply.problem(StatusCode::BAD_REQUEST, "body-corrupt").await;
        assert!(problem["detail"].as_str().unwrap().contains(encoding), "{problem}");
        assert_eq!(problem["accepted"], 0);
        let junk = [whole.clone(), b"\x01\x02 this is not a beginning".to_vec()].concat();
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], junk).await;
        reply.problem(StatusCode::BAD_REQUEST, "body-corrupt").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_body_with_a_wrong_checksum_is_refused() {
    let server = Running::start().await;
    for (encoding, mut body, from_end) in
        [("gzip", gzip(b"{\"n\": 1}\n"), 8), ("deflate", deflate(b"{\"n\": 1}\n"), 4)]
    {
        let checksum = body.len() - from_end;
        body[checksum] ^= 1;
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], body).await;
        reply.problem(StatusCode::BAD_REQUEST, "body-corrupt").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_may_end_anywhere() {
    let server = Running::start().await;
    let text = "{\"a\": \"x\\\"}{\", \"b\": \"é\"}\n{\"a\": [1, {\"b\": 2}]}\n";
    for (encoding, body) in [
        ("identity", text.as_bytes().to_vec()),
        ("gzip", gzip(text.as_bytes())),
        ("deflate", deflate(text.as_bytes())),
        ("zstd", zstd(text.as_bytes())),
    ] {
        let (pieces, reply) = server.client().await.stream(EVENTS, &[("content-encoding", encoding)]);
        for byte in body {
            pieces.send(piece(vec![byte])).await.unwrap();
        }
        drop(pieces);
        let reply = soon(reply).await.unwrap().unwrap().json().await;
        assert_eq!((&reply["accepted"], &reply["rejected"]), (&json!(2), &json!(0)), "{encoding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_goes_on_is_seen_piece_by_piece() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    for n in 0..3 {
        pieces.send(piece(format!("{{\"n\": {n}}}\n"))).await.unwrap();
        assert_eq!(results.records(1).await, [json!({"n": n})]);
    }
    drop(pieces);
    assert_eq!(soon(reply).await.unwrap().unwrap().json().await["accepted"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_breaks_off_leaves_what_was_whole() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    pieces.send(piece("{\"n\": 1}\n{\"n\": 2}\n{\"n\"")).await.unwrap();
    assert_eq!(results.records(2).await.len(), 2);
    pieces.send(Err(std::io::Error::other("gone"))).await.unwrap();
    assert!(soon(reply).await.unwrap().is_err());
    soon(async {
        while server.get("/v1/streams/s").await.json().await["rejected"] != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.get("/v1/streams/s").await.json().await["events"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_events_are_told_with_their_places() {
    let server = Running::start().await;
    let reply = server.ingest("s", "{\"n\": 1}\n{\"n\": nope}\n{\"n\": 3}\n").await;
    assert_eq!(reply.status, 200);
    let reply = reply.json().await;
    assert_eq!((&reply["accepted"], &reply["rejected"]), (&json!(2), &json!(1)));
    let error = &reply["errors"][0];
    assert_eq!(
        (&error["line"], &error["column"], &error["path"]),
        (&json!(2), &json!(7), &Value::Null),
        "{error}"
    );
    assert!(error["message"].is_string());

    let reply = server.ingest("s", "{\"n\": nope}\n".repeat(25)).await;
    let problem = reply.problem(StatusCode::BAD_REQUEST, "events-rejected").await;
    assert_eq!((&problem["accepted"], &problem["rejected"]), (&json!(0), &json!(25)));
    assert_eq!(problem["errors"].as_array().unwrap().len(), 10);
    assert_eq!(problem["position"], Value::Null);
    assert_eq!(server.get("/v1/streams/s").await.json().await["rejected"], 26);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_are_as_asked() {
    let server = Running::start().await;
    let send = |query: &'static str| server.send("POST", query, &[], "{\"n\": 1}");
    let reply = send("/v1/streams/s/events?ack=memory").await;
    assert_eq!((reply.status, reply.json().await["position"]["offset"].clone()), (200, json!(1)));
    let reply = send("/v1/streams/s/events?ack=none").await;
    assert_eq!(reply.status, 202);
    let reply = reply.json().await;
    assert_eq!((&reply["accepted"], &reply["position"]), (&json!(1), &Value::Null));
    soon(async {
        while server.get("/v1/streams/s").await.json().await["events"] != 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let problem =
        send("/v1/streams/s/events?ack=disk").await.problem(StatusCode::CONFLICT, "not-stored").await;
    assert!(problem["detail"].as_str().unwrap().contains("`s` is live-only"));
    send("/v1/streams/s/events?ack=maybe").await.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_requests_are_refused_by_name() {
    let server = Running::start().await;
    let check = async |path: &str, word: &str, hint: &str| {
        let problem = server.send("POST", path, &[], "{}").await.problem(StatusCode::BAD_REQUEST, word).await;
        let told =
            format!("{} {}", problem["detail"].as_str().unwrap(), problem["hint"].as_str().unwrap_or(""));
        assert!(told.contains(hint), "{problem}");
    };
    check("/v1/streams/1x/events", "stream-name-invalid", "beginning with a letter").await;
    check("/v1/streams/a%20b/events", "stream-name-invalid", "A-Z").await;
    check(&format!("/v1/streams/{}/events", "x".repeat(129)), "stream-name-invalid", "128").await;
    check("/v1/streams/%ff/events", "request-invalid", "UTF-8").await;
    check("/v1/streams/s/events?akc=none", "parameter-invalid", "ack, sample, sent").await;
    check("/v1/streams/s/events?sample=0", "parameter-invalid", "above 0").await;
    check("/v1/streams/s/events?sample=1.5", "parameter-invalid", "at most 1").await;
    check("/v1/streams/s/events?sample=NaN", "parameter-invalid", "above 0").await;
    check("/v1/streams/s/events?sent=yesterday", "parameter-invalid", "RFC 3339").await;
    assert_eq!(server.get("/v1/streams").await.json().await, json!({"streams": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_sent_is_taken_from_parameter_or_field() {
    let server = Running::start().await;
    let sent = ["1767225600000000", "2026-01-01T00:00:00Z"];
    for time in sent {
        let path = format!("{EVENTS}?sent={time}");
        assert_eq!(server.send("POST", &path, &[], "{}").await.status, 200);
        assert_eq!(server.send("POST", EVENTS, &[("swiftwater-sent", time)], "{}").await.status, 200);
    }
    let reply = server.send("POST", EVENTS, &[("swiftwater-sent", "soon")], "{}").await;
    reply.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_is_about_its_share_and_says_so() {
    let server = Running::start().await;
    let body = "{\"n\": 1}\n".repeat(10_000);
    let path = "/v1/streams/s/events?sample=0.25";
    let reply = server.send("POST", path, &[], body.clone()).await.json().await;
    let accepted = reply["accepted"].as_u64().unwrap();
    assert!((2_200..2_800).contains(&accepted), "{accepted}");
    assert_eq!(reply["sampled_out"], 10_000 - accepted);
    let again = Running::start().await;
    let reply = again.send("POST", path, &[], body.clone()).await.json().await;
    assert_eq!(reply["accepted"], accepted, "the same numbers of the same connection are kept");
    assert_eq!(server.get("/v1/streams/s").await.json().await["sample"], 0.25);
    let reply = server.send("POST", "/v1/streams/t/events?sample=1", &[], body).await.json().await;
    assert_eq!(reply["accepted"], 10_000);

    // One event a request: the connection counts on.
    let mut client = server.client().await;
    let mut accepted = 0;
    for _ in 0..200 {
        let reply = client.send("POST", "/v1/streams/u/events?sample=0.5", &[], "{}").await;
        assert_eq!(reply.status, 200);
        accepted += reply.json().await["accepted"].as_u64().unwrap();
    }
    assert!((60..140).contains(&accepted), "{accepted}");
}

/// A server whose log waits with syncing, so that what is answered too early is seen; with a stored stream `s`.
async fn lingering(history: HistoryConfig, body_read_timeout_ms: u64) -> Running {
    let history = HistoryConfig { log_linger_micros: 800_000, ..history };
    let server =
        Running::storing_as(history, |config| config.body_read_timeout_ms = body_read_timeout_ms).await;
    let created = server.send("POST", "/v1/sql", &[], "CREATE STREAM s (n LONG, pad STRING)").await;
    assert_eq!(created.status, 200);
    server
}

fn synced_bytes(server: &Running) -> u64 {
    server.engine.history_metrics().unwrap().log_bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn body_that_stops_part_way_is_answered_when_what_it_tells_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let server = lingering(HistoryConfig::at(dir.path()), 200).await;
    let before = synced_bytes(&server);
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    pieces.send(piece("{\"n\": 1}\n{")).await.unwrap();
    let problem = soon(reply).await.unwrap().unwrap().problem(StatusCode::REQUEST_TIMEOUT, "timeout").await;
    assert!(synced_bytes(&server) > before, "{problem}");
    assert_eq!((&problem["accepted"], &problem["position"]["offset"]), (&json!(1), &json!(1)));
}

/// A server whose log has room for some 80 KiB.
async fn soon_full(dir: &Path) -> Running {
    let history = HistoryConfig {
        log_bytes_max: 80 << 10,
        // Nothing is released meanwhile.
        checkpoint_interval_ms: 3_600_000,
        ..HistoryConfig::at(dir)
    };
    lingering(history, 0).await
}

/// Events of about a kilobyte, in which there is nothing that compression would make small.
fn large(events: usize) -> String {
    let mut number = 1_u64;
    let mut text = String::new();
    for n in 0..events {
        text.push_str(&format!("{{\"n\": {n}, \"pad\": \""));
        for _ in 0..60 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{number:016x}"));
        }
        text.push_str("\"}\n");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn request_of_which_a_part_cannot_be_stored_counts_what_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let server = soon_full(dir.path()).await;
    let mut results = server.ask("application/x-ndjson", "SELECT n FROM STREAM(s, MAX, TIME)").await;
    let before = synced_bytes(&server);
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    pieces.send(piece("{\"n\": 1}\n")).await.unwrap();
    assert_eq!(results.records(1).await, [json!({"n": 1})]);
    pieces.send(piece(large(400))).await.unwrap();
    drop(pieces);
    let reply = soon(reply).await.unwrap().unwrap();
    let problem = reply.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    assert!(synced_bytes(&server) > before, "{problem}");
    let accepted = problem["accepted"].as_u64().unwrap();
    assert!((1..400).contains(&accepted), "{problem}");
    assert_eq!(problem["position"]["offset"], accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_waits_for_nothing_and_is_refused_part_way_counts_what_was_taken() {
    let dir = tempfile::tempdir().unwrap();
    let server = soon_full(dir.path()).await;
    let (pieces, reply) = server.client().await.stream("/v1/streams/s/events?ack=none", &[]);
    // More at once than the log takes, until it is refused.
    for _ in 0..100 {
        if pieces.send(piece(large(100))).await.is_err() {
            break;
        }
    }
    drop(pieces);
    let reply = soon(reply).await.unwrap().unwrap();
    let problem = reply.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    assert_eq!(problem["accepted"], server.get("/v1/streams/s").await.json().await["events"], "{problem}");
}
