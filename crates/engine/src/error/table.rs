//! Tests that every error of the engine matches `table.txt`: its text, kind, SQLSTATE and hint. Clients see these, so they
//! change only on purpose.

use std::fmt::Write as _;

use swiftwater_catalog::{
    CatalogError, Dependency, Object, ObjectKind, Role, ScheduleError, kind::stream::QUARANTINE,
};
use swiftwater_event::{Primitive, Type};
use swiftwater_lang::{
    QueryError, QueryErrors,
    ddl::{AlterError, DefinitionError},
};
use swiftwater_live::{UnsupportedView, columns::ColumnsError};
use swiftwater_text::IndexKind;

use crate::error::{
    BackupError, DedupError, EngineError, RuntimeError, SinkError, SkipError, sql::from_engine,
};

fn query_errors() -> QueryErrors {
    QueryErrors(vec![QueryError {
        line: Some(1),
        column: Some(8),
        message: "no columns".to_owned(),
        hint: Some("Write a column.".to_owned()),
        excerpt: "SELECT FROM\n       ^".to_owned(),
    }])
}

fn text(name: &str) -> String {
    name.to_owned()
}

fn in_use(role: Role, dependent: Object, on: Object) -> EngineError {
    EngineError::Runtime(RuntimeError::Catalog(CatalogError::InUse(Dependency::new(role, dependent, on))))
}

