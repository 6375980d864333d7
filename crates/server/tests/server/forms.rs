//! Tests the rules for all calls: paths, methods, forms, and input that is not HTTP at all.

use hyper::StatusCode;
use swiftwater_server::ConsoleMode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::client::{Running, soon};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_problems() {
    let server = Running::start().await;
    for path in ["/nothing", "/v1", "/v1/streams/", "/v1/queries/x/y"] {
        server.get(path).await.problem(StatusCode::NOT_FOUND, "not-found").await;
    }
    for (method, path, allowed) in [
        ("GET", "/v1/streams/s/events", "POST"),
        ("PUT", "/v1/queries", "GET,HEAD,POST"),
        ("POST", "/metrics", "GET,HEAD"),
        ("BREW", "/", "GET,HEAD"),
    ] {
        let reply = server.send(method, path, &[], "").await;
        let mut found: Vec<String> =
            reply.field("allow").split(',').map(|name| name.trim().to_owned()).collect();
        found.sort();
        assert_eq!(found.join(","), allowed, "{method} {path}");
        reply.problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_refuse_parameters_they_do_not_know() {
    let server = Running::start().await;
    for path in ["/v1/server?x=1", "/v1/queries/a?x=1", "/v1/streams/s?limit=1"] {
        let problem = server.get(path).await.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
        assert_eq!(problem["hint"], "This call takes no parameters.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_nobody_gives_is_not_acceptable() {
    let server = Running::start().await;
    let text = "SELECT * FROM STREAM(s, MAX, TIME)";
    let reply = server.send("POST", "/v1/queries", &[("accept", "text/html")], text).await;
    reply.problem(StatusCode::NOT_ACCEPTABLE, "not-acceptable").await;
    server.until_queries(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_says_what_this_is() {
    let server = Running::start().await;
    let reply = server.get("/").await;
    assert_eq!(reply.field("content-type"), "text/plain; charset=utf-8");
    assert!(reply.text().await.contains(&format!("http://{}/v1/streams", server.address)));
    // tests/server/console.rs has the page that browsers get.
    let server = Running::with(Default::default(), |config| config.console_mode = ConsoleMode::Off).await;
    let reply = server.send("GET", "/", &[("accept", "text/html,*/*;q=0.8")], "").await;
    assert_eq!(reply.field("content-type"), "text/html; charset=utf-8");
    assert!(reply.text().await.contains("<a href=\"/metrics\">"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_answered_or_closed() {
    let server = Running::start().await;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"POST /v1/streams/s/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n".to_vec(),
        b"POST /v1/streams/s/events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            .to_vec(),
        [b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ".to_vec(), vec![b'x'; 2 << 20]].concat(),
        vec![0; 100_000],
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The server may close before it has read all.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(server.get("/healthz").await.status, 200);
}
