//! The arrows between the rooms of the house (ARCHITECTURE.md), read from `cargo metadata`: down only, never to a room
//! on the same floor, and every heavy dependency with its owner. Files and functions of rooms that were tidied stay short.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Floors, lowest first. Rooms on one floor do not know each other.
const FLOORS: [&[&str]; 9] = [
    &["event"],
    &["sketch", "text", "schema"],
    &["lang"],
    &["live"],
    &["catalog"],
    &["runtime", "cluster", "log", "store", "search", "kafka", "views", "sql", "sinks"],
    &["engine"],
    &["server"],
    &["cli"],
];

/// The rooms that `testkit` may know. It is for tests only: others name it in their dev-dependencies.
const TESTKIT_KNOWS: [&str; 7] = ["event", "generate", "kafka", "lang", "live", "log", "store"];

/// The tools that make events, send requests and draw, beside the rooms, with the rooms that each may know. Only
/// [`TOOLS_KNOWN_BY`] know them.
const TOOLS: [(&str, &[&str]); 3] = [("generate", &[]), ("load", &["event", "generate"]), ("plot", &[])];

const TOOLS_KNOWN_BY: [&str; 4] = ["cli", "bench", "load", "testkit"];

/// The owners of dependencies that are heavy, or belong to one place; a name that ends in `*` stands for all with this
/// prefix.
const OWNERS: [(&str, &[&str]); 38] = [
    ("anyhow", &["cli", "bench"]),
    ("arrow", &["sql"]),
    ("arrow-flight", &["sql"]),
    ("arrow-json", &["bench"]),
    ("arrow-*", &["event", "sketch", "text", "live", "store", "search", "views", "sql", "engine", "bench"]),
    ("axum*", &["server", "bench"]),
    ("chrono*", &["sql", "catalog"]),
    ("clap*", &["cli", "bench"]),
    ("croner", &["catalog"]),
    ("datafusion", &["sql"]),
    ("datafusion-distributed", &["sql"]),
    ("datafusion-proto", &["sql"]),
    ("datafusion-*", &["sketch", "live", "store", "search", "sql"]),
    ("datasketches", &["sketch"]),
    ("deltalake*", &["store"]),
    ("fjall", &["views"]),
    ("hyper*", &["sql", "server", "cli", "bench"]),
    ("icu_*", &["text"]),
    ("indicatif", &["cli", "bench"]),
    ("mimalloc", &["cli", "bench"]),
    ("object_store", &["store", "testkit"]),
    ("parquet", &["store", "sql"]),
    ("plotters", &["plot"]),
    ("prost*", &["schema", "sql"]),
    ("protox*", &["schema"]),
    ("rdkafka*", &["kafka"]),
    ("reqwest", &["sinks"]),
    ("rocksdb", &["views"]),
    ("rust-embed", &["server"]),
    ("rust-stemmers", &["text"]),
    ("simdutf8", &["event"]),
    ("simd-json", &["bench"]),
    ("sonic-rs", &["bench"]),
    ("tantivy*", &["search"]),
    ("tokio*", &["runtime", "kafka", "store", "sql", "sinks", "engine", "server", "cli", "bench", "testkit"]),
    ("tonic*", &["sql"]),
    ("tower*", &["server"]),
    ("tungstenite", &["server", "cli", "bench"]),
];

/// Rooms whose source files have at most [`FILE_LINES_MAX`] lines.
const SHORT_FILES: [&str; 3] = ["catalog", "engine", "runtime"];

const FILE_LINES_MAX: usize = 500;

/// Rooms whose functions have at most [`FUNCTION_LINES_MAX`] lines.
const SHORT_FUNCTIONS: [&str; 3] = ["catalog", "engine", "runtime"];

const FUNCTION_LINES_MAX: usize = 70;

/// Functions that may be longer, by file and name: a list of test data.
const LONG_FUNCTIONS: [(&str, &str); 1] = [("engine/src/error/table.rs", "samples")];

/// The purpose of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Code,
    Tests,
}

/// A member of the workspace.
#[derive(Debug)]
struct Package {
    name: String,
    dependencies: Vec<(String, Use)>,
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The rooms that a tool may know; none for a room.
fn tool_knows(name: &str) -> Option<&'static [&'static str]> {
    TOOLS.iter().find(|(tool, _)| *tool == name).map(|(_, knows)| *knows)
}

