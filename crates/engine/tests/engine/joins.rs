//! Tests joins of a stream with views and tables: answers equal those of a loop over the events that looks the rows up.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{EndReason, Engine, Principal, SubmitOptions, Subscription, ViewRange};
use swiftwater_lang::ddl::split_statements;
use swiftwater_testkit::Rng;

use crate::{
    history::{append, sql, stop, try_sql},
    views::{lines, open, page, row},
};

const PROFILES: &str = "CREATE STREAM profiles (id LONG, country STRING, name STRING)";
const USERS: &str = "CREATE MATERIALIZED VIEW users AS SELECT id, LAST(country) AS country, LAST(name) AS name \
     FROM STREAM(profiles) GROUP BY id";
const SWIPES: &str = "CREATE STREAM swipes (swiper LONG, shop LONG, n LONG)";

/// All rows of a view that counts all that was acknowledged.
async fn rows(engine: &Engine, view: &str) -> Vec<String> {
    lines(&page(engine, view, ViewRange { limit: 10_000, ..ViewRange::default() }).await.rows)
}

/// Waits for a query's next records.
async fn records(asked: &mut Subscription, count: usize) -> Vec<Value> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let emit = asked.next().await.expect("the query stands");
        assert_eq!(emit.meta.failure, None);
        let text = String::from_utf8(emit.records.text.to_vec()).unwrap();
        seen.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    seen
}

fn submit(engine: &Engine, text: &str) -> Subscription {
    engine.submit(&Principal::local(), text, SubmitOptions::default()).unwrap()
}

/// Users, by id: country and name.
type Users = BTreeMap<u64, (Option<String>, String)>;

/// Sends some profiles, and takes them into `users`.
async fn change_users(engine: &Engine, users: &mut Users, rng: &mut Rng, events: usize) {
    let mut sent = Vec::new();
    for _ in 0..events {
        let (id, name) = (rng.below(30) as u64, format!("name {}", rng.below(1000)));
        // A null leaves the earlier value unchanged.
        let country = ["DE", "FR", "CL"].get(rng.below(4)).map(|country| (*country).to_owned());
        sent.push(json!({"id": id, "country": country, "name": name}).to_string());
        let (known, last) = users.entry(id).or_default();
        *known = country.or(known.take());
        *last = name;
    }
    append(engine, "profiles", &sent.join("\n"), None).await;
}

fn swipe(rng: &mut Rng) -> (Option<u64>, u64) {
    // Some have no id, and some ids are nobody's.
    (Some(rng.below(40) as u64).filter(|id| *id != 7), rng.below(10) as u64)
}

fn text_of((swiper, n): &(Option<u64>, u64)) -> String {
    match swiper {
        // Equal numbers are equal, however they are written.
        Some(id) if n % 3 == 0 => format!("{{\"swiper\":{id},\"n\":{n}}}"),
        Some(id) => format!("{{\"n\":{n},\"swiper\":{id}}}"),
        None if n % 2 == 0 => format!("{{\"swiper\":null,\"n\":{n}}}"),
        None => format!("{{\"n\":{n}}}"),
    }
}

/// The expected content of the views, computed in a loop.
#[derive(Default)]
struct Naive {
    inner: BTreeMap<Option<String>, (u64, u64)>,
    outer: BTreeMap<Option<String>, u64>,
}

impl Naive {
    fn count(&mut self, users: &Users, (swiper, n): &(Option<u64>, u64)) {
        let user = swiper.and_then(|id| users.get(&id));
        if let Some((country, _)) = user.filter(|_| *n > 1) {
            let (count, sum) = self.inner.entry(country.clone()).or_default();
            (*count, *sum) = (*count + 1, *sum + n);
        }
        let country = user.and_then(|(country, _)| country.clone());
        if user.is_none_or(|(_, name)| name.as_str() < "name 5") {
            *self.outer.entry(country).or_default() += 1;
        }
    }

    fn rows(&self) -> (Vec<String>, Vec<String>) {
        let country = |country: &Option<String>| json!(country).to_string();
        let inner = self
            .inner
            .iter()
            .map(|(of, (count, sum))| format!("{{\"country\":{},\"n\":{count},\"sum\":{sum}}}", country(of)));
        let outer =
            self.outer.iter().map(|(of, count)| format!("{{\"country\":{},\"n\":{count}}}", country(of)));
        (inner.collect(), outer.collect())
    }
}

