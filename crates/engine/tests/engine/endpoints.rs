//! Tests endpoints: an accepted event is in the stream once, and a returned row is the view's row, whatever happens in
//! between.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{borrow::Cow, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use swiftwater_engine::{
    Endpoint, EndpointAnswer, EndpointError, EndpointInput, EndpointLimits, EndpointPlace, EndpointRoute,
    Engine, EngineConfig, KeyValue, Numbered, Principal, Wanted,
};
use swiftwater_event::SystemClock;
use swiftwater_testkit::Rng;

use crate::history::{append, open_when_free, quick, sql, stop, try_sql};

const LIMITS: EndpointLimits = EndpointLimits { body_bytes_max: 1 << 20, depth_max: 64 };

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 2, ..EngineConfig::default() };
    let mut history = quick(dir);
    history.views_commit_interval_ms = 20;
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

fn found(engine: &Engine, method: &str, path: &str) -> Option<Arc<Endpoint>> {
    match engine.route(method, path) {
        EndpointRoute::Endpoint(endpoint) => Some(endpoint),
        EndpointRoute::Methods(_) | EndpointRoute::None => None,
    }
}

/// A request's path and query string as the server would hand them over.
fn texts<'r>(endpoint: &Endpoint, target: &'r str) -> Vec<Option<Cow<'r, str>>> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let of = |place: &EndpointPlace| match place {
        EndpointPlace::Path(segment) => path.split('/').nth(segment + 1),
        EndpointPlace::Query(name) => query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == &**name)
            .map(|(_, value)| value),
        EndpointPlace::Body(_) => None,
    };
    endpoint.places.iter().map(|place| of(place).map(Cow::Borrowed)).collect()
}

async fn send(
    engine: &Engine,
    target: &str,
    body: &str,
    numbered: Option<Numbered>,
) -> Result<EndpointAnswer, EndpointError> {
    let endpoint = found(engine, "POST", target.split('?').next().unwrap()).expect("there is an endpoint");
    let input = EndpointInput { texts: texts(&endpoint, target), body: Bytes::from(body.to_owned()) };
    engine.accept_event(&Principal::local(), &endpoint, &input, (numbered, &LIMITS)).await
}

pub(crate) async fn ask(engine: &Engine, target: &str) -> Result<EndpointAnswer, EndpointError> {
    let endpoint = found(engine, "GET", target.split('?').next().unwrap()).expect("there is an endpoint");
    let input = EndpointInput { texts: texts(&endpoint, target), body: Bytes::new() };
    engine.answer(&Principal::local(), &endpoint, &input, Wanted::AckHorizon).await
}

/// The status and what is said: a body, or a message.
fn told(answer: Result<EndpointAnswer, EndpointError>) -> (u16, String) {
    match answer {
        Ok(answer) => {
            let body = answer.body.map(|body| String::from_utf8(body).unwrap()).unwrap_or_default();
            (answer.status, body.trim_end().to_owned())
        }
        Err(EndpointError::Refused { status, message, .. }) => (status, message),
        Err(EndpointError::Engine(error)) => (500, error.to_string()),
    }
}

const SWIPES: &str = "CREATE STREAM swipes (swiper LONG NOT NULL CHECK (swiper BETWEEN 1 AND 50000), \
     swipee LONG NOT NULL CHECK (swipee BETWEEN 1 AND 1000000), direction STRING NOT NULL, \
     comment STRING CHECK (SIZEOF(comment) <= 256), at TIMESTAMP PATH 'meta.at')";

const STATS: &str = "CREATE MATERIALIZED VIEW stats AS SELECT swiper, \
     COUNT(*) FILTER (WHERE direction = 'right') AS likes, COUNT(*) FILTER (WHERE direction = 'left') AS dislikes \
     FROM STREAM(swipes) GROUP BY swiper";

const SWIPE: &str = "CREATE ENDPOINT POST '/swipe/{direction}' (\
     direction STRING CHECK (direction IN ('left', 'right')) ELSE 400 'left or right', \
     swiper LONG NOT NULL, swipee LONG NOT NULL, comment STRING NOT NULL) INTO swipes WITH (errors = message)";

const OF_USER: &str = "CREATE ENDPOINT GET '/stats/{userId}' \
     (userId LONG CHECK (userId BETWEEN 1 AND 50000) ELSE 404 'user not found', plus LONG DEFAULT 0) \
     AS SELECT likes + $plus AS \"numLlikes\", dislikes AS \"numDislikes\" FROM stats WHERE swiper = $userId \
     ELSE 404 'user not found'";

