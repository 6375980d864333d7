//! Tests `/v1/backups`: backups over HTTP, whole and in ranges.

use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::{BackupManifest, Checksum};

use crate::client::Running;

async fn start(dir: &std::path::Path) -> Running {
    Running::storing(dir, |_| {}).await
}

async fn sql(server: &Running, text: &'static str) {
    assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
}

async fn begun(server: &Running) -> (String, Value) {
    let reply = server.send("POST", "/v1/backups", &[], "").await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let place = reply.field("location").to_owned();
    let told = reply.json().await;
    assert_eq!(place, format!("/v1/backups/{}", told["id"].as_str().unwrap()));
    (place, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_backup_come_whole_and_in_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    sql(&server, "CREATE STREAM t (a LONG)").await;
    sql(&server, "CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM STREAM(t) GROUP BY a").await;
    assert_eq!(server.ingest("t", "{\"a\":1}\n{\"a\":2}").await.status, 200);
    let (place, told) = begun(&server).await;
    assert_eq!(server.get(&place).await.json().await, told);
    assert_eq!(told["kept_ms"], json!(600_000));
    let manifest = BackupManifest::from_json(told["manifest"].to_string().as_bytes()).unwrap();
    for part in ["catalog/", "log/", "tables/t/_delta_log/", "views/"] {
        assert!(manifest.files.iter().any(|file| file.name.starts_with(part)), "{part}");
    }
    for file in &manifest.files {
        let path = format!("{place}/files/{}", file.name.replace('/', "%2F"));
        let reply = server.get(&path).await;
        assert_eq!((reply.status, reply.field("etag")), (200, &*format!("\"{}\"", file.crc32c)));
        assert_eq!(reply.field("content-length"), file.bytes.to_string());
        let whole = reply.bytes().await;
        assert_eq!(Checksum::default().and(&whole), file.crc32c);
        for (range, expected) in [
            (format!("bytes={}-", file.bytes / 2), file.bytes / 2..file.bytes),
            ("bytes=1-2".to_owned(), 1..3),
        ] {
            let reply = server.send("GET", &path, &[("range", &range)], "").await;
            assert_eq!(reply.status, StatusCode::PARTIAL_CONTENT, "{}", file.name);
            let told = format!("bytes {}-{}/{}", expected.start, expected.end - 1, file.bytes);
            assert_eq!(reply.field("content-range"), told);
            assert_eq!(reply.bytes().await, whole[expected.start as usize..expected.end as usize]);
        }
        let beyond = format!("bytes={}-", file.bytes);
        let reply = server.send("GET", &path, &[("range", &beyond)], "").await;
        reply.problem(StatusCode::RANGE_NOT_SATISFIABLE, "range-invalid").await;
    }
    for path in ["/files/log%2Fnix", "/files/..%2Flock", "/files/%2Fetc%2Fpasswd"] {
        let reply = server.get(&format!("{place}{path}")).await;
        reply.problem(StatusCode::NOT_FOUND, "not-found").await;
    }
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, StatusCode::NO_CONTENT);
    for method in ["GET", "DELETE"] {
        let problem = server.send(method, &place, &[], "").await;
        let problem = problem.problem(StatusCode::NOT_FOUND, "not-found").await;
        assert!(problem["hint"].as_str().unwrap().starts_with("Begin another"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_whose_table_is_dropped_is_void_and_one_of_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    sql(&server, "CREATE STREAM t (a LONG)").await;
    let (place, _) = begun(&server).await;
    sql(&server, "DROP STREAM t").await;
    let problem = server.get(&place).await.problem(StatusCode::CONFLICT, "conflict").await;
    assert_eq!(problem["detail"], "the backup is invalid: table `t` was dropped");
    for _ in 1..swiftwater_engine::BACKUPS_MAX {
        begun(&server).await;
    }
    let problem = server.send("POST", "/v1/backups", &[], "").await;
    problem.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    let without = Running::start().await;
    let problem = without.send("POST", "/v1/backups", &[], "").await;
    problem.problem(StatusCode::CONFLICT, "conflict").await;
}
