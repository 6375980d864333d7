//! Tests how the page at `/` and its files are served. `console/test` tests the page itself.

use std::io::Read;

use flate2::read::GzDecoder;
use hyper::StatusCode;
use serde_json::json;
use swiftwater_engine::EngineConfig;
use swiftwater_server::ConsoleMode;

use crate::client::Running;

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// The address of a file in the page.
fn address_of(page: &str, file: &str) -> String {
    let end = page.find(&format!("/{file}\"")).unwrap_or_else(|| panic!("{file} is not in the page: {page}"));
    let start = page[..end].rfind('"').unwrap() + 1;
    format!("{}/{file}", &page[start..end])
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_the_page_and_its_files_and_others_the_text() {
    let server = Running::start().await;
    let reply = server.send("GET", "/", &[BROWSER], "").await;
    assert_eq!((reply.status, reply.field("cache-control")), (200, "no-cache"));
    assert_eq!(reply.field("cross-origin-opener-policy"), "same-origin");
    let policy = reply.field("content-security-policy").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let page = reply.text().await;
    assert!(!page.contains("{{"), "{page}");
    let nonce = policy.split_once("'nonce-").unwrap().1.split_once('\'').unwrap().0;
    let again = server.send("GET", "/", &[BROWSER], "").await;
    assert!(!again.field("content-security-policy").contains(nonce), "a nonce is for one page");
    for (file, media_type) in
        [("app.js", "text/javascript; charset=utf-8"), ("style.css", "text/css; charset=utf-8")]
    {
        let path = format!("/{}", address_of(&page, file));
        let plain = server.get(&path).await;
        assert_eq!((plain.status, plain.field("content-type")), (200, media_type));
        assert_eq!(plain.field("cache-control"), "public, max-age=31536000, immutable");
        let etag = plain.field("etag").to_owned();
        let text = plain.text().await;
        let gzip = server.send("GET", &path, &[("accept-encoding", "br, gzip")], "").await;
        assert_eq!(gzip.field("content-encoding"), "gzip");
        let mut unpacked = String::new();
        GzDecoder::new(&gzip.bytes().await[..]).read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == text, "{file}");
        let known = server.send("GET", &path, &[("if-none-match", &etag)], "").await;
        assert_eq!(known.status, 304);
    }
    let about = server.get("/v1/server").await.json().await;
    assert!(page.contains(about["build"].as_str().unwrap()));
    let other = server.get("/v1/console/0123456789abcdef/app.js").await;
    let problem = other.problem(StatusCode::NOT_FOUND, "not-found").await;
    assert_eq!(problem["hint"], "Reload the page: the server has another version.");
    let build = about["build"].as_str().unwrap();
    server
        .get(&format!("/v1/console/{build}/index.html"))
        .await
        .problem(StatusCode::NOT_FOUND, "not-found")
        .await;
    assert!(server.get("/").await.text().await.starts_with("Swiftwater"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_knows_who_links_to_it_and_who_may_frame_it() {
    let server = Running::with(EngineConfig::default(), |config| {
        config.console_mode = ConsoleMode::ReadOnly;
        config.console_frame_ancestors = vec!["https://portal.example.com".to_owned()];
    })
    .await;
    let page = server
        .send("GET", "/", &[BROWSER, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], "")
        .await;
    assert!(page.field("content-security-policy").contains("frame-ancestors https://portal.example.com;"));
    let page = page.text().await;
    assert!(page.contains("data-from=\"cross-site\"") && page.contains("data-mode=\"read_only\""), "{page}");
    let page = server.send("GET", "/", &[BROWSER, ("sec-fetch-site", "none")], "").await.text().await;
    assert!(page.contains("data-from=\"here\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_is_off_is_a_text() {
    let on = Running::start().await;
    let build = on.get("/v1/server").await.json().await["build"].as_str().unwrap().to_owned();
    let server =
        Running::with(EngineConfig::default(), |config| config.console_mode = ConsoleMode::Off).await;
    assert!(server.send("GET", "/", &[BROWSER], "").await.text().await.contains("<pre>"));
    let file = server.get(&format!("/v1/console/{build}/app.js")).await;
    let problem = file.problem(StatusCode::NOT_FOUND, "not-found").await;
    assert_eq!(problem["detail"], "the console is off (`console.mode`)");
    assert_eq!(server.get("/v1/server").await.json().await["build"], json!(null));
}
