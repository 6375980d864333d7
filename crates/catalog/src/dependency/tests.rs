//! Tests the laws of dependencies on random statements.

use swiftwater_event::Type;
use swiftwater_lang::ddl::Ddl;
use swiftwater_testkit::Rng;

use crate::{
    Catalog, CatalogError, Change, ChangeRecord, Object, ObjectKind,
    kind::{alert::AlertStart, lookup_join::joined_by, search_index::IndexedColumn, sink::SinkStart},
    statement::read,
};

/// A statement over few names, so that many objects depend on one another.
fn statement(rng: &mut Rng) -> String {
    let n = |rng: &mut Rng| rng.below(3);
    let (a, b, c) = (n(rng), n(rng), n(rng));
    match rng.below(16) {
        0 => format!("CREATE STREAM s{a} (x LONG, at LONG, WATERMARK FOR at AS at)"),
        1 => format!("CREATE STREAM s{a} (x LONG) WITH (on_bad_event = quarantine)"),
        2 => "CREATE STREAM quarantine (event STRING) WITH (on_bad_event = quarantine)".to_owned(),
        3 => format!("CREATE MATERIALIZED VIEW v{a} AS SELECT x, COUNT(*) AS n FROM STREAM(s{b}) GROUP BY x"),
        4 => format!("CREATE MATERIALIZED VIEW v{a} AS SELECT n, COUNT(*) AS x FROM STREAM(v{b}) GROUP BY n"),
        5 => format!(
            "CREATE MATERIALIZED VIEW v{a} AS SELECT t.x, COUNT(*) AS n FROM STREAM(s{b}) AS s JOIN {}{c} AS t ON t.x = s.x GROUP BY t.x",
            if a == c || rng.chance(0.5) { "t" } else { "v" }
        ),
        6 => format!("CREATE ALERT a{a} ON v{b} WHEN n > 1 INTO s{c}"),
        7 => format!(
            "CREATE ALERT a{a} ON (SELECT x, COUNT(*) AS n FROM STREAM(s{b}) GROUP BY x) WHEN n > 1 INTO \
             WEBHOOK 'http://x/' WITH (retries = 1, dead_letter = s{c})"
        ),
        8 => format!(
            "CREATE JOIN j{a} INTO s{c} AS SELECT u.x FROM STREAM(s{b}) u JOIN STREAM(s{a}) w ON u.x = w.x AND \
             w.at BETWEEN u.at AND u.at + INTERVAL '1 hour'"
        ),
        9 => format!("CREATE ENDPOINT POST '/p{a}' (x LONG) INTO s{b}"),
        10 => format!("CREATE ENDPOINT GET '/g{a}/{{x}}' (x LONG) AS SELECT n FROM v{b} WHERE x = $x"),
        11 => format!("CREATE SINK k{a} FROM CHANGES OF v{b} INTO STREAM s{c}"),
        12 if rng.chance(0.5) => format!("CREATE SINK k{a} FROM v{b} INTO TABLE t{c}"),
        12 => format!("CREATE SINK k{a} FROM (SELECT x FROM STREAM(s{b})) INTO STREAM s{c}"),
        13 => format!("CREATE SEARCH INDEX ON s{a} (x ID, *)"),
        14 => {
            format!("ALTER SEARCH INDEX ON s{a} {}", ["DROP x", "ADD x ID", "DROP *", "ADD *"][rng.below(4)])
        }
        _ => format!("DROP {}{a}", ["STREAM s", "VIEW v", "ALERT a", "JOIN j", "SINK k"][rng.below(5)]),
    }
}

