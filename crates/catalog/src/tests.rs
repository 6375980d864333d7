//! Tests that changes of the catalog apply in sequence, and that their result reads back.

use swiftwater_event::StreamName;
use swiftwater_lang::ddl::Ddl;

use crate::{
    Catalog, CatalogError, Change, ChangeRecord, Snapshot, StreamNumbers, WireError,
    kind::{
        alert::AlertStart,
        job::{JobStep, StreamRead},
        sink::{Delivered, SinkStart, digits, place_of_offset},
    },
    statement::read,
};

fn ddl(text: &str) -> Ddl {
    read(text).unwrap()
}

fn carry_out(catalog: &mut Catalog, text: &str) -> Result<bool, CatalogError> {
    if let Ddl::CreateAlert(create) = ddl(text) {
        let start = AlertStart { events_from: create.query().map(|_| 5), from: Some(9) };
        if !catalog.check_alert(&create)? {
            return Ok(false);
        }
        let record = ChangeRecord::new(7, Change::Alert { text: text.to_owned(), start });
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        return Ok(true);
    }
    if let Ddl::CreateView(create) = ddl(text) {
        if catalog.check_view(&create)?.is_none() {
            return Ok(false);
        }
        let record =
            ChangeRecord::new(7, Change::View { text: text.to_owned(), from: 3, tables: Vec::new() });
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        return Ok(true);
    }
    if let Ddl::CreateJoin(create) = ddl(text) {
        if !catalog.check_join(&create)? {
            return Ok(false);
        }
        let record = ChangeRecord::new(7, Change::Join { text: text.to_owned(), from: 4 });
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        return Ok(true);
    }
    let Some(change) = catalog.check(&ddl(text))? else { return Ok(false) };
    let record = ChangeRecord::new(7, change);
    catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
    Ok(true)
}

fn names(catalog: &Catalog) -> Vec<(&str, u32)> {
    catalog.streams().map(|(name, entry)| (name.as_str(), entry.id)).collect()
}

#[test]
fn number_of_a_dropped_stream_is_not_given_again() {
    let mut catalog = Catalog::default();
    carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
    carry_out(&mut catalog, "CREATE STREAM b (x LONG)").unwrap();
    carry_out(&mut catalog, "DROP STREAM b").unwrap();
    carry_out(&mut catalog, "CREATE STREAM b (y STRING)").unwrap();
    assert_eq!(names(&catalog), [("a", 0), ("b", 2)]);
}

#[test]
fn table_of_a_dropped_stream_is_owed_until_it_is_gone() {
    let mut catalog = Catalog::default();
    let dropped =
        |catalog: &Catalog| catalog.dropped().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
    for text in ["CREATE STREAM a (x LONG)", "CREATE STREAM b (x LONG)", "CREATE STREAM live"] {
        carry_out(&mut catalog, text).unwrap();
        carry_out(&mut catalog, &text.replace("CREATE", "DROP").replace(" (x LONG)", "")).unwrap();
    }
    assert_eq!(dropped(&catalog), ["a", "b"], "what is not stored has no table");
    carry_out(&mut catalog, "CREATE STREAM a").unwrap();
    assert_eq!(dropped(&catalog), ["a", "b"], "its name was taken by a stream without a table");
    carry_out(&mut catalog, "DROP STREAM a").unwrap();
    carry_out(&mut catalog, "CREATE STREAM a (y LONG)").unwrap();
    assert_eq!(dropped(&catalog), ["b"], "the next one's table is nobody's debt");
    catalog.forget_dropped(&StreamName::new("b").unwrap());
    assert!(dropped(&catalog).is_empty());
}

