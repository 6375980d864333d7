//! Tests of search indexes in the catalog: their statements, and that they read back.

use swiftwater_event::Type;
use swiftwater_lang::ddl::Ddl;

use super::*;
use crate::{Change, ChangeRecord, Snapshot, kind::search_index::SearchIndexes, statement::read};

/// A catalog with streams, a view and a table. `logs` has a column of each type.
fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for text in [
        "CREATE STREAM logs (message STRING, Title STRING, status LONG, small INTEGER, took DOUBLE, ok BOOLEAN, \
         tags LIST[STRING], sizes LIST[DOUBLE], attributes MAP[LONG], body JSON, at TIMESTAMP)",
        "CREATE STREAM found WITH (store = true)",
        "CREATE STREAM live (message STRING) WITH (store = false)",
    ] {
        carry_out(&mut catalog, text).unwrap();
    }
    let columns = vec![("trace".into(), "STRING".to_owned())];
    catalog.apply(&ChangeRecord::new(7, Change::Found { stream: 1, columns })).unwrap();
    let view =
        "CREATE MATERIALIZED VIEW v AS SELECT message, COUNT(*) AS n FROM STREAM(logs) GROUP BY message";
    let view = Change::View { text: view.to_owned(), from: 0, tables: Vec::new() };
    catalog.apply(&ChangeRecord::new(7, view)).unwrap();
    // A stream that is live-only leaves its name free for a table.
    catalog.plain.extend(["names".into(), "live".into()]);
    catalog
}

/// The columns of a stream, or of a table.
fn columns(catalog: &Catalog, table: &str) -> Vec<IndexedColumn> {
    match catalog.indexed_object(table) {
        Ok(Object { kind: ObjectKind::Stream, .. }) => catalog.known_stream(table).unwrap().indexed_columns(),
        _ => vec![IndexedColumn::new("name", &Type::STRING), IndexedColumn::new("n", &Type::LONG)],
    }
}

fn carry_out(catalog: &mut Catalog, text: &str) -> Result<bool, CatalogError> {
    let change = match read(text).unwrap() {
        Ddl::CreateSearchIndex(create) => {
            catalog.check_create_index(&create, &columns(catalog, &create.table))?
        }
        Ddl::AlterSearchIndex(alter) => catalog.check_alter_index(&alter, &columns(catalog, &alter.table))?,
        ddl => catalog.check(&ddl)?,
    };
    let Some(change) = change else { return Ok(false) };
    let record = ChangeRecord::new(7, change);
    catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
    Ok(true)
}

/// The declaration of an index on one line, or the error with its hint.
fn outcome(catalog: &mut Catalog, text: &str) -> String {
    match carry_out(catalog, text) {
        Ok(is_changed) => is_changed.to_string(),
        Err(error) => match error.hint() {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        },
    }
}

fn shown(catalog: &Catalog, table: &str) -> String {
    let entry = catalog.search_indexes().get(table).unwrap();
    let text = entry.create.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{} {text}", entry.id)
}

#[test]
fn indexes_are_of_stored_streams_and_tables_and_one_each() {
    let mut catalog = catalog();
    let mut check = |text: &str, expected: &str| assert_eq!(outcome(&mut catalog, text), expected, "{text}");
    check("CREATE SEARCH INDEX ON logs (message TEXT)", "true");
    check("CREATE SEARCH INDEX ON logs (*)", "search index on `logs` already exists");
    check("CREATE SEARCH INDEX IF NOT EXISTS ON logs (nothing TEXT)", "false");
    check("CREATE SEARCH INDEX ON names (name TEXT, n ID)", "true");
    check("CREATE SEARCH INDEX ON live (name TEXT)", "true");
    check(
        "CREATE SEARCH INDEX ON v (*)",
        "a search index needs a stored stream or a table, and `v` is a view (Create the index on the stream that the view \
         reads.)",
    );
    check(
        "CREATE SEARCH INDEX ON nothing (*)",
        "no stream or table `nothing` (SHOW STREAMS and SHOW TABLES list the names.)",
    );
    check("CREATE STREAM alive", "true");
    check(
        "CREATE SEARCH INDEX ON alive (*)",
        "a search index needs a stored stream or a table, and `alive` is live-only (ALTER STREAM alive SET (store = true) \
         stores its events from then on.)",
    );
    check("DROP SEARCH INDEX ON names", "true");
    check(
        "DROP SEARCH INDEX ON names",
        "no search index on `names` (SHOW SEARCH INDEXES lists all search indexes.)",
    );
    check("DROP SEARCH INDEX IF EXISTS ON names", "false");
    check(
        "ALTER SEARCH INDEX ON names ADD *",
        "no search index on `names` (SHOW SEARCH INDEXES lists all search indexes.)",
    );
    check("DESCRIBE SEARCH INDEX ON logs", "false");
    check("ALTER SEARCH INDEX ON logs REBUILD", "false");
}