async fn swipe_app(dir: &Path) -> Engine {
    let engine = open(dir).await;
    for text in [SWIPES, STATS, SWIPE, OF_USER] {
        sql(&engine, text).await;
    }
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_takes_events_in_and_another_gives_the_row_out_after_restarts_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = swipe_app(dir.path()).await;
    for round in 1..4 {
        let body = r#"{"swiper": "7", "swipee": "12", "comment": "x"}"#;
        assert_eq!(told(send(&engine, "/swipe/right/", body, None).await), (201, String::new()));
        let body = r#"{"swiper": 7, "swipee": 13.0, "comment": "", "more": {"a": 1}}"#;
        assert_eq!(told(send(&engine, "/swipe/left", body, None).await), (201, String::new()));
        let expected = json!({"numLlikes": round + 10, "numDislikes": round});
        let (status, body) = told(ask(&engine, "/stats/7/?plus=10").await);
        assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, expected));
        // With time, and without.
        stop(engine, if round == 1 { Duration::from_secs(5) } else { Duration::ZERO }).await;
        engine = open(dir.path()).await;
    }
    let kept = sql(&engine, "SELECT direction, count(*) AS n FROM swipes GROUP BY 1 ORDER BY 1").await;
    assert_eq!(kept, "{\"direction\":\"left\",\"n\":3}\n{\"direction\":\"right\",\"n\":3}\n");
    let others =
        sql(&engine, "SELECT count(*) AS n FROM swipes WHERE _event LIKE '%\"more\":{\"a\": 1}%'").await;
    assert_eq!(others, "{\"n\":3}\n", "other fields are the event's, as they were sent");
    let shown = sql(&engine, "SHOW ENDPOINTS").await;
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.contains(r#""path":"/swipe/{direction}","stream":"swipes""#), "{shown}");
    let statement = sql(&engine, "SHOW CREATE ENDPOINT GET '/stats/{id}'").await;
    let statement: Value = serde_json::from_str(&statement).unwrap();
    sql(&engine, "DROP ENDPOINT GET '/stats/{userId}'").await;
    assert!(found(&engine, "GET", "/stats/7").is_none());
    sql(&engine, statement["statement"].as_str().unwrap()).await;
    assert_eq!(told(ask(&engine, "/stats/7").await).0, 200);
    let described = sql(&engine, "DESCRIBE ENDPOINT GET '/stats/{userId}'").await;
    assert!(described.contains(r#""parameter":"plus","place":"query","type":"LONG""#), "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_told_by_what_is_wrong_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = swipe_app(dir.path()).await;
    let long = "x".repeat(257);
    for (path, body, expected) in [
        ("/swipe/up", r#"{"swiper":"1","swipee":"2","comment":""}"#, "left or right"),
        ("/swipe/left", "", "the body is empty: expected a JSON object"),
        (
            "/swipe/left",
            "not JSON",
            "the body cannot be read: line 1, column 1: expected an event, which is a JSON object, not `n`",
        ),
        (
            "/swipe/left",
            "[1]",
            "the body cannot be read: line 1, column 1: expected an event, which is a JSON object, not a list",
        ),
        ("/swipe/left", "{\"swiper\":1}\n{}", "the body has 2 JSON objects, expected one"),
        ("/swipe/left", r#"{"swipee":"2","comment":""}"#, "`swiper` is missing"),
        ("/swipe/left", r#"{"swiper":null,"swipee":"2","comment":""}"#, "`swiper` is missing"),
        (
            "/swipe/left",
            r#"{"swiper":"x1","swipee":"2","comment":""}"#,
            "`swiper`: expected LONG, found \"x1\"",
        ),
        ("/swipe/left", r#"{"swiper":1.5,"swipee":"2","comment":""}"#, "`swiper`: expected LONG, found 1.5"),
        (
            "/swipe/left",
            r#"{"swiper":"+1","swipee":"2","comment":""}"#,
            "`swiper`: expected LONG, found \"+1\"",
        ),
        (
            "/swipe/left",
            r#"{"swiper":true,"swipee":"2","comment":""}"#,
            "`swiper`: expected LONG, found true",
        ),
        (
            "/swipe/left",
            r#"{"swiper":"99999999999999999999","swipee":"2","comment":""}"#,
            "`swiper`: expected LONG, found \"99999999999999999999\"",
        ),
        ("/swipe/left", r#"{"swiper":"1","swipee":"2","comment":5}"#, "`comment`: expected STRING, found 5"),
        (
            "/swipe/left",
            r#"{"swiper":"0","swipee":"2","comment":""}"#,
            "column `swiper`: `CHECK (swiper BETWEEN 1 AND 50000)` failed",
        ),
        (
            "/swipe/left",
            &format!(r#"{{"swiper":"1","swipee":"2","comment":"{long}"}}"#),
            "column `comment`: `CHECK (SIZEOF(comment) <= 256)` failed",
        ),
    ] {
        assert_eq!(told(send(&engine, path, body, None).await), (400, expected.to_owned()), "{path} {body}");
    }
    for (path, expected) in [
        ("/stats/x", (400, "`userId`: expected LONG, found `x`")),
        ("/stats/1e3", (400, "`userId`: expected LONG, found `1e3`")),
        ("/stats/50001", (404, "user not found")),
        ("/stats/5", (404, "user not found")),
        ("/stats/5?plus=", (400, "`plus`: expected LONG, found ``")),
    ] {
        assert_eq!(told(ask(&engine, path).await), (expected.0, expected.1.to_owned()), "{path}");
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM swipes").await, "{\"n\":0}\n");
}

/// Requests that come at one time are one batch: on one thread all of them put their events by before any is taken in.
#[tokio::test]
async fn requests_that_come_together_each_have_their_own_answer() {
    let dir = tempfile::tempdir().unwrap();
    let engine = swipe_app(dir.path()).await;
    let long = "x".repeat(LIMITS.body_bytes_max - 36);
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..300_u64 {
        let (engine, long) = (engine.clone(), long.clone());
        requests.spawn(async move {
            let body = match number % 7 {
                // Refused by the stream's columns, each with its own reason.
                3 => format!(r#"{{"swiper":{},"swipee":1,"comment":""}}"#, 50_001 + number),
                5 => format!(r#"{{"swiper":1,"swipee":{},"comment":""}}"#, 1_000_001 + number),
                // The body is not too long, the event that is made of it is: some of these are in the batch.
                6 if number < 20 => format!(r#"{{"swiper":1,"swipee":2,"comment":"{long}"}}"#),
                _ => format!(r#"{{"swiper":7,"swipee":{},"comment":"{}"}}"#, number + 1, "y".repeat(200)),
            };
            let path = if number % 2 == 0 { "/swipe/right" } else { "/swipe/left" };
            (number, send(&engine, path, &body, None).await)
        });
    }
    let mut positions = std::collections::BTreeMap::new();
    let mut refused = [0; 7];
    while let Some(done) = requests.join_next().await {
        let (number, answer) = done.unwrap();
        match answer {
            Ok(answer) => assert_eq!(positions.insert(answer.position.unwrap(), number), None),
            Err(_) => {
                let (status, message) = told(answer);
                refused[(number % 7) as usize] += 1;
                let expected = match number % 7 {
                    3 => (400, "column `swiper`: `CHECK (swiper BETWEEN 1 AND 50000)` failed"),
                    5 => (400, "column `swipee`: `CHECK (swipee BETWEEN 1 AND 1000000)` failed"),
                    _ => (413, "the event has "),
                };
                assert!(
                    status == expected.0 && message.starts_with(expected.1),
                    "{number}: {status} {message}"
                );
            }
        }
    }
    assert_eq!(refused, [0, 0, 0, 43, 0, 43, 2]);
    // Those that were taken stand where their answers say.
    assert_eq!(positions.keys().copied().collect::<Vec<_>>(), (1..=212).collect::<Vec<u64>>());
    let kept = sql(&engine, "SELECT _offset AS o, swipee FROM swipes ORDER BY 1").await;
    let expected: String = positions
        .iter()
        .map(|(position, number)| format!("{{\"o\":{},\"swipee\":{}}}\n", position - 1, number + 1))
        .collect();
    assert_eq!(kept, expected);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numbered_request_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = swipe_app(dir.path()).await;
    let body = r#"{"swiper":"7","swipee":"12","comment":""}"#;
    for round in 0..3 {
        for sequence in 1..=3 {
            let numbered = Some(Numbered { producer: "p".into(), sequence, part: 0, after: 0, hash: 0 });
            let answer = send(&engine, "/swipe/right", body, numbered).await.unwrap();
            assert_eq!((answer.is_repeated, answer.position), (round > 0, Some(sequence)));
        }
        stop(engine, Duration::ZERO).await;
        engine = open(dir.path()).await;
    }
    assert_eq!(told(ask(&engine, "/stats/7").await).1, r#"{"numLlikes":3,"numDislikes":0}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_answers_have_the_shapes_that_are_declared() {
    let dir = tempfile::tempdir().unwrap();
    let engine = swipe_app(dir.path()).await;
    for text in [
        "CREATE STREAM other WITH (store = true)",
        "CREATE ENDPOINT POST '/a/{who}' (who STRING, n INTEGER BODY 'deep.n' DEFAULT 1 + 1, at TIMESTAMP(s), t LONG QUERY, \
         flag BOOLEAN, j JSON, l LIST[LONG]) INTO other \
         SELECT UPPER(who) AS who, n * 2 AS twice, at, t, flag, j, l, 'x' AS kind \
         RETURNING 'hello ' || $who AS message, n WITH (status = 202, ack = disk)",
        "CREATE ENDPOINT POST '/meta' (swiper LONG NOT NULL, swipee LONG DEFAULT 1, direction STRING DEFAULT 'left', at TIMESTAMP DEFAULT NOW) \
         INTO swipes WITH (other_fields = refuse)",
        "CREATE ENDPOINT POST '/whole' INTO other",
        "CREATE ENDPOINT GET '/health' AS SELECT 'up' AS status, NULL AS nothing",
        "CREATE ENDPOINT GET '/zeros/{id}' (id LONG) AS SELECT likes FROM stats WHERE swiper = $id ELSE SELECT 0 AS likes, $id AS id",
        "CREATE ENDPOINT GET '/rich/{id}' (id LONG) AS SELECT likes FROM stats WHERE $id = swiper AND likes > 1 AND dislikes < 9",
        "CREATE MATERIALIZED VIEW pairs AS SELECT swiper, swipee, COUNT(*) AS n FROM STREAM(swipes) GROUP BY swiper, swipee",
        "CREATE ENDPOINT GET '/pairs/{id}' (id LONG) AS SELECT swipee, n FROM pairs WHERE swiper = $id LIMIT 3",
        "CREATE ENDPOINT GET '/pairs' AS SELECT swiper, swipee FROM pairs LIMIT 2",
        "CREATE ENDPOINT GET '/pairs/{a}/{b}' (a LONG, b STRING) \
         AS SELECT n FROM pairs WHERE swipee = CAST($b AS LONG) AND swiper = $a WITH (answer = rows)",
    ] {
        sql(&engine, text).await;
    }
    let body =
        r#"{"deep":{"n":"21","m":1},"at":1000,"flag":"true","j":{"x":[1,null]},"l":["1",2,null],"more":1}"#;
    let answer = send(&engine, "/a/J%C3%B6?t=5", body, None).await;
    assert_eq!(told(answer), (202, r#"{"message":"hello J%C3%B6","n":21}"#.to_owned()));
    assert_eq!(
        told(send(&engine, "/a/b", "{}", None).await),
        (202, r#"{"message":"hello b","n":2}"#.to_owned())
    );
    let rows =
        sql(&engine, "SELECT who, twice, at, t, flag, j, l, kind, _event FROM other ORDER BY _offset").await;
    assert_eq!(
        rows,
        "{\"who\":\"J%C3%B6\",\"twice\":42,\"at\":\"1970-01-01T00:16:40.000Z\",\"t\":5,\"flag\":true,\
         \"j\":\"{\\\"x\\\":[1,null]}\",\"l\":[1,2,null],\"kind\":\"x\",\"_event\":null}\n\
         {\"who\":\"B\",\"twice\":4,\"at\":null,\"t\":null,\"flag\":null,\"j\":null,\"l\":null,\"kind\":\"x\",\"_event\":null}\n"
    );
    // A column lies where it is declared to.
    assert_eq!(told(send(&engine, "/meta", r#"{"swiper":3}"#, None).await).0, 201);
    assert_eq!(
        sql(&engine, "SELECT at IS NULL AS gone, direction FROM swipes").await,
        "{\"gone\":false,\"direction\":\"left\"}\n"
    );
    let refused = told(send(&engine, "/meta", r#"{"swiper":3,"x":1}"#, None).await);
    assert_eq!(refused, (400, "the body has an unknown field `x`".to_owned()));
    assert_eq!(told(send(&engine, "/whole", r#"{"who":"whole","deep":{"er":1}}"#, None).await).0, 201);
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM other WHERE who = 'whole'").await, "{\"n\":1}\n");
    for body in [
        r#"{"swiper":1,"swipee":5}"#,
        r#"{"swiper":1,"swipee":2,"direction":"right"}"#,
        r#"{"swiper":1,"swipee":2,"direction":"right"}"#,
        r#"{"swiper":1,"swipee":9}"#,
        r#"{"swiper":1,"swipee":10}"#,
    ] {
        assert_eq!(told(send(&engine, "/meta", body, None).await).0, 201);
    }
    for (path, expected) in [
        ("/health", (200, r#"{"status":"up","nothing":null}"#)),
        ("/zeros/1", (200, r#"{"likes":2}"#)),
        ("/zeros/5", (200, r#"{"likes":0,"id":5}"#)),
        ("/rich/1", (200, r#"{"likes":2}"#)),
        ("/rich/3", (404, "the row does not exist")),
        ("/pairs/1", (200, r#"[{"swipee":2,"n":2},{"swipee":5,"n":1},{"swipee":9,"n":1}]"#)),
        ("/pairs/77", (200, "[]")),
        ("/pairs", (200, r#"[{"swiper":1,"swipee":2},{"swiper":1,"swipee":5}]"#)),
        ("/pairs/1/2", (200, r#"[{"n":2}]"#)),
        ("/pairs/1/3", (200, "[]")),
        ("/pairs/1/x", (200, "[]")),
    ] {
        assert_eq!(told(ask(&engine, path).await), (expected.0, expected.1.to_owned()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_its_place_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let engine = swipe_app(dir.path()).await;
    sql(&engine, "CREATE STREAM live (a LONG, b LONG PATH 'x.b', c LONG PATH 'x.b.c', d LONG PATH 'l[0]') WITH (store = false)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW names AS SELECT comment, swiper % 2 AS odd, COUNT(*) AS n FROM STREAM(swipes) GROUP BY comment, swiper % 2").await;
    for (text, expected, hint) in [
        ("CREATE ENDPOINT POST '/x' INTO nix", "no stream `nix`", ""),
        ("CREATE ENDPOINT GET '/x' AS SELECT a FROM nix", "no view `nix`", "SHOW VIEWS lists all views."),
        (
            "CREATE ENDPOINT GET '/stats/{x}' (x LONG) AS SELECT $x AS a",
            "endpoint GET '/stats/{userId}' already exists",
            "",
        ),
        (
            "CREATE ENDPOINT GET '/x' AS SELECT nix FROM stats WHERE swiper = 1",
            "there is no column `nix`",
            "",
        ),
        (
            "CREATE ENDPOINT GET '/x' (swiper LONG) AS SELECT likes FROM stats WHERE swiper = swiper",
            "these rows cannot be found by their key: the key of view `stats` is (swiper)",
            "State its first values, each by `column = …`, joined by AND. POST /v1/sql runs any query.",
        ),
        (
            "CREATE ENDPOINT GET '/x' AS SELECT likes FROM stats WHERE swiper > 1",
            "these rows cannot be found by their key: the key of view `stats` is (swiper)",
            "State its first values, each by `column = …`, joined by AND. POST /v1/sql runs any query.",
        ),
        (
            "CREATE ENDPOINT GET '/x' AS SELECT n FROM names WHERE odd = 1",
            "these rows cannot be found by their key: the key of view `names` is (comment, odd)",
            "State its first values, each by `column = …`, joined by AND. POST /v1/sql runs any query.",
        ),
        (
            "CREATE ENDPOINT GET '/x' AS SELECT n FROM names WHERE comment = 'a' AND n > 1",
            "a further condition needs the whole key, and the first 1 of its 2 values are stated",
            "State the whole key, by `column = …`, or leave the further condition out. POST /v1/sql runs any query.",
        ),
        (
            "CREATE ENDPOINT GET '/x' AS SELECT n FROM names WHERE comment = 'a' WITH (answer = object)",
            "the condition may find several rows: the key of view `names` is (comment, odd)",
            "State all values of the key, or write `answer = rows`.",
        ),
        (
            "CREATE ENDPOINT GET '/x' (a STRING) AS SELECT likes FROM stats WHERE swiper = $a",
            "`swiper` is LONG, and is compared with STRING",
            "Declare the parameter with this type, or write CAST(… AS …).",
        ),
        (
            "CREATE ENDPOINT POST '/x' (a LONG) INTO live WITH (ack = disk)",
            "`ack = disk` needs a stored stream, and `live` is live-only",
            "Leave `ack = disk` out, or create the stream WITH (store = true).",
        ),
        (
            "CREATE ENDPOINT POST '/x' (swiper STRING, swipee LONG) INTO swipes",
            "column `swiper` of stream `swipes` is LONG, and its value is STRING",
            "Declare the parameter with this type, or write CAST(… AS …) in the SELECT.",
        ),
        (
            "CREATE ENDPOINT POST '/x' (a STRING) INTO swipes SELECT CAST(a AS LONG) AS swiper, a = 'b' AS direction",
            "column `direction` of stream `swipes` is STRING, and its value is BOOLEAN",
            "Declare the parameter with this type, or write CAST(… AS …) in the SELECT.",
        ),
        (
            "CREATE ENDPOINT POST '/x' (b LONG, c LONG) INTO live",
            "columns `b` and `c` have the same path in the event",
            "Name only one of them.",
        ),
        (
            "CREATE ENDPOINT POST '/x' (d LONG) INTO live",
            "column `d` is inside a list, which an endpoint cannot create",
            "Leave the column out, or use a JSON column for the whole list.",
        ),
        ("CREATE ENDPOINT POST '/x' (a STRING CHECK (a RLIKE '(')) INTO live", "pattern", ""),
        ("DROP ENDPOINT GET '/nix'", "no endpoint GET '/nix'", "SHOW ENDPOINTS lists all endpoints."),
        ("DROP STREAM swipes", "view `names` reads stream `swipes`", "DROP VIEW names first."),
        (
            "DROP VIEW stats",
            "endpoint GET '/stats/{userId}' reads view `stats`",
            "DROP ENDPOINT GET '/stats/{userId}' first.",
        ),
    ] {
        let error = try_sql(&engine, text).await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
        if !hint.is_empty() {
            assert_eq!(error.hint(), Some(hint), "{text}");
        }
    }
    let error =
        try_sql(&engine, "CREATE ENDPOINT GET '/x' AS\nSELECT likes,\n nix FROM stats WHERE swiper = 1")
            .await
            .unwrap_err();
    assert_eq!(error.place().map(|place| (place.line, place.column)), Some((3, 2)));
    sql(&engine, "CREATE ENDPOINT IF NOT EXISTS GET '/stats/{x}' (x LONG) AS SELECT $x AS a").await;
    for text in ["DROP VIEW names", "DROP ENDPOINT GET '/stats/{any}'", "DROP VIEW stats"] {
        sql(&engine, text).await;
    }
    let error = try_sql(&engine, "DROP STREAM swipes").await.unwrap_err();
    assert_eq!(error.to_string(), "endpoint POST '/swipe/{direction}' writes into stream `swipes`");
    sql(&engine, "DROP ENDPOINT IF EXISTS GET '/stats/{any}'").await;
    sql(&engine, "DROP ENDPOINT POST '/swipe/{direction}'").await;
    sql(&engine, "DROP STREAM swipes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_lead_to_the_endpoint_that_states_most_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let paths = ["/a", "/a/{x}", "/a/b", "/a/{x}/c", "/a/b/{y}", "/{x}/z/{y}", "/{x}"];
    for path in paths {
        let parameters: Vec<&str> =
            ["x", "y"].into_iter().filter(|name| path.contains(&format!("{{{name}}}"))).collect();
        let items: Vec<String> = parameters.iter().map(|name| format!("{name} STRING")).collect();
        let items = if items.is_empty() { String::new() } else { format!("({})", items.join(", ")) };
        sql(&engine, &format!("CREATE ENDPOINT GET '{path}' {items} AS SELECT '{path}' AS path")).await;
    }
    sql(&engine, "CREATE STREAM s WITH (store = true)").await;
    sql(&engine, "CREATE ENDPOINT POST '/a/b' INTO s").await;
    for (path, expected) in [
        ("/a", Some("/a")),
        ("/a/", Some("/a")),
        ("/a/x", Some("/a/{x}")),
        ("/a/b", Some("/a/b")),
        ("/a/b/c", Some("/a/b/{y}")),
        ("/a/x/c", Some("/a/{x}/c")),
        ("/a/x/d", None),
        ("/q", Some("/{x}")),
        ("/q/z/1", Some("/{x}/z/{y}")),
        ("/a/z/1", Some("/{x}/z/{y}")),
        ("/a//c", None),
        ("/", None),
        ("//", None),
        ("/v1", None),
        ("/v1/z/1", None),
        ("/metrics", None),
        ("/x/_bulk", None),
    ] {
        let endpoint = found(&engine, "GET", path).map(|endpoint| endpoint.create.name.path.to_string());
        assert_eq!(endpoint.as_deref(), expected, "{path}");
    }
    assert!(found(&engine, "HEAD", "/a").is_some());
    assert!(matches!(engine.route("DELETE", "/a/b"), EndpointRoute::Methods("GET, HEAD, POST")));
    assert!(matches!(engine.route("POST", "/a"), EndpointRoute::Methods("GET, HEAD")));
}

/// An endpoint's answer equals the view's row, for keys of every kind, in memory and from disk.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoints_answer_is_the_views_row() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path()).await;
        for text in [
            "CREATE STREAM t (a LONG, b STRING, c DOUBLE, x DOUBLE)",
            "CREATE MATERIALIZED VIEW v AS SELECT a, b, c, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo, COUNT(DISTINCT x) AS d \
             FROM STREAM(t) GROUP BY a, b, c HAVING COUNT(*) < 9",
            "CREATE ENDPOINT POST '/t' (a LONG, b STRING, c DOUBLE, x DOUBLE) INTO t WITH (ack = memory)",
            "CREATE ENDPOINT GET '/v/{a}/{b}/{c}' (a LONG, b STRING, c DOUBLE) \
             AS SELECT a, b, c, n, s, lo, d FROM v WHERE a = $a AND b = $b AND c = $c",
        ] {
            sql(&engine, text).await;
        }
        let key = |rng: &mut Rng| {
            (rng.below(6) as i64 - 3, ["x", "y z", "ü", "7"][rng.below(4)], [0.0, 1.5, -2.0][rng.below(3)])
        };
        for round in 0..3 {
            for _ in 0..60 {
                let (a, b, c) = key(&mut rng);
                let body = json!({"a": a.to_string(), "b": b, "c": c, "x": rng.below(100) as f64 / 4.0});
                assert_eq!(told(send(&engine, "/t", &body.to_string(), None).await).0, 201);
            }
            for _ in 0..60 {
                let (a, b, c) = key(&mut rng);
                let values = [KeyValue::Whole(a), KeyValue::Text(b.to_owned()), KeyValue::Double(c)];
                let row =
                    engine.view_row(&Principal::local(), "v", &values, Wanted::AckHorizon).await.unwrap().0;
                let answer = told(ask(&engine, &format!("/v/{a}/{b}/{c}")).await);
                let expected = match row {
                    Some(row) => (200, String::from_utf8(row.json).unwrap()),
                    None => (404, "the row does not exist".to_owned()),
                };
                assert_eq!(answer, expected, "seed {seed}, round {round}, key {a} {b} {c}");
            }
            stop(engine, if rng.chance(0.5) { Duration::from_secs(5) } else { Duration::ZERO }).await;
            engine = open(dir.path()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gives_out_windows_with_their_bounds_while_they_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for text in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL)",
        "CREATE MATERIALIZED VIEW r WITH (retention = '5 seconds') AS SELECT window_start AS \"from\", window_end AS until, \
         a, COUNT(*) AS n FROM STREAM(x) GROUP BY a WINDOWING EVERY(1000, EVENT(ts, 0), LAST, 2000, EVENT)",
        "CREATE ENDPOINT GET '/r/{start}/{a}' (start LONG, a LONG) \
         AS SELECT \"from\", until, n FROM r WHERE \"from\" = $start AND a = $a",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "x", "{\"ts\":1500,\"a\":1}\n{\"ts\":2500,\"a\":1}", None).await;
    let of = async |start: i64| told(ask(&engine, &format!("/r/{start}/1")).await);
    assert_eq!(of(0).await, (200, r#"{"from":0,"until":2000,"n":1}"#.to_owned()));
    assert_eq!(of(1000).await, (200, r#"{"from":1000,"until":3000,"n":2}"#.to_owned()));
    assert_eq!(of(3000).await, (404, "the row does not exist".to_owned()));
    // It ended five seconds before the last event, and is no more at once, not with the next commit only.
    append(&engine, "x", "{\"ts\":7500,\"a\":1}", None).await;
    assert_eq!(of(0).await, (404, "the row does not exist".to_owned()));
    assert_eq!(of(1000).await, (200, r#"{"from":1000,"until":3000,"n":2}"#.to_owned()));
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn altering_a_stream_keeps_its_endpoints_true() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE ENDPOINT POST '/s' (a LONG, b LONG) INTO s").await;
    assert_eq!(told(send(&engine, "/s", r#"{"a":1,"b":2}"#, None).await).0, 201);
    let requests = |engine: &Engine| found(engine, "POST", "/s").unwrap().counts.classes();
    found(&engine, "POST", "/s").unwrap().counts.count(201, 5);
    sql(&engine, "ALTER STREAM s ADD COLUMN b LONG PATH 'deep.b'").await;
    assert_eq!(requests(&engine)[2], 1, "what was counted stays");
    assert_eq!(told(send(&engine, "/s", r#"{"a":3,"b":4}"#, None).await).0, 201);
    assert_eq!(
        sql(&engine, "SELECT a, b FROM s ORDER BY a").await,
        "{\"a\":1,\"b\":null}\n{\"a\":3,\"b\":4}\n"
    );
    let error = try_sql(&engine, "ALTER STREAM s ADD COLUMN c LONG PATH 'deep.b.c', ADD COLUMN d LONG").await;
    assert!(error.is_ok(), "no endpoint makes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_beyond_its_type_is_refused_and_paths_of_the_servers_own_are_no_endpoints() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM readings (x DOUBLE, y FLOAT)").await;
    sql(&engine, "CREATE ENDPOINT POST '/readings' (x DOUBLE, y FLOAT) INTO readings").await;
    for (body, expected) in [
        (r#"{"x":1e308,"y":1e38}"#, (201, "")),
        (r#"{"x":1e400}"#, (400, "`x`: expected DOUBLE, found 1e400")),
        (r#"{"y":-1e300}"#, (400, "`y`: expected FLOAT, found -1e300")),
    ] {
        let (status, said) = told(send(&engine, "/readings", body, None).await);
        assert_eq!((status, &*said), expected, "{body}");
    }
    sql(&engine, "CREATE ENDPOINT GET '/{a}/{b}' (a STRING, b STRING) AS SELECT $a AS a").await;
    assert!(found(&engine, "GET", "/one/two").is_some());
    assert!(matches!(engine.route("POST", "/drpc/bullet-query"), EndpointRoute::None));
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_beside_a_parameter_within_an_object_are_other_fields() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for text in [
        "CREATE STREAM people (name STRING PATH 'user.name', age LONG PATH 'user.age', called STRING)",
        "CREATE ENDPOINT POST '/into' (name STRING BODY 'user.name') INTO people",
        "CREATE ENDPOINT POST '/apart' (called STRING BODY 'user.name') INTO people",
        "CREATE ENDPOINT POST '/deep' (city STRING BODY 'user.home.city', called STRING BODY 'user.name') INTO people",
        "CREATE ENDPOINT POST '/moved' (age LONG) INTO people",
        "CREATE ENDPOINT POST '/ignore' (name STRING BODY 'user.name', z LONG) INTO people WITH (other_fields = ignore)",
        "CREATE ENDPOINT POST '/refuse' (name STRING BODY 'user.name', city STRING BODY 'user.home.city') INTO people \
         WITH (other_fields = refuse)",
    ] {
        sql(&engine, text).await;
    }
    let whole = r#"{"user":{"name":"x","age":3 , "home":{"city":"y", "n":"\u00fc"}},"z":1}"#;
    let cases = [
        ("/into", whole, r#"{"user":{"name":"x","age":3,"home":{"city":"y", "n":"\u00fc"}},"z":1}"#),
        ("/apart", whole, r#"{"called":"x","user":{"age":3,"home":{"city":"y", "n":"\u00fc"}},"z":1}"#),
        ("/deep", whole, r#"{"city":"y","called":"x","user":{"age":3,"home":{"n":"\u00fc"}},"z":1}"#),
        // A column that lies within an object of the body's.
        ("/moved", r#"{"age":4,"user":{"age":3,"m":2},"z":1}"#, r#"{"user":{"age":4,"m":2},"z":1}"#),
        ("/ignore", whole, r#"{"user":{"name":"x"},"z":1}"#),
        // A body without other fields adds none.
        ("/apart", r#"{"user":{"name":"x"},"z":1}"#, r#"{"called":"x","z":1}"#),
        ("/apart", r#"{"user":null,"z":1}"#, r#"{"z":1}"#),
        ("/deep", r#"{"user":{"home":{"city":"y"}},"z":1}"#, r#"{"city":"y","z":1}"#),
    ];
    for (path, body, _) in cases {
        assert_eq!(told(send(&engine, path, body, None).await), (201, String::new()), "{path} {body}");
    }
    let kept = sql(&engine, "SELECT _event FROM people ORDER BY _offset").await;
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kept.len(), cases.len());
    for (kept, (path, body, expected)) in kept.iter().zip(cases) {
        assert_eq!(kept["_event"], expected, "{path} {body}");
    }
    for (body, other) in [
        (r#"{"user":{"name":"x","home":{"city":"y"}}}"#, None),
        (r#"{"user":{"home":{}}}"#, None),
        (r#"{"user":null}"#, None),
        (whole, Some("user.age")),
        (r#"{"user":{"home":{"city":"y","zip":1}}}"#, Some("user.home.zip")),
        (r#"{"user":{"name":"x","home":"y"}}"#, Some("user.home")),
        (r#"{"user":"x"}"#, Some("user")),
        (r#"{"user":{"name":"x"},"z":1}"#, Some("z")),
    ] {
        let expected = match other {
            Some(path) => (400, format!("the body has an unknown field `{path}`")),
            None => (201, String::new()),
        };
        assert_eq!(told(send(&engine, "/refuse", body, None).await), expected, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_leaves_no_empty_object_and_nothing_that_was_sent_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for text in [
        "CREATE STREAM e (id LONG, age LONG PATH 'user.age', zip LONG PATH 'user.home.zip', flat LONG PATH 'f')",
        "CREATE ENDPOINT POST '/e' (id LONG, age LONG, zip LONG, flat LONG) INTO e",
        "CREATE ENDPOINT POST '/within' (id LONG, age LONG BODY 'user.age') INTO e",
        "CREATE ENDPOINT POST '/ignore' (id LONG, age LONG) INTO e WITH (other_fields = ignore)",
    ] {
        sql(&engine, text).await;
    }
    let cases = [
        ("/e", r#"{"id":1}"#, r#"{"id":1}"#),
        ("/e", r#"{}"#, r#"{}"#),
        ("/e", r#"{"age":null,"zip":2}"#, r#"{"user":{"home":{"zip":2}}}"#),
        ("/e", r#"{"id":1,"user":{},"f":null}"#, r#"{"id":1}"#),
        ("/e", r#"{"id":1,"user":null}"#, r#"{"id":1}"#),
        (
            "/e",
            r#"{"id":1,"user":{"home":{"street":"x"},"age":null}}"#,
            r#"{"id":1,"user":{"home":{"street":"x"}}}"#,
        ),
        // A parameter has its place, whatever was sent there.
        ("/e", r#"{"age":4,"user":{"age":"x"},"flat":1,"f":2}"#, r#"{"user":{"age":4},"f":1}"#),
        ("/within", r#"{"id":1,"user":{"age":null}}"#, r#"{"id":1}"#),
        ("/ignore", r#"{"id":1,"user":5}"#, r#"{"id":1}"#),
    ];
    for (path, body, _) in cases {
        assert_eq!(told(send(&engine, path, body, None).await), (201, String::new()), "{path} {body}");
    }
    let kept = sql(&engine, "SELECT id, age, zip, flat, _event FROM e ORDER BY _offset").await;
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kept.len(), cases.len());
    for (kept, (path, body, expected)) in kept.iter().zip(cases) {
        let expected: Value = serde_json::from_str(expected).unwrap();
        // If the columns have all of an event, nothing else of it is stored.
        let (user, home) = (&expected["user"], &expected["user"]["home"]);
        let columns = json!([expected["id"], user["age"], home["zip"], expected["f"]]);
        assert_eq!(json!([kept["id"], kept["age"], kept["zip"], kept["flat"]]), columns, "{path} {body}");
        if let Some(event) = kept["_event"].as_str() {
            assert_eq!(serde_json::from_str::<Value>(event).unwrap(), expected, "{path} {body}");
        }
    }
    for (path, body, expected) in [
        ("/e", r#"{"user":5}"#, "the body has a field `user` that is not an object, and `age` is inside it"),
        (
            "/e",
            r#"{"age":1,"user":[{}]}"#,
            "the body has a field `user` that is not an object, and `age` is inside it",
        ),
        (
            "/e",
            r#"{"user":{"home":"y"}}"#,
            "the body has a field `user.home` that is not an object, and `zip` is inside it",
        ),
        (
            "/e",
            r#"{"user":{"age":"x"}}"#,
            "the body has a field `user.age` at the path of `age`, which is missing or null",
        ),
        (
            "/e",
            r#"{"flat":null,"f":{"a":1}}"#,
            "the body has a field `f` at the path of `flat`, which is missing or null",
        ),
        (
            "/within",
            r#"{"user":"x"}"#,
            "the body has a field `user` that is not an object, and `age` is inside it",
        ),
        ("/within", r#"{"user":{"age":"x"}}"#, "`user.age`: expected LONG, found \"x\""),
    ] {
        assert_eq!(told(send(&engine, path, body, None).await), (400, expected.to_owned()), "{path} {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_over_a_rollup_gives_out_the_rows_of_a_window() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for text in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, b LONG NOT NULL)",
        "CREATE MATERIALIZED VIEW r AS SELECT window_start, a, b, COUNT(*) AS n FROM STREAM(x) \
         GROUP BY GROUPING SETS (a, (b, a), ()) WINDOWING TUMBLING(1000, EVENT(ts, 100))",
        "CREATE MATERIALIZED VIEW hidden AS SELECT a, COUNT(*) AS n FROM STREAM(x) GROUP BY a \
         WINDOWING TUMBLING(1000, EVENT(ts, 100))",
        "CREATE MATERIALIZED VIEW odd AS SELECT b, COUNT(*) AS n FROM STREAM(x) GROUP BY b, a % 2, ts",
        "CREATE ENDPOINT GET '/r/{start}' (start LONG) AS SELECT a, b, n FROM r WHERE window_start = $start",
    ] {
        sql(&engine, text).await;
    }
    let events =
        "{\"ts\":1500,\"a\":1,\"b\":2}\n{\"ts\":1700,\"a\":1,\"b\":5}\n{\"ts\":2500,\"a\":3,\"b\":4}";
    append(&engine, "x", events, None).await;
    for (path, expected) in [
        (
            "/r/1000",
            r#"[{"a":1,"b":null,"n":2},{"a":1,"b":2,"n":1},{"a":1,"b":5,"n":1},{"a":null,"b":null,"n":2}]"#,
        ),
        ("/r/2000", r#"[{"a":3,"b":null,"n":1},{"a":3,"b":4,"n":1},{"a":null,"b":null,"n":1}]"#),
        ("/r/3000", "[]"),
    ] {
        assert_eq!(told(ask(&engine, path).await), (200, expected.to_owned()), "{path}");
    }
    let not_found = |key: &str| format!("these rows cannot be found by their key: the key of view {key}");
    let sets = "`r` is (window_start, the set's number, the set's keys)";
    let as_shown = "State its first values that the view selects, each by `column = …`, joined by AND. POST /v1/sql \
                    runs any query.";
    for (text, expected, hint) in [
        ("SELECT n FROM r WHERE a = 1", not_found(sets), as_shown),
        ("SELECT n FROM r WHERE window_start = 1000 AND a = 1", not_found(sets), as_shown),
        (
            "SELECT n FROM r WHERE window_start = 1000 WITH (answer = object)",
            format!("the condition may find several rows: the key of view {sets}"),
            "Write `answer = rows`: the view does not select all values of its key.",
        ),
        (
            "SELECT n FROM hidden WHERE a = 1",
            not_found("`hidden` is (window_start, a)"),
            "The view does not select the first value of its key. POST /v1/sql runs any query.",
        ),
        ("SELECT n FROM odd WHERE n = 1", not_found("`odd` is (b, an expression, ts)"), as_shown),
    ] {
        let error = try_sql(&engine, &format!("CREATE ENDPOINT GET '/x' AS {text}")).await.unwrap_err();
        assert_eq!((error.to_string(), error.hint()), (expected, Some(hint)), "{text}");
    }
    let error =
        try_sql(&engine, "CREATE ENDPOINT GET '/x' (w STRING) AS SELECT n FROM r WHERE window_start = $w");
    let error = error.await.unwrap_err();
    assert_eq!(error.to_string(), "`window_start` is LONG, and is compared with STRING");
}