const INNER: &str = "CREATE MATERIALIZED VIEW inner_join AS SELECT u.country, COUNT(*) AS n, SUM(s.n) AS sum \
     FROM STREAM(swipes) AS s JOIN users AS u ON u.id = s.swiper WHERE s.n > 1 GROUP BY u.country";
const OUTER: &str = "CREATE MATERIALIZED VIEW outer_join AS SELECT u.country, COUNT(*) AS n \
     FROM STREAM(swipes) AS s LEFT JOIN users AS u ON s.swiper = u.id \
     WHERE u.name IS NULL OR u.name < 'name 5' GROUP BY u.country";

async fn declare(engine: &Engine) {
    for text in [PROFILES, SWIPES, USERS, INNER, OUTER] {
        sql(engine, text).await;
    }
}

async fn open_small(dir: &Path) -> Engine {
    // So little memory that most rows are looked up on disk.
    open(dir, |history| history.views_memory_bytes_max = 1 << 13).await
}

#[tokio::test(flavor = "multi_thread")]
async fn views_join_each_event_with_the_rows_that_are_there_then() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open_small(dir.path()).await;
        declare(&engine).await;
        let (mut rng, mut users, mut naive) = (Rng::new(seed), Users::new(), Naive::default());
        for round in 0..12 {
            // Acknowledged, and the swipes that follow see it: nobody waits for the view of users here.
            let profiles = 1 + rng.below(20);
            change_users(&engine, &mut users, &mut rng, profiles).await;
            let swipes: Vec<_> = (0..rng.below(60)).map(|_| swipe(&mut rng)).collect();
            swipes.iter().for_each(|swipe| naive.count(&users, swipe));
            for some in swipes.chunks(1 + rng.below(20)) {
                let texts: Vec<String> = some.iter().map(text_of).collect();
                append(&engine, "swipes", &texts.join("\n"), None).await;
            }
            // Before users change again, all are counted.
            let (inner, outer) = naive.rows();
            assert_eq!(rows(&engine, "inner_join").await, inner, "seed {seed}, round {round}");
            assert_eq!(rows(&engine, "outer_join").await, outer, "seed {seed}, round {round}");
            if round % 4 == 3 {
                stop(engine, Duration::from_secs(5)).await;
                engine = open_small(dir.path()).await;
            }
        }
        stop(engine, Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_since_the_last_commit_are_counted_once_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open_small(dir.path()).await;
    declare(&engine).await;
    let (mut rng, mut users, mut naive) = (Rng::new(7), Users::new(), Naive::default());
    change_users(&engine, &mut users, &mut rng, 100).await;
    for round in 0..6 {
        for _ in 0..5 {
            let swipes: Vec<_> = (0..30).map(|_| swipe(&mut rng)).collect();
            swipes.iter().for_each(|swipe| naive.count(&users, swipe));
            let texts: Vec<String> = swipes.iter().map(text_of).collect();
            append(&engine, "swipes", &texts.join("\n"), None).await;
        }
        // No time to commit, whatever of it is counted.
        stop(engine, Duration::ZERO).await;
        engine = open_small(dir.path()).await;
        let (inner, outer) = naive.rows();
        assert_eq!(rows(&engine, "inner_join").await, inner, "round {round}");
        assert_eq!(rows(&engine, "outer_join").await, outer, "round {round}");
    }
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_queries_get_the_rows_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [PROFILES, SWIPES, USERS] {
        sql(&engine, text).await;
    }
    append(&engine, "profiles", r#"{"id":1,"country":"DE","name":"a"}"#, None).await;
    append(&engine, "profiles", r#"{"id":2,"country":"FR","name":"b"}"#, None).await;
    rows(&engine, "users").await;
    let inner = "SELECT s.n, u.name, u.country = 'DE' AS german FROM STREAM(swipes) AS s JOIN users AS u ON u.id = s.swiper";
    let mut inner = submit(&engine, inner);
    let mut outer = submit(
        &engine,
        "SELECT n, u.name FROM STREAM(swipes) LEFT JOIN users u ON u.id = swiper WHERE n > 1",
    );
    let mut all = submit(&engine, "SELECT * FROM STREAM(swipes) JOIN users AS u ON u.id = swiper");
    let group = "SELECT u.country, COUNT(*) AS n FROM STREAM(swipes) s JOIN users u ON u.id = s.swiper GROUP BY u.country ORDER BY u.country LIMIT 1";
    let mut groups: Vec<Subscription> =
        (0..5).map(|_| submit(&engine, &format!("{group} WINDOWING EVERY(2, RECORD, ALL)"))).collect();
    let swipes = "{\"swiper\":1,\"n\":1}\n{\"swiper\":3,\"n\":2}\n{\"n\":3}\n{\"swiper\":2,\"n\":4}";
    append(&engine, "swipes", swipes, None).await;
    assert_eq!(
        records(&mut inner, 2).await,
        [json!({"n": 1, "name": "a", "german": true}), json!({"n": 4, "name": "b", "german": false})]
    );
    assert_eq!(
        records(&mut outer, 3).await,
        [json!({"n": 2, "name": null}), json!({"n": 3, "name": null}), json!({"n": 4, "name": "b"})]
    );
    assert_eq!(
        records(&mut all, 2).await[0],
        json!({"swiper": 1, "n": 1, "u.id": 1, "u.country": "DE", "u.name": "a"})
    );
    for group in &mut groups {
        assert_eq!(records(group, 1).await, [json!({"country": "DE", "n": 1})]);
    }
    // The following events see the change.
    append(&engine, "profiles", r#"{"id":2,"country":"DE","name":"c"}"#, None).await;
    rows(&engine, "users").await;
    append(&engine, "swipes", r#"{"swiper":2,"n":5}"#, None).await;
    assert_eq!(records(&mut inner, 1).await, [json!({"n": 5, "name": "c", "german": true})]);
    let plan = engine
        .explain(
            &Principal::local(),
            "SELECT u.name FROM STREAM(swipes) LEFT JOIN users u ON u.id = swiper",
            &SubmitOptions::default(),
        )
        .unwrap();
    assert!(plan.contains("join       left join view users on id = swiper"), "{plan}");
    // A query whose rows are gone ends, with the reason.
    drop((all, outer, groups));
    sql(&engine, "DROP VIEW users").await;
    append(&engine, "swipes", r#"{"swiper":2,"n":5}"#, None).await;
    let mut last = None;
    while let Some(emit) = inner.next().await {
        last = Some(emit);
    }
    let reason = last.unwrap().meta.finished.unwrap().reason;
    let told = "view `users`, which events are joined with, was dropped";
    assert_eq!(reason, EndReason::Failed(told.to_owned()));
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_view_joins_stays_and_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    declare(&engine).await;
    let error = try_sql(&engine, "DROP VIEW users").await.unwrap_err();
    assert_eq!(error.to_string(), "view `inner_join` joins view `users`");
    assert_eq!(error.hint(), Some("DROP VIEW inner_join first."));
    let view = |query: &str| format!("CREATE MATERIALIZED VIEW v AS {query}");
    for (query, expected) in [
        (
            "SELECT v.n, COUNT(*) AS c FROM STREAM(swipes) JOIN v ON v.n = swiper GROUP BY v.n",
            "no view or table `v`",
        ),
        (
            "SELECT u.name, COUNT(*) AS n FROM STREAM(swipes) JOIN users u ON u.name = swiper GROUP BY u.name",
            "ON lacks `id`",
        ),
        (
            "SELECT u.x, COUNT(*) AS n FROM STREAM(swipes) JOIN users u ON u.id = swiper GROUP BY u.x",
            "view `users` has no column `x`",
        ),
        (
            "SELECT u.name, COUNT(*) AS n FROM STREAM(swipes) JOIN profiles u ON u.id = swiper GROUP BY u.name",
            "no view or table `profiles`",
        ),
    ] {
        let error = try_sql(&engine, &view(query)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
    let error = engine.submit(
        &Principal::local(),
        "SELECT 1\nFROM STREAM(x) JOIN nobody n ON n.a = 1",
        SubmitOptions::default(),
    );
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("2:21: there is no view or table `nobody`") || error.contains("line 2"),
        "{error}"
    );
    // A view that is of no key has one row.
    sql(&engine, "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM STREAM(profiles)").await;
    sql(&engine, &view("SELECT COUNT(*) AS n, MAX(t.n) AS most FROM STREAM(swipes) JOIN total t ON TRUE"))
        .await;
    append(&engine, "profiles", r#"{"id":1}"#, None).await;
    append(&engine, "swipes", r#"{"swiper":1}"#, None).await;
    assert_eq!(rows(&engine, "v").await, [r#"{"n":1,"most":1}"#]);
    // Views in a row: one joins one that joins.
    let third = "CREATE MATERIALIZED VIEW third AS SELECT i.n, COUNT(*) AS c FROM STREAM(profiles) p JOIN inner_join i ON i.country = p.country GROUP BY i.n";
    sql(&engine, third).await;
    append(&engine, "profiles", r#"{"id":1,"country":"DE"}"#, None).await;
    assert!(rows(&engine, "third").await.is_empty());
    append(&engine, "swipes", "{\"swiper\":1,\"n\":5}\n{\"swiper\":1,\"n\":6}", None).await;
    append(&engine, "profiles", r#"{"id":2,"country":"DE"}"#, None).await;
    assert_eq!(rows(&engine, "third").await, [r#"{"n":2,"c":1}"#]);
    sql(&engine, "DROP VIEW third; DROP VIEW v; DROP VIEW inner_join; DROP VIEW outer_join; DROP VIEW users")
        .await;
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_before_is_joined_with_rows_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [PROFILES, SWIPES] {
        sql(&engine, text).await;
    }
    append(&engine, "swipes", "{\"swiper\":1,\"n\":1}\n{\"swiper\":2,\"n\":1}", None).await;
    append(&engine, "profiles", "{\"id\":1,\"country\":\"DE\"}\n{\"id\":2,\"country\":\"FR\"}", None).await;
    sql(&engine, &USERS.replace("users AS", "users WITH (backfill = true) AS")).await;
    let create = "CREATE MATERIALIZED VIEW ever WITH (backfill = true) AS SELECT u.country, COUNT(*) AS n \
         FROM STREAM(swipes) s JOIN users u ON u.id = s.swiper GROUP BY u.country";
    sql(&engine, create).await;
    append(&engine, "swipes", r#"{"swiper":1,"n":1}"#, None).await;
    assert_eq!(rows(&engine, "ever").await, [r#"{"country":"DE","n":2}"#, r#"{"country":"FR","n":1}"#]);
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_joined_by_any_columns_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    for text in [
        SWIPES,
        "CREATE TABLE shops AS SELECT * FROM (VALUES (1, 'bar', 'Jena'), (2, 'bar', 'Kiel'), (3, NULL, 'Ulm')) AS t (id, kind, city)",
        "CREATE MATERIALIZED VIEW cities AS SELECT h.city, COUNT(*) AS n FROM STREAM(swipes) s \
         LEFT JOIN shops h ON h.id = s.shop GROUP BY h.city",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "swipes", "{\"shop\":1}\n{\"shop\":1}\n{\"shop\":9}\n{}", None).await;
    assert_eq!(rows(&engine, "cities").await, [r#"{"city":null,"n":2}"#, r#"{"city":"Jena","n":2}"#]);
    // An event sees the rows inserted before it.
    sql(&engine, "INSERT INTO shops VALUES (9, 'pub', 'Bonn')").await;
    append(&engine, "swipes", r#"{"shop":9}"#, None).await;
    assert_eq!(row(&engine, "cities", &["Bonn"]).await, r#"{"city":"Bonn","n":1}"#);
    let kinds = "SELECT s.n, h.city FROM STREAM(swipes) s JOIN shops h ON h.kind = 'bar' AND h.id = s.shop";
    let many = "SELECT h.city FROM STREAM(swipes) s JOIN shops h ON h.kind = 'bar'";
    engine.pin_joined(kinds, &SubmitOptions::default()).await.unwrap();
    let (mut kinds, mut many) = (submit(&engine, kinds), submit(&engine, many));
    append(&engine, "swipes", "{\"shop\":9,\"n\":1}\n{\"shop\":2,\"n\":2}\n{\"shop\":3,\"n\":3}", None).await;
    assert_eq!(records(&mut kinds, 1).await, [json!({"n": 2, "city": "Kiel"})]);
    let cities: Vec<String> = records(&mut many, 6).await.iter().map(|row| row["city"].to_string()).collect();
    assert_eq!(cities.iter().filter(|city| *city == "\"Jena\"").count(), 3);
    drop((kinds, many));
    let error = try_sql(&engine, "DROP TABLE shops").await.unwrap_err();
    assert_eq!(error.to_string(), "view `cities` joins table `shops`");
    for grace in [Duration::from_secs(5), Duration::ZERO] {
        stop(engine, grace).await;
        engine = open(dir.path(), |_| ()).await;
        append(&engine, "swipes", r#"{"shop":2}"#, None).await;
    }
    assert_eq!(row(&engine, "cities", &["Kiel"]).await, r#"{"city":"Kiel","n":3}"#);
    sql(&engine, "DROP VIEW cities; DROP TABLE shops").await;
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_too_large_is_not_held_and_the_view_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| history.joined_bytes_max = 2000).await;
    for text in [
        SWIPES,
        "CREATE TABLE shops AS SELECT * FROM (VALUES (1, 'Jena')) AS t (id, city)",
        "CREATE MATERIALIZED VIEW cities AS SELECT h.city, COUNT(*) AS n FROM STREAM(swipes) s JOIN shops h ON h.id = s.shop GROUP BY h.city",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "swipes", r#"{"shop":1}"#, None).await;
    assert_eq!(rows(&engine, "cities").await, [r#"{"city":"Jena","n":1}"#]);
    let many: Vec<String> = (2..100).map(|id| format!("({id}, 'many')")).collect();
    sql(&engine, &format!("INSERT INTO shops VALUES {}", many.join(", "))).await;
    append(&engine, "swipes", r#"{"shop":1}"#, None).await;
    let failing = loop {
        match engine.view(&Principal::local(), "cities").unwrap().failing {
            Some(failing) => break failing,
            None => tokio::task::yield_now().await,
        }
    };
    assert!(
        failing.contains("limit is 2000 (`views.joined_bytes_max`)")
            && failing.contains("or raise the limit"),
        "{failing}"
    );
    let error = engine
        .pin_joined("SELECT 1 FROM STREAM(a) JOIN shops ON shops.id = 1", &SubmitOptions::default())
        .await;
    assert!(error.unwrap_err().to_string().contains("limit is 2000"));
    // When the table is smaller, the view continues.
    sql(&engine, "INSERT OVERWRITE shops VALUES (1, 'Ulm')").await;
    assert_eq!(row(&engine, "cities", &["Ulm"]).await, r#"{"city":"Ulm","n":1}"#);
    assert_eq!(engine.view(&Principal::local(), "cities").unwrap().failing, None);
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_example_counts() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/views.md");
    let text = std::fs::read_to_string(document).unwrap();
    let section = text.split("### Joined with rows").nth(1).expect("it is documented");
    let example = section.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM swipes (swiper LONG NOT NULL, direction STRING NOT NULL)").await;
    for statement in split_statements(example) {
        sql(&engine, statement.text).await;
    }
    append(&engine, "profiles", r#"{"id":1,"country":"DE"}"#, None).await;
    append(&engine, "swipes", "{\"swiper\":1,\"direction\":\"right\"}\n{\"swiper\":1,\"direction\":\"left\"}\n{\"swiper\":2,\"direction\":\"left\"}", None).await;
    assert_eq!(rows(&engine, "by_country").await, [r#"{"country":"DE","n":2,"likes":1}"#]);
    // A view may be over one that joins.
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW countries AS SELECT COUNT(*) AS c, SUM(n) AS n FROM STREAM(by_country)",
    )
    .await;
    assert_eq!(rows(&engine, "countries").await, [r#"{"c":1,"n":2}"#]);
    stop(engine, Duration::ZERO).await;
}