#[test]
fn quarantine_stays_while_a_stream_has_its_bad_events_kept() {
    let mut catalog = Catalog::default();
    carry_out(&mut catalog, "CREATE STREAM quarantine (x LONG) WITH (on_bad_event = quarantine)").unwrap();
    carry_out(&mut catalog, "CREATE STREAM a (x LONG) WITH (on_bad_event = quarantine)").unwrap();
    let error = carry_out(&mut catalog, "DROP STREAM IF EXISTS quarantine").unwrap_err();
    assert_eq!(error.to_string(), "stream `quarantine` receives the bad events of stream `a`");
    assert_eq!(error.kind(), crate::ErrorKind::Conflict);
    carry_out(&mut catalog, "ALTER STREAM a RESET (on_bad_event)").unwrap();
    carry_out(&mut catalog, "DROP STREAM quarantine").unwrap();
    carry_out(&mut catalog, "DROP STREAM a").unwrap();
}

#[test]
fn what_exists_is_a_conflict_unless_that_is_fine() {
    let mut catalog = Catalog::default();
    carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
    let error = carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap_err();
    assert_eq!(error.to_string(), "stream `a` already exists");
    assert!(!carry_out(&mut catalog, "CREATE STREAM IF NOT EXISTS a (x LONG)").unwrap());
    assert!(carry_out(&mut catalog, "DROP STREAM nix").is_err());
    assert!(!carry_out(&mut catalog, "DROP STREAM IF EXISTS nix").unwrap());
}

#[test]
fn refused_statement_changes_nothing() {
    let mut catalog = Catalog::default();
    carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
    let before = catalog.clone();
    assert!(carry_out(&mut catalog, "ALTER STREAM a ADD COLUMN y LONG, ADD COLUMN x LONG").is_err());
    assert_eq!(catalog, before);
}

/// A catalog with objects of all kinds, altered ones and numbers of dropped ones among them.
fn catalog_of_all_kinds() -> Catalog {
    let mut catalog = Catalog::default();
    for text in [
        "CREATE STREAM a (x LONG NOT NULL CHECK (x > 0), ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') \
         WITH (retention = '30 days')",
        "ALTER STREAM a ADD COLUMN \"größe\" DOUBLE DEFAULT 1.5",
        "CREATE STREAM gone (x LONG)",
        "DROP STREAM gone",
        "CREATE MATERIALIZED VIEW gone AS SELECT COUNT(*) FROM STREAM(a)",
        "DROP VIEW gone",
        "CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x",
        "CREATE MATERIALIZED VIEW above AS SELECT n, COUNT(*) AS xs FROM STREAM(v) GROUP BY n",
        "CREATE STREAM told WITH (store = true)",
        "CREATE ALERT gone ON (SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x) WHEN n > 1 INTO told",
        "DROP ALERT gone",
        "CREATE ALERT on_view ON v WHEN n > 1 INTO told",
        "CREATE ALERT hot ON (SELECT x, MAX(\"größe\") AS m FROM STREAM(a) GROUP BY x) WHEN m > ')' INTO \
         WEBHOOK 'http://x/' WITH (retries = 5, dead_letter = told)",
        "CREATE STREAM pairs (x LONG)",
        "CREATE JOIN gone INTO pairs AS SELECT u.x FROM STREAM(a) u JOIN STREAM(a) w ON u.x = w.x AND \
         w.ts BETWEEN u.ts AND u.ts + INTERVAL '1 hour'",
        "DROP JOIN gone",
        "CREATE JOIN j INTO pairs AS SELECT u.x FROM STREAM(a) u JOIN STREAM(a) w ON u.x = w.x AND \
         w.ts BETWEEN u.ts AND u.ts + INTERVAL '1 hour' WHERE u.y <> w.y",
        "CREATE ENDPOINT GET '/gone' AS SELECT 1 AS one",
        "DROP ENDPOINT GET '/gone'",
        "CREATE ENDPOINT GET '/v/{x}' (x LONG CHECK (x > 0) ELSE 404 'it''s none') AS SELECT n FROM v WHERE x = $x",
        "CREATE ENDPOINT POST '/a' (x LONG NOT NULL) INTO a WITH (ack = memory)",
        "CREATE JOB dropped SCHEDULE '@daily' AS SELECT 1",
        "DROP JOB dropped",
        "CREATE JOB j SCHEDULE '0 * * * *' WITH (incremental = true) AS INSERT INTO t SELECT ';' FROM a",
        "ALTER JOB j SET (time_zone = 'Europe/Berlin')",
        "ALTER JOB j DISABLE",
        "CREATE SAVED QUERY gone AS $$SELECT 1$$",
        "DROP SAVED QUERY gone",
        "CREATE SAVED QUERY q AS $$SELECT * FROM STREAM(a) WHERE x = 'é;'$$",
        "CREATE OR REPLACE SAVED QUERY q COMMENT 'it''s' AS 'costs $$'",
        "CREATE SAVED DASHBOARD q AS $${}$$",
    ] {
        carry_out(&mut catalog, text).unwrap();
    }
    catalog
}