/// One of each variant.
fn samples() -> Vec<EngineError> {
    let (stream, view, sink, join) = (text("s"), text("v"), text("k"), text("j"));
    vec![
        EngineError::Runtime(RuntimeError::Query(query_errors())),
        EngineError::Runtime(RuntimeError::NoDefaultStream),
        EngineError::Runtime(RuntimeError::OfCluster(text("s"))),
        EngineError::Runtime(RuntimeError::NoQuery(text("q"))),
        EngineError::not_found(ObjectKind::Stream, "s"),
        EngineError::not_found(ObjectKind::Job, "nightly"),
        EngineError::not_found(ObjectKind::View, "v"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NoSource)),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotStored {
            stream: stream.clone(),
            by: ObjectKind::View,
        })),
        EngineError::not_found(ObjectKind::Alert, "a"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotStored {
            stream: stream.clone(),
            by: ObjectKind::Alert,
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::AlertOnItself {
            watched: text("view `v`"),
            stream: stream.clone(),
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::AlertOnViewQuery(view.clone()))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::AlertOnJoin(text("t")))),
        EngineError::AlertOfEvents,
        in_use(Role::Source, ObjectKind::Alert.named("a"), ObjectKind::Stream.named("s")),
        in_use(Role::Watches, ObjectKind::Alert.named("a"), ObjectKind::View.named("v")),
        in_use(Role::Target, ObjectKind::Alert.named("a"), ObjectKind::Stream.named("s")),
        in_use(Role::Source, ObjectKind::View.named("v"), ObjectKind::Stream.named("s")),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::InUse(Dependency::on_column(
            ObjectKind::View.named("v"),
            ObjectKind::Stream.named("s"),
            "c",
        )))),
        EngineError::not_found(ObjectKind::Sink, "k"),
        in_use(Role::Source, ObjectKind::View.named("w"), ObjectKind::View.named("v")),
        EngineError::not_found(ObjectKind::StreamJoin, "j"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotStored {
            stream: stream.clone(),
            by: ObjectKind::StreamJoin,
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::JoinOfItself(stream.clone()))),
        in_use(Role::Source, ObjectKind::StreamJoin.named("j"), ObjectKind::Stream.named("s")),
        EngineError::unavailable(ObjectKind::StreamJoin.named(join), "its file is damaged"),
        in_use(Role::Lookup, ObjectKind::View.named("v"), ObjectKind::Table.named("t")),
        EngineError::JoinedTable(text("table `t` is too large")),
        in_use(Role::Source, ObjectKind::Sink.named("k"), ObjectKind::View.named("v")),
        in_use(Role::DeadLetter, ObjectKind::Stream.named("s"), ObjectKind::Stream.named(QUARANTINE)),
        in_use(Role::Target, ObjectKind::Sink.named("k"), ObjectKind::Table.named("t")),
        EngineError::Sink(SinkError::Columns {
            table: text("t"),
            origin: format!("view `{view}`"),
            faults: vec![text("no column `c`"), text("no column `d`")],
        }),
        EngineError::Sink(SinkError::NoWindows(view.clone())),
        EngineError::Sink(SinkError::IntoItself(stream.clone())),
        EngineError::Sink(SinkError::EventsIntoItself(stream.clone())),
        EngineError::Sink(SinkError::QueryOfView(view.clone())),
        EngineError::Sink(SinkError::ColumnWithinList { stream: stream.clone(), column: text("c") }),
        EngineError::Sink(SinkError::KafkaKey { key: text("a"), names: text("window_start, a") }),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Cycle {
            stream: stream.clone(),
            way: vec![text("by sink `k` into stream `u`"), text("by join `j` into stream `s`")],
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::SinkFileTaken {
            sink,
            path: text("out.ndjson"),
        })),
        EngineError::Sink(SinkError::FileExists(text("out.ndjson"))),
        EngineError::Sink(SinkError::Target(text("no such directory"))),
        EngineError::Unfit(UnsupportedView::NoGroups),
        EngineError::Unfit(UnsupportedView::RowsNotTakenOut),
        EngineError::Unfit(UnsupportedView::WindowsOfRows),
        EngineError::ViewColumnMixed { view: view.clone(), column: text("c"), what: "texts and numbers" },
        EngineError::unavailable(ObjectKind::View.named(view.clone()), "its file is damaged"),
        EngineError::KeyValues { view: view.clone(), wanted: 1, found: 2 },
        EngineError::KeyMeanings { view, most: 64 },
        EngineError::BeyondEnd { stream: stream.clone(), position: 9, end: 5 },
        EngineError::not_found(ObjectKind::SearchIndex, "s"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::exists(ObjectKind::SearchIndex, "s"))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotStored {
            stream: stream.clone(),
            by: ObjectKind::SearchIndex,
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NothingToIndex(stream.clone()))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::ViewIndexed(text("v")))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NoIndexedColumn {
            table: ObjectKind::Stream.named("s"),
            column: text("mesage"),
            is_system: false,
            near: Some(text("message")),
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotIndexed {
            column: text("took"),
            ty: text("DOUBLE"),
            kind: IndexKind::Id,
        })),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Definition(DefinitionError::Empty))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::InUse(Dependency::on_column(
            ObjectKind::SearchIndex.named("s"),
            ObjectKind::Stream.named("s"),
            "n",
        )))),
        EngineError::not_found(ObjectKind::Endpoint, "GET /x"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::exists(ObjectKind::Endpoint, "GET /x"))),
        in_use(Role::Source, ObjectKind::Endpoint.named("GET /x"), ObjectKind::View.named("v")),
        EngineError::Expression { text: "SELECT".into(), errors: query_errors() },
        EngineError::EndpointUnfit { message: text("an endpoint has a body"), hint: "Write one." },
        EngineError::EndpointUnfit { message: text("an endpoint has a path"), hint: "" },
        EngineError::unavailable(ObjectKind::Endpoint.named("GET /x"), "its view is away"),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Schedule(ScheduleError::Cron {
            schedule: text("* *"),
            why: text("three fields are missing"),
        }))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Schedule(ScheduleError::Never(text(
            "0 0 30 2 *",
        ))))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Schedule(ScheduleError::Zone(text(
            "Europe/Nowhere",
        ))))),
        EngineError::JobRunning(text("nightly")),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::exists(ObjectKind::Stream, "s"))),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::exists(ObjectKind::Alert, "a"))),
        EngineError::Columns(ColumnsError::Default {
            column: "c".into(),
            ty: Type::Primitive(Primitive::Long),
        }),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Alter(AlterError::NoColumn {
            stream: stream.clone(),
            column: text("c"),
        }))),
        EngineError::StaysStored(stream.clone()),
        EngineError::ReadsTopic(stream.clone()),
        EngineError::TakesNoEvents(stream.clone()),
        EngineError::NotWritten { topic: text("t"), why: text("no broker answers"), is_unsure: false },
        EngineError::NotWritten { topic: text("t"), why: text("no broker answers"), is_unsure: true },
        EngineError::Source(text("the settings have no connection `main` to Kafka: they have none")),
        EngineError::TopicSchemas(text("`schema`: the file `orders.avsc` of `schema_dir` cannot be read")),
        EngineError::Skip(SkipError::NoPartition { topic: text("t"), partition: 3, partitions: 3 }),
        EngineError::Skip(SkipError::NoPosition { topic: text("t"), partition: 0 }),
        EngineError::Skip(SkipError::Behind { topic: text("t"), partition: 0, to: 5, position: 7 }),
        EngineError::Skip(SkipError::Beyond { topic: text("t"), partition: 0, to: 12, end: 10 }),
        EngineError::Skip(SkipError::Away { topic: text("t"), partition: 0, why: text("no broker answers") }),
        EngineError::Skip(SkipError::NotPersisted {
            topic: text("t"),
            partition: 0,
            why: text("the disk is full"),
        }),
        EngineError::Cluster(text("stream `s` of the cluster cannot be paused")),
        EngineError::ClusterAway(text("topic `t` cannot be written")),
        EngineError::NoCluster,
        EngineError::OtherNode {
            text: text("node `a` takes no queries over the cluster"),
            node: text("b"),
            address: Some(text("http://10.0.0.5:8080")),
        },
        EngineError::Runtime(RuntimeError::Attached(text("q"))),
        EngineError::Runtime(RuntimeError::Limit {
            what: "number of queries",
            setting: "engine.queries_max",
            wanted: 2,
            limit: 1,
        }),
        EngineError::NoHistory,
        EngineError::DiskFull,
        EngineError::DiskTooSmall {
            dir: text("data/log"),
            needed_bytes: 200,
            has_bytes: 100,
            free_bytes_min: 50,
            segment_bytes: 75,
        },
        EngineError::DiskStalled { seconds: 12 },
        EngineError::DirectoryGone(text("data/log")),
        EngineError::TooLarge { bytes: 20, bytes_max: 10 },
        EngineError::NotStored(text("the disk is away")),
        EngineError::Runtime(RuntimeError::StreamReplaced(stream)),
        EngineError::Dedup(DedupError::TooOld { producer: text("p"), sequence: 1, lowest: 7 }),
        EngineError::Dedup(DedupError::PartMissing { producer: text("p"), sequence: 1, parts: 2 }),
        EngineError::Dedup(DedupError::NumberReused { producer: text("p"), sequence: 1 }),
        EngineError::Runtime(RuntimeError::ReservedProducer(text("swiftwater/x"))),
        EngineError::not_found(ObjectKind::Table, "t"),
        EngineError::Table(text("the store is away")),
        EngineError::TableRefuses(text("the table is of another kind")),
        EngineError::Backup(BackupError::NotFound(text("b1"))),
        EngineError::Backup(BackupError::NoFile { id: text("b1"), name: text("x") }),
        EngineError::Backup(BackupError::TableDropped { table: text("t") }),
        EngineError::Backup(BackupError::TooMany { standing: 4 }),
        EngineError::Backup(BackupError::Unavailable(text("the disk is full"))),
        EngineError::Runtime(RuntimeError::ShuttingDown),
    ]
}

