//! Tests joins over HTTP: the examples of the document, as they are printed.

use std::time::Duration;

use crate::client::Running;

const DOCUMENT: &str = include_str!("../../../../docs/reference/joins.md");

/// Blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    DOCUMENT.split(&start).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_document_do_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in
        blocks("sql").into_iter().flat_map(|block| block.split(';')).filter(|text| !text.trim().is_empty())
    {
        let reply = server.send("POST", "/v1/sql", &[], text).await;
        let status = reply.status;
        assert_eq!(status, 200, "{text}: {}", reply.text().await);
    }
    let [orders, payments, pairs] = blocks("ndjson")[..] else { panic!("other examples") };
    assert_eq!(server.ingest("orders", orders.trim_end()).await.status, 200);
    assert_eq!(server.ingest("payments", payments.trim_end()).await.status, 200);
    let asked = async {
        let select = "SELECT order_id, amount, method FROM matched ORDER BY _offset";
        loop {
            let fields = [("accept", "application/x-ndjson")];
            let found = server.send("POST", "/v1/sql", &fields, select).await.text().await;
            if found == pairs {
                break;
            }
            assert!(pairs.starts_with(&found), "{found}");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.expect("the pair comes");
    let metrics = server.get("/metrics").await.text().await;
    for line in [
        "swiftwater_joins 1",
        "swiftwater_joins_pairs_total 1",
        "swiftwater_joins_failing 0",
        "swiftwater_joins_late_total 1",
        "swiftwater_joins_ahead_total 0",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line}: {metrics}");
    }
    let shown = server.send("POST", "/v1/sql", &[], "SHOW JOINS").await.text().await;
    assert!(shown.contains("paid_orders"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in ["CREATE STREAM a (k LONG, t LONG, WATERMARK FOR t AS t)", "CREATE STREAM c (k LONG)"] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    let text = "CREATE JOIN j INTO c AS\nSELECT x.k FROM STREAM(a) AS x JOIN STREAM(a) AS y\nON x.k = y.k AND y.k BETWEEN x.t AND x.t + INTERVAL '1 s'";
    let reply = server.send("POST", "/v1/sql", &[], text).await;
    assert_eq!(reply.status, 400);
    let told = reply.text().await;
    assert!(told.contains("a bound in time must compare the time columns"), "{told}");
    assert!(told.contains("\"line\":3") && told.contains("\"column\":18"), "{told}");
}