/// Two runs of the job with the number 1, the second of them open.
fn run_job(catalog: &mut Catalog) {
    let read = StreamRead { stream: "a".into(), from: 0, to: 5 };
    for (run, step) in [
        (1, JobStep::Began { due: Some(3_600_000) }),
        (1, JobStep::Reads { id: 0, read: read.clone() }),
        (1, JobStep::Failed { error: "once".to_owned(), millis: 2 }),
        (1, JobStep::Succeeded { rows: 7, millis: 3 }),
        (2, JobStep::Began { due: None }),
        (2, JobStep::Reads { id: 0, read: StreamRead { from: 5, to: 9, ..read } }),
        (2, JobStep::Did { rows: 3, millis: 4 }),
        (2, JobStep::Failed { error: "more than once".to_owned(), millis: 5 }),
    ] {
        let record = ChangeRecord::new(11, Change::Job { job: 1, run, step });
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
    }
}

#[test]
fn snapshot_reads_back_as_the_same_catalog() {
    let mut catalog = catalog_of_all_kinds();
    run_job(&mut catalog);
    let numbers = StreamNumbers {
        position: 10,
        next_offset: 20,
        kept_from: Some(2),
        producers: vec![("p".into(), vec![(1, 1, 2, 3, 4)])],
        hashes: vec![("p".into(), 1, 0, u64::MAX)],
    };
    let snapshot = catalog.snapshot(99, |_| Some(numbers.clone()));
    let again = Snapshot::from_bytes(&snapshot.to_bytes()).unwrap();
    assert_eq!((again.position, &again.streams[0].numbers), (99, &numbers));
    let mut read_back = Catalog::from_snapshot(&again).unwrap();
    assert_eq!(read_back, catalog);
    // The later statements do the same to both.
    for text in [
        "ALTER JOB j ENABLE",
        "CREATE JOB k SCHEDULE '@hourly' AS SELECT 2",
        "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) FROM STREAM(a)",
        "DROP VIEW w",
        "CREATE ENDPOINT POST '/v/{id}' (id LONG) INTO a",
        "DROP ENDPOINT POST '/v/{other}'",
        "DROP ENDPOINT POST '/a'",
        "DROP ENDPOINT GET '/v/{x}'",
        "CREATE OR REPLACE SAVED DASHBOARD q AS $${1}$$",
        "DROP SAVED QUERY q",
        "CREATE SAVED NOTEBOOK n AS $${}$$",
        "DROP VIEW above",
        "DROP ALERT on_view",
        "DROP VIEW v",
        "DROP ALERT hot",
        "DROP JOIN j",
        "DROP STREAM a",
    ] {
        carry_out(&mut catalog, text).unwrap();
        carry_out(&mut read_back, text).unwrap();
        assert_eq!(read_back, catalog, "{text}");
    }
    assert_eq!(catalog.job("k").unwrap().id, 2, "a number is not given again");
}