/// The variant's name, as `Debug` writes it.
fn variant(error: &EngineError) -> String {
    format!("{error:?}").chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect()
}

#[test]
fn every_error_is_as_the_table_has_it() {
    let mut table = String::new();
    for error in samples() {
        let sql = from_engine(error.clone());
        let hint = error.hint().map_or(String::new(), |hint| format!("\n    hint: {hint}"));
        let text = error.to_string().replace('\n', "\n    ");
        writeln!(table, "{:?} {}\n    {text}{hint}", error.kind(), sql.state()).expect("a text takes all");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/error/table.txt");
    if std::env::var_os("SWIFTWATER_BLESS").is_some() {
        std::fs::write(path, &table).expect("the table is written");
    }
    let expected = std::fs::read_to_string(path).expect("the table is there");
    assert_eq!(
        table, expected,
        "write it anew: SWIFTWATER_BLESS=1 cargo test -p swiftwater-engine every_error"
    );
}

/// The variants are counted in the source of the enum, so that none is forgotten above.
#[test]
fn table_has_every_variant() {
    let source = include_str!("../error.rs");
    let body = source.split_once("pub enum EngineError {").and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.expect("the enum is in the file");
    let declared: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default())
        .collect();
    assert!(declared.len() > 20, "{declared:?}");
    let sampled: Vec<String> = samples().iter().map(variant).collect();
    let missing: Vec<&&str> =
        declared.iter().filter(|name| !sampled.iter().any(|sample| sample == **name)).collect();
    assert!(missing.is_empty(), "without a sample: {missing:?}");
}
