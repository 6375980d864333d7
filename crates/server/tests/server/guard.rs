//! Tests over the wire which requests the guard admits.

use hyper::StatusCode;

use crate::client::Running;

#[tokio::test(flavor = "multi_thread")]
async fn strangers_names_and_pages_are_refused_on_every_path() {
    let server = Running::start().await;
    for path in ["/", "/v1/queries", "/metrics", "/nothing"] {
        for fields in [[("host", "evil.example")], [("origin", "http://evil.example")]] {
            // Probes ask by names and addresses that the server does not know.
            if path == "/metrics" && fields[0].0 == "host" {
                assert_eq!(server.send("GET", path, &fields, "").await.status, 200);
                continue;
            }
            server.send("GET", path, &fields, "").await.problem(StatusCode::FORBIDDEN, "forbidden").await;
        }
    }
    let reply = server.send("POST", "/v1/streams/s/events", &[("origin", "null")], "{}").await;
    reply.problem(StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(server.get("/v1/streams").await.json().await["streams"], serde_json::json!([]));
    let own = format!("http://{}", server.address);
    assert_eq!(server.send("GET", "/v1/queries", &[("origin", &own)], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_pages_get_what_browsers_ask_for() {
    let allowed = "https://console.example";
    let server =
        Running::with(Default::default(), |config| config.origins_allowed = vec![allowed.to_owned()]).await;
    let fields = [
        ("origin", allowed),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let reply = server.send("OPTIONS", "/v1/queries", &fields, "").await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.field("access-control-allow-origin"), allowed);
    assert_eq!(reply.field("access-control-allow-headers"), "content-type");
    let reply = server.send("GET", "/v1/queries", &[("origin", allowed)], "").await;
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (200, allowed));
    assert_eq!(server.get("/v1/queries").await.field("access-control-allow-origin"), "");
}