#[test]
fn snapshot_and_the_changes_after_it_come_to_the_same() {
    const TEXTS: [&str; 12] = [
        "CREATE STREAM IF NOT EXISTS a (x LONG)",
        "DROP STREAM IF EXISTS a",
        "CREATE JOB IF NOT EXISTS j SCHEDULE '@hourly' AS SELECT 1",
        "CREATE JOB IF NOT EXISTS k SCHEDULE '30 2 * * *' WITH (time_zone = 'Europe/Berlin') AS SELECT 2",
        "ALTER JOB j DISABLE",
        "ALTER JOB k ENABLE",
        "ALTER JOB k SET SCHEDULE '*/5 * * * *'",
        "DROP JOB IF EXISTS j",
        "ALTER JOB j SET (incremental = true)",
        "CREATE SAVED QUERY IF NOT EXISTS q AS $$1$$",
        "CREATE OR REPLACE SAVED QUERY q AS $$22$$",
        "DROP SAVED QUERY q",
    ];
    for seed in 0..50 {
        let mut rng = swiftwater_testkit::Rng::new(seed);
        let (mut catalog, mut other) = (Catalog::default(), Catalog::default());
        for at in 0..60 {
            let change = if rng.chance(0.4) {
                // A refused statement is not logged.
                let Ok(Some(change)) = catalog.check(&ddl(TEXTS[rng.below(TEXTS.len())])) else {
                    continue;
                };
                change
            } else {
                let (id, from) = (rng.below(2) as u32, rng.below(9) as u64);
                let read = StreamRead { stream: "a".into(), from, to: from + 3 };
                let steps = [
                    JobStep::Began { due: rng.chance(0.5).then_some(at * 1_000_000) },
                    JobStep::Reads { id, read },
                    JobStep::Did { rows: 2, millis: 1 },
                    JobStep::Failed { error: format!("number {at}"), millis: 1 },
                    JobStep::Succeeded { rows: 1, millis: 1 },
                ];
                let job = rng.below(catalog.next_job as usize + 1) as u32;
                let run =
                    catalog.job_of(job).map_or(1, |job| job.open().map_or(job.next_run(), |run| run.number));
                Change::Job { job, run, step: rng.pick(&steps) }
            };
            let record = ChangeRecord::new(at * 1_000_000, change);
            catalog.apply(&record).unwrap();
            other.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
            if rng.chance(0.2) {
                let bytes = other.snapshot(0, |_| None).to_bytes();
                other = Catalog::from_snapshot(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
            }
            assert_eq!(other, catalog, "seed {seed}, change {at}");
        }
    }
}

#[test]
fn jobs_are_created_altered_and_dropped_by_name() {
    let mut catalog = Catalog::default();
    let create = "CREATE JOB j SCHEDULE '@daily' AS SELECT 1";
    carry_out(&mut catalog, create).unwrap();
    assert_eq!(carry_out(&mut catalog, create).unwrap_err().to_string(), "job `j` already exists");
    let before = catalog.clone();
    assert!(!carry_out(&mut catalog, "CREATE JOB IF NOT EXISTS j SCHEDULE '@hourly' AS SELECT 2").unwrap());
    assert!(!carry_out(&mut catalog, "ALTER JOB j ENABLE").unwrap(), "it is");
    for (text, error) in [
        ("ALTER JOB nix ENABLE", "no job `nix`"),
        ("DROP JOB nix", "no job `nix`"),
        ("ALTER JOB j SET SCHEDULE '0 0 30 2 *'", "the schedule `0 0 30 2 *` names a time that never occurs"),
        ("CREATE JOB k SCHEDULE '@daily' WITH (time_zone = 'Nix') AS SELECT 1", "no time zone `Nix`"),
    ] {
        assert_eq!(carry_out(&mut catalog, text).unwrap_err().to_string(), error);
    }
    assert_eq!(catalog, before);
    assert!(carry_out(&mut catalog, "ALTER JOB j DISABLE").unwrap());
    assert_eq!(catalog.job("j").unwrap().next_due(), None);
    assert!(carry_out(&mut catalog, "DROP JOB j").unwrap());
    assert!(!carry_out(&mut catalog, "DROP JOB IF EXISTS j").unwrap());
}

#[test]
fn views_are_of_a_stored_stream_and_hold_it() {
    let mut catalog = Catalog::default();
    let view = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) FROM STREAM(a)";
    let mut told = |text: &str| match carry_out(&mut catalog, text) {
        Ok(changed) => changed.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(told(view), "no stream `a`");
    assert_eq!(told("CREATE STREAM a"), "true");
    assert_eq!(told(view), "a view needs a stored stream, and `a` is live-only");
    assert_eq!(told("ALTER STREAM a SET (store = true)"), "true");
    assert_eq!(
        told("CREATE MATERIALIZED VIEW a AS SELECT COUNT(*) FROM STREAM(a)"),
        "stream `a` already exists"
    );
    assert_eq!(told(view), "true");
    assert_eq!(told(view), "view `v` already exists");
    assert_eq!(told(&view.replace("VIEW v", "VIEW IF NOT EXISTS v")), "false");
    assert_eq!(told("CREATE STREAM v"), "view `v` already exists");
    assert_eq!(told("DROP STREAM a"), "view `v` reads stream `a`");
    let upper = "CREATE MATERIALIZED VIEW u AS SELECT COUNT(*) FROM STREAM(v)";
    assert_eq!(told(upper), "true");
    assert_eq!(told("DROP VIEW v"), "view `u` reads view `v`");
    assert_eq!(told("DROP STREAM a"), "view `u` reads stream `a`");
    assert_eq!(told(&upper.replace("VIEW u", "VIEW w").replace("(v)", "(u)")), "true");
    assert_eq!(told("DROP VIEW u"), "view `w` reads view `u`");
    assert_eq!(told("DROP VIEW w"), "true");
    assert_eq!(told("DROP VIEW u"), "true");
    assert_eq!(told("DROP VIEW v"), "true");
    assert_eq!(told("DROP VIEW v"), "no view `v`");
    assert_eq!(told("DROP VIEW IF EXISTS v"), "false");
    assert_eq!(told(view), "true");
    assert_eq!(catalog.view("v").map(|view| (view.id, view.from)), Ok((3, 3)), "a number is not given again");
}

#[test]
fn alerts_hold_what_they_are_of() {
    let mut catalog = Catalog::default();
    let mut told = |text: &str| match carry_out(&mut catalog, text) {
        Ok(changed) => changed.to_string(),
        Err(error) => error.to_string(),
    };
    let alert =
        "CREATE ALERT hot ON (SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x) WHEN n > 1 INTO told";
    let hook = alert.replace("INTO told", "INTO WEBHOOK 'http://x/'").replace("hot", "hook");
    assert_eq!(told(alert), "no stream `a`");
    assert_eq!(told("CREATE STREAM a (x LONG)"), "true");
    assert_eq!(told(alert), "no stream `told`");
    assert_eq!(told("CREATE STREAM told"), "true");
    assert_eq!(told(alert), "an alert needs a stored target stream, and `told` is live-only");
    assert_eq!(told("ALTER STREAM told SET (store = true)"), "true");
    assert_eq!(
        told(&alert.replace("INTO told", "INTO a")),
        "the query reads stream `a`: the alert would trigger itself"
    );
    assert_eq!((told(alert), told(&hook)), ("true".to_owned(), "true".to_owned()));
    assert_eq!(told(alert), "alert `hot` already exists");
    assert_eq!(told(&alert.replace("ALERT hot", "ALERT IF NOT EXISTS hot")), "false");
    assert_eq!(told("DROP STREAM a"), "the query of alert `hook` reads stream `a`");
    assert_eq!(told("DROP STREAM told"), "alert `hot` writes into stream `told`");
    assert_eq!(told("DROP VIEW \"alert.hot\""), "no view `alert.hot`");
    assert_eq!((told("DROP ALERT hook"), told("DROP ALERT hot")), ("true".to_owned(), "true".to_owned()));
    assert_eq!(told("DROP ALERT IF EXISTS hot"), "false");
    assert_eq!((told("DROP STREAM a"), told("DROP STREAM told")), ("true".to_owned(), "true".to_owned()));
    let (streams, views) = (catalog.streams().count(), catalog.views().len());
    assert_eq!((streams, views, catalog.next_view()), (0, 0, 4), "each took two numbers");
}

#[test]
fn a_stream_that_an_older_version_dropped_below_a_sink_is_dropped() {
    let mut catalog = Catalog::default();
    carry_out(&mut catalog, "CREATE STREAM told (x LONG)").unwrap();
    let text = "CREATE SINK s FROM v INTO STREAM told".to_owned();
    catalog.apply(&ChangeRecord::new(0, Change::Sink { text, start: SinkStart::default() })).unwrap();
    let drop = "DROP STREAM told";
    let refused = carry_out(&mut catalog, drop).unwrap_err();
    assert_eq!(refused.to_string(), "sink `s` delivers to stream `told`");
    catalog.apply(&ChangeRecord::new(0, Change::Ddl(drop.to_owned()))).unwrap();
    assert_eq!(catalog.streams().count(), 0);
    assert!(!carry_out(&mut catalog, "DROP STREAM IF EXISTS told").unwrap(), "there is nothing to hold");
}

#[test]
fn endpoints_hold_what_they_are_of() {
    let mut catalog = Catalog::default();
    let mut told = |text: &str| match carry_out(&mut catalog, text) {
        Ok(changed) => changed.to_string(),
        Err(error) => error.to_string(),
    };
    let (post, get) = ("CREATE ENDPOINT POST '/a' INTO a", "CREATE ENDPOINT GET '/v' AS SELECT n FROM v");
    assert_eq!(told(post), "no stream `a`");
    assert_eq!(told("CREATE STREAM a (x LONG)"), "true");
    assert_eq!(told(get), "no view `v`");
    assert_eq!(told("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(a)"), "true");
    assert_eq!((told(post), told(get)), ("true".to_owned(), "true".to_owned()));
    assert_eq!(told(post), "endpoint POST '/a' already exists");
    assert_eq!(told("CREATE ENDPOINT IF NOT EXISTS POST '/a' INTO nix"), "false");
    assert_eq!(told("DROP VIEW v"), "endpoint GET '/v' reads view `v`");
    assert_eq!(told("DROP ENDPOINT GET '/v'"), "true");
    assert_eq!(told("DROP VIEW v"), "true");
    assert_eq!(told("DROP STREAM IF EXISTS a"), "endpoint POST '/a' writes into stream `a`");
    assert_eq!(told("DROP ENDPOINT POST '/a'"), "true");
    assert_eq!(told("DROP ENDPOINT POST '/a'"), "no endpoint POST '/a'");
    assert_eq!(told("DROP ENDPOINT IF EXISTS POST '/a'"), "false");
    assert_eq!(told("DROP STREAM a"), "true");
    let older = br#"{"format": 1, "written_by": "0.1.0", "position": 5, "next_stream": 1, "streams": []}"#;
    let older = Catalog::from_snapshot(&Snapshot::from_bytes(older).unwrap()).unwrap();
    assert_eq!(older.endpoints().len(), 0, "what is older has none");
}

#[test]
fn newer_format_is_refused_and_says_what_to_do() {
    let newer = br#"{"format": 2, "written_by": "9.0.0", "shape": "unknown"}"#;
    let error = Snapshot::from_bytes(newer).unwrap_err();
    assert_eq!(error.to_string(), "the catalog has format 2, written by 9.0.0; this version reads up to 1");
    assert!(ChangeRecord::from_bytes(newer).is_err());
    assert!(matches!(Snapshot::from_bytes(b"{}"), Err(WireError::Form { .. })));
}

#[test]
fn a_way_round_over_a_topic_is_found() {
    let mut catalog = Catalog::default();
    for text in [
        "CREATE STREAM a (x LONG)",
        "CREATE STREAM b (x LONG) FROM KAFKA (topic = 't', connection = 'other')",
        "CREATE STREAM c (x LONG) FROM KAFKA (topic = 't')",
        "CREATE MATERIALIZED VIEW va AS SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x",
    ] {
        carry_out(&mut catalog, text).unwrap();
    }
    let text = "CREATE SINK s FROM CHANGES OF va INTO KAFKA (topic = 't', connection = 'other')".to_owned();
    let start = SinkStart { view: Some(0), ..SinkStart::default() };
    catalog.apply(&ChangeRecord::new(7, Change::Sink { text, start })).unwrap();
    let error = catalog.check_no_way_round(["a"], &["b"]).unwrap_err().to_string();
    assert!(error.ends_with("in a cycle: by sink `s` into stream `b`"), "{error}");
    catalog.check_no_way_round(["a"], &["c"]).unwrap();
}

#[test]
fn a_way_round_that_was_written_down_is_read() {
    let mut catalog = Catalog::default();
    for text in [
        "CREATE STREAM a (x LONG)",
        "CREATE STREAM b (x LONG)",
        "CREATE MATERIALIZED VIEW va AS SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x",
        "CREATE MATERIALIZED VIEW vb AS SELECT x, COUNT(*) AS n FROM STREAM(b) GROUP BY x",
    ] {
        carry_out(&mut catalog, text).unwrap();
    }
    for (view, text) in [
        (Some(0), "CREATE SINK s FROM CHANGES OF va INTO STREAM b"),
        (Some(1), "CREATE SINK t FROM CHANGES OF vb INTO STREAM a"),
        (None, "CREATE SINK u FROM (SELECT x FROM STREAM(b)) INTO KAFKA (topic = 't')"),
    ] {
        let start = SinkStart { view, ..SinkStart::default() };
        catalog.apply(&ChangeRecord::new(7, Change::Sink { text: text.to_owned(), start })).unwrap();
    }
    let error = catalog.check_no_way_round(["a"], &["b"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rows of stream `a` would return to it in a cycle: by sink `s` into stream `b`"
    );
    carry_out(&mut catalog, "CREATE STREAM c (x LONG) FROM KAFKA (topic = 't')").unwrap();
    let error = catalog.check_no_way_round(["b"], &["c"]).unwrap_err().to_string();
    assert!(error.ends_with("in a cycle: by sink `u` into stream `c`"), "{error}");
    let refused = carry_out(&mut catalog, "DROP STREAM b").unwrap_err().to_string();
    assert!(refused.starts_with("sink `") || refused.starts_with("view `"), "{refused}");
}

#[test]
fn deliveries_of_events_are_planned_and_done_by_offset() {
    let mut delivered = Delivered { key: Some(digits(&place_of_offset(7))), ..Delivered::default() };
    assert_eq!(delivered.offset(), 7);
    delivered.planned = vec![9, 12];
    let first = delivered.after(2, 0, &place_of_offset(9), 0);
    assert_eq!((first.count, first.rows, first.offset(), &first.planned[..]), (1, 2, 9, &[12][..]));
    let older: Delivered = serde_json::from_str(r#"{"count":3,"rows":4,"key":"0000000000000005"}"#).unwrap();
    assert_eq!((older.offset(), older.planned.len(), older.lost), (5, 0, 0));
    delivered.pass(&place_of_offset(20));
    assert_eq!((delivered.offset(), delivered.planned.len()), (20, 0));
}