/// The reason why `from` may not depend on `to`, both rooms; `None` if it may.
fn arrow_fault(from: &str, to: &str, wanted_for: Use) -> Option<String> {
    let fault = |why: &str| Some(format!("`{from}` depends on `{to}`: {why}"));
    match (from, to) {
        ("bench", _) => None,
        (_, "bench") => fault("nothing depends on the benchmarks"),
        ("testkit", _) => {
            if TESTKIT_KNOWS.contains(&to) {
                None
            } else {
                fault("testkit knows event, kafka, lang, live, log and store at most")
            }
        }
        _ if let Some(known) = tool_knows(from) => {
            if known.contains(&to) {
                None
            } else {
                fault("what makes events or load knows nothing of who takes them")
            }
        }
        _ if tool_knows(to).is_some() => {
            if TOOLS_KNOWN_BY.contains(&from) {
                None
            } else {
                fault("cli and bench make events and load")
            }
        }
        (_, "testkit") if wanted_for == Use::Tests => None,
        (_, "testkit") => fault("testkit is for tests: name it in [dev-dependencies]"),
        _ => match (floor(from), floor(to)) {
            (Some(above), Some(below)) if above > below => None,
            (Some(above), Some(below)) if above == below => fault("they are on one floor"),
            (Some(_), Some(_)) => fault("it is above"),
            (None, _) => fault("the first is no room that this test knows"),
            (_, None) => fault("the second is no room that this test knows"),
        },
    }
}

/// True if an entry of [`OWNERS`] is about a crate.
fn is_about(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == entry,
    }
}

fn faults(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages {
        let Some(room) = package.name.strip_prefix("swiftwater-") else {
            faults.push(format!("`{}`: packages are named swiftwater-ROOM", package.name));
            continue;
        };
        if floor(room).is_none() && !["testkit", "bench"].contains(&room) && tool_knows(room).is_none() {
            faults.push(format!("`{room}` is no room that this test knows: give it a floor"));
        }
        for (name, wanted_for) in &package.dependencies {
            if let Some(to) = name.strip_prefix("swiftwater-") {
                faults.extend(arrow_fault(room, to, *wanted_for));
                continue;
            }
            let entry = OWNERS.iter().find(|(entry, _)| is_about(entry, name));
            if let Some((_, owners)) = entry
                && *wanted_for == Use::Code
                && !owners.contains(&room)
            {
                faults.push(format!("`{room}` depends on `{name}`, which belongs to {}", owners.join(", ")));
            }
        }
    }
    faults
}

fn package(value: &Value) -> Package {
    let dependencies = value["dependencies"].as_array().into_iter().flatten();
    Package {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        dependencies: dependencies
            .map(|dependency| {
                let wanted_for = if dependency["kind"] == "dev" { Use::Tests } else { Use::Code };
                (dependency["name"].as_str().unwrap_or_default().to_owned(), wanted_for)
            })
            .collect(),
    }
}

fn workspace() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("it lists packages").iter().map(package).collect()
}

fn made_up(name: &str, dependencies: &[(&str, Use)]) -> Package {
    Package {
        name: format!("swiftwater-{name}"),
        dependencies: dependencies
            .iter()
            .map(|(name, wanted_for)| ((*name).to_owned(), *wanted_for))
            .collect(),
    }
}

fn faults_of(name: &str, dependency: &str, wanted_for: Use) -> Vec<String> {
    faults(&[made_up(name, &[(dependency, wanted_for)])])
}