#[test]
fn columns_have_the_names_and_the_types_of_their_table() {
    let mut catalog = catalog();
    let mut check = |text: &str, expected: &str| {
        let created = outcome(&mut catalog, &format!("CREATE SEARCH INDEX ON {text}"));
        let table = text.split(' ').next().unwrap();
        let shown = if created == "true" { shown(&catalog, table) } else { created };
        assert_eq!(shown, expected, "{text}");
        carry_out(&mut catalog, &format!("DROP SEARCH INDEX IF EXISTS ON {table}")).unwrap();
    };
    check(
        "logs (Message TEXT, title TEXT, title ID, TITLE FACET, *) WITH (default = (TITLE))",
        "0 CREATE SEARCH INDEX ON logs ( message TEXT, Title TEXT, Title ID, Title FACET, * ) WITH (default = (Title))",
    );
    check("logs (mesage TEXT)", "no column `mesage` in stream `logs` (Did you mean `message`?)");
    check(
        "logs (*) WITH (default = (zzz))",
        "no column `zzz` in stream `logs` (DESCRIBE logs lists the columns; a stream without declared columns has those that \
         its events had so far.)",
    );
    check(
        "logs (_Event TEXT)",
        "no column `_Event` in stream `logs` (The server makes this column; `*` covers the text of `_event`.)",
    );
    check("names (nme TEXT)", "no column `nme` in table `names` (Did you mean `name`?)");
    check("names (zzz TEXT)", "no column `zzz` in table `names` (DESCRIBE names lists the columns.)");
    check("found (trace ID CORRELATION)", "1 CREATE SEARCH INDEX ON found ( trace ID CORRELATION )");
    // Each type as each kind.
    let of_texts = ["message", "tags", "body"];
    let of_whole = ["status", "small", "ok", "attributes"];
    let others = ["took", "sizes", "at"];
    for column in of_texts.iter().chain(&of_whole).chain(&others) {
        let (has_texts, has_whole) = (of_texts.contains(column), !others.contains(column));
        let kinds = [("TEXT", has_texts), ("ID", has_whole), ("FACET", has_whole), ("FACET '/'", has_texts)];
        for (kind, is_possible) in kinds {
            let text = format!("CREATE SEARCH INDEX ON logs ({column} {kind})");
            let created = outcome(&mut catalog.clone(), &text);
            assert_eq!(created == "true", is_possible, "{text}: {created}");
        }
    }
    let mut check = |text: &str, expected: &str| assert_eq!(outcome(&mut catalog, text), expected, "{text}");
    check(
        "CREATE SEARCH INDEX ON logs (took ID)",
        "column `took` is DOUBLE, and cannot be indexed as ID (ID is for texts, whole numbers and booleans, and for lists, \
         maps and JSON of them.)",
    );
    check(
        "CREATE SEARCH INDEX ON logs (*) WITH (default = (status))",
        "column `status` is LONG, and cannot be indexed as TEXT (TEXT is for texts, and for lists, maps and JSON with texts.)",
    );
    check(
        "CREATE SEARCH INDEX ON logs (status FACET '/')",
        "column `status` is LONG, and cannot be indexed as FACET (FACET is for texts, whole numbers and booleans; with a \
         separator, for texts.)",
    );
}