/// Carries a statement out, if it is not refused.
fn carry_out(catalog: &mut Catalog, text: &str) {
    let Ok(ddl) = read(text) else { panic!("{text}: {:?}", read(text)) };
    let text = text.to_owned();
    let change = match &ddl {
        // The views that it looks up are checked where they are opened.
        Ddl::CreateView(create)
            if joined_by(create).iter().any(|name| name.starts_with('v') && !catalog.has_view(name)) =>
        {
            Ok(None)
        }
        Ddl::CreateView(create) => catalog
            .check_view(create)
            .map(|new| new.map(|_| Change::View { text, from: 0, tables: Vec::new() })),
        Ddl::CreateAlert(create) => {
            let start = AlertStart::default();
            catalog.check_alert(create).map(|new| new.then_some(Change::Alert { text, start }))
        }
        Ddl::CreateJoin(create) => {
            catalog.check_join(create).map(|new| new.then_some(Change::Join { text, from: 0 }))
        }
        Ddl::CreateSink(create) => {
            let start = |view| SinkStart { view, ..SinkStart::default() };
            let view = create.view().map(|view| catalog.view(view).map(|view| view.id)).transpose();
            let is_there = |name: &str| catalog.known_stream(name).is_ok();
            let source = create.query().map(|query| query.stream.as_str());
            let is_new =
                catalog.sinks().get(&create.name).is_err() && create.streams().chain(source).all(is_there);
            view.map(|view| is_new.then(|| Change::Sink { text, start: start(view) }))
        }
        Ddl::CreateSearchIndex(create) => {
            catalog.check_create_index(create, &[IndexedColumn::new("x", &Type::LONG)])
        }
        Ddl::AlterSearchIndex(alter) => {
            catalog.check_alter_index(alter, &[IndexedColumn::new("x", &Type::LONG)])
        }
        ddl => catalog.check(ddl),
    };
    if let Ok(Some(change)) = change {
        catalog.apply(&ChangeRecord::new(7, change)).expect("what was checked can be applied");
    }
}

/// All objects that can be named.
fn objects(catalog: &Catalog) -> Vec<Object> {
    let views = catalog.views().filter(|view| view.owner.is_none());
    let mut objects: Vec<Object> = catalog.streams().map(|(_, stream)| stream.object()).collect();
    objects.extend(views.map(|view| view.object()));
    objects.extend(catalog.alerts().map(|alert| alert.object()));
    objects.extend(catalog.joins().map(|join| join.object()));
    objects.extend(catalog.sinks().all().map(|sink| sink.object()));
    objects.extend(catalog.endpoints().iter().map(|endpoint| endpoint.object()));
    objects
}

fn drop_of(Object { kind, name }: &Object) -> Ddl {
    let text = format!("DROP {} {name}", kind.word().to_uppercase());
    read(&text).unwrap_or_else(|_| panic!("{text} is a statement"))
}

#[test]
fn objects_can_be_dropped_once_nothing_depends_on_them_and_leave_no_dependency_behind() {
    let (mut refused, mut dropped, mut indexes) = (0, 0, 0);
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut catalog = Catalog::default();
        // The engine creates it before a stream that needs it.
        carry_out(&mut catalog, "CREATE STREAM quarantine (event STRING)");
        for _ in 0..60 {
            carry_out(&mut catalog, &statement(&mut rng));
        }
        // Each round drops what nothing depends on: there is always something, since nothing depends on itself.
        loop {
            let there = objects(&catalog);
            let dependencies = catalog.dependencies();
            for index in catalog.search_indexes().all() {
                indexes += 1;
                let stream = ObjectKind::Stream.named(&*index.create.table);
                assert!(there.contains(&stream), "seed {seed}: {} has no stream", index.object());
            }
            for dependency in &dependencies {
                let is_there = |object: &Object| object.kind == ObjectKind::Table || there.contains(object);
                assert!(
                    is_there(&dependency.dependent) && is_there(&dependency.on),
                    "seed {seed}: {dependency}"
                );
            }
            let Some(object) = there.iter().find(|object| catalog.check(&drop_of(object)).is_ok()) else {
                assert!(there.is_empty(), "seed {seed}: {there:?} {dependencies:?}");
                assert_eq!(catalog.search_indexes().all().len(), 0, "seed {seed}: each goes with its stream");
                break;
            };
            for other in &there {
                let is_used = dependencies
                    .iter()
                    .any(|dependency| dependency.on == *other && dependency.dependent != *other);
                match catalog.check(&drop_of(other)) {
                    Ok(_) => assert!(!is_used, "seed {seed}: {other}"),
                    Err(CatalogError::InUse(found)) => {
                        refused += 1;
                        assert!(
                            found.on == *other && there.contains(&found.dependent),
                            "seed {seed}: {found}"
                        );
                    }
                    Err(error) => panic!("seed {seed}: {other}: {error}"),
                }
            }
            let change = catalog.check(&drop_of(object)).ok().flatten().expect("it is there");
            catalog.apply(&ChangeRecord::new(7, change)).expect("what was checked can be applied");
            dropped += 1;
        }
    }
    assert!(
        refused > 1_000 && dropped > 500 && indexes > 100,
        "{refused} refused, {dropped} dropped, {indexes} indexes"
    );
}
