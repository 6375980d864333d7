//! The floors of the rooms `engine`, `runtime` and `catalog` (ARCHITECTURE.md), read from the paths in their sources: a file
//! knows only what lies on floors below it, or in its own module. The exceptions of a room are listed in
//! [`Room::arrows_up`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// A room and its floors.
struct Room {
    name: &'static str,
    /// The modules by floor, lowest first. Modules on one floor do not know each other. A module that is not listed belongs to
    /// the one that it is in.
    floors: &'static [&'static [&'static str]],
    /// The arrows that point up, from file to file, each as it is needed. No other may come; one that is gone leaves this list.
    arrows_up: &'static [(&'static str, &'static str)],
}

/// The state of the engine is one structure whose parts refer to it, and whose parts on upper floors it owns.
const ENGINE: Room = Room {
    name: "engine",
    floors: &[
        &["answer", "companions", "config", "error", "status"],
        &["history_error", "searches", "sql_nodes"],
        &["supervisor"],
        &["shared"],
        &["durable"],
        &["tables"],
        &["ddl"],
        &["objects/kafka_schemas", "objects/lookup_join"],
        &["objects/views"],
        &["objects/sinks"],
        &[
            "objects/alerts",
            "objects/durable_query",
            "objects/endpoints",
            "objects/jobs",
            "objects/saved",
            "objects/search_indexes",
            "objects/stream_joins",
        ],
        &["objects/streams"],
        &["objects/kafka_sources"],
        &["objects/cluster"],
        &["objects"],
        &["backup", "durable_objects", "search", "statements"],
        &["saved"],
        &["engine"],
    ],
    arrows_up: &[
        ("durable/history", "backup"),
        ("durable/history", "objects"),
        ("durable/reconcile", "tables"),
        ("shared", "durable/history"),
        ("shared", "durable/stored_stream"),
        ("shared", "tables"),
        ("supervisor", "durable/history"),
        ("supervisor/registry", "durable/history"),
    ],
};

/// The handle of a query names the stream that it stands on, if that has its own time, and a stream has its running queries.
const RUNTIME: Room = Room {
    name: "runtime",
    floors: &[
        &[
            "append",
            "config",
            "lines",
            "lock_order",
            "panic_guard",
            "principal",
            "query",
            "query/id",
            "query/totals",
        ],
        &[
            "byte_budget",
            "error",
            "limits",
            "query/linger",
            "query/options",
            "rate",
            "status",
            "steady_clock",
            "threads",
        ],
        &["emit", "event_paths", "operator"],
        &["coverage", "subscriber_queue"],
        &["query/resume_point"],
        &["query/handle"],
        &["query/active"],
        &["merge"],
        &["stream"],
        &["durable", "indexer", "operator_members", "run_queue"],
        &["shared"],
        &["query/fan_out", "query/finish", "query/submit", "subscription", "ticker"],
        &["shard"],
        &["remote"],
        &["runtime"],
        &["query/analyze", "query/listing", "query/validate", "query/warnings", "stream/listing"],
        &["input"],
    ],
    arrows_up: &[("query/handle", "stream"), ("query/options", "stream"), ("query/resume_point", "stream")],
};

const CATALOG: Room = Room {
    name: "catalog",
    floors: &[
        &["kind", "kind/durable_query", "kind/lookup_join", "object", "schedule"],
        &["dependency/edge", "kind/alert"],
        &["error"],
        &["format", "kind/endpoint", "kind/job", "kind/saved", "kind/sink", "statement"],
        &["kind/stream", "kind/stream_join", "kind/view", "kind/search_index"],
        &["catalog"],
        &["change", "cycles", "dependency", "wire"],
    ],
    arrows_up: &[],
};

/// The path of a module or an item, without `crate`: `["durable", "history", "History"]`.
type ItemPath = Vec<String>;

/// The sources of a crate: the text of each module, by its path.
type Sources = BTreeMap<ItemPath, String>;

/// The paths that a module re-exports, by the module and the name that they have there.
type Reexports = BTreeMap<(ItemPath, String), ItemPath>;

/// A path in a `use`, and the name that it has in the module.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    path: ItemPath,
    name: String,
    is_reexport: bool,
}

/// The text of a module without comments, and without its tests.
fn without_tests(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let end = code.find("#[cfg(test)]\nmod tests");
    code[..end.unwrap_or(code.len())].to_owned()
}