#[test]
fn arrows_of_the_workspace_point_down() {
    let packages = workspace();
    let names: HashSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for expected in
        ["event", "sketch", "lang", "live", "engine", "server", "cli", "testkit", "generate", "bench"]
    {
        assert!(names.contains(format!("swiftwater-{expected}").as_str()), "no `{expected}` in {names:?}");
    }
    let faults = faults(&packages);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn arrow_down_is_right() {
    assert_eq!(faults_of("live", "swiftwater-event", Use::Code), [""; 0]);
    assert_eq!(faults_of("cli", "swiftwater-engine", Use::Code), [""; 0]);
    assert_eq!(faults_of("sql", "swiftwater-sketch", Use::Code), [""; 0]);
}

#[test]
fn arrow_up_is_wrong_even_for_tests() {
    assert_eq!(faults_of("event", "swiftwater-lang", Use::Code), ["`event` depends on `lang`: it is above"]);
    assert_eq!(
        faults_of("live", "swiftwater-engine", Use::Tests),
        ["`live` depends on `engine`: it is above"]
    );
}

#[test]
fn arrow_sideways_is_wrong() {
    assert_eq!(
        faults_of("store", "swiftwater-sql", Use::Code),
        ["`store` depends on `sql`: they are on one floor"]
    );
}

#[test]
fn unknown_room_is_wrong() {
    assert_eq!(
        faults_of("utils", "serde", Use::Code),
        ["`utils` is no room that this test knows: give it a floor"]
    );
    assert_eq!(faults(&[Package { name: "helpers".to_owned(), dependencies: Vec::new() }]).len(), 1);
    assert_eq!(faults_of("cli", "swiftwater-common", Use::Code).len(), 1);
}

#[test]
fn testkit_is_for_tests_and_knows_little() {
    assert_eq!(faults_of("live", "swiftwater-testkit", Use::Tests), [""; 0]);
    assert_eq!(faults_of("live", "swiftwater-testkit", Use::Code).len(), 1);
    assert_eq!(faults_of("bench", "swiftwater-testkit", Use::Code), [""; 0]);
    assert_eq!(faults_of("testkit", "swiftwater-lang", Use::Code), [""; 0]);
    assert_eq!(faults_of("testkit", "swiftwater-engine", Use::Tests).len(), 1);
    assert_eq!(faults_of("cli", "swiftwater-bench", Use::Tests).len(), 1);
}

#[test]
fn tools_stand_apart() {
    assert_eq!(faults_of("cli", "swiftwater-generate", Use::Code), [""; 0]);
    assert_eq!(faults_of("bench", "swiftwater-generate", Use::Code), [""; 0]);
    assert_eq!(faults_of("engine", "swiftwater-generate", Use::Tests).len(), 1);
    assert_eq!(faults_of("generate", "swiftwater-event", Use::Code).len(), 1);
    assert_eq!(faults_of("load", "swiftwater-event", Use::Code), [""; 0]);
    assert_eq!(faults_of("load", "swiftwater-server", Use::Tests).len(), 1);
    assert_eq!(faults_of("server", "swiftwater-load", Use::Tests).len(), 1);
}

#[test]
fn heavy_dependency_has_its_owner() {
    assert_eq!(faults_of("server", "axum", Use::Code), [""; 0]);
    assert_eq!(faults_of("live", "tokio", Use::Code).len(), 1);
    assert_eq!(faults_of("live", "tokio", Use::Tests), [""; 0]);
    assert_eq!(
        faults_of("engine", "anyhow", Use::Code),
        ["`engine` depends on `anyhow`, which belongs to cli, bench"]
    );
    assert_eq!(faults_of("server", "arrow-array", Use::Code).len(), 1);
    assert_eq!(faults_of("live", "arrow", Use::Code), ["`live` depends on `arrow`, which belongs to sql"]);
}

/// All Rust files below `directory`.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of sources is read") {
        let path = entry.expect("an entry of a directory is read").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The source files of some rooms: their paths below `crates`, and their texts.
fn sources(rooms: &[&str]) -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates lie in one directory");
    let mut sources = Vec::new();
    for room in rooms {
        for path in rust_files(&crates.join(room).join("src")) {
            let file = path.strip_prefix(crates).expect("it lies below `crates`");
            let file = file.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
            sources.push((file, fs::read_to_string(&path).expect("a source file is read")));
        }
    }
    sources
}

#[test]
fn source_files_are_short() {
    let sources = sources(&SHORT_FILES);
    let mut faults = Vec::new();
    for (file, text) in &sources {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("`{file}` has {lines} lines, at most are {FILE_LINES_MAX}: split it"));
        }
    }
    assert!(sources.len() > 150, "only {} files were found", sources.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The name of the function whose declaration begins in a line; none where none does.
fn function_name(line: &str) -> Option<&str> {
    let is_qualifier = |word: &&str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word);
    let mut words = line.split_whitespace().skip_while(is_qualifier);
    if words.next()? != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

/// The functions of a source text, as rustfmt lays them out, with their lines from the signature to the closing brace.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (start, &first) in lines.iter().enumerate() {
        let Some(name) = function_name(first) else { continue };
        // A declaration without a body, or with one on the same line, is short.
        let signature_end = lines[start..].iter().find(|line| line.ends_with(['{', '}', ';']));
        let has_body = signature_end.is_some_and(|line| line.ends_with('{'));
        if !has_body {
            continue;
        }
        let indent = &first[..first.len() - first.trim_start().len()];
        let end = lines[start..].iter().position(|line| line.strip_prefix(indent) == Some("}"));
        functions.extend(end.map(|end| (name, end + 1)));
    }
    functions
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    let mut found = 0;
    for (file, text) in sources(&SHORT_FUNCTIONS) {
        for (name, lines) in functions(&text) {
            if lines > FUNCTION_LINES_MAX && !LONG_FUNCTIONS.contains(&(&*file, name)) {
                faults.push(format!(
                    "`{name}` in `{file}` has {lines} lines, at most are {FUNCTION_LINES_MAX}: split it"
                ));
            }
            found += 1;
        }
    }
    assert!(found > 1500, "only {found} functions were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn function_ends_with_its_brace() {
    let text = [
        "impl A {",
        "    /// fn z",
        "    pub(crate) async fn a<T>(",
        "        &self,",
        "    ) -> B {",
        "        if c {",
        "        }",
        "    }",
        "}",
        "trait D {",
        "    fn e(&self);",
        "}",
        "fn f() {}",
        "const fn g() {",
        "}",
    ];
    assert_eq!(functions(&text.join("\n")), [("a", 6), ("g", 2)]);
}