#[test]
fn each_definition_has_a_number_of_its_own() {
    let mut catalog = catalog();
    let mut numbers = Vec::new();
    for text in [
        "CREATE SEARCH INDEX ON logs (message TEXT)",
        "ALTER SEARCH INDEX ON logs ADD TITLE TEXT, SET (default = (title))",
        "ALTER SEARCH INDEX ON logs DROP title, RESET (default)",
        "DROP SEARCH INDEX ON logs",
        "CREATE SEARCH INDEX ON logs (message TEXT)",
    ] {
        assert!(carry_out(&mut catalog, text).unwrap(), "{text}");
        numbers.extend(catalog.search_indexes().of("logs").map(|entry| entry.id));
    }
    assert_eq!(numbers, [0, 1, 2, 3]);
    let same = "ALTER SEARCH INDEX ON logs DROP message, ADD message TEXT";
    assert!(!carry_out(&mut catalog, same).unwrap(), "the definition is the same");
    let refused = "ALTER SEARCH INDEX ON logs ADD status ID, DROP message, ADD at ID";
    assert!(carry_out(&mut catalog, refused).is_err());
    assert_eq!(shown(&catalog, "logs"), "3 CREATE SEARCH INDEX ON logs ( message TEXT )", "all or nothing");
}

#[test]
fn index_is_dropped_with_its_stream_and_holds_the_types_of_columns() {
    let mut catalog = catalog();
    for text in [
        "CREATE SEARCH INDEX ON logs (status ID, small ID, *)",
        "CREATE SEARCH INDEX ON live (name TEXT)",
        "DROP STREAM live",
    ] {
        assert!(carry_out(&mut catalog, text).unwrap(), "{text}");
    }
    assert!(catalog.search_indexes().of("live").is_some(), "it is of the table, not of the live-only stream");
    let mut check = |text: &str, expected: &str| assert_eq!(outcome(&mut catalog, text), expected, "{text}");
    check(
        "ALTER STREAM logs ALTER COLUMN status TYPE DOUBLE",
        "search index on `logs` reads column `status` of stream `logs` (ALTER SEARCH INDEX ON logs DROP status first.)",
    );
    check("ALTER STREAM logs ALTER COLUMN small TYPE LONG, ADD COLUMN more STRING", "true");
    check("ALTER SEARCH INDEX ON logs DROP status", "true");
    check("ALTER STREAM logs ALTER COLUMN status TYPE DOUBLE", "true");
    check("DROP VIEW IF EXISTS v", "true");
    check("DROP STREAM logs", "true");
    assert!(catalog.search_indexes().of("logs").is_none());
    assert!(carry_out(&mut catalog, "CREATE STREAM logs (message STRING)").unwrap());
    assert!(catalog.search_indexes().of("logs").is_none(), "another stream of the name has no index");
}

/// Data directories of this version are read by all later ones.
#[test]
fn changes_and_snapshots_have_the_form_that_was_written_first() {
    let mut catalog = catalog();
    let create = "CREATE SEARCH INDEX ON logs (message TEXT (stem = 'english') BOOST 2, body FACET '/', *)";
    let Ddl::CreateSearchIndex(create) = read(create).unwrap() else { panic!() };
    let change = catalog.check_create_index(&create, &columns(&catalog, "logs")).unwrap().unwrap();
    let text = r"CREATE SEARCH INDEX ON logs (\n  message TEXT (stem = 'english') BOOST 2,\n  body FACET '/',\n  *\n)";
    let record = format!(r#"{{"format":1,"at":7,"change":{{"ddl":"{text}"}}}}"#);
    assert_eq!(String::from_utf8(ChangeRecord::new(7, change).to_bytes()).unwrap(), record);
    catalog.apply(&ChangeRecord::from_bytes(record.as_bytes()).unwrap()).unwrap();
    let bytes = catalog.snapshot(9, |_| None).to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let expected = format!(r#"{{"indexes":[{{"created":7,"id":0,"text":"{text}"}}],"next":1}}"#);
    assert_eq!(json["search_indexes"], serde_json::from_str::<serde_json::Value>(&expected).unwrap());
    let again = Catalog::from_snapshot(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
    assert_eq!(again, catalog);
    // Snapshots of earlier versions have none.
    let older = br#"{"format": 1, "written_by": "0.1.0", "position": 5, "next_stream": 1, "streams": []}"#;
    let older = Catalog::from_snapshot(&Snapshot::from_bytes(older).unwrap()).unwrap();
    assert_eq!(older.search_indexes(), &SearchIndexes::default());
}

/// A crash between the creation of a table and the list of tables loses neither the table nor its index.
#[test]
fn index_of_a_table_that_is_not_listed_yet_is_read() {
    let mut catalog = Catalog::default();
    let text = "CREATE SEARCH INDEX ON names (name TEXT)";
    catalog.apply(&ChangeRecord::new(7, Change::Ddl(text.to_owned()))).unwrap();
    assert!(catalog.search_indexes().of("names").is_some());
}