/// The parts of a list of imports, which are separated by commas outside of inner braces.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (place, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The names between the colons of a path.
fn steps(path: &str) -> ItemPath {
    path.split("::").map(str::trim).filter(|step| !step.is_empty()).map(str::to_owned).collect()
}

/// Adds the imports of a tree such as `a::{b, c::{d, e as f}}`.
fn expand(tree: &str, before: &[String], is_reexport: bool, imports: &mut Vec<Import>) {
    if let Some((head, rest)) = tree.split_once('{') {
        let before = [before, &steps(head)].concat();
        let list = rest.rsplit_once('}').map_or(rest, |(list, _)| list);
        parts(list).into_iter().for_each(|part| expand(part, &before, is_reexport, imports));
        return;
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let path = [before, &steps(path)].concat();
    let Some(last) = path.last() else { return };
    let name = alias.unwrap_or(last).trim().to_owned();
    imports.push(Import { path, name, is_reexport });
}

/// The imports of a module, and the other paths in it that begin with `crate` or `super`.
fn imports(code: &str) -> Vec<Import> {
    let used = Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").expect("a valid pattern");
    let named = Regex::new(r"\b(?:crate|super)(?:::\w+)+").expect("a valid pattern");
    let mut imports = Vec::new();
    for statement in used.captures_iter(code) {
        expand(&statement[2], &[], statement.get(1).is_some(), &mut imports);
    }
    let rest = used.replace_all(code, "");
    named.find_iter(&rest).for_each(|path| expand(path.as_str(), &[], false, &mut imports));
    imports
}

/// The path from the root of the crate; none for a path into another crate.
fn from_root(module: &[String], path: &[String], sources: &Sources) -> Option<ItemPath> {
    let first = path.first()?.as_str();
    match first {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let levels = path.iter().take_while(|step| *step == "super").count();
            let ancestor = &module[..module.len().saturating_sub(levels)];
            Some([ancestor, &path[levels..]].concat())
        }
        _ => {
            let child = [module, &path[..1]].concat();
            sources.contains_key(&child).then(|| [module, path].concat())
        }
    }
}

fn reexports(sources: &Sources) -> Reexports {
    let mut reexports = Reexports::new();
    for (module, code) in sources {
        for Import { path, name, is_reexport } in imports(code) {
            if let Some(path) = from_root(module, &path, sources).filter(|_| is_reexport) {
                reexports.insert((module.clone(), name), path);
            }
        }
    }
    reexports
}

/// The module that a path from the root leads to, where re-exports are followed.
fn target(path: &[String], sources: &Sources, reexports: &Reexports) -> ItemPath {
    const REEXPORTS_MAX: usize = 6;
    let mut path = path.to_vec();
    for _ in 0..REEXPORTS_MAX {
        let is_module = |length: &usize| sources.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(is_module).unwrap_or(0);
        let reexported = path.get(length).and_then(|name| {
            let known = reexports.get(&(path[..length].to_vec(), name.clone()))?;
            Some([known, &path[length + 1..]].concat())
        });
        match reexported {
            Some(further) => path = further,
            None => return path[..length].to_vec(),
        }
    }
    path
}

/// The arrows between modules.
fn arrows(sources: &Sources) -> BTreeSet<(ItemPath, ItemPath)> {
    let reexports = reexports(sources);
    let mut arrows = BTreeSet::new();
    for (module, code) in sources {
        for Import { path, is_reexport, .. } in imports(code) {
            let Some(path) = from_root(module, &path, sources) else { continue };
            let to = target(&path, sources, &reexports);
            if !is_reexport && to != *module {
                arrows.insert((module.clone(), to));
            }
        }
    }
    arrows
}

impl Room {
    /// The floor of a module, and the entry of [`Room::floors`] that it belongs to; none for the root.
    fn floor(&self, module: &[String]) -> Option<(usize, &'static str)> {
        let path = module.join("/");
        let floors = self.floors.iter().enumerate();
        let floors = floors.flat_map(|(floor, names)| names.iter().map(move |name| (floor, *name)));
        let contains = |name: &str| path == name || path.starts_with(&format!("{name}/"));
        floors.filter(|(_, name)| contains(name)).max_by_key(|(_, name)| name.len())
    }
}

