//! Tests that every query in the documents parses: blocks of the language `bql`, in the native dialect.

use std::path::{Path, PathBuf};

use swiftwater_event::Type;
use swiftwater_lang::{Dialect, Joined, ParseOptions, ddl::split_statements, parse, parse_ddl};

/// The objects that the documents join.
fn joined() -> [Joined; 2] {
    let joined = |name: &str, key, columns: [&str; 3]| Joined {
        name: name.into(),
        id: 0,
        key,
        columns: columns.iter().map(|column| ((*column).into(), Type::Any)).collect(),
    };
    [
        joined("users", Some(vec![Some(0)]), ["id", "country", "name"]),
        joined("shops", None, ["id", "city", "kind"]),
    ]
}

/// The Markdown files of a folder and of those in it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of documents") {
        let path = entry.expect("a document").path();
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

#[test]
fn queries_of_the_documents_are_queries() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let joined = joined();
    let options = ParseOptions { joined: Some(&joined), ..ParseOptions::new(Dialect::Native, 0) };
    let mut found = 0;
    for path in pages(&docs) {
        let text = std::fs::read_to_string(&path).expect("a document is text");
        let blocks = text.split("```bql\n").skip(1).filter_map(|rest| rest.split("```").next());
        for block in blocks {
            found += 1;
            if let Err(errors) = parse(block, &options) {
                panic!("{}: {block}\n{errors}", path.display());
            }
        }
    }
    assert!(found > 5, "{found} queries in {}", docs.display());
}

#[test]
fn declarations_of_the_documents_are_declarations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/streams.md");
    let text = std::fs::read_to_string(path).expect("a document is text");
    let blocks = text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut found = 0;
    for statement in blocks.flat_map(split_statements) {
        // Tables that the examples need are created by SQL's own statements.
        if statement.text.trim_start().starts_with("CREATE TABLE") {
            continue;
        }
        found += 1;
        match parse_ddl(statement.text, &ParseOptions::new(Dialect::Native, 0)) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("not a declaration: {}", statement.text),
            Err(errors) => panic!("{}\n{errors}", statement.text),
        }
    }
    assert!(found > 10, "{found} declarations");
}