/// The arrows that do not point down, as `from` and `to`.
fn arrows_up(room: &Room, sources: &Sources) -> Vec<(String, String)> {
    let mut up = Vec::new();
    for (from, to) in arrows(sources) {
        let (Some(below), Some(above)) = (room.floor(&from), room.floor(&to)) else { continue };
        if below.0 <= above.0 && below.1 != above.1 {
            up.push((from.join("/"), to.join("/")));
        }
    }
    up
}

/// All Rust files below `directory`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of sources is read") {
        let path = entry.expect("an entry of a directory is read").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

/// The sources of a room without its tests.
fn sources_of(room: &Room) -> Sources {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates lie in one directory");
    let root = crates.join(room.name).join("src");
    let module = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a source file is read");
        let path = file.strip_prefix(&root).expect("it lies below the root").with_extension("");
        let mut path: ItemPath = path.iter().map(|step| step.to_string_lossy().into_owned()).collect();
        path.pop_if(|last| last == "mod" || last == "lib");
        (path, text)
    };
    let texts: Sources = files(&root).into_iter().map(module).collect();
    let is_test = |path: &ItemPath| {
        let Some((name, parent)) = path.split_last() else { return false };
        texts[parent].contains(&format!("#[cfg(test)]\nmod {name};"))
    };
    let sources = texts.iter().filter(|(path, _)| !is_test(path));
    sources.map(|(path, text)| (path.clone(), without_tests(text))).collect()
}

fn check(room: &Room, modules_min: usize) {
    let sources = sources_of(room);
    assert!(sources.len() > modules_min, "only {} modules were found", sources.len());
    let without_floor: Vec<_> =
        sources.keys().filter(|module| !module.is_empty() && room.floor(module).is_none()).collect();
    assert!(without_floor.is_empty(), "give these modules a floor: {without_floor:?}");
    let up = arrows_up(room, &sources);
    let known: Vec<(String, String)> =
        room.arrows_up.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    assert_eq!(up, known, "the arrows that do not point down, and those that may not");
}

#[test]
fn arrows_of_the_engine_point_down() {
    check(&ENGINE, 100);
}

#[test]
fn arrows_of_the_runtime_point_down() {
    check(&RUNTIME, 50);
}

#[test]
fn arrows_of_the_catalog_point_down() {
    check(&CATALOG, 20);
}

fn path(text: &str) -> ItemPath {
    text.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect()
}

fn made_up(modules: &[(&str, &str)]) -> Sources {
    modules.iter().map(|(name, text)| (path(name), without_tests(text))).collect()
}

#[test]
fn imports_are_read_from_trees_and_from_paths() {
    let code = "use crate::{a::B, c::{D, e::F as G}};\npub(crate) use x::Y;\nfn f() { super::h::run() }\n";
    let found: Vec<(String, String, bool)> = imports(code)
        .into_iter()
        .map(|Import { path, name, is_reexport }| (path.join("/"), name, is_reexport))
        .collect();
    let expected = [
        ("crate/a/B", "B", false),
        ("crate/c/D", "D", false),
        ("crate/c/e/F", "G", false),
        ("x/Y", "Y", true),
        ("super/h/run", "run", false),
    ];
    let expected: Vec<_> =
        expected.map(|(path, name, is_reexport)| (path.to_owned(), name.to_owned(), is_reexport)).into();
    assert_eq!(found, expected);
}

#[test]
fn arrow_up_is_found_through_a_reexport_and_not_in_tests() {
    let sources = made_up(&[
        ("", ""),
        ("durable", ""),
        ("durable/history", "use crate::objects::views::View;\n// use crate::engine::Engine;\n"),
        (
            "durable/append",
            "use super::history::History;\n#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}",
        ),
        ("objects", ""),
        ("objects/views", "mod view;\npub(crate) use view::View;\n"),
        ("objects/views/view", "use crate::durable::history::History;\n"),
        ("objects/jobs", "use crate::objects::alerts::Alert;"),
        ("objects/alerts", ""),
        ("engine", "use crate::objects::views::View;"),
    ]);
    let expected = [("durable/history", "objects/views/view"), ("objects/jobs", "objects/alerts")];
    let expected: Vec<_> = expected.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
    assert_eq!(arrows_up(&ENGINE, &sources), expected);
}
